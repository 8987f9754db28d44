"""Logs as Dask DataFrames: each partition is counted where it lies; same counts, same bits.

The first and the last episode of a partition may go on in its neighbours. Their rows come back
with the counts and are read here, one partition after the other. So an episode must not leave gaps
between partitions; neither must the rest of the log come here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from latentmdp.csr import Ints
from latentmdp.errors import ModelError
from latentmdp.fitting.reading.chunks import Chunk
from latentmdp.fitting.reading.coding import LogNames
from latentmdp.fitting.reading.columns import Columns
from latentmdp.fitting.reading.episodes import Reading
from latentmdp.fitting.reading.names import Names
from latentmdp.fitting.reading.options import ReadingOptions
from latentmdp.fitting.reading.reader import read_episodes
from latentmdp.fitting.reading.tally import Tally


@dataclass(frozen=True)
class _Counted:
    """What comes back from a partition."""

    reading: Reading
    tally: Tally
    edges: list[Chunk]  # rows of the first and of the last episode


@dataclass(frozen=True)
class _Chunks:
    """A source of chunks that are there already."""

    ready: list[Chunk]

    def header(self) -> list[str]:
        return [str(name) for name in self.ready[0].frame.columns]

    def chunks(self, columns: Columns) -> Iterator[Chunk]:
        yield from self.ready


def read_partitions(
    log: Any,
    asked: Columns,
    names: LogNames,
    options: ReadingOptions,
    horizon: int | None,
    discount: float,
) -> tuple[Reading, Tally]:
    """Read and count a Dask DataFrame."""
    import dask  # an extra

    index = log.index.name
    if index is not None and index not in log.columns:
        log = log.reset_index()
    columns = asked.found_in([str(name) for name in log.columns])
    parts = log[columns.used].to_delayed()
    count = dask.delayed(_count_partition)
    done = dask.compute(
        *(
            count(part, i, columns, names, options, horizon, discount)
            for i, part in enumerate(parts)
        )
    )
    reading, tally = Reading(columns, names, options), Tally(horizon, discount)
    for i, part in enumerate(done):
        _take_over(reading, tally, part, i)
    edges = _Chunks([chunk for part in done for chunk in part.edges])
    rows = reading.rows
    for episodes in read_episodes(edges, reading):
        tally.add(episodes)
    reading.rows = rows
    return reading, tally


def _count_partition(
    frame: pd.DataFrame, i: int, columns: Columns, names: LogNames, options: ReadingOptions,
    horizon: int | None, discount: float,
) -> _Counted:  # fmt: skip
    """Count all but the first and the last episode of a partition.

    What rows without an id say depends on their neighbours, wherever those lie: if episodes are to
    be cut there, the whole partition comes back.
    """
    own = LogNames(*map(_copy, names.kinds))
    reading, tally = Reading(columns, own, options), Tally(horizon, discount)
    if not len(frame):
        return _Counted(reading, tally, [])
    place, _ = pd.factorize(frame[columns.episode])
    if options.cuts and (place < 0).any():
        reading.rows = len(frame)
        return _Counted(reading, tally, [_rows(frame, np.ones(len(frame), dtype=bool), i)])
    ends = list(dict.fromkeys((int(place[0]), int(place[-1]))))
    edges = [_rows(frame, place == e, i) for e in ends]
    inside = ~np.isin(place, ends)
    if inside.any():
        for episodes in read_episodes(_Chunks([_rows(frame, inside, i)]), reading):
            tally.add(episodes)
    reading.rows = len(frame)
    return _Counted(reading, tally, edges)


def _rows(frame: pd.DataFrame, chosen: np.ndarray, i: int) -> Chunk:
    """Some rows of partition `i`, with the numbers that they have there."""
    at = np.flatnonzero(chosen)
    skipped = at - at[0] - np.arange(len(at))
    return Chunk(frame[chosen], f"partition {i} (the first is 0)", 1 + int(at[0]), i, skipped)


def _copy(names: Names) -> Names:
    return Names(names.what, names.values if names.fixed else None, names.or_numbers, names.spelled)


def _take_over(reading: Reading, tally: Tally, part: _Counted, i: int) -> None:
    """Add a partition's counts, in the numbers that its names have here."""
    theirs = part.reading
    numbers = [
        _numbers(mine, other)
        for mine, other in zip(reading.names.kinds, theirs.names.kinds, strict=True)
    ]
    tally.merge(part.tally.renumbered(*numbers))
    reading.problems.merge(theirs.problems)
    reading.selection.merge(theirs.selection, numbers[1])
    reading.repeats.merge(theirs.repeats, numbers[1], numbers[2])
    reading.rows += theirs.rows
    reading.labelled_rows_missing |= theirs.labelled_rows_missing
    if reading.ids.merge(theirs.ids):
        raise ModelError(
            f"the rows of an episode must stand together (sort by {reading.columns.episode!r}); "
            f"one in partition {i} comes in another partition too"
        )


def _numbers(mine: Names, theirs: Names) -> Ints:
    return np.array([mine.number(value) for value in theirs.values], dtype=np.int64)
