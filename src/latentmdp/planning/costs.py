"""Minimising costs is maximising their negatives."""

from dataclasses import replace

from latentmdp.model import LatentMDP


def negated(model: LatentMDP) -> LatentMDP:
    """The model with every reward negated; observations keep their symbols.

    A policy of one is a policy of the other, with the negative value.
    """
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
