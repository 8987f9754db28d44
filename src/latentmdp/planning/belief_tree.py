"""Best-first search over exact beliefs, with a ladder of belief grids for the bounds at its leaves.

Most of a grid's interpolation loss arises in the first steps, where reach is largest: there the
tree has exact beliefs. The grid is refined when the tree has cost as much as the next resolution.
"""

from math import exp, inf, log
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.canonical import Ints
from latentmdp.kernels.beliefs import N_EDGES, N_INNER, N_NODES, NONE, WORK_UNITS
from latentmdp.kernels.history_tree import BeliefTree, plant_tree, rehash, tighten_leaves
from latentmdp.kernels.history_tree_search import (
    CLOSED,
    EXHAUSTED,
    FULL,
    back_up_all,
    count_policy,
    search,
    write_policy,
)
from latentmdp.planning.belief_grid import (
    build_grid,
    grid_bytes,
    grid_work,
    next_resolution,
)
from latentmdp.planning.budget import Budget
from latentmdp.planning.observations import ObservationModel, Start
from latentmdp.planning.policy_parts import PolicyParts

if TYPE_CHECKING:
    from latentmdp.planning.history import Allowed

FIRST_NODES = 4096
NEVER = 2**62


class TreeSearch:
    """Anytime search; `advance` works on, `lower` and `upper` hold whenever it returns."""

    name = "grid"

    def __init__(self, joint: ObservationModel, start: Start, horizon: int, corners: Any) -> None:
        self.joint, self.start, self.horizon = joint, start, horizon
        self.S = int(corners.upper.shape[1])
        self.A = len(joint.reward) // self.S
        self.widest = int(np.diff(joint.ptr[:: self.A]).max())  # successors of a node, at most
        self.grids = [corners]
        self.grid_work = 0
        self.tree = self._planted()
        plant_tree(self.tree, corners, start.state, start.belief)
        self.refine_at = NEVER  # with one context the coarsest grid is exact already
        self.refined: tuple[int, float] = (1, 0.0)  # work and gap then
        self.asked = False  # whether the tree was given time beyond `refine_at`
        self.pending = 0  # work of the grid that is built next, once it is due
        if len(corners.belief) > 1:
            self._look_ahead()

    @staticmethod
    def first_work(corners: Any) -> int:
        """Work of making one."""
        return 0

    @staticmethod
    def bytes_to_begin(corners: Any) -> int:
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
        return sum(_bytes(part) for part in (self.tree, *self.grids))

    # ------------------------------------------------------------------ searching

    def advance(self, quantum: int, allowed: "Allowed", budget: Budget, memory: int) -> str:
        """Work `quantum` units or until closed; says `closed`, `paused`, `memory` or `stalled`."""
        if self.pending:
            self._refine(budget, memory)
            return "paused"
        stop = int(self.tree.used[WORK_UNITS]) + quantum
        while True:
            code = search(
                self.tree, self.joint, self.grids[-1], len(self.grids) - 1, self.start.prob,
                allowed.relative, allowed.absolute, min(stop, self.refine_at),
            )  # fmt: skip
            work = int(self.tree.used[WORK_UNITS])
            if code == CLOSED:
                return "closed"
            if code == EXHAUSTED:
                return "stalled"
            if code == FULL:
                if not self._grow(memory):
                    return "memory"
            elif work >= self.refine_at and not self._nearly_done(work, allowed):
                self.pending = self._next_work()
                return "paused"
            elif work >= stop:
                return "paused"

    def _nearly_done(self, work: int, allowed: "Allowed") -> bool:
        """Whether the tree alone will be done for less than the next grid; then it gets the time.

        The gap falls like a power of the work, as it did since the last refinement. Asked once per
        grid.
        """
        low, high = self.bounds
        begun, gap = self.refined
        power = log(gap / (high - low)) / log(work / begun) if work > begun else 0.0
        needed = log((high - low) / max(allowed.gap(high), 1e-300))  # > 0: it is not closed yet
        more = work * (exp(needed / power) - 1) if needed < power else inf
        if self.asked or more > 0.5 * self._next_work():
            return False
        self.asked, self.refine_at = True, work + int(1.5 * more) + 1
        return True

    def _refine(self, budget: Budget, memory: int) -> None:
        """Build the next grid, if there is one and time, work and memory for it."""
        M = self.joint.likelihood.shape[1]
        N = next_resolution(M, self.grids[-1].N)
        work, self.pending = self.pending, 0
        self.refine_at = NEVER
        if self.bytes + grid_bytes(
            self.joint, self.horizon, self.S, N
        ) > memory // 2 or not budget.affords(work, budget.work / max(budget.seconds, 1e-3)):
            return
        grid = build_grid(self.joint, self.horizon, self.S, N, budget.reason)
        if grid is None:
            return
        self.grids.append(grid)
        self.grid_work += work
        tighten_leaves(self.tree, grid, len(self.grids) - 1, 0)
        back_up_all(self.tree, self.joint)
        self._look_ahead()

    def _look_ahead(self) -> None:
        """Say when the next grid is due, and remember where the tree stands now."""
        low, high = self.bounds
        work = int(self.tree.used[WORK_UNITS])
        self.refined, self.asked = (max(work, 1), high - low), False
        self.refine_at = work + self._next_work()

    def _next_work(self) -> int:
        """The work of the next finer grid."""
        finer = next_resolution(self.joint.likelihood.shape[1], self.grids[-1].N)
        return grid_work(self.joint, self.horizon, finer)

    def _planted(self) -> Any:
        """An empty tree with room for a few nodes."""
        n = FIRST_NODES + self.widest + len(self.start.prob)
        M = self.joint.likelihood.shape[1]

        def integers(*shape: int) -> Ints:
            return np.empty(shape, dtype=np.uint32)

        return BeliefTree(
            used=np.zeros(4, dtype=np.int64), step=integers(n), state=integers(n),
            belief=np.empty((n, M)), lower=np.empty(n), upper=np.empty(n), first_edge=integers(n),
            gain_row=integers(n), grid_level=integers(n), vertex=integers(n),
            gain=np.empty((FIRST_NODES // 2, self.A)), child=integers(2 * n), prob=np.empty(2 * n),
            table=_table(n), reach=np.empty(n), queue=integers(n),
        )  # fmt: skip

    def _grow(self, memory: int) -> bool:
        """Twice the room for nodes, edges or inner nodes, whatever is full; False: no memory."""
        tree, full = self.tree, []
        if tree.used[N_NODES] + self.widest > len(tree.step):
            full += ["step", "state", "belief", "lower", "upper", "first_edge", "gain_row",
                     "grid_level", "vertex", "reach", "queue"]  # fmt: skip
        if tree.used[N_EDGES] + self.widest > len(tree.child):
            full += ["child", "prob"]
        if tree.used[N_INNER] >= len(tree.gain):
            full += ["gain"]
        arrays = {name: getattr(tree, name) for name in full}
        if self.bytes + 2 * sum(array.nbytes for array in arrays.values()) > memory:
            return False
        if 2 * max(map(len, arrays.values())) > NONE:  # more than indices can tell apart
            return False
        for name, array in arrays.items():
            tree = tree._replace(**{name: np.concatenate([array, np.zeros_like(array)])})
        if 2 * len(tree.step) > len(tree.table):
            tree = tree._replace(table=_table(len(tree.step)))
            rehash(tree)
        self.tree = tree
        return True

    # ------------------------------------------------------------------ the policy

    def add_policy(self, parts: PolicyParts, slack: float) -> None:
        """Add the nodes of the policy that attains the lower bound."""
        tree = self.tree
        n, edges = count_policy(tree, self.joint, self.start.prob)
        order = tree.queue[:n].astype(np.int64)
        action, degree = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        symbol, nxt, target = (np.empty(edges, dtype=np.int64) for _ in range(3))
        used = write_policy(tree, self.joint, n, action, degree, symbol, nxt, target)
        inner, leaf = action >= 0, action < 0
        graph_node = np.full(int(tree.used[N_NODES]), -1, dtype=np.int64)  # of each tree node
        graph_node[order[inner]] = parts.reserve(int(inner.sum()), used)
        at = order[leaf]
        for rung, grid in enumerate(self.grids):
            mine = at[tree.grid_level[at] == rung]
            graph_node[mine] = parts.add_grid(
                self.joint, grid, tree.step[mine], tree.state[mine], tree.vertex[mine], rung
            )
        parts.fill(
            graph_node[order[inner]], tree.step[order[inner]], tree.state[order[inner]],
            action[inner], degree[inner], symbol[:used], nxt[:used], graph_node[target[:used]],
        )  # fmt: skip
        parts.root[self.start.state] = graph_node[: len(self.start.state)]


def _table(n: int) -> Ints:
    """An empty hash table for `n` nodes."""
    return np.full(1 << (2 * n - 1).bit_length(), NONE, dtype=np.uint32)


def _bytes(part: Any) -> int:
    return sum(x.nbytes for x in part if isinstance(x, np.ndarray))
