"""Processes that work for this one. Ctrl-C comes to us alone, and none of them outlives us."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from latentmdp._interrupts import interrupts_held
from latentmdp.errors import ModelError

LOOK_SECONDS = 0.5  # how often a worker looks whether its parent is still there


@contextmanager
def workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of so many processes; an exception, also Ctrl-C, ends all of them at once.

    They are started afresh, not forked: a fork copies the locks of threads that it does not have.
    """
    context = _RecordingContext()
    pool = _Pool(jobs, context, _begin_worker, (os.getpid(),))
    try:
        yield pool
        pool.shutdown()
    except BaseException as error:
        with interrupts_held():  # a second Ctrl-C must not stop this half-way
            for process in context.made:
                if process.pid is not None:
                    process.kill()
            pool.shutdown(cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise ModelError("a worker process was killed before its task was done") from None
        raise


class _RecordingContext(SpawnContext):
    """Starts processes afresh, and remembers them."""

    def __init__(self) -> None:
        self.made: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]
        """A process that is not started yet."""
        self.made.append(SpawnProcess(*args, **kwargs))
        return self.made[-1]


class _Pool(ProcessPoolExecutor):
    """Its processes start when work is submitted, with SIGINT blocked."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with interrupts_held():
            return super().submit(function, *args, **kwargs)


def _begin_worker(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where signals cannot be blocked
    os.environ["LATENTMDP_QUIET"] = "1"  # several processes would say the same
    end_with(parent)


def end_with(parent: int) -> None:
    """From now on, this process ends soon after its parent does, however that ends."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(1)  # an orphan would wait for its next task for ever
