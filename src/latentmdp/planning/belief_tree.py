"""Best-first search over exact beliefs, with ever finer belief grids for the bounds at its leaves.

Most of a grid's interpolation loss arises in the first steps, where reach is largest: there the
tree has exact beliefs. The grid is refined when the tree has cost as much as the next resolution.
"""

from math import exp, inf, log

import numpy as np

from latentmdp.kernels.beliefs import N_NODES, WORK_UNITS, ObservationModel
from latentmdp.kernels.history_grid import BeliefGrid
from latentmdp.kernels.history_tree import plant_tree, tighten_leaf_range, tighten_leaves
from latentmdp.kernels.history_tree_search import (
    CLOSED,
    EXHAUSTED,
    FULL,
    back_up_range,
    count_policy,
    search_tree,
    write_tree_policy,
)
from latentmdp.planning.belief_arrays import FIRST_NODES, empty_tree, enlarge_tree, total_bytes
from latentmdp.planning.belief_grid import build_grid, grid_bytes, grid_work, next_resolution
from latentmdp.planning.budget import Budget
from latentmdp.planning.history_search import Allowed
from latentmdp.planning.observations import Start
from latentmdp.planning.policy_parts import PolicyParts

NEVER = 2**62  # work that no search does
PASS_NODES = 200_000  # to tighten or back up between two looks at the clock


