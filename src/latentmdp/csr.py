"""Array types, and compressed sparse rows (CSR): row `r` is `indptr[r] .. indptr[r + 1]`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Array = NDArray[Any]

PIECE = 2_000_000  # outcomes: a few hundredths of a second


def pieces(length: int, work: float) -> list[tuple[int, int]]:
    """`0 .. length` in ranges, each of so little work that Ctrl-C need not wait for its end.

    `work`: outcomes that a kernel goes through for each item.

    >>> pieces(5, 1_000_000)
    [(0, 2), (2, 4), (4, 5)]
    """
    size = max(int(PIECE / max(work, 1.0)), 1)
    return [(first, min(first + size, length)) for first in range(0, length, size)]


def outcomes_of_a_row(model: Any) -> float:
    """How many outcomes a row of a model has, on average."""
    return len(model.next) / max(len(model.indptr) - 1, 1)
