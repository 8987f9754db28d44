"""`Growth`: the graph of memory nodes while it grows, shared by all models that plan through it.

Nodes are made by a depth-first solve (`kernels/optimistic_depth.py`), only where some model could
gain from them, and stay for later plans. `Growth.memory` is the part that policies get to, in the
order that the other kernels want: by step.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.optimism.checks import graph_state
from latentmdp.optimism.memory import Memory, Observations, consistent
from latentmdp.optimism.model import Known

if TYPE_CHECKING:
    from latentmdp.kernels.optimistic_arena import Arena
    from latentmdp.optimism.memory_search import MemorySearch


class Kind(NamedTuple):
    """What a memory tells apart, and how many nodes that may take."""

    nodes: int
    side: float  # of the cells in which beliefs merge; 0: nodes are whole histories
    least: float = 0.0  # a history that is less likely goes on without memory
    every: bool = False  # expand all actions


KINDS = (
    Kind(1_500, 0.0, every=True), Kind(5_000, 1e-9), Kind(60_000, 0.1), Kind(60_000, 0.3),
    Kind(60_000, 0.3, 1e-5), Kind(60_000, 0.3, 1e-4), Kind(60_000, 0.3, 1e-3),
)  # fmt: skip


PAIRS = 3_000_000  # of a node and a context, at most: with many contexts there is room for less


class Solved(NamedTuple):
    """A policy by belief: actions of the graph's nodes, and which of them have been solved."""

    action: Ints  # (room,)
    where: np.ndarray  # (room,)
    tried: int  # actions, over all nodes
    fits: bool
    value: float


