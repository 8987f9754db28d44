"""`MemoryGraph`: the graph of memory nodes while it grows, shared by all models that plan with it.

Nodes are made by a depth-first solve (`kernels/optimism/depth_first.py`), only where some model
could gain from them, and stay for later plans. `MemoryGraph.part` is the part that policies get to,
in the order that the other kernels want: by step.
"""

from typing import Any, NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.optimism.depth_first import fill_table, push_reach, solve
from latentmdp.kernels.structs import (
    MEMORY_NODES,
    SUCCESSORS,
    DepthStack,
    GrowingMemory,
    Nodes,
    Search,
    pack_search,
)
from latentmdp.optimism.given import Given
from latentmdp.optimism.memory.observations import Observations
from latentmdp.optimism.memory.rule import consistent
from latentmdp.optimism.nodes import MemoryPart, make_nodes, make_valuation, make_workspace
from latentmdp.optimism.saved_state import graph_state
from latentmdp.optimism.search import MarkovSearch
from latentmdp.optimism.settings import SEARCH, MemoryKind, SearchEffort


class BeliefPolicy(NamedTuple):
    """A policy by belief: actions of the graph's nodes, and which of them have been solved."""

    action: Ints  # (room,)
    is_solved: np.ndarray  # (room,)
    tried: int  # actions, over all nodes
    fits: bool
    value: float


