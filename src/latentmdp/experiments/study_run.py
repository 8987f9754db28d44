"""`StudyRun`: one run of a study as plain data, and its id: readable, plus a hash of its content.

Everything that determines the result is in `content`, and only that is hashed: not names, paths or
the position in a file. So adding a value to a sweep adds runs and renames none, and two equal
entries are one run. Random streams are derived from the hash.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

from latentmdp.learning.regret import RegretBracket, open_gap
from latentmdp.model.units import Conversion
from latentmdp.runtime.workers import Plain as Plain

VALUES = ("optimal_lower", "optimal_upper", "final_value")  # columns of a learner's run ...
DIFFERENCES = ("regret", "regret_upper")  # ... and those that are differences of values
KEY_LENGTH = 16  # hexadecimal digits: in 10^6 runs two agree with a probability below 1e-7


def content_key(content: Plain) -> str:
    """The hash of plain data, by its values alone.

    >>> content_key({"a": 1, "b": 2.0}) == content_key({"b": 2.0, "a": 1})
    True
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def is_number(value: object) -> bool:
    """Whether it is a number, of Python or NumPy; truth values are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


@dataclass(frozen=True)
class StudyRun:
    """One run: `content` is hashed, `labels` are the columns of the table that name it.

    `where` has the paths of files that `content` names only by their hashes.
    """

    kind: str  # "learn", or "call" for a function
    content: Plain
    labels: Plain
    where: Plain = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """The hash of the content: the run's name in the store."""
        return content_key({"kind": self.kind, **self.content})

    @cached_property
    def id(self) -> str:
        """Readable, unique, valid as a folder's name."""
        words = [str(value) for name, value in self.labels.items() if name in READABLE]
        return f"{_slug('-'.join(words))}-{self.key}"

    @property
    def stream(self) -> int:
        """The seed of the run's random numbers."""
        return stream_of(self.key)

    @cached_property
    def optimum(self) -> Plain | None:
        """The optimum to plan before the run: its model and class; None for functions."""
        if self.kind != "learn":
            return None
        return {"model": self.content["model"], "policy_class": self.content["policy_class"]}

    @cached_property
    def optimum_key(self) -> str | None:
        """The hash of `optimum`."""
        return None if self.optimum is None else content_key({"kind": "optimum", **self.optimum})


def conversion_of(where: Plain) -> Conversion:
    """The conversion to the user's units, as `ModelSources` has stored it in `where`."""
    return Conversion(*where.get("model", {}).get("conversion", ()))


def in_user_units(result: Plain, conversion: Conversion) -> Plain:
    """The columns of a run in user units; columns without a number are not changed."""
    found = {name: value for name, value in result.items() if is_number(value)}
    values = {name: conversion.value(found[name]) for name in VALUES if name in found}
    differences = {
        name: conversion.difference(found[name]) for name in DIFFERENCES if name in found
    }
    return result | values | differences


def open_gap_of(row: Mapping[Any, Any]) -> float:
    """By how much the optimum of a run may exceed the best known value; `row` of a study's table.

    0 if it is closed, and for functions, whose results are not interpreted.
    """
    columns: list[Any] = [
        row.get(name) for name in ("regret", "regret_upper", "episodes", "optimal_upper")
    ]
    if not all(is_number(x) and x == x for x in columns):
        return 0.0
    regret, upper, episodes, optimum = map(float, columns)
    return open_gap(regret / episodes, upper / episodes, optimum)


def bracket_of(row: Mapping[Any, Any]) -> RegretBracket:
    """The regret of a run with its bracket, from the columns of a study's table."""
    regret, gap = float(row["regret"]), open_gap_of(row)
    return RegretBracket(regret, regret + gap * float(row["episodes"]) if gap else regret)


READABLE = ("model", "task", "algorithm", "policy_class", "seed")


def stream_of(key: str) -> int:
    """A seed from a hash: 60 bits of another hash of it."""
    return int(hashlib.sha256(f"stream {key}".encode()).hexdigest()[:15], 16)


def _slug(text: str) -> str:
    """Letters, digits and dashes: at most 60 of them."""
    return re.sub(r"[^A-Za-z0-9_.=]+", "-", text)[:60].strip("-.")
