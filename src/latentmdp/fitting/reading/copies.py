"""Rows that equal the row before them: copies made by accident, or a state that stayed as it was.

Such a row is certainly a copy if it has the same step or date; or if the row before it says that
another state followed, or that the episode was over. Without any of these nobody can tell:
`Repeats` counts such rows, and asks whether staying explains them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from latentmdp.csr import Ints
from latentmdp.fitting.reading.classes import Classes, classes_of
from latentmdp.fitting.reading.coding import Table
from latentmdp.fitting.reading.problems import Place, counted

if TYPE_CHECKING:
    from latentmdp.fitting.reading.episodes import Reading


def without_copies(table: Table, reading: Reading) -> tuple[Table, np.ndarray]:
    """The table, and which of its rows `(n,)` are copies; without them if they are dropped."""
    options = reading.options
    same = _equal_before(table)
    sure = same & _cannot_stay(table, reading)
    if reading.columns.step is None and options.duplicates == "refuse":
        reading.repeats.add(table, same & ~sure, reading)
    drop = same if options.duplicates == "drop" else sure & options.drops_copies
    if options.duplicates == "keep":
        sure[:] = False
    if not drop.any():
        return table, sure
    places = np.flatnonzero(drop)
    place = reading.place(int(table.row[places].min()))
    reading.problems.note_dropped(len(places), place)
    return table.at(np.flatnonzero(~drop)), sure[~drop]


def _equal_before(table: Table) -> np.ndarray:
    """`(n,)` rows that equal the row before them in every column of the same episode."""
    same = np.zeros(len(table), dtype=bool)
    found = table.key[1:] == table.key[:-1]
    columns = [table.step, table.state, table.action, table.reward, table.next, table.reading,
               table.context, table.terminated, table.truncated, *table.extra.values()]  # fmt: skip
    for values in columns:
        if not found.any():
            return same
        equal = values[1:] == values[:-1]
        if values.dtype.kind == "f":
            equal |= np.isnan(values[1:]) & np.isnan(values[:-1])
        found &= equal
    same[1:] = found & ~(table.broken[1:] > 0)
    return same


def _cannot_stay(table: Table, reading: Reading) -> np.ndarray:
    """`(n,)` rows that cannot be one more step after an equal row."""
    if reading.columns.step is not None:
        return np.ones(len(table), dtype=bool)
    moved = (table.next >= 0) & (table.next != table.state)
    return moved | (table.terminated == 1) | (table.truncated == 1)


RARE = 0.05  # share of the visits of (state, action) that an equal row follows


@dataclass
class Repeats:
    """Rows that equal the row before them and may or may not be copies."""

    count: int = 0
    first: Place | None = None
    longest: int = 0  # steps of the longest episode with such rows
    longest_without: int = 0  # and of the longest one without
    visits: Classes = field(default_factory=lambda: Classes.empty(3))  # state, action, whether

    def add(self, table: Table, same: np.ndarray, reading: Reading) -> None:
        """Count the rows of some episodes; `same (n,)`: whether a row equals the one before it."""
        new = np.ones(len(table), dtype=bool)
        new[1:] = table.key[1:] != table.key[:-1]
        start = np.flatnonzero(new)
        steps = np.add.reduceat((table.action >= 0).astype(np.int64), start)
        has = np.logical_or.reduceat(same, start)
        self.longest = max(self.longest, int(steps[has].max(initial=0)))
        self.longest_without = max(self.longest_without, int(steps[~has].max(initial=0)))
        again = np.append(same[1:], False)[~np.append(new[1:], True)]
        rows = np.flatnonzero(~np.append(new[1:], True))  # another row of the episode follows
        if len(rows):
            columns = (table.state[rows], table.action[rows], again.astype(np.int64))
            self.visits.add(*classes_of(columns, np.zeros(len(rows))))
        if same.any():
            place = reading.place(int(table.row[same].min()))
            self.first = place if self.first is None else min(self.first, place)
            self.count += int(same.sum())

    def merge(self, other: Repeats, states: Ints, actions: Ints) -> None:
        """Add those of another part of the log, whose names have the numbers given."""
        self.count += other.count
        places = [place for place in (self.first, other.first) if place is not None]
        self.first = min(places, default=None)
        self.longest = max(self.longest, other.longest)
        self.longest_without = max(self.longest_without, other.longest_without)
        state, action, again = other.visits.keys
        keys = np.stack([_renumbered(state, states), _renumbered(action, actions), again])
        self.visits.add(keys, other.visits.sums)

    @property
    def unlikely(self) -> int:
        """How many of them stand where an equal row hardly ever follows."""
        if not self.count:
            return 0
        state, action, again = self.visits.keys
        n = self.visits.sums.count
        _, kind = np.unique(np.stack([state, action]), axis=1, return_inverse=True)
        kind = kind.reshape(-1)
        total, repeated = np.bincount(kind, n), np.bincount(kind, n * again)
        return int(repeated[repeated < RARE * total].sum())

    @property
    def sentence(self) -> str:
        """What is said about them; nothing if staying explains them."""
        if 2 * self.unlikely <= self.count or not self.count:
            return ""
        verb = "equals" if self.count == 1 else "equal"
        return (
            f"{counted(self.count, 'row')} {verb} the row before in every column, first in "
            f"{self.first}; without a step column a copy cannot be told from a state that stayed"
        )

    def doubt(self, nothing_said: bool) -> str:
        """Why they must not be read as steps: they alone make the longest episodes."""
        if not (nothing_said and self.sentence and self.longest > self.longest_without):
            return ""
        return (
            f"{self.sentence}; they make the longest episodes ({self.longest} steps, without them "
            f"{self.longest_without}), and shorter ones would count as ended "
            "(duplicates='drop' or --duplicates drop drops them, 'keep' takes them as steps)"
        )


def _renumbered(codes: Ints, numbers: Ints) -> Ints:
    if not len(numbers):
        return codes
    return np.where(codes >= 0, numbers[np.maximum(codes, 0)], codes)
