"""A step-dependent model with the step in its state: what learners take."""

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.model.inputs import with_terminal
from latentmdp.model.labels import TimeAugmented

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP


def time_augmented(model: "LatentMDP") -> "LatentMDP":
    """See `LatentMDP.time_augmented`. After the last step the state stays in the last layer."""
    M, S, A, H = *model.sizes, model.H
    c = model.outcome_columns()
    copies = H if model.steps == 1 else 1
    step = np.repeat(np.arange(H), len(c["step"])) if copies > 1 else c["step"]
    context, state, action, following, prob, reward, reading = (
        np.tile(c[name], copies)
        for name in ("context", "state", "action", "next", "prob", "reward", "reading")
    )
    if model.terminal is not None:
        last = step == H - 1
        after = model.discount * model.terminal[context[last], following[last]]
        reward[last] = with_terminal(reward[last], after)
    nu = np.zeros((M, H * S))
    nu[:, :S] = model.nu
    allowed, names = model.allowed, model.state_names
    if allowed is not None:
        allowed = np.broadcast_to(allowed, (H, S, A)).reshape(-1, A)
    if names is not None:
        names = tuple(f"{name}@{t}" for t in range(H) for name in names)
    return model.from_rows(
        context, step * S + state, action, np.minimum(step + 1, H - 1) * S + following, prob,
        reward, model.w, nu, H, n_actions=A, allowed=allowed,
        reading=reading if model.readings > 1 else None,
        n_readings=model.readings if model.readings > 1 else None,
        observe_rewards=model.observe_rewards, discount=model.discount,
        max_return=model.return_limit, state_names=names, action_names=model.action_names,
        context_names=model.context_names, reading_names=model.reading_names,
        reward_scale=model.reward_scale, reward_shift=model.reward_shift,
        augmented=TimeAugmented(S, model.layout),
    )  # fmt: skip


def step_dependent(model: "LatentMDP") -> "LatentMDP":
    """The model itself, or the step-dependent one whose time-augmented model it is.

    Terminal rewards stay part of those of the last step.
    """
    if model.augmented is None:
        return model
    S, names = model.augmented.states, model.state_names
    c = model.outcome_columns()
    step, state = np.divmod(c["state"], S)
    allowed = model.allowed
    return model.from_rows(
        c["context"], state, c["action"], c["next"] % S, c["prob"], c["reward"], model.w,
        model.nu[:, :S], model.H, step=step, n_actions=model.A,
        reading=c["reading"] if model.readings > 1 else None,
        n_readings=model.readings if model.readings > 1 else None,
        allowed=None if allowed is None else allowed.reshape(model.H, S, model.A),
        observe_rewards=model.observe_rewards, discount=model.discount,
        max_return=model.return_limit, action_names=model.action_names,
        state_names=names and [name.removesuffix("@0") for name in names[:S]],
        context_names=model.context_names, reading_names=model.reading_names,
        layout=model.augmented.layout, reward_scale=model.reward_scale,
        reward_shift=model.reward_shift,
    )  # fmt: skip
