"""From a user's arrays to canonical sparse rows: sort, merge, check, label.

Row `(m, s, a)` has index `(m*S + s)*A + a` and lists its outcomes `(next, symbol, prob, reward)`,
sorted by `(symbol, next)`, each with positive probability. Rows of unavailable actions repeat those
of an available one (`availability.py`). Pure functions, arrays in, arrays out; every refusal says
what must hold, what was found, and where first.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model.availability import Mask, mask_of_rows, repeated
from latentmdp.model.repair import Repairs


class Sizes(NamedTuple):
    """Numbers of contexts, states and actions."""

    M: int
    S: int
    A: int


class Rows(NamedTuple):
    """Canonical outcomes in CSR form, `indptr (T*M*S*A + 1,)`, the rest `(nnz,)`.

    Row `(t, m, s, a)` has the number `t*M*S*A + (m*S + s)*A + a`. `T` is 1 where the rows are the
    same at every step, else the horizon.
    """

    indptr: Ints
    next: Ints
    symbol: Ints
    prob: Floats
    reward: Floats


def sum_tolerance(length: Any) -> Any:
    """How far a row of `length` floating-point probabilities may be from summing to 1.

    Rounding each entry and adding them up errs by about `length` units in the last place; the
    constant leaves room for a division and a product. 10 entries: 1.6e-14.
    """
    return (length + 8) * 2.0**-50


REWARD_TOLERANCE = 1e-9
"""Rewards of one place are equal if they differ by at most this share of the largest there.

The one place where rewards are compared: symbols, the learner, cursors and beliefs come here.
"""


def reward_tolerance(largest: Any, scale: float) -> Any:
    """How far two equal rewards of one place may be apart.

    `largest`: the largest absolute reward of the place, `(state, action)` or, where rewards sit on
    transitions, `(state, action, next)`. `scale`: the largest of the model; a few units in its last
    place are rounding error too, so that `0.3 - 0.1 - 0.2` is 0.
    """
    return np.maximum(REWARD_TOLERANCE * largest, 2.0**-50 * scale)


def match_reward(rewards: Floats, reward: float, scale: float) -> int:
    """The index of the nearest of a place's `rewards`, or -1 if none of them equals `reward`."""
    if len(rewards) == 0:
        return -1
    nearest = int(np.argmin(np.abs(rewards - reward)))
    tolerance = reward_tolerance(np.abs(rewards).max(), scale)
    return nearest if abs(rewards[nearest] - reward) <= tolerance else -1


def rank_rewards(place: Ints, reward: Floats, scale: float | None = None) -> Ints:
    """Symbols: the index of each reward among the distinct ones of its place, in ascending order.

    Sorted rewards with a gap of at most `reward_tolerance` between neighbours are one reward. So
    equality is an equivalence: a chain of rewards, each equal to the next, is one reward, also
    where its ends are further apart.
    """
    scale = float(np.abs(reward).max(initial=0.0)) if scale is None else scale
    order = np.lexsort((reward, place))
    p, r = place[order], reward[order]
    new_place = np.ones(len(p), dtype=bool)
    new_place[1:] = p[1:] != p[:-1]
    starts = np.flatnonzero(new_place)
    largest = np.maximum.reduceat(np.abs(r), starts) if len(r) else r
    tolerance = np.repeat(reward_tolerance(largest, scale), np.diff(np.append(starts, len(r))))
    new_reward = new_place.copy()
    new_reward[1:] |= np.diff(r) > tolerance[1:]
    count = np.cumsum(new_reward)
    first_of_place = np.maximum.accumulate(np.where(new_place, count, 0))
    rank = np.empty(len(p), dtype=np.int64)
    rank[order] = count - first_of_place
    return rank


def number_transitions(place: Ints, reward: Floats, scale: float | None = None) -> Ints:
    """Symbols where rewards sit on transitions: as `rank_rewards`, but from the largest down.

    A learner knows the rewards `R(m, s, a, s')`, all at least 0, but not which transitions can
    happen; a model has rewards for those that can, and 0 elsewhere. The smallest come last, so
    these zeros change the number of no other reward, and both give a reward the same number.
    """
    return rank_rewards(place, -reward, scale)


