"""Search over merged beliefs: nodes `(belief, state)` shared by all steps, expanded by layers.

Where observations leave most beliefs as they are, or lead back to earlier ones (mazes, sequential
tests), few beliefs matter. Expanding all of them is exact; expanding those with the largest
`reach x gap` is often enough.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.canonical import Ints
from latentmdp.planning.budget import Budget
from latentmdp.planning.joint import Joint, Start
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

    def __init__(self, joint: Joint, start: Start, horizon: int, corners: Any) -> None:
        from latentmdp.kernels.history_graph import WORK, plant

        self.joint, self.start, self.horizon, self.corners = joint, start, horizon, corners
        self.by_step = _by_step(corners)
        self.S = int(corners.upper.shape[1])
        self.A = len(joint.reward) // self.S
        self.round, self.cut = 0, CUT
        self.order: Ints = np.zeros(0, dtype=np.int64)
        self.graph = self._planted()
        self.start_node = np.empty(len(start.state), dtype=np.int64)
        plant(self.graph, self.by_step, start.state, start.belief, 0.0, self.start_node)
        self.graph.count[WORK] += self.first_work(corners)

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
        return int(self.graph.count[4])

    @property
    def nodes(self) -> int:
        """Nodes of the graph."""
        return int(self.graph.count[1])

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
        from latentmdp.kernels.history_frontier import tighten_frontier
        from latentmdp.kernels.history_graph import CHANGED

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
            moved = (self.graph.node[: self.nodes, CHANGED] == self.round).any()
            return "" if moved or budget.reason() else "stalled"
        for i in chosen:
            if not self._expand(int(i), drift, memory):
                return "memory"
            if budget.reason():
                return "paused"
        tighten_frontier(self.graph, self.by_step, self.order, self.round, drift, notice)
        self._sort()
        self._back_up(False, drift, notice, budget)
        return ""

    def _back_up(self, everything: bool, drift: float, notice: float, budget: Budget) -> None:
        """A pass over the layers; stops between two of them, bounds valid, when time is up."""
        from latentmdp.kernels.history_sweep import back_up

        first = 0
        while first < len(self.order) and not (first and budget.reason()):
            first = back_up(
                self.graph, self.order, first, self.round, everything, drift, notice,
                self.work + PIECE,
            )  # fmt: skip

    def _choose(self) -> Ints:
        """Frontier beliefs with the largest `reach x gap`, in turns by upper and lower policy."""
        from latentmdp.kernels.history_frontier import follow
        from latentmdp.kernels.history_graph import HIGH

        g = self.graph
        g.layer[:, HIGH] = 0
        score = []
        for side in (0, 1):
            follow(g, side, self.start_node, self.start.prob, self.cut)
            score.append(g.score[: g.count[0]].copy())
        by = 0 if self.round % 2 == 0 and score[0].any() else 1
        candidates = np.flatnonzero(score[by] > 0)
        n = max(2, int(BATCH * len(self.order)))
        return candidates[np.argsort(-score[by][candidates], kind="stable")[:n]]

    def _expand(self, i: int, drift: float, memory: int) -> bool:
        from latentmdp.kernels.history_graph import FRONTIER, SWEPT, expand_belief

        g = self.graph
        J = int(self.joint.ptr[-1])
        needed = g.count[:4] + np.array(
            [J + self.S, J + self.S, self.S, J]
        )  # at most, by one expansion
        if (needed > (len(g.belief), len(g.node), len(g.gain), len(g.child))).any():
            if 2 * self.bytes > memory:
                return False
            self._grow()
        new = self.graph.layer[i, SWEPT] == FRONTIER
        expand_belief(self.graph, self.joint, self.by_step, i, self.round, drift)
        if new:
            self.order = np.append(self.order, i)
        return True

    def _sort(self) -> None:
        """Order the expanded beliefs: smaller supports first, equal ones together."""
        support = np.packbits(self.graph.belief[self.order] > 0, axis=1)
        keys = [support[:, j] for j in range(support.shape[1])]
        self.order = self.order[np.lexsort((*keys, self.graph.layer[self.order, 0]))]

    def _planted(self) -> Any:
        """An empty graph with room for two expansions."""
        from latentmdp.kernels.history_graph import Graph

        J, M = self.joint.like.shape
        n, rows = 2 * (J + self.S + len(self.start.prob)), 2 * self.S

        def integers(*shape: int) -> Ints:
            return np.zeros(shape, dtype=np.int64)

        return Graph(
            count=integers(5), belief=np.zeros((n, M)), layer=integers(n, 6),
            node_of=integers(n, self.S), table=_table(n),
            node=integers(n, 8), bound=np.zeros((n, self.horizon + 1, 2)),
            ptr=integers(rows * self.A + 1), gain=np.zeros((rows, self.A)),
            child=integers(n), prob=np.zeros(n), score=np.zeros(n),
            reach=np.zeros((2, n)), queue=integers(2, n),
        )  # fmt: skip

    def _grow(self) -> None:
        """More room for everything. The large arrays grow in place, without being copied."""
        from latentmdp.kernels.history_graph import rehash_beliefs

        g, J = self.graph, int(self.joint.ptr[-1])
        more = (2 * (J + self.S), 2 * (J + self.S), 2 * self.S, 2 * J)
        beliefs, nodes, rows, edges = (
            int(GROWTH * n) + k for n, k in zip(g.count[:4], more, strict=True)
        )
        for array, n in (
            (g.belief, beliefs), (g.layer, beliefs), (g.node_of, beliefs), (g.score, beliefs),
            (g.node, nodes), (g.bound, nodes), (g.ptr, rows * self.A + 1), (g.gain, rows),
            (g.child, edges), (g.prob, edges),
        ):  # fmt: skip
            if n > len(array):
                array.resize((n, *array.shape[1:]), refcheck=False)
        nodes = len(g.node)
        self.graph = g._replace(
            table=_table(len(g.belief)), reach=np.zeros((2, nodes)),
            queue=np.zeros((2, nodes), dtype=np.int64),
        )  # fmt: skip
        rehash_beliefs(self.graph)

    # ------------------------------------------------------------------ the policy

    def add_policy(self, parts: PolicyParts, slack: float) -> None:
        """Add the nodes of a policy worth the lower bound, up to `slack`.

        Where it does not fit, one that is cut at ever likelier places.
        """
        from latentmdp.kernels import history_extract as k

        cut, none = 1e-7, np.zeros(0, dtype=np.int64)
        at = np.empty((self.horizon, self.nodes), dtype=np.int64)
        while True:
            n, edges, lost = k.reached_policy(
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
        from latentmdp.kernels import history_extract as k
        from latentmdp.kernels.history_graph import STATE

        number, g = parts.reserve(n, edges), self.graph
        step, node = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        k.reached_policy(g, self.by_step, self.start_node, self.start.prob, cut, at, step, node)
        action, degree = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        symbol, nxt, target, vertex = (np.empty(edges, dtype=np.int64) for _ in range(4))
        used = k.write_policy(
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
        parts.fill(number, step, g.node[node, STATE], action, degree, symbol, nxt, target)


def first_bytes(joint: Joint, horizon: int, n_states: int) -> int:
    """Memory (about) of a graph with room for two expansions."""
    return 32 * (len(joint.next) + n_states) * (horizon + 1)


def _table(n: int) -> Ints:
    """An empty hash table for `n` beliefs."""
    return np.full(1 << (2 * n).bit_length(), -1, dtype=np.int64)


def _by_step(grid: Any) -> Any:
    """The corners' values as the kernels read them."""
    from latentmdp.kernels.history_graph import HOLD, Corners

    return Corners(
        known=np.ascontiguousarray(grid.upper.transpose(1, 2, 0)),
        alpha=np.ascontiguousarray(grid.alpha.transpose(1, 2, 3, 0)),
        held=np.ascontiguousarray(grid.alpha[::HOLD].transpose(1, 0, 2, 3)),
    )
