"""Tables of numbers in CSV, with columns found by name; every refusal names column and line."""

import csv
import io
import os
import re
import warnings
from collections.abc import Sequence

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.formats.fields import LARGEST_WHOLE
from latentmdp.formats.files import PathLike, memory_budget, opened, reason, refusal

LONGEST_HEADER = 10_000


class CsvTable:
    """Columns of numbers by name, each `(n,)`."""

    def __init__(
        self, path: PathLike, columns: Sequence[str], optional: Sequence[str] = ()
    ) -> None:
        """Read the named `columns`; others are passed over. Cost: about 2 s per 10^6 lines.

        `optional` ones are read where they are there.
        """
        self.path = path
        self._columns = _read_columns(path, columns, optional)

    def __contains__(self, column: str) -> bool:
        return column in self._columns

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def floats(self, column: str) -> Floats:
        """A column of finite numbers."""
        values = self._columns[column]
        self._refuse_where(~np.isfinite(values), column, "must be finite")
        return values

    def ids(self, column: str) -> Ints:
        """A column of whole numbers from 0."""
        values = self.floats(column)
        bad = (values < 0) | (values > LARGEST_WHOLE) | (values != np.floor(values))
        self._refuse_where(bad, column, "must be a whole number from 0")
        return values.astype(np.int64)

    def _refuse_where(self, bad: np.ndarray, column: str, rule: str) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            found = f"{self._columns[column][row]:.17g}"
            raise refusal(self.path, f"{column} {rule}; in data row {row + 1} it is {found}")


def _read_columns(
    path: PathLike, columns: Sequence[str], optional: Sequence[str]
) -> dict[str, Floats]:
    with opened(path) as file:
        if os.fstat(file.fileno()).st_size > memory_budget() // 2:
            raise refusal(path, "the table is too large for this machine")
        header = _header(path, file.readline(LONGEST_HEADER + 1))
        columns = [*columns, *(name for name in optional if name in header)]
        places = _column_places(path, header, columns)
        try:
            with warnings.catch_warnings():  # "no data" is refused below, in our words
                warnings.simplefilter("ignore")
                values = np.loadtxt(
                    io.TextIOWrapper(file, encoding="utf-8", newline=None),
                    delimiter=",", comments=None, quotechar='"', usecols=places, ndmin=2,
                )  # fmt: skip
        except UnicodeDecodeError:
            raise refusal(path, "must be UTF-8 text") from None
        except (ValueError, OverflowError, OSError, MemoryError, IndexError) as error:
            raise refusal(path, _in_our_words(error, columns, places)) from None
    if values.shape[0] == 0:
        raise refusal(path, "the table has no rows")
    return {name: np.ascontiguousarray(values[:, i]) for i, name in enumerate(columns)}


def _header(path: PathLike, line: bytes) -> list[str]:
    """The names of all columns."""
    try:
        if len(line) > LONGEST_HEADER:
            raise refusal(path, "the header line must be at most 10000 bytes long")
        header = next(csv.reader([line.decode("utf-8-sig")], strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise refusal(path, f"the header cannot be read: {reason(error)}") from None
    return [name.strip() for name in header]


def _column_places(path: PathLike, names: list[str], columns: Sequence[str]) -> list[int]:
    """Where each column stands, by the header."""
    for name in columns:
        if names.count(name) != 1:
            found = ", ".join(repr(n[:40]) for n in names[:20]) or "an empty line"
            many = "appears twice" if name in names else "is missing"
            raise refusal(
                path,
                f"each of the columns {', '.join(columns)} must be there once; "
                f"{name} {many} (found {found})",
            )
    return [names.index(name) for name in columns]


def _in_our_words(error: BaseException, columns: Sequence[str], places: list[int]) -> str:
    """What `numpy.loadtxt` complains about, with the column's name and the row from 1."""
    text = reason(error)
    found = re.search(r"could not convert string (.*) to float64 at row (\d+), column (\d+)", text)
    if found and int(found[3]) - 1 in places:
        name = columns[places.index(int(found[3]) - 1)]
        return f"{name} must be a number; in data row {int(found[2]) + 1} it is {found[1]}"
    found = re.search(r"invalid column index \d+ at row (\d+) with (\d+) columns", text)
    if found:
        return f"data row {found[1]} has only {found[2]} columns"
    return text
