"""Minimising costs is maximising their negatives."""

from dataclasses import replace
from typing import TypeVar

from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.timed import TimedLatentMDP

Model = TypeVar("Model", LatentMDP, TimedLatentMDP)


def negated(model: Model) -> Model:
    """The model with every reward negated; observations keep their symbols.

    A policy of one is a policy of the other, with the negative value.
    """
    if isinstance(model, TimedLatentMDP):
        terminal = None if model.terminal is None else -model.terminal
        return replace(
            model, layers=negated(model.layers), unrolled=negated(model.unrolled), terminal=terminal
        )
    reward = -model.reward
    reward.flags.writeable = False
    return replace(
        model,
        reward=reward,
        return_limit=None,
        min_return=-model.max_return,
        max_return=-model.min_return,
        reward_shift=-model.reward_shift,
    )