class TreeSearch:
    """The search `grid`; see `HistorySearch`."""

    name = "grid"

    def __init__(
        self, observations: ObservationModel, start: Start, horizon: int, corners: BeliefGrid
    ) -> None:
        self.observations, self.start, self.horizon = observations, start, horizon
        self.S = int(corners.upper.shape[1])
        self.A = len(observations.reward) // self.S
        self.widest = int(np.diff(observations.ptr[:: self.A]).max())  # edges of a node, at most
        self.grids = [corners]
        self.grid_work = 0  # spent on finer grids
        self.tree = empty_tree(observations, len(start.state), self.A, self.widest)
        plant_tree(self.tree, start.state, start.belief)
        tighten_leaves(self.tree, corners, 0, 0)
        self.refine_at = NEVER  # work; with one context the coarsest grid is exact already
        self.refined: tuple[int, float] = (1, 0.0)  # work and gap when the last grid was built
        self.extended = False  # whether the next grid was put off once
        self.pending = 0  # work of the grid that is built next, once it is due
        if len(corners.belief) > 1:
            self._schedule_grid()

    @staticmethod
    def first_work(corners: BeliefGrid) -> int:
        """Work of making one."""
        return 0

    @staticmethod
    def bytes_to_begin(corners: BeliefGrid) -> int:
        """Memory that a new one needs, about."""
        return 8 * FIRST_NODES * (20 + int(corners.alpha.shape[2]))

    # ------------------------------------------------------------------ state

    @property
    def bounds(self) -> tuple[float, float]:
        """`(lower, upper)` on the optimum."""
        low = float(self.start.prob @ self.tree.lower[: len(self.start.prob)])
        high = float(self.start.prob @ self.tree.upper[: len(self.start.prob)])
        return low, high

    @property
    def work(self) -> int:
        """Work units done so far."""
        return int(self.tree.used[WORK_UNITS]) + self.grid_work

    @property
    def nodes(self) -> int:
        """Nodes of the tree."""
        return int(self.tree.used[N_NODES])

    @property
    def bytes(self) -> int:
        """Memory in use."""
        return sum(total_bytes(part) for part in (self.tree, *self.grids))

    # ------------------------------------------------------------------ searching

    def advance(self, quantum: int, allowed: Allowed, budget: Budget, memory: int) -> str:
        """Work `quantum` units or until closed; says `closed`, `paused`, `memory` or `stalled`."""
        if self.pending:
            self._refine(budget, memory)
            return "paused"
        stop = int(self.tree.used[WORK_UNITS]) + quantum
        while True:
            code = search_tree(
                self.tree, self.observations, self.grids[-1], len(self.grids) - 1, self.start.prob,
                self.widest, allowed.relative, allowed.absolute, min(stop, self.refine_at),
            )  # fmt: skip
            work = int(self.tree.used[WORK_UNITS])
            if code == CLOSED:
                return "closed"
            if code == EXHAUSTED:
                return "stalled"
            if code == FULL:
                larger = enlarge_tree(self.tree, self.widest, memory - self.bytes)
                if larger is None:
                    return "memory"
                self.tree = larger
            elif work >= self.refine_at and not self._nearly_done(work, allowed):
                self.pending = self._next_work()
                return "paused"
            elif work >= stop:
                return "paused"

    def _nearly_done(self, work: int, allowed: Allowed) -> bool:
        """Whether the tree alone should close the gap for less than half the work of the next grid.

        If so, the grid is put off until the tree had 1.5 times the work that it should need; this
        is done once per grid. The gap is expected to fall like a power of the work, as it did since
        the last grid.
        """
        low, high = self.bounds
        begun, gap = self.refined
        power = log(gap / (high - low)) / log(work / begun) if work > begun else 0.0
        needed = log((high - low) / max(allowed.gap(high), 1e-300))  # > 0: it is not closed yet
        more = work * (exp(needed / power) - 1) if needed < power else inf
        if self.extended or more > 0.5 * self._next_work():
            return False
        self.extended, self.refine_at = True, work + int(1.5 * more) + 1
        return True

    def _refine(self, budget: Budget, memory: int) -> None:
        """Build the next grid, if there is one and time, work and memory for it."""
        M = self.observations.likelihood.shape[1]
        N = next_resolution(M, self.grids[-1].N)
        work, self.pending = self.pending, 0
        self.refine_at = NEVER
        size = grid_bytes(self.observations, self.horizon, self.S, N)
        rate = budget.work / max(budget.seconds, 1e-3)
        if self.bytes + size > memory // 2 or not budget.affords(work, rate):
            return
        grid = build_grid(self.observations, self.horizon, self.S, N, budget.reason)
        if grid is None:
            return
        self.grids.append(grid)
        self.grid_work += work
        level, n = len(self.grids) - 1, self.nodes
        for begin in range(0, n, PASS_NODES):
            if budget.reason():
                return
            tighten_leaf_range(self.tree, grid, level, begin, min(begin + PASS_NODES, n))
        for end in range(n, 0, -PASS_NODES):
            if budget.reason():
                return
            back_up_range(self.tree, self.observations, max(end - PASS_NODES, 0), end)
        self._schedule_grid()

    def _schedule_grid(self) -> None:
        """The next grid is due when the tree has cost as much; remember work and gap of now."""
        low, high = self.bounds
        work = int(self.tree.used[WORK_UNITS])
        self.refined, self.extended = (max(work, 1), high - low), False
        self.refine_at = work + self._next_work()

    def _next_work(self) -> int:
        """The work of the next finer grid."""
        finer = next_resolution(self.observations.likelihood.shape[1], self.grids[-1].N)
        return grid_work(self.observations, self.horizon, finer)

    # ------------------------------------------------------------------ the policy

    def add_policy(self, parts: PolicyParts, slack: float) -> None:
        """Add the nodes of the policy that attains the lower bound."""
        tree = self.tree
        n, edges = count_policy(tree, self.observations, self.start.prob)
        order = tree.queue[:n].astype(np.int64)
        action, degree = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        symbol, following, target = (np.empty(edges, dtype=np.int64) for _ in range(3))
        used = write_tree_policy(
            tree, self.observations, n, action, degree, symbol, following, target
        )
        inner, leaf = action >= 0, action < 0
        graph_node = np.full(int(tree.used[N_NODES]), -1, dtype=np.int64)  # of each tree node
        graph_node[order[inner]] = parts.reserve(int(inner.sum()), used)
        at = order[leaf]
        for level, grid in enumerate(self.grids):
            mine = at[tree.grid_level[at] == level]
            graph_node[mine] = parts.add_grid(
                self.observations, grid, tree.step[mine], tree.state[mine], tree.vertex[mine], level
            )
        parts.fill(
            graph_node[order[inner]], tree.step[order[inner]], tree.state[order[inner]],
            action[inner], degree[inner], symbol[:used], following[:used],
            graph_node[target[:used]],
        )  # fmt: skip
        parts.root[self.start.state] = graph_node[: len(self.start.state)]
