"""What Markov policies see of a latent MDP: rows without symbols, and the actions worth trying."""

from typing import NamedTuple

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.model import LatentMDP


class MarkovView(NamedTuple):
    """Arrays for the kernels. Actions that do the same in every context appear once."""

    H: int
    M: int
    S: int
    A: int
    w: Floats  # (M,)
    start: Floats  # (M, S) w nu
    row_reward: Floats  # (M*S*A,)
    indptr: Ints
    next: Ints
    prob: Floats
    discount: float
    choice_ptr: Ints  # (S + 1,)
    choice: Ints  # (C,) the distinct actions of each state, ascending

    @property
    def backups(self) -> int:
        """Row backups of one sweep, the unit of work."""
        return self.H * self.M * len(self.choice)


def markov_view(model: LatentMDP) -> MarkovView:
    """The view of `model`. `O(M S A Gamma)` logs."""
    row_reward = np.ascontiguousarray(model.row_reward)
    choice_ptr, choice = distinct_actions(model, row_reward)
    return MarkovView(
        model.H, model.M, model.S, model.A, model.w, model.w[:, None] * model.nu, row_reward,
        model.indptr, model.next, model.prob, model.discount, choice_ptr, choice,
    )  # fmt: skip


def distinct_actions(model: LatentMDP, row_reward: Floats) -> tuple[Ints, Ints]:
    """`(ptr (S + 1,), actions)`: per state the first of each set of interchangeable actions."""
    M, S, A = model.sizes
    length = np.diff(model.indptr)
    width = int(length.max())
    rows = np.zeros((M * S * A, 2 * width + 1))
    r = np.repeat(np.arange(M * S * A), length)
    i = np.arange(len(r)) - np.repeat(model.indptr[:-1], length)
    rows[r, 2 * i] = model.next + 1.0
    rows[r, 2 * i + 1] = model.prob
    rows[:, -1] = row_reward
    _, kind = np.unique(rows, axis=0, return_inverse=True)
    kind = kind.reshape(M, S, A).transpose(1, 2, 0)  # (S, A, M)
    keep = np.ones((S, A), dtype=bool)
    for a in range(1, A):
        keep[:, a] = (kind[:, :a] != kind[:, a : a + 1]).any(axis=2).all(axis=1)
    ptr = np.concatenate([[0], np.cumsum(keep.sum(axis=1))]).astype(np.int64)
    return ptr, np.nonzero(keep)[1].astype(np.int64)
