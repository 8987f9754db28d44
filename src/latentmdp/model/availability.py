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


def mask_of_rows(present: Mask) -> Mask | None:
    """The mask that rows say, by whether they have outcomes, `present (M, S, A)`.

    An action without outcomes in all contexts is unavailable; without outcomes in some contexts
    only is refused. None if all are there.
    """
    if present.all():
        return None
    some: Mask = np.any(present, axis=0)
    partial = some & ~present.all(axis=0)
    if partial.any():
        s, a = (int(i) for i in np.argwhere(partial)[0])
        missing = np.flatnonzero(~present[:, s, a])
        names = ", ".join(str(m) for m in missing[:SHOWN]) + ", ..." * (len(missing) > SHOWN)
        raise ModelError(
            f"P[s={s}, a={a}] must have outcomes in all contexts, or in none (then the action is "
            f"unavailable there); it has no outcomes in context{'s' * (len(missing) > 1)} {names}"
        )
    if not some.any(axis=1).all():
        s = int(np.argmin(some.any(axis=1)))
        raise ModelError(f"P[s={s}] must have an action with outcomes; it has no outcomes at all")
    return checked_mask(some, *some.shape)


def stand_ins(allowed: Mask) -> Ints:
    """`(S, A)` the action itself, or the first available one where it is unavailable."""
    first = allowed.argmax(axis=1)
    return np.where(allowed, np.arange(allowed.shape[1]), first[:, None])


def source_rows(allowed: Mask, M: int) -> Ints:
    """`(M*S*A,)` the row that each row repeats: itself where the action is available."""
    S, A = allowed.shape
    place = np.arange(S)[:, None] * A + stand_ins(allowed)
    return (np.arange(M)[:, None, None] * (S * A) + place).reshape(-1)


def repeated(allowed: Mask, M: int, indptr: Ints) -> tuple[Ints, Ints]:
    """`(indptr, outcome)` of rows in which those of unavailable actions repeat their stand-ins.

    `outcome` says which of the outcomes that `indptr` counts stands at each place.
    """
    source = source_rows(allowed, M)
    length = np.diff(indptr)[source]
    longer = np.zeros_like(indptr)
    np.cumsum(length, out=longer[1:])
    outcome = np.arange(longer[-1]) + np.repeat(indptr[source] - longer[:-1], length)
    return longer, outcome
