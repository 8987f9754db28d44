"""Tables as POMDP files give them: rules with wildcards; the last rule that matches applies.

`Rules` is a function of a few whole numbers (action, state, next state, ...), 0 where no rule
matches. A rule fixes some of the numbers and leaves the others open. Rules are kept as they were
given, so that memory is in proportion to the file: `lookup` finds values at given places, `expand`
lists all that is not 0 and counts first.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError

ANY = -1  # a wildcard in a rule

MOST_NUMBERS = 60  # that a function depends on: a bit for each
FREE = 1 << 20  # numbers that any file may unfold into, and
RATIO = 2  # for each of its bytes


def joint_values(values: Sequence[Ints], sizes: Sequence[int]) -> Ints:
    """Joint values, the last variable fastest. NumPy's own function takes at most 64 variables."""
    found = np.zeros((), dtype=np.int64)
    for value, size in zip(values, sizes, strict=True):
        found = found * size + value
    return found


def digits(index: Ints, sizes: Sequence[int]) -> list[Ints]:
    """Inverse of `joint_values`."""
    found = []
    for size in reversed(sizes):
        index, digit = np.divmod(index, size)
        found.append(digit)
    return found[::-1]


class Allowance:
    """The number of values that a file may expand to; checked before memory is allocated."""

    def __init__(self, file_bytes: int) -> None:
        self.file_bytes = file_bytes
        self.most = FREE + RATIO * file_bytes
        self.spent = 0

    def spend(self, count: int, what: str) -> None:
        """Count more numbers that stay in memory."""
        self.spent += count
        self.check(self.spent, what)

    def less(self, count: int) -> "Allowance":
        """The allowance that is left after these numbers."""
        left = Allowance(self.file_bytes)
        left.most = self.most - count
        return left

    def check(self, count: int, what: str) -> None:
        """Refuse `count` numbers if they are far more than the file's length explains."""
        if count > self.most:
            raise ModelError(
                f"what the file describes must not be far larger than the file itself, at most "
                f"{self.most} numbers; {what} would take {count}"
            )


class Csr(NamedTuple):
    """A sparse matrix by rows: row `i` has `column[k], value[k]` for `k` from `start[i]`."""

    start: Ints  # (rows + 1,)
    column: Ints  # (n,) ascending in each row
    value: Floats  # (n,)

    def entries(self, rows: Ints) -> tuple[Ints, Ints]:
        """`(which, k)`: all entries `k` of `rows[which]`, in order."""
        length = self.start[rows + 1] - self.start[rows]
        which = np.repeat(np.arange(len(rows)), length)
        k = np.arange(len(which)) + np.repeat(self.start[rows] - np.cumsum(length) + length, length)
        return which, k

    def count(self, rows: Ints) -> int:
        """How many entries these rows have together."""
        return int((self.start[rows + 1] - self.start[rows]).sum())


class _Group(NamedTuple):
    """Rules that fix the same numbers; each key once."""

    key: Ints  # (n,) ascending: the fixed numbers as one
    order: Ints  # (n,) when the rule was given
    value: Floats  # (n,)


