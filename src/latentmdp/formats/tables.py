"""Tables in CSV, with columns found by name; refusals name the file, the column and the row."""

import csv
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np

from latentmdp.csr import Ints
from latentmdp.errors import ModelError
from latentmdp.runtime.files import FileError, PathLike, memory_budget, opened, reason, refusal
from latentmdp.tables.outcome_columns import OutcomeColumns, shown_cell
from latentmdp.tables.outcome_table import Axis, as_number, check_names

LONGEST_HEADER = 10_000  # bytes
CHUNK_ROWS = 1 << 16  # read at once while a cell is searched that is not a number


class CsvTable(OutcomeColumns):
    """Columns of a CSV file by their meanings; those called `id...` hold names or numbers."""

    def __init__(
        self,
        path: PathLike,
        columns: Mapping[str, str],
        optional: Sequence[str] = (),
        labels_as_text: bool = False,
    ) -> None:
        """Read `columns` (meaning: name in the header); the meanings `optional` may be missing.

        `labels_as_text`: `007` is never read as 7. Cost: about 1 s per 10^6 lines, 3 s with names.
        """
        self.path = path
        with opened(path) as file:
            if os.fstat(file.fileno()).st_size > memory_budget() // 4:
                raise refusal(path, "the table is too large for this machine")
            header = _header(path, file)
            self.names = {
                meaning: name
                for meaning, name in columns.items()
                if meaning not in optional or name in header
            }
            self.frame = _read(path, file, header, list(self.names.values()), labels_as_text)
        if len(self.frame) == 0:
            raise refusal(path, "the table has no rows")

    def refused(self, sentence: str) -> FileError:
        return refusal(self.path, sentence)

    def place(self, i: int) -> str:
        return f"data row {i + 1}"

    def labels(self, what: str, *meanings: str) -> tuple[Axis, list[Ints]]:
        """Columns of numbers from 0, or of names, which are numbered as they first appear."""
        names: dict[str, int] = {}
        parts = []
        for meaning in meanings:
            codes, distinct = self._distinct(meaning)
            numbers = [names.setdefault(text, len(names)) for text in distinct]
            parts.append(np.array(numbers, dtype=np.int64)[codes])
        try:
            values = np.array([as_number(name) for name in names])
        except ValueError:
            check_names(what, tuple(names))
            return Axis(what, len(names), tuple(names)), parts
        columns = zip(meanings, parts, strict=True)
        parts = [self.checked_wholes(values[part], meaning) for meaning, part in columns]
        return Axis(what, 1 + int(values.max())), parts

    def numbers_in(self, meaning: str, axis: Axis, rows: Any = slice(None)) -> Ints:
        """The labels in these `rows` as numbers of an axis that is known already."""
        codes, distinct = self._distinct(meaning, rows)
        try:
            return np.array(axis.numbers(distinct), dtype=np.int64)[codes]
        except ModelError as error:
            raise self.refused(str(error)) from None

    def _distinct(self, meaning: str, rows: Any = slice(None)) -> tuple[Ints, list[str]]:
        """The labels as numbers of the distinct ones, which come in order of appearance."""
        import pandas as pd

        codes, found = pd.factorize(self.frame[self.names[meaning]].to_numpy()[rows])
        distinct = [str(label).strip() for label in found]
        empty = np.array([text == "" for text in distinct], dtype=bool)
        self.refuse_where(empty[codes], meaning, "must be a name or a number")
        return codes, distinct


def _header(path: PathLike, file: BinaryIO) -> list[str]:
    line = file.readline(LONGEST_HEADER + 1)
    if len(line) > LONGEST_HEADER:
        raise refusal(path, f"the header line must be at most {LONGEST_HEADER} bytes long")
    try:
        header = next(csv.reader([line.decode("utf-8-sig")], strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise refusal(path, f"the header cannot be read: {reason(error)}") from None
    return [name.strip() for name in header]


def _read(
    path: PathLike, file: BinaryIO, header: list[str], names: list[str], labels_as_text: bool
) -> Any:
    """A data frame of the columns `names`: floats, and labels as whole numbers or as text."""
    places = _places(path, header, names)
    numbers = {name: place for name, place in places.items() if not name.startswith("id")}
    labels = [place for name, place in places.items() if name not in numbers]
    parse = _parser(file, header, list(places.values()))
    problem = "the file is malformed"
    try:
        first = parse(nrows=1, dtype=object)
        # pandas takes columns of `True` and `False` for numbers: the first row must have numbers
        if _bad_cell([first], numbers) is None:
            as_text = labels_as_text or not all(map(_is_finite, first[labels].to_numpy().flat))
            for kind in (object,) if as_text else (np.int64, object):
                types = dict.fromkeys(labels, kind) | dict.fromkeys(numbers.values(), np.float64)
                with suppress(ValueError, OverflowError):
                    return parse(dtype=types).rename(columns=dict(enumerate(header)))
        with parse(chunksize=CHUNK_ROWS, dtype=object) as chunks:
            problem = _bad_cell(chunks, numbers) or problem
    except UnicodeDecodeError:
        problem = "must be UTF-8 text"
    except (ValueError, OverflowError, OSError, MemoryError) as error:
        problem = f"cannot be read as CSV: {reason(error)}"
    raise refusal(path, problem)


def _places(path: PathLike, header: list[str], names: list[str]) -> dict[str, int]:
    """Where each column is, by the header."""
    for name in names:
        if header.count(name) != 1:
            found = ", ".join(repr(n[:40]) for n in header[:20]) or "an empty line"
            problem = "appears twice" if name in header else "is missing"
            raise refusal(
                path,
                f"each of the columns {', '.join(names)} must be there once; "
                f"{name} {problem} (found {found})",
            )
    return {name: header.index(name) for name in names}


def _parser(file: BinaryIO, header: list[str], places: list[int]) -> Any:
    """`pandas.read_csv` of these columns, which are called by their places."""
    import pandas as pd  # loads slowly

    options: dict[str, Any] = {
        "header": 0, "names": range(len(header)), "usecols": places, "index_col": False,
        "na_filter": False, "low_memory": False, "encoding": "utf-8-sig",
    }  # fmt: skip
    if tuple(int(part) for part in pd.__version__.split(".")[:2]) < (3, 1):
        options["float_precision"] = "round_trip"  # as `float` reads them; the default from 3.1 on

    def parse(**more: Any) -> Any:
        file.seek(0)
        return pd.read_csv(file, **options, **more)

    return parse


def _bad_cell(chunks: Iterable[Any], columns: dict[str, int]) -> str | None:
    """An error message about a cell of text that is not a finite number; None if there is none."""
    import pandas as pd

    for chunk in chunks:
        for name, place in columns.items():
            values = pd.to_numeric(chunk[place], errors="coerce").to_numpy(np.float64)
            for i in np.flatnonzero(~np.isfinite(values)):
                cell = chunk[place].iloc[i]
                if not _is_finite(cell):
                    return (
                        f"{name!r} must be a finite number; in data row {chunk.index[i] + 1} it is "
                        f"{shown_cell(cell)}"
                    )
    return None


def _is_finite(text: str) -> bool:
    try:
        return math.isfinite(as_number(text))
    except ValueError:
        return False
