"""`latentmdp learn MODEL`: run Algorithm 1 in a simulated model; regret with its bracket."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentmdp.commands.common import (
    MODEL_HELP,
    AsJson,
    Discount,
    HiddenRewards,
    Horizon,
    NormalizeRows,
    Start,
    UserUnits,
    complete_algorithm,
    complete_class,
    complete_model,
    read_model,
    some_path,
    whole_number,
)
from latentmdp.commands.compile_ahead import compiling_ahead
from latentmdp.commands.output import ShownUnits, print_json, print_table, print_text, working
from latentmdp.commands.runs import RunTask, run_all
from latentmdp.errors import ModelError
from latentmdp.runtime.interrupts import INTERRUPTED

if TYPE_CHECKING:
    from latentmdp.learning.spec import Spec
    from latentmdp.model.latent_mdp import LatentMDP

SEEDS = "seeds.json"  # written last: a folder of several seeds without it was never set up
MOST_RUNS = 100_000  # runs of one command
GOES_WITH_RESUME = ("resume", "jobs", "json", "user_units")


def learn_command(
    ctx: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help=MODEL_HELP,
            show_default=False,
            autocompletion=complete_model,
        ),
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="NAME",
            help="The learner; all of them are listed below.",
            autocompletion=complete_algorithm,
        ),
    ] = "mvp",
    episodes: Annotated[
        int,
        typer.Option(
            "--episodes",
            "-k",
            metavar="K",
            parser=whole_number,
            help="How many to play; 1e9 is fine.",
        ),
    ] = 10**6,
    policy_class: Annotated[
        str,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="Policies to learn among, and to measure regret against: markov (of step and "
            "state; the default here) or history (with memory; the default of plan).",
            autocompletion=complete_class,
        ),
    ] = "markov",
    seed: Annotated[
        int,
        typer.Option(
            "--seed", metavar="N", parser=whole_number, help="The seed, or the first of --seeds."
        ),
    ] = 0,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            metavar="N",
            parser=whole_number,
            help="So many runs with seeds that follow one another, in parallel.",
            show_default=False,
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option("--delta", help="How likely the confidence sets may fail.")
    ] = 0.1,
    bonus_scale: Annotated[
        float,
        typer.Option(
            "--bonus-scale",
            help="Multiplies the bonus. 1 is the paper; in practice 0.01 for bernstein, 0.001 for "
            "mvp (docs/how_to_learn.md).",
        ),
    ] = 1.0,
    simulator: Annotated[
        str,
        typer.Option(
            "--simulator",
            metavar="NAME",
            help="counts (fast) or episodes (step by step); the same law.",
        ),
    ] = "counts",
    ties: Annotated[
        str,
        typer.Option(
            "--ties",
            metavar="NAME",
            help="Which of several optimistic policies is played: secondary or incumbent.",
        ),
    ] = "secondary",
    normalize: Annotated[
        bool,
        typer.Option(
            "--normalize",
            help="Shift and scale rewards to totals from 0 to 1, for costs and large rewards; what "
            "is shown stays in your units.",
        ),
    ] = False,
    unroll: Annotated[
        bool,
        typer.Option(
            "--unroll",
            help="Learn with the step in the state: for models that change with the step.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            parser=some_path,
            help="Keep the run in this folder (one folder in it for each of --seeds).",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="DIR",
            parser=some_path,
            help="Continue an interrupted run from its folder, in place of MODEL.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            parser=whole_number,
            help="Processes for --seeds (default: one per core).",
            show_default=False,
        ),
    ] = None,
    hidden_rewards: HiddenRewards = None,
    horizon: Horizon = None,
    discount: Discount = None,
    start: Start = None,
    normalize_rows: NormalizeRows = False,
    user_units: UserUnits = True,
    json: AsJson = False,
) -> None:
    """Learn in a model: the regret of the paper's algorithms, computed and not estimated."""
    from latentmdp.learning.saved.folder import locked
    from latentmdp.model.either_kind import ordinary

    if (model is None) == (resume is None):
        raise typer.BadParameter("give MODEL, or --resume DIR to continue a run")
    for name, number in (("--seeds", seeds), ("--jobs", jobs)):
        if number is not None and not 1 <= number <= MOST_RUNS:
            raise typer.BadParameter(f"{name} must be from 1 to {MOST_RUNS}; it is {number}")
    with ExitStack() as lock:
        if resume is not None:
            _refuse_settings(ctx)
            tasks, out = _tasks_to_resume(resume), resume
            many = tasks[0].place != resume
            lock.enter_context(locked(out))
        else:
            found = read_model(str(model), hidden_rewards, horizon, discount, start, normalize_rows)
            found = found.normalized() if normalize else found
            found = ordinary(found) if unroll else found
            many = seeds is not None
            asked: dict[str, Any] = {
                "algorithm": algorithm, "episodes": episodes, "policy_class": policy_class,
                "delta": delta, "bonus_scale": bonus_scale, "simulator": simulator, "ties": ties,
            }  # fmt: skip
            specs = _specs(found, asked, range(seed, seed + (seeds or 1)))
            if out is not None:
                lock.enter_context(locked(out))
            with (
                working("planning the optimum to compare with"),
                compiling_ahead(algorithm, policy_class),
            ):
                tasks = _new_tasks(found, specs, out, many)
        if not many:
            lock.close()  # the run locks its folder itself
        tasks = [task._replace(user_units=user_units) for task in tasks]
        results = run_all(tasks, jobs, quiet=json or not sys.stderr.isatty())
    _report(results, many, json, out)
    if not all(result["complete"] for result in results):
        if out is not None and not json:
            print_text(f"interrupted; continue with: latentmdp learn --resume {out}")
        raise typer.Exit(INTERRUPTED)


