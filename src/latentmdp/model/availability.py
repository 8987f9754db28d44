"""Which actions are available in which states, and what stands in for those that are not.

The canonical rows of an unavailable action repeat the rows of the first available action of its
state, in all contexts. A duplicate of an action changes no value, so whatever works on rows needs
to know nothing of it. Only the borders do: no policy that is handed out plays an unavailable
action (`policy.playable`), and what is shown or written leaves the repeated rows out.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentmdp.errors import ModelError
from latentmdp.model.shapes import axes_of

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

SHOWN = 10  # contexts that a sentence lists


def checked_mask(allowed: Any, S: int, A: int) -> Mask | None:
    """`allowed` as a read-only array `(S, A)` of truth values; every state must have an action."""
    if allowed is None:
        return None
    try:
        given = np.asarray(allowed)
    except ValueError:
        raise ModelError(f"allowed must be a regular array of the shape ({S}, {A})") from None
    if given.shape != (S, A):
        raise ModelError(
            f"allowed must have the shape (S, A) = ({S}, {A}), true where the action is available; "
            f"its shape is {given.shape}"
        )
    mask = given.astype(bool) if given.dtype.kind in "biuf" else np.zeros((S, A), dtype=bool)
    if given.dtype.kind not in "biuf" or not (mask == given).all():
        raise ModelError(
            f"allowed must hold true and false (or 1 and 0); its type is {given.dtype}"
        )
    if not mask.any(axis=1).all():
        s = int(np.argmin(mask.any(axis=1)))
        raise ModelError(f"every state must have an available action; state {s} has none")
    mask.flags.writeable = False
    return mask


def mask_by_step(allowed: Any, steps: int, S: int, A: int) -> Mask | None:
    """`allowed` as an array `(steps, S, A)`, from one of that shape or `(S, A)`."""
    if allowed is None:
        return None
    if axes_of(allowed) != 3:
        once = checked_mask(allowed, S, A)
        return None if once is None else np.tile(once, (steps, 1, 1))
    if len(allowed) != steps:
        raise ModelError(
            f"allowed must have the shape (S, A) = ({S}, {A}) or (H, S, A) = ({steps}, {S}, {A}),"
            f" true where the action is available; its first axis has {len(allowed)}"
        )
    masks = []
    for t in range(steps):
        try:
            masks.append(checked_mask(allowed[t], S, A))
        except ModelError as error:
            raise ModelError(f"at step {t}: {error}") from None
    return np.array(masks)


def mask_of_rows(present: Mask) -> Mask | None:
    """`(T, S, A)`: the mask that rows say, by whether they have outcomes, `present (T, M, S, A)`.

    An action without outcomes in all contexts is unavailable; without outcomes in some contexts
    only is refused. None if all are there.
    """
    if present.all():
        return None
    some: Mask = np.any(present, axis=1)
    partial = some & ~present.all(axis=1)
    if partial.any():
        t, s, a = (int(i) for i in np.argwhere(partial)[0])
        missing = np.flatnonzero(~present[t, :, s, a])
        names = ", ".join(str(m) for m in missing[:SHOWN]) + ", ..." * (len(missing) > SHOWN)
        raise ModelError(
            f"{_at_step(present, t)}P[s={s}, a={a}] must have outcomes in all contexts, or in none "
            "(then the action is unavailable there); it has no outcomes in "
            f"context{'s' * (len(missing) > 1)} {names}"
        )
    if not some.any(axis=2).all():
        t, s = (int(i) for i in np.argwhere(~some.any(axis=2))[0])
        raise ModelError(
            f"{_at_step(present, t)}P[s={s}] must have an action with outcomes; it has no outcomes "
            "at all"
        )
    return some


def _at_step(present: Mask, step: int) -> str:
    return "" if len(present) == 1 else f"at step {step}: "


def substitute_actions(allowed: Mask) -> Ints:
    """`(..., S, A)` the action itself, or the first available one where it is unavailable."""
    first = allowed.argmax(axis=-1)
    return np.where(allowed, np.arange(allowed.shape[-1]), first[..., None])


def substitute_rows(allowed: Mask, M: int) -> Ints:
    """`(T*M*S*A,)` the row that each row repeats: itself where the action is available.

    `allowed (T, S, A)`, or `(S, A)` for one step.
    """
    T, S, A = allowed.reshape(-1, *allowed.shape[-2:]).shape
    place = np.arange(S)[:, None] * A + substitute_actions(allowed)
    first = np.arange(T * M).reshape(T, M, 1, 1) * (S * A)
    return (first + place.reshape(T, 1, S, A)).reshape(-1)


def repeated(allowed: Mask, M: int, indptr: Ints) -> tuple[Ints, Ints]:
    """`(indptr, outcome)` of rows in which those of unavailable actions repeat their stand-ins.

    `outcome` says which of the outcomes that `indptr` counts stands at each place.
    """
    source = substitute_rows(allowed, M)
    length = np.diff(indptr)[source]
    longer = np.zeros_like(indptr)
    np.cumsum(length, out=longer[1:])
    outcome = np.arange(longer[-1]) + np.repeat(indptr[source] - longer[:-1], length)
    return longer, outcome
