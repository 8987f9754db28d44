"""A model as the page needs it: its rows to the bit, names, and where to draw its states."""

import math
from typing import Any

import numpy as np

from latentmdp.drawing.diagram import diagram_places
from latentmdp.drawing.policies import action_directions
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.time_augmented import step_dependent
from latentmdp.report.encode import pack_real, pack_whole, rounded

MAX_DIAGRAM = 40  # states; beyond that the page draws the neighbourhood of the current one


def world(model: LatentMDP, optimum: float | None = None) -> dict[str, Any]:
    """Everything of the model; the page can write it out again as a file for `lm.load`.

    `optimum`: an upper bound on what any policy earns in an episode, with memory too.
    Of a time-augmented model the page shows the states of the step-dependent one (`statesPerStep`).
    """
    drawn = step_dependent(model).mean_over_steps()
    layout = drawn.layout
    data: dict[str, Any] = {
        "M": model.M,
        "S": model.S,
        "A": model.A,
        "H": model.H,
        "statesPerStep": None if model.augmented is None else model.augmented.states,
        "w": model.w.tolist(),
        "nu": pack_real(model.nu),
        "discount": model.discount,
        "observeRewards": model.observe_rewards,
        "returnLimit": model.return_limit,
        "rewardScale": model.reward_scale,
        "rewardShift": model.reward_shift,
        "optimum": None if optimum is None or not math.isfinite(optimum) else optimum,
        "rewardsOnTransitions": model.rewards_on_transitions,
        "length": pack_whole(np.diff(model.indptr)),
        "next": pack_whole(model.next),
        "symbol": pack_whole(model.symbol),
        "prob": pack_real(model.prob),
        "reward": pack_real(model.reward),
        "stateNames": _names(model.state_names),
        "actionNames": _names(model.action_names),
        "contextNames": _names(model.context_names),
        "layout": None,
        "places": None,
        "allowed": None if model.allowed is None else pack_whole(model.allowed.astype(int)),
    }
    if layout is not None:
        data["layout"] = {
            "shape": list(layout.shape),
            "positions": [list(cell) for cell in layout.positions],
            "walls": [list(cell) for cell in layout.walls],
            "marks": None if layout.marks is None else [list(marks) for marks in layout.marks],
            "directions": [rounded(d, 4) for d in action_directions(drawn)],
        }
    elif drawn.S <= MAX_DIAGRAM:
        data["places"] = [rounded(place, 4) for place in _places(drawn)]
    return data


def _places(model: LatentMDP) -> np.ndarray:
    """Columns by distance from the start; a circle where nearly all would stand in one column."""
    places = diagram_places(model, None)
    used = np.flatnonzero(np.isfinite(places[:, 0]))
    tallest = np.unique(places[used, 0], return_counts=True)[1].max()
    if tallest <= max(4, len(used) // 2):
        return places
    angle = 2 * np.pi * np.arange(len(used)) / len(used) - np.pi / 2
    radius = max(1.0, 1.15 * len(used) / (2 * np.pi))
    places[used] = radius * np.stack([1.25 * np.cos(angle), np.sin(angle)], axis=1)
    return places


def _names(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names]
