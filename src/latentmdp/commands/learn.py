"""`latentmdp learn MODEL`: run Algorithm 1 in a simulated model; regret with its bounds."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentmdp.commands import options as option
from latentmdp.commands.common import check_range, read_model
from latentmdp.commands.compile_ahead import compiling_ahead
from latentmdp.commands.output import (
    PartlyDoneError,
    Progress,
    ShownUnits,
    print_json,
    print_table,
    print_text,
)
from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from latentmdp.commands.runs import RunTask
    from latentmdp.learning.spec import RunSpec
    from latentmdp.model.latent_mdp import LatentMDP

SEEDS = "seeds.json"  # written last: without it, a folder of several seeds is incomplete
MOST_RUNS = 100_000  # runs of one command
GOES_WITH_RESUME = ("resume", "jobs", "json", "user_units")


def learn_command(
    ctx: typer.Context,
    model: option.OptionalModel = None,
    algorithm: option.Algorithm = "mvp",
    episodes: option.Episodes = 10**6,
    policy_class: option.PolicyClass = "markov",
    seed: option.Seed = 0,
    seeds: Annotated[
        int | None,
        option.whole("--seeds N", "Run N times in parallel, with N consecutive seeds."),
    ] = None,
    delta: Annotated[
        float, option.new("--delta D", "Allowed probability that a confidence set is wrong.")
    ] = 0.1,
    bonus_scale: option.BonusScale = 1.0,
    simulator: Annotated[
        str,
        option.new(
            "--simulator NAME",
            "counts (fast) or episodes (step by step); both give the same distribution.",
        ),
    ] = "counts",
    ties: Annotated[
        str,
        option.new(
            "--ties NAME",
            "How to choose among equally optimistic policies: secondary or incumbent.",
        ),
    ] = "secondary",
    normalize: Annotated[
        bool,
        option.new(
            "--normalize",
            "Shift and scale the rewards so that totals lie in [0, 1]: for costs and large "
            "rewards. Results are printed in your units.",
        ),
    ] = False,
    unroll: Annotated[
        bool,
        option.new(
            "--unroll",
            "Make the step a part of the state: for models that change with the step.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        option.path("--out DIR", "Save the run in this folder; with --seeds one folder for each."),
    ] = None,
    resume: Annotated[
        Path | None,
        option.path("--resume DIR", "Continue an interrupted run from its folder, without MODEL."),
    ] = None,
    jobs: option.Jobs = None,
    hidden_rewards: option.HiddenRewards = None,
    horizon: option.Horizon = None,
    discount: option.Discount = None,
    start: option.Start = None,
    normalize_rows: option.NormalizeRows = False,
    user_units: option.UserUnits = True,
    json: option.AsJson = False,
) -> None:
    """Run a learner in a simulated model; its regret is computed exactly, not estimated."""
    from latentmdp.commands.runs import play_all, play_here
    from latentmdp.learning.saved.folder import locked

    if (model is None) == (resume is None):
        raise typer.BadParameter("give MODEL, or --resume DIR to continue a run")
    for name, number in (("--seeds", seeds), ("--jobs", jobs)):
        if number is not None:
            check_range(name, number, 1, MOST_RUNS)
    with ExitStack() as opened:
        if resume is not None:
            _refuse_settings(ctx)
            runs, out = _runs_to_resume(resume), resume
            many = runs[0].place != resume
            opened.enter_context(locked(resume))
        else:
            found = read_model(str(model), hidden_rewards, horizon, discount, start, normalize_rows)
            found = found.normalized() if normalize else found
            found = found.time_augmented() if unroll and found.changes_with_step else found
            many = seeds is not None
            asked: dict[str, Any] = {
                "algorithm": algorithm, "episodes": episodes, "policy_class": policy_class,
                "delta": delta, "bonus_scale": bonus_scale, "simulator": simulator, "ties": ties,
            }  # fmt: skip
            specs = _specs(found, asked, range(seed, seed + (seeds or 1)))
            if out is not None:
                opened.enter_context(locked(out))
            with (
                Progress("planning the optimum that regret is measured against"),
                compiling_ahead(algorithm, policy_class),
            ):
                runs = _new_runs(found, specs, out, many, opened)
        if many:
            results = play_all(runs, jobs, user_units, quiet=json)
        else:
            opened.close()  # the run locks its folder itself
            results = [play_here(runs[0], user_units, quiet=json)]
    _report(results, many, json, out)
    if not all(result["complete"] for result in results):
        if out is not None and not json:
            print_text(f"interrupted; continue with: latentmdp learn --resume {out}")
        raise PartlyDoneError


def _refuse_settings(ctx: typer.Context) -> None:
    """Refuse settings with --resume, as the run has its own."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(str(parameter.name))
        given = source is not None and source.name == "COMMANDLINE"
        if given and parameter.name not in GOES_WITH_RESUME:
            raise typer.BadParameter(
                f"--resume uses the settings of the run; leave out {parameter.opts[0]}"
            )


