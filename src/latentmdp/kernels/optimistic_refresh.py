"""Coefficients of a few rows from their counts, compiled: what a learner needs at every update.

The formulas are those of `optimism/confidence.py`, which any rule may use; a rule that has a code
here is merely faster. Tests hold the two to the same numbers.
"""

import math
from typing import NamedTuple

from latentmdp.canonical import Floats, Ints
from latentmdp.kernels._cache import kernel
from latentmdp.kernels.flat import record_at
from latentmdp.kernels.optimistic_arena import arena_at
from latentmdp.kernels.optimistic_values import context_known, root_bound, row_changed

GIVEN, MVP, BERNSTEIN, ONE_STANDARD_ERROR, ESTIMATE = range(5)


class Seen(NamedTuple):
    """The counts of a learner (`counts.py`), and what else a row's coefficients need."""

    rows: int
    n: Ints
    N: Ints
    N_next: Ints
    count_slot: Ints  # (slots,) of the model: where the counts have it, or -1
    row_reward: Floats


seen_at = record_at(Seen)


@kernel
def refresh_row(x, row, code, seen, iota, scale):
    """One row's coefficients from its counts."""
    P, T, S = x.P, x.T, x.S
    N, N_next, count_slot = seen.N, seen.N_next, seen.count_slot
    n, support = N[row], 0
    unit = iota / max(n, 1)
    c = x.coef + 5 * row
    P[c] = seen.row_reward[row]
    unseen = 1.0 if n == 0 else min(scale * 5.0 * unit, 1.0)
    for k in range(T[row], T[x.stop + row]):
        visits = N_next[count_slot[k]] if count_slot[k] >= 0 else 0
        p = visits / max(n, 1)
        P[4 * k] = p
        if visits > 0:
            support += 1
        if code == BERNSTEIN:  # Eq. (2)
            radius = scale * (2.0 * math.sqrt(p * unit) + 5.0 * unit)
            P[4 * k + 2] = 0.0 if visits == 0 else max(p - radius, 0.0)
            P[4 * k + 3] = unseen if visits == 0 else min(p + radius, 1.0)
    if code == BERNSTEIN:
        P[c + 3], P[c + 4] = unseen, 1.0
    elif n == 0:
        P[c + 1], P[c + 2] = 0.0, math.inf  # a row without visits is worth the cap
    elif code == MVP:  # Eq. (3)
        flat = max(scale * 16.0 * S, scale * scale * 16.0 * support)
        P[c + 1], P[c + 2] = scale * 4.0 * math.sqrt(support * unit), flat * unit
    elif code == ONE_STANDARD_ERROR:
        P[c + 1], P[c + 2] = math.sqrt(1.0 / n), 1.0 / n
    else:
        P[c + 1], P[c + 2] = 0.0, 0.0


@kernel
def refresh_rows(here, rows, code, seen_here, iota, scale):
    """Refresh these rows, then the bound for their contexts; returns it, and the visits in all.

    With the code GIVEN the rows have their new coefficients already.
    """
    x, seen = arena_at(here), seen_at(seen_here)
    for m in range(x.M):
        x.F[x.top + m] = 0.0
    for row in rows:
        x.F[x.top + row // (x.S * x.A)] = 1.0
        if code != GIVEN:
            refresh_row(x, row, code, seen, iota, scale)
        row_changed(x, row)
    for m in range(x.M):
        if x.F[x.top + m] > 0.0:
            context_known(x, m)
    visits = 0
    for row in range(seen.rows):
        visits += seen.n[row]
    return root_bound(x), visits