class MemoryGraph:
    """A graph that grows. `O(room (M + A))` memory, and that of the successors."""

    def __init__(
        self,
        known: Given,
        seen: Observations,
        kind: MemoryKind,
        settings: SearchEffort = SEARCH,
    ) -> None:
        self.known, self.seen, self.kind = known, seen, kind
        H, S, A, M = known.H, known.S, known.A, known.M
        firsts = int(np.count_nonzero(known.root.sum(axis=0)))
        self.room = room = max(min(kind.nodes, settings.memory_pairs // M), firsts)
        self.expanded = H * len(seen.next)  # successors from here on are of expanded actions
        width = int((seen.start[A::A] - seen.start[:-1:A]).max(initial=0))
        self.D = (H + 1) * S
        default = make_nodes(known, seen)
        self.nodes = Nodes(
            default.span, _longer(default.state, room), _longer(default.step, room),
            _longer(default.edge, room), _longer(default.succ, room * width), default.first,
            np.ones(self.D + room, dtype=np.bool_), _longer(default.possible, room),
        )  # fmt: skip
        whole = np.int64
        self.memory = GrowingMemory(
            seen.start, seen.next, np.zeros((len(seen.next), M)), consistent(known, seen),
            np.zeros(2, whole), np.zeros((room, M)), np.zeros((room, M + 2), whole),
            np.zeros(2 * room + 1, whole), np.zeros(room, dtype=np.bool_),
        )  # fmt: skip
        self._valuation = make_valuation(known, self.D + room, True)
        self._workspace = make_workspace(known, self.D + room)

    @property
    def whole(self) -> bool:
        """Whether nodes are whole histories."""
        return self.kind.side == 0.0

    @property
    def count(self) -> int:
        """Number of memory nodes so far."""
        return int(self.memory.used[MEMORY_NODES])

    @property
    def successors(self) -> int:
        """Number of successors so far."""
        return int(self.memory.used[SUCCESSORS])

    def serves(self, seen: Observations, kind: MemoryKind) -> bool:
        """Whether a graph of this kind, for these observations, may be begun here."""
        return self.kind == kind and np.array_equal(self.seen.codes, seen.codes)

    def start(self, likelihood: Floats) -> None:
        """An empty graph for these likelihoods `(observations, M)`: the first states alone."""
        self.memory.likelihood[:] = likelihood
        root = self.known.root.T  # (S, M)
        state = np.flatnonzero(root.sum(axis=1) > 0)
        self.nodes.first[:] = np.arange(self.known.S)
        self.nodes.first[state] = self.D + np.arange(len(state))
        belief = root[state] / root[state].sum(axis=1, keepdims=True)
        self._insert(state, np.zeros_like(state), belief)

    def _insert(self, state: Ints, step: Ints, belief: Floats) -> None:
        """Put nodes into an empty graph; nothing is expanded."""
        n, A, D, nodes = len(state), self.known.A, self.D, self.nodes
        self.memory.used[:] = n, self.expanded
        self.memory.belief[:n] = belief
        nodes.state[D : D + n], nodes.step[D : D + n] = state, step
        row = state[:, None] * A + np.arange(A)
        nodes.edge[D : D + n] = step[:, None] * len(self.seen.next) + self.seen.start[row]
        if not self.whole:
            fill_table(self.memory, state, step, self.kind.side)

    def solve(self, search: MarkovSearch) -> BeliefPolicy:
        """The best policy by belief for a model, with its table at default nodes."""
        known, H, S = self.known, self.known.H, self.known.S
        row, slot = search.model.listing()
        number = np.zeros(len(search.model.rows.next), dtype=np.uint32)
        number[slot] = self.seen.number(row, search.model.rows.next[slot].astype(np.int64))
        values = self._valuation
        rows, arrays = search.model.rows._replace(observation=number), search.arrays
        policy = np.zeros(self.D + self.room, dtype=np.int64)
        policy[: H * S] = search.table.ravel()
        problem = Search(
            arrays.confidence_set, known.M, S, known.A, H, arrays.candidates, rows, self.nodes,
            known.root, known.root.sum(axis=1), values, policy, arrays.stale, values, values,
            arrays.known_action,
            *self._workspace,
        )  # fmt: skip
        self.memory.solved[:] = False
        node, action, child = np.zeros((3, H), dtype=np.int64)
        stack = DepthStack(node, action, child, np.zeros((H, known.A)), np.zeros(H))
        fits, tried, value = solve(
            pack_search(problem), self.memory, stack, policy, self.kind.side, self.kind.least,
            self.kind.every,
        )  # fmt: skip
        return BeliefPolicy(policy[self.D :], self.memory.solved.copy(), tried, fits, value)

    def reach(self, action: Ints, within: np.ndarray) -> Floats:
        """Probability of getting to each node `(count,)` under a policy, by nodes `within` alone.

        It is the memory's own idea of that: by its beliefs and likelihoods.
        """
        reach = np.zeros(self.count)
        first = self.nodes.first.astype(np.int64)
        memory = first >= self.D
        reach[first[memory] - self.D] = self.known.root.sum(axis=0)[memory]
        push_reach(self.nodes, self.memory, self.D, self._by_step(), action, within, reach)
        return reach

    def _by_step(self) -> Ints:
        step = self.nodes.step[self.D : self.D + self.count]
        fits = self.known.H < 2**15  # then NumPy sorts by radix
        return np.argsort(step.astype(np.int16) if fits else step, kind="stable")

    def part(self, keep: np.ndarray) -> MemoryPart:
        """These nodes by step, in the order of their making; what is left out becomes default."""
        n, D, S, H = self.count, self.D, self.known.S, self.known.H
        state, step = (x[: D + n].astype(np.int64) for x in (self.nodes.state, self.nodes.step))
        order = self._by_step()
        order = order[keep[order]]
        kept = step[D + order]
        span = np.arange(H + 2) * S + np.searchsorted(kept, np.arange(H + 2))
        number = span[step] + state
        number[D + order] = np.arange(len(order)) + (kept + 1) * S
        return MemoryPart(
            self.seen, order, state[D + order], kept, span, number[self.nodes.first],
            self.nodes.edge[D + order].astype(np.int64), number[self.nodes.succ[: self.successors]],
            self.expanded,
        )  # fmt: skip

    # ---------------------------------------------------------------- plain data

    def saved(self) -> dict[str, np.ndarray]:
        """The graph as plain data."""
        n, nodes = self.count, self.nodes
        memory = slice(self.D, self.D + n)
        return {
            "observations": self.seen.codes,
            "likelihood": self.memory.likelihood,
            "belief": self.memory.belief[:n],
            "state": nodes.state[memory].astype(np.int32),
            "step": nodes.step[memory].astype(np.int32),
            "edge": nodes.edge[memory].astype(np.int32),
            "succ": nodes.succ[self.expanded : self.successors].astype(np.int32),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from `saved()`."""
        saved = graph_state(saved, self)
        self.start(np.array(saved["likelihood"]))
        state, step = (np.array(saved[name], dtype=np.int64) for name in ("state", "step"))
        self._insert(state, step, saved["belief"])
        self.nodes.edge[self.D : self.D + self.count] = saved["edge"]
        self.memory.used[SUCCESSORS] += len(saved["succ"])
        self.nodes.succ[self.expanded : self.successors] = saved["succ"]


def _longer(array: np.ndarray, room: int) -> np.ndarray:
    """The same with room for so many entries more."""
    return np.concatenate([array, np.zeros((room, *array.shape[1:]), dtype=array.dtype)])