def place_of(sizes: Sizes, row: Ints) -> Ints:
    """The number of `(step, state, action)` of each row, whatever its context."""
    M, S, A = sizes
    place = row % (S * A)
    if len(row) and row.max() >= M * S * A:  # the steps have rows of their own
        place += row // (M * S * A) * (S * A)
    return place


def dense_symbols(sizes: Sizes, rows: Rows) -> Ints:
    """`(M*S*A, S)` symbols of all transitions, where rewards are observed and sit on them.

    A transition that cannot happen has reward 0 and the number of that: the last one. Whether it
    can happen is not to be seen in it. Rewards must be at least 0.
    """
    M, S, A = sizes
    row = np.repeat(np.arange(M * S * A), np.diff(rows.indptr))
    place = row % (S * A) * S + rows.next
    last = np.full(S * A * S, -1)
    np.maximum.at(last, place, rows.symbol)
    lowest, largest = np.full(S * A * S, np.inf), np.zeros(S * A * S)
    np.minimum.at(lowest, place, rows.reward)
    np.maximum.at(largest, place, rows.reward)
    scale = float(rows.reward.max(initial=0.0))
    of_zero = last + (lowest > reward_tolerance(largest, scale))
    symbols = np.tile(of_zero.reshape(S * A, S), (M, 1))
    symbols[row, rows.next] = rows.symbol
    return symbols


def floats(name: str, value: ArrayLike) -> Floats:
    """`value` as a finite float64 array."""
    return finite(name, numbers(name, value))


def numbers(name: str, value: ArrayLike) -> Floats:
    """`value` as a float64 array, a copy."""
    try:
        return np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{name} must be an array of numbers; {str(error)[:100]}") from None


def finite(name: str, array: Floats) -> Floats:
    """Check that all numbers are finite."""
    if not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0]
        raise ModelError(f"{at(name, where)} must be finite; it is {array[tuple(where)]}")
    return array


def integers(name: str, value: ArrayLike, below: int) -> Ints:
    """`value` as a one-dimensional int64 array with entries in `[0, below)`."""
    array = np.asarray(value)
    if array.ndim != 1:
        raise ModelError(f"{name} must be one-dimensional; its shape is {array.shape}")
    if array.dtype.kind not in "iu":
        exact = array.dtype.kind == "f" and np.isfinite(array).all()
        if not (exact and (array == np.floor(array)).all()) and array.size:
            raise ModelError(f"{name} must hold whole numbers; its type is {array.dtype}")
    array = array.astype(np.int64)
    bad = (array < 0) | (array >= below)
    if bad.any():
        i = int(np.argmax(bad))
        raise ModelError(f"{name}[{i}] must be from 0 to {below - 1}; it is {array[i]}")
    return array


def at(name: str, where: ArrayLike) -> str:
    """`P[m=2, s=0, a=1]` for the entry of `name` at an index of up to four axes."""
    axes = {"w": "m", "nu": "ms"}.get(name, ["m", "s", "a", "next"])
    index = [int(i) for i in np.atleast_1d(np.asarray(where))]
    return f"{name}[{', '.join(f'{x}={i}' for x, i in zip(axes, index, strict=False))}]"


def distributions(name: str, array: Floats, repairs: Repairs) -> Floats:
    """The last axis as probability distributions: checked, divided where `repairs` allows it."""
    not_negative(name, array)
    total = array.sum(axis=-1)
    divisor = repairs.divisors(
        np.atleast_1d(total),
        sum_tolerance(array.shape[-1]),
        lambda i: at(name, [i]) if array.ndim > 1 else name,
    )
    return array if divisor is None else array / divisor.reshape(total.shape)[..., None]


def not_negative(name: str, array: Floats) -> None:
    """Refuse numbers below 0."""
    if (array < 0).any():
        where = np.argwhere(array < 0)[0]
        raise ModelError(
            f"{at(name, where)} must be at least 0; it is {float(array[tuple(where)])}"
        )


