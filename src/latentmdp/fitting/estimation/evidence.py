"""Can the data tell two contexts apart? Log Bayes factors of "they differ" against "they do not".

For each place (first states, and every `(state, action)` seen in both contexts) the counts of next
states, with their readings, are either drawn from two distributions or from one, each with a
Dirichlet prior of 1/2 on every outcome that either context has shown. The log Bayes factors of the
places add up. Positive: the data speak for a difference (3 is strong, 5 is decisive); negative: for
none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from latentmdp.csr import Floats, Ints
from latentmdp.fitting.reading.cells import LogCounts, row_of

JEFFREYS = 0.5
MOST_PAIRS = 1000  # of contexts; beyond that the work is no longer small


@dataclass(frozen=True)
class PairEvidence:
    """What the data say about two contexts."""

    first: int
    second: int
    log_bayes: float  # of next states and first states
    places: int  # (state, action) seen in both
    best_place: tuple[int, int] | None  # the (state, action) that tells most
    rewards_differ: int  # (state, action, next) seen in both whose fixed rewards differ

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if self.rewards_differ:
            return "told apart by rewards"
        if self.log_bayes > 3.0:
            return "told apart"
        return "alike, as far as seen" if self.log_bayes < 0.0 else "not sure"


def context_evidence(counts: LogCounts) -> tuple[PairEvidence, ...]:
    """One entry for each pair of contexts with data. `O(M^2 outcomes)`."""
    used = np.flatnonzero(counts.starts.sum(axis=1) > 0)
    pairs = [(int(a), int(b)) for i, a in enumerate(used) for b in used[i + 1 :]]
    return tuple(_pair(counts, a, b) for a, b in pairs[:MOST_PAIRS])


def _pair(counts: LogCounts, a: int, b: int) -> PairEvidence:
    S = counts.S * counts.readings  # outcomes of a place
    place, mine, theirs = _side_by_side(counts, a, b)
    both = np.intersect1d(place[mine > 0] // S, place[theirs > 0] // S)
    kept = np.isin(place // S, both)
    group = np.searchsorted(both, place[kept] // S)
    by_place = log_bayes_factors(group, mine[kept], theirs[kept], len(both))
    first = _first_states(counts, a, b)
    best = None
    if len(both) and by_place.max() > 0.0:
        _, *found = row_of(counts, int(both[np.argmax(by_place)]))
        best = (found[0], found[1])
    differ = 0 if counts.noisy.any() else _rewards_differ(counts, a, b)
    return PairEvidence(a, b, float(by_place.sum() + first), len(both), best, differ)


def _side_by_side(counts: LogCounts, a: int, b: int) -> tuple[Ints, Ints, Ints]:
    """`(state, action, outcome)` codes seen in either context, and the counts of both."""
    code, context = _places(counts)
    place = np.unique(code[(context == a) | (context == b)])
    found = []
    for m in (a, b):
        n = np.zeros(len(place), dtype=np.int64)
        n[np.searchsorted(place, code[context == m])] = counts.sums.count[context == m]
        found.append(n)
    return place, found[0], found[1]


def _places(counts: LogCounts) -> tuple[Ints, Ints]:
    """`(n,)` the code of `(state, action, outcome)`, and the context of each count."""
    context, pair = np.divmod(counts.row, counts.S * counts.A)
    return pair * (counts.S * counts.readings) + counts.outcome, context


def log_bayes_factors(group: Ints, mine: Ints, theirs: Ints, groups: int) -> Floats:
    """`(groups,)` log p(both | two distributions) - log p(both | one), in natural units."""

    def log_probability(n: np.ndarray) -> Floats:
        size = np.bincount(group, minlength=groups) * JEFFREYS
        gain: Floats = gammaln(n + JEFFREYS) - gammaln(JEFFREYS)
        cells = np.bincount(group, gain, groups).astype(np.float64)
        return cells + gammaln(size) - gammaln(size + np.bincount(group, n, groups))

    return log_probability(mine) + log_probability(theirs) - log_probability(mine + theirs)


def _first_states(counts: LogCounts, a: int, b: int) -> float:
    mine, theirs = counts.starts[a], counts.starts[b]
    seen = np.flatnonzero(mine + theirs)
    group = np.zeros(len(seen), dtype=np.int64)
    return float(log_bayes_factors(group, mine[seen], theirs[seen], 1)[0])


def _rewards_differ(counts: LogCounts, a: int, b: int) -> int:
    """How many `(state, action, outcome)` seen in both pay differently."""
    code, context = _places(counts)
    mine, theirs = (np.flatnonzero(context == m) for m in (a, b))
    _, i, j = np.intersect1d(code[mine], code[theirs], return_indices=True)
    mean = counts.sums.mean
    x, y = mean[mine[i]], mean[theirs[j]]
    return int((np.abs(x - y) > 1e-9 * np.maximum(np.abs(x), np.abs(y))).sum())
