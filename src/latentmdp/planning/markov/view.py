"""What Markov policies see of a latent MDP: rows without symbols, and the actions worth trying."""

from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.planning.markov_sweep import MarkovView
from latentmdp.kernels.structs import Indices
from latentmdp.model.latent_mdp import LatentMDP

PIECE = 2_000_000  # outcomes to back up between two looks at the clock
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, with bits all over


def markov_view(model: LatentMDP) -> MarkovView:
    """The view of `model`. `O(M S A Gamma)` logs."""
    assert len(model.next) < 2**32, "indices have 32 bits"
    row_reward = np.ascontiguousarray(model.row_reward)
    places = 0 if model.steps == 1 else model.S
    return MarkovView(
        model.H, model.M, model.S, model.A, model.stride, places, model.discount, model.w,
        model.w[:, None] * model.nu, model.terminal_or_zeros, row_reward,
        np.ascontiguousarray(model.last_row_reward), model.indptr.astype(np.uint32),
        model.next.astype(np.uint32), model.prob, *distinct_choices(model, row_reward),
    )  # fmt: skip


def view_spans(view: MarkovView) -> list[tuple[int, int]]:
    """The steps in ranges `(first, stop)` of about `PIECE` outcomes, first to last."""
    return step_spans(view.H, len(view.next) // view.steps)


def step_spans(H: int, outcomes: int) -> list[tuple[int, int]]:
    """The steps in ranges `(first, stop)` of about `PIECE` outcomes, at `outcomes` per step."""
    length = max(1, PIECE // outcomes)
    return [(first, min(first + length, H)) for first in range(0, H, length)]


class Choices(NamedTuple):
    """The actions worth trying; see `MarkovView`."""

    ptr: Indices  # (T*S + 1,)
    action: Indices  # (C,)
    moves: Indices  # (C,)
    first: Indices  # (moves,)


def distinct_choices(model: LatentMDP, row_reward: Floats) -> Choices:
    """At each place the first of each set of interchangeable actions, and what they share.

    A place is a state, or a step and a state where rows depend on the step.
    """
    (M, S, A), T = model.sizes, model.steps
    length = np.diff(model.indptr)
    leads = np.empty(T * M * S * A, dtype=np.int64)  # equal where rows lead to the same states
    kinds = 0
    for n in np.unique(length):  # rows of one length at a time: no more memory than the model's
        rows = np.flatnonzero(length == n)
        outcome = model.indptr[rows][:, None] + np.arange(n)
        leads[rows] = kinds + first_equal(np.hstack([model.next[outcome], model.prob[outcome]]))
        kinds += len(rows)
    kind = first_equal(np.column_stack([leads, row_reward]))
    by_action, moves = (x.reshape(T, M, S * A).swapaxes(1, 2).reshape(-1, M) for x in (kind, leads))
    place = np.repeat(np.arange(T * S), A)
    keep = np.unique(first_equal(np.column_stack([place, by_action])))
    ptr = np.searchsorted(keep, np.arange(T * S + 1) * A)
    first, number = np.unique(first_equal(moves[keep]), return_inverse=True)
    return Choices(
        ptr.astype(np.uint32), (keep % A).astype(np.uint32),
        number.reshape(-1).astype(np.uint32), first.astype(np.uint32),
    )  # fmt: skip


def first_equal(rows: np.ndarray) -> Ints:
    """For each row of a table, the number of the first row that is equal to it.

    Rows are sorted by a hash, much faster than by all columns; equal hashes are then compared.
    """
    rows = rows + np.zeros((), dtype=rows.dtype)  # a copy in which -0.0 is 0.0, as it is equal
    hashed = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        hashed = (hashed ^ np.ascontiguousarray(column).view(np.uint64)) * HASH_FACTOR
        hashed ^= hashed >> np.uint64(32)
    _, first, number = np.unique(hashed, return_index=True, return_inverse=True)
    if (rows != rows[first[number]]).any():  # two rows share a hash by chance
        _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first[number.reshape(-1)].astype(np.int64)
