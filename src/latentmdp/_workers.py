"""Processes that work for this one, and end with it even if it is killed."""

import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor

LOOK_SECONDS = 0.5


def workers(jobs: int) -> ProcessPoolExecutor:
    """A pool of so many processes, none of which outlives us."""
    return ProcessPoolExecutor(jobs, initializer=_watch, initargs=(os.getpid(),))


def _watch(parent: int) -> None:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(1)  # an orphan would wait for its next task for ever
