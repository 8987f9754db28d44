"""Tables in CSV, with columns found by name; every refusal names column and line."""

import csv
import io
import os
import re
import warnings
from array import array
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.formats.fields import LARGEST_WHOLE
from latentmdp.runtime.files import PathLike, memory_budget, opened, reason, refusal
from latentmdp.tables.outcome_table import Axis, check_names

LONGEST_HEADER = 10_000


class CsvTable:
    """Columns of numbers or names by name, each `(n,)`."""

    def __init__(
        self,
        path: PathLike,
        columns: Sequence[str],
        optional: Sequence[str] = (),
        labels: Sequence[str] = (),
    ) -> None:
        """Read the named `columns`, and the `optional` ones that are there; others are passed over.

        The columns `labels` may hold names in place of numbers. Cost: about 2 s per 10^6 lines.
        """
        self.path = path
        self._texts: dict[str, tuple[str, ...]] = {}  # the distinct names of columns with names
        with opened(path) as file:
            if os.fstat(file.fileno()).st_size > memory_budget() // 2:
                raise refusal(path, "the table is too large for this machine")
            places = _column_places(path, file.readline(LONGEST_HEADER + 1), columns, optional)
            begin = file.tell()
            try:
                self._columns = _read_numbers(path, file, places)
            except _NoNumberError as found:
                if found.column not in labels:
                    raise refusal(path, str(found)) from None
                file.seek(begin)
                self._columns, self._texts = _read_texts(path, file, places, labels)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __contains__(self, column: str) -> bool:
        return column in self._columns

    def floats(self, column: str) -> Floats:
        """A column of finite numbers."""
        values = self._columns[column]
        self.refuse_where(~np.isfinite(values), column, "must be finite")
        return values

    def ids(self, column: str) -> Ints:
        """A column of whole numbers from 0."""
        values = self.floats(column)
        bad = (values < 0) | (values > LARGEST_WHOLE) | (values != np.floor(values))
        self.refuse_where(bad, column, "must be a whole number from 0")
        return values.astype(np.int64)

    def labels(self, what: str, *columns: str) -> tuple[Axis, list[Ints]]:
        """Columns of numbers from 0, or of names, which are numbered as they first appear."""
        texts = [self._texts[column] for column in columns if column in self._texts]
        if all(re.fullmatch(r"\d{1,15}", text) for distinct in texts for text in distinct):
            numbers = [self._whole(column) for column in columns]
            return Axis(what, 1 + max(int(x.max()) for x in numbers)), numbers
        names: dict[str, int] = {}
        parts = []
        for column, distinct in zip(columns, texts, strict=True):
            code = np.array([names.setdefault(text, len(names)) for text in distinct])
            parts.append(code[self._columns[column].astype(np.int64)])
        check_names(what, tuple(names))
        return Axis(what, len(names), tuple(names)), parts

    def _whole(self, column: str) -> Ints:
        if column not in self._texts:
            return self.ids(column)
        distinct = np.array([int(text) for text in self._texts[column]])
        return distinct[self._columns[column].astype(np.int64)]

    def numbers_in(self, column: str, axis: Axis, where: np.ndarray | None = None) -> Ints:
        """A column of labels of an axis that is known already, of the rows `where` it is true."""
        chosen = slice(None) if where is None else where
        if column in self._texts:
            labels: Any = np.array(self._texts[column], dtype=object)
            values = labels[self._columns[column].astype(np.int64)[chosen]]
        else:
            values = self.ids(column)[chosen]
        return np.array(axis.numbers(values.tolist()), dtype=np.int64)

    def refuse_where(self, bad: np.ndarray, column: str, rule: str) -> None:
        """Refuse the first row that breaks a rule."""
        if bad.any():
            row = int(np.argmax(bad))
            found = f"{self._columns[column][row]:.17g}"
            raise refusal(self.path, f"{column} {rule}; in data row {row + 1} it is {found}")


class _NoNumberError(Exception):
    """A sentence about an entry that is no number, and its column."""

    def __init__(self, sentence: str, column: str) -> None:
        super().__init__(sentence)
        self.column = column


