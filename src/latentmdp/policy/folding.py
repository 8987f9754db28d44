"""The border between step-dependent models and what works on their time-augmented ones."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from latentmdp.model.either_kind import AnyModel
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.timed import TimedLatentMDP
from latentmdp.policy.graph import PolicyGraph, as_policy, fitted
from latentmdp.policy.policy_fold import unfold

Result = TypeVar("Result")


def on_rows(model: AnyModel, policy: Any) -> tuple[LatentMDP, PolicyGraph]:
    """An ordinary model and a policy that fits it, with the nodes of `as_policy(model, policy)`."""
    policy = as_policy(model, policy)
    if isinstance(model, TimedLatentMDP):
        return model.unrolled, unfold(model, policy)
    return model, policy


def fold_by_step(model: TimedLatentMDP, values: np.ndarray) -> np.ndarray:
    """Of values `(H or H+1, ..., H*S)` by step and numbered state those that can be, `(..., S)`."""
    S = model.S
    picked = [values[t][..., model.place(t, 0) : model.place(t, S)] for t in range(len(values))]
    return np.ascontiguousarray(np.stack(picked))


def folding(function: Callable[..., PolicyGraph]) -> Callable[..., PolicyGraph]:
    """A function of a model that gives a policy, for step-dependent models too."""

    @wraps(function)
    def call(model: Any, *arguments: Any, **options: Any) -> PolicyGraph:
        if isinstance(model, TimedLatentMDP):
            return fitted(model, function(model.unrolled, *arguments, **options))
        return function(model, *arguments, **options)

    return call
