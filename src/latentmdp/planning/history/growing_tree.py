"""What the tree searches with and without a last step have in common: when a finer grid is due."""

from abc import ABC, abstractmethod
from math import exp, inf, log

import numpy as np

from latentmdp.kernels.beliefs import N_NODES, WORK_UNITS, ObservationModel
from latentmdp.kernels.planning.history_tree import BeliefTree, plant_tree
from latentmdp.kernels.planning.history_tree_search import CLOSED, EXHAUSTED, FULL
from latentmdp.planning.budget import Budget
from latentmdp.planning.history.belief_arrays import empty_tree, enlarge_tree
from latentmdp.planning.history.observations import Start
from latentmdp.planning.history.search import Allowed
from latentmdp.planning.settings import PlanningSettings

NEVER = 2**62  # work that no search does


class GrowingTree(ABC):
    """A tree of exact beliefs whose leaves have the bounds of ever finer belief grids.

    Anytime: `bounds` on the optimum hold whenever `advance` returns. The grid is refined when the
    tree has cost as much as the next resolution.
    """

    tree: BeliefTree

    def __init__(
        self, observations: ObservationModel, start: Start, S: int, settings: PlanningSettings
    ) -> None:
        self.observations, self.start, self.S = observations, start, S
        self.settings = settings
        self.A = observations.A
        self.widest = int(np.diff(observations.ptr[:: self.A]).max())  # edges of a node, at most
        self.tree = empty_tree(
            observations, len(start.state), self.A, self.widest, settings.first_nodes
        )
        plant_tree(self.tree, start.state, start.belief)
        self.refine_at = NEVER  # work; with one context the coarsest grid is exact already
        self.refined: tuple[int, float] = (1, 0.0)  # work and gap when the last grid was built
        self.extended = False  # whether the next grid was put off once

    @property
    def bounds(self) -> tuple[float, float]:
        """`(lower, upper)` on the optimum."""
        roots = len(self.start.prob)
        low = float(self.start.prob @ self.tree.lower[:roots])
        high = float(self.start.prob @ self.tree.upper[:roots])
        return low, high

    @property
    def nodes(self) -> int:
        """Nodes of the tree."""
        return int(self.tree.used[N_NODES])

    @property
    @abstractmethod
    def bytes(self) -> int:
        """Memory in use."""

    def advance(self, quantum: int, allowed: Allowed, budget: Budget, memory: int) -> str:
        """Work `quantum` units or until closed; says `closed`, `paused`, `memory` or `stalled`."""
        stop = int(self.tree.used[WORK_UNITS]) + quantum
        while True:
            code = self._search(allowed, min(stop, self.refine_at))
            work = int(self.tree.used[WORK_UNITS])
            if code == CLOSED:
                return "closed"
            if code == EXHAUSTED:
                return "stalled"
            if code == FULL:
                larger = enlarge_tree(
                    self.tree, self.widest, memory - self.bytes, self.settings.room_growth
                )
                if larger is None:
                    return "memory"
                self.tree = larger
            elif work >= self.refine_at and not self._nearly_done(work, allowed):
                self._grid_is_due(allowed, budget, memory)
                return "paused"
            elif work >= stop:
                return "paused"

    @abstractmethod
    def _search(self, allowed: Allowed, work_limit: int) -> int:
        """Rounds of expansion by the kernel; why it stopped."""

    @abstractmethod
    def _grid_is_due(self, allowed: Allowed, budget: Budget, memory: int) -> None:
        """Build the next grid, or see to it that it is built."""

    @abstractmethod
    def _next_work(self) -> int:
        """The work of the next finer grid."""

    def _nearly_done(self, work: int, allowed: Allowed) -> bool:
        """Whether the tree alone should close the gap for less than half the work of the next grid.

        If so, the grid is put off until the tree had 1.5 times the work that it should need; this
        is done once per grid. The gap is expected to fall like a power of the work, as it did since
        the last grid.
        """
        low, high = self.bounds
        begun, gap = self.refined
        falls = work > begun and gap > high - low > 0.0
        power = log(gap / (high - low)) / log(work / begun) if falls else 0.0
        needed = log((high - low) / max(allowed.gap(high), 1e-300))  # > 0: it is not closed yet
        more = work * (exp(needed / power) - 1) if needed < power else inf
        if self.extended or more > 0.5 * self._next_work():
            return False
        self.extended, self.refine_at = True, work + int(1.5 * more) + 1
        return True

    def _schedule_grid(self) -> None:
        """The next grid is due when the tree has cost as much; remember work and gap of now."""
        low, high = self.bounds
        work = int(self.tree.used[WORK_UNITS])
        self.refined, self.extended = (max(work, 1), high - low), False
        self.refine_at = work + self._next_work()
