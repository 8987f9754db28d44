"""Pictures of models without a grid: a layered diagram of states, or a transition matrix."""

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.drawing.canvas import (
    BLUE,
    FAINT,
    PALETTE,
    PAPER,
    PINK,
    WALL,
    YELLOW,
    action_name,
    averaged_title,
    drawn,
    new_axes,
    state_name,
)
from latentmdp.drawing.grid import start_states
from latentmdp.model.latent_mdp import LatentMDP

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_STATES = 40
_MAX_EDGES = 90
_MAX_LABELS = 24


def is_readable(model: LatentMDP, context: int | None) -> bool:
    """Whether a diagram with this many states and arrows can be read."""
    if model.S > _MAX_STATES:
        return False
    edges = {(s, n) for s, _, n, _ in _edges(model, context)}
    return len(edges) <= min(_MAX_EDGES, 4 * model.S)


def draw_diagram(model: LatentMDP, context: int | None = None, ax: "Axes | None" = None) -> "Axes":
    """States in columns by distance from the start; arrows in the colour of their action.

    Grey arrows are the same for all actions; wider arrows are more likely. Yellow states have an
    action with a positive reward; in pink ones every action costs. States that no episode visits
    are left out. All contexts together are their mixture: probabilities and rewards averaged by
    weight.
    """
    ax = ax or new_axes(8.0, 5.2)
    place = diagram_places(model, context)
    visited = np.flatnonzero(np.isfinite(place[:, 0]))
    ax.axis("off")
    ax.set_aspect("equal")
    edges = [edge for edge in _edges(model, context) if np.isfinite(place[edge[0], 0])]
    size = 20 if np.ptp(place[visited, 1]) <= 9 else 12
    for s, a, n, p in edges:
        _arrow(ax, tuple(place[s]), tuple(place[n]), a, p, size)
    if sum(p < 1 for *_, p in edges) <= _MAX_LABELS:
        for s, a, n, p in edges:
            if p < 1 and s != n:
                _label(ax, place[s], place[n], a, p)

    best = _best_reward(model, context)
    fills = np.where(best > 0, YELLOW, np.where(best < 0, PINK, PAPER))
    starts = set(start_states(model, context).tolist())
    for s in visited.tolist():
        colour, edge = (BLUE, 2.4) if s in starts else (WALL, 1.0)
        ax.plot(*place[s], marker="o", ms=size, mfc=str(fills[s]), mec=colour, mew=edge, zorder=3)
        short = len(state_name(model, s)) <= 4
        name = drawn(state_name(model, s))
        ax.annotate(name, place[s], xytext=(0, 0 if short else -17), textcoords="offset points",
                    ha="center", va="center", fontsize=size * 0.4 if short else 7,
                    zorder=4)  # fmt: skip
    _legend(model, {a for _, a, _, _ in edges}, set(fills[visited].tolist()), ax)
    ax.set_xlim(place[visited, 0].min() - 0.5, place[visited, 0].max() + 0.5)
    ax.set_ylim(place[visited, 1].max() + 0.7, place[visited, 1].min() - 0.9)  # first on top
    hidden = model.S - visited.size
    note = f" ({hidden} never visited)" if hidden else ""
    sizes, *average = averaged_title(model, context).split("\n")
    ax.set_title("\n".join([sizes + note, *average]), fontsize=10)
    return ax


def draw_matrix(model: LatentMDP, context: int | None = None, ax: "Axes | None" = None) -> "Axes":
    """P(next state | state) under uniformly random available actions; darker means more likely.

    All contexts together are their mixture, averaged by weight.
    """
    ax = ax or new_axes(6.8, 5.8)
    image = ax.imshow(_mean_matrix(model, context), cmap="Blues", vmin=0, aspect="auto",
                      interpolation="nearest")  # fmt: skip
    if model.S <= 40:
        names = [drawn(state_name(model, s)) for s in range(model.S)]
        size = 8 if model.S <= 20 else 6
        ax.set_xticks(range(model.S), names, rotation=90, fontsize=size)
        ax.set_yticks(range(model.S), names, fontsize=size)
    ax.set_xlabel("next state")
    ax.set_ylabel("state")
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.colorbar(image, ax=ax, label="probability, actions at random", shrink=0.85)
    ax.set_title(averaged_title(model, context), fontsize=10)
    return ax


def diagram_places(model: LatentMDP, context: int | None) -> np.ndarray:
    """Where each state is drawn, (S, 2): columns by steps from the start, rows by neighbours.

    NaN for states that no episode visits.
    """
    follows = np.zeros((model.S, model.S), dtype=bool)
    for s, _, n, _ in _edges(model, context):
        follows[s, n] = s != n
    depth = _depths(follows, start_states(model, context))
    columns = [np.flatnonzero(depth == d) for d in range(depth.max() + 1)]
    place = np.full((model.S, 2), np.nan)
    place[depth >= 0, 0] = depth[depth >= 0]
    for column in columns:
        place[column, 1] = _spread(column.size)
    either = (follows | follows.T) & (depth >= 0)
    for sweep in range(6):  # barycentre heuristic: fewer crossings
        for column in columns if sweep % 2 == 0 else columns[::-1]:
            pull = [place[either[s], 1].mean() if either[s].any() else place[s, 1] for s in column]
            place[column[np.argsort(pull, kind="stable")], 1] = _spread(column.size)
    tallest, across = max(c.size for c in columns), len(columns)
    place[:, 0] *= np.clip(1.5 * (tallest + 1) / across, 1.2, 5.0)  # a picture wider than tall
    return place


