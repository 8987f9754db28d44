"""Sums of floats that do not depend on the order of adding: same rows, same bits.

Each number is cut into pieces of 26 bits on a fixed grid; the pieces are whole numbers, whose sums
are exact below 2^63, whatever the chunks. What lies below the grid's last bit (5e-20 for rewards)
is dropped from each number, always in the same way.
"""

from __future__ import annotations

import numpy as np

from latentmdp.csr import Floats, Ints

BITS = 26
REWARD_TOP, REWARD_PIECES = 40, 4  # numbers below 2^40 in size, down to 2^-64
SQUARE_TOP, SQUARE_PIECES = 80, 6  # their squares, down to 2^-76


def pieces(x: Floats, top: int, count: int) -> Ints:
    """`(count, n)` whole numbers with `x = sum_i pieces[i] * 2^(top - BITS * (i + 1))`."""
    found = np.zeros((count, len(x)), dtype=np.int64)
    rest = np.asarray(x, dtype=np.float64)
    largest = float(np.abs(rest).max(initial=0.0))
    for i in range(count):
        unit = 2.0 ** (top - BITS * (i + 1))
        if largest < unit:  # also where nothing is left
            continue
        whole = np.trunc(rest / unit)
        found[i] = whole
        rest = rest - whole * unit  # exact: both are multiples of the number's last bit
        largest = float(np.abs(rest).max())
    return found


def total(sums: Ints, top: int) -> Floats:
    """`(n,)` the sums that pieces `(count, n)` stand for; the smallest are added first."""
    units = 2.0 ** (top - BITS * np.arange(1, len(sums) + 1))
    found = np.zeros(sums.shape[1])
    for part, unit in zip(_carried(sums)[::-1], units[::-1], strict=True):
        found += part * unit
    return found


def _carried(sums: Ints) -> Ints:
    """The same sums with pieces of at most 2^25 in size, but the first: one way for each sum.

    Then the first piece that is not 0 outweighs the rest, and adding them cancels nothing.
    """
    sums = sums.copy()
    for i in range(len(sums) - 1, 0, -1):
        over = (sums[i] + (1 << (BITS - 1))) >> BITS
        sums[i] -= over << BITS
        sums[i - 1] += over
    return sums


class RewardSums:
    """Counts, exact sums, exact sums of squares, least and largest of numbers in `n` classes."""

    __slots__ = ("count", "high", "low", "squares", "sums")

    def __init__(self, count: Ints, sums: Ints, squares: Ints, low: Floats, high: Floats) -> None:
        self.count, self.sums, self.squares = count, sums, squares
        self.low, self.high = low, high

    @classmethod
    def of(cls, place: Ints, x: Floats, n: int) -> RewardSums:
        """The sums of `x` in classes `place`, each from 0 to `n - 1`."""
        count = np.bincount(place, minlength=n)
        low, high = np.full(n, np.inf), np.full(n, -np.inf)
        np.minimum.at(low, place, x)
        np.maximum.at(high, place, x)
        one = np.where(count > 0, low, 0.0)  # where all are equal, a product is the sum
        sums = count * pieces(one, REWARD_TOP, REWARD_PIECES)
        squares = count * pieces(one * one, SQUARE_TOP, SQUARE_PIECES)
        differ = low < high
        if differ.any():
            rows = differ[place]
            at, several = place[rows], x[rows]
            for made, parts in (
                (sums, pieces(several, REWARD_TOP, REWARD_PIECES)),
                (squares, pieces(several * several, SQUARE_TOP, SQUARE_PIECES)),
            ):
                for made_row, part in zip(made, parts, strict=True):
                    made_row[differ] = np.bincount(at, part, n)[differ]  # exact up to 2^27 rows
        return cls(count, sums, squares, low, high)

    def at(self, index: Ints) -> RewardSums:
        """Some of the classes."""
        return RewardSums(
            self.count[index], self.sums[:, index], self.squares[:, index], self.low[index],
            self.high[index],
        )  # fmt: skip

    def then(self, other: RewardSums) -> RewardSums:
        """These classes followed by others."""
        return RewardSums(
            np.concatenate([self.count, other.count]),
            np.concatenate([self.sums, other.sums], axis=1),
            np.concatenate([self.squares, other.squares], axis=1),
            np.concatenate([self.low, other.low]),
            np.concatenate([self.high, other.high]),
        )

    def merged(self, starts: Ints) -> RewardSums:
        """Neighbours from one of `starts` to before the next become one class."""
        return RewardSums(
            np.add.reduceat(self.count, starts),
            np.add.reduceat(self.sums, starts, axis=1),
            np.add.reduceat(self.squares, starts, axis=1),
            np.minimum.reduceat(self.low, starts),
            np.maximum.reduceat(self.high, starts),
        )

    @property
    def mean(self) -> Floats:
        """`(n,)` means; 0 where there is nothing, the number itself where all are equal."""
        mean = total(self.sums, REWARD_TOP) / np.maximum(self.count, 1)
        return np.where(self.low == self.high, self.low, mean)

    @property
    def spread(self) -> Floats:
        """`(n,)` sums of squared distances from the mean."""
        sums = total(self.sums, REWARD_TOP)
        spread = total(self.squares, SQUARE_TOP) - sums * sums / np.maximum(self.count, 1)
        return np.where(self.low < self.high, np.maximum(spread, 0.0), 0.0)
