"""The largest and smallest total reward that an episode can reach, by dynamic programming.

Only whether an outcome is possible matters, not how likely it is:
`v_{t+1}(m, s) = max over actions and possible outcomes of (r + discount * v_t(m, next))`.
Step by step this costs `O(H nnz)`. It is a linear map over (max, +), so for few states and many
steps its `H`-th power comes by squaring, in `O(M S^3 log H)`. Without a last step the fixed point
is found by policy iteration: a choice of one outcome at each `(m, s)` is a walk, whose discounted
sum comes by doubling. What is left of the residual is added, so that the bound holds.
"""

import math

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.model.horizons import is_infinite
from latentmdp.model.rows import Rows, Sizes

# Rough seconds of one call of NumPy and of one element in it: they only choose the cheaper way
CALL_SECONDS, ELEMENT_SECONDS = 1e-6, 2e-9
LONG_SECONDS = 1.0  # with a discount, values by squaring differ in their last bits


def extreme_totals(
    sizes: Sizes,
    rows: Rows,
    nu: Floats,
    horizon: int,
    discount: float,
    sign: int,
    terminal: Floats | None = None,
) -> Floats:
    """`(M,)` largest (`sign=1`) or smallest (`-1`) total reward reachable in each context."""
    M, S, A = sizes
    by_step = len(rows.indptr) - 1 > M * S * A
    context = np.arange(len(rows.indptr) - 1) // (S * A) % M
    target = np.repeat(context * S, np.diff(rows.indptr)) + rows.next
    starts = rows.indptr[:-1:A]  # the outcomes of all actions at one (m, s) are contiguous
    reward = sign * rows.reward
    after = np.zeros(M * S) if terminal is None else sign * terminal.reshape(-1)
    if is_infinite(horizon):
        with np.errstate(over="ignore", invalid="ignore"):
            value = _without_end(starts, target, reward, discount)
        return sign * np.where(nu > 0, value.reshape(M, S), -np.inf).max(axis=1) + 0.0
    step_by_step = horizon * (8 * CALL_SECONDS + 3 * len(target) * ELEMENT_SECONDS)
    by_squaring = math.log2(horizon + 1) * S * (2 * CALL_SECONDS + 2 * M * S * S * ELEMENT_SECONDS)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(horizon * np.abs(reward).max())  # -inf is "impossible" in squares
        worth = discount == 1.0 or step_by_step > LONG_SECONDS
        if by_step:
            value = _each_step(starts, target, reward, discount, after)
        elif finite and worth and by_squaring < step_by_step:
            value = _by_squaring(sizes, starts, rows.next, reward, horizon, discount, after)
        else:
            value = _step_by_step(starts, target, reward, horizon, discount, after)
    return sign * np.where(nu > 0, value.reshape(M, S), -np.inf).max(axis=1) + 0.0


def _step_by_step(
    starts: Ints, target: Ints, reward: Floats, horizon: int, discount: float, value: Floats
) -> Floats:
    """`(M*S,)` values after `horizon` steps; less work where they stop changing."""
    for _ in range(horizon):
        new = np.maximum.reduceat(reward + discount * value[target], starts)
        if np.array_equal(new, value):
            break
        value = new
    return value


def _each_step(
    starts: Ints, target: Ints, reward: Floats, discount: float, value: Floats
) -> Floats:
    """`(M*S,)` the same where each step has outcomes of its own."""
    places = len(value)
    ends = np.append(starts, len(reward))
    for first in range(len(starts) - places, -1, -places):
        at = ends[first : first + places + 1]
        mine = slice(at[0], at[-1])
        value = np.maximum.reduceat(reward[mine] + discount * value[target[mine]], at[:-1] - at[0])
    return value


MOST_IMPROVEMENTS = 1_000  # of the walks; some ten do, and the bound holds after any number


def _without_end(starts: Ints, target: Ints, reward: Floats, discount: float) -> Floats:
    """`(M*S,)` an upper bound on all discounted sums without end, tight up to rounding."""
    choice = starts.copy()
    for _ in range(MOST_IMPROVEMENTS):
        value, after, factor = reward[choice], target[choice], discount
        while factor > 0.0:  # 1, 2, 4, ... steps of the walk; in the end the factor underflows
            value, after = value + factor * value[after], after[after]
            factor *= factor
        all_values = reward + discount * value[target]
        best = np.maximum.reduceat(all_values, starts)
        rounding = 2.0**-50 * np.abs(value)
        better = best > value + rounding
        if not better.any():
            break
        owner = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(reward))))
        (first,) = np.nonzero(all_values == best[owner])
        pick = np.empty_like(choice)
        pick[owner[first[::-1]]] = first[::-1]  # the first of equals
        choice = np.where(better, pick, choice)
    excess = np.maximum(best - value, 0.0).max(initial=0.0)
    return value + (excess / (1.0 - discount) if excess > 0.0 else 0.0)


def _by_squaring(
    sizes: Sizes,
    starts: Ints,
    nxt: Ints,
    reward: Floats,
    horizon: int,
    discount: float,
    after: Floats,
) -> Floats:
    """`(M*S,)` values after `horizon` steps; `k` give `max_j best[i, j] + discount^k v[j]`."""
    M, S, _ = sizes
    state = np.repeat(np.arange(M * S), np.diff(np.append(starts, len(nxt))))
    best: Floats = np.full((M, S, S), -np.inf)  # of 1, 2, 4, ... steps, from a state to another
    np.maximum.at(best.reshape(M * S, S), (state, nxt), reward)
    value: Floats = after.reshape(M, S)
    steps = 1
    while True:
        factor = discount**steps
        if horizon & steps:
            value = (best + factor * value[:, None, :]).max(axis=2)
        steps *= 2
        if steps > horizon:
            return value.reshape(-1)
        twice: Floats = np.full((M, S, S), -np.inf)
        for j in range(S):  # where the first half ends
            np.maximum(twice, best[:, :, j, None] + factor * best[:, j, None, :], out=twice)
        best = twice
