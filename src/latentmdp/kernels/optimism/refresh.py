"""Coefficients of a few rows from their counts, compiled: what a learner needs at every update.

The formulas are those of `optimism/confidence.py`, which any rule may use; a rule that has a code
here is merely faster. Tests hold the two to the same numbers.
"""

import math

import numpy as np

from latentmdp.kernels.optimism.outcomes import list_outcomes
from latentmdp.kernels.optimism.values import know_context, root_bound
from latentmdp.runtime.kernel_cache import kernel

GIVEN, MVP, BERNSTEIN, ONE_STANDARD_ERROR, ESTIMATE = range(5)


@kernel
def refresh_row(rows, row, S, code, N, N_next, row_reward, iota, scale):
    """One row's coefficients from its counts."""
    n, support = N[row], 0
    unit = iota / max(n, 1)
    rows.gain[row] = row_reward[row]
    unseen = 1.0 if n == 0 else min(scale * 5.0 * unit, 1.0)
    for k in range(rows.start[row], rows.stop[row]):
        slot = rows.count_slot[k]
        visits = N_next[slot] if slot >= 0 else 0
        p = visits / max(n, 1)
        rows.p_hat[k] = p
        if visits > 0:
            support += 1
        if code == BERNSTEIN:  # Eq. (2)
            radius = scale * (2.0 * math.sqrt(p * unit) + 5.0 * unit)
            rows.lower[k] = 0.0 if visits == 0 else max(p - radius, 0.0)
            rows.upper[k] = unseen if visits == 0 else min(p + radius, 1.0)
    if code == BERNSTEIN:
        rows.unseen[row], rows.budget[row] = unseen, 1.0
    elif n == 0:
        rows.c1[row], rows.c2[row] = 0.0, math.inf  # a row without visits is worth the cap
    elif code == MVP:  # Eq. (3)
        flat = max(scale * 16.0 * S, scale * scale * 16.0 * support)
        rows.c1[row], rows.c2[row] = scale * 4.0 * math.sqrt(support * unit), flat * unit
    elif code == ONE_STANDARD_ERROR:
        rows.c1[row], rows.c2[row] = math.sqrt(1.0 / n), 1.0 / n
    else:
        rows.c1[row], rows.c2[row] = 0.0, 0.0


@kernel
def refresh_rows(search, changed, code, N, N_next, row_reward, iota, scale):
    """List and refresh these rows, and what their contexts are worth when known.

    These contexts are `stale` from now on. With the code GIVEN the rows have their outcomes and
    coefficients already. Returns the bound, and whether some row lists more outcomes than before.
    """
    pairs, longer = search.S * search.A, 0
    if code != GIVEN:
        longer = list_outcomes(
            changed, search.candidates, search.rows, N_next, np.empty(len(changed), np.int64)
        )
        for row in changed:
            refresh_row(search.rows, row, search.S, code, N, N_next, row_reward, iota, scale)
    for m in range(search.M):
        touched = False
        for row in changed:
            touched = touched or row // pairs == m
        if touched:
            search.stale[m] = True
            know_context(search, m, changed)
    return root_bound(search), longer > 0
