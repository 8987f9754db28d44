"""A model with the last reward and reading in its state: learning takes it where these vary.

A state is written once for every symbol with which it can be entered. The agent sees as much as
before, so that values, and what memory can do, stay the same.
"""

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.model.labels import Layout

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP


def rewards_in_state(model: "LatentMDP") -> "LatentMDP":
    """See `LatentMDP.rewards_in_state`."""
    symbols = int(model.symbol.max()) + 1
    entered = model.next * symbols + model.symbol
    never_entered = np.setdiff1d(np.arange(model.S), model.next)
    looks = np.unique(np.append(entered, never_entered * symbols))  # (V,) state and symbol
    state = looks // symbols
    first = np.searchsorted(state, np.arange(model.S))  # (S,) the look as a first state
    nu = np.zeros((model.M, len(looks)))
    nu[:, first] = model.nu
    row = np.repeat(np.arange(len(model.indptr) - 1), np.diff(model.indptr))
    pair, action = np.divmod(row, model.A)
    place, before = np.divmod(pair, model.S)
    step, context = np.divmod(place, model.M)
    copies = np.bincount(state, minlength=model.S)[before]  # looks that share an outcome
    i = np.repeat(np.arange(len(row)), copies)
    rank = np.arange(len(i)) - np.repeat(np.cumsum(copies) - copies, copies)
    names = model.state_names
    kind = "reward" if model.readings == 1 else "observation"
    if names is not None:
        several = np.bincount(state)[state] > 1
        number = np.arange(len(looks)) - first[state]
        names = tuple(
            f"{names[s]}, {kind} {n}" if many else names[s]
            for s, n, many in zip(state.tolist(), number.tolist(), several.tolist(), strict=True)
        )
    return model.from_rows(
        context[i], first[before[i]] + rank, action[i], np.searchsorted(looks, entered)[i],
        model.prob[i], model.reward[i], model.w, nu, model.horizon, n_actions=model.A,
        step=None if model.steps == 1 else step[i],
        terminal=None if model.terminal is None else model.terminal[:, state],
        allowed=None if model.allowed is None else model.allowed[..., state, :],
        observe_rewards=model.observe_rewards, discount=model.discount,
        max_return=model.return_limit, state_names=names, action_names=model.action_names,
        context_names=model.context_names, layout=_layout(model, state),
        reward_scale=model.reward_scale, reward_shift=model.reward_shift,
    )  # fmt: skip


def _layout(model: "LatentMDP", state: np.ndarray) -> Layout | None:
    """Each look at the place of its state."""
    layout = model.layout
    if layout is None:
        return None
    marks = layout.marks
    if marks is not None:
        found = (np.flatnonzero(np.isin(state, marked)).tolist() for marked in marks)
        marks = tuple(tuple(marked) for marked in found)
    positions = tuple(layout.positions[s] for s in state.tolist())
    return Layout(layout.shape, positions, layout.walls, marks)
