"""Models of either kind, ordinary or step-dependent, by one name: what each part needs of both."""

from typing import Any

from latentmdp.errors import ModelError
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.timed import TimedLatentMDP

AnyModel = LatentMDP | TimedLatentMDP


def ordinary(model: AnyModel) -> LatentMDP:
    """The model itself, or the time-augmented one of a step-dependent model."""
    return model.unrolled if isinstance(model, TimedLatentMDP) else model


def folded(model: LatentMDP) -> AnyModel:
    """What a person sees of the model: the step-dependent one, if it is its time-augmented model.

    (Terminal rewards are then part of those of the last step.)
    """
    if model.fold is None:
        return model
    names = model.state_names
    if names is not None:
        names = tuple(name.removesuffix("@0") for name in names[: model.fold.states])
    return TimedLatentMDP(model, model, None, names, model.fold.layout)


def place(model: AnyModel, step: Any, state: Any) -> Any:
    """The number of a state at a step in `ordinary(model)`; arrays too."""
    return model.place(step, state) if isinstance(model, TimedLatentMDP) else state


def pictured(model: AnyModel) -> LatentMDP:
    """The model itself, or what pictures show of a step-dependent one."""
    return model.mean_over_steps() if isinstance(model, TimedLatentMDP) else model


def refuse_timed(model: Any, what: str) -> None:
    """Refuse a step-dependent model in a sentence that names the remedy."""
    if isinstance(model, TimedLatentMDP):
        raise ModelError(
            f"{what} needs a model that does not change with the step; this one does (use "
            "model.unrolled, the same problem with the step in the state; latentmdp learn has "
            "--unroll for it, a study unroll = true)"
        )
