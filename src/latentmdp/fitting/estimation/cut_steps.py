"""Steps at which an episode was cut off: it went on, and nobody wrote down where to.

An end is always written down. If the steps that were cut off were just left out, ends would look
likelier than they are, however long the log. So such a step counts as one that went on. It says
nothing about where to: among themselves, the next states of a row keep the shares of the steps that
were written down. If none was, the state is taken to stay as it is. Rows in which no episode ended
need none of this: there, what is left out favours nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.fitting.reading.cells import LogCounts


class CountedOutcomes(NamedTuple):
    """Outcomes that were seen, sorted by row and outcome."""

    row: Ints  # (n,)
    outcome: Ints  # (n,) next state and reading, as in `LogCounts`
    n: Floats  # (n,)
    reward: Floats  # (n,) mean
    error: Floats  # (n,) its standard error


class CutSteps(NamedTuple):
    """Steps of each row of which only that they went on is known."""

    steps: Floats  # (rows,) 0 in rows without ends
    is_end: np.ndarray  # (S,) the states that are ends

    def shares(self, row: Ints, nxt: Ints, n: Floats) -> Floats:
        """Probabilities of the outcomes of each row after `n` visits and the steps cut off."""
        whole = n * self.factor(row, nxt, n, self.steps)
        return whole / np.bincount(row, whole, len(self.steps))[row]

    def factor(self, row: Ints, nxt: Ints, n: Floats, more: Floats) -> Floats:
        """`(n,)` what gives `more (rows,)` to outcomes that went on, by their shares; 1 at ends."""
        on = ~self.is_end[nxt]
        went_on = np.bincount(row, n * on, len(more))
        rise = more / np.where(went_on > 0.0, went_on, 1.0)
        return 1.0 + on * rise[row]


def with_cut_steps(
    counts: LogCounts, reward: Floats, error: Floats
) -> tuple[CountedOutcomes, CutSteps]:
    """The outcomes of a log, and the steps that were cut off.

    Where no step of a row was seen to go on, staying is one of its outcomes, as often as it was cut
    off, with the readings of all contexts.
    """
    row, nxt, n = counts.row, counts.next, counts.sums.count.astype(np.float64)
    size = counts.M * counts.S * counts.A
    is_end = counts.final & (counts.finished > 0)
    has_ends = np.bincount(row, n * is_end[nxt], size) > 0
    known = np.bincount(row, n * ~is_end[nxt], size)
    cut = np.where(has_ends, counts.went_on, 0.0)
    spread = CutSteps(np.where(known > 0, cut, 0.0), is_end)
    bare = np.flatnonzero((cut > 0) & (known == 0))
    if not len(bare):
        return CountedOutcomes(row, counts.outcome, n, reward, error), spread
    paid = np.bincount(row, counts.sums.count * counts.sums.mean, size)[bare]
    total = counts.row_sums.count[bare] * counts.row_sums.mean[bare]
    which, read, share = counts.readings_of(bare)
    stays = bare[which] // counts.A % counts.S * counts.readings + read
    row, outcome = np.append(row, bare[which]), np.append(counts.outcome, stays)
    order = np.lexsort((outcome, row))
    outcomes = CountedOutcomes(
        row[order], outcome[order], np.append(n, cut[bare][which] * share)[order],
        np.append(reward, ((total - paid) / cut[bare])[which])[order],
        np.append(error, np.zeros(len(which)))[order],
    )  # fmt: skip
    return outcomes, spread
