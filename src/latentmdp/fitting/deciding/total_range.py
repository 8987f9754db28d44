"""Between which numbers the total reward of an episode lies: given, or because only ends pay.

Where nothing but the transition into an end was ever paid, an end pays once: the total of an
episode is one such payment, or 0. Both narrow what is possible: values, intervals and what rows
that nobody has seen may do are clipped to the range.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.fitting.reading.cells import LogCounts
from latentmdp.model.rows import floats

ROUNDING = 1e-9  # of the largest total: totals are sums of floats


class TotalRange(NamedTuple):
    """The range of an episode's total reward, and how it is known."""

    low: float
    high: float
    ends_pay_once: bool  # only transitions into ends pay, as far as the log shows
    given: bool

    def clip(self, value: Any) -> Any:
        """Values (a number or an array) moved into the range."""
        found = np.clip(value, self.low, self.high)
        return found if isinstance(value, np.ndarray) else float(found)

    @property
    def sentence(self) -> str:
        """What was inferred, for people; empty if the range was given."""
        if self.given:
            return ""
        return (
            "only steps into an end were paid, so the total reward of an episode was taken to lie "
            f"between {self.low:.6g} and {self.high:.6g} (total_range= says another range)"
        )


def total_range(
    counts: LogCounts, given: Any, horizon: int, rewards_known: bool
) -> TotalRange | None:
    """The range that was given (checked), or that follows if only ends pay; None if unknown."""
    once = not rewards_known and only_ends_pay(counts)
    if given is not None:
        low, high = _checked(counts, given, horizon)
        return TotalRange(low, high, once, True)
    if not once:
        return None
    low, high = float(counts.sums.low.min()), float(counts.sums.high.max())
    return TotalRange(min(low, 0.0), max(high, 0.0), True, False)


def only_ends_pay(counts: LogCounts) -> bool:
    """Whether every reward but 0 was paid for a step into a state in which episodes ended."""
    sums = counts.sums
    ends = (counts.final & (counts.finished > 0))[counts.next]
    paid = (sums.low != 0.0) | (sums.high != 0.0)
    if not paid.any() or not ends[paid].all():
        return False
    squares = np.zeros_like(counts.row_sums.squares)  # of steps whose next state is known
    np.add.at(squares.T, counts.row, sums.squares.T)
    return bool((squares == counts.row_sums.squares).all())


def _checked(counts: LogCounts, given: Any, horizon: int) -> tuple[float, float]:
    """The range given; totals of whole episodes must lie inside.

    Episodes that were cut off before the horizon have earned only a part of their total: where the
    log has some, totals of the log say nothing against the range.
    """
    found = floats("total_range", given)
    if found.shape != (2,) or not found[0] <= found[1]:
        raise ModelError(
            "total_range must be two numbers (low, high), between which the total reward of every "
            f"episode lies; it is {given!r}"
        )
    low, high = float(found[0]), float(found[1])
    seen = counts.returns.count > 0
    least = float(counts.returns.low[seen].min())
    most = float(counts.returns.high[seen].max())
    slack = ROUNDING * max(abs(least), abs(most))
    if not counts.cut[:horizon].any() and (least < low - slack or most > high + slack):
        raise ModelError(
            "total_range must hold the total reward of every episode of the log; they lie from "
            f"{least:.6g} to {most:.6g}, and it is {given!r}"
        )
    return low, high
