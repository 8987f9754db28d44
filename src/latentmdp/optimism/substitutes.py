"""Counts as planners see them where some actions are unavailable.

An unavailable action is never played, so its rows are never visited; to a planner they would look
worth exploring. It gets counts in which those rows repeat the counts of their stand-in, the first
available action of the state, as the model's rows do. So their coefficients are the stand-in's, an
unavailable action is a copy of an available one, and no kernel needs to know of it.
"""

from __future__ import annotations

import numpy as np

from latentmdp.csr import Ints
from latentmdp.model.availability import repeated, substitute_rows
from latentmdp.model.counts import Counts
from latentmdp.optimism.given import Given


class Substitutes:
    """Counts with repeated rows, kept up to date; a copy that nobody else writes to."""

    def __init__(self, known: Given) -> None:
        assert known.allowed is not None
        self.allowed = known.allowed
        self.source = substitute_rows(known.allowed, known.M)
        self.given: Counts | None = None
        self.counts: Counts | None = None
        self.slot: Ints = np.zeros(0, dtype=np.int64)

    def of(self, counts: Counts) -> Counts:
        """The counts with repeated rows; `n` are the visits that there were. `O(slots)`."""
        if self.given is not counts or self.counts is None or self.counts.version != counts.version:
            indptr, self.slot = repeated(self.allowed, counts.M, counts.indptr)
            self.counts = Counts(counts.M, counts.S, counts.A, indptr, counts.next[self.slot])
            self.counts.version = counts.version
            self.given = counts
        self.counts.n[:] = counts.n
        self.counts.N[:] = counts.N[self.source]
        self.counts.N_next[:] = counts.N_next[self.slot]
        return self.counts

    def rows(self, changed: Ints) -> Ints:
        """These rows and those that repeat them, ascending. `O(rows)`."""
        is_changed = np.zeros(len(self.source), dtype=bool)
        is_changed[changed] = True
        return np.flatnonzero(is_changed[self.source])


def repeat_slots(known: Given, start: np.ndarray) -> Ints:
    """`(slots,)` the slot that each one repeats, in a layout in which rows repeat stand-ins."""
    assert known.allowed is not None
    first = start.astype(np.int64)
    row = np.repeat(np.arange(len(first) - 1), np.diff(first))
    source = substitute_rows(known.allowed, known.M)
    return np.arange(len(row)) + (first[source] - first[:-1])[row]
