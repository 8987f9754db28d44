"""Coordinate ascent over Markov policies: the sweeps of `markov_sweep` with their buffers."""

import math
from collections.abc import Iterator

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.planning.markov_view import PIECE, MarkovView


class Climber:
    """Coordinate ascent with buffers of its own, in pieces between which to look at the clock."""

    def __init__(self, view: MarkovView) -> None:
        self.view = view
        self.spans = view.spans
        self.reach = np.empty((view.H, view.M, view.S))
        self.values = np.zeros((view.H + 1, view.M, view.S))
        self.scratch = np.empty((view.M, 2))

    def climb(self, table: Ints, start: Floats, sweeps: int) -> Iterator[tuple[float, int]]:
        """Ascend from `table`, in place; `(value, sweeps)` after each piece.

        Between two sweeps the value is that of `table`; within one it is NaN and sweeps are 0.
        """
        last, done = -math.inf, False
        while sweeps > 0 and not done:
            if len(self.spans) == 1:
                most = min(sweeps, max(1, PIECE // (self.view.H * len(self.view.next))))
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
                last = self._root(start)
                done = switches == 0 or last <= before + 1e-13 * abs(before)
            sweeps -= swept
            yield last, swept

    def value(self, table: Ints) -> Iterator[float]:
        """The value of a table, by pieces: NaN until it is known."""
        from latentmdp.kernels.markov_sweep import table_value

        v = self.view
        for first, stop in reversed(self.spans):
            value = table_value(
                table[first:stop], v.start, v.row_reward, v.indptr, v.next, v.prob, v.discount,
                v.A, self.values[first : stop + 1],
            )  # fmt: skip
            yield math.nan if first else float(value)

    def _ascend(
        self, table: Ints, start: Floats, sweeps: int, last: float
    ) -> tuple[float, int, bool]:
        from latentmdp.kernels.markov_sweep import ascend

        v = self.view
        value, swept, done = ascend(
            table, start, v.w, v.row_reward, v.indptr, v.next, v.prob, v.discount, v.A,
            v.choice_ptr, v.choice, sweeps, last, self.scratch, self.reach, self.values,
        )  # fmt: skip
        return float(value), int(swept), bool(done)

    def _push_forward(self, table: Ints, start: Floats, first: int, stop: int) -> None:
        """Reach of the steps after `first` up to `stop`."""
        from latentmdp.kernels.markov_sweep import push_forward

        v = self.view
        push_forward(
            table[first:stop], start if first == 0 else self.reach[first], v.indptr, v.next,
            v.prob, v.discount, v.A, self.reach[first : stop + 1],
        )  # fmt: skip

    def _pull_back(self, table: Ints, first: int, stop: int) -> int:
        from latentmdp.kernels.markov_sweep import pull_back

        v = self.view
        return int(
            pull_back(
                table[first:stop], self.reach[first:stop], v.w, v.row_reward, v.indptr, v.next,
                v.prob, v.discount, v.A, v.choice_ptr, v.choice, self.scratch,
                self.values[first : stop + 1],
            )
        )  # fmt: skip

    def _root(self, start: Floats) -> float:
        from latentmdp.kernels.markov_sweep import root_value

        return float(root_value(start, self.values))