def _read_numbers(path: PathLike, file: BinaryIO, places: dict[str, int]) -> dict[str, Floats]:
    text = io.TextIOWrapper(file, encoding="utf-8", newline=None)
    try:
        with warnings.catch_warnings():  # "no data" is refused below, in our words
            warnings.simplefilter("ignore")
            values = np.loadtxt(
                text, delimiter=",", comments=None, quotechar='"', usecols=list(places.values()),
                ndmin=2,
            )  # fmt: skip
    except UnicodeDecodeError:
        raise refusal(path, "must be UTF-8 text") from None
    except (ValueError, OverflowError, OSError, MemoryError, IndexError) as error:
        raise _in_our_words(path, error, places) from None
    finally:
        text.detach()  # the file stays open
    if values.shape[0] == 0:
        raise refusal(path, "the table has no rows")
    return {name: np.ascontiguousarray(values[:, i]) for i, name in enumerate(places)}


def _read_texts(
    path: PathLike, file: BinaryIO, places: dict[str, int], labels: Sequence[str]
) -> tuple[dict[str, Floats], dict[str, tuple[str, ...]]]:
    """Columns of numbers, and of names as numbers of the distinct names in order of appearance."""
    named = [name for name in places if name in labels]
    known: dict[str, dict[str, int]] = {name: {} for name in named}
    values = {name: array("d") for name in places}
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    row, last = 0, max(places.values())
    try:
        for cells in csv.reader(text, strict=True):
            if not cells:
                continue
            row += 1
            if len(cells) <= last:
                raise refusal(path, f"data row {row} has only {len(cells)} columns")
            for name, place in places.items():
                cell = cells[place].strip()
                if name in known:
                    if not cell:
                        raise refusal(path, f"{name} must be a name; in data row {row} it is empty")
                    values[name].append(known[name].setdefault(cell, len(known[name])))
                else:
                    values[name].append(_number(path, name, cell, row))
    except UnicodeDecodeError:
        raise refusal(path, "must be UTF-8 text") from None
    except (csv.Error, OSError, MemoryError) as error:
        raise refusal(path, f"data row {row + 1} cannot be read: {reason(error)}") from None
    finally:
        text.detach()
    columns = {name: np.frombuffer(column, dtype=np.float64) for name, column in values.items()}
    return columns, {name: tuple(found) for name, found in known.items()}


def _number(path: PathLike, name: str, cell: str, row: int) -> float:
    try:
        return float(cell)
    except ValueError:
        found = repr(cell[:80])
        raise refusal(path, f"{name} must be a number; in data row {row} it is {found}") from None


def column_names(path: PathLike) -> list[str]:
    """The names in the header line."""
    with opened(path) as file:
        return _names(path, file.readline(LONGEST_HEADER + 1))


def _names(path: PathLike, line: bytes) -> list[str]:
    try:
        if len(line) > LONGEST_HEADER:
            raise refusal(path, "the header line must be at most 10000 bytes long")
        header = next(csv.reader([line.decode("utf-8-sig")], strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise refusal(path, f"the header cannot be read: {reason(error)}") from None
    return [name.strip() for name in header]


def _column_places(
    path: PathLike, line: bytes, columns: Sequence[str], optional: Sequence[str]
) -> dict[str, int]:
    """Where each column stands, by the header line."""
    names = _names(path, line)
    there = [*columns, *(name for name in optional if name in names)]
    for name in there:
        if names.count(name) != 1:
            found = ", ".join(repr(n[:40]) for n in names[:20]) or "an empty line"
            many = "appears twice" if name in names else "is missing"
            raise refusal(
                path,
                f"each of the columns {', '.join(columns)} must be there once; "
                f"{name} {many} (found {found})",
            )
    return {name: names.index(name) for name in there}


def _in_our_words(path: PathLike, error: BaseException, places: dict[str, int]) -> Exception:
    """What `numpy.loadtxt` complains about, with the column's name and the row from 1."""
    text, columns = reason(error), {place: name for name, place in places.items()}
    found = re.search(r"could not convert string (.*) to float64 at row (\d+), column (\d+)", text)
    if found and int(found[3]) - 1 in columns:
        name = columns[int(found[3]) - 1]
        return _NoNumberError(
            f"{name} must be a number; in data row {int(found[2]) + 1} it is {found[1]}", name
        )
    found = re.search(r"invalid column index \d+ at row (\d+) with (\d+) columns", text)
    if found:
        return refusal(path, f"data row {found[1]} has only {found[2]} columns")
    return refusal(path, text)
