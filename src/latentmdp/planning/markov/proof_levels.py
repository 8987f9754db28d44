"""Which upper bound branch and bound tries to prove next, and how long it may try.

A search for policies above a threshold takes several times as many nodes when the threshold is a
little lower. So the thresholds go down in levels, each of which moves the upper bound, and the last
level (the threshold is the lower bound) costs about as much as all others together. Decisions rest
on bounds and numbers of nodes alone.
"""

import math

from latentmdp.planning.settings import SETTINGS, PlanningSettings


class ProofLevels:
    """Thresholds for one search after another; `settle` is told what each of them took.

    >>> levels = ProofLevels(gap=1.0, rounding=1e-12)
    >>> levels.threshold(lower=0.0, upper=1.0), levels.limit
    (0.98, 20000.0)
    >>> levels.settle(100.0)  # quickly proved: the next one goes twice as far
    >>> round(levels.threshold(lower=0.0, upper=0.98), 6)
    0.94
    """

    def __init__(self, gap: float, rounding: float, settings: PlanningSettings = SETTINGS) -> None:
        self.settings = settings
        self.step = max(settings.level_first_step * gap, 16 * rounding)
        self.smallest = max(settings.level_smallest_step * gap, 4 * rounding)
        self.last, self.before = 0.0, 0.0  # nodes of the last two levels that were proved
        self.may_jump, self.jumps = True, False

    def threshold(self, lower: float, upper: float) -> float:
        """The next threshold."""
        self.jumps = self.may_jump and self._can_afford_the_rest((upper - lower) / self.step)
        return lower if self.jumps else max(lower, upper - self.step)

    @property
    def limit(self) -> float:
        """Nodes after which that search is to be given up for one that goes less far."""
        if self.jumps:
            return float(self.settings.level_jump_nodes)
        if self.step <= self.smallest:
            return math.inf
        return max(
            float(self.settings.level_least_limit), self.settings.level_most_growth * self.last
        )

    def settle(self, nodes: float | None) -> None:
        """The search took so many nodes; None: it was given up."""
        if nodes is None and self.jumps:
            self.may_jump = False
        elif nodes is None:
            self._take_step(self.step / 4)
        else:
            s = self.settings
            least, most = s.level_good_growth
            if nodes < max(s.level_small, least * self.last):
                self._take_step(2 * self.step)
            elif nodes > max(s.level_least_limit, most * self.last):
                self._take_step(self.step / 2)
            self.last, self.before = nodes, self.last

    def _take_step(self, step: float) -> None:
        self.step = max(step, self.smallest)

    def _can_afford_the_rest(self, steps: float) -> bool:
        """Whether the last level, at the rate of growth seen, takes few enough nodes."""
        if self.before < self.settings.level_small:
            return False
        growth = math.log(self.last / self.before)
        return math.log(self.last) + steps * growth < math.log(self.settings.level_jump_nodes)
