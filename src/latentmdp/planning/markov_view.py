"""What Markov policies see of a latent MDP: rows without symbols, and the actions worth trying."""

from typing import NamedTuple

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.model import LatentMDP

PIECE = 2_000_000  # outcomes to back up between two looks at the clock


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

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The steps in ranges `(first, stop)` of about `PIECE` outcomes, first to last."""
        return step_spans(self.H, len(self.next))


def markov_view(model: LatentMDP) -> MarkovView:
    """The view of `model`. `O(M S A Gamma)` logs."""
    row_reward = np.ascontiguousarray(model.row_reward)
    choice_ptr, choice = distinct_actions(model, row_reward)
    return MarkovView(
        model.H, model.M, model.S, model.A, model.w, model.w[:, None] * model.nu, row_reward,
        model.indptr.astype(np.uint32), model.next.astype(np.uint32), model.prob, model.discount,
        choice_ptr, choice,
    )  # fmt: skip


def step_spans(H: int, outcomes: int) -> list[tuple[int, int]]:
    """The steps in ranges `(first, stop)` of about `PIECE` outcomes, at `outcomes` per step."""
    length = max(1, PIECE // outcomes)
    return [(first, min(first + length, H)) for first in range(0, H, length)]


def distinct_actions(model: LatentMDP, row_reward: Floats) -> tuple[Ints, Ints]:
    """`(ptr (S + 1,), actions)`: per state the first of each set of interchangeable actions."""
    M, S, A = model.sizes
    length = np.diff(model.indptr)
    kind = np.empty(M * S * A, dtype=np.int64)  # equal where rows are
    kinds = 0
    for n in np.unique(length):  # rows of one length at a time: no more memory than the model's
        rows = np.flatnonzero(length == n)
        outcome = model.indptr[rows][:, None] + np.arange(n)
        content = np.hstack([model.next[outcome], model.prob[outcome], row_reward[rows][:, None]])
        _, which = np.unique(content, axis=0, return_inverse=True)
        kind[rows] = kinds + which.reshape(-1)
        kinds += len(rows)
    by_action = kind.reshape(M, S * A).T
    state = np.repeat(np.arange(S), A)
    _, first = np.unique(np.column_stack([state, by_action]), axis=0, return_index=True)
    keep = np.sort(first)
    ptr = np.searchsorted(keep, np.arange(S + 1) * A)
    return ptr.astype(np.uint32), (keep % A).astype(np.uint32)
