"""What a planner knows so far: both bounds, the best table, what was spent, when to stop."""

import math

from latentmdp.csr import Ints
from latentmdp.planning.budget import Budget
from latentmdp.planning.limits import Limits
from latentmdp.planning.search_result import BoundsLog
from latentmdp.planning.settings import PlanningSettings


class Stop(Exception):  # noqa: N818  (control flow, not an error)
    """Raised where the planner must not go on; says why."""


class BoundTracker:
    """Bounds that only ever get better; `check` raises `Stop` when they are close enough."""

    table: Ints  # (H, S) the policy worth `lower`

    def __init__(
        self,
        limits: Limits,
        budget: Budget,
        settings: PlanningSettings,
        upper: float,
        scale: float,
    ) -> None:
        self.gap, self.budget, self.settings = limits.gap or 0.0, budget, settings
        self.memory, self.log = limits.bytes, BoundsLog(budget, limits.progress)
        self.lower, self.upper, self.scale = -math.inf, upper, scale
        self.shortage = ""  # of memory, that kept a stage from running

    @property
    def rounding(self) -> float:
        """Differences below this are rounding error."""
        return self.settings.rounding * self.scale

    def spend(self, work: float) -> None:
        """Count work done."""
        self.budget.spend(int(work))

    def check(self) -> None:
        """Stop if the gap is closed or the budget used up."""
        if self.upper - self.lower <= 2 * self.rounding:
            raise Stop("optimal")
        if self.upper <= self.goal():
            raise Stop("gap")
        if reason := self.budget.reason():
            raise Stop(reason)

    def goal(self) -> float:
        """The largest upper bound that meets the gap: `upper - lower <= gap * |upper|`."""
        if self.lower < 0:
            return self.lower / (1 + self.gap)
        return self.lower / (1 - self.gap) if self.gap < 1 else math.inf

    def record(self) -> None:
        """Note both bounds, now."""
        self.log(self.lower, self.upper)

    def raise_lower(self, value: float, table: Ints) -> bool:
        """Keep the table if it is worth more than the best so far; whether it is."""
        if value > self.lower + self.rounding:
            self.lower, self.table = value, table.copy()
            self.record()
            return True
        return False

    def cut_upper(self, value: float) -> None:
        """Keep the smaller upper bound."""
        if value < self.upper:
            self.upper = value
            self.record()

    def lacks(self, size: int) -> bool:
        """Whether a stage that takes so much memory must be left out."""
        if size > self.memory / 2:
            self.shortage = "memory"
        return size > self.memory / 2

    # ------------------------------------------------------------------ planning with memory

    def memory_units(self, most: int) -> int:
        """Units of work for a planner with memory: `most`, or what is left of the work limit."""
        if self.budget.work_limit is None:
            return most
        left = self.budget.work_limit - self.budget.work
        return max(1, min(most, left // self.settings.memory_unit + 1))

    def end_memory(self, seconds: float, work: int, lower: float, upper: float) -> None:
        """`progress` of such a planner: ends it at Ctrl-C, and when its bound closes the gap."""
        if self.budget.interrupted.is_set() or upper <= self.goal():
            raise KeyboardInterrupt
