"""`latentmdp learn MODEL`: run Algorithm 1 in a simulated model, with exact regret."""

import os
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from latentmdp.commands._common import (
    AsJson,
    Discount,
    HiddenRewards,
    Horizon,
    print_json,
    print_table,
    print_text,
    read_model,
    whole_number,
)
from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from latentmdp.learning.run import Run
    from latentmdp.learning.session import Session, Spec
    from latentmdp.model import LatentMDP
    from latentmdp.policy import PolicyGraph

CHECKPOINT_SECONDS = 5.0
INTERRUPTED = 130


def learn_command(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A file (.npz, .json, .csv) or a spec string such as maze:size=5,goals=4.",
            show_default=False,
        ),
    ] = None,
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help="mvp, bernstein, ...")
    ] = "mvp",
    episodes: Annotated[
        int, typer.Option("--episodes", "-k", metavar="K", parser=whole_number, help="Like 1e9.")
    ] = 10**6,
    policy_class: Annotated[
        str, typer.Option("--class", help="Policies that compete: markov or history.")
    ] = "markov",
    seed: Annotated[int, typer.Option("--seed", help="The (first) seed.")] = 0,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", metavar="N", help="N runs, in parallel.", show_default=False),
    ] = None,
    delta: Annotated[float, typer.Option("--delta", help="Confidence.")] = 0.1,
    bonus_scale: Annotated[
        float, typer.Option("--bonus-scale", help="Multiplies the bonus; the paper is 1.")
    ] = 1.0,
    simulator: Annotated[
        str, typer.Option("--simulator", help="counts (by blocks) or episodes (step by step).")
    ] = "counts",
    ties: Annotated[
        str, typer.Option("--ties", help="Among argmax policies: secondary, ladder, incumbent.")
    ] = "secondary",
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Scale rewards to totals of at most 1.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Keep the run here.", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume", metavar="DIR", help="Continue an interrupted run.", show_default=False
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", help="Processes for --seeds.", show_default=False),
    ] = None,
    hidden_rewards: HiddenRewards = None,
    horizon: Horizon = None,
    discount: Discount = None,
    json: AsJson = False,
) -> None:
    """Learn in a model: regret of the paper's algorithms, exactly."""
    if (model is None) == (resume is None):
        raise typer.BadParameter("give MODEL, or --resume DIR to continue a run")
    if resume is not None:
        tasks, out = _tasks_to_resume(resume), resume
        many = tasks[0].place != resume
    else:
        found = read_model(str(model), hidden_rewards, horizon, discount)
        found = found.normalized() if normalize else found
        if seeds is not None and seeds < 1:
            raise typer.BadParameter("--seeds must be at least 1")
        many = seeds is not None
        asked: dict[str, Any] = {
            "algorithm": algorithm, "episodes": episodes, "policy_class": policy_class,
            "delta": delta, "bonus_scale": bonus_scale, "simulator": simulator, "ties": ties,
        }  # fmt: skip
        tasks = _new_tasks(found, asked, range(seed, seed + (seeds or 1)), out, many)
    with _catching_interrupts():
        results = _run_all(tasks, jobs, quiet=json or not sys.stderr.isatty())
    _report(results, many, json, out)
    if not all(result["complete"] for result in results):
        if out is not None and not json:
            print_text(f"interrupted; continue with: latentmdp learn --resume {out}")
        raise typer.Exit(INTERRUPTED)


class Task(NamedTuple):
    """A run to do: from a folder's checkpoint, or from the beginning."""

    place: Path | None
    model: "LatentMDP | None" = None
    spec: "Spec | None" = None
    optimal: tuple[float, float] = (0.0, 0.0)
    policy: "PolicyGraph | None" = None
    seconds_optimal: float = 0.0

    def begin(self) -> "Run":
        """The run with no episode played yet, or as its checkpoint has it."""
        from latentmdp.learning.run import Run, load_run
        from latentmdp.learning.session import Session
        from latentmdp.learning.solvers import Answer

        if self.model is None or self.spec is None:
            return load_run(str(self.place))
        oracle = None if self.policy is None else Answer(self.policy, *self.optimal)
        session = Session(self.model, self.spec, oracle)
        return Run(self.model, session.state(), self.optimal, self.seconds_optimal)


