"""Logs as they come: frames in memory, CSV and Parquet files, several of them, in chunks.

Everything becomes a stream of pandas frames that hold the wanted columns. pandas reads CSV here
as fast as Polars (docs/how_to_fit.md has the figures), so there is one reader.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from latentmdp.canonical import Ints
from latentmdp.errors import ModelError
from latentmdp.fitting.columns import Columns
from latentmdp.formats.files import reason, refusal, regular_file

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


class Source(Protocol):
    """Where rows come from."""

    def header(self) -> list[str]:
        """The names of the columns."""

    def chunks(self, columns: Columns) -> Iterator[Chunk]:
        """The rows, in order."""


@dataclass(frozen=True)
class FrameSource:
    """A frame in memory, as one chunk."""

    frame: pd.DataFrame

    def header(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def chunks(self, columns: Columns) -> Iterator[Chunk]:
        frame = self.frame
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        if not frame.columns.is_unique:
            twice = frame.columns[frame.columns.duplicated()][0]
            raise ModelError(f"the log's columns must have different names; {twice!r} comes twice")
        yield Chunk(frame[columns.used], "the log", 1)


@dataclass(frozen=True)
class CsvSource:
    """A CSV file with a header line; names are read as text, just as they are written."""

    path: Path
    rows: int = CHUNK_ROWS

    def header(self) -> list[str]:
        with _PlainErrors(self.path):  # a first row that is longer than the header is an error
            top = pd.read_csv(
                self.path, header=None, nrows=2, dtype=str, keep_default_na=False,
                encoding="utf-8-sig",
            )  # fmt: skip
        return [str(name) for name in top.iloc[0]]

    def chunks(self, columns: Columns) -> Iterator[Chunk]:
        text = [columns.state, columns.action, columns.context, columns.next_state]
        names = [name for name in text if name is not None]
        header = self.header()
        # ids are text as well: as numbers, 007 would be 7 in one chunk and not in the next
        as_text = [*names, columns.episode, *(name for name in header if name not in columns.used)]
        empty = {name: [""] if name in names else NO_NUMBER for name in columns.used}
        first = 1
        with _PlainErrors(self.path):
            reader = pd.read_csv(
                self.path, chunksize=self.rows, encoding="utf-8-sig", low_memory=False,
                dtype=dict.fromkeys(as_text, str), keep_default_na=False, na_values=empty,
                index_col=False,  # all columns are read: with usecols, long rows are no error
            )  # fmt: skip
            with reader:
                for frame in reader:
                    yield Chunk(frame[columns.used], self.path.name, first)
                    first += len(frame)


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet file, read by pyarrow (the extra `logs`)."""

    path: Path
    rows: int = CHUNK_ROWS

    def _open(self, names: Sequence[str] = ()) -> Any:
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise refusal(
                self.path, "Parquet files need pyarrow: pip install 'latentmdp[logs]'"
            ) from None
        with _PlainErrors(self.path):
            return ParquetFile(self.path, read_dictionary=list(names))

    def header(self) -> list[str]:
        with self._open() as file:
            return [str(name) for name in file.schema_arrow.names]

    def chunks(self, columns: Columns) -> Iterator[Chunk]:
        from pyarrow.types import is_large_string, is_string

        with self._open() as file:
            schema = file.schema_arrow
            text = [
                name for name in columns.used
                if is_string(schema.field(name).type) or is_large_string(schema.field(name).type)
            ]  # fmt: skip
        text = [name for name in text if name != columns.episode]  # too many different ones
        first = 1
        with self._open(text) as file, _PlainErrors(self.path):
            for batch in file.iter_batches(batch_size=self.rows, columns=columns.used):
                frame = batch.to_pandas()
                yield Chunk(frame, self.path.name, first)
                first += len(frame)


@dataclass(frozen=True)
class SeveralSources:
    """Logs one after the other; an episode may go on in the next one."""

    parts: tuple[Source, ...]

    def header(self) -> list[str]:
        return self.parts[0].header()

    def chunks(self, columns: Columns) -> Iterator[Chunk]:
        for part in self.parts:
            missing = [name for name in columns.used if name not in part.header()]
            if missing:
                where = getattr(part, "path", "a part of the log")
                raise ModelError(f"{where} must have the column {missing[0]!r} as the first part")
            yield from part.chunks(columns)


def open_log(log: Any, rows: int = CHUNK_ROWS) -> Source:
    """The source of a frame, a file, a Minari data set, or several of them."""
    if isinstance(log, pd.DataFrame):
        return FrameSource(log)
    if isinstance(log, (str, os.PathLike)):
        return _file(log, rows)
    if type(log).__module__.split(".")[0] == "minari":
        from latentmdp.fitting.minari import MinariSource  # which needs the package

        return MinariSource(log)
    if hasattr(log, "to_pandas"):  # Polars, Arrow
        return FrameSource(log.to_pandas())
    if isinstance(log, Iterable):
        parts = tuple(open_log(part, rows) for part in log)
        if parts:
            return SeveralSources(parts)
        raise ModelError("a log must have at least one part; it was given none")
    raise ModelError(
        "a log must be a DataFrame, a path to a .csv or .parquet file, a Minari data set, or "
        f"several of them; it is a {type(log).__name__}"
    )


def _file(path: str | os.PathLike[str], rows: int) -> Source:
    if str(path).startswith("minari:"):
        from latentmdp.fitting.minari import load_minari  # which needs the package

        return load_minari(str(path).removeprefix("minari:"))
    found = regular_file(path)
    endings = found.name.lower().split(".")[1:]
    if endings[-1:] in (["parquet"], ["pq"]):
        return ParquetSource(found, rows)
    if "csv" in endings[-2:]:  # also .csv.gz and the like
        return CsvSource(found, rows)
    raise refusal(path, "a log must end in .csv, .csv.gz or .parquet")


class _PlainErrors:
    """Turns what readers of files raise into one sentence that names the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ModelError) or not isinstance(error, (ValueError, OSError, KeyError)):
            return
        raise refusal(self.path, f"cannot be read: {reason(error)}") from None
