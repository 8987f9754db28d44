"""What saved data must be: a table says the shape, type and range of every entry, `fitting` checks.

Compiled code does not check what it reads, so everything is checked before. Axes and
limits are numbers or names of sizes, `whole("rows", "S", below="M")`; a name that is not yet known
is set by the first entry that has it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from latentmdp.errors import ModelError

Size = int | str
NamedSizes = MutableMapping[str, int]
LARGEST_WHOLE = 2**62  # the largest whole number in arrays: twice that still fits into 64 bits
LARGEST = sys.float_info.max
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
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ModelError(
            f"{place}{list(at)} must be {_one(entry.kind)}{_range(low, high)}; it is {value[at]}"
        )
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
