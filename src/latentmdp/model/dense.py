"""Dense arrays as lists of outcomes: what people give to `LatentMDP`, with or without steps."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.csr import Floats
from latentmdp.errors import ModelError
from latentmdp.model import rows as canonical
from latentmdp.model.availability import checked_mask, mask_by_step
from latentmdp.model.repair import Repairs
from latentmdp.model.rows import Outcomes, Sizes
from latentmdp.model.shapes import axes_of, shape_of

MOST_ENTRIES = 2**31  # of a dense array that is made from smaller ones


def given_by_step(P: Any, R: Any, allowed: Any, horizon: Any) -> bool:
    """Whether some of these have an axis of steps.

    Rewards that could be `(H, M, S, A)` or, beside a `P` without steps, `(M, S, A, S)` are the
    latter.
    """
    transitions, rewards = shape_of(P), shape_of(R)
    if len(transitions) == 5 or len(rewards) == 5 or axes_of(allowed) == 3:
        return True
    return rewards == (horizon, *transitions[:3]) and rewards != transitions


def dense_outcomes(
    P: ArrayLike, R: ArrayLike, Z: ArrayLike | None, allowed: Any, repairs: Repairs
) -> tuple[Sizes, Outcomes]:
    """The positive entries of dense `P (M,S,A,S)`, with `R (M,S,A)`, `(M,S,A,S)` or `(S,A)`.

    What stands in rows of actions that are not `allowed (S, A)` is ignored.
    """
    P, R = canonical.numbers("P", P), canonical.numbers("R", R)
    if P.ndim != 4 or P.shape[1] != P.shape[3] or 0 in P.shape:
        raise ModelError(f"P must have the shape (M, S, A, S), none of them 0; it is {P.shape}")
    M, S, A, _ = P.shape
    if R.shape == (S, A):  # the same in every context
        R = np.tile(R, (M, 1, 1))
    if R.shape not in (P.shape[:3], P.shape):
        raise ModelError(
            f"R must have the shape {P.shape[:3]} or {P.shape} to go with P, or {(S, A)} if it is "
            f"the same in every context; it is {R.shape}"
        )
    mask = checked_mask(allowed, S, A)
    if mask is not None:
        P[:, ~mask] = R[:, ~mask] = 0.0
    canonical.finite("P", P)
    canonical.finite("R", R)
    canonical.not_negative("P", P)
    flat = np.flatnonzero(P)
    row, nxt = np.divmod(flat, S)
    reward = R.reshape(-1)[flat if R.ndim == 4 else row]
    by_step = None if mask is None else mask[None]
    outcomes = Outcomes(row, nxt, P.reshape(-1)[flat], reward, by_step)
    sizes = Sizes(M, S, A)
    return sizes, outcomes if Z is None else with_readings(sizes, outcomes, Z, repairs)


def dense_outcomes_by_step(
    P: ArrayLike, R: ArrayLike, Z: ArrayLike | None, horizon: int, allowed: Any, repairs: Repairs
) -> tuple[Sizes, Outcomes]:
    """The outcomes of dense `P (H,M,S,A,S)`, `R (H,M,S,A)` or `(H,M,S,A,S)`.

    A `P`, `R` or `allowed` without its first axis is the same at every step. (An `R` with four
    axes that could be either has an axis of steps if `P` has one.)
    """
    P, R = canonical.numbers("P", P), canonical.numbers("R", R)
    if P.ndim not in (4, 5) or P.shape[-3] != P.shape[-1] or 0 in P.shape:
        raise ModelError(
            f"P must have the shape (H, M, S, A, S) or (M, S, A, S), none of them 0; it is "
            f"{P.shape}"
        )
    if P.ndim == 5 and len(P) != horizon:
        raise ModelError(
            f"P must have one entry per step, H={horizon}; its shape is {P.shape} (the horizon "
            "of a step-dependent model is that of its steps)"
        )
    by_step = (horizon, *P.shape[-4:])
    if np.prod(by_step, dtype=float) > MOST_ENTRIES:
        raise ModelError(
            f"dense arrays must have at most 2^31 entries; {by_step} asked (from_rows takes "
            "outcomes with their step)"
        )
    shapes = [by_step[:4], by_step, by_step[1:4], by_step[1:], by_step[2:4]]
    if R.shape not in shapes:
        raise ModelError(
            f"R must have the shape {' or '.join(map(str, shapes))} to go with P; it is {R.shape}"
        )
    steps = R.shape in (by_step[:4], by_step)
    if P.ndim == 4 and R.shape == by_step[1:]:
        steps = False  # could be either: as P has it
    on_transitions = R.ndim == (5 if steps else 4)
    P = np.broadcast_to(P, by_step)
    R = np.broadcast_to(R if on_transitions else R[..., None], by_step)
    mask = mask_by_step(allowed, horizon, *by_step[2:4])
    if mask is not None:  # what stands in other rows is ignored
        P, R = (np.where(mask[:, None, :, :, None], x, 0.0) for x in (P, R))
    for name, array in (("P", P), ("R", R)):
        _finite_by_step(name, array)
    found = np.nonzero(P)
    sizes = Sizes(*by_step[1:4])
    row = np.ravel_multi_index(found[:4], by_step[:4])
    outcomes = Outcomes(row, found[4], P[found], R[found], mask, horizon)
    return sizes, outcomes if Z is None else with_readings(sizes, outcomes, Z, repairs)


def _finite_by_step(name: str, array: Floats) -> None:
    if not np.isfinite(array).all():
        t, *where = np.argwhere(~np.isfinite(array))[0]
        raise ModelError(
            f"at step {t}: {canonical.at(name, where)} must be finite; it is {array[(t, *where)]}"
        )


def with_readings(sizes: Sizes, outcomes: Outcomes, Z: ArrayLike, repairs: Repairs) -> Outcomes:
    """Each outcome once for every reading that it can show.

    `Z[m, s', a, o]` is the probability of reading `o` in context `m` when action `a` led to `s'`;
    `(M, S, O)` where the action does not matter, `(S, A, O)` and `(S, O)` where the context does
    not.
    """
    M, S, A = sizes
    given = canonical.floats("Z", Z)
    if given.ndim < 2 or 0 in given.shape:
        raise ModelError(f"Z must have the shape (M, S, A, O), none of them 0; it is {given.shape}")
    O = given.shape[-1]  # noqa: E741  (the contract's letter)
    shapes = {
        (M, S, A): given,
        (M, S): given[..., None, :] if given.ndim == 3 else given,
        (S, A): given[None],
        (S,): given[None, :, None] if given.ndim == 2 else given,
    }
    found = shapes.get(given.shape[:-1])
    if found is None:
        raise ModelError(
            f"Z must have the shape {(M, S, A, 'O')}, {(M, S, 'O')}, {(S, A, 'O')} or {(S, 'O')}: "
            f"readings by context, next state and action; it is {given.shape}"
        )
    canonical.not_negative("Z", given)
    total = given.sum(axis=-1)
    divisor = repairs.divisors(
        total.reshape(-1),
        canonical.sum_tolerance(O),
        lambda i: f"Z[{', '.join(str(k) for k in np.unravel_index(i, total.shape))}]",
    )
    if divisor is not None:
        found = found / divisor.reshape(found.shape[:-1])[..., None]
    dense = np.broadcast_to(found, (M, S, A, O))
    context, action = outcomes.row // (S * A) % M, outcomes.row % A
    each = dense[context, outcomes.next, action]  # (n, O)
    outcome, reading = np.nonzero(each)
    return outcomes._replace(
        row=outcomes.row[outcome], next=outcomes.next[outcome],
        prob=outcomes.prob[outcome] * each[outcome, reading], reward=outcomes.reward[outcome],
        reading=reading, readings=O,
    )  # fmt: skip
