"""Are the rows or episodes that are left out like the others? A plain test, and what it found.

With `on_bad="skip"` episodes with doubtful rows are compared with the others: their first states,
lengths and total rewards. With `on_bad="cut"`, rows with an episode's first doubtful cell are
compared with the rows that could have had one: the first state of their episodes, how far into the
episode they stand, and the reward before them. If cells are missing by chance alone, the latter
agree, but the former do not: a long episode has more cells to lose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.fitting.reading.classes import Classes, classes_of
from latentmdp.fitting.reading.exact_sums import RewardSums
from latentmdp.fitting.reading.names import MISSING

LEVEL = 0.01  # how often the check as a whole finds a difference where there is none


@dataclass
class Selection:
    """Numbers of two groups, the left out (1) and the kept (0), that add up over parts of a log."""

    steps: Classes = field(default_factory=lambda: Classes.empty(2))  # group, first state
    totals: Classes = field(default_factory=lambda: Classes.empty(1))  # group

    def add(self, left_out: np.ndarray, first: Ints, steps: Ints, total: Floats) -> None:
        """Add members `(n,)` of the two groups; a total that is NaN is not known."""
        if not len(left_out):
            return
        group = left_out.astype(np.int64)
        self.steps.add(*classes_of((group, np.maximum(first, MISSING)), steps.astype(np.float64)))
        known = np.flatnonzero(np.abs(total) < 1e12)
        if len(known):
            self.totals.add(*classes_of((group[known],), total[known]))

    def merge(self, other: Selection, states: Ints) -> None:
        """Add those of another part of the log, in which state `s` has the number `states[s]`."""
        group, first = other.steps.keys
        known = first >= 0
        if known.any():
            first = np.where(known, states[np.where(known, first, 0)], first)
        self.steps.add(np.stack([group, first]), other.steps.sums)
        self.totals.add(other.totals.keys, other.totals.sums)

    def sentence(self, names: Sequence[str], cut: bool) -> str:
        """How the groups differ, in words; empty if no difference is significant."""
        found = [
            difference
            for difference in (self._steps(cut), self._total(cut), self._first(names))
            if difference
        ]
        if not found:
            return ""
        group = self.steps.keys[0]
        n = [int(self.steps.sums.count[group == i].sum()) for i in (0, 1)]
        if cut:
            start = (
                f"doubtful cells do not stand at random places: the {n[1]:,} rows at which "
                f"episodes were cut differ from the {n[0]:,} before them"
            )
            end = "cutting there does not make up for that"
        else:
            start = f"the {n[1]:,} episodes left out differ from the {n[0]:,} kept"
            end = (
                "what is fitted holds for such as were kept (on_bad='cut' uses episodes up to "
                "their first doubtful cell)"
            )
        return f"{start}: {'; '.join(found)} (tests at level {LEVEL:g} in all); {end}"

    def _steps(self, cut: bool) -> str:
        merged = Classes.empty(1)
        merged.add(self.steps.keys[:1], self.steps.sums)
        means = _differ(merged)
        if means is None:
            return ""
        what = "they come after {0:.3g} steps, the others after {1:.3g}" if cut else (
            "{0:.3g} steps on average against {1:.3g}"
        )  # fmt: skip
        return what.format(*means)

    def _total(self, cut: bool) -> str:
        means = _differ(self.totals)
        if means is None:
            return ""
        what = "total reward before them" if cut else "total reward"
        return f"{what} {means[0]:.4g} against {means[1]:.4g}"

    def _first(self, names: Sequence[str]) -> str:
        group, first = self.steps.keys
        known = first >= 0
        group, first, n = group[known], first[known], self.steps.sums.count[known]
        states, place = np.unique(first, return_inverse=True)
        table = np.zeros((2, len(states)))
        np.add.at(table, (group, place), n)
        if not table.sum(axis=1).all() or _chi_square(table) >= LEVEL / 3:
            return ""
        share = table / table.sum(axis=1, keepdims=True)
        most = int(np.abs(share[1] - share[0]).argmax())
        name = names[int(states[most])][:40]
        return f"{share[1, most]:.1%} begin in {name!r} against {share[0, most]:.1%}"


def _differ(classes: Classes) -> tuple[float, float] | None:
    """The means of groups 1 and 0, if they differ by Welch's test."""
    place = {int(group): i for i, group in enumerate(classes.keys[0])}
    if len(place) < 2:
        return None
    sums: RewardSums = classes.sums
    at = [place[1], place[0]]
    n, mean, spread = sums.count[at], sums.mean[at], sums.spread[at]
    if n.min() < 2:
        return None
    error = spread / (n - 1) / n
    gap = float(mean[0] - mean[1])
    if not error.sum():
        significant = gap != 0.0
    else:
        from scipy.special import stdtr  # SciPy loads slowly

        freedom = error.sum() ** 2 / (error**2 / (n - 1)).sum()
        p = 2.0 * stdtr(freedom, -abs(gap) / math.sqrt(error.sum()))
        significant = bool(p < LEVEL / 3)
    return (float(mean[0]), float(mean[1])) if significant else None


def _chi_square(table: Floats) -> float:
    """The p-value of equal shares in the two rows; columns too thin for the test are one."""
    expected = table.sum(axis=0) * (table.sum(axis=1).min() / table.sum())
    thin = expected < 5.0
    if thin.any():
        table = np.column_stack([table[:, ~thin], table[:, thin].sum(axis=1)])
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    if table.shape[1] < 2 or expected.min() < 1.0:
        return 1.0
    from scipy.special import chdtrc  # SciPy loads slowly

    return float(chdtrc(table.shape[1] - 1, ((table - expected) ** 2 / expected).sum()))
