"""Names of states, actions and observations in POMDP files, and their numbers."""

from collections.abc import Iterable, Sequence
from typing import overload

import numpy as np

from latentmdp.csr import Ints
from latentmdp.errors import ModelError
from latentmdp.formats.pomdp.rules import ANY

WILDCARDS = ("*", "_")


class Numbered(Sequence[str]):
    """The names `s0, s1, ...`, which are not stored as a list."""

    def __init__(self, prefix: str, count: int) -> None:
        self.prefix, self.length = prefix, count

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[str]: ...
    def __getitem__(self, i: int | slice) -> str | Sequence[str]:
        if isinstance(i, slice):
            return [f"{self.prefix}{k}" for k in range(self.length)[i]]
        return f"{self.prefix}{range(self.length)[i]}"


class Names(dict[str, int]):
    """The number of a name; a wildcard is `ANY`, a number written out is itself.

    Looking up with `[]` keeps what was found, so that it is quick for a name that comes often.
    """

    def __init__(self, kind: str, names: Sequence[str]) -> None:
        super().__init__(dict.fromkeys(WILDCARDS, ANY))
        self.kind, self.names = kind, names
        if not isinstance(names, Numbered):
            for i, name in enumerate(names):
                if name in self and self[name] != ANY:
                    raise ModelError(f"each {kind} must have its own name; {name!r} comes twice")
                self[name] = i

    def __missing__(self, name: str) -> int:
        digits = name
        if isinstance(self.names, Numbered):
            digits = name.removeprefix(self.names.prefix)
        if digits.isdecimal() and len(digits) < 19 and int(digits) < len(self.names):
            self[name] = int(digits)
            return self[name]
        last = self.names[len(self.names) - 1]
        raise ModelError(
            f"{name[:80]!r} must be one of the {len(self.names)} names of {self.kind}s, "
            f"{self.names[0][:80]!r} to {last[:80]!r}"
        )

    def numbers(self, names: Iterable[str]) -> Ints:
        """The numbers of many names."""
        return np.array(list(map(self.__getitem__, names)), dtype=np.int64)
