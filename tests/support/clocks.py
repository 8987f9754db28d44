"""Budgets whose clock does not depend on the machine, and limits that make them."""

from latentmdp.planning.budget import Budget
from latentmdp.planning.limits import Limits


class Ticking(Budget):
    """A clock on which every look takes a hundredth of a second."""

    looks = 0

    @property
    def seconds(self):
        self.looks += 1
        return 0.01 * self.looks


class TickingLimits(Limits):
    """`made` has the budgets that were made, the latest last."""

    made = []  # noqa: RUF012  (no field)

    def budget(self):
        self.made.append(Ticking(self.time, self.work))
        return self.made[-1]


class StoppedClock(Budget):
    """0.3 seconds have passed, whatever the machine does."""

    seconds = 0.3


class StoppedLimits(Limits):
    def budget(self):
        return StoppedClock(self.time, self.work)
