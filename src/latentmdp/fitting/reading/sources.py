"""Logs as they come: frames in memory, files, several of them, in chunks.

Everything becomes a stream of pandas frames that hold the wanted columns. pandas reads CSV here
as fast as Polars (docs/how_to_fit.md has the figures), so there is one reader.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from latentmdp.errors import ModelError, quoted
from latentmdp.fitting.reading.chunks import CHUNK_ROWS, Chunk
from latentmdp.fitting.reading.columns import Columns
from latentmdp.fitting.reading.csv_log import CsvSource
from latentmdp.fitting.reading.streams import COMPRESSED
from latentmdp.runtime.files import FileError, refusal, regular_file, shown


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
        return [str(name) for name in with_index(self.frame).columns]

    def chunks(self, columns: Columns) -> Iterator[Chunk]:
        frame = with_index(self.frame)
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        if not frame.columns.is_unique:
            twice = frame.columns[frame.columns.duplicated()][0]
            raise ModelError(
                f"the log's columns must have different names; {quoted(twice)} comes twice"
            )
        yield Chunk(frame[columns.used], "the log", 1)


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
                raise ModelError(
                    f"{where} must have the column {quoted(missing[0])} as the first part"
                )
            yield from part.chunks(columns)


def with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame, with named levels of its index as columns."""
    names = [name for name in frame.index.names if name is not None and name not in frame.columns]
    return frame.reset_index(level=names) if names else frame


def open_log(log: Any, rows: int = CHUNK_ROWS) -> Source:
    """The source of a frame, a file, a Minari data set, or several of them."""
    if isinstance(log, pd.DataFrame):
        return FrameSource(log)
    if isinstance(log, (str, os.PathLike)):
        return _file(log, rows)
    if type(log).__module__.split(".")[0] == "minari":
        from latentmdp.fitting.reading.minari import MinariSource  # which needs the package

        return MinariSource(log)
    if hasattr(log, "to_pandas"):  # Polars, Arrow
        return FrameSource(log.to_pandas())
    if isinstance(log, Iterable):
        parts = tuple(open_log(part, rows) for part in log)
        if parts:
            return SeveralSources(parts)
        raise ModelError("a log must have at least one part; it was given none")
    raise ModelError(
        "a log must be a DataFrame, a path to a .csv, .parquet or .xlsx file, a Minari data set, "
        f"or several of them; it is a {type(log).__name__}"
    )


def _file(path: str | os.PathLike[str], rows: int) -> Source:
    if str(path).startswith("minari:"):
        from latentmdp.fitting.reading.minari import load_minari  # which needs the package

        return load_minari(str(path).removeprefix("minari:"))
    found = regular_file(path)
    endings = found.name.lower().split(".")[1:]
    if endings[-1:] in (["parquet"], ["pq"]):
        from latentmdp.fitting.reading.parquet_log import ParquetSource

        return ParquetSource(found, rows)
    if endings[-1:] in (["xlsx"], ["xlsm"]):
        from latentmdp.fitting.reading.xlsx_log import XlsxSource

        return XlsxSource(found, rows)
    if endings[-1:] == ["csv"] or (
        endings[-2:-1] == ["csv"] and found.suffix.lower() in COMPRESSED
    ):
        return CsvSource(found, rows)
    raise refusal(
        path,
        "a log must end in .csv (also .csv.gz, .csv.bz2, .csv.xz, .csv.zst, .csv.zip), .parquet or "
        ".xlsx",
    )


@contextmanager
def named_log(log: Any) -> Iterator[None]:
    """Refusals of a log that is a file name it."""
    try:
        yield
    except FileError:
        raise
    except ModelError as error:
        parts = log if isinstance(log, (list, tuple)) else [log]
        paths = [part for part in parts if isinstance(part, (str, os.PathLike))]
        if not paths or any(Path(path).name in str(error) for path in paths):
            raise
        more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
        raise ModelError(f"{shown(paths[0])}{more}: {error}") from None
