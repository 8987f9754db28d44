"""Two-sided belief grids: upper values and policies at the vertices of a triangulated simplex.

Resolution 1 has one vertex per context: its upper bounds are the values of knowing the context, its
policies those that are optimal in one context, evaluated in all. Finer grids tighten both.
"""

from math import comb

import numpy as np

from latentmdp.csr import Ints
from latentmdp.kernels.beliefs import ObservationModel
from latentmdp.kernels.planning.history_grid import (
    BeliefGrid,
    back_up_step,
    link_vertices,
    list_vertices,
)
from latentmdp.planning.budget import StopCheck
from latentmdp.planning.settings import SETTINGS, PlanningSettings


def n_vertices(M: int, N: int) -> int:
    """Number of beliefs over `M` contexts whose entries are multiples of `1/N`."""
    return comb(N + M - 1, M - 1)


def next_resolution(M: int, N: int, refinement: int) -> int:
    """The next resolution with that many times the vertices; for two contexts or more."""
    finer = N + 1
    while n_vertices(M, finer) < refinement * n_vertices(M, N):
        finer += 1
    return finer


def steps_of(observations: ObservationModel, n_states: int) -> int:
    """How many steps have observations of their own: 1 where all share them, else the horizon."""
    return (len(observations.ptr) - 1) // (n_states * observations.A)


def grid_work(observations: ObservationModel, horizon: int, n_states: int, N: int) -> int:
    """Work units of building a grid: a backup of one observation counts a twelfth."""
    J, M = observations.likelihood.shape
    return n_vertices(M, N) * J * horizon // (12 * steps_of(observations, n_states))


def grid_bytes(shape: tuple[int, ...], horizon: int, n_states: int, N: int) -> int:
    """Memory of a grid for `(J, M)` observations and contexts."""
    J, M = shape
    per_vertex = (horizon + 1) * n_states * 8 * (M + 2) + J * (16 + 12 * min(N, M))
    return n_vertices(M, N) * per_vertex


def build_grid(
    observations: ObservationModel,
    horizon: int,
    n_states: int,
    N: int,
    stop: StopCheck | None = None,
    settings: PlanningSettings = SETTINGS,
) -> BeliefGrid | None:
    """The grid of resolution `N`, backed up through all steps; None if `stop()` says so on the way.

    `O(H V J M^2)`.
    """
    grid = empty_grid(observations, horizon, n_states, N)
    J, M = observations.likelihood.shape
    V = len(grid.belief)
    cell = min(N, M) + 1  # vertices around a belief, about
    for first, last in _pieces(V, J * (cell + M // 4), settings):
        if stop is not None and stop():
            return None
        link_vertices(observations, grid, first, last)
    points = n_states * V
    at_a_step = J // steps_of(observations, n_states)  # observations, about
    for t in range(horizon - 1, -1, -1):
        for first, last in _pieces(points, at_a_step * cell * M // n_states + 1, settings):
            if stop is not None and stop():
                return None
            back_up_step(observations, grid, t, first, last)
    return grid


def empty_grid(observations: ObservationModel, horizon: int, n_states: int, N: int) -> BeliefGrid:
    """The grid with its vertices; cells are still to be linked, bounds to be backed up."""
    J, M = observations.likelihood.shape
    V = n_vertices(M, N)
    belief = np.empty((V, M))
    rank = rank_table(M, N)
    list_vertices(N, rank, belief)
    cells = J * int((belief > 0).sum())
    grid = BeliefGrid(
        N=N, rank=rank, belief=belief, prob=np.empty((V, J)),
        cell_ptr=np.empty(V * J + 1, dtype=np.uint64),
        cell_vertex=np.empty(cells, dtype=np.uint32), cell_weight=np.empty(cells),
        upper=np.empty((horizon + 1, n_states, V)), alpha=np.empty((horizon + 1, n_states, V, M)),
        action=np.empty((horizon, n_states, V), dtype=np.int32),
    )  # fmt: skip
    grid.upper[horizon] = observations.terminal @ belief.T
    grid.alpha[horizon] = observations.terminal[:, None]
    return grid


def link_grid(
    observations: ObservationModel,
    horizon: int,
    n_states: int,
    N: int,
    stop: StopCheck,
    settings: PlanningSettings = SETTINGS,
) -> BeliefGrid | None:
    """The grid with its cells, bounds still to be backed up; None if `stop()` says so on the way.

    The first piece is done whatever `stop()` says.
    """
    grid = empty_grid(observations, horizon, n_states, N)
    J, M = observations.likelihood.shape
    for first, last in _pieces(len(grid.belief), J * (min(N, M) + 1 + M // 4), settings):
        if first > 0 and stop():
            return None
        link_vertices(observations, grid, first, last)
    return grid


def _pieces(n: int, cost: int, settings: PlanningSettings) -> list[tuple[int, int]]:
    """`n` items of equal cost in ranges `(first, stop)` between two looks at the clock."""
    length = max(1, settings.grid_piece_cost // max(cost, 1))
    return [(first, min(first + length, n)) for first in range(0, n, length)]


def rank_table(M: int, N: int) -> Ints:
    """`(M, N + 2)`: what tail sum `x` at place `k` adds to a vertex's number."""
    table = np.zeros((M, N + 2), dtype=np.int64)
    for k in range(1, M):
        for x in range(N + 2):
            table[k, x] = comb(x + M - 1 - k, M - k)
    return table
