"""Excel workbooks as logs: the first sheet, read row by row by openpyxl (the extra `logs`)."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from latentmdp.fitting.reading.chunks import CHUNK_ROWS, NO_NUMBER, Chunk
from latentmdp.fitting.reading.columns import Columns
from latentmdp.fitting.reading.csv_log import MOST_COLUMNS
from latentmdp.fitting.reading.streams import plain_errors
from latentmdp.runtime.files import memory_budget, refusal

MOST_ROWS, TOP_ROWS = 2**20, 1000  # of a sheet; those among which the first one with cells is
EXPANSION = 16  # bytes of memory for one byte of XML, about
NO_VALUE = ("#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "")


@dataclass(frozen=True)
class XlsxSource:
    """The first sheet of a workbook; its first row that is not empty has the columns' names."""

    path: Path
    rows: int = CHUNK_ROWS

    @contextmanager
    def _lines(self, width: int, height: int = MOST_ROWS) -> Iterator[Iterator[tuple[Any, ...]]]:
        """The rows that are not empty, each with `width` cells."""
        try:
            from openpyxl import load_workbook
        except ImportError:
            raise refusal(
                self.path, "Excel files need openpyxl: pip install 'latentmdp[logs]'"
            ) from None
        with plain_errors(self.path), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and what else no log needs
            self._check_size()
            book = load_workbook(self.path, read_only=True, data_only=True, keep_links=False)
            try:
                if not book.worksheets:
                    raise refusal(self.path, "a workbook must have a sheet; it has none")
                sheet = book.worksheets[0]
                sheet.reset_dimensions()  # what the file says of them may be anything
                yield self._filled(sheet.iter_rows(max_col=width, values_only=True), width, height)
            finally:
                book.close()

    def _filled(
        self, rows: Iterator[tuple[Any, ...]], width: int, height: int
    ) -> Iterator[tuple[Any, ...]]:
        """The rows with cells; openpyxl fills the gaps in the numbers of rows, however large."""
        empty = (None,) * width
        for i, row in enumerate(rows):
            if i >= height:
                raise refusal(self.path, f"its table must stand in the first {height:,} rows")
            if row and row != empty:
                yield row

    def _check_size(self) -> None:
        """What the archive unpacks to must fit; no member can be larger than it says."""
        with zipfile.ZipFile(self.path) as archive:
            size = sum(info.file_size for info in archive.infolist())
        if size * EXPANSION > memory_budget():
            raise refusal(
                self.path,
                f"it unpacks to {size >> 20} MB, too much for this machine's memory (a .csv or "
                ".parquet file is read in chunks)",
            )

    def header(self) -> list[str]:
        with self._lines(MOST_COLUMNS + 1, TOP_ROWS) as lines:
            names = ["" if cell is None else str(cell) for cell in next(lines, ())]
        while names and not names[-1]:
            names.pop()
        if not names:
            raise refusal(self.path, "the first sheet must be a table; it is empty")
        if len(names) > MOST_COLUMNS:
            raise refusal(self.path, f"a log must have at most {MOST_COLUMNS:,} columns")
        return names

    def chunks(self, columns: Columns) -> Iterator[Chunk]:
        header, first = self.header(), 1
        place = [header.index(name) for name in columns.used]
        none = [set(NO_VALUE) if name in columns.names else {*NO_VALUE, *NO_NUMBER}
                for name in columns.used]  # fmt: skip
        with self._lines(len(header)) as lines:
            next(lines, None)
            while rows := list(islice(lines, self.rows)):
                cells = {
                    name: [_cell(row, i, empty) for row in rows]
                    for name, i, empty in zip(columns.used, place, none, strict=True)
                }
                frame = pd.DataFrame(cells, dtype=object)
                yield Chunk(frame, self.path.name, first)
                first += len(frame)


def _cell(row: tuple[Any, ...], i: int, empty: set[str]) -> Any:
    value = row[i] if i < len(row) else None
    return None if isinstance(value, str) and value in empty else value
