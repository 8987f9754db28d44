"""Processes that work for this one. Ctrl-C comes to us alone, and none of them outlives us."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from multiprocessing.context import SpawnContext, SpawnProcess
from threading import Lock
from typing import Any

from latentmdp.errors import ModelError
from latentmdp.runtime.interrupts import ignore_interrupts, interrupts_held

PARENT_CHECK_SECONDS = 0.5  # how often a worker looks whether its parent is still there


class Pool(ProcessPoolExecutor):
    """Its processes are started when work is submitted, with SIGINT blocked.

    They are started afresh, not forked: a fork copies the locks of threads that it does not have.
    """

    def __init__(self, jobs: int, begin: Callable[..., None], *args: Any) -> None:
        self._recorded = _RecordingContext()
        super().__init__(jobs, self._recorded, begin, args)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Let a process call the function."""
        with interrupts_held():
            before = len(self._recorded.processes)
            future = super().submit(function, *args, **kwargs)
            # Python's pool notices the end of a process only if it was woken after its start
            while (now := len(self._recorded.processes)) > before:
                before = now
                super().submit(int)
        return future

    def kill(self) -> None:
        """End all processes at once; a second Ctrl-C does not stop this half-way.

        The pool's own thread may fail over processes that vanish; that is no news here.
        """
        before, threading.excepthook = threading.excepthook, lambda failure: None
        with interrupts_held():
            for process in self._recorded.processes:
                if process.pid is not None:
                    process.kill()
            self.shutdown(cancel_futures=True)
            threading.excepthook = before


class _RecordingContext(SpawnContext):
    """Starts processes afresh, and remembers them."""

    def __init__(self) -> None:
        self.processes: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]
        """A process that is not started yet."""
        self.processes.append(SpawnProcess(*args, **kwargs))
        return self.processes[-1]


@contextmanager
def workers(jobs: int) -> Iterator[Pool]:
    """A pool of so many processes; an exception, also Ctrl-C, ends all of them at once."""
    pool = Pool(jobs, begin_worker, os.getpid())
    try:
        yield pool
        pool.shutdown()
    except BaseException as error:
        pool.kill()
        if isinstance(error, BrokenProcessPool):
            raise ModelError("a worker process was killed before its task was done") from None
        raise


def begin_worker(parent: int, busy: "Lock | None" = None) -> None:
    """In a new process: ignore Ctrl-C, say nothing about compiling, end soon after the parent."""
    ignore_interrupts()  # where signals cannot be blocked
    os.environ["LATENTMDP_QUIET"] = "1"  # several processes would say the same
    end_with(parent, busy)


def end_with(parent: int, busy: "Lock | None" = None) -> None:
    """From now on, this process ends soon after its parent does, however that ends.

    `busy` is a lock that the process holds while its work must not be cut short.
    """
    threading.Thread(target=_watch, args=(parent, busy), daemon=True).start()


def _watch(parent: int, busy: "Lock | None") -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    with busy or nullcontext():
        os._exit(1)  # an orphan would wait for its next task for ever
