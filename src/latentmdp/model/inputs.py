"""What is given for a model, read and checked: outcomes, weights, first states, totals."""

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model import rows as canonical
from latentmdp.model.availability import mask_by_step
from latentmdp.model.horizons import checked_whole, discounted_steps, is_infinite
from latentmdp.model.repair import Repairs
from latentmdp.model.rows import Outcomes, Rows, Sizes
from latentmdp.model.shapes import axes_of
from latentmdp.model.totals import extreme_totals

MOST_ROWS = 2**26  # of a step-dependent model


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
    **more: tuple[ArrayLike | None, int],
) -> dict[str, Any]:
    """One array for each of these, all of one length.

    `more`: other whole numbers, with what they must be below; None where they are not given.
    """
    columns: dict[str, Any] = {
        "context": canonical.integers("context", context, sizes.M),
        "state": canonical.integers("state", state, sizes.S),
        "action": canonical.integers("action", action, sizes.A),
        "next": canonical.integers("next", next, sizes.S),
        "prob": np.atleast_1d(canonical.floats("prob", prob)),
        "reward": np.atleast_1d(canonical.floats("reward", reward)),
    }
    for name, (values, below) in more.items():
        if values is not None:
            columns[name] = canonical.integers(name, values, below)
    lengths = [len(x) for x in columns.values()]
    if len(set(lengths)) != 1 or lengths[0] == 0:
        raise ModelError(f"{', '.join(columns)} must have one length, not 0; they have {lengths}")
    return columns


def checked_steps(horizon: Any) -> int:
    """The horizon of a step-dependent model."""
    if is_infinite(horizon):
        raise ModelError("a step-dependent model must have a finite horizon; it is inf")
    return checked_whole("horizon", horizon, 1)


def listed_outcomes(
    columns: tuple[ArrayLike, ...],
    w: ArrayLike,
    nu: ArrayLike,
    horizon: Any,
    step: ArrayLike | None,
    reading: ArrayLike | None,
    n_actions: int | None,
    n_readings: int | None,
    allowed: ArrayLike | None,
) -> tuple[Sizes, Outcomes]:
    """Outcomes that are given one by one; see `LatentMDP.from_rows`.

    `columns`: context, state, action, next, prob, reward.
    """
    sizes = row_sizes(w, nu, columns[2], n_actions)
    M, S, A = sizes
    by_step = step is not None or axes_of(allowed) == 3
    steps = checked_steps(horizon) if by_step else 1
    if by_step and steps * M * S * A > MOST_ROWS:
        raise ModelError(
            f"a step-dependent model must have at most {MOST_ROWS} rows; its {steps} steps, {M} "
            f"contexts, {S} states and {A} actions make {steps * M * S * A}"
        )
    if reading is not None and n_readings is None:
        n_readings = int(np.max(np.asarray(reading), initial=0)) + 1
    readings = 1 if n_readings is None else checked_whole("n_readings", n_readings, 1)
    c = row_columns(sizes, *columns, step=(step, steps), reading=(reading, readings))
    if step is not None:
        _check_every_step(c["step"], steps)
    elif by_step:  # the same outcomes at every step
        length = len(c["prob"])
        c = {name: np.tile(values, steps) for name, values in c.items()}
        c["step"] = np.repeat(np.arange(steps), length)
    row = (c["context"] * S + c["state"]) * A + c["action"]
    if by_step:
        row = c["step"] * (M * S * A) + row
    return sizes, Outcomes(
        row, c["next"], c["prob"], c["reward"], mask_by_step(allowed, steps, S, A), steps,
        c.get("reading"), readings,
    )  # fmt: skip


def _check_every_step(step: Ints, horizon: int) -> None:
    missing = np.bincount(step, minlength=horizon) == 0
    if missing.any():
        raise ModelError(
            f"every step from 0 to {horizon - 1} must have outcomes; step "
            f"{int(np.argmax(missing))} has none"
        )


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