class Outcomes(NamedTuple):
    """One entry per outcome, `(n,)` each; `allowed` if the caller says it."""

    row: Ints
    next: Ints
    prob: Floats  # of the next state and the reading
    reward: Floats
    allowed: Mask | None  # (T, S, A)
    steps: int = 1  # T: how many steps have rows of their own
    reading: Ints | None = None  # what is read besides the next state; None: nothing
    readings: int = 1  # how many different ones there are


def build_rows(
    sizes: Sizes, outcomes: Outcomes, observe_rewards: bool, repairs: Repairs
) -> tuple[Rows, Mask | None]:
    """Sort, add up repeated outcomes, check the sums, label the symbols. `O(n log n)`.

    Also `allowed (T, S, A)`, None if all actions are available everywhere. Where the caller does
    not say it, a `(step, state, action)` without outcomes in any context is unavailable.
    """
    M, S, A = sizes
    row, nxt, prob, reward, allowed, steps, reading, readings = outcomes
    n_rows = steps * M * S * A
    if n_rows > 2**62 // (S * readings):
        raise ModelError(
            "the number of rows times S times the number of readings must stay below 2^62; it is "
            f"{n_rows * S * readings}"
        )
    if (prob < 0).any():
        i = int(np.argmax(prob < 0))
        raise ModelError(
            f"{_row_name(sizes, steps, row[i])} must have probabilities of at least 0; "
            f"next={nxt[i]} has {float(prob[i])}"
        )
    key = row * S + nxt if reading is None else (row * S + nxt) * readings + reading
    keep = prob > 0
    if allowed is not None:
        keep &= allowed.reshape(-1)[place_of(sizes, row)]
    if not keep.all():
        key, prob, reward = key[keep], prob[keep], reward[keep]
    if (np.diff(key) <= 0).any():
        order = np.argsort(key, kind="stable")
        key, prob, reward = key[order], prob[order], reward[order]
        del order
    key, prob, reward = _add_up(key, prob, reward, observe_rewards)
    several = bool((np.diff(key) == 0).any())  # rewards of one next state and reading
    read = None
    if readings > 1:
        key, read = np.divmod(key, readings)
    row, nxt = np.divmod(key, S)
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=n_rows), out=indptr[1:])
    if allowed is None:
        allowed = mask_of_rows((np.diff(indptr) > 0).reshape(steps, M, S, A))
    prob = _sums_checked(sizes, steps, indptr, prob, allowed, repairs, readings)
    if allowed is not None and allowed.all():
        allowed = None
    if allowed is not None:
        indptr, outcome = repeated(allowed, M, indptr)
        row = np.repeat(np.arange(n_rows), np.diff(indptr))
        nxt, prob, reward = nxt[outcome], prob[outcome], reward[outcome]
        read = None if read is None else read[outcome]
    reward = reward + 0.0  # no negative zero
    on_rows = not observe_rewards or constant_in_rows(indptr, reward)
    if not observe_rewards:
        of_reward = np.zeros_like(nxt)
    elif on_rows:
        of_row = rank_rewards(place_of(sizes, np.arange(n_rows)), reward[indptr[:-1]])
        of_reward = of_row[row]
    else:
        of_reward = number_transitions(place_of(sizes, row) * S + nxt, reward)
    symbol = of_reward if read is None else of_reward * readings + read
    if on_rows and read is None:  # one symbol in a row: sorted by next state already
        return Rows(indptr, nxt, symbol, prob, reward), allowed
    order = np.lexsort((nxt, symbol, row))
    rows = Rows(indptr, nxt[order], symbol[order], prob[order], reward[order])
    return (_add_up_symbols(rows) if several else rows), allowed


def relabel(
    sizes: Sizes, rows: Rows, observe_rewards: bool, allowed: Mask | None, readings: int
) -> Rows:
    """The same rows with rewards observed or hidden, or with fewer actions available."""
    M, S, A = sizes
    n_rows = len(rows.indptr) - 1
    row = np.repeat(np.arange(n_rows), np.diff(rows.indptr))
    steps = n_rows // (M * S * A)
    reading = None if readings == 1 else rows.symbol % readings
    outcomes = Outcomes(row, rows.next, rows.prob, rows.reward, allowed, steps, reading, readings)
    return build_rows(sizes, outcomes, observe_rewards, Repairs())[0]


