"""Best-first search over exact beliefs without a last step, with belief grids for its leaves."""

import numpy as np

from latentmdp.csr import Ints
from latentmdp.kernels.beliefs import N_INNER, WORK_UNITS, ObservationModel
from latentmdp.kernels.planning.history_tree import tighten_leaves
from latentmdp.kernels.planning.history_tree_search import back_up_range, write_policy
from latentmdp.kernels.planning.infinite_grid import NodeStore
from latentmdp.kernels.planning.infinite_tree import queue_controller, search_in_place
from latentmdp.planning.budget import Budget, StopCheck
from latentmdp.planning.history.belief_arrays import total_bytes
from latentmdp.planning.history.belief_grid import grid_bytes, n_vertices, next_resolution
from latentmdp.planning.history.growing_tree import NEVER, GrowingTree
from latentmdp.planning.history.observations import Start
from latentmdp.planning.history.search import Allowed
from latentmdp.planning.infinite.belief_grid import InfiniteGrid, finer_grid
from latentmdp.planning.settings import PlanningSettings
from latentmdp.policy.graph import PolicyGraph


class InfiniteSearch(GrowingTree):
    """The search without a last step; equal beliefs are one node however late they come."""

    def __init__(
        self,
        observations: ObservationModel,
        start: Start,
        S: int,
        corners: InfiniteGrid,
        store: NodeStore,
        settings: PlanningSettings,
    ) -> None:
        super().__init__(observations, start, S, settings)
        self.store, self.grids = store, [corners]
        self.default_table = self._best_corner()  # (S,) actions
        self.stop: StopCheck = bool  # whether to stop building a grid; what it makes costs time
        tighten_leaves(self.tree, corners.grid, 0, 0, self.nodes)
        if len(corners.grid.belief) > 1:
            self._schedule_grid()

    @property
    def work(self) -> int:
        """Work units done so far."""
        return int(self.tree.used[WORK_UNITS]) + sum(made.work for made in self.grids)

    @property
    def bytes(self) -> int:
        """Memory in use."""
        grids = sum(total_bytes(made.grid) + made.node_at.nbytes for made in self.grids)
        return total_bytes(self.tree) + total_bytes(self.store) + grids

    @property
    def most_policy_nodes(self) -> int:
        """Nodes of the policy that it would hand out now, at most."""
        return int(self.tree.used[N_INNER]) + int(self.store.used[0])

    # ------------------------------------------------------------------ searching

    def _search(self, allowed: Allowed, work_limit: int) -> int:
        code: int = search_in_place(
            self.tree, self.observations, self.grids[-1].grid, len(self.grids) - 1,
            self.start.prob, self.widest, allowed.relative, allowed.absolute, work_limit,
        )  # fmt: skip
        return code

    def _grid_is_due(self, allowed: Allowed, budget: Budget, memory: int) -> None:
        """Build the next grid, if there is memory for it, and hand its bounds to the leaves."""
        M = self.observations.likelihood.shape[1]
        N = next_resolution(M, self.grids[-1].grid.N, self.settings.grid_refinement)
        self.refine_at = NEVER
        size = 2 * grid_bytes(self.observations.likelihood.shape, 0, self.S, N)
        rate = budget.work / max(budget.seconds, 1e-3)
        if self.bytes + size > memory // 2 or not budget.affords(self._next_work(), rate):
            return
        low, high = self.bounds
        tolerance = max(self.settings.infinite_grid_share * (high - low), 0.1 * allowed.gap(high))
        made = finer_grid(self.observations, self.grids[-1], N, tolerance, self.stop)
        if made is None:
            return
        free = max(memory // 4 - total_bytes(self.store), 0)
        room = len(self.store.state) * (1 + free // max(total_bytes(self.store), 1))
        least_gain = self.settings.infinite_node_share * (high - low)
        least_gain *= 1.0 - self.observations.discount
        self.store = made.improve(self.store, least_gain, room, self.stop)
        self.grids.append(made)
        tighten_leaves(self.tree, made.grid, len(self.grids) - 1, 0, self.nodes)
        back_up_range(self.tree, self.observations, 0, self.nodes)
        self._schedule_grid()

    def _next_work(self) -> int:
        """The work of the next finer grid, if it takes as many sweeps as the last one."""
        J, M = self.observations.likelihood.shape
        finer = next_resolution(M, self.grids[-1].grid.N, self.settings.grid_refinement)
        sweeps = max(self.grids[-1].sweeps // 2, 20)
        return n_vertices(M, finer) * J * sweeps // self.settings.infinite_work_share

    # ------------------------------------------------------------------ the controller

    def controller(self, slack: float) -> PolicyGraph:
        """The policy of the lower bound: nodes of the tree, then nodes of grids they lead to."""
        tree, observations = self.tree, self.observations
        action = np.full(len(tree.state), -1, dtype=np.int64)
        n, edges = queue_controller(tree, observations, self.start.prob, slack, action)
        order = tree.queue[:n].astype(np.int64)
        degree = np.empty(n, dtype=np.int64)
        symbol, following, target = (np.empty(edges, dtype=np.int64) for _ in range(3))
        write_policy(tree, observations, n, action, degree, symbol, following, target)
        inner = action[order] >= 0
        count = int(inner.sum())
        number = np.full(len(tree.state), -1, dtype=np.int64)  # of tree nodes in the controller
        number[order[inner]] = np.arange(count)
        at = order[~inner]
        made = np.empty(len(at), dtype=np.int64)  # the stored nodes at which the tree ends
        for level, grid in enumerate(self.grids):
            mine = tree.grid_level[at] == level
            made[mine] = grid.node_at[tree.state[at[mine]], tree.vertex[at[mine]]]
        stored, place = self._closure(made)
        place += count
        number[at] = place[made]
        default = count + len(stored) + np.arange(self.S)
        root = default.copy()
        root[self.start.state] = number[: len(self.start.state)]
        kept = self._stored_part(stored, place)
        parts = (tree.state[order[inner]], action[order[inner]], degree[inner],
                 symbol, following, number[target])  # fmt: skip
        none = np.zeros(0, dtype=np.int64)
        alone = np.arange(self.S), self.default_table, np.zeros_like(default), none, none, none
        state, chosen, width, symbol, following, node = (
            np.concatenate([a, b, c]).astype(np.int64)
            for a, b, c in zip(parts, kept, alone, strict=True)
        )
        return PolicyGraph.from_arrays(
            np.zeros(len(state), dtype=np.int64), state, chosen,
            np.concatenate([[0], np.cumsum(width)]), symbol, following, node, root,
            default[None], stationary=True,
        )  # fmt: skip

    def _best_corner(self) -> Ints:
        """The policy that is optimal in one context and worth most."""
        M = self.observations.likelihood.shape[1]
        alpha = self.store.alpha[: M * self.S].reshape(M, self.S, M)[:, self.start.state]
        worth = np.einsum("n,nm,knm->k", self.start.prob, self.start.belief, alpha)
        first = int(np.argmax(worth)) * self.S
        return self.store.action[first : first + self.S].astype(np.int64)

    def _closure(self, wanted: Ints) -> tuple[Ints, Ints]:
        """All stored nodes that these lead to, the last made first, and where each stands."""
        store = self.store
        used = int(store.used[0])
        reached = np.zeros(used, dtype=bool)
        new = np.unique(wanted)
        while len(new):
            reached[new] = True
            _, k = self._successors(new)
            new = np.unique(k[~reached[k]])
        stored = np.flatnonzero(reached)[::-1]
        place = np.full(used, -1, dtype=np.int64)
        place[stored] = np.arange(len(stored))
        return stored, place

    def _successors(self, nodes: Ints) -> tuple[Ints, Ints]:
        """`(observation, stored node)` of all successors of stored nodes, node by node."""
        store, ptr = self.store, self.observations.ptr.astype(np.int64)
        sa = store.state[nodes] * self.A + store.action[nodes]
        degree = ptr[sa + 1] - ptr[sa]
        i = np.arange(degree.sum()) - np.repeat(np.cumsum(degree) - degree, degree)
        return i + np.repeat(ptr[sa], degree), store.successor[np.repeat(nodes, degree), i]

    def _stored_part(self, stored: Ints, place: Ints) -> tuple[np.ndarray, ...]:
        """State, action, degree of these nodes; symbol, next and place of their successors."""
        store, ptr = self.store, self.observations.ptr.astype(np.int64)
        sa = store.state[stored] * self.A + store.action[stored]
        o, k = self._successors(stored)
        return (store.state[stored], store.action[stored], ptr[sa + 1] - ptr[sa],
                self.observations.symbol[o], self.observations.next[o], place[k])  # fmt: skip