class Growth:
    """A graph that grows. `O(room (M + A))` memory, and that of the successors."""

    def __init__(self, known: Known, seen: Observations, kind: Kind) -> None:
        self.known, self.seen, self.kind = known, seen, kind
        H, S, A, M = known.H, known.S, known.A, known.M
        firsts = int(np.count_nonzero(known.root.sum(axis=0)))
        self.room = room = max(min(kind.nodes, PAIRS // M), firsts)
        self.fixed = H * len(seen.next)  # successors of actions that have not been expanded
        self.edges = self.fixed + room * int((seen.start[A::A] - seen.start[:-1:A]).max(initial=0))
        self.D = D = (H + 1) * S
        sizes = (D + room, D + room, H + 1, S, room * A, self.edges)  # as in `make_arena`
        self.G = np.zeros(sum(sizes), dtype=np.int64)
        parts = np.split(self.G, np.cumsum(sizes)[:-1])
        self.state, self.step, span, self.first, edge, self.succ = parts
        self.edge = edge.reshape(room, A)
        default = np.arange(D)
        self.state[:D], self.step[:D], span[:] = default % S, default // S, D
        step = np.repeat(np.arange(1, H + 1), len(seen.next))
        self.succ[: self.fixed] = step * S + np.tile(seen.next, H)
        self.belief, self.keys = np.zeros((room, M)), np.zeros((room, M + 2), dtype=np.int64)
        self.table = np.zeros(2 * room + 1, dtype=np.int64)
        self.used, self.solved = np.zeros(3, dtype=np.int64), np.zeros(room, dtype=np.int64)
        self.consistent = consistent(known, seen)
        self.arenas: dict[int, Arena] = {}  # of the models

    @property
    def whole(self) -> bool:
        """Whether nodes are whole histories."""
        return self.kind.side == 0.0

    @property
    def nodes(self) -> int:
        """Number of nodes so far."""
        return int(self.used[0])

    def serves(self, seen: Observations, kind: Kind) -> bool:
        """Whether a graph of this kind, for these observations, may be begun here."""
        return self.kind == kind and np.array_equal(self.seen.codes, seen.codes)

    def start(self, likelihood: Floats) -> None:
        """An empty graph for these likelihoods `(observations, M)`: the first states alone."""
        self.likelihood = likelihood
        root = self.known.root.T  # (S, M)
        state = np.flatnonzero(root.sum(axis=1) > 0)
        self.first[:] = np.arange(self.known.S)
        self.first[state] = self.D + np.arange(len(state))
        belief = root[state] / root[state].sum(axis=1, keepdims=True)
        self._insert(state, np.zeros_like(state), belief)

    def _insert(self, state: Ints, step: Ints, belief: Floats) -> None:
        """Put nodes into an empty graph; nothing is expanded."""
        from latentmdp.kernels.optimistic_depth import fill_table

        n, A, D = len(state), self.known.A, self.D
        self.used[:] = n, self.fixed, self.edges
        self.belief[:n] = belief
        self.state[D : D + n], self.step[D : D + n] = state, step
        row = state[:, None] * A + np.arange(A)
        self.edge[:n] = step[:, None] * len(self.seen.next) + self.seen.start[row]
        if not self.whole:
            fill_table(self.table, self.keys, self.belief, state, step, self.kind.side)

    def solve(self, model: int, search: "MemorySearch") -> Solved:
        """The best policy by belief for one of the models, with its table at default nodes."""
        from latentmdp.kernels.optimistic_depth import solve

        known, seen, y = self.known, self.seen, search.arena
        H, S, A, M, side = known.H, known.S, known.A, known.M, self.kind.side
        if model not in self.arenas or len(self.arenas[model].T) != len(y.T):
            self.arenas[model] = self._arena(search)
        x = self.arenas[model]
        x.T[: x.obs], x.T[x.obs :] = y.T[: y.obs], seen.of_slots(search.model)
        x.P[:] = y.P
        size = H * S * A * M
        x.F[x.known_q : x.known_q + size] = y.F[y.known_q : y.known_q + size]
        x.I[x.policy : x.policy + H * S] = search.table.ravel()
        self.solved[:] = 0
        fits, tried, value = solve(
            x.here, seen.start, seen.next, self.likelihood, self.consistent, side, self.kind.least,
            self.kind.every, self.belief, self.keys, self.table, self.used, self.solved,
            np.zeros((H, 3), dtype=np.int64), np.zeros((H, A + 1)),
        )  # fmt: skip
        at = x.policy + self.D
        return Solved(x.I[at : at + len(self.solved)], self.solved > 0, tried, fits, value)

    def _arena(self, search: "MemorySearch") -> "Arena":
        """An arena for a model, on this graph."""
        from latentmdp.kernels.optimistic_arena import make_arena

        known, model = self.known, search.model
        sizes = (known.M, known.S, known.A, known.H)
        return make_arena(
            model.kind == "interval", model.cap, sizes, len(model.next), self.room,
            self.edges, self.G,
        )  # fmt: skip

    def reach(self, action: Ints, within: np.ndarray) -> Floats:
        """Probability of getting to each node `(nodes,)` under a policy, by nodes `within` alone.

        It is the memory's own idea of that: by its beliefs and likelihoods.
        """
        from latentmdp.kernels.optimistic_depth import push_reach

        reach = np.zeros(self.nodes)
        first = self.first >= self.D
        reach[self.first[first] - self.D] = self.known.root.sum(axis=0)[first]
        push_reach(
            self.D, self.state, self.edge, self.succ, self.seen.start, self.likelihood,
            self.belief, self._by_step(), action, within, reach,
        )  # fmt: skip
        return reach

    def _by_step(self) -> Ints:
        step = self.step[self.D : self.D + self.nodes]
        fits = self.known.H < 2**15  # then NumPy sorts by radix
        return np.argsort(step.astype(np.int16) if fits else step, kind="stable")

    def memory(self, keep: np.ndarray) -> Memory:
        """These nodes by step, in the order of their making; what is left out becomes default."""
        n, D, S = self.nodes, self.D, self.known.S
        order = self._by_step()
        order = order[keep[order]]
        number = np.arange(D + n)
        number[D:] = self.step[D : D + n] * S + self.state[D : D + n]
        number[D + order] = np.arange(D, D + len(order))
        step = self.step[D + order]
        return Memory(
            self.seen, order, self.state[D + order], step,
            D + np.searchsorted(step, np.arange(self.known.H + 1)), number[self.first],
            self.belief[order], self.edge[order], number[self.succ[: self.used[1]]],
        )  # fmt: skip

    # ---------------------------------------------------------------- plain data

    def saved(self) -> dict[str, np.ndarray]:
        """The graph as plain data."""
        n, e, _ = self.used
        node, small = slice(self.D, self.D + n), np.int32
        return {
            "observations": self.seen.codes,
            "likelihood": self.likelihood,
            "belief": self.belief[:n],
            "state": self.state[node].astype(small),
            "step": self.step[node].astype(small),
            "edge": self.edge[:n].astype(small),
            "succ": self.succ[self.fixed : e].astype(small),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from `saved()`."""
        saved = graph_state(saved, self)
        self.start(np.array(saved["likelihood"]))
        state, step = (np.array(saved[name], dtype=np.int64) for name in ("state", "step"))
        self._insert(state, step, saved["belief"])
        self.edge[: self.nodes] = saved["edge"]
        self.used[1] += len(saved["succ"])
        self.succ[self.fixed : self.used[1]] = saved["succ"]
