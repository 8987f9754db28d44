"""The picture of a policy at one step: arrows on a grid, else a table of states and actions."""

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.drawing.canvas import BLUE, FAINT, action_name, drawn, new_axes, state_name
from latentmdp.drawing.grid import cell_font, draw_grid, grid_places
from latentmdp.errors import ModelError
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.belief import reach_weights
from latentmdp.policy.graph import PolicyGraph, fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_ROWS = 30


def draw_policy(
    model: LatentMDP, policy: PolicyGraph, step: int, ax: "Axes | None" = None
) -> "Axes":
    """The actions of the policy at this step (from 0) and the probability of each state.

    A policy with memory may play several actions in one state: the length of an arrow shows the
    share of its action. Grey: the default action in states that have probability 0 at this step.
    For an infinite horizon: the actions of all steps and the discounted share of each state;
    `step` is 0.
    """
    policy = fitted(model, policy)
    if policy.stationary and step != 0:
        raise ModelError(f"step must be 0: a stationary policy has one rule for all; it is {step}")
    if not 0 <= step < policy.H:
        raise ModelError(f"step must be between 0 and {policy.H - 1}; it is {step}")
    share = action_shares(model, policy, step)
    default = policy.action[policy.default[step]]
    model = model.mean_over_steps()
    when = "at every step" if policy.stationary else f"at step {step} (from 0)"
    if model.layout is not None:
        return _arrows(model, share, default, when, ax)
    return _table(model, share, when, ax)


def action_shares(model: LatentMDP, policy: PolicyGraph, step: int) -> np.ndarray:
    """P(in state s and playing action a at this step), (S, A); discounted shares of all steps."""
    policy = fitted(model, policy)
    reach = reach_weights(model, policy).sum(axis=1)
    if policy.stationary:
        reach *= 1.0 - model.discount
    at_step = policy.step == step
    share = np.zeros((model.S, model.A))
    np.add.at(share, (policy.state[at_step], policy.action[at_step]), reach[at_step])
    return share


def action_directions(model: LatentMDP) -> np.ndarray:
    """The usual displacement of each action on the grid, (A, 2) as (x, y); 0 if there is none."""
    place = grid_places(model)
    assert model.layout is not None
    on_grid = np.array(model.layout.positions)[:, 0] >= 0
    rows = np.repeat(np.arange(model.M * model.S * model.A), np.diff(model.indptr))
    _, s, a = np.unravel_index(rows, (model.M, model.S, model.A))
    move = np.where((on_grid[s] & on_grid[model.next])[:, None], place[model.next] - place[s], 0.0)
    total = np.zeros((model.A, 2))
    listed = model.listed_rows[rows]
    np.add.at(total, a[listed], (move * model.prob[:, None])[listed])
    length = np.hypot(*total.T)
    weak = length < 1e-3 * max(length.max(), 1e-300)
    return np.where(weak[:, None], 0.0, total / np.where(weak, 1.0, length)[:, None])


def _arrows(
    model: LatentMDP, share: np.ndarray, default: np.ndarray, when: str, ax: "Axes | None"
) -> "Axes":
    from matplotlib.patches import Rectangle

    ax = draw_grid(model, None, ax, corner_marks=True)
    place, direction = grid_places(model), action_directions(model)
    assert model.layout is not None
    font = min(10.0, cell_font(model))
    there = share.sum(axis=1)
    darkest = max(there.max(), 1e-300)
    for s, (r, _) in enumerate(model.layout.positions):
        x, y = place[s]
        if r < 0:
            if there[s] > 0 and np.isfinite(x):
                ax.text(x + 0.55, y, f"{there[s]:.0%}", va="center", fontsize=8, color=BLUE)
            continue
        if there[s] > 0:
            depth = 0.12 + 0.5 * there[s] / darkest
            ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fc=BLUE, alpha=depth, zorder=1.5))
        parts = share[s] / there[s] if there[s] > 0 else np.eye(model.A)[default[s]]
        for a in np.flatnonzero(parts):
            dx, dy = direction[a] * 0.42 * np.sqrt(parts[a])
            back = 0.5 if parts[a] == 1.0 else 0.0  # a lone arrow sits in the middle of its cell
            colour = BLUE if there[s] > 0 else FAINT
            if dx == dy == 0:
                name = drawn(action_name(model, int(a)))
                ax.text(x, y + 0.3, name, ha="center", fontsize=7, color=colour)
                continue
            ax.annotate(
                "",
                xy=(x + (1 - back) * dx, y + (1 - back) * dy),
                xytext=(x - back * dx, y - back * dy),
                zorder=6,
                arrowprops={
                    "arrowstyle": "-|>", "color": colour, "lw": 0.14 * font,
                    "shrinkA": 0, "shrinkB": 0, "mutation_scale": 0.9 * font,
                },
            )  # fmt: skip
    ax.set_title(f"policy {when}; shade: how likely it is to be there", fontsize=10)
    return ax


def _table(model: LatentMDP, share: np.ndarray, when: str, ax: "Axes | None") -> "Axes":
    shown = np.argsort(-share.sum(axis=1), kind="stable")
    shown = np.sort(shown[: max(1, min(_MAX_ROWS, int((share.sum(axis=1) > 0).sum())))])
    actions = np.flatnonzero(share.sum(axis=0) > 0)
    actions = np.arange(model.A) if model.A <= 20 or actions.size == 0 else actions[:_MAX_ROWS]
    ax = ax or new_axes(6.4, 1.8 + 0.28 * shown.size)
    ax.imshow(share[np.ix_(shown, actions)], cmap="Blues", vmin=0, aspect="auto")
    names = [drawn(action_name(model, int(a))) for a in actions]
    ax.set_xticks(range(actions.size), names, rotation=90)
    ax.set_yticks(range(shown.size), [drawn(state_name(model, int(s))) for s in shown])
    ax.tick_params(labelsize=8)
    limit = share.max() * 0.6
    for i, s in enumerate(shown):
        for j, a in enumerate(actions):
            if model.allowed is not None and not model.allowed[s, a]:
                ax.text(j, i, "×", ha="center", va="center", fontsize=7, color=FAINT)
            if share[s, a] >= 0.0005:
                colour = "white" if share[s, a] > limit else "black"
                ax.text(
                    j, i, f"{share[s, a]:.1%}", ha="center", va="center", fontsize=7, color=colour
                )
    crossed = model.allowed is not None and not model.allowed[np.ix_(shown, actions)].all()
    note = " (×: unavailable)" if crossed else ""
    ax.set_title(f"policy {when}: how likely state and action are{note}", fontsize=10)
    return ax