def _refuse_settings(ctx: typer.Context) -> None:
    """A run that is resumed has its settings; refuse others, which would be ignored."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(str(parameter.name))
        given = source is not None and source.name == "COMMANDLINE"
        if given and parameter.name not in GOES_WITH_RESUME:
            raise typer.BadParameter(
                f"--resume goes on with the run's own settings; leave out {parameter.opts[0]}"
            )


def _specs(model: "LatentMDP", asked: dict[str, Any], seeds: range) -> "list[Spec]":
    """One spec per seed; bad values are refused here, before anything is written."""
    from latentmdp.learning.learn import checked
    from latentmdp.learning.spec import Spec

    return [checked(Spec(seed=seed, **asked), model) for seed in seeds]


def _new_tasks(
    model: "LatentMDP", specs: "list[Spec]", out: Path | None, many: bool
) -> list[RunTask]:
    """One run per seed; with `out` each has its folder and a checkpoint from the start."""
    from latentmdp.learning.learn import find_optimal
    from latentmdp.runtime.strict_json import write_json

    if out is not None and ((out / "run.npz").exists() or (out / SEEDS).exists()):
        raise ModelError(f"{out} must not hold a run yet; continue it with --resume {out}")
    optimal = find_optimal(model, specs[0])
    tasks = [RunTask(None, model, spec, *optimal) for spec in specs]
    if out is None:
        return tasks
    places = [out / f"seed-{spec.seed}" if many else out for spec in specs]
    for task, place in zip(tasks, places, strict=True):
        task.begin().checkpoint(place)
    if many:
        write_json(out / SEEDS, {"seeds": [spec.seed for spec in specs]})
    return [RunTask(place) for place in places]


def _tasks_to_resume(folder: Path) -> list[RunTask]:
    """The folder's run, or the runs of its seeds."""
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
        print_text(f"bonus_scale {results[0]['bonus_scale']:g} (the paper's constants are 1)")
    if out is not None:
        print_text(f"kept in {out}")
