"""What a plan may cost: `Limits`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.planning.budget import Budget
from latentmdp.planning.search_result import Progress
from latentmdp.runtime.files import memory_budget

LEAST_SECONDS = 1e-9  # where a share of a time limit is one


@dataclass(frozen=True)
class Limits:
    """The relative gap at which a plan ends, and its seconds, units of work and bytes, at most.

    `None` is no limit; for the gap, that it is closed; for memory, a quarter of the machine's.
    `progress(seconds, work, lower, upper)` is called on the way.
    """

    gap: float | None = None
    time: float | None = None
    work: int | None = None
    memory: int | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.gap is not None and not (is_number(self.gap) and 0 <= self.gap <= 1):
            raise ModelError(
                "gap must be a number from 0 to 1, or None; it is relative, so that 0.05 means 5% "
                f"of the upper bound; it is {self.gap!r}"
            )
        if self.time is not None and not (is_number(self.time) and self.time > 0):
            raise ModelError(f"time_limit must be seconds above 0, or None; it is {self.time!r}")
        for name, value in (("work_limit", self.work), ("memory_limit", self.memory)):
            if value is not None and not (is_number(value) and value >= 1 and value == value // 1):
                raise ModelError(f"{name} must be a whole number of at least 1; it is {value!r}")
        if self.progress is not None and not callable(self.progress):
            raise ModelError(f"progress must be a function or None; it is {self.progress!r}")

    @property
    def bytes(self) -> int:
        """The memory limit as a number."""
        return memory_budget() if self.memory is None else int(self.memory)

    def budget(self) -> Budget:
        """Time and work, from now on."""
        return Budget(self.time, self.work)


def is_number(value: Any) -> bool:
    """Whether it is a number, and not true or false."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
