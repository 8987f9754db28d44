"""The simulated world: a model's probabilities, a policy's chain in it, counts and buffers.

Kernels take it by the address of a header of integers, and find the arrays by address
(`flat.py`): handing over thirty arrays would cost as much as simulating a phase.
"""

from typing import NamedTuple

import numba
import numpy as np

from latentmdp.kernels._cache import helper
from latentmdp.kernels.flat import floats, integers

WORLDS: dict[int, "World"] = {}  # by address; used without compilation only


class World(NamedTuple):
    """Sizes; then arrays, flat: of floats up to `peak`, of integers from `indptr` on.

    Cells and edges are those of the chain (`chain.py`).
    """

    H: int
    starts: int  # Q, pairs (context, first state) that can occur
    picked: int  # L, episodes that can be picked out of a block
    # the model's probabilities as samplers want them
    cumulative: np.ndarray  # (nnz,) probabilities summed within each row
    conditional: np.ndarray  # (nnz,) probability of an outcome, given none before it in its row
    start_cumulative: np.ndarray  # (Q,) likewise for the start cells
    start_conditional: np.ndarray
    # the chain
    rate: np.ndarray
    peak: np.ndarray
    indptr: np.ndarray  # (rows + 1,) of the model
    row: np.ndarray
    first: np.ndarray
    succ: np.ndarray
    active: np.ndarray
    layer: np.ndarray
    size: np.ndarray
    # a block of episodes, and its first half
    arrivals: np.ndarray  # (C,) episodes at each cell
    flow: np.ndarray  # (E,) episodes along each edge
    half_arrivals: np.ndarray  # (C,)
    half_flow: np.ndarray  # (E,)
    gain: np.ndarray  # (rows,) visits by row
    place: np.ndarray  # (L,) places of the picked episodes in the block, ascending
    order: np.ndarray  # (L,) which one is there
    cells: np.ndarray  # (L, H) paths of the picked episodes
    outcomes: np.ndarray  # (L, H)
    # what comes of it
    visits: np.ndarray  # (C,) of the phase
    path_cell: np.ndarray  # (H,) the triggering episode
    path_outcome: np.ndarray
    n: np.ndarray  # (rows,) counts
    n_next: np.ndarray  # (nnz,)


def header(world: World) -> np.ndarray:
    """Sizes and addresses; its own address is what kernels take. Keep it and the world alive."""
    sizes, arrays = world[:3], world[3:]
    numbers = np.array([*sizes, *(array.ctypes.data for array in arrays)], dtype=np.int64)
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        WORLDS[numbers.ctypes.data] = World(*sizes, *(array.reshape(-1) for array in arrays))
    return numbers


@helper
def world_at(here):
    """The world whose header lies at this address."""
    h = integers(here)
    return World(
        h[0], h[1], h[2], floats(h[3]), floats(h[4]), floats(h[5]), floats(h[6]), floats(h[7]),
        floats(h[8]), integers(h[9]), integers(h[10]), integers(h[11]), integers(h[12]),
        integers(h[13]), integers(h[14]), integers(h[15]), integers(h[16]), integers(h[17]),
        integers(h[18]), integers(h[19]), integers(h[20]), integers(h[21]), integers(h[22]),
        integers(h[23]), integers(h[24]), integers(h[25]), integers(h[26]), integers(h[27]),
        integers(h[28]), integers(h[29]),
    )  # fmt: skip


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    world_at = WORLDS.__getitem__
