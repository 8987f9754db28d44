"""Shapes of what is given: arrays or nested lists, looked at without converting them."""

from typing import Any

import numpy as np


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an array or nested lists, by their first entries."""
    outer = []
    while isinstance(value, (list, tuple)) and value:
        outer.append(len(value))
        value = value[0]
    return (*outer, *np.shape(value))


def axes_of(value: Any) -> int:
    """How many axes an array or nested lists have."""
    return len(shape_of(value))
