"""Horizons: a number of steps, or `math.inf` for episodes without a last step.

Without a last step values are sums of discounted rewards, so the discount must be below 1. What
counts steps one by one refuses such models, and says how long a finite horizon would do.
"""

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP

MAX_HORIZON = 10**6  # building takes time linear in it
WITHOUT_END = cast(int, math.inf)
"""The horizon of an episode without a last step. (`int` to those who count steps.)"""


def checked_whole(name: str, value: Any, least: int) -> int:
    """The value as a whole number of at least `least`, or a sentence."""
    ok = isinstance(value, (int, np.integer, float, np.floating)) and not isinstance(value, bool)
    if not ok or value != value // 1 or value < least:
        raise ModelError(f"{name} must be a whole number of at least {least}; it is {value!r}")
    return int(value)


def checked_horizon(horizon: Any, discount: float) -> int:
    """The horizon as a whole number, or `math.inf` where the discount allows it."""
    if is_infinite(horizon):
        if discount >= 1.0:
            raise ModelError(
                "the discount must be below 1 where the horizon is infinite, or totals have no "
                f"bound; it is {discount:g} (discount=, --discount)"
            )
        return WITHOUT_END
    steps = checked_whole("horizon", horizon, 1)
    if steps > MAX_HORIZON:
        raise ModelError(f"horizon must be at most {MAX_HORIZON}, or math.inf; it is {steps}")
    return steps


def is_infinite(horizon: Any) -> bool:
    """Whether this horizon is `math.inf`."""
    return isinstance(horizon, (float, np.floating)) and bool(horizon == math.inf)


def needs_finite(model: "LatentMDP", what: str) -> None:
    """Refuse a model without a last step, and name the remedy."""
    if not is_infinite(model.horizon):
        return
    most = max(abs(model.min_return), abs(model.max_return))
    raise ModelError(
        f"{what} needs a finite horizon; the model's is infinite (use model.replace(horizon=H), "
        f"--horizon H: what comes after H steps is worth at most discount**H * max, here "
        f"{model.discount:g}**H * {most:.6g})"
    )


def discounted_steps(horizon: int, discount: float) -> float:
    """What a reward of 1 in every step adds up to."""
    if discount == 1.0:
        return float(horizon)
    tail = 0.0 if is_infinite(horizon) else discount**horizon
    return (1.0 - tail) / (1.0 - discount)
