"""What is given for a model, read and checked: outcomes, weights, first states, totals."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.csr import Floats
from latentmdp.errors import ModelError
from latentmdp.model import rows as canonical
from latentmdp.model.horizons import discounted_steps
from latentmdp.model.repair import Repairs
from latentmdp.model.rows import Rows, Sizes
from latentmdp.model.totals import extreme_totals


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an array or nested lists, by their first entries, without converting them."""
    outer = []
    while isinstance(value, (list, tuple)) and value:
        outer.append(len(value))
        value = value[0]
    return (*outer, *np.shape(value))


def axes_of(value: Any) -> int:
    """How many axes an array or nested lists have, without converting them."""
    return len(shape_of(value))


def given_by_step(P: Any, R: Any, allowed: Any, horizon: Any) -> bool:
    """Whether some of these have an axis of steps.

    Rewards that could be `(H, M, S, A)` or, beside a `P` without steps, `(M, S, A, S)` are the
    latter.
    """
    transitions, rewards = shape_of(P), shape_of(R)
    if len(transitions) == 5 or len(rewards) == 5 or axes_of(allowed) == 3:
        return True
    return rewards == (horizon, *transitions[:3]) and rewards != transitions


def row_sizes(w: ArrayLike, nu: ArrayLike, action: ArrayLike, n_actions: int | None) -> Sizes:
    """The sizes of a model that is given outcome by outcome."""
    shape = np.shape(nu)
    if len(shape) == 1:  # the same in every context
        shape = (np.size(w), *shape)
    if len(shape) != 2 or 0 in shape:
        raise ModelError(f"nu must have the shape (M, S), none of them 0; it is {shape}")
    if n_actions is None:
        n_actions = int(np.max(np.asarray(action), initial=-1)) + 1
    return Sizes(shape[0], shape[1], n_actions)


def row_columns(
    sizes: Sizes,
    context: ArrayLike,
    state: ArrayLike,
    action: ArrayLike,
    next: ArrayLike,
    prob: ArrayLike,
    reward: ArrayLike,
    step: ArrayLike | None = None,
    horizon: int = 0,
) -> list[Any]:
    """One array for each of these, the step the last one if it is given; all of one length."""
    columns: list[Any] = [
        canonical.integers("context", context, sizes.M),
        canonical.integers("state", state, sizes.S),
        canonical.integers("action", action, sizes.A),
        canonical.integers("next", next, sizes.S),
        np.atleast_1d(canonical.floats("prob", prob)),
        np.atleast_1d(canonical.floats("reward", reward)),
    ]
    names = "context, state, action, next, prob, reward"
    if step is not None:
        columns.append(canonical.integers("step", step, horizon))
        names += ", step"
    lengths = [len(x) for x in columns]
    if len(set(lengths)) != 1 or lengths[0] == 0:
        raise ModelError(f"{names} must have one length, not 0; they have {lengths}")
    return columns


def checked_start(
    sizes: Sizes, w: ArrayLike, nu: ArrayLike, repairs: Repairs
) -> tuple[Floats, Floats]:
    """Weights `(M,)` and first states `(M, S)`, which sum to 1."""
    M, S, _ = sizes
    w, nu = canonical.floats("w", w), canonical.floats("nu", nu)
    if nu.shape == (S,):  # the same in every context
        nu = np.tile(nu, (M, 1))
    if w.shape != (M,):
        raise ModelError(f"w must have the shape ({M},), one weight per context; it is {w.shape}")
    if nu.shape != (M, S):
        raise ModelError(f"nu must have the shape ({M}, {S}); it is {nu.shape}")
    return canonical.distributions("w", w, repairs), canonical.distributions("nu", nu, repairs)


def checked_totals(
    sizes: Sizes, rows: Rows, nu: Floats, horizon: int, discount: float, limit: float | None
) -> tuple[float, float]:
    """Bounds on an episode's total reward: `(0, limit)`, checked, or without one what they are."""
    if limit is None:
        low, high = (extreme_totals(sizes, rows, nu, horizon, discount, sign) for sign in (-1, 1))
        limits = float(low.min()), float(high.max())
        if not np.isfinite(limits).all():
            raise ModelError("the total reward of an episode must stay below the largest float")
        return limits
    if not 0.0 <= limit < np.inf:
        raise ModelError(f"max_return must be finite and at least 0; it is {limit}")
    high = np.full(sizes.M, horizon * float(rows.reward.max()))  # often this bound is enough
    if not high[0] <= limit:  # nor where it is nan: no rewards, no last step
        high = extreme_totals(sizes, rows, nu, horizon, discount, 1)
    steps = horizon if math.isfinite(horizon) else discounted_steps(horizon, discount)
    _check_rewards(sizes, rows, high, steps, limit)
    return 0.0, limit


def _check_rewards(sizes: Sizes, rows: Rows, high: Floats, steps: float, limit: float) -> None:
    """Non-negative rewards and totals of at most `limit`, or a sentence that says where not."""
    if (rows.reward < 0).any():
        i = int(np.argmax(rows.reward < 0))
        row = int(np.searchsorted(rows.indptr, i, side="right")) - 1
        m, sa = divmod(row, sizes.S * sizes.A)
        raise ModelError(
            f"{canonical.at('R', [m, *divmod(sa, sizes.A)])} must be at least 0; "
            f"it is {float(rows.reward[i])} (max_return=None accepts any finite rewards)"
        )
    slack = canonical.sum_tolerance(steps) * max(1.0, limit)
    if (high > limit + slack).any():
        m = int(np.argmax(high > limit + slack))
        raise ModelError(
            f"the total reward of an episode must be at most max_return={limit:g}; context {m} can "
            f"reach {float(high[m])} (scale the rewards, or use max_return=None and normalized())"
        )