def _edges(model: LatentMDP, context: int | None) -> list[tuple[int, int, int, float]]:
    """(state, action, next, probability); of all contexts together the average by weight.

    Action -1 stands for all actions if they do the same, or, if there are more than colours, for
    the one that most likely leads there.
    """
    rows = np.repeat(np.arange(model.M * model.S * model.A), np.diff(model.indptr))
    m, s, a = np.unravel_index(rows, (model.M, model.S, model.A))
    weight = model.w if context is None else np.eye(model.M)[context]
    share = np.where(model.listed_rows[rows], weight[m] * model.prob, 0.0)
    mean = np.zeros((model.S, model.S, model.A))
    np.add.at(mean, (s, model.next, a), share)
    mean = np.where(np.isclose(mean, 1.0, rtol=0.0, atol=1e-12), 1.0, mean)  # 1 but for rounding
    edges = []
    for s_, n_ in np.argwhere(mean.max(axis=2) > 0).tolist():
        available = model.actions_in(s_)
        by_action = mean[s_, n_, available]
        if len(PALETTE) < model.A or (by_action == by_action[0]).all():
            edges.append((s_, -1, n_, float(by_action.max())))
        else:
            pairs = zip(available.tolist(), by_action.tolist(), strict=True)
            edges += [(s_, a_, n_, p) for a_, p in pairs if p > 0]
    return edges


def _mean_matrix(model: LatentMDP, context: int | None) -> np.ndarray:
    rows = np.repeat(np.arange(model.M * model.S * model.A), np.diff(model.indptr))
    m, s, a = np.unravel_index(rows, (model.M, model.S, model.A))
    weight = model.w if context is None else np.eye(model.M)[context]
    matrix = np.zeros((model.S, model.S))
    share = np.full((model.S, model.A), 1.0 / model.A)
    if model.allowed is not None:
        share = model.allowed / model.allowed.sum(axis=1, keepdims=True)
    np.add.at(matrix, (s, model.next), model.prob * weight[m] * share[s, a])
    return matrix


def _best_reward(model: LatentMDP, context: int | None) -> np.ndarray:
    """`(S,)` the largest expected reward of an action; unavailable ones are copies of others."""
    weight = model.w if context is None else np.eye(model.M)[context]
    return np.tensordot(weight, model.row_reward.reshape(model.sizes), axes=1).max(axis=1)


def _depths(follows: np.ndarray, starts: np.ndarray) -> np.ndarray:
    depth = np.full(len(follows), -1)
    depth[starts] = 0
    front = starts
    while front.size:
        reached = follows[front].any(axis=0) & (depth < 0)
        depth[reached] = depth[front[0]] + 1
        front = np.flatnonzero(reached)
    return depth


def _spread(count: int) -> np.ndarray:
    return np.arange(count) - (count - 1) / 2


def _arrow(
    ax: "Axes",
    start: tuple[float, float],
    end: tuple[float, float],
    action: int,
    p: float,
    size: float,
) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.transforms import offset_copy

    colour = PALETTE[action] if action >= 0 else FAINT
    if start == end:  # a loop: a ring that shows from behind the state
        figure = ax.get_figure(root=True)
        above = offset_copy(
            ax.transData, figure, y=0.55 * size + 1.5 * max(action, 0), units="points"
        )
        ax.plot(*start, marker="o", ms=0.55 * size, mfc="none", mec=colour, mew=1.2, zorder=1,
                transform=above)  # fmt: skip
        return
    ax.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=0.45 * size, color=colour, alpha=0.9,
            shrinkA=0.55 * size, shrinkB=0.6 * size, lw=0.6 + 1.6 * p, zorder=2,
            connectionstyle=f"arc3,rad={_bend(action)}",
        )
    )  # fmt: skip


def _label(ax: "Axes", start: np.ndarray, end: np.ndarray, action: int, p: float) -> None:
    """The probability, on the arrow (arc3 is a quadratic curve), each action's at another place."""
    along = 0.3 + 0.14 * max(action, 0) % 0.5
    dx, dy = end - start
    x, y = start + along * (end - start)
    off = 2 * along * (1 - along) * _bend(action)
    colour = PALETTE[action] if action >= 0 else WALL
    ax.text(x - off * dy, y + off * dx, f"{p:.2g}", fontsize=7, color=colour, ha="center",
            va="center", zorder=5, bbox={"fc": PAPER, "ec": "none", "pad": 0.4})  # fmt: skip


def _bend(action: int) -> float:
    return 0.06 + 0.16 * max(action, 0)


def _legend(model: LatentMDP, actions: set[int], fills: set[str], ax: "Axes") -> None:
    from matplotlib.lines import Line2D

    keys = [
        Line2D([], [], color=PALETTE[a], lw=2, label=drawn(action_name(model, a)))
        for a in sorted(actions - {-1})
    ]
    if -1 in actions:
        label = "the likeliest action" if len(PALETTE) < model.A else "any action"
        keys.append(Line2D([], [], color=FAINT, lw=2, label=label))
    keys.append(
        Line2D([], [], ls="", marker="o", mfc=PAPER, mec=BLUE, mew=2.4, ms=9, label="start")
    )
    keys += [
        Line2D([], [], ls="", marker="o", mfc=fill, mec=WALL, ms=9, label=label)
        for fill, label in ((YELLOW, "can pay at once"), (PINK, "every action costs"))
        if fill in fills
    ]
    ax.legend(handles=keys, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=min(len(keys), 6),
              fontsize=8, frameon=False)  # fmt: skip