def constant_in_rows(indptr: Ints, reward: Floats) -> bool:
    """Whether the reward depends on `(m, s, a)` alone."""
    return bool((reward == np.repeat(reward[indptr[:-1]], np.diff(indptr))).all())


def _row_name(sizes: Sizes, steps: int, row: int) -> str:
    step, place = divmod(int(row), sizes.M * sizes.S * sizes.A)
    m, sa = divmod(place, sizes.S * sizes.A)
    where = at("P", [m, *divmod(sa, sizes.A)])
    return where if steps == 1 else f"at step {step}: {where}"


def _sums_checked(
    sizes: Sizes,
    steps: int,
    indptr: Ints,
    prob: Floats,
    allowed: Mask | None,
    repairs: Repairs,
    readings: int,
) -> Floats:
    """The probabilities; rows of available actions sum to 1, the others are empty."""
    length = np.diff(indptr)
    filled = length > 0
    if allowed is not None:
        wanted = allowed.reshape(-1)[place_of(sizes, np.arange(len(length)))]
        if (wanted & ~filled).any():
            row = int(np.argmax(wanted & ~filled))
            raise ModelError(f"{_row_name(sizes, steps, row)} must sum to 1; it has no outcomes")
    rows = np.flatnonzero(filled)
    total = np.add.reduceat(prob, indptr[rows])
    terms = length[rows] + (2 * readings if readings > 1 else 0)  # products round once more
    divisor = repairs.divisors(
        total, sum_tolerance(terms), lambda i: _row_name(sizes, steps, rows[i])
    )
    return prob if divisor is None else prob / np.repeat(divisor, length[rows])


def repeats_next(indptr: Ints, nxt: Ints, S: int) -> bool:
    """Whether some row has one next state twice."""
    row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    key = np.sort(row * S + nxt)
    return bool((key[1:] == key[:-1]).any())


def _add_up(
    key: Ints, prob: Floats, reward: Floats, observe_rewards: bool
) -> tuple[Ints, Floats, Floats]:
    """Merge repeated `(row, next)`: probabilities add up, hidden rewards average.

    Observed rewards that differ stay apart: they are several outcomes.
    """
    first = np.ones(len(key), dtype=bool)
    first[1:] = key[1:] != key[:-1]
    if first.all():
        return key, prob, reward
    starts = np.flatnonzero(first)
    total = np.add.reduceat(prob, starts)
    low, high = np.minimum.reduceat(reward, starts), np.maximum.reduceat(reward, starts)
    scale = float(np.abs(reward).max(initial=0.0))
    apart = high - low > reward_tolerance(np.maximum(np.abs(low), np.abs(high)), scale)
    mean = np.where(low != high, np.add.reduceat(prob * reward, starts) / total, low)
    if not (apart.any() and observe_rewards):
        return key[starts], total, mean
    group = np.cumsum(first) - 1
    kept = apart[group]
    chosen = kept | first
    prob = np.where(kept, prob, total[group])[chosen]
    return key[chosen], prob, np.where(kept, reward, mean[group])[chosen]


def _add_up_symbols(rows: Rows) -> Rows:
    """Merge repeated `(row, symbol, next)`, which are neighbours: one reward, up to tolerance."""
    row = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
    first = np.ones(len(row), dtype=bool)
    for same in (row, rows.symbol, rows.next):
        first[1:] &= same[1:] == same[:-1]
    first[1:] = ~first[1:]
    starts = np.flatnonzero(first)
    prob = np.add.reduceat(rows.prob, starts)
    low, high = (f.reduceat(rows.reward, starts) for f in (np.minimum, np.maximum))
    mean = np.where(low != high, np.add.reduceat(rows.prob * rows.reward, starts) / prob, low)
    indptr = np.zeros_like(rows.indptr)
    np.cumsum(np.bincount(row[starts], minlength=len(indptr) - 1), out=indptr[1:])
    return Rows(indptr, rows.next[starts], rows.symbol[starts], prob, mean)
