"""From a chunk of a log to arrays of numbers: names, marks, times, rewards."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError, quoted
from latentmdp.fitting.reading.chunks import Chunk
from latentmdp.fitting.reading.columns import Columns
from latentmdp.fitting.reading.ids import id_keys
from latentmdp.fitting.reading.names import MISSING, Names, text_of
from latentmdp.fitting.reading.options import ReadingOptions

NOT_SAID = -1  # a mark without a column, or without a value
LARGEST_REWARD = 1e12
SEVERAL = (list, dict, set, tuple, np.ndarray, pd.Series, pd.DataFrame)  # no value of a cell
LOST_BEFORE, UNUSABLE = 1, 2  # a row without an id stood before this one, in the same episode; or
# this row's episode cannot be used, because nobody knows which rows belong to it, or where
NO_STEP = np.iinfo(np.int64).min  # among whole numbers: no step was written down


@dataclass(frozen=True)
class LogNames:
    """The names of contexts, states, actions and readings; both state columns share a table."""

    contexts: Names
    states: Names
    actions: Names
    readings: Names = field(default_factory=lambda: Names("reading"))

    @property
    def kinds(self) -> tuple[Names, Names, Names, Names]:
        """In this order everywhere: contexts, states, actions, readings."""
        return self.contexts, self.states, self.actions, self.readings

    @classmethod
    def given(
        cls, known: dict[str, Any] | None = None, options: ReadingOptions | None = None
    ) -> LogNames:
        """Names that grow, or those of `known["contexts"]`, `["states"]` and so on."""
        known, options = known or {}, options or ReadingOptions()
        spelled = options.spelled if options.strip or options.casefold else None
        kinds = ("context", "state", "action", "reading")
        return cls(*(Names(what, known.get(f"{what}s"), spelled=spelled) for what in kinds))


@dataclass(frozen=True)
class Table:
    """Rows of a log as arrays `(n,)`."""

    key: Ints  # of the episode
    known_id: np.ndarray  # whether it has one
    context: Ints
    state: Ints
    action: Ints
    reward: Floats
    step: np.ndarray
    next: Ints
    reading: Ints  # 0 without a column
    terminated: np.ndarray  # int8: 1, 0, or NOT_SAID
    truncated: np.ndarray
    row: Ints  # the row's number in the whole log, from 0
    broken: np.ndarray  # int8: 0, LOST_BEFORE or UNUSABLE
    extra: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.key)

    def at(self, index: Any) -> Table:
        """Some of the rows, by a slice or an array of places."""
        changed = {name: value[index] for name, value in self.__dict__.items() if name != "extra"}
        return Table(**changed, extra={name: x[index] for name, x in self.extra.items()})

    def marked(self, rows: np.ndarray, how: int) -> Table:
        """The same rows; some of them, by a mask or by places, are `broken`."""
        broken = self.broken.copy()
        broken[rows] = np.maximum(broken[rows], how)
        return replace(self, broken=broken)

    def then(self, later: Table) -> Table:
        """These rows followed by others."""
        if not len(self):
            return later
        joined: dict[str, Any] = {
            name: np.concatenate([value, getattr(later, name)])
            for name, value in self.__dict__.items()
            if name not in ("extra", "step")
        }
        joined["step"] = _joined_steps(self.step, later.step)
        extra = {name: np.concatenate([x, later.extra[name]]) for name, x in self.extra.items()}
        return Table(**joined, extra=extra)


def code(
    chunk: Chunk, columns: Columns, names: LogNames, first: int = 0, date_format: str | None = None
) -> Table:
    """The numbers of a chunk whose first row is row `first` of the log; new names get numbers."""
    frame, n = chunk.frame, len(chunk.frame)
    _check_cells(chunk)
    ids = frame[columns.episode]
    place, distinct = pd.factorize(ids)
    keys = np.append(id_keys(distinct), 0)
    context = np.full(n, MISSING, dtype=np.int64)
    if columns.context is not None:
        context = names.contexts.codes(frame[columns.context])
    nxt = np.full(n, MISSING, dtype=np.int64)
    read = np.zeros(n, dtype=np.int64)
    if columns.reading is not None:
        read = names.readings.codes(frame[columns.reading])
    state = names.states.codes(frame[columns.state])
    if columns.next_state is not None:
        nxt = names.states.codes(frame[columns.next_state])
    return Table(
        key=keys[place],
        known_id=place >= 0,
        context=context,
        state=state,
        action=names.actions.codes(frame[columns.action]),
        reward=_numbers(frame[columns.reward]),
        step=(
            _times(frame[columns.step], chunk, date_format)
            if columns.step
            else np.zeros(n, dtype=np.int64)
        ),
        next=nxt,
        reading=read,
        terminated=_marks(frame, columns.terminated, chunk),
        truncated=_marks(frame, columns.truncated, chunk),
        row=first + chunk.offset,
        broken=np.zeros(n, dtype=np.int8),
        extra={name: _numbers(frame[name]) for name in columns.extra},
    )


def _check_cells(chunk: Chunk) -> None:
    """Cells must hold one value each; the first that holds several is named."""
    for name in chunk.frame.columns:
        column = chunk.frame[name]
        if column.dtype != np.dtype(object):  # text has a type of its own
            continue
        values = column.to_numpy()
        several = np.fromiter(
            (isinstance(x, SEVERAL) for x in values), dtype=bool, count=len(values)
        )
        if several.any():
            i = int(several.argmax())
            raise ModelError(
                f"each cell of {quoted(name)} must hold one value; it is a "
                f"{type(values[i]).__name__} in row {chunk.first + int(chunk.offset[i]):,} of "
                f"{chunk.name}: {quoted(values[i])}"
            )


def _joined_steps(first: np.ndarray, later: np.ndarray) -> np.ndarray:
    """Steps of two parts: whole numbers if both are, whatever their type; else floats."""
    if first.dtype == later.dtype:
        return np.concatenate([first, later])
    parts = [_whole(part) if part.dtype.kind == "f" else part for part in (first, later)]
    if all(part.dtype.kind == "i" for part in parts):
        return np.concatenate(parts)
    return np.concatenate(
        [np.where(x == NO_STEP, np.nan, x) if x.dtype.kind == "i" else x for x in parts]
    )


def _numbers(column: pd.Series) -> Floats:
    """Numbers; NaN where there are none, infinity where something else stands."""
    if column.dtype.kind in "iufb":
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    if column.dtype.kind == "c":
        return np.full(len(column), np.inf)
    try:
        found = pd.to_numeric(column, errors="coerce")
    except (OverflowError, TypeError):  # whole numbers of hundreds of digits, or no numbers at all
        found = pd.to_numeric(column.map(str, na_action="ignore"), errors="coerce")
    numbers = found.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isnan(numbers) & column.notna().to_numpy(), np.inf, numbers)


def _times(column: pd.Series, chunk: Chunk, date_format: str | None) -> np.ndarray:
    """Whole numbers stay so; dates and other numbers become floats that keep their order."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    if date_format is not None and column.dtype.kind != "M":
        column = _formatted(column, date_format, chunk)
    if column.dtype.kind not in "iufbM":
        column = _as_numbers(column)
    if column.dtype.kind in "iu" and not column.hasnans:
        return column.to_numpy(dtype=np.int64)
    if column.dtype.kind in "iuf":
        return _whole_if_missing(column.to_numpy(dtype=np.float64, na_value=np.nan))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # dates in a format that it must guess
            times = column if column.dtype.kind == "M" else _dates(column)
    except ModelError as error:
        raise ModelError(f"{error}, in {chunk.name}") from None
    except (ValueError, TypeError, OverflowError):
        raise ModelError(
            f"{column.name!r} must hold numbers or dates that put rows in order; "
            f"it holds others in {chunk.name} (date_format= or --date-format says how dates are "
            "written)"
        ) from None
    whole = times.dt.tz_convert(None) if times.dt.tz is not None else times
    seconds = whole.to_numpy(dtype="datetime64[us]").astype(np.int64).astype(np.float64)
    return np.where(times.isna().to_numpy(), np.nan, seconds)


