"""What rewards are at least, by a log: for certified lower values (docs/pessimism.md).

Rewards that never vary are known where they were paid once. Where rewards are noisy, the mean of
each `(context, state, action, next state)` has a lower bound: the better of Hoeffding's and of the
empirical Bernstein bound (Maurer and Pontil 2009, Theorem 4), at every number of visits at once. A
reward that was never paid is at least the lower end of the range of rewards.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.canonical import Floats, floats
from latentmdp.errors import ModelError
from latentmdp.fitting.cells import LogCounts
from latentmdp.fitting.estimate import known_rewards
from latentmdp.optimism.pessimistic import RewardBounds

if TYPE_CHECKING:
    from latentmdp.fitting.fits import Fit


def reward_bounds(fit: Fit, delta: float, reward_range: Any = None) -> RewardBounds:
    """Lower bounds of all mean rewards; with noise they hold together with probability `1 - delta`.

    `reward_range (low, high)`: between which all rewards lie (default: 0 and those of the log).
    """
    log = fit.log
    shape = (log.M, log.S, log.A, log.S)
    sums, at = log.sums, (log.row, log.next)
    paid = np.zeros((log.M * log.S * log.A, log.S), dtype=bool)
    paid[at] = True
    over = (log.final & (log.finished > 0))[np.arange(len(paid)) // log.A % log.S]
    paid[over] = True  # nothing is paid any more
    if "R" in fit.assumed.known:
        R = np.broadcast_to(known_rewards(log, fit.assumed), paid.shape)
        return RewardBounds(R.reshape(shape), ~paid.reshape(shape))
    low, high = _checked_range(log, reward_range)
    if log.rewards_of_rows:
        paid |= (log.row_sums.count > 0)[:, None]
        of_row = np.where(log.row_sums.count > 0, log.row_sums.mean, low)
        least = np.repeat(of_row[:, None], log.S, axis=1)
    else:
        least = np.full(paid.shape, low)
        least[at] = sums.mean if not log.noisy.any() else least_means(
            sums.count, sums.mean, sums.spread, low, high, delta / paid.size
        )  # fmt: skip
    least[over] = 0.0
    return RewardBounds(least.reshape(shape), ~paid.reshape(shape))


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
