"""What the log's own episodes earned, beside which every promise of a policy stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import norm

from latentmdp.csr import Floats
from latentmdp.fitting.estimation.worth import Worth, ends
from latentmdp.fitting.reading.cells import LogCounts
from latentmdp.fitting.reading.exact_sums import REWARD_TOP, total

if TYPE_CHECKING:
    from latentmdp.fitting.fits import Fit

GROUP = 10  # episodes below which the mean of a group says too little


class Interval(NamedTuple):
    """A number with an interval."""

    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.lower:.4g}, {self.upper:.4g}]"


def log_value(fit: Fit, level: float = 0.95) -> Interval:
    """The mean total reward of the log's own episodes, with a normal interval.

    Episodes that were cut off before the horizon count what they had.
    """
    returns = fit.log.returns
    n = int(returns.count.sum())
    mean = float(total(returns.sums.sum(axis=1, keepdims=True), REWARD_TOP)[0]) / n
    spread = float(returns.spread.sum() + (returns.count * (returns.mean - mean) ** 2).sum())
    error = float(norm.ppf((1.0 + level) / 2.0)) * (spread / max(n - 1, 1) / n) ** 0.5
    return Interval(mean, mean - error, mean + error)


def gain_over_log(worth: Worth, logged: Interval, seed: int = 0) -> Interval:
    """What a policy is worth less what the log earned; `logged` has the level of `worth`.

    The two are taken as independent. They come from the same episodes and rise together, so the
    interval is rather too long than too short.
    """
    noise = np.random.default_rng(seed).standard_normal(len(worth.draws))
    spread = (logged.upper - logged.lower) / 2 / float(norm.ppf((1.0 + worth.level) / 2.0))
    low, high = ends(worth.worst - spread * noise, worth.best - spread * noise, worth.level)
    return Interval(
        worth.value - logged.value, float(low) - logged.value, float(high) - logged.value
    )


def spread_of_totals(log: LogCounts) -> float:
    """The standard deviation of an episode's total reward within its context."""
    returns = log.returns
    free = int(returns.count.sum()) - int((returns.count > 0).sum())
    return float((returns.spread.sum() / max(free, 1)) ** 0.5)


def best_group(log: LogCounts) -> float:
    """What the best group of comparable episodes earned on average.

    Comparable episodes have the same first state; its groups are the contexts. For each first state
    the group with the largest mean counts (of groups with fewer than `GROUP` episodes: their
    mean together), and first states are weighted as in the log.
    """
    sums = log.start_returns
    count = sums.count.reshape(log.M, log.S)
    paid: Floats = (sums.count * sums.mean).reshape(log.M, log.S)
    large = count >= GROUP
    mean = np.where(large, paid / np.maximum(count, 1), -np.inf)
    rest, of_rest = np.where(large, 0, count).sum(axis=0), np.where(large, 0.0, paid).sum(axis=0)
    together = np.where(rest >= GROUP, of_rest / np.maximum(rest, 1), -np.inf)
    best = np.maximum(mean.max(axis=0), together)
    episodes = count.sum(axis=0)
    small = np.isinf(best)  # first states with few episodes: all of them are one group
    if small.any() and episodes[small].sum():
        best[small] = paid.sum(axis=0)[small].sum() / episodes[small].sum()
    best = np.where(episodes > 0, best, 0.0)
    return float((episodes * best).sum() / episodes.sum())
