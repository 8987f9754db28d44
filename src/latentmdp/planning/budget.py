"""Limits on time, work and Ctrl-C, looked at between two pieces of work."""

import time
from collections.abc import Callable
from math import inf
from typing import Any

from latentmdp.runtime.interrupts import StopRequest
from latentmdp.runtime.kernel_cache import compiling

StopCheck = Callable[[], Any]  # whether to stop, asked between two pieces of work


class Budget:
    """What a planner may still spend. `spend` counts work; `reason` says why to stop, if it must.

    >>> budget = Budget(time_limit=None, work_limit=10)
    >>> budget.spend(12)
    >>> budget.reason(), budget.work
    ('time', 12)
    """

    def __init__(self, time_limit: float | None, work_limit: int | None) -> None:
        self.started = time.perf_counter() - compiling.seconds
        self.time_limit = None if time_limit == inf else time_limit
        self.work_limit = None if work_limit is None else int(work_limit)
        self.work = 0
        self.kept_back = 0.0  # seconds of the time limit that the end of the plan will need
        self.interrupted = StopRequest()  # set by Ctrl-C

    @property
    def seconds(self) -> float:
        """Since the start, without those that kernels took to be compiled or loaded."""
        return time.perf_counter() - compiling.seconds - self.started

    def spend(self, work: int) -> None:
        """Count work done."""
        self.work += int(work)

    def reason(self) -> str:
        """`interrupted`, `time` (also for the work limit), or nothing."""
        if self.interrupted.is_set():
            return "interrupted"
        if self.time_limit is not None and self.seconds >= self.time_limit - self.kept_back:
            return "time"
        if self.work_limit is not None and self.work >= self.work_limit:
            return "time"
        return ""

    @property
    def left(self) -> float | None:
        """Seconds until the time limit, without those kept back; None if there is no limit."""
        if self.time_limit is None:
            return None
        return self.time_limit - self.kept_back - self.seconds

    def in_time(self, seconds: float) -> bool:
        """Whether so many more seconds are within the time limit, those kept back included."""
        return self.time_limit is None or self.seconds + seconds <= self.time_limit

    def has_left(self, seconds: float) -> bool:
        """Whether there is that much time, and work to do in it."""
        return self.in_time(seconds) and (self.work_limit is None or self.work < self.work_limit)

    def affords(self, work: float, rate: float) -> bool:
        """Whether that much work fits, at `rate` units per second."""
        if self.work_limit is not None and self.work + work > self.work_limit:
            return False
        return self.left is None or work <= rate * self.left
