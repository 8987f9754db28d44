"""Best-first search over exact beliefs, with a ladder of belief grids for the bounds at its leaves.

Most of a grid's interpolation loss arises in the first steps, where reach is largest: there the
tree has exact beliefs. The grid is refined when the tree has cost half of the next resolution.
"""

from typing import Any

import numpy as np

from latentmdp.planning.belief_grid import (
    build_grid,
    grid_bytes,
    grid_work,
    next_resolution,
)
from latentmdp.planning.joint import Joint, Start
from latentmdp.planning.policy_parts import PolicyParts

FIRST_NODES = 4096


class TreeSearch:
    """Anytime search; `advance` works on, `lower` and `upper` hold whenever it returns."""

    name = "grid"

    def __init__(self, joint: Joint, start: Start, horizon: int, corners: Any) -> None:
        from latentmdp.kernels import history_tree as k

        self.joint, self.start, self.horizon = joint, start, horizon
        self.S = int(corners.upper.shape[1])
        self.A = len(joint.reward) // self.S
        self.grids = [corners]
        self.grid_work = self.tree_work_at_refinement = 0
        self.refinable = True
        self.tree = self._resized(None, FIRST_NODES)
        k.plant(self.tree, corners, start.state, start.belief)

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
        return int(self.tree.count[3]) + self.grid_work

    @property
    def nodes(self) -> int:
        """Nodes of the tree."""
        return int(self.tree.count[0])

    @property
    def bytes(self) -> int:
        """Memory in use."""
        return sum(_bytes(part) for part in (self.tree, *self.grids))

    # ------------------------------------------------------------------ searching

    def advance(self, quantum: int, gap: float, floor: float, tiny: float, memory: int) -> str:
        """Work `quantum` units or until closed; says `closed`, `paused`, `memory` or `stalled`."""
        from latentmdp.kernels import history_tree as k

        stop = int(self.tree.count[3]) + quantum
        while True:
            code = k.search(
                self.tree, self.joint, self.grids[-1], len(self.grids) - 1, self.start.prob,
                gap, floor, tiny, min(stop, self._refine_at()),
            )  # fmt: skip
            if code == k.CLOSED:
                return "closed"
            if code == k.EXHAUSTED:
                return "stalled"
            if code == k.FULL:
                if self.bytes + 2 * _bytes(self.tree) > memory:
                    return "memory"
                self.tree = self._resized(self.tree, 2 * len(self.tree.step))
            elif self.tree.count[3] >= self._refine_at():
                self._refine(memory)
                return "paused"
            else:
                return "paused"

    def _refine_at(self) -> int:
        """The tree's work at which the grid is refined."""
        finer = next_resolution(self.joint.like.shape[1], self.grids[-1].N)
        if finer is None or not self.refinable:
            return 2**62
        return self.tree_work_at_refinement + grid_work(self.joint, self.horizon, finer) // 2

    def _refine(self, memory: int) -> None:
        from latentmdp.kernels import history_tree as k

        N = next_resolution(self.joint.like.shape[1], self.grids[-1].N)
        assert N is not None
        if self.bytes + grid_bytes(self.joint, self.horizon, self.S, N) > memory // 2:
            self.refinable = False
            return
        self.grids.append(build_grid(self.joint, self.horizon, self.S, N))
        self.grid_work += grid_work(self.joint, self.horizon, N)
        self.tree_work_at_refinement = int(self.tree.count[3])
        k.regrid(self.tree, self.grids[-1], len(self.grids) - 1)
        k.back_up_all(self.tree, self.joint)

    def _resized(self, old: Any, n: int) -> Any:
        """A tree with room for `n` nodes, and the old one's contents."""
        from latentmdp.kernels.history_tree import Tree, rehash

        M = self.joint.like.shape[1]
        widest = int(np.diff(self.joint.ptr[:: self.A]).max())
        n = max(n, 2 * widest + len(self.start.prob))
        size = 1 << (2 * n - 1).bit_length()
        new = Tree(
            count=np.zeros(4, dtype=np.int64),
            step=np.empty(n, dtype=np.int32),
            state=np.empty(n, dtype=np.int32),
            belief=np.empty((n, M)),
            lower=np.empty(n),
            upper=np.empty(n),
            first=np.empty(n, dtype=np.int64),
            inner=np.empty(n, dtype=np.int32),
            rung=np.empty(n, dtype=np.int32),
            vertex=np.empty(n, dtype=np.int32),
            gain=np.empty((n // 2 + 1, self.A)),
            child=np.empty(2 * n, dtype=np.int32),
            prob=np.empty(2 * n),
            table=np.full(size, -1, dtype=np.int32),
            reach=np.empty(n),
            queue=np.empty(n, dtype=np.int32),
        )
        if old is not None:
            for name, a, b in zip(Tree._fields, old, new, strict=True):
                if name not in ("table", "queue"):
                    b[: len(a)] = a
            rehash(new)
        return new

    # ------------------------------------------------------------------ the policy

    def policy_parts(self, parts: PolicyParts, slack: float) -> None:
        """Add the nodes of the policy that attains the lower bound."""
        from latentmdp.kernels import history_tree as k

        tree = self.tree
        n, edges = k.count_policy(tree, self.joint, self.start.prob)
        order = tree.queue[:n].astype(np.int64)
        action, degree = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        symbol, nxt, target = (np.empty(edges, dtype=np.int64) for _ in range(3))
        used = k.write_policy(tree, self.joint, n, action, degree, symbol, nxt, target)
        inner, leaf = action >= 0, action < 0
        graph_node = np.full(int(tree.count[0]), -1, dtype=np.int64)  # of each tree node
        graph_node[order[inner]] = parts.reserve(int(inner.sum()))
        at = order[leaf]
        for rung, grid in enumerate(self.grids):
            mine = at[tree.rung[at] == rung]
            graph_node[mine] = parts.add_grid(
                self.joint, grid, tree.step[mine], tree.state[mine], tree.vertex[mine], rung
            )
        parts.fill(
            graph_node[order[inner]], tree.step[order[inner]], tree.state[order[inner]],
            action[inner], degree[inner], symbol[:used], nxt[:used], graph_node[target[:used]],
        )  # fmt: skip
        parts.root[self.start.state] = graph_node[: len(self.start.state)]


def _bytes(part: Any) -> int:
    return sum(x.nbytes for x in part if isinstance(x, np.ndarray))


