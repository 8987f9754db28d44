"""Steps at which an episode was cut off: it went on, and nobody wrote down where to.

An end is always written down. If the steps that were cut off were just left out, ends would look
likelier than they are, however long the log. So such a step counts as one that went on, and is
spread over next states as the other steps of its row that went on. If none did, the state is taken
to stay as it is. Rows in which no episode ended need none of this: there, what is left out favours
nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.fitting.cells import LogCounts


class Outcomes(NamedTuple):
    """Outcomes that were seen, sorted by row and next, with visits that need not be whole."""

    row: Ints  # (n,)
    next: Ints  # (n,)
    n: Floats  # (n,)
    reward: Floats  # (n,) mean
    error: Floats  # (n,) its standard error


def with_cut_steps(counts: LogCounts, reward: Floats, error: Floats) -> Outcomes:
    """The outcomes of a log, and the steps that were cut off among those that went on."""
    row, nxt, n = counts.row, counts.next, counts.sums.count.astype(np.float64)
    size = counts.M * counts.S * counts.A
    is_end = (counts.final & (counts.finished > 0))[nxt]
    has_ends = np.bincount(row, n * is_end, size) > 0
    known = np.bincount(row, n * ~is_end, size)
    cut = np.where(has_ends, counts.went_on, 0)
    n = np.where(is_end, n, n * (1.0 + cut / np.maximum(known, 1.0))[row])
    bare = np.flatnonzero((cut > 0) & (known == 0))
    if not len(bare):
        return Outcomes(row, nxt, n, reward, error)
    paid = np.bincount(row, counts.sums.count * counts.sums.mean, size)[bare]
    total = counts.row_sums.count[bare] * counts.row_sums.mean[bare]
    row, nxt = np.append(row, bare), np.append(nxt, bare // counts.A % counts.S)
    order = np.lexsort((nxt, row))
    return Outcomes(
        row[order], nxt[order], np.append(n, cut[bare])[order],
        np.append(reward, (total - paid) / cut[bare])[order],
        np.append(error, np.zeros(len(bare)))[order],
    )  # fmt: skip
