"""The graph that a search chooses actions on, and the arrays that its kernels work in."""

from typing import NamedTuple

import numpy as np

from latentmdp.csr import Ints
from latentmdp.kernels.structs import (
    BoxRows,
    Candidates,
    ConfidenceRows,
    Indices,
    Nodes,
    RowScratch,
    Search,
    Valuation,
    Workspace,
)
from latentmdp.optimism.given import Given
from latentmdp.optimism.memory.observations import Observations


class MemoryPart(NamedTuple):
    """The memory nodes that are planned with, by step; the rest of their graph became default.

    Numbers of nodes are those of `Nodes`: memory node `i` is number `i + (step + 1) * S`.
    """

    observations: Observations  # what the memory tells apart
    order: Ints  # (nodes,) number of each node in the memory graph
    state: Ints  # (nodes,)
    step: Ints  # (nodes,)
    span: Ints  # (H + 2,) first node of every step
    first: Ints  # (S,) node of every first state
    edge: Ints  # (nodes, A) where the successors of an action begin
    succ: Ints  # by number of the observation
    expanded: int  # edges from here on are of actions that memory nodes follow

    @property
    def number(self) -> Ints:
        """`(nodes,)` their numbers."""
        return np.arange(len(self.state)) + (self.step + 1) * (len(self.first))


def no_memory(known: Given) -> Ints:
    """`span` of the graph of default nodes alone."""
    return np.arange(known.H + 2) * known.S


def make_nodes(known: Given, seen: Observations, memory: MemoryPart | None = None) -> Nodes:
    """The default nodes, and these of a memory, with a successor for everything in `seen`."""
    H, S, A = known.H, known.S, known.A
    span = no_memory(known) if memory is None else memory.span
    N, every = int(span[-1]), len(seen.next)
    default = span[: H + 1, None] + np.arange(S)
    state, step = np.zeros(N, dtype=np.int64), np.zeros(N, dtype=np.int64)
    state[default], step[default] = np.arange(S), np.arange(H + 1)[:, None]
    if memory is not None:
        state[memory.number], step[memory.number] = memory.state, memory.step
    edge = step[:, None] * every + seen.start[state[:, None] * A + np.arange(A)]
    edge[step == H] = 0  # nothing follows
    succ = (span[1 : H + 1, None] + seen.next).ravel()
    if memory is not None:
        own, edge[memory.number] = _follow_memory(seen, memory, edge[memory.number], len(succ), A)
        succ = np.concatenate([succ, own])
    played = np.ones(N, dtype=np.bool_)
    played[:S] = known.root.any(axis=0)
    first = np.arange(S) if memory is None else memory.first
    return Nodes(
        _indices(span), _indices(state), _indices(step), _indices(edge), _indices(succ),
        _indices(first), played, np.ones((N, known.M), dtype=np.bool_),
    )  # fmt: skip


def _indices(array: Ints) -> Indices:
    return array.astype(np.uint32)


def _follow_memory(
    seen: Observations, memory: MemoryPart, edge: Ints, begin: int, A: int
) -> tuple[Ints, Ints]:
    """Successors, from number `begin` on, of actions that memory nodes follow; and all edges.

    What the memory does not tell apart leads to default nodes.
    """
    node, action = np.nonzero(memory.edge >= memory.expanded)
    row = memory.state[node] * A + action
    width = seen.start[row + 1] - seen.start[row]
    before = np.cumsum(width) - width
    edge[node, action] = begin + before
    owner = np.repeat(np.arange(len(node)), width)
    observation = np.arange(len(owner)) + (seen.start[row] - before)[owner]
    succ = memory.span[memory.step[node] + 1][owner] + seen.next[observation]
    place = memory.observations.find(seen.codes)[observation]
    told = place >= 0
    offset = memory.edge[node, action] - memory.observations.start[row]
    succ[told] = memory.succ[offset[owner][told] + place[told]]
    return succ, edge


def make_valuation(known: Given, N: int, confidence_set: bool) -> Valuation:
    """All values 0."""
    shape = (known.H + 1, known.M, known.S) if confidence_set else (0, 0, 0)
    states = np.broadcast_to(np.arange(shape[2], dtype=np.uint32), shape)
    total = np.zeros((*shape[:2], shape[2] + 1))
    return Valuation(np.zeros((N, known.M)), states.copy(), states.copy(), np.zeros(shape), total)


def make_workspace(known: Given, N: int) -> tuple[Workspace, RowScratch]:
    """Scratch arrays for graphs of this size, and for one row."""
    S, M, index = known.S, known.M, np.uint32
    work = Workspace(
        np.zeros((N, M)), np.zeros((N, M)), np.zeros(N), np.zeros(N, np.bool_),
        np.zeros(S * known.A, np.bool_), np.zeros(N, np.bool_), np.zeros(N, np.int64), np.zeros(M),
    )  # fmt: skip
    scratch = RowScratch(
        np.zeros(S), np.zeros(S, index), np.zeros(S, index), np.zeros(S, index), np.zeros(S),
        np.zeros(S + 1),
    )  # fmt: skip
    return work, scratch


def make_search(known: Given, candidates: Candidates, rows: ConfidenceRows, nodes: Nodes) -> Search:
    """This model on this graph, with arrays to search in."""
    N, root = len(nodes.state), known.root
    boxes = isinstance(rows, BoxRows)
    current, trial, bound = (make_valuation(known, N, boxes) for _ in range(3))
    known_action = np.zeros((known.H, known.S, known.A, known.M))
    return Search(
        boxes, known.M, known.S, known.A, known.H, candidates, rows, nodes, root,
        root.sum(axis=1), current, np.full(N, -1), np.ones(known.M, np.bool_), trial, bound,
        known_action, *make_workspace(known, N),
    )  # fmt: skip
