"""`Chunk`: some rows of a log, and where they stand in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from latentmdp.csr import Ints

CHUNK_ROWS = 1_000_000
NO_NUMBER = ["", "NA", "N/A", "NaN", "nan", "null", "None", "#N/A", "n/a", "NULL", "<NA>"]


@dataclass(frozen=True)
class Chunk:
    """Some rows of a log; `first` is the number of the first one in what `name` names."""

    frame: pd.DataFrame
    name: str
    first: int
    part: int | None = None  # the number of the Dask partition it is of
    skipped: Ints | None = None  # (n,) rows of the partition left out between `first` and each row

    @property
    def offset(self) -> Ints:
        """`(n,)` how many rows after `first` each row stands."""
        after = np.arange(len(self.frame))
        return after if self.skipped is None else after + self.skipped
