"""What rewards are at least, by a log: for certified lower values (docs/pessimism.md).

A log in which no reward varies may have missed the rare ones. There an outcome is a next state
*with* its reward, and another reward is an outcome that was not seen (`optimism/log_boxes.py`).
Where rewards vary, means have lower bounds: the better of Hoeffding's and of the empirical
Bernstein bound (Maurer and Pontil 2009, Theorem 4), at every number of visits at once. Whatever was
not seen pays the lower end of the range of rewards, or what `total_range` leaves.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from latentmdp.csr import Floats
from latentmdp.errors import ModelError
from latentmdp.fitting.estimation.estimate import known_rewards
from latentmdp.fitting.reading.cells import LogCounts, same_rewards
from latentmdp.model.rows import floats
from latentmdp.optimism.log_boxes import unseen_mass
from latentmdp.optimism.pessimistic import RewardBounds, Totals

if TYPE_CHECKING:
    from latentmdp.fitting.fits import Fit


class LogRewards(NamedTuple):
    """What `pessimistic_plan` must know of rewards."""

    rewards: RewardBounds
    lowest: float  # what a step pays at least after something that the log has not shown
    totals: Totals | None
    delta: float  # what is left of delta for the boxes of transitions and first states
    doubt: str  # why nothing is certified, in a sentence; empty if it is


class _Bounds(NamedTuple):
    """Of mean rewards: `least, most` of outcomes that were seen, `row` of rows (-inf: none)."""

    least: Floats  # (n,)
    most: Floats  # (n,)
    row: Floats  # (M*S*A,)


def reward_bounds(fit: Fit, delta: float, reward_range: Any = None) -> LogRewards:
    """Lower bounds of mean rewards, and how much of `delta` they leave.

    `reward_range (low, high)`: between which all rewards lie. Without it, and without a
    `total_range` that was given, the rewards of the log take its place and nothing is certified.
    """
    log, assumed = fit.log, fit.assumed
    low, high = _checked_range(log, reward_range)
    possible = assumed.total_range
    least_total = possible.low if possible is not None and possible.given else None
    declared = "R" in assumed.known or assumed.rewards == "fixed"
    varying = bool(log.noisy.any()) and not declared
    boxes = delta if declared else delta / 4.0
    bounds = _bounds(fit, low, high, delta / 4.0)
    doubt = _doubt(fit, low, high, reward_range is not None, least_total is not None, varying)
    n_rows = log.M * log.S * log.A
    other, lowest, totals = np.full(n_rows, low), low, None
    if least_total is not None and not doubt:
        before = _collected(fit, bounds.most)
        totals = Totals(least_total, np.where(before > -math.inf, least_total - before, -math.inf))
        before = np.maximum.reduce(before)  # (M, S) at any step
        rest = least_total - np.where(before > -math.inf, before, 0.0).reshape(-1)
        if reward_range is None or rest.min() >= low * fit.model.H:
            # one payment stands for all that comes after something that the log has not shown
            bounds = bounds._replace(row=np.full(n_rows, -math.inf))
            other, lowest = np.repeat(rest, log.A), 0.0
    by_row = _prefer_rows(log, bounds, varying)
    other = np.where(by_row, bounds.row, other)
    least = np.repeat(other[:, None], log.S, axis=1)
    least[log.row, log.next] = np.where(by_row[log.row], bounds.row[log.row], bounds.least)
    over = (log.final & (log.finished > 0))[np.arange(n_rows) // log.A % log.S]
    least[over], other[over] = 0.0, 0.0  # nothing is paid any more
    shape = (log.M, log.S, log.A)
    return LogRewards(
        RewardBounds(least.reshape(*shape, log.S), other.reshape(shape)), lowest, totals, boxes,
        doubt,
    )  # fmt: skip


def _bounds(fit: Fit, low: float, high: float, delta: float) -> _Bounds:
    """Bounds of outcomes and of rows; where rewards are not declared they spend `delta`."""
    log, assumed = fit.log, fit.assumed
    sums, of_rows = log.sums, log.row_sums
    seen = np.flatnonzero(of_rows.count > 0)
    row = np.full(len(of_rows.count), -math.inf)
    if "R" in assumed.known:
        R = known_rewards(log, assumed)
        mean = R[log.row, log.next if R.shape[1] > 1 else 0]
        return _Bounds(mean, mean, R[:, 0] if R.shape[1] == 1 else row)
    if assumed.rewards == "fixed":
        if log.rewards_of_rows:
            row[seen] = of_rows.mean[seen]
        return _Bounds(sums.mean, sums.mean, row)
    error = delta / (len(seen) * (len(seen) + 1.0))
    if not log.noisy.any():
        seen = seen[same_rewards(of_rows.at(seen))]
        n = of_rows.count[seen].astype(float)
        log_term = np.log(n) + np.log(n + 1.0) - math.log(error)
        missing = unseen_mass(np.arange(len(seen)), of_rows.count[seen], 0 * seen, log_term)
        row[seen] = of_rows.mean[seen] - missing * (of_rows.mean[seen] - low)
        return _Bounds(sums.mean, sums.mean, row)
    cells = len(sums.count)
    least = least_means(
        sums.count, sums.mean, sums.spread, low, high, delta / 2.0 / (cells * (cells + 1.0))
    )
    row[seen] = least_means(
        of_rows.count[seen], of_rows.mean[seen], of_rows.spread[seen], low, high, error / 2.0
    )
    return _Bounds(least, np.full(cells, high), row)


def _prefer_rows(log: LogCounts, bounds: _Bounds, varying: bool) -> np.ndarray:
    """`(rows,)` whether a row's reward is bounded as a whole, and not by next state.

    Where rewards vary: if that certifies more at the shares of next states that were seen.
    """
    there: np.ndarray = np.isfinite(bounds.row)
    if not varying:
        return there
    visits = log.visits
    paid = np.bincount(log.row, log.sums.count * bounds.least, len(visits))
    of_rows = np.where(there, bounds.row, 0.0) * visits
    return there & ((visits == 0) | (of_rows >= paid))


def _collected(fit: Fit, most: Floats) -> Floats:
    """`(H, M, S)` the most that can be collected on the way to each place, where the log has been.

    -inf where no way leads that the log has shown.
    """
    log, H = fit.log, fit.model.H
    found = np.full((H, log.M * log.S), -math.inf)
    found[0][log.starts.reshape(-1) > 0] = 0.0
    place = log.row // log.A
    target = place // log.S * log.S + log.next
    over = np.flatnonzero(np.tile(log.final & (log.finished > 0), log.M))
    for t in range(1, H):
        np.maximum.at(found[t], target, found[t - 1][place] + most)
        found[t][over] = np.maximum(found[t][over], found[t - 1][over])
    return found.reshape(H, log.M, log.S)


def _doubt(fit: Fit, low: float, high: float, ranged: bool, total: bool, varying: bool) -> str:
    """Why a lower value is not certified; empty if it is."""
    if fit.mixture is not None:
        return "Not certified: the contexts were guessed from the episodes, not written down."
    if ranged or (total and not varying):
        return ""
    text = (
        f"Not certified: rewards were taken to lie between {low:.6g} and {high:.6g}, as in the "
        "log, but no log can show the least reward that there is; reward_range=(low, high) "
        "(--reward-range) says it."
    )
    found = fit.assumed.total_range
    if found is not None and not found.given:
        text += (
            f" If it is true that only ends pay, total_range=({found.low:.6g}, {found.high:.6g}) "
            "(--total-range) says so, and the bound is higher."
        )
    return text


def least_means(
    n: np.ndarray, mean: Floats, spread: Floats, low: float, high: float, error: float
) -> Floats:
    """Lower bounds of means of numbers between `low` and `high`, each seen `n` times.

    `spread`: sums of squared distances from the mean. Each bound holds for all `n` at once with
    probability `1 - error`: after `n` visits either inequality may fail with `error / 2n(n + 1)`.
    """
    count = n.astype(np.float64)
    log_term = math.log(2.0 / error) + np.log(count) + np.log(count + 1.0)  # ln(1 / e)
    hoeffding = (high - low) * np.sqrt(log_term / (2.0 * count))
    free = np.maximum(count - 1.0, 1.0)
    both = log_term + math.log(2.0)  # ln(2 / e)
    bernstein = np.sqrt(2.0 * spread / free * both / count) + 7.0 * (high - low) * both / 3.0 / free
    radius = np.where(n > 1, np.minimum(hoeffding, bernstein), hoeffding)
    return np.maximum(mean - radius, low)


def _checked_range(log: LogCounts, given: Any) -> tuple[float, float]:
    """The range that rewards lie in; one that is given must hold those of the log."""
    seen = log.row_sums.count > 0
    least, most = float(log.row_sums.low[seen].min()), float(log.row_sums.high[seen].max())
    if given is None:
        return min(least, 0.0), max(most, 0.0)
    found = floats("reward_range", given)
    if found.shape != (2,) or not (found[0] <= least and most <= found[1]):
        raise ModelError(
            "reward_range must be two numbers between which all rewards lie; those of the log lie "
            f"from {least:.6g} to {most:.6g}, and it is {given!r}"
        )
    return float(found[0]), float(found[1])
