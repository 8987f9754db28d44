"""How regret is told: its level is known up to the gap of the optimum that it is measured against.

Within a run everything is exact but the optimum, which may only be bracketed: regret then lies
between two ends that move apart by the same amount in every episode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

ROUNDING = 1e-11
"""An optimum is closed if its bounds differ by at most this share of the largest value."""
WIDE = 0.1
"""A bracket that is wider than this share of the regret gets a sentence of its own."""


class RegretBracket(NamedTuple):
    """Regret against the best known value, and against the upper bound on the optimum.

    The ends are equal where the optimum is closed: regret is then exact.
    """

    lower: float
    upper: float

    @property
    def exact(self) -> bool:
        """Whether the optimum is closed."""
        return self.lower == self.upper

    @property
    def wide(self) -> bool:
        """Whether the bracket is wider than a tenth of the regret."""
        return self.upper - self.lower > WIDE * abs(self.lower)

    def text(self, form: Callable[[float], str] | None = None) -> str:
        """Both ends, or one number where they are written the same.

        >>> RegretBracket(584812.3, 1144612.0).text(), RegretBracket(21.8, 21.8).text()
        ('584,812 to 1,144,612', '21.8')
        """
        write = figure if form is None else form
        low, high = write(self.lower), write(self.upper)
        return low if low == high else f"{low} to {high}"


def figure(value: float) -> str:
    """A regret for people: six digits, whole from a thousand on, thousands apart.

    >>> figure(0.25), figure(12345.6), figure(float(10**16))
    ('0.25', '12,346', '1e+16')
    """
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.6g}"


def open_gap(best: float, upper: float, scale: float) -> float:
    """By how much the optimum may exceed the best known value; 0 where only rounding is left."""
    gap = max(upper - best, 0.0)
    return 0.0 if gap <= ROUNDING * abs(scale) else gap
