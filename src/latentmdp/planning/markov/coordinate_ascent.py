"""Coordinate ascent over Markov policies: the sweeps of `markov_sweep` with their buffers."""

import math
from collections.abc import Iterator

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.planning.markov_sweep import (
    MarkovView,
    climb_sweeps,
    pull_back,
    push_forward,
    root_value,
    table_value,
)
from latentmdp.planning.markov.view import PIECE, view_spans


class CoordinateAscent:
    """Coordinate ascent with buffers of its own, in pieces between which to look at the clock."""

    def __init__(self, view: MarkovView) -> None:
        self.view = view
        self.spans = view_spans(view)
        self.reach = np.empty((view.H, view.M, view.S))
        self.values = np.zeros((view.H + 1, view.M, view.S))
        self.values[view.H] = view.terminal
        self.scratch = np.empty((view.M, 2))

    def climb(self, table: Ints, start: Floats, sweeps: int) -> Iterator[tuple[float, int]]:
        """Ascend from `table`, in place; `(value, sweeps)` after each piece.

        Between two sweeps the value is that of `table`; within one it is NaN and sweeps are 0.
        """
        last, done = -math.inf, False
        while sweeps > 0 and not done:
            if len(self.spans) == 1:
                per_sweep = self.view.H * len(self.view.next) // self.view.steps
                most = min(sweeps, max(1, PIECE // per_sweep))
                last, swept, done = self._ascend(table, start, most, last)
            else:
                before, swept, switches = last, 1, 0
                for first, stop in self.spans:
                    self._push_forward(table, start, first, stop)
                    yield math.nan, 0
                for first, stop in reversed(self.spans):
                    switches += self._pull_back(table, first, stop)
                    if first > 0:
                        yield math.nan, 0
                last = float(root_value(start, self.values))
                done = switches == 0 or last <= before + 1e-13 * abs(before)
            sweeps -= swept
            yield last, swept

    def value(self, table: Ints) -> Iterator[float]:
        """The value of a table, by pieces: NaN until it is known."""
        for first, stop in reversed(self.spans):
            value = table_value(self.view, table[first:stop], first, self.values[first : stop + 1])
            yield math.nan if first else float(value)

    def _ascend(
        self, table: Ints, start: Floats, sweeps: int, last: float
    ) -> tuple[float, int, bool]:
        value, swept, done = climb_sweeps(
            self.view, table, start, sweeps, last, self.scratch, self.reach, self.values
        )
        return float(value), int(swept), bool(done)

    def _push_forward(self, table: Ints, start: Floats, first: int, stop: int) -> None:
        """Reach of the steps after `first` up to `stop`."""
        begin = start if first == 0 else self.reach[first]
        push_forward(self.view, table[first:stop], begin, first, self.reach[first : stop + 1])

    def _pull_back(self, table: Ints, first: int, stop: int) -> int:
        """Best actions of the steps before `stop` down to `first`; how many switched."""
        reach, values = self.reach[first:stop], self.values[first : stop + 1]
        return int(pull_back(self.view, table[first:stop], reach, first, self.scratch, values))
