"""The simulated world: a model's probabilities, a policy's chain in it, counts and buffers.

Kernels take it by address (`flat.py`): handing over thirty arrays would cost as much as simulating
a phase.
"""

from typing import NamedTuple

from latentmdp.canonical import Floats, Ints
from latentmdp.kernels.flat import record_at


class World(NamedTuple):
    """Sizes, then arrays, which kernels see flat.

    Cells and edges are those of the chain (`chain.py`).
    """

    H: int
    starts: int  # Q, pairs (context, first state) that can occur
    picked: int  # L, episodes that can be picked out of a block
    # the model's probabilities as samplers want them
    cumulative: Floats  # (nnz,) probabilities summed within each row
    conditional: Floats  # (nnz,) probability of an outcome, given none before it in its row
    start_cumulative: Floats  # (Q,) likewise for the start cells
    start_conditional: Floats
    # the chain
    rate: Floats
    peak: Floats
    indptr: Ints  # (rows + 1,) of the model
    row: Ints
    first: Ints
    succ: Ints
    active: Ints
    layer: Ints
    size: Ints
    # a block of episodes, and its first half
    arrivals: Ints  # (C,) episodes at each cell
    flow: Ints  # (E,) episodes along each edge
    half_arrivals: Ints  # (C,)
    half_flow: Ints  # (E,)
    gain: Ints  # (rows,) visits by row
    place: Ints  # (L,) places of the picked episodes in the block, ascending
    order: Ints  # (L,) which one is there
    cells: Ints  # (L, H) paths of the picked episodes
    outcomes: Ints  # (L, H)
    # what comes of it
    visits: Ints  # (C,) of the phase
    path_cell: Ints  # (H,) the triggering episode
    path_outcome: Ints
    n: Ints  # (rows,) counts
    n_next: Ints  # (nnz,)
    N: Ints  # (rows,) and their snapshot
    N_next: Ints  # (nnz,)
    changed: Ints  # (H,) rows with a new snapshot


world_at = record_at(World)
