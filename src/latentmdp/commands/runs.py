"""The runs of `latentmdp learn`: one in this process, those of several seeds as a study does them.

A run stops between two phases, or between episodes where a phase is long. Its folder is held by a
lock, so that no two processes write there; its checkpoints replace one another in one step. Ctrl-C
asks every run to stop and loses nothing.
"""

import math
import os
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from latentmdp.commands.output import Progress
from latentmdp.errors import ModelError
from latentmdp.experiments.learners import play_saved
from latentmdp.experiments.live import Counts, shown
from latentmdp.experiments.tasks import PERFORM, perform
from latentmdp.learning.run import Run, load_run
from latentmdp.learning.saved.folder import locked
from latentmdp.model.units import USER
from latentmdp.runtime.interrupts import StopRequest, interrupts_set
from latentmdp.runtime.workers import Plain, Processes, drive

if TYPE_CHECKING:
    from latentmdp.learning.session import Session


class RunTask(NamedTuple):
    """A run to do: that of a folder; with a seed, another one that begins with what is there.

    A run that is in no folder is played in this process.
    """

    place: Path | None
    seed: int | None = None
    run: Run | None = None


def play_here(task: RunTask, user_units: bool, quiet: bool) -> Plain:
    """Play one run in this process, to its end or to the first Ctrl-C; its summary."""
    stop, place = StopRequest(), task.place
    with interrupts_set(stop), nullcontext() if place is None else locked(place):
        run = task.run or load_run(str(place))
        with Progress("learning", quiet) as line:
            show = _shown_on(line, run, user_units)
            return play_saved(run, place, stop.is_set, user_units, show)


def play_all(runs: list[RunTask], jobs: int | None, user_units: bool, quiet: bool) -> list[Plain]:
    """Play runs in worker processes; their summaries, also of those that Ctrl-C has stopped."""
    tasks: list[Plain] = [
        {
            "kind": "continue", "key": str(i), "id": name, "folder": str(run.place),
            "seed": run.seed, "user_units": user_units, "content": {}, "where": {},
        }
        for i, run in enumerate(runs)
        for name in [Path(str(run.place)).name if run.seed is None else f"seed-{run.seed}"]
    ]  # fmt: skip
    stop, waiting = StopRequest(), iter(tasks)
    outcomes: dict[str, Plain] = {}
    failures: list[str] = []
    workers = Processes(min(len(tasks), jobs or os.cpu_count() or 1), PERFORM)

    def begin_next(listener: Counts) -> Plain | None:
        task = next(waiting, None)
        if task is not None:
            listener.started(task)
        return task

    with interrupts_set(stop):
        with shown(len(tasks), 0, 0, quiet) as listener, closing(workers):
            next_task = partial(begin_next, listener)
            for task, outcome in drive(workers, next_task, stop, listener.look):
                outcomes[task["key"]] = outcome
                if outcome["state"] == "done":
                    if outcome["result"]["complete"]:
                        listener.finished(task, outcome)
                else:
                    failures.append(f"{task['id']}: {outcome['result']['error']}")
                    stop.set()  # the others leave checkpoints
        if failures:
            raise ModelError(failures[0])
        for task in tasks:
            if task["key"] not in outcomes:  # stopped before it began: it plays no episode
                outcomes[task["key"]] = perform(task, stop.is_set)
    return [outcomes[task["key"]]["result"] for task in tasks]


def _shown_on(line: Progress, run: Run, user_units: bool) -> Callable[["Session"], None]:
    """Shows episodes, updates, regret so far and the time left."""
    from latentmdp.learning.regret import RegretBracket

    started, first, best = time.monotonic(), run.episodes, run.optimal[0]
    shown_at, regret, phases = 0.0, 0.0, 0
    in_user_units = user_units and run.units
    scale, name = (run.model.reward_scale, USER) if in_user_units else (1.0, run.units)
    units = f" {name}" if name else ""

    def show(session: "Session") -> None:
        nonlocal shown_at, regret, phases
        now = time.monotonic()
        if now - shown_at < 0.2:
            return
        shown_at = now
        regret += sum(length * (best - value) for _, length, value, *_ in session.rows[phases:])
        phases = len(session.rows)
        # updates, and so the time, grow with the logarithm of the episodes
        ahead = math.log(session.target + 1) - math.log(session.done + 1)
        behind = math.log(session.done + 1) - math.log(first + 1)
        left = (now - started) * ahead / max(behind, 1e-9)
        low = scale * regret
        bracket = RegretBracket(low, low + scale * run.open_gap * session.done).text()
        text = (
            f"{session.done:.4g} of {session.target:.4g} episodes, "
            f"{session.learner.updates} updates, regret {bracket}{units}, "
            f"about {left:.0f} s left"
        )
        line.details(text)

    return show
