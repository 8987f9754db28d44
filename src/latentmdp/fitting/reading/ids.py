"""`EpisodeIds`: which episodes have been read, so that one that comes again is noticed.

Whole numbers are kept as spans of neighbours: ids that count episodes take no memory. Others are
kept by a 64-bit hash, 16 bytes each; two of `n` different ids share one with a chance of about
`n^2 / 2^65` (3e-6 for 10 million episodes).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from latentmdp.csr import Ints
from latentmdp.errors import ModelError

LARGEST = 10**18  # whole numbers from there on count as text
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # as numbers below 10^18 are printed


def id_keys(ids: Any) -> Ints:
    """`(n,)` one 64-bit number for each different id; `17` and `"17"` have the same one."""
    array = np.asarray(ids)
    if array.dtype.kind in "iu" and not (np.abs(array) >= LARGEST).any():
        return array.astype(np.int64)
    if array.dtype.kind == "f" and (np.abs(array) < 2.0**53).all() and (array % 1 == 0).all():
        return array.astype(np.int64)
    texts = [str(value) for value in array.tolist()]
    if all(map(_WHOLE.fullmatch, texts)):  # nearly always, and then there is nothing to hash
        return np.array([int(text) for text in texts], dtype=np.int64)
    keys = pd.util.hash_array(np.array(texts, dtype=object)).view(np.int64).copy()
    for i, text in enumerate(texts):
        if _WHOLE.fullmatch(text):
            keys[i] = int(text)
    return keys


def held_out(keys: Ints, share: float) -> np.ndarray:
    """`(n,)` which episodes are held out: about `share` of them, by a hash of the id's key.

    So neither the order of a log nor how it is cut into files matters, and whoever asks again for
    the same share gets the same episodes.
    """
    return pd.util.hash_array(keys) < share * 2.0**64


def checked_share(share: float) -> float:
    """A share of episodes to hold out; refused if nothing could be on one of the two sides."""
    if not 0.0 <= share < 1.0:
        raise ModelError(f"holdout must be at least 0 and below 1; it is {share!r}")
    return float(share)


class EpisodeIds:
    """A set of whole numbers as disjoint spans `first[i]..last[i]`, ascending."""

    def __init__(self) -> None:
        self.first, self.last = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)

    def holds(self, keys: Ints) -> np.ndarray:
        """`(n,)` whether each key is in the set."""
        if not len(self.first):
            return np.zeros(len(keys), dtype=bool)
        at = np.searchsorted(self.first, keys, side="right") - 1
        return (at >= 0) & (keys <= self.last[np.maximum(at, 0)])

    def add(self, keys: Ints) -> None:
        """Add keys; those that are in the set already change nothing."""
        keys = keys[~self.holds(keys)]
        if not (keys[1:] > keys[:-1]).all():
            keys = np.unique(keys)
        self._add_spans(keys, keys)

    def merge(self, other: EpisodeIds) -> bool:
        """Add another set; whether the two had ids in common."""
        first = np.concatenate([self.first, other.first])
        last = np.concatenate([self.last, other.last])
        order = np.argsort(first, kind="stable")
        first, last = first[order], last[order]
        common = (
            bool((first[1:] <= np.maximum.accumulate(last)[:-1]).any()) if len(first) else False
        )
        self._add_spans(other.first, other.last)
        return common

    def _add_spans(self, first: Ints, last: Ints) -> None:
        first = np.concatenate([self.first, first])
        last = np.concatenate([self.last, last])
        order = np.argsort(first, kind="stable")
        first, last = first[order], np.maximum.accumulate(last[order])
        new = np.ones(len(first), dtype=bool)
        new[1:] = first[1:] - 1 > last[:-1]
        ends = np.append(np.flatnonzero(new)[1:] - 1, len(first) - 1) if len(first) else new[:0]
        self.first, self.last = first[new], last[ends.astype(np.int64)]
