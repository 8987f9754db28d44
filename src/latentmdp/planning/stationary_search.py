"""Best-first search over exact beliefs without a last step, with belief grids for its leaves."""

from math import exp, inf, log

import numpy as np

from latentmdp.canonical import Ints
from latentmdp.kernels.beliefs import N_NODES, WORK_UNITS, ObservationModel
from latentmdp.kernels.history_tree import plant_tree, tighten_leaves
from latentmdp.kernels.history_tree_search import CLOSED, EXHAUSTED, FULL, back_up_all
from latentmdp.kernels.stationary_grid import NodeStore
from latentmdp.kernels.stationary_tree import queue_controller, search_in_place, write_controller
from latentmdp.planning.belief_arrays import empty_tree, enlarge_tree, total_bytes
from latentmdp.planning.belief_grid import grid_bytes, n_vertices, next_resolution
from latentmdp.planning.budget import Budget
from latentmdp.planning.history_search import Allowed
from latentmdp.planning.observations import Start
from latentmdp.planning.stationary_grid import WORK_SHARE, StationaryGrid, finer_grid
from latentmdp.policy import PolicyGraph

NEVER = 2**62  # work that no search does
GRID_SHARE = 0.02  # of the gap: what the upper values of a grid may still be able to fall

NODE_SHARE = 0.02  # of the gap, per step: what a new node must gain


