"""`Classes`: different tuples of whole numbers with exact sums; parts add up in any order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentmdp.csr import Ints
from latentmdp.errors import ModelError
from latentmdp.fitting.reading.exact_sums import RewardSums

DENSE = 4_000_000  # cells up to which a chunk is counted in one array for all of them


@dataclass
class Classes:
    """Different tuples of whole numbers, sorted, with the sums of each."""

    keys: Ints  # (columns, n)
    sums: RewardSums

    def add(self, keys: Ints, sums: RewardSums) -> None:
        """Add more classes; equal ones become one."""
        keys = np.concatenate([self.keys, keys], axis=1)
        sums = self.sums.then(sums)
        if not keys.shape[1]:
            return
        order = np.lexsort(keys[::-1])
        keys = keys[:, order]
        new = np.ones(keys.shape[1], dtype=bool)
        new[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
        self.keys = keys[:, new]
        self.sums = sums.at(order).merged(np.flatnonzero(new))

    @classmethod
    def empty(cls, columns: int) -> Classes:
        """None yet."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(np.zeros((columns, 0), dtype=np.int64), RewardSums.of(nothing, np.zeros(0), 0))


def classes_of(columns: tuple[Ints, ...], x: np.ndarray) -> tuple[Ints, RewardSums]:
    """The different tuples of some columns and the sums of `x` in each. `O(rows)` if few."""
    low = [int(column.min()) for column in columns]
    width = [int(column.max()) - least + 1 for column, least in zip(columns, low, strict=True)]
    size = 1
    for w in width:
        size *= w
    if size >= 2**62:
        raise ModelError("contexts x states x actions x next states must stay below 2^62")
    code = columns[0] - low[0]
    for column, least, w in zip(columns[1:], low[1:], width[1:], strict=True):
        code = code * w + (column - least)
    if size <= DENSE:
        used = np.flatnonzero(np.bincount(code, minlength=size))
        number = np.empty(size, dtype=np.int64)
        number[used] = np.arange(len(used))
        place = number[code]
    else:
        used, place = np.unique(code, return_inverse=True)
    keys = np.empty((len(columns), len(used)), dtype=np.int64)
    rest = used
    for i in range(len(columns) - 1, -1, -1):
        rest, keys[i] = np.divmod(rest, width[i])
        keys[i] += low[i]
    return keys, RewardSums.of(place, x, len(used))