class Rules:
    """A function of `len(sizes)` whole numbers, each from 0 to its size - 1.

    >>> table = Rules((2, 3))
    >>> table.add([ANY, 1], 0.5)
    >>> table.add([1, 1], 0.25)
    >>> table.lookup([np.array([0, 1, 1]), np.array([1, 1, 2])]).tolist()
    [0.5, 0.25, 0.0]
    """

    def __init__(self, sizes: Sequence[int], allowance: Allowance | None = None) -> None:
        self.sizes, self.allowance = tuple(sizes), allowance
        if len(self.sizes) > MOST_NUMBERS:
            found = len(self.sizes)
            raise ModelError(f"a table must have at most {MOST_NUMBERS} variables; one has {found}")
        if prod(self.sizes) >= 2**62:
            raise ModelError(f"tables must have fewer than 2^62 entries; one has {self.sizes}")
        self._strides = [prod(self.sizes[i + 1 :]) for i in range(len(self.sizes))]
        self._given: dict[tuple[bool, ...], list[_Group]] = {}
        self._count = 0

    def add(self, place: Sequence[int], value: float) -> None:
        """One rule; `ANY` in `place` leaves a number open."""
        self.add_many([np.array([i]) for i in place], np.array([value]))

    def add_many(self, places: Sequence[Ints], values: Floats) -> None:
        """Rules in the order of their arrays: number `i` of rule `k` is `places[i][k]`."""
        n = len(values)
        if self.allowance is not None:
            self.allowance.spend(n, "its tables")
        order = np.arange(self._count, self._count + n)
        self._count += n
        fixed = np.zeros(n, dtype=np.int64)  # bit i: number i is fixed
        key = np.zeros(n, dtype=np.int64)
        for i, (place, stride) in enumerate(zip(places, self._strides, strict=True)):
            is_fixed = place != ANY
            fixed |= is_fixed.astype(np.int64) << i
            key += np.where(is_fixed, place, 0) * stride
        for bits in np.unique(fixed):
            mask = tuple(bool(bits >> i & 1) for i in range(len(self.sizes)))
            chosen = slice(None) if (fixed == bits).all() else fixed == bits
            group = _Group(key[chosen], order[chosen], np.asarray(values, dtype=float)[chosen])
            self._given.setdefault(mask, []).append(group)

    def add_block(self, place: Sequence[int], listed: Sequence[int], values: Floats) -> None:
        """Rules for all values of the `listed` numbers, the last one fastest.

        `place` is `ANY` there. Entries of 0 are one rule together.
        """
        self.add(place, 0.0)
        self.add_part(place, listed, 0, values)

    def add_part(
        self, place: Sequence[int], listed: Sequence[int], first: int, values: Floats
    ) -> None:
        """The nonzero values of a block, from entry `first` on (for a block in parts)."""
        (at,) = np.nonzero(values)
        sizes = [self.sizes[i] for i in listed]
        index = np.unravel_index(at + first, sizes) if listed else ()
        places = [np.full(len(at), i) for i in place]
        for i, numbers in zip(listed, index, strict=True):
            places[i] = numbers
        self.add_many(places, values[at])

    def lookup(self, places: Sequence[Ints]) -> Floats:
        """The function's values; `places[i]` has number `i` of each place. `O(n log rules)`."""
        n = len(places[0]) if places else 1
        found, newest = np.zeros(n), np.full(n, -1)
        for mask, group in self._groups().items():
            wanted = np.zeros(n, dtype=np.int64)
            for i, is_fixed in enumerate(mask):
                if is_fixed:
                    wanted += places[i] * self._strides[i]
            k = np.minimum(np.searchsorted(group.key, wanted), len(group.key) - 1)
            newer = (group.key[k] == wanted) & (group.order[k] > newest)
            found[newer], newest[newer] = group.value[k[newer]], group.order[k[newer]]
        return found

    def expand(self, allowance: Allowance, what: str) -> Csr:
        """The nonzero values as a matrix: the last number is the column, the others the row."""
        n_rows, n_columns = prod(self.sizes[:-1]), self.sizes[-1]
        groups = self._groups()
        counts = [len(group.key) * prod(self._open(mask)) for mask, group in groups.items()]
        allowance.check(n_rows + sum(counts), what)
        newest, fill = np.full(n_rows, -1), np.zeros(n_rows)  # the last rule for a whole row
        cells: list[tuple[Ints, Ints, Ints, Floats]] = []  # row, column, order, value
        for mask, group in groups.items():
            times = prod(self._open(mask))
            order, value = np.repeat(group.order, times), np.repeat(group.value, times)
            row = (group.key[:, None] // n_columns + self._offsets(mask)).reshape(-1)
            if mask[-1]:
                column = np.repeat(group.key % n_columns, times)
                cells.append((row, column, order, value))
            else:
                newer = order > newest[row]
                newest[row[newer]], fill[row[newer]] = order[newer], value[newer]
        for i, (row, column, order, value) in enumerate(cells):
            newer = order > newest[row]
            cells[i] = row[newer], column[newer], order[newer], value[newer]
        full = np.flatnonzero(fill)
        allowance.check(n_rows + sum(counts) + len(full) * n_columns, what)
        row = np.repeat(full, n_columns)
        cells.append((row, np.tile(np.arange(n_columns), len(full)), newest[row], fill[row]))
        row, column, order = (np.concatenate([cell[i] for cell in cells]) for i in range(3))
        value = np.concatenate([cell[3] for cell in cells])
        last = _last_of_each(row * n_columns + column, order)
        last = last[value[last] != 0.0]
        row = row[last]
        start = np.zeros(n_rows + 1, dtype=np.int64)
        np.cumsum(np.bincount(row, minlength=n_rows), out=start[1:])
        return Csr(start, column[last], value[last])

    def _groups(self) -> dict[tuple[bool, ...], _Group]:
        """The rules by the numbers that they fix; of several for one place the last."""
        merged = {}
        for mask, parts in self._given.items():
            key = np.concatenate([part.key for part in parts])
            order = np.concatenate([part.order for part in parts])
            value = np.concatenate([part.value for part in parts])
            last = _last_of_each(key, order)
            merged[mask] = _Group(key[last], order[last], value[last])
        self._given = {mask: [group] for mask, group in merged.items()}
        return merged

    def _open(self, mask: tuple[bool, ...]) -> list[int]:
        """Sizes of the numbers of a row that rules of this mask leave open."""
        return [n for n, is_fixed in zip(self.sizes[:-1], mask, strict=False) if not is_fixed]

    def _offsets(self, mask: tuple[bool, ...]) -> Ints:
        """What the open numbers can add to a row's index."""
        offsets = np.zeros(1, dtype=np.int64)
        for i, size in enumerate(self.sizes[:-1]):
            if not mask[i]:
                step = self._strides[i] // self.sizes[-1]
                offsets = (offsets[:, None] + np.arange(size) * step).reshape(-1)
        return offsets


def _last_of_each(key: Ints, order: Ints) -> Ints:
    """The position of the newest entry of each key, keys ascending."""
    if (np.diff(key) > 0).all():
        return np.arange(len(key))
    sorted_ = np.lexsort((order, key))
    is_last = np.ones(len(key), dtype=bool)
    is_last[:-1] = np.diff(key[sorted_]) != 0
    return sorted_[is_last]
