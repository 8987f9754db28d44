"""Room for growing trees and graphs of beliefs: their arrays, empty and enlarged."""

from typing import Any, NamedTuple

import numpy as np

from latentmdp.kernels.beliefs import N_BELIEFS, N_EDGES, N_INNER, N_NODES, NONE, ObservationModel
from latentmdp.kernels.planning.history_graph import BeliefGraph, rehash_beliefs
from latentmdp.kernels.planning.history_tree import BeliefTree, rehash_nodes
from latentmdp.kernels.structs import Indices

TREE_NODES = (
    "step", "state", "belief", "lower", "upper", "first_edge", "gain_row", "grid_level", "vertex",
    "reach", "queue",
)  # fmt: skip
TREE_EDGES = ("child", "prob")
GRAPH_BELIEFS = (
    "belief", "support", "node_of", "swept", "swept_from", "swept_to", "passed_from", "passed_to",
    "score",
)  # fmt: skip
GRAPH_NODES = (
    "belief_of", "state", "row", "bound", "flat_from", "changed", "peak", "stamp", "place",
)  # fmt: skip
GRAPH_EDGES = ("child", "prob")


def empty_tree(
    observations: ObservationModel, starts: int, A: int, widest: int, first_nodes: int
) -> BeliefTree:
    """A tree with room for `first_nodes`; `widest` is the most edges of a node."""
    n, M = first_nodes + widest + starts, observations.likelihood.shape[1]
    return BeliefTree(
        used=np.zeros(4, dtype=np.int64),
        step=_indices(n), state=_indices(n), belief=np.empty((n, M)),
        lower=np.empty(n), upper=np.empty(n), first_edge=_indices(n), gain_row=_indices(n),
        grid_level=_indices(n), vertex=_indices(n), gain=np.empty((first_nodes // 2, A)),
        child=_indices(2 * n), prob=np.empty(2 * n), table=_hash_table(2 * n - 1),
        reach=np.empty(n), queue=_indices(n),
    )  # fmt: skip


def enlarge_tree(tree: BeliefTree, widest: int, free: int, growth: float) -> BeliefTree | None:
    """More room, by this growth, for nodes, edges or inner nodes, whatever is full.

    The arrays grow in place, without being copied. None: it takes more than `free` bytes, or more
    than indices can count.
    """
    full: list[str] = []
    if tree.used[N_NODES] + widest > len(tree.step):
        full += TREE_NODES
    if tree.used[N_EDGES] + widest > len(tree.child):
        full += TREE_EDGES
    if tree.used[N_INNER] >= len(tree.gain):
        full += ["gain"]
    arrays = [getattr(tree, name) for name in full]
    lengths = [int(growth * len(array)) + widest for array in arrays]
    grown = sum(
        (length - len(array)) * array[:1].nbytes
        for array, length in zip(arrays, lengths, strict=True)
    )
    if grown > free or max(lengths) > NONE:
        return None
    for array, length in zip(arrays, lengths, strict=True):
        array.resize((length, *array.shape[1:]), refcheck=False)
    if 2 * len(tree.step) > len(tree.table):
        tree = tree._replace(table=_hash_table(2 * len(tree.step) - 1))
        rehash_nodes(tree)
    return tree


def empty_graph(
    observations: ObservationModel, starts: int, S: int, A: int, horizon: int
) -> BeliefGraph:
    """A graph with room for two expansions."""
    J, M = observations.likelihood.shape
    n, _, rows, _ = first_room(J, S, starts)
    return BeliefGraph(
        used=np.zeros(6, dtype=np.int64),
        belief=np.zeros((n, M)), support=_indices(n), node_of=_indices(n, S),
        swept=np.zeros(n, dtype=np.int64), swept_from=_indices(n), swept_to=_indices(n),
        passed_from=_indices(n), passed_to=_indices(n), score=np.zeros(n), table=_hash_table(2 * n),
        belief_of=_indices(n), state=_indices(n), row=_indices(n),
        bound=np.zeros((n, horizon + 1, 2)), flat_from=_indices(n), changed=_indices(n),
        peak=_indices(n), stamp=np.zeros(n, dtype=np.int64), place=_indices(n),
        reach=np.zeros((2, n)), queue=_indices(2, n),
        ptr=_indices(rows * A + 1), gain=np.zeros((rows, A)), child=_indices(n), prob=np.zeros(n),
    )  # fmt: skip


class GraphRoom(NamedTuple):
    """Lengths of a graph's arrays."""

    beliefs: int
    nodes: int
    rows: int
    edges: int

    def bytes(self, M: int, S: int, A: int, horizon: int) -> int:
        """Memory of a graph with this room."""
        beliefs, nodes, rows, edges = self
        per_belief, per_node = 8 * M + 4 * S + 36, 16 * (horizon + 1) + 56
        table = 4 << (2 * beliefs).bit_length()
        return beliefs * per_belief + nodes * per_node + 12 * (rows * A + edges) + table


def first_room(J: int, S: int, starts: int) -> GraphRoom:
    """Room for two expansions, with `J` observations in all."""
    n = 2 * (J + S + starts)
    return GraphRoom(n, n, 2 * S, n)


def more_room(graph: BeliefGraph, J: int, growth: float) -> GraphRoom | None:
    """More room for everything, by this growth. None: more than indices can count."""
    S, A = graph.node_of.shape[1], graph.gain.shape[1]
    used: list[int] = graph.used.tolist()
    room = GraphRoom(
        int(growth * used[N_BELIEFS]) + 2 * (J + S),
        int(growth * used[N_NODES]) + 2 * (J + S),
        int(growth * used[N_INNER]) + 2 * S,
        int(growth * used[N_EDGES]) + 2 * J,
    )
    return None if max(*room, room.rows * A + 1) >= NONE else room


def enlarge_graph(graph: BeliefGraph, room: GraphRoom) -> BeliefGraph:
    """A graph with this room. The large arrays grow in place, without being copied."""
    A = graph.gain.shape[1]
    beliefs, nodes, rows, edges = room
    for length, names in (
        (beliefs, GRAPH_BELIEFS), (nodes, GRAPH_NODES), (edges, GRAPH_EDGES), (rows, ("gain",)),
        (rows * A + 1, ("ptr",)),
    ):  # fmt: skip
        for name in names:
            array = getattr(graph, name)
            if length > len(array):
                array.resize((length, *array.shape[1:]), refcheck=False)
    nodes = len(graph.row)
    graph = graph._replace(
        table=_hash_table(2 * len(graph.belief)), reach=np.zeros((2, nodes)),
        queue=_indices(2, nodes),
    )  # fmt: skip
    rehash_beliefs(graph)
    return graph


def total_bytes(arrays: Any) -> int:
    """Memory of a struct of arrays."""
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


def _indices(*shape: int) -> Indices:
    return np.zeros(shape, dtype=np.uint32)


def _hash_table(n: int) -> Indices:
    """An empty hash table, longer than `n`: a power of two."""
    return np.full(1 << n.bit_length(), NONE, dtype=np.uint32)
