"""The runs of `latentmdp learn`: one after the other or in processes, stopped and kept safely.

A run stops between two phases, or between episodes where a phase is long. Its folder is held by a
lock, so that no two processes write there; its checkpoints replace one another in one step. Ctrl-C
asks every run to stop; a process whose parent has gone stops by itself.
"""

import os
import signal
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from latentmdp._workers import Pool
from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from latentmdp.learning.run import Run
    from latentmdp.learning.session import Session, Spec
    from latentmdp.model import LatentMDP
    from latentmdp.policy import PolicyGraph

CHECKPOINT_SECONDS = 5.0
LOOK_SECONDS = 0.1  # how often a process looks whether it is to stop


class Task(NamedTuple):
    """A run to do: from a folder's checkpoint, or from the beginning."""

    place: Path | None
    model: "LatentMDP | None" = None
    spec: "Spec | None" = None
    optimal: tuple[float, float] = (0.0, 0.0)
    policy: "PolicyGraph | None" = None
    seconds_optimal: float = 0.0
    user_units: bool = False  # of the summary; the run itself is in the model's

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


def run_all(tasks: list[Task], jobs: int | None, quiet: bool) -> list[dict[str, Any]]:
    """One after the other, or in processes: the same bits."""
    workers = min(len(tasks), jobs or os.cpu_count() or 1)
    if workers == 1:
        return [run_task(task, quiet) for task in tasks]
    from multiprocessing import get_context

    stop = get_context("spawn").Event()
    with Pool(workers, _begin_worker, stop, os.getpid()) as pool:
        left: Any = [pool.submit(run_task, task, True) for task in tasks]
        futures = list(left)
        while left:
            done, left = wait(left, timeout=LOOK_SECONDS, return_when=FIRST_EXCEPTION)
            if _caught or any(future.exception() for future in done):
                stop.set()
    try:
        return [future.result() for future in futures]
    except BrokenProcessPool:
        folder = tasks[0].place
        cure = "" if folder is None else f"; continue with --resume {folder.parent}"
        raise ModelError(f"a process was killed before its run was done{cure}") from None


def run_task(task: Task, quiet: bool) -> dict[str, Any]:
    """One run, to its end or to the first Ctrl-C; either way its folder is whole."""
    from latentmdp.learning.folder import locked
    from latentmdp.learning.run import Run

    with _busy, nullcontext() if task.place is None else locked(task.place):
        run = task.begin()
        session = run.session()

        def now() -> Run:
            return Run(run.model, session.state(), run.optimal, run.seconds_optimal)

        with _progress(session, run.optimal[0], quiet) as show:
            saved = time.monotonic()
            while session.done < session.target and not _caught:
                session.next_phase(stop=_caught.__len__)
                show()
                if task.place is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
                    now().checkpoint(task.place)
                    saved = time.monotonic()
        found = now()
        if task.place is not None:
            found.save(task.place, overwrite=True)  # it is the folder's own run
        shown = found.in_user_units() if task.user_units else found
        words = found.model.units_in_words
        return shown.summary() | {"units_in_words": words, "seed": found.spec.seed}


# ---------------------------------------------------------------- being stopped

_caught: list[int] = []  # signals, or other reasons to stop, of this process
_busy = threading.Lock()  # held while a run is under way


def _begin_worker(stop: Any, parent: int) -> None:
    """In a new process: ignore Ctrl-C, watch for the word of the parent and for its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["LATENTMDP_QUIET"] = "1"  # several processes would say the same
    threading.Thread(target=_watch, args=(stop, parent), daemon=True).start()


def _watch(stop: Any, parent: int) -> None:
    while not stop.is_set() and os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    _caught.append(signal.SIGINT)
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    with _busy:  # an orphan would wait for its next task for ever
        os._exit(1)


@contextmanager
def catching_interrupts() -> "Iterator[None]":
    """Inside, Ctrl-C is noted and runs stop by themselves."""
    _caught.clear()
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda number, frame: _caught.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# ---------------------------------------------------------------- being watched


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
    units = f" {session.model.units}" if session.model.units else ""
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def show() -> None:
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
            text = (
                f"{session.done:.4g} of {session.target:.4g} episodes, "
                f"{session.learner.updates} updates, regret {regret:.6g}{units}, "
                f"about {left:.0f} s left"
            )
            live.update(Text(text), refresh=True)

        yield show
