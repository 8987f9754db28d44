"""Progress reports of workers, and what a driver knows of the tasks that they have.

A worker reports progress between two calls of compiled kernels, not from a thread of its own: a
thread could not report while a kernel holds the interpreter, and would report while its task hangs.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

REPORT_SECONDS = 1.0  # between two reports of a task

Report = Callable[[str], None]


@dataclass
class UnderWay:
    """A task that a worker has; times are in seconds since the epoch, by the driver's clock."""

    id: str
    worker: str
    begun: float = field(default_factory=time.time)
    reported: float = field(default_factory=time.time)  # when its last report came
    progress: str = "given to the worker"

    def update(self, progress: str, worker: str | None = None) -> None:
        """Note a report; if another worker has sent it, that one has just begun the task."""
        self.reported, self.progress = time.time(), progress
        if worker is not None and worker != self.worker:
            self.worker, self.begun = worker, self.reported


def at_intervals(send: Report) -> Report:
    """A function that sends reports, but drops those within `REPORT_SECONDS` of the last one."""
    sent = -math.inf

    def report(progress: str) -> None:
        nonlocal sent
        if time.monotonic() - sent >= REPORT_SECONDS:
            sent = time.monotonic()
            send(progress)

    return report
