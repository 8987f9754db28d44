"""Coordinate ascent over Markov policies: the sweeps of `markov_sweep` with their buffers."""

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.planning.markov_view import MarkovView


class Climber:
    """Coordinate ascent with buffers of its own."""

    def __init__(self, view: MarkovView) -> None:
        self.view = view
        self.reach = np.empty((view.H, view.M, view.S))
        self.values = np.zeros((view.H + 1, view.M, view.S))
        self.scratch = np.empty((view.M, 2))

    def climb(self, table: Ints, start: Floats, sweeps: int) -> tuple[float, int]:
        """Ascend from `table`, in place: `(value, sweeps done)`."""
        from latentmdp.kernels.markov_sweep import ascend

        v = self.view
        value, done = ascend(
            table, start, v.w, v.row_reward, v.indptr, v.next, v.prob, v.discount, v.A,
            v.choice_ptr, v.choice, sweeps, self.scratch, self.reach, self.values,
        )  # fmt: skip
        return float(value), int(done)

    def value(self, table: Ints) -> float:
        """The value of a table."""
        from latentmdp.kernels.markov_sweep import table_value

        v = self.view
        return float(
            table_value(
                table, v.start, v.row_reward, v.indptr, v.next, v.prob, v.discount, v.A, self.values
            )
        )
