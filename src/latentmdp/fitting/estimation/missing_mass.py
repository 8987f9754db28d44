"""What a log has not shown: the probability of contexts and states that never occurred in it.

Good and Turing's estimate is the share of draws whose outcome was seen exactly once. The interval
holds for independent draws, whatever the outcomes are and however many: above, the better of a
bound by concentration (McAllester and Ortiz 2003) and of that of `optimism/log_boxes.py`, which is
tight where hardly anything was seen once; below by concentration.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from latentmdp.csr import Ints
from latentmdp.fitting.reading.cells import LogCounts
from latentmdp.optimism.log_boxes import unseen_mass

LEVEL = 0.95
MENTIONED = 0.01  # an interval that ignores it says so if the upper end is larger


@dataclass(frozen=True)
class Unshown:
    """The probability that the next draw shows something new, with an interval."""

    what: str  # what may be new
    unit: str  # of what this is the share: episodes or steps
    value: float
    lower: float
    upper: float
    once: int  # outcomes that were seen exactly once
    draws: int

    def __str__(self) -> str:
        return f"{self.value:.2%} of {self.unit} [{self.lower:.2%}, {self.upper:.2%}]"


def unshown(log: LogCounts, level: float = LEVEL) -> tuple[Unshown, ...]:
    """Of contexts and of first states by episode, and of states and readings by step.

    Steps are not independent draws; their interval is that of independent ones.
    """
    entered = log.starts.sum(axis=0) + np.bincount(log.next, log.sums.count, log.S).astype(np.int64)
    found = (
        _unshown("a context that the log has not shown", "episodes", log.starts.sum(axis=1), level),
        _unshown(
            "a context and first state that the log has not shown together", "episodes",
            log.starts.reshape(-1), level,
        ),
        _unshown("a state that the log has not shown", "steps", entered, level),
    )  # fmt: skip
    if log.readings == 1 or not len(log.row):
        return found
    read = np.bincount(log.reading, log.sums.count).astype(np.int64)
    return *found, _unshown("a reading that the log has not shown", "steps", read, level)


def _unshown(what: str, unit: str, counts: Ints, level: float) -> Unshown:
    counts = counts[counts > 0]
    once = int((counts == 1).sum())
    return Unshown(what, unit, *missing_mass(counts, level), once, int(counts.sum()))


def missing_mass(counts: Ints, level: float = LEVEL) -> tuple[float, float, float]:
    """`(estimate, lower, upper)` of the probability of everything that was never drawn.

    `counts`: how often each outcome was drawn, at least once each.
    """
    n, half = int(counts.sum()), (1.0 - level) / 2.0
    estimate = float((counts == 1).sum()) / n
    # the estimate changes by at most 2/n with each draw; its mean is at most 1/n above the mass's
    above, below = math.log(4.0 / half), math.log(2.0 / half)
    by_concentration = estimate + math.sqrt(2.0 * above / n) + math.sqrt(above / n)
    row = np.zeros(len(counts), dtype=np.int64)
    by_choice = unseen_mass(row, counts, row[:1], np.array([math.log(2.0 / half)]))
    down = math.sqrt(2.0 * below / n) + math.sqrt(2.0 * below / (math.e * n)) + 1.0 / n
    upper = min(by_concentration, float(by_choice[0]), 1.0)
    return estimate, max(estimate - down, 0.0), max(upper, estimate)


def not_counted(found: tuple[Unshown, ...]) -> Iterator[str]:
    """What an interval ignores, in words, where it may be more than `MENTIONED`."""
    for part in found[1:]:
        if part.upper > MENTIONED:
            yield f"up to {part.upper:.2g} of {part.unit} may show {part.what}"
