"""States and actions as people give them: by number or by name."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentmdp.errors import ModelError

SHOWN = 12  # names that a message lists


def number_of(what: str, given: Any, below: int, names: tuple[str, ...] | None) -> int:
    """A number from 0 to `below`, given as such or by name."""
    if isinstance(given, str):
        if names is None:
            raise ModelError(
                f"the {what} must be a whole number, as the model has no names; it is {given!r}"
            )
        if given not in names:
            raise ModelError(f"the {what} must be one of {listed(names)}; it is {given!r}")
        return names.index(given)
    whole = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
    if not whole or not 0 <= given < below:
        raise ModelError(
            f"the {what} must be a whole number from 0 to {below - 1}, or a name; it is {given!r}"
        )
    return int(given)


def listed(names: "Sequence[Any] | np.ndarray") -> str:
    """The first names, and how many there are."""
    shown = ", ".join(str(x) for x in names[:SHOWN])
    return shown + (f", ... ({len(names)} in all)" if len(names) > SHOWN else "")
