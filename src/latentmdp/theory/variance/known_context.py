"""A cheap certified bound on `Var*`: context and collected reward known, on a grid of totals.

`Var^pi <= E[(X - c)^2]`, at most what one can reach knowing the context and what was collected.
That value is convex in the collected reward (a maximum of averages of convex functions), so linear
interpolation between grid points lies above it: the bound holds at any resolution.
"""

import itertools

import numpy as np

from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.budget import StopCheck

MOST_CELLS = 20_000_000  # outcomes times grid points
PIECE = 500_000  # of them at once, between two looks at the clock


def known_context_bound(
    model: LatentMDP, values: tuple[float, float], points: int = 200, steps: int = 14,
    stop: StopCheck = lambda: False,
) -> float:  # fmt: skip
    """`min_c` of it, `c` between the least and the largest mean; inf for models too large.

    `O(steps H nnz (points + 2 H))`. Nothing more is computed after `stop` says so.
    """
    low, high = _partial_sums(model)
    margin = model.H + 1  # each step may lean on a grid point outside, by one cell more
    if len(model.next) * (points + 2 * margin) > MOST_CELLS:
        return float("inf")
    cell = max(high - low, 1e-12) / (points - 1)
    grid = low - margin * cell + cell * np.arange(points + 2 * margin)

    owner = np.repeat(np.arange(len(model.indptr) - 1), np.diff(model.indptr))
    to = owner // (model.S * model.A) * model.S + model.next
    last = len(model.indptr) - 1
    wanted = np.arange(0, model.indptr[-1], max(PIECE // len(grid), 1))
    pieces = np.unique([*np.searchsorted(model.indptr[:-1], wanted), last]).tolist()

    def square(c: float) -> float:
        """`max E[(X - c)^2]`, from above; inf if there is no time for it."""
        W = np.broadcast_to((grid - c) ** 2, (model.M * model.S, len(grid)))
        for t in range(model.H - 1, -1, -1):
            place = (model.discount**t * model.reward) / cell  # in cells, to the right
            whole = np.floor(place).astype(np.int64)
            part = (place - whole)[:, None]
            rows = np.empty((len(model.indptr) - 1, len(grid)))
            for begin, end in itertools.pairwise(pieces):  # of the rows
                if stop():
                    return float("inf")
                piece = slice(model.indptr[begin], model.indptr[end])
                left = np.clip(np.arange(len(grid)) + whole[piece, None], 0, len(grid) - 1)
                right = np.minimum(left + 1, len(grid) - 1)
                after = W[to[piece]]
                reached = (1.0 - part[piece]) * np.take_along_axis(after, left, 1)
                reached += part[piece] * np.take_along_axis(after, right, 1)
                reached *= model.prob[piece, None]
                starts = model.indptr[begin:end] - model.indptr[begin]
                rows[begin:end] = np.add.reduceat(reached, starts, axis=0)
            W = rows.reshape(model.M * model.S, model.A, len(grid)).max(axis=1)
        first = W.reshape(model.M, model.S, len(grid))
        at = -grid[0] / cell  # nothing collected yet
        i = min(int(at), len(grid) - 2)
        start = (1.0 - (at - i)) * first[:, :, i] + (at - i) * first[:, :, i + 1]
        return float((model.w[:, None] * model.nu * start).sum())

    a, b = values
    best = min(square(a), square(b))
    for _ in range(steps // 2):  # convex in c
        if stop():
            break
        c1, c2 = a + (b - a) / 3.0, b - (b - a) / 3.0
        y1, y2 = square(c1), square(c2)
        best = min(best, y1, y2)
        a, b = (a, c2) if y1 <= y2 else (c1, b)
    return best


def _partial_sums(model: LatentMDP) -> tuple[float, float]:
    """Least and largest total collected up to any step, by any policy in any context."""
    owner = np.repeat(np.arange(len(model.indptr) - 1), np.diff(model.indptr))
    at = owner // model.A
    to = owner // (model.S * model.A) * model.S + model.next
    ends = []
    for sign in (-1.0, 1.0):
        best = np.where((model.w[:, None] * model.nu).ravel() > 0, 0.0, -np.inf)
        most = 0.0
        for t in range(model.H):
            gain = best[at] + sign * model.discount**t * model.reward
            best = np.full(model.M * model.S, -np.inf)
            np.maximum.at(best, to, gain)
            most = max(most, float(best.max()))
        ends.append(sign * most)
    return ends[0], ends[1]
