"""Search over merged beliefs: nodes `(belief, state)` shared by all steps, expanded by layers.

Where observations leave most beliefs as they are, or lead back to earlier ones (mazes, sequential
tests), few beliefs matter. Expanding all of them is exact; expanding those with the largest
`reach x gap` is often enough.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.canonical import Ints
from latentmdp.kernels.beliefs import N_BELIEFS, N_EDGES, N_INNER, N_NODES, NONE, WORK_UNITS
from latentmdp.kernels.history_extract import reached_policy, write_graph_policy
from latentmdp.kernels.history_frontier import score_frontier, tighten_frontier
from latentmdp.kernels.history_graph import (
    FRONTIER,
    HOLD,
    BeliefGraph,
    Corners,
    bound_nodes,
    expand_beliefs,
    plant_graph,
    rehash_beliefs,
)
from latentmdp.kernels.history_grid import BeliefGrid
from latentmdp.kernels.history_sweep import back_up_layers
from latentmdp.planning.budget import Budget
from latentmdp.planning.observations import ObservationModel, Start
from latentmdp.planning.policy_parts import PolicyParts, PolicyTooLargeError

if TYPE_CHECKING:
    from latentmdp.planning.history import Allowed

CUT = 1e-6  # what is reached with less is not followed while anything else is left
DRIFT = 1e-3  # of the allowed gap: what may be added for sweeps that stop early
NOTICE = 1e-4  # of the allowed gap: smaller changes are not passed on at once
PIECE = 500_000  # work of a pass between two looks at the clock
GROWTH = 1.3  # of the arrays, when they are full
BATCH = 0.15  # beliefs expanded per round, relative to those expanded already


class GraphSearch:
    """Anytime search; `advance` works on, `bounds` hold whenever it returns."""

    name = "layers"
    pending = 0

    def __init__(self, joint: ObservationModel, start: Start, horizon: int, corners: Any) -> None:
        self.joint, self.start, self.horizon, self.corners = joint, start, horizon, corners
        self.by_step = _by_step(corners)
        self.S = int(corners.upper.shape[1])
        self.A = len(joint.reward) // self.S
        self.round, self.cut = 0, CUT
        self.order: Ints = np.zeros(0, dtype=np.int64)
        self.graph = self._planted()
        self.start_node = np.empty(len(start.state), dtype=np.int64)
        plant_graph(self.graph, self.by_step, start.state, start.belief, self.start_node)
        self.graph.used[WORK_UNITS] += self.first_work(corners)

    @staticmethod
    def first_work(corners: Any) -> int:
        """Work of making one."""
        return int(corners.alpha.size) // 24

    @staticmethod
    def bytes_to_begin(corners: Any) -> int:
        """Memory that a new one needs, about."""
        return 2 * int(corners.alpha.nbytes)

    # ------------------------------------------------------------------ state

    @property
    def bounds(self) -> tuple[float, float]:
        """`(lower, upper)` on the optimum."""
        low, high = self.start.prob @ self.graph.bound[self.start_node, self.horizon]
        return float(low), float(high)

    @property
    def work(self) -> int:
        """Work units done so far."""
        return int(self.graph.used[WORK_UNITS])

    @property
    def nodes(self) -> int:
        """Nodes of the graph."""
        return int(self.graph.used[N_NODES])

    @property
    def bytes(self) -> int:
        """Memory in use."""
        return sum(x.nbytes for x in (*self.graph, *self.by_step))

    # ------------------------------------------------------------------ searching

    def advance(self, quantum: int, allowed: "Allowed", budget: Budget, memory: int) -> str:
        """Rounds for `quantum` units or until closed; `closed`, `paused`, `memory`, `stalled`."""
        stop = self.work + quantum
        while True:
            low, high = self.bounds
            if high - low <= allowed.gap(high):
                return "closed"
            if self.work >= stop:
                return "paused"
            said = self._round(allowed.gap(high), budget, memory)
            if said:
                return said

    def _round(self, allowed: float, budget: Budget, memory: int) -> str:
        self.round += 1
        drift, notice = DRIFT * allowed / self.horizon, NOTICE * allowed
        chosen = self._choose()
        if len(chosen) == 0:  # what is left lies where hardly anything gets
            if self.cut > 0.0:
                self.cut = self.cut / 100 if self.cut > 1e-14 else 0.0
                return ""
            # after a pass over everything the upper policy reaches the whole gap of the root at the
            # frontier; other actions may tie for the best, so it is all bounds that must stand
            self._back_up(True, drift, 0.0, budget)
            moved = (self.graph.changed[: self.nodes] == self.round).any()
            return "" if moved or budget.reason() else "stalled"
        said = self._expand(chosen, drift, budget, memory)
        if said:
            return said
        tighten_frontier(self.graph, self.by_step, self.order, self.round, drift, notice)
        self._sort()
        self._back_up(False, drift, notice, budget)
        return ""

    def _back_up(self, everything: bool, drift: float, notice: float, budget: Budget) -> None:
        """A pass over the layers; stops between two of them, bounds valid, when time is up."""
        first = 0
        while first < len(self.order) and not (first and budget.reason()):
            first = back_up_layers(
                self.graph, self.order, first, self.round, everything, drift, notice,
                self.work + PIECE,
            )  # fmt: skip

    def _choose(self) -> Ints:
        """Frontier beliefs with the largest `reach x gap`, in turns by upper and lower policy."""
        g = self.graph
        g.passed_to[:] = 0
        score = []
        for side in (0, 1):
            score_frontier(g, side, self.start_node, self.start.prob, self.cut)
            score.append(g.score[: g.used[N_BELIEFS]].copy())
        by = 0 if self.round % 2 == 0 and score[0].any() else 1
        candidates = np.flatnonzero(score[by] > 0)
        n = max(2, int(BATCH * len(self.order)))
        return candidates[np.argsort(-score[by][candidates], kind="stable")[:n]]

    def _expand(self, chosen: Ints, drift: float, budget: Budget, memory: int) -> str:
        """Expand the chosen beliefs; `memory` or `paused` where that ends it."""
        new = self.graph.swept[chosen] == FRONTIER
        done = 0
        while done < len(chosen):
            begin, nodes = done, self.nodes
            done = expand_beliefs(
                self.graph, self.joint, chosen, begin, self.round, self.work + PIECE
            )
            bound_nodes(self.graph, self.by_step, nodes, drift)
            self.order = np.append(self.order, chosen[begin:done][new[begin:done]])
            if done == begin and not self._grow(memory):
                return "memory"
            if budget.reason():
                return "paused"
        return ""

    def _sort(self) -> None:
        """Order the expanded beliefs: smaller supports first, equal ones together."""
        members = np.packbits(self.graph.belief[self.order] > 0, axis=1)
        keys: list[Any] = [*members.T, self.graph.support[self.order]]
        self.order = self.order[np.lexsort(keys)]

    def _planted(self) -> BeliefGraph:
        """An empty graph with room for two expansions."""
        J, M = self.joint.likelihood.shape
        n, rows = 2 * (J + self.S + len(self.start.prob)), 2 * self.S

        def indices(*shape: int) -> Ints:
            return np.zeros(shape, dtype=np.uint32)

        return BeliefGraph(
            used=np.zeros(5, dtype=np.int64),
            belief=np.zeros((n, M)), support=indices(n), node_of=indices(n, self.S),
            swept=np.zeros(n, dtype=np.int64), swept_from=indices(n), swept_to=indices(n),
            passed_from=indices(n), passed_to=indices(n), score=np.zeros(n), table=_table(n),
            belief_of=indices(n), state=indices(n), row=indices(n),
            bound=np.zeros((n, self.horizon + 1, 2)), flat_from=indices(n), changed=indices(n),
            peak=indices(n), stamp=np.zeros(n, dtype=np.int64), place=indices(n),
            reach=np.zeros((2, n)), queue=indices(2, n),
            ptr=indices(rows * self.A + 1), gain=np.zeros((rows, self.A)),
            child=indices(n), prob=np.zeros(n),
        )  # fmt: skip

    def _grow(self, memory: int) -> bool:
        """More room for everything; False: there is no memory for it.

        The large arrays grow in place, without being copied.
        """
        if 2 * self.bytes > memory:
            return False
        g, J = self.graph, int(self.joint.ptr[-1])
        beliefs, nodes, rows, edges = (
            int(GROWTH * g.used[entry]) + 2 * more
            for entry, more in (
                (N_BELIEFS, J + self.S), (N_NODES, J + self.S), (N_INNER, self.S), (N_EDGES, J),
            )
        )  # fmt: skip
        if max(beliefs, nodes, rows * self.A, edges) >= NONE:  # more than indices can tell apart
            return False
        for n, names in (
            (beliefs, ("belief", "support", "node_of", "swept", "swept_from", "swept_to",
                       "passed_from", "passed_to", "score")),
            (nodes, ("belief_of", "state", "row", "bound", "flat_from", "changed", "peak",
                     "stamp", "place")),
            (rows, ("gain",)), (rows * self.A + 1, ("ptr",)), (edges, ("child", "prob")),
        ):  # fmt: skip
            for name in names:
                array = getattr(g, name)
                if n > len(array):
                    array.resize((n, *array.shape[1:]), refcheck=False)
        nodes = len(g.row)
        self.graph = g._replace(
            table=_table(len(g.belief)), reach=np.zeros((2, nodes)),
            queue=np.zeros((2, nodes), dtype=np.uint32),
        )  # fmt: skip
        rehash_beliefs(self.graph)
        return True

    # ------------------------------------------------------------------ the policy

    def add_policy(self, parts: PolicyParts, slack: float) -> None:
        """Add the nodes of a policy worth the lower bound, up to `slack`.

        Where it does not fit, one that is cut at ever likelier places.
        """
        cut, none = 1e-7, np.zeros(0, dtype=np.int64)
        at = np.empty((self.horizon, self.nodes), dtype=np.int64)
        while True:
            n, edges, lost = reached_policy(
                self.graph, self.by_step, self.start_node, self.start.prob, cut, at, none, none
            )
            wanted = lost <= slack or cut == 0.0 or parts.cut_short
            if parts.fits(n, edges) and not wanted:
                cut = cut / 100 if cut > 1e-14 else 0.0
                continue
            before = parts.count, parts.added
            try:
                self._add_points(parts, cut, at, n, edges)
                return
            except PolicyTooLargeError:
                parts.count, parts.added = before
                parts.cut_short = True
                cut = 10 * cut if cut > 0.0 else 1e-14
                if cut > 1.0:
                    raise

    def _add_points(self, parts: PolicyParts, cut: float, at: Ints, n: int, edges: int) -> None:
        """Add the `n` points with `edges` that a policy cut at `cut` reaches."""
        number, g = parts.reserve(n, edges), self.graph
        step, node = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        reached_policy(g, self.by_step, self.start_node, self.start.prob, cut, at, step, node)
        action, degree = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        symbol, nxt, target, vertex = (np.empty(edges, dtype=np.int64) for _ in range(4))
        used = write_graph_policy(
            g, self.joint, self.by_step, at, step, node, action, degree, symbol, nxt, target, vertex
        )
        symbol, nxt, target, vertex = (x[:used] for x in (symbol, nxt, target, vertex))
        leaf = target < 0
        after = np.repeat(step, degree) + 1
        target = np.where(leaf, 0, number[target]) if n else target
        # first states that are not inner nodes start with a corner policy themselves
        first = at[0, self.start_node]
        at_corner = first < 0
        b = self.start.belief[at_corner]
        worth = np.einsum("nm,nkm->nk", b, self.corners.alpha[0, self.start.state[at_corner]])
        corner = np.argmax(np.where(b > 0, worth, -np.inf), axis=1)
        found = parts.add_grid(
            self.joint,
            self.corners,
            np.concatenate([after[leaf], np.zeros_like(corner)]),
            np.concatenate([nxt[leaf], self.start.state[at_corner]]),
            np.concatenate([vertex[leaf], corner]),
            0,
        )
        target[leaf] = found[: int(leaf.sum())]
        parts.root[self.start.state[at_corner]] = found[int(leaf.sum()) :]
        parts.root[self.start.state[~at_corner]] = number[first[~at_corner]] if n else 0
        parts.fill(number, step, g.state[node], action, degree, symbol, nxt, target)


def first_bytes(joint: ObservationModel, horizon: int, n_states: int) -> int:
    """Memory (about) of a graph with room for two expansions."""
    return 32 * (len(joint.next) + n_states) * (horizon + 1)


def _table(n: int) -> Ints:
    """An empty hash table for `n` beliefs."""
    return np.full(1 << (2 * n).bit_length(), NONE, dtype=np.uint32)


def _by_step(grid: BeliefGrid) -> Corners:
    """The corners' values as the kernels read them."""
    T, S, M = grid.upper.shape
    alpha = np.ascontiguousarray(grid.alpha.transpose(1, 2, 3, 0))
    return Corners(
        known=np.ascontiguousarray(grid.upper.transpose(1, 2, 0)),
        alpha=alpha.reshape(S * M, M, T),
        held=np.ascontiguousarray(grid.alpha[::HOLD].transpose(1, 0, 2, 3)),
    )