class StationarySearch:
    """Anytime: `bounds` on the optimum hold whenever `advance` returns."""

    def __init__(
        self,
        observations: ObservationModel,
        start: Start,
        S: int,
        corners: StationaryGrid,
        store: NodeStore,
    ) -> None:
        self.observations, self.start, self.S, self.store = observations, start, S, store
        self.A = len(observations.reward) // S
        self.widest = int(np.diff(observations.ptr[:: self.A]).max())  # edges of a node, at most
        self.grids = [corners]
        self.tree = empty_tree(observations, len(start.state), self.A, self.widest)
        plant_tree(self.tree, start.state, start.belief)
        tighten_leaves(self.tree, corners.grid, 0, 0)
        self.refine_at = NEVER
        self.refined: tuple[int, float] = (1, 0.0)  # work and gap when the last grid was built
        self.extended = False  # whether the tree was given work beyond that
        if len(corners.grid.belief) > 1:
            self._schedule_grid()

    @property
    def bounds(self) -> tuple[float, float]:
        """`(lower, upper)` on the optimum."""
        n = len(self.start.prob)
        low = float(self.start.prob @ self.tree.lower[:n])
        high = float(self.start.prob @ self.tree.upper[:n])
        return low, high

    @property
    def work(self) -> int:
        """Work units done so far."""
        return int(self.tree.used[WORK_UNITS]) + sum(made.work for made in self.grids)

    @property
    def nodes(self) -> int:
        """Nodes of the search."""
        return int(self.tree.used[N_NODES])

    @property
    def bytes(self) -> int:
        """Memory in use."""
        grids = sum(total_bytes(made.grid) + made.node_at.nbytes for made in self.grids)
        return total_bytes(self.tree) + total_bytes(self.store) + grids

    # ------------------------------------------------------------------ searching

    def advance(self, quantum: int, allowed: Allowed, budget: Budget, memory: int) -> str:
        """Work `quantum` units or until closed; says `closed`, `paused`, `memory` or `stalled`."""
        stop = int(self.tree.used[WORK_UNITS]) + quantum
        while True:
            code = search_in_place(
                self.tree, self.observations, self.grids[-1].grid, len(self.grids) - 1,
                self.start.prob, self.widest, allowed.relative, allowed.absolute,
                min(stop, self.refine_at),
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
                self._refine(allowed, budget, memory)
                return "paused"
            elif work >= stop:
                return "paused"

    def _nearly_done(self, work: int, allowed: Allowed) -> bool:
        """Whether the tree alone will be done for less than the next grid (as in `TreeSearch`)."""
        low, high = self.bounds
        begun, gap = self.refined
        falls = work > begun and gap > high - low > 0.0
        power = log(gap / (high - low)) / log(work / begun) if falls else 0.0
        needed = log((high - low) / max(allowed.gap(high), 1e-300))
        more = work * (exp(needed / power) - 1) if needed < power else inf
        if self.extended or more > 0.5 * self._next_work():
            return False
        self.extended, self.refine_at = True, work + int(1.5 * more) + 1
        return True

    def _refine(self, allowed: Allowed, budget: Budget, memory: int) -> None:
        """Build the next grid, if there is memory for it, and hand its bounds to the leaves."""
        M = self.observations.likelihood.shape[1]
        N = next_resolution(M, self.grids[-1].grid.N)
        self.refine_at = NEVER
        size = 2 * grid_bytes(self.observations, 0, self.S, N)
        rate = budget.work / max(budget.seconds, 1e-3)
        if self.bytes + size > memory // 2 or not budget.affords(self._next_work(), rate):
            return
        low, high = self.bounds
        tolerance = max(GRID_SHARE * (high - low), 0.1 * allowed.gap(high))
        made = finer_grid(self.observations, self.grids[-1], N, tolerance, budget.reason)
        free = max(memory // 4 - total_bytes(self.store), 0)
        room = len(self.store.state) * (1 + free // max(total_bytes(self.store), 1))
        least_gain = NODE_SHARE * (high - low) * (1.0 - self.observations.discount)
        self.store = made.improve(self.store, least_gain, room, budget.reason)
        self.grids.append(made)
        tighten_leaves(self.tree, made.grid, len(self.grids) - 1, 0)
        back_up_all(self.tree, self.observations)
        self._schedule_grid()

    def _schedule_grid(self) -> None:
        low, high = self.bounds
        work = int(self.tree.used[WORK_UNITS])
        self.refined, self.extended = (max(work, 1), high - low), False
        self.refine_at = work + self._next_work()

    def _next_work(self) -> int:
        """The work of the next finer grid, if it takes as many sweeps as the last one."""
        J, M = self.observations.likelihood.shape
        finer = next_resolution(M, self.grids[-1].grid.N)
        sweeps = max(self.grids[-1].sweeps // 2, 20)
        return n_vertices(M, finer) * J * sweeps // WORK_SHARE

    # ------------------------------------------------------------------ the controller

    def controller(self, slack: float) -> PolicyGraph:
        """The policy of the lower bound: nodes of the tree, then nodes of grids they lead to."""
        tree, observations = self.tree, self.observations
        action = np.full(len(tree.state), -1, dtype=np.int64)
        n, edges = queue_controller(tree, observations, self.start.prob, slack, action)
        order = tree.queue[:n].astype(np.int64)
        degree = np.empty(n, dtype=np.int64)
        symbol, following, target = (np.empty(edges, dtype=np.int64) for _ in range(3))
        write_controller(tree, observations, n, action, degree, symbol, following, target)
        inner = action[order] >= 0
        count = int(inner.sum())
        number = np.full(len(tree.state), -1, dtype=np.int64)  # of tree nodes in the controller
        number[order[inner]] = np.arange(count)
        at = order[~inner]
        made = np.empty(len(at), dtype=np.int64)  # the stored nodes at which the tree ends
        for level, grid in enumerate(self.grids):
            mine = tree.grid_level[at] == level
            made[mine] = grid.node_at[tree.state[at[mine]], tree.vertex[at[mine]]]
        default = self._likeliest() * self.S + np.arange(self.S)
        stored, place = self._closure(np.append(made, default))
        place += count
        number[at] = place[made]
        root = place[default]
        root[self.start.state] = number[: len(self.start.state)]
        kept = self._stored_part(stored, place)
        parts = (tree.state[order[inner]], action[order[inner]], degree[inner],
                 symbol, following, number[target])  # fmt: skip
        state, chosen, width, symbol, following, node = (
            np.concatenate([a, b]).astype(np.int64) for a, b in zip(parts, kept, strict=True)
        )
        return PolicyGraph.from_arrays(
            np.zeros(len(state), dtype=np.int64), state, chosen,
            np.concatenate([[0], np.cumsum(width)]), symbol, following, node, root,
            place[default][None], stationary=True,
        )  # fmt: skip

    def _likeliest(self) -> int:
        """The context whose own policy answers what nobody expects."""
        return int(np.argmax(self.start.prob @ self.start.belief))

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
