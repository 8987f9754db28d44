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
from latentmdp.planning.policy_parts import PolicyParts

if TYPE_CHECKING:
    from latentmdp.planning.history import Allowed

CUT = 1e-6  # what is reached with less is not followed while anything else is left
DRIFT = 1e-3  # of the allowed gap: what may be added for sweeps that stop early
NOTICE = 1e-4  # of the allowed gap: smaller changes are not passed on at once
PIECE = 500_000  # work of a pass between two looks at the clock
BATCH = 0.15  # beliefs expanded per round, relative to those expanded already


class GraphSearch:
    """Anytime search; `advance` works on, `bounds` hold whenever it returns."""

    name = "layers"

    def __init__(self, joint: Joint, start: Start, horizon: int, corners: Any) -> None:
        from latentmdp.kernels import history_graph as k

        self.joint, self.start, self.horizon, self.corners = joint, start, horizon, corners
        self.S = int(corners.upper.shape[1])
        self.A = len(joint.reward) // self.S
        self.round, self.cut = 0, CUT
        self.order: Ints = np.zeros(0, dtype=np.int64)
        self.graph = self._resized(None, 2)
        self.start_node = np.empty(len(start.state), dtype=np.int64)
        k.plant(
            self.graph,
            corners.upper,
            corners.alpha,
            start.state,
            start.belief,
            0.0,
            self.start_node,
        )

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
        return sum(x.nbytes for x in self.graph)

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
        from latentmdp.kernels import history_graph as k

        self.round += 1
        drift, notice = DRIFT * allowed / self.horizon, NOTICE * allowed
        chosen = self._choose()
        if len(chosen) == 0:  # what is left lies where hardly anything gets
            if self.cut > 0.0:
                self.cut = self.cut / 100 if self.cut > 1e-14 else 0.0
                return ""
            before = self.bounds
            self._back_up(True, drift, 0.0, budget)
            return "" if self.bounds != before else "stalled"
        for i in chosen:
            if not self._expand(int(i), drift, memory):
                return "memory"
            if budget.reason():
                return "paused"
        k.tighten_frontier(self.graph, self.corners.upper, self.order, self.round, drift, notice)
        self._sort()
        self._back_up(False, drift, notice, budget)
        return ""

    def _back_up(self, everything: bool, drift: float, notice: float, budget: Budget) -> None:
        """A pass over the layers; stops between two of them, bounds valid, when time is up."""
        from latentmdp.kernels.history_graph import back_up

        first = 0
        while first < len(self.order) and not (first and budget.reason()):
            first = back_up(
                self.graph, self.order, first, self.round, everything, drift, notice,
                self.work + PIECE,
            )  # fmt: skip

    def _choose(self) -> Ints:
        """Frontier beliefs with the largest `reach x gap`, in turns by upper and lower policy."""
        from latentmdp.kernels import history_graph as k

        g = self.graph
        g.layer[:, k.PASSED] = 0
        score = []
        for side in (0, 1):
            k.follow(g, side, self.start_node, self.start.prob, self.cut)
            score.append(g.score[: g.count[0]].copy())
        by = 0 if self.round % 2 == 0 and score[0].any() else 1
        candidates = np.flatnonzero(score[by] > 0)
        n = max(2, int(BATCH * len(self.order)))
        return candidates[np.argsort(-score[by][candidates], kind="stable")[:n]]

    def _expand(self, i: int, drift: float, memory: int) -> bool:
        from latentmdp.kernels import history_graph as k

        g = self.graph
        beliefs, nodes, rows, edges, _ = g.count + int(self.joint.ptr[-1]) + self.S
        if (
            beliefs > len(g.belief)
            or nodes > len(g.node)
            or edges > len(g.child)
            or rows > len(g.gain)
        ):
            if 3 * self.bytes > memory:
                return False
            self.graph = self._resized(g, 2)
        new = self.graph.layer[i, k.SWEPT] == k.FRONTIER
        k.expand_belief(
            self.graph, self.joint, self.corners.upper, self.corners.alpha, i, self.round, drift
        )
        if new:
            self.order = np.append(self.order, i)
        return True

    def _sort(self) -> None:
        """Order the expanded beliefs: smaller supports first, equal ones together."""
        support = np.packbits(self.graph.belief[self.order] > 0, axis=1)
        keys = [support[:, j] for j in range(support.shape[1])]
        self.order = self.order[np.lexsort((*keys, self.graph.layer[self.order, 0]))]

    def _resized(self, old: Any, factor: int) -> Any:
        """A graph with more room, and the old one's contents."""
        from latentmdp.kernels.history_graph import Graph, rehash_beliefs

        J, M = self.joint.like.shape
        T = self.horizon + 1
        layer = J + self.S + len(self.start.prob)  # what one expansion may add
        count = np.zeros(5, dtype=np.int64) if old is None else old.count
        beliefs = factor * int(count[0]) + 2 * layer
        nodes = factor * int(count[1]) + 2 * layer
        rows = factor * int(count[2]) + 2 * layer
        edges = factor * int(count[3]) + 2 * layer

        def integers(*shape: int) -> Ints:
            return np.zeros(shape, dtype=np.int64)

        new = Graph(
            count=integers(5), belief=np.empty((beliefs, M)), layer=integers(beliefs, 3),
            node_of=integers(beliefs, self.S),
            table=np.full(1 << (2 * beliefs).bit_length(), -1, dtype=np.int64),
            node=integers(nodes, 7), bound=np.empty((nodes, T, 2)),
            ptr=integers(rows * self.A + 1), gain=np.empty((rows, self.A)),
            child=integers(edges), prob=np.empty(edges), score=np.zeros(beliefs),
            reach=np.zeros((2, nodes)), queue=integers(2, nodes),
        )  # fmt: skip
        if old is not None:
            for name, a, b in zip(Graph._fields, old, new, strict=True):
                if name not in ("table", "queue", "reach"):
                    b[: len(a)] = a
            rehash_beliefs(new)
        return new

    # ------------------------------------------------------------------ the policy

    def add_policy(self, parts: PolicyParts, slack: float) -> None:
        """Add the nodes of a policy worth the lower bound, up to `slack`."""
        from latentmdp.kernels import history_graph as k

        g, cut = self.graph, 1e-7
        at = np.empty((self.horizon, self.nodes), dtype=np.int64)
        none = np.zeros(0, dtype=np.int64)
        while True:
            n, edges, lost = k.reached_policy(
                g, self.corners.alpha, 0, self.start_node, self.start.prob, cut, at, none, none
            )
            if lost <= slack or cut == 0.0:
                break
            cut = cut / 100 if cut > 1e-14 else 0.0
        step, node = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        k.reached_policy(
            g, self.corners.alpha, 0, self.start_node, self.start.prob, cut, at, step, node
        )
        action, degree = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        symbol, nxt, target, vertex = (np.empty(edges, dtype=np.int64) for _ in range(4))
        used = k.write_policy(
            g,
            self.joint,
            self.corners.alpha,
            0,
            at,
            step,
            node,
            action,
            degree,
            symbol,
            nxt,
            target,
            vertex,
        )
        symbol, nxt, target, vertex = (x[:used] for x in (symbol, nxt, target, vertex))
        number = parts.reserve(n)
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
        parts.root[self.start.state[~at_corner]] = number[first[~at_corner]] if n else none
        parts.fill(number, step, g.node[node, k.STATE], action, degree, symbol, nxt, target)
