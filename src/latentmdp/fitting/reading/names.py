"""`Names`: the states, actions or contexts of a log as numbers, whatever type they have there.

Numbers are given in order of appearance while a log streams by; `order()` puts names into their
final order, which does not depend on the order of rows: by value where all are numbers, else by
their text. `1`, `1.0` and `"1"` are one name: a CSV cannot tell them apart either.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from latentmdp.csr import Ints
from latentmdp.errors import ModelError, quoted

MISSING, UNKNOWN = -1, -2  # codes of no name, and of one that is not among the fixed names
LONGEST_NAME = 1000  # characters; a longer one is rather a quotation mark that is not closed
MOST_NAMES = 1_000_000  # distinct states; more are no table
_WHOLE = re.compile(r"-?\d+\.0+")


class Names:
    """Names with their numbers; `fixed` ones do not grow.

    `or_numbers`: a log may have the numbers of fixed names in their place, as long as no name is a
    number itself.
    """

    def __init__(
        self,
        what: str,
        fixed: Iterable[Any] | None = None,
        or_numbers: bool = False,
        spelled: Callable[[str], str] | None = None,
    ) -> None:
        self.what, self.fixed, self.spelled = what, fixed is not None, spelled
        self.or_numbers = or_numbers
        self.values: list[str] = [] if fixed is None else [text_of(value) for value in fixed]
        self._number = {self._spelled(name): i for i, name in enumerate(self.values)}
        if len(self._number) < len(self.values):
            raise ModelError(f"the names of {what}s must differ; some are given twice")
        if or_numbers and not any(_number(name) is not None for name in self.values):
            self._number |= {str(i): i for i in range(len(self.values))}

    def __len__(self) -> int:
        return len(self.values)

    def codes(self, column: pd.Series) -> Ints:
        """`(n,)` numbers of a column's names; `MISSING` or `UNKNOWN` where there is none."""
        if isinstance(column.dtype, pd.CategoricalDtype):
            local, found = column.cat.codes.to_numpy(), column.cat.categories
            used = np.bincount(local[local >= 0], minlength=len(found)) > 0
        else:
            local, found = pd.factorize(column)
            used = np.ones(len(found), dtype=bool)
        number = np.full(len(found) + 1, MISSING, dtype=np.int64)  # the last one: for code -1
        for i in np.flatnonzero(used):
            number[i] = self.number(found[int(i)])
        return number[local]

    def _spelled(self, name: str) -> str:
        """What decides whether two names are the same."""
        return name if self.spelled is None else text_of(self.spelled(name))

    def number(self, value: Any) -> int:
        """The number of a name, a new one if it is new and may be; `MISSING` if it is empty."""
        name = self._spelled(text_of(value))
        if not name and self.spelled is not None:
            return MISSING
        found = self._number.get(name)
        if found is None:
            if self.fixed:
                return UNKNOWN
            if len(self.values) >= MOST_NAMES:
                raise ModelError(
                    f"{self.what} must have at most {MOST_NAMES} different values; it has more "
                    "(numbers that vary continuously must be put into classes first)"
                )
            if len(name) > LONGEST_NAME:
                raise ModelError(
                    f"names in a log must have at most {LONGEST_NAME:,} characters; a {self.what} "
                    f"has {len(name):,}: {quoted(name)}"
                )
            found = self._number[name] = len(self.values)
            self.values.append(name)
        return found

    def order(self) -> Ints:
        """`(n,)` the final place of each number; fixed names keep theirs."""
        if self.fixed:
            return np.arange(len(self))
        ranked = sorted(range(len(self)), key=_sort_key(self.values))
        place = np.empty(len(self), dtype=np.int64)
        place[ranked] = np.arange(len(self))
        return place

    def ordered(self) -> tuple[str, ...]:
        """The names in their final order."""
        found = np.empty(len(self), dtype=object)
        found[self.order()] = self.values
        return tuple(found)


def alike(names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of names that differ only in blanks around them or in upper and lower case.

    >>> alike(["A", "b", " a", "a "])
    [('A', ' a'), ('A', 'a ')]
    """
    first: dict[str, str] = {}
    pairs = []
    for name in names:
        other = first.setdefault(text_of(name.strip()).casefold(), name)
        if other is not name:
            pairs.append((other, name))
    return pairs


def text_of(value: Any) -> str:
    """A name as text: whole floats (integers beside missing values) as integers."""
    if isinstance(value, str):
        return value.partition(".")[0] if _WHOLE.fullmatch(value) else value
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _sort_key(values: Sequence[str]) -> Any:
    numbers = [_number(value) for value in values]
    if any(number is None for number in numbers):
        return lambda i: values[i]
    return lambda i: (numbers[i], values[i])


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
