"""The outcomes of a step-dependent model: read, checked, and numbered by step and state."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model import rows as canonical
from latentmdp.model.availability import Mask, checked_mask
from latentmdp.model.horizons import checked_whole, is_infinite
from latentmdp.model.inputs import axes_of
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.repair import Repairs
from latentmdp.model.rows import Sizes

MOST_PLACES = 2**26  # H*H*S: a policy for the time-augmented model lists so many defaults


class Columns(NamedTuple):
    """One entry per outcome; states and next states are the person's, from 0 to S - 1."""

    step: Ints
    context: Ints
    state: Ints
    action: Ints
    next: Ints
    prob: Floats
    reward: Floats


def dense_columns(
    P: ArrayLike, R: ArrayLike, horizon: int, allowed: Any
) -> tuple[Columns, Sizes, Mask | None]:
    """The outcomes of dense `P (H,M,S,A,S)`; see `TimedLatentMDP.from_arrays`."""
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
    check_places(horizon, P.shape[-1])
    by_step = (horizon, *P.shape[-4:])
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
        if not np.isfinite(array).all():
            t, *where = np.argwhere(~np.isfinite(array))[0]
            raise ModelError(
                f"at step {t}: {canonical.at(name, where)} must be finite; it is "
                f"{array[(t, *where)]}"
            )
    found = np.nonzero(P)
    step, context, state, action, following = found
    columns = Columns(step, context, state, action, following, P[found], R[found])
    return columns, Sizes(*by_step[1:4]), mask


def checked_steps(horizon: Any) -> int:
    if is_infinite(horizon):
        raise ModelError("a step-dependent model must have a finite horizon; it is inf")
    return checked_whole("horizon", horizon, 1)


def check_places(horizon: int, S: int) -> None:
    """Refuse too many steps and states before anything is laid out by step."""
    if horizon * horizon * S > MOST_PLACES:
        raise ModelError(
            f"a step-dependent model must have H*H*S of at most {MOST_PLACES}; H={horizon} and "
            f"S={S} give {horizon * horizon * S}"
        )


def check_every_step(step: Ints, horizon: int) -> None:
    missing = np.bincount(step, minlength=horizon) == 0
    if missing.any():
        raise ModelError(
            f"every step from 0 to {horizon - 1} must have outcomes; step "
            f"{int(np.argmax(missing))} has none"
        )


def columns_of(layers: LatentMDP, S: int) -> Columns:
    """The outcomes of a time-augmented model."""
    row = np.repeat(np.arange(len(layers.indptr) - 1), np.diff(layers.indptr))
    listed = layers.listed_rows[row]  # not what unavailable actions repeat
    pair, action = np.divmod(row[listed], layers.A)
    context, number = np.divmod(pair, layers.S)
    step, state = np.divmod(number, S)
    following, prob, reward = layers.next[listed] % S, layers.prob[listed], layers.reward[listed]
    return Columns(step, context, state, action, following, prob, reward)


def with_terminal(columns: Columns, terminal: Floats, horizon: int, discount: float) -> Columns:
    """The last step's rewards with what comes after it; rounding error around 0 is 0."""
    after = discount * terminal[columns.context, columns.next]
    after[columns.step < horizon - 1] = 0.0
    reward = columns.reward + after
    scale = max(np.abs(columns.reward).max(), np.abs(after).max())
    reward[(after != 0.0) & (np.abs(reward) <= 2.0**-50 * scale)] = 0.0
    return columns._replace(reward=reward)


def mask_by_step(allowed: Any, horizon: int, S: int, A: int) -> Mask | None:
    """`allowed` as an array `(H, S, A)`, from one of that shape or `(S, A)`."""
    if allowed is None:
        return None
    if axes_of(allowed) != 3:
        once = checked_mask(allowed, S, A)
        return None if once is None else np.tile(once, (horizon, 1, 1))
    if len(allowed) != horizon:
        raise ModelError(
            f"allowed must have the shape (S, A) = ({S}, {A}) or (H, S, A) = ({horizon}, {S}, {A}),"
            f" true where the action is available; its first axis has {len(allowed)}"
        )
    masks = []
    for t in range(horizon):
        try:
            masks.append(checked_mask(allowed[t], S, A))
        except ModelError as error:
            raise ModelError(f"at step {t}: {error}") from None
    return np.array(masks)


def sums_checked(
    columns: Columns, sizes: Sizes, horizon: int, allowed: Mask | None, repairs: Repairs
) -> Columns:
    """The outcomes of available actions; their rows sum to 1, or are divided by their sums."""
    M, S, A = sizes
    if allowed is not None:
        kept = allowed[columns.step, columns.state, columns.action]
        parts: list[Any] = [column[kept] for column in columns]
        columns = Columns(*parts)
    shape = (horizon, M, S, A)
    row = np.ravel_multi_index(
        (columns.step, columns.context, columns.state, columns.action), shape
    )

    def name_of(i: int) -> str:
        t, *where = (int(x) for x in np.unravel_index(listed[i], shape))
        return f"at step {t}: {canonical.at('P', where)}"

    if (columns.prob < 0).any():
        listed, i = row, int(np.argmax(columns.prob < 0))
        raise ModelError(
            f"{name_of(i)} must have probabilities of at least 0; next={columns.next[i]} has "
            f"{float(columns.prob[i])}"
        )
    length = np.bincount(row, minlength=int(np.prod(shape)))
    listed = np.flatnonzero(length)
    total: Floats = np.bincount(row, columns.prob, minlength=len(length))[listed].astype(float)
    divisor = repairs.divisors(total, canonical.sum_tolerance(length[listed]), name_of)
    if divisor is None:
        return columns
    return columns._replace(prob=columns.prob / divisor[np.searchsorted(listed, row)])


def rows_to_model(
    columns: Columns, sizes: Sizes, horizon: int, limit: float | None, rest: dict[str, Any]
) -> LatentMDP:
    """The time-augmented model; what is refused is named by step and the person's states."""
    step, context, state, action, following, prob, reward = columns
    number = step * sizes.S + state
    to = np.minimum(step + 1, horizon - 1) * sizes.S + following
    try:
        return LatentMDP.from_rows(
            context, number, action, to, prob, reward, max_return=limit, **rest
        )
    except ModelError:
        nu = rest["nu"][:, : sizes.S]
        at_step = {**rest, "horizon": 1, "nu": nu, "state_names": None, "fold": None}
        for t in range(horizon):
            part = [column[step == t] for column in columns[1:]]
            if rest["allowed"] is not None:
                at_step["allowed"] = rest["allowed"].reshape(horizon, sizes.S, -1)[t]
            try:
                LatentMDP.from_rows(*part, max_return=limit, **at_step)
            except ModelError as error:
                if str(error).startswith(("P[", "R[")):
                    raise ModelError(f"at step {t}: {error}") from None
        raise