def _specs(model: "LatentMDP", asked: dict[str, Any], seeds: range) -> "list[RunSpec]":
    """One spec per seed; bad values are refused here, before anything is written."""
    from latentmdp.learning.learn import checked
    from latentmdp.learning.spec import RunSpec

    return [checked(RunSpec(seed=seed, **asked), model) for seed in seeds]


def _new_runs(
    model: "LatentMDP", specs: "list[RunSpec]", out: Path | None, many: bool, opened: ExitStack
) -> "list[RunTask]":
    """One run per seed; with `out` each has its own folder, and a checkpoint at once."""
    from latentmdp.commands.runs import RunTask
    from latentmdp.learning.learn import find_optimal
    from latentmdp.learning.playing import begin
    from latentmdp.runtime.strict_json import write_json

    if out is not None and ((out / "run.npz").exists() or (out / SEEDS).exists()):
        raise ModelError(f"{out} must not hold a run yet; continue it with --resume {out}")
    optimal = find_optimal(model, specs[0])
    if out is None:
        first = begin(model, specs[0], *optimal)
        if not many:
            return [RunTask(None, run=first)]
        folder = Path(opened.enter_context(TemporaryDirectory(prefix="latentmdp-")))
        first.checkpoint(folder)
        return [RunTask(folder, seed=spec.seed) for spec in specs]
    places = [out / f"seed-{spec.seed}" if many else out for spec in specs]
    for spec, place in zip(specs, places, strict=True):
        begin(model, spec, *optimal).checkpoint(place)
    if many:
        write_json(out / SEEDS, {"seeds": [spec.seed for spec in specs]})
    return [RunTask(place) for place in places]


def _runs_to_resume(folder: Path) -> "list[RunTask]":
    """The folder's run, or the runs of its seeds."""
    from latentmdp.commands.runs import RunTask

    if (folder / "run.npz").exists():
        return [RunTask(folder)]
    if not (folder / SEEDS).exists():
        raise ModelError(
            f"{folder} must hold a run; it has no run.npz and no {SEEDS} (if it was interrupted "
            "before its first episode, start it again)"
        )
    places = [folder / f"seed-{seed}" for seed in _seeds_of(folder)]
    for place in places:
        if not (place / "run.npz").exists():
            raise ModelError(f"{folder} must hold a run of every seed; {place} has no run.npz")
    return [RunTask(place) for place in places]


def _seeds_of(folder: Path) -> list[int]:
    from latentmdp.runtime.files import refusal
    from latentmdp.runtime.strict_json import read_json

    seeds = read_json(folder / SEEDS).get("seeds")
    if not isinstance(seeds, list) or not seeds or not all(isinstance(x, int) for x in seeds):
        raise refusal(folder / SEEDS, "must list the seeds of the runs; it does not")
    return seeds


def _report(results: list[dict[str, Any]], many: bool, json: bool, out: Path | None) -> None:
    words, brackets, notes = "", [], []
    for result in results:
        words = result.pop("units_in_words")
        brackets.append(result.pop("bracket"))
        notes.append(result.pop("notes"))
    if json:
        if not many:
            print_json(results[0])
            return
        names = [name for name in results[0] if name not in ("seed",)]
        print_json(
            {"seed": [r["seed"] for r in results]}
            | {name: [r[name] for r in results] for name in names}
        )
        return
    headers = ("seed", "episodes", "updates", "kept", "regret", "final value", "seconds")
    rows = [
        (
            r["seed"], r["episodes"], r["updates"], r["kept"], bracket, r["final_value"],
            round(r["seconds_planning"] + r["seconds_simulation"], 2),
        )
        for r, bracket in zip(results, brackets, strict=True)
    ]  # fmt: skip
    print_table(headers, rows)
    first = results[0]
    print_text(f"optimum of the class between {first['optimal_lower']:.6g} and "
               f"{first['optimal_upper']:.6g}")  # fmt: skip
    for note in dict.fromkeys(note for one in notes for note in one):
        print_text(note)
    ShownUnits(first["units"], words).say("regret and values")
    if results[0]["bonus_scale"] != 1.0:
        print_text(f"bonus_scale {results[0]['bonus_scale']:g} (the paper has 1)")
    if out is not None:
        print_text(f"saved in {out}")
