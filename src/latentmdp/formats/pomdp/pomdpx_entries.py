"""Entries of a table in `.pomdpx` as rules; many similar entries are converted at once.

An entry has an instance, the values of the table's parents and of its variable, and numbers: one,
or, where `-` stands in the instance, one for every value there.
"""

from itertools import groupby
from math import isfinite, prod
from typing import NamedTuple

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.formats.pomdp.names import Names
from latentmdp.formats.pomdp.rules import ANY, Rules
from latentmdp.formats.pomdp.xml_stream import PlacedError

MANY = 1 << 14  # entries that are made into rules at a time


class _Entry(NamedTuple):
    instance: list[str]
    numbers: str
    line: int

    def form(self) -> tuple[int, tuple[int, ...]]:
        """How many values the instance has, and which of them are listed."""
        if "-" not in self.instance:
            return len(self.instance), ()
        listed = (i for i, word in enumerate(self.instance) if word == "-")
        return len(self.instance), tuple(listed)


class Entries:
    """The entries of one table; `axes` are its variables in order, with the names of values."""

    def __init__(self, rules: Rules, axes: dict[str, Names], is_reward: bool) -> None:
        self.rules, self.axes, self.is_reward = rules, axes, is_reward
        self.waiting: list[_Entry] = []

    def add(self, instance: str, numbers: str, line: int) -> None:
        """One entry."""
        self.waiting.append(_Entry(instance.split(), numbers, line))
        if len(self.waiting) >= MANY:
            self.finish()

    def finish(self) -> None:
        """Rules for the entries so far."""
        for (length, listed), group in groupby(self.waiting, _Entry.form):
            alike = list(group)
            if length != len(self.axes) or not self._add_alike(listed, alike):
                for entry in alike:
                    try:
                        self._add_one(entry)
                    except ModelError as error:
                        raise PlacedError(f"line {entry.line}: {error}") from None
        self.waiting = []

    def _add_alike(self, listed: tuple[int, ...], entries: list[_Entry]) -> bool:
        """All entries at once if they are plain numbers without duplicates; else nothing."""
        sizes, n = self.rules.sizes, len(entries)
        each = prod(sizes[i] for i in listed)
        words = [entry.numbers.split() for entry in entries]
        if set(map(len, words)) != {each}:
            return False
        try:
            values = np.array([[float(word) for word in row] for row in words])
            places = [
                np.full(n, ANY)
                if i in listed
                else names.numbers(entry.instance[i] for entry in entries)
                for i, names in enumerate(self.axes.values())
            ]
        except (ValueError, ModelError):
            return False
        if not np.isfinite(values).all():
            return False
        if not listed:
            self.rules.add_many(places, values[:, 0])
            return True
        fixed = np.array([place for i, place in enumerate(places) if i not in listed])
        if (fixed == ANY).any() or (n > 1 and len(fixed) == 0):
            return False
        if n > 1 and len(np.unique(fixed, axis=1).T) < n:
            return False
        self.rules.add_many(places, np.zeros(n))
        which, number = np.nonzero(values)
        index = np.unravel_index(number, [sizes[i] for i in listed])
        places = [place[which] for place in places]
        for i, numbers in zip(listed, index, strict=True):
            places[i] = numbers
        self.rules.add_many(places, values[which, number])
        return True

    def _add_one(self, entry: _Entry) -> None:
        instance, words = entry.instance, entry.numbers.split()
        rules, sizes, last = self.rules, self.rules.sizes, len(self.axes) - 1
        if len(instance) != len(self.axes):
            raise ModelError(
                f"<Instance> must have {len(self.axes)} values, for {', '.join(self.axes)[:200]}; "
                f"it has {len(instance)}"
            )
        listed = [i for i, word in enumerate(instance) if word == "-"]
        pairs = zip(instance, self.axes.values(), strict=True)
        place = [ANY if word == "-" else names[word] for word, names in pairs]
        shorthand = words[0].lower() if len(words) == 1 else ""
        if shorthand == "uniform":
            if last not in listed or self.is_reward:
                raise ModelError("'uniform' must stand for a distribution: <Instance> ends in -")
            rules.add(place, 1.0 / sizes[last])
        elif shorthand == "identity":
            if len(listed) != 2 or listed[1] != last or self.is_reward:
                raise ModelError("'identity' needs two - in <Instance>, one of them at its end")
            if sizes[listed[0]] != sizes[last]:
                raise ModelError("'identity' needs a parent with as many values as the variable")
            rules.add(place, 0.0)
            every = np.arange(sizes[last])
            places = [every if i in listed else np.full(len(every), k) for i, k in enumerate(place)]
            rules.add_many(places, np.ones(len(every)))
        else:
            count = prod(sizes[i] for i in listed)
            if len(words) != count:
                raise ModelError(f"the entry must have {count} numbers; it has {len(words)}")
            values = np.array([finite(word, "a number of the entry") for word in words])
            rules.add_block(place, listed, values)


def finite(text: str, what: str) -> float:
    """The number in a text; ModelError if it is not a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise ModelError(f"{what} must be a finite number; it is {text.strip()[:80]!r}")
    return value
