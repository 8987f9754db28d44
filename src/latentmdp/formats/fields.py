"""The named values of a file, arrays from npz or lists from JSON, taken out with checked types."""

import difflib
from collections.abc import Collection, Mapping
from itertools import chain
from typing import Any

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model.horizons import WITHOUT_END, is_infinite

LARGEST_WHOLE = 2**53  # whole numbers that a float holds exactly
MOST_KEYS = 1_000  # of a document


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
        if not np.isfinite(values).all():
            where = [int(i) for i in np.argwhere(~np.isfinite(values))[0]]
            raise ModelError(f"{key}{where or ''} must be finite; it is {values[tuple(where)]}")
        return values

    def wholes(self, key: str) -> Ints:
        """Whole numbers."""
        values = self.array(key, "iuf", "whole numbers")
        if values.dtype.kind == "f":
            exact = np.isfinite(values) & (np.abs(values) <= LARGEST_WHOLE)
            exact &= values == np.floor(values)
        elif values.dtype.kind == "u":
            exact = values <= LARGEST_WHOLE
        else:
            exact = np.ones(values.shape, dtype=bool)
        if not exact.all():
            where = [int(i) for i in np.argwhere(~exact)[0]]
            found = values[tuple(where)]
            raise ModelError(f"{key}{where or ''} must be a whole number; it is {found}")
        return values.astype(np.int64)

    def number(self, key: str) -> float:
        """One finite number."""
        return float(_single(key, self.floats(key)))

    def whole(self, key: str) -> int:
        """One whole number."""
        return int(_single(key, self.wholes(key)))

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
        value = _single(key, self.array(key, "biu", "true or false"))
        if value not in (0, 1):
            raise ModelError(f"{key} must be true or false; it is {value}")
        return bool(value)

    def truths(self, key: str) -> np.ndarray:
        """An array of true and false (or 1 and 0)."""
        values = self.array(key, "biu", "true or false")
        if not np.isin(values, (0, 1)).all():
            raise ModelError(f"{key} must hold true and false (or 1 and 0)")
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


MOST_AXES = 32  # of an array; NumPy has a limit of its own, which depends on its version


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


def _single(key: str, values: np.ndarray) -> Any:
    if values.size != 1:
        raise ModelError(f"{key} must be a single value; its shape is {values.shape}")
    return values.reshape(-1)[0]


def _kind_name(values: np.ndarray) -> str:
    whole = "whole numbers"
    names = {"b": "truth values", "i": whole, "u": whole, "f": "numbers", "U": "text"}
    return names.get(values.dtype.kind, "mixed or too large values")
