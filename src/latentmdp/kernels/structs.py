"""The structs that kernels take: one per idea, named tuples of arrays, the shape on each field.

Rows and outcomes are the model's: row `(m, s, a)` is number `(m * S + s) * A + a`, and its outcomes
are `indptr[row] .. indptr[row + 1]`. Kernels read the fields they need into local names first.
"""

from typing import Any, NamedTuple

import numba
from numba import types
from numba.experimental import structref

from latentmdp.canonical import Floats, Ints
from latentmdp.kernels._cache import kernel

END = -1  # the cell after the last step
CELLS, EDGES, ROWS = 0, 1, 2  # entries of `Chain.size`


class ModelRows(NamedTuple):
    """A known model, as simulators need it."""

    M: int
    S: int
    A: int
    H: int
    indptr: Ints  # (rows + 1,)
    next: Ints  # (outcomes,)
    symbol: Ints  # (outcomes,)
    prob: Floats  # (outcomes,)
    cumulative: Floats  # (outcomes,) probabilities summed within each row
    conditional: Floats  # (outcomes,) probability of an outcome, given none before it in its row
    expected_reward: Floats  # (rows,)
    start_context: Ints  # (starts,) the pairs (context, first state) that can occur
    start_state: Ints  # (starts,)
    start_prob: Floats  # (starts,)
    start_cumulative: Floats  # (starts,) as for outcomes
    start_conditional: Floats  # (starts,)


class PolicyNodes(NamedTuple):
    """The arrays of a `PolicyGraph`, in its order."""

    step: Ints  # (nodes,)
    state: Ints  # (nodes,)
    action: Ints  # (nodes,)
    indptr: Ints  # (nodes + 1,) successors, sorted by (symbol, next) inside a node
    symbol: Ints  # (successors,)
    next: Ints  # (successors,)
    node: Ints  # (successors,)
    root: Ints  # (S,)
    default: Ints  # (H, S)


class Chain(NamedTuple):
    """The Markov chain of a policy in a model: cells (node, context) in step order, and edges.

    The edges of cell `c` are `first[c] .. first[c + 1]`, one for each outcome of its row, in the
    row's order. Only cells of positive probability are listed; the start cells come first. Arrays
    are longer than what is in use (`size`).
    """

    size: Ints  # (3,) CELLS, EDGES and ROWS in use
    row: Ints  # (cells,) of the model
    node: Ints  # (cells,) of the policy
    reach: Floats  # (cells,) probability
    visits: Ints  # (cells,) in this phase
    first: Ints  # (cells + 1,)
    succ: Ints  # (edges,) the cell an edge leads to; END after the last step
    layer: Ints  # (H + 1,) the cells of step t are layer[t] .. layer[t + 1]
    active: Ints  # (rows,) the rows that are visited at all come first
    rate: Floats  # (rows,) expected visits per episode
    peak: Floats  # (rows,) largest probability of a visit at one step


class RowCounts(NamedTuple):
    """The arrays of `Counts`, laid out as the model's outcomes."""

    n: Ints  # (rows,) visits
    n_next: Ints  # (outcomes,)
    N: Ints  # (rows,) their snapshot
    N_next: Ints  # (outcomes,)


class Block(NamedTuple):
    """Episodes under one policy, by their counts."""

    arrivals: Ints  # (cells,) visits to each cell
    flow: Ints  # (edges,) of them, those that left along each edge


class Picked(NamedTuple):
    """Episodes picked out of a block."""

    place: Ints  # (most,) their places in the block, ascending
    order: Ints  # (most,) which of them is at that place
    cells: Ints  # (most, H) their paths
    outcomes: Ints  # (most, H)


class World(NamedTuple):
    """A simulated world: a model, the policy that is played, its chain, counts and buffers."""

    model: ModelRows
    policy: PolicyNodes
    cell_of: Ints  # (nodes, M) scratch of `build_chain`
    chain: Chain
    counts: RowCounts
    block: Block
    half: Block  # the first half of a block, cut off it
    gain: Ints  # (rows,) visits in a block
    picked: Picked
    path_cells: Ints  # (H,) the triggering episode
    path_outcomes: Ints  # (H,)
    changed: Ints  # (H,) rows with a new snapshot
    bitgen: int  # address of the random generator's C state, as `samplers` needs it
    scratch: Floats  # (SCRATCH,) of `samplers.binomial`


@structref.register
class _WorldType(types.StructRef):
    """The type of a packed world."""


class _PackedWorld(structref.StructRefProxy):
    """A world that kernels take by reference."""


structref.define_proxy(_PackedWorld, _WorldType, World._fields)


@kernel
def _pack_world(world):
    return _PackedWorld(*world)


def pack_world(world: World) -> Any:
    """The same world for many calls: handing it to a kernel takes 0.5 microseconds, not 10."""
    return world if numba.config.DISABLE_JIT else _pack_world(world)  # type: ignore[attr-defined]
