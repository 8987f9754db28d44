"""Checks of the values in files: our own states by a table, documents of others key by key.

`fitting`: compiled code does not check what it reads, so a table gives the shape, type and range of
every entry of a saved state. Axes and limits are numbers or names of sizes, `whole("rows", "S",
below="M")`; a name that is not yet known is set by the first entry that has it.

`Fields`: models and policies written by people or other programs; whole numbers may be floats.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model.horizons import WITHOUT_END, is_infinite
from latentmdp.tables.outcome_columns import EXACT_WHOLE

Size = int | str
NamedSizes = MutableMapping[str, int]
LARGEST_WHOLE = 2**62  # the largest whole number in arrays: twice that still fits into 64 bits
LARGEST = sys.float_info.max
MOST_KEYS = 1_000  # of a document
MOST_AXES = 32  # of an array; the limit of NumPy depends on its version
_KINDS = {"whole": "iu", "number": "iuf", "truth": "b"}
_MEANING = {"whole": "whole numbers", "number": "finite numbers", "truth": "true or false"}


@dataclass(frozen=True)
class Entry:
    """One value, or an array with these axes; every element lies from `low` to `high`."""

    kind: str  # whole, number, truth, text, stream
    axes: tuple[Size, ...] = ()
    low: float | Size | None = None
    high: float | Size | None = None
    below: Size | None = None
    optional: bool = False


Table = Mapping[str, "Entry | Table"]


def whole(*axes: Size, low: Size = 0, high: Size | None = None, below: Size | None = None,
          optional: bool = False) -> Entry:  # fmt: skip
    """Whole numbers from 0, or from `low`."""
    return Entry("whole", axes, low, high, below, optional)


def number(*axes: Size, low: float = -math.inf, high: float = math.inf,
           optional: bool = False) -> Entry:  # fmt: skip
    """Finite numbers."""
    return Entry("number", axes, low, high, None, optional)


def truth(*axes: Size, optional: bool = False) -> Entry:
    """True or false."""
    return Entry("truth", axes, optional=optional)


TEXT = Entry("text")
STREAM = Entry("stream")  # the state of a random generator


def fitting(values: Any, table: Table, sizes: NamedSizes, where: str = "") -> dict[str, Any]:
    """The entries that the table names, checked, as int64, float64 and bool; else a refusal."""
    if not isinstance(values, Mapping):
        raise ModelError(f"{where.rstrip('.') or 'it'} must be a group of entries")
    found: dict[str, Any] = {}
    for name, entry in table.items():
        if name not in values:
            if isinstance(entry, Entry) and entry.optional:
                continue
            raise ModelError(f"{where + name!r} must be there; it is missing")
        value, place = values[name], where + name
        if not isinstance(entry, Entry):
            found[name] = fitting(value, entry, sizes, f"{place}.")
        elif entry.kind == "text":
            found[name] = _text(value, place)
        elif entry.kind == "stream":
            found[name] = _stream(value, place)
        elif entry.axes:
            found[name] = _array(value, entry, sizes, place)
        else:
            found[name] = _single(value, entry, sizes, place)
    return found


def refuse_where(bad: np.ndarray, name: str, rule: str) -> None:
    """Refuse an array at the first place where it breaks a rule."""
    if bad.any():
        where = [int(i) for i in np.argwhere(bad)[0]]
        raise ModelError(f"{name}{where} {rule}; it is not")


def _refuse_first(bad: np.ndarray, values: np.ndarray, name: str, rule: str) -> None:
    """Refuse the first element that breaks a rule; the error has its place and value."""
    if bad.any():
        where = [int(i) for i in np.argwhere(bad)[0]]
        raise ModelError(f"{name}{where or ''} must be {rule}; it is {values[tuple(where)]}")


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise ModelError(f"{place} must be text; it is {_found(value)}")
    return value


def _single(value: Any, entry: Entry, sizes: NamedSizes, place: str) -> Any:
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "biuf":
        value = value.item()
    kinds: dict[str, tuple[type, ...]] = {"whole": (int,), "number": (int, float), "truth": (bool,)}
    if type(value) not in kinds[entry.kind]:
        raise ModelError(f"{place} must be {_one(entry.kind)}; it is {_found(value)}")
    if entry.kind == "truth":
        return value
    low, high = _limits(entry, sizes)
    if entry.kind == "number":
        low, high = max(low, -LARGEST), min(high, LARGEST)
    if not low <= value <= high:
        raise ModelError(
            f"{place} must be {_one(entry.kind)}{_range(low, high)}; it is {_found(value)}"
        )
    return value if entry.kind == "whole" else float(value)


def _array(value: Any, entry: Entry, sizes: NamedSizes, place: str) -> np.ndarray:
    if isinstance(value, list) and all(type(x) in (int, float, bool) for x in value):
        value = np.array(value) if value else np.zeros(0, dtype=np.int64)
    if not isinstance(value, np.ndarray):
        raise ModelError(f"{place} must be an array; it is {_found(value)}")
    if value.dtype.kind not in _KINDS[entry.kind]:
        raise ModelError(f"{place} must hold {_MEANING[entry.kind]}; its type is {value.dtype}")
    if value.ndim == len(entry.axes):
        for axis, length in zip(entry.axes, value.shape, strict=True):
            if isinstance(axis, str):
                sizes.setdefault(axis, length)
    shape = tuple(axis if isinstance(axis, int) else sizes.get(axis, -1) for axis in entry.axes)
    if value.shape != shape:
        axes = ", ".join(map(str, entry.axes))
        raise ModelError(
            f"{place} must have the shape ({axes}) = {shape}; it has {value.shape[:8]}"
        )
    if entry.kind == "truth":
        return np.ascontiguousarray(value)
    low, high = _limits(entry, sizes)
    if entry.kind == "whole":
        low, high = max(low, -LARGEST_WHOLE), min(high, LARGEST_WHOLE)
    else:
        low, high = max(low, -LARGEST), min(high, LARGEST)
    with np.errstate(invalid="ignore"):
        bad = ~((value >= low) & (value <= high))
    _refuse_first(bad, value, place, f"{_one(entry.kind)}{_range(low, high)}")
    return np.array(value, dtype=np.int64 if entry.kind == "whole" else np.float64, order="C")


def _limits(entry: Entry, sizes: NamedSizes) -> tuple[Any, Any]:
    """The smallest and the largest value."""
    low, high = (sizes[x] if isinstance(x, str) else x for x in (entry.low, entry.high))
    if entry.below is not None:
        high = (sizes[entry.below] if isinstance(entry.below, str) else entry.below) - 1
    return -math.inf if low is None else low, math.inf if high is None else high


_STREAM: Table = {
    "bit_generator": TEXT,
    "state": {"state": whole(below=2**128), "inc": whole(below=2**128)},
    "has_uint32": whole(below=2),
    "uinteger": whole(below=2**32),
}


def _stream(value: Any, place: str) -> dict[str, Any]:
    """The state of a PCG64; an even increment would repeat itself soon, or for ever."""
    state = fitting(value, _STREAM, {}, f"{place}.")
    if state["bit_generator"] != "PCG64" or state["state"]["inc"] % 2 == 0:
        raise ModelError(f"{place} must be the state of a PCG64, with an odd increment")
    return state


def _one(kind: str) -> str:
    return {"whole": "a whole number", "number": "a finite number", "truth": "true or false"}[kind]


def _range(low: Any, high: Any) -> str:
    if max(abs(low), abs(high)) < LARGEST:
        return f" from {low} to {high}"
    limits = ("least", low), ("most", high)
    return "".join(f" of at {word} {limit}" for word, limit in limits if abs(limit) < LARGEST)


def _found(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**40:
        return "a larger one"
    return repr(value) if isinstance(value, (int, float)) else f"a {type(value).__name__}"


# ---------------------------------------------------------------------- documents


class Fields:
    """Checked access to a file's values by name; every refusal names the key.

    Unknown keys are passed over, unless they look like a misspelt known one: a misspelt
    `observe_rewards` must not silently change the answer.
    """

    def __init__(self, values: Mapping[str, Any], known: Collection[str]) -> None:
        self.values = values
        if len(values) > MOST_KEYS:
            raise ModelError(f"must have at most {MOST_KEYS} keys; found {len(values)}")
        longest = 2 * max(map(len, known))  # a longer one is no misspelling
        for key in values:
            if key not in known and len(key) <= longest:
                close = [name for name in known if name.lower() == key.lower()]
                close += difflib.get_close_matches(key, known, n=1, cutoff=0.85)
                if close:
                    raise ModelError(
                        f"the key {key[:80]!r} is unknown; is it meant as {close[0]!r}?"
                    )

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def array(self, key: str, kinds: str, meaning: str) -> np.ndarray:
        """The value as an array whose type is of one of `kinds`."""
        if key not in self.values:
            found = ", ".join(sorted(name[:40] for name in self.values)[:20]) or "nothing"
            raise ModelError(f"the key {key!r} must be there; found {found}")
        value = self.values[key]
        if not isinstance(value, np.ndarray):
            value = _from_lists(key, value, meaning)
        if value.dtype.kind not in kinds and value.size:
            raise ModelError(f"{key} must be {meaning}; found {_kind_name(value)}")
        return value

    def numbers(self, key: str) -> Floats:
        """Numbers, finite or not."""
        with np.errstate(all="ignore"):
            return self.array(key, "iuf", "numbers").astype(np.float64)

    def floats(self, key: str) -> Floats:
        """Finite numbers."""
        values = self.numbers(key)
        _refuse_first(~np.isfinite(values), values, key, "finite")
        return values

    def wholes(self, key: str) -> Ints:
        """Whole numbers."""
        values = self.array(key, "iuf", "whole numbers")
        with np.errstate(all="ignore"):
            floats = values.astype(np.float64)
        exact = (np.abs(floats) < EXACT_WHOLE) & (floats == np.floor(floats))
        _refuse_first(~exact, values, key, "a whole number")
        return values.astype(np.int64)

    def number(self, key: str) -> float:
        """One finite number."""
        return float(_one_of(key, self.floats(key)))

    def whole(self, key: str) -> int:
        """One whole number."""
        return int(_one_of(key, self.wholes(key)))

    def horizon(self, key: str) -> int:
        """A whole number, or `math.inf`: a float in arrays, the text `inf` in JSON."""
        value = self.values.get(key)
        if isinstance(value, str) and value == "inf":
            return WITHOUT_END
        if isinstance(value, np.ndarray) and value.size == 1 and is_infinite(value.reshape(-1)[0]):
            return WITHOUT_END
        return self.whole(key)

    def truth(self, key: str) -> bool:
        """True or false (or 1 or 0)."""
        return bool(_one_of(key, self.truths(key)))

    def truths(self, key: str) -> np.ndarray:
        """An array of true and false (or 1 and 0)."""
        values = self.array(key, "biu", "true or false")
        _refuse_first(~np.isin(values, (0, 1)), values, key, "true or false")
        return values.astype(bool)

    def text(self, key: str) -> str:
        """One piece of text."""
        value = self.values[key]
        texts = self._texts(key, "text", [value] if isinstance(value, str) else value)
        if len(texts) != 1:
            raise ModelError(f"{key} must be one piece of text; found {len(texts)}")
        return texts[0]

    def names(self, key: str) -> tuple[str, ...]:
        """A list of names."""
        return tuple(self._texts(key, "a list of names", self.values[key]))

    def _texts(self, key: str, meaning: str, values: Any) -> list[str]:
        """Text by text: one array would give all of them the room of the longest."""
        try:
            if isinstance(values, np.ndarray) and values.ndim < 2:
                values = values.reshape(-1).tolist()
            if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
                raise ModelError(f"{key} must be {meaning}; it is not")
            for text in values:
                text.encode("utf-8")
        except ModelError:
            raise
        except ValueError:  # half a surrogate pair, or a number that is no character
            raise ModelError(f"{key} must be valid Unicode text") from None
        return values


def _from_lists(key: str, value: Any, meaning: str) -> np.ndarray:
    """Nested lists of numbers as an array; text is refused: it would widen every entry."""
    shape: list[int] = []
    level = [value]
    while type(level[0]) is list:
        lengths = set(map(len, level)) if set(map(type, level)) == {list} else set()
        if len(lengths) != 1:
            raise ModelError(f"{key} must be {meaning} in a regular array")
        shape += lengths
        level = list(chain.from_iterable(level))
        if len(shape) > MOST_AXES:
            raise ModelError(f"{key} must be {meaning}; it is nested more than {MOST_AXES} deep")
        if not level:
            return np.zeros(shape)
    kinds = set(map(type, level))
    if not (kinds <= {int, float} or kinds == {bool}):
        found = "text" if str in kinds else "mixed or other values"
        raise ModelError(f"{key} must be {meaning}; found {found}")
    try:
        return np.array(level).reshape(shape)
    except OverflowError:
        raise ModelError(f"{key} must be {meaning}; found one that is too large") from None


def _one_of(key: str, values: np.ndarray) -> Any:
    if values.size != 1:
        raise ModelError(f"{key} must be a single value; its shape is {values.shape}")
    return values.reshape(-1)[0]


def _kind_name(values: np.ndarray) -> str:
    whole = "whole numbers"
    names = {"b": "truth values", "i": whole, "u": whole, "f": "numbers", "U": "text"}
    return names.get(values.dtype.kind, "mixed or too large values")