def checked_terminal(sizes: Sizes, terminal: ArrayLike | None, horizon: int) -> Floats | None:
    """Rewards after the last step, `(M, S)`."""
    if terminal is None:
        return None
    after = canonical.floats("terminal", terminal)
    if after.shape != (sizes.M, sizes.S):
        raise ModelError(
            f"terminal must have the shape ({sizes.M}, {sizes.S}); it is {after.shape}"
        )
    if is_infinite(horizon):
        raise ModelError("a model with terminal rewards must have a finite horizon; it is inf")
    return after


def checked_totals(
    sizes: Sizes,
    rows: Rows,
    nu: Floats,
    horizon: int,
    discount: float,
    limit: float | None,
    terminal: Floats | None = None,
) -> tuple[float, float]:
    """Bounds on an episode's total reward: `(0, limit)`, checked, or without one what they are."""
    extreme = partial(extreme_totals, sizes, rows, nu, horizon, discount, terminal=terminal)
    if limit is None:
        low, high = extreme(-1), extreme(1)
        limits = float(low.min()), float(high.max())
        if not np.isfinite(limits).all():
            raise ModelError("the total reward of an episode must stay below the largest float")
        return limits
    if not 0.0 <= limit < np.inf:
        raise ModelError(f"max_return must be finite and at least 0; it is {limit}")
    high = np.full(sizes.M, horizon * float(rows.reward.max()))  # often this bound is enough
    if terminal is not None or not high[0] <= limit:  # nor where it is nan: no rewards, no end
        high = extreme(1)
    steps = horizon if math.isfinite(horizon) else discounted_steps(horizon, discount)
    _check_rewards(sizes, rows, horizon, terminal, discount)
    _check_limit(high, steps, limit)
    return 0.0, limit


def with_terminal(reward: Floats, after: Floats) -> Floats:
    """Rewards of the last step with what comes `after` it; rounding error around 0 is 0."""
    total = reward + after
    scale = max(np.abs(reward).max(), np.abs(after).max())
    total[(after != 0.0) & (np.abs(total) <= 2.0**-50 * scale)] = 0.0
    return total


def last_rewards(
    sizes: Sizes, rows: Rows, terminal: Floats | None, discount: float
) -> tuple[Floats, int]:
    """Rewards of the last step's outcomes with what comes after it, and where these begin."""
    M, S, A = sizes
    first = int(rows.indptr[-1 - M * S * A])
    reward = rows.reward[first:]
    if terminal is None:
        return reward, first
    context = np.repeat(np.arange(M * S * A) // (S * A), np.diff(rows.indptr[-1 - M * S * A :]))
    return with_terminal(reward, discount * terminal[context, rows.next[first:]]), first


def _check_rewards(
    sizes: Sizes, rows: Rows, horizon: int, terminal: Floats | None, discount: float
) -> None:
    """Non-negative rewards, those of the last step with what comes after it."""
    M, S, A = sizes
    last, first = last_rewards(sizes, rows, terminal, discount)
    by_step = first > 0
    earlier = rows.reward[:first] if by_step else rows.reward if horizon > 1 else last[:0]
    if terminal is None:
        earlier, last = rows.reward, last[:0]
    for reward, begin, where in ((earlier, 0, ""), (last, first, " with what comes after it")):
        if not (reward < 0).any():
            continue
        i = int(np.argmax(reward < 0))
        row = int(np.searchsorted(rows.indptr, begin + i, side="right")) - 1
        step, place = divmod(row, M * S * A)
        m, sa = divmod(place, S * A)
        at_step = f"at step {step}: " * by_step
        where = where * (terminal is not None)
        raise ModelError(
            f"{at_step}{canonical.at('R', [m, *divmod(sa, A)])}{where} must be at least 0; "
            f"it is {float(reward[i])} (max_return=None accepts any finite rewards)"
        )


def _check_limit(high: Floats, steps: float, limit: float) -> None:
    """Totals of at most `limit`, or a sentence that says in which context they are larger."""
    slack = canonical.sum_tolerance(steps) * max(1.0, limit)
    if (high > limit + slack).any():
        m = int(np.argmax(high > limit + slack))
        raise ModelError(
            f"the total reward of an episode must be at most max_return={limit:g}; context {m} can "
            f"reach {float(high[m])} (scale the rewards, or use max_return=None and normalized())"
        )