def _new_tasks(
    model: "LatentMDP", asked: dict[str, Any], seeds: range, out: Path | None, many: bool
) -> list[Task]:
    """One run per seed; with `out` each has its folder and a checkpoint from the start."""
    from latentmdp.learning.learn import checked, find_optimal
    from latentmdp.learning.session import Spec

    specs = [checked(Spec(seed=seed, **asked), model) for seed in seeds]
    if out is not None and ((out / "run.npz").exists() or any(out.glob("seed-*/run.npz"))):
        raise ModelError(f"{out} must not hold a run yet; continue it with --resume {out}")
    optimal = find_optimal(model, specs[0])
    tasks = [Task(None, model, spec, *optimal) for spec in specs]
    if out is None:
        return tasks
    places = [out / f"seed-{spec.seed}" if many else out for spec in specs]
    for task, place in zip(tasks, places, strict=True):
        task.begin().checkpoint(place)
    return [Task(place) for place in places]


def _tasks_to_resume(folder: Path) -> list[Task]:
    """The folder's run, or the runs of its seeds."""
    if (folder / "run.npz").exists():
        return [Task(folder)]
    parts = sorted(folder.glob("seed-*/run.npz"), key=lambda p: (len(p.parent.name), p))
    if not parts:
        raise ModelError(f"{folder} must hold a run; it has no run.npz and no seed-*/run.npz")
    return [Task(part.parent) for part in parts]


def _run_all(tasks: list[Task], jobs: int | None, quiet: bool) -> list[dict[str, Any]]:
    """One after the other, or in processes: the same bits."""
    workers = min(len(tasks), jobs or os.cpu_count() or 1)
    if workers == 1:
        return [run_task(task, quiet) for task in tasks]
    from multiprocessing import get_context

    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_catch) as pool:
        return list(pool.map(run_task, tasks, [True] * len(tasks)))


def run_task(task: Task, quiet: bool) -> dict[str, Any]:
    """One run, to its end or to the first Ctrl-C; either way its folder is whole."""
    from latentmdp.learning.run import Run

    run = task.begin()
    session = run.session()
    with _progress(session, run.optimal[0], quiet) as show:
        saved = time.monotonic()
        while session.done < session.target and not _caught:
            session.next_phase()
            show()
            if task.place is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
                Run(run.model, session.state(), run.optimal, run.seconds_optimal).checkpoint(
                    task.place
                )
                saved = time.monotonic()
    run = Run(run.model, session.state(), run.optimal, run.seconds_optimal)
    if task.place is not None:
        run.save(task.place)
    return run.summary() | {"seed": run.spec.seed}


_caught: list[int] = []  # the signals of this process: a run stops between two phases


def _catch() -> None:
    signal.signal(signal.SIGINT, lambda number, frame: _caught.append(number))


@contextmanager
def _catching_interrupts() -> "Iterator[None]":
    _caught.clear()
    before = signal.getsignal(signal.SIGINT)
    _catch()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _progress(session: "Session", best: float, quiet: bool) -> "Iterator[Any]":
    """A line with episodes, updates, regret so far and the time left, on standard error."""
    if quiet:
        yield lambda: None
        return
    import math

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    started, first = time.monotonic(), session.done
    shown_at, regret, phases = 0.0, 0.0, 0
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def show() -> None:
            nonlocal shown_at, regret, phases
            now = time.monotonic()
            if now - shown_at < 0.2:
                return
            shown_at = now
            lengths, values = session.columns["length"], session.columns["value"]
            for i in range(phases, len(lengths)):
                regret += lengths[i] * (best - values[i])
            phases = len(lengths)
            # updates, and so the time, grow with the logarithm of the episodes
            ahead = math.log(session.target + 1) - math.log(session.done + 1)
            behind = math.log(session.done + 1) - math.log(first + 1)
            left = (now - started) * ahead / max(behind, 1e-9)
            text = (
                f"{session.done:.4g} of {session.target:.4g} episodes, "
                f"{session.learner.updates} updates, regret {regret:.6g}, about {left:.0f} s left"
            )
            live.update(Text(text), refresh=True)

        yield show


def _report(results: list[dict[str, Any]], many: bool, json: bool, out: Path | None) -> None:
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
    headers = ("seed", "episodes", "updates", "regret", "final value", "optimum", "seconds")
    rows = [
        (
            r["seed"], r["episodes"], r["updates"], r["regret"], r["final_value"],
            f"{r['optimal_lower']:.6g} .. {r['optimal_upper']:.6g}",
            r["seconds_planning"] + r["seconds_simulation"],
        )
        for r in results
    ]  # fmt: skip
    print_table(headers, rows)
    if results[0]["bonus_scale"] != 1.0:
        print_text(f"bonus_scale {results[0]['bonus_scale']:g} (the paper's constants are 1)")
    if out is not None:
        print_text(f"kept in {out}")
