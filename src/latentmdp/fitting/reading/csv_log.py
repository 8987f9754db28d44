"""CSV files as logs, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from latentmdp.fitting.reading.chunks import CHUNK_ROWS, NO_NUMBER, Chunk
from latentmdp.fitting.reading.columns import Columns
from latentmdp.fitting.reading.streams import chunk_bytes, opened_lines, plain_errors
from latentmdp.runtime.files import refusal

TOP = 2**20  # bytes from which the width of rows is guessed
MOST_COLUMNS = 10_000


@dataclass(frozen=True)
class CsvSource:
    """A CSV file with a header line; names are read as text, just as they are written."""

    path: Path
    rows: int = CHUNK_ROWS

    def header(self) -> list[str]:
        self._chunk_rows()
        with plain_errors(self.path), opened_lines(self.path) as (lines, _):
            top = pd.read_csv(  # a first row that is longer than the header is an error
                lines, header=None, nrows=2, dtype=str, keep_default_na=False,
                encoding="utf-8-sig",
            )  # fmt: skip
        return [str(name) for name in top.iloc[0]]

    def _chunk_rows(self) -> int:
        """Rows of a chunk: fewer than asked for where rows are so wide that memory needs it."""
        with opened_lines(self.path) as (lines, _):
            top = lines.read(TOP)
        header, newline, _ = top.partition(b"\n")
        if len(top) == TOP and not newline:
            raise refusal(self.path, f"its first line must be shorter than {TOP >> 20} MB")
        if header.count(b",") >= MOST_COLUMNS:
            raise refusal(
                self.path,
                f"a log must have at most {MOST_COLUMNS:,} columns; its first line has "
                f"{header.count(b',') + 1:,}",
            )
        width = len(top) / max(top.count(b"\n"), 1)
        return max(min(self.rows, int(chunk_bytes() / max(width, 1.0))), 1)

    def chunks(self, columns: Columns) -> Iterator[Chunk]:
        names, header = columns.names, self.header()
        # ids are text as well: as numbers, 007 would be 7 in one chunk and not in the next
        as_text = [*names, columns.episode, *(name for name in header if name not in columns.used)]
        empty = {name: [""] if name in names else NO_NUMBER for name in columns.used}
        first = 1
        with plain_errors(self.path), opened_lines(self.path) as (lines, meter):
            reader = pd.read_csv(
                lines, chunksize=self._chunk_rows(), encoding="utf-8-sig", low_memory=False,
                dtype=dict.fromkeys(as_text, str), keep_default_na=False, na_values=empty,
                index_col=False,  # all columns are read: with usecols, long rows are no error
            )  # fmt: skip
            with reader:
                for frame in reader:
                    meter.reset()
                    yield Chunk(frame[columns.used], self.path.name, first)
                    first += len(frame)
