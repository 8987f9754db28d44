"""The runs of `latentmdp learn`, one after the other or in processes; Ctrl-C loses nothing.

A run stops between two phases, or between episodes where a phase is long. Its folder is held by a
lock, so that no two processes write there; its checkpoints replace one another in one step. Ctrl-C
asks every run to stop; a process whose parent has gone stops by itself.
"""

import math
import os
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from latentmdp.errors import ModelError
from latentmdp.model.units import USER
from latentmdp.runtime.interrupts import StopRequest, interrupts_set
from latentmdp.runtime.workers import Pool, begin_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from latentmdp.learning.run import Run
    from latentmdp.learning.session import Session
    from latentmdp.learning.spec import Spec
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.policy.graph import PolicyGraph

STOP_CHECK_SECONDS = 0.1  # how often a process looks whether it is to stop


class RunTask(NamedTuple):
    """A run to do: from a folder's checkpoint, or from the beginning."""

    place: Path | None
    model: "LatentMDP | None" = None
    spec: "Spec | None" = None
    optimal: tuple[float, float] = (0.0, 0.0)
    policy: "PolicyGraph | None" = None
    seconds_optimal: float = 0.0
    history_value: float | None = None
    user_units: bool = False  # of what is shown; the run itself is in the model's

    def begin(self) -> "Run":
        """The run with no episode played yet, or as its checkpoint has it."""
        from latentmdp.learning.playing import begin
        from latentmdp.learning.run import load_run

        if self.model is None or self.spec is None:
            return load_run(str(self.place))
        return begin(
            self.model, self.spec, self.optimal, self.policy, self.seconds_optimal,
            self.history_value,
        )  # fmt: skip


def run_all(tasks: list[RunTask], jobs: int | None, quiet: bool) -> list[dict[str, Any]]:
    """One after the other, or in processes: the same bits. Ctrl-C asks all of them to stop."""
    _stop.clear()
    with interrupts_set(_stop):
        workers = min(len(tasks), jobs or os.cpu_count() or 1)
        if workers == 1:
            return [run_task(task, quiet) for task in tasks]
        return _run_in_processes(tasks, workers, quiet)


def _run_in_processes(tasks: list[RunTask], workers: int, quiet: bool) -> list[dict[str, Any]]:
    context = get_context("spawn")
    stop_workers, episodes = context.Event(), context.Array("d", len(tasks), lock=False)
    with (
        Pool(workers, _begin_run_worker, stop_workers, os.getpid(), episodes) as pool,
        _progress_of_all(episodes, quiet) as show,
    ):
        left: Any = [pool.submit(run_task, task, True, i) for i, task in enumerate(tasks)]
        futures = list(left)
        while left:
            done, left = wait(left, timeout=STOP_CHECK_SECONDS, return_when=FIRST_EXCEPTION)
            show(sum(future.done() for future in futures))
            if _stop.is_set() or any(future.exception() for future in done):
                stop_workers.set()
    try:
        return [future.result() for future in futures]
    except BrokenProcessPool:
        folder = tasks[0].place
        cure = "" if folder is None else f"; continue with --resume {folder.parent}"
        raise ModelError(f"a process was killed before its run was done{cure}") from None


def run_task(task: RunTask, quiet: bool, number: int = 0) -> dict[str, Any]:
    """One run, to its end or to the first Ctrl-C; either way its folder is whole.

    In a process of its own it says under its `number` how many episodes it has played.
    """
    from latentmdp.learning.playing import play
    from latentmdp.learning.saved.folder import locked

    place = task.place
    with _busy, nullcontext() if place is None else locked(place):
        run = task.begin()
        save = None if place is None else lambda so_far: so_far.checkpoint(place)
        with _progress(run, task.user_units, quiet) as show:

            def tell(session: "Session") -> None:
                if _episodes is not None:
                    _episodes[number] = session.done
                if show is not None:
                    show(session)

            found = play(run, _stop.is_set, save, tell)
        if place is not None:
            found.save(place, overwrite=True)  # it is the folder's own run
        shown = found.in_user_units() if task.user_units and found.units else found
        words = found.model.units_in_words
        told = {"bracket": shown.regret_bracket.text(), "notes": shown.notes}
        return shown.summary() | told | {"units_in_words": words, "seed": found.spec.seed}


# ---------------------------------------------------------------- stopping

_stop = StopRequest()  # set when the runs of this process are to end at the next phase
_busy = threading.Lock()  # held while a run is under way
_episodes: Any = None  # played so far, by run: shared with the parent


def _begin_run_worker(stop_workers: Any, parent: int, episodes: Any) -> None:
    """In a new process: stop when the parent says so, or when it has ended."""
    global _episodes
    begin_worker(parent, _busy)
    _episodes = episodes
    threading.Thread(target=_watch, args=(stop_workers, parent), daemon=True).start()


def _watch(stop_workers: Any, parent: int) -> None:
    while not stop_workers.is_set() and os.getppid() == parent:
        time.sleep(STOP_CHECK_SECONDS)
    _stop.set()


# ---------------------------------------------------------------- progress


@contextmanager
def _progress(run: "Run", user_units: bool, quiet: bool) -> "Iterator[Any]":
    """A line with episodes, updates, regret so far and the time left, on standard error."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from latentmdp.learning.regret import RegretBracket

    started, first, best = time.monotonic(), run.episodes, run.optimal[0]
    shown_at, regret, phases = 0.0, 0.0, 0
    in_user_units = user_units and run.units
    scale, name = (run.model.reward_scale, USER) if in_user_units else (1.0, run.units)
    units = f" {name}" if name else ""
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

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
            live.update(Text(text), refresh=True)

        yield show


@contextmanager
def _progress_of_all(episodes: Any, quiet: bool) -> "Iterator[Any]":
    """A line about runs in processes: how many are done, and what all have played so far."""
    if quiet:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    started = time.monotonic()
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def show(done: int) -> None:
            seconds = time.monotonic() - started
            text = (
                f"{done} of {len(episodes)} runs done, {sum(episodes):.4g} episodes in all, "
                f"{seconds:.0f} s"
            )
            live.update(Text(text), refresh=True)

        yield show