def _whole_if_missing(numbers: Floats) -> np.ndarray:
    """Whole numbers that are floats only because some are missing, as `NO_STEP` and integers."""
    return _whole(numbers) if np.isnan(numbers).any() else numbers


def _whole(numbers: Floats) -> np.ndarray:
    """The same numbers as integers, with `NO_STEP` for NaN, if all of them are whole."""
    missing = np.isnan(numbers)
    known = numbers[~missing]
    if not (np.floor(known) == known).all() or (np.abs(known) >= 2.0**53).any():
        return numbers
    return np.where(missing, NO_STEP, np.where(missing, 0.0, numbers).astype(np.int64))


def _as_numbers(column: pd.Series) -> pd.Series:
    """A column of text or of mixed types as numbers, if all of them are; else as it is."""
    try:
        return pd.to_numeric(column) if column.notna().any() else column
    except (ValueError, TypeError, OverflowError):
        return column


def _dates(column: pd.Series) -> pd.Series:
    """Dates as text: year first, or of a form that can be read in one way only."""
    text = column.map(str, na_action="ignore")
    try:
        return pd.to_datetime(text, format="ISO8601", utc=True)
    except (ValueError, TypeError):
        pass
    there = text.dropna().astype(str)
    unclear = there.str.match(r"\s*\d{1,2}[/.-]\d{1,2}[/.-]\d")
    if unclear.any():
        first = there[unclear].iloc[0]
        raise ModelError(
            f"dates in {column.name!r} must be written with the year first, as 2024-02-03; "
            f"{quoted(first)} can be read in two ways (date_format='%d/%m/%Y' or --date-format "
            "says which; if the rows stand in time order already, the column is not needed)"
        )
    return pd.to_datetime(text)


def _formatted(column: pd.Series, date_format: str, chunk: Chunk) -> pd.Series:
    """A column of dates in the format given."""
    text = column.map(text_of, na_action="ignore")
    try:
        found = pd.to_datetime(text, format=date_format, errors="coerce", utc=True)
    except (ValueError, TypeError) as error:
        raise ModelError(f"date_format must be a format such as '%d/%m/%Y': {error}") from None
    wrong = text[found.isna() & text.notna()]
    if len(wrong):
        raise ModelError(
            f"dates in {column.name!r} must be written as date_format={date_format!r} says; "
            f"{quoted(wrong.iloc[0])} in {chunk.name} is not"
        )
    return found


TRUE, FALSE = ("true", "1", "1.0", "yes", "y", "t"), ("false", "0", "0.0", "no", "n", "f")


def _marks(frame: pd.DataFrame, name: str | None, chunk: Chunk) -> np.ndarray:
    """`int8 (n,)`: 1 for true, 0 for false, `NOT_SAID`."""
    if name is None:
        return np.full(len(frame), NOT_SAID, dtype=np.int8)
    column = frame[name]
    if column.dtype.kind == "b" and not column.hasnans:
        return column.to_numpy(dtype=np.int8)
    place, distinct = pd.factorize(column)
    meaning = np.full(len(distinct) + 1, NOT_SAID, dtype=np.int8)
    for i, value in enumerate(distinct):
        word = str(value).strip().lower()
        if word not in TRUE + FALSE:
            raise ModelError(
                f"{name!r} must hold true or false (or 1 or 0); {chunk.name} has {quoted(value)}"
            )
        meaning[i] = word in TRUE
    return meaning[place]
