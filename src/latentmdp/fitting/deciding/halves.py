"""Two halves of a log's counts, drawn at random: one chooses a policy, the other judges it.

Given how often an action was taken in a state of a context, its next states are independent draws
(that is what a fitted model means). So visits may be dealt to two halves one by one, without the
episodes they were part of: the halves are as two logs of half the length with the same behaviour.
First states and weights stay those of the whole log.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.fitting.reading.cells import LogCounts
from latentmdp.fitting.reading.exact_sums import (
    REWARD_PIECES,
    REWARD_TOP,
    SQUARE_PIECES,
    SQUARE_TOP,
    RewardSums,
    pieces,
)


def halves(log: LogCounts, rng: np.random.Generator) -> tuple[LogCounts, LogCounts]:
    """Counts of two halves; first states, ends, returns and lengths are those of the whole log."""
    known = log.visits
    last = log.row_sums.count - known  # rewards of steps whose next state is not known
    first = rng.binomial(log.sums.count, 0.5)
    last_first = rng.binomial(last, 0.5)
    went_on = rng.binomial(log.went_on, 0.5)
    noise = rng.standard_normal((2, max(len(first), len(known))))
    made = []
    for n, n_last, cut, sign in (
        (first, last_first, went_on, 1.0),
        (log.sums.count - first, last - last_first, log.went_on - went_on, -1.0),
    ):
        kept = np.flatnonzero(n)
        of_rows = np.bincount(log.row, n, len(known)).astype(np.int64) + n_last
        made.append(
            replace(
                log,
                row=log.row[kept],
                next=log.next[kept],
                reading=log.reading[kept],
                went_on=cut,
                sums=_dealt(log.sums, n, sign * noise[0, : len(n)]).at(kept),
                row_sums=_dealt(log.row_sums, of_rows, sign * noise[1, : len(known)]),
            )
        )
    return made[0], made[1]


def _dealt(sums: RewardSums, n: Ints, noise: Floats) -> RewardSums:
    """Sums of `n` of the numbers of each class, drawn at random: rewards that vary are normal.

    With `-noise` for the others the two means average to that of all.
    """
    whole = sums.count
    free = np.maximum(whole - 1, 1)
    error = np.sqrt(sums.spread / free * np.maximum(whole - n, 0) / np.maximum(n, 1)
                    / np.maximum(whole, 1))  # fmt: skip
    mean = np.where(n > 0, np.clip(sums.mean + error * noise, sums.low, sums.high), 0.0)
    spread = sums.spread * np.maximum(n - 1, 0) / free
    return RewardSums(
        n, pieces(mean * n, REWARD_TOP, REWARD_PIECES),
        pieces(spread + n * mean * mean, SQUARE_TOP, SQUARE_PIECES),
        np.where(n > 0, sums.low, np.inf), np.where(n > 0, sums.high, -np.inf),
    )  # fmt: skip
