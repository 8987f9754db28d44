"""Best-first search over exact beliefs, with ever finer belief grids for the bounds at its leaves.

Most of a grid's interpolation loss arises in the first steps, where reach is largest: there the
tree has exact beliefs. The grid is refined when the tree has cost as much as the next resolution.
"""

import numpy as np

from latentmdp.kernels.beliefs import N_NODES, WORK_UNITS, ObservationModel
from latentmdp.kernels.planning.history_grid import BeliefGrid
from latentmdp.kernels.planning.history_tree import tighten_leaves
from latentmdp.kernels.planning.history_tree_search import (
    back_up_range,
    queue_policy,
    search_tree,
    write_policy,
)
from latentmdp.planning.budget import Budget
from latentmdp.planning.history.belief_arrays import total_bytes
from latentmdp.planning.history.belief_grid import (
    build_grid,
    grid_bytes,
    grid_work,
    next_resolution,
    steps_of,
)
from latentmdp.planning.history.growing_tree import NEVER, GrowingTree
from latentmdp.planning.history.observations import Start
from latentmdp.planning.history.policy_parts import PolicyParts
from latentmdp.planning.history.search import Allowed
from latentmdp.planning.settings import SETTINGS, PlanningSettings


class TreeSearch(GrowingTree):
    """The search `grid`; see `HistorySearch`."""

    name = "grid"

    def __init__(
        self,
        observations: ObservationModel,
        start: Start,
        horizon: int,
        corners: BeliefGrid,
        settings: PlanningSettings = SETTINGS,
    ) -> None:
        super().__init__(observations, start, int(corners.upper.shape[1]), settings)
        self.horizon, self.grids = horizon, [corners]
        self.grid_work = 0  # spent on finer grids
        tighten_leaves(self.tree, corners, 0, 0, self.nodes)
        self.pending = 0  # work of the grid that is built next, once it is due
        if len(corners.belief) > 1:
            self._schedule_grid()

    @staticmethod
    def first_work(corners: BeliefGrid) -> int:
        """Work of making one."""
        return 0

    @staticmethod
    def bytes_to_begin(
        observations: ObservationModel, start: Start, horizon: int, corners: BeliefGrid
    ) -> int:
        """Memory that a new one needs, about."""
        J, M = observations.likelihood.shape
        A, steps = observations.A, steps_of(observations, int(corners.upper.shape[1]))
        nodes = SETTINGS.first_nodes + len(start.state)
        return 8 * (nodes * (20 + M + A) + 2 * J // (A * steps))

    # ------------------------------------------------------------------ state

    @property
    def work(self) -> int:
        """Work units done so far."""
        return int(self.tree.used[WORK_UNITS]) + self.grid_work

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
        return super().advance(quantum, allowed, budget, memory)

    def _search(self, allowed: Allowed, work_limit: int) -> int:
        code: int = search_tree(
            self.tree, self.observations, self.grids[-1], len(self.grids) - 1, self.start.prob,
            self.widest, allowed.relative, allowed.absolute, work_limit,
        )  # fmt: skip
        return code

    def _grid_is_due(self, allowed: Allowed, budget: Budget, memory: int) -> None:
        self.pending = self._next_work()

    def _refine(self, budget: Budget, memory: int) -> None:
        """Build the next grid, if there is one and time, work and memory for it."""
        M = self.observations.likelihood.shape[1]
        N = next_resolution(M, self.grids[-1].N, self.settings.grid_refinement)
        work, self.pending = self.pending, 0
        self.refine_at = NEVER
        size = grid_bytes(self.observations.likelihood.shape, self.horizon, self.S, N)
        rate = budget.work / max(budget.seconds, 1e-3)
        if self.bytes + size > memory // 2 or not budget.affords(work, rate):
            return
        grid = build_grid(self.observations, self.horizon, self.S, N, budget.reason, self.settings)
        if grid is None:
            return
        self.grids.append(grid)
        self.grid_work += work
        level, n = len(self.grids) - 1, self.nodes
        most = self.settings.tree_pass_nodes
        for begin in range(0, n, most):
            if budget.reason():
                return
            tighten_leaves(self.tree, grid, level, begin, min(begin + most, n))
        for end in range(n, 0, -most):
            if budget.reason():
                return
            back_up_range(self.tree, self.observations, max(end - most, 0), end)
        self._schedule_grid()

    def _next_work(self) -> int:
        """The work of the next finer grid."""
        M, refinement = self.observations.likelihood.shape[1], self.settings.grid_refinement
        finer = next_resolution(M, self.grids[-1].N, refinement)
        return grid_work(self.observations, self.horizon, self.S, finer)

    # ------------------------------------------------------------------ the policy

    def add_policy(self, parts: PolicyParts, slack: float) -> None:
        """Add the nodes of the policy that attains the lower bound."""
        tree = self.tree
        plays = np.empty(self.nodes, dtype=np.int64)
        n, edges = queue_policy(tree, self.observations, self.start.prob, plays)
        order = tree.queue[:n].astype(np.int64)
        action, degree = plays[order], np.empty(n, dtype=np.int64)
        symbol, following, target = (np.empty(edges, dtype=np.int64) for _ in range(3))
        used = write_policy(tree, self.observations, n, plays, degree, symbol, following, target)
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
