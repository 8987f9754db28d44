"""Figures for papers: from tables to Matplotlib axes.

Every function draws on the axes given, or on new ones of a column's width, and returns them.
Nothing is shown; `save` writes vector files (pdf, svg) with text as text. Colours are Okabe and
Ito's, told apart by all eyes, and lines differ in their dashes too.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.drawing.canvas import (
    BLUE,
    FAINT,
    LINE,
    PALETTE,
    VERMILLION,
    drawn,
    new_axes,
    write,
)
from latentmdp.drawing.canvas import action_name as _action_name
from latentmdp.drawing.canvas import context_name as _context_name
from latentmdp.drawing.canvas import state_name as _state_name
from latentmdp.drawing.grid import draw_grid, grid_places
from latentmdp.drawing.policies import action_directions
from latentmdp.errors import ModelError
from latentmdp.experiments.learner_curves import RunCurve, curves_by_learner, is_study
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.belief import reach_weights
from latentmdp.policy.graph import PolicyGraph, fitted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from latentmdp.planning.plan import Plan

ONE_COLUMN = 3.35
"""Inches: a column of a two-column paper."""
TWO_COLUMNS = 6.9
"""Inches: the full width."""
STYLE: Any = {
    "font.size": 8.0, "axes.titlesize": 8.5, "axes.labelsize": 8.0, "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0, "legend.fontsize": 7.0, "lines.linewidth": 1.4, "axes.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "pdf.fonttype": 42,
    "svg.fonttype": "none",
}  # fmt: skip
"""Matplotlib settings of new axes: `with matplotlib.rc_context(plot.STYLE)` for your own."""
DASHES = ("-", (0, (5, 1.6)), (0, (1, 1.3)), (0, (6, 1.5, 1, 1.5)))


def axes(width: float = ONE_COLUMN, height: float | None = None) -> "Axes":
    """New axes on a figure of their own, outside pyplot; sizes in inches."""
    from matplotlib import rc_context  # loads slowly

    with rc_context(STYLE):
        return new_axes(width, 0.68 * width if height is None else height)


def save(ax: "Axes", path: str | Path) -> Path:
    """Write the figure of these axes (pdf, svg or png by ending), atomically."""
    from matplotlib import rc_context  # loads slowly

    with rc_context(STYLE):
        return write(ax.get_figure(root=True), path)


# ---------------------------------------------------------------------- learning


def regret(
    tables: Any,
    ax: "Axes | None" = None,
    *,
    bounds: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    log: bool = True,
) -> "Axes":
    """Cumulative regret over episodes; shaded up to the other end of its bracket.

    `tables`: a run or its table (columns `episode, length, regret`), a study, or its curves
    (`study.curves()`); or a mapping from labels to one run or table or to a list of them (seeds:
    the median with a band from lowest to highest). A study has a line for each learner and problem.
    Where the optimum is open, a second shade reaches from the line to regret against its upper
    bound (`regret_upper`). `bounds`: label to `(episodes, values)`, dashed in grey.
    """
    ax = ax or axes()
    tables = curves_by_learner(tables) if is_study(tables) else tables
    for i, (label, members) in enumerate(_labelled(tables)):
        curves = [_curve(table) for table in members]
        grid = _grid(min(ends[-1] for ends, _, _ in curves))
        values, uppers = (
            np.array([np.interp(grid, curve[0], curve[k]) for curve in curves]) for k in (1, 2)
        )
        middle = np.median(values, axis=0)
        (line,) = ax.plot(grid, middle, **_line_style(i), label=label)
        if (uppers > values).any():
            ax.fill_between(
                grid, middle, np.median(uppers, axis=0), color=line.get_color(), alpha=0.1, lw=0
            )
        if len(values) > 1:
            ax.fill_between(
                grid, values.min(axis=0), values.max(axis=0), color=line.get_color(), alpha=0.18,
                lw=0,
            )  # fmt: skip
    for label, (episodes, limit) in (bounds or {}).items():
        ax.plot(np.asarray(episodes), np.asarray(limit), color=FAINT, ls="--", lw=1.0, label=label)
    ax.set(xlabel="episodes", ylabel=_with_units("regret", tables))
    if log:
        ax.set(xscale="log", yscale="log")
    return _finished(ax)


def _with_units(text: str, things: Any) -> str:
    """`text (units)` for runs or plans that are not in plain rewards; mixed ones are refused."""
    every = things.values() if isinstance(things, Mapping) else [things]
    flat = [x for one in every for x in (one if isinstance(one, (list, tuple)) else [one])]
    found = {getattr(thing, "units", "") for thing in flat}
    if len(found) > 1:
        named = ", ".join(sorted(units or "rewards as given" for units in found))
        raise ModelError(f"what is drawn together must be in the same units; found {named}")
    units = found.pop() if found else ""
    return f"{text} ({units})" if units else text


def _labelled(tables: Any) -> list[tuple[str, list[Any]]]:
    if not isinstance(tables, Mapping):
        tables = {"": tables}
    found = [
        (str(label), list(one) if isinstance(one, (list, tuple)) else [one])
        for label, one in tables.items()
    ]
    if not found or any(not members for _, members in found):
        raise ModelError("there must be at least one table under every label; there is none")
    return found


def _curve(table: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`(episodes, regret, regret_upper)` from (0, 0) on; between the points they are linear."""
    if isinstance(table, RunCurve):
        rows, ends = table.rows, np.asarray(table.rows["episode"])
    else:
        gap = getattr(table, "open_gap", None)
        rows = getattr(table, "table", table)
        missing = [name for name in ("episode", "length", "regret") if name not in rows]
        if missing:
            raise ModelError(f"a table must have episode, length, regret; it lacks {missing}")
        ends = np.asarray(rows["episode"]) + np.asarray(rows["length"]) - 1
        if gap is not None:  # of a run: what is rounding in its upper end is left out
            rows = rows.assign(regret_upper=rows["regret"] + gap * ends)
    regret = np.asarray(rows["regret"], dtype=float)
    upper = np.asarray(rows["regret_upper"], dtype=float) if "regret_upper" in rows else regret
    return np.append(0, ends), np.append(0.0, regret), np.append(0.0, upper)


def _grid(episodes: float) -> np.ndarray:
    both = [np.geomspace(1, episodes, 200), np.linspace(1, episodes, 100)]
    return np.unique(np.rint(np.concatenate(both)))


def scaling(
    table: "pd.DataFrame",
    x: str,
    y: str,
    by: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Points of two columns on logarithmic axes, with the exponent fitted by least squares.

    The legend has the slope and its 95% interval (Student's t on the residuals); `by` splits the
    table into lines.
    """
    ax = ax or axes()
    for name in (x, y, *([by] if by else [])):
        if name not in table:
            raise ModelError(f"the table must have a column {name!r}; it has {list(table)}")
    parts = [("", table)] if by is None else [(str(k), part) for k, part in table.groupby(by)]
    for i, (label, part) in enumerate(parts):
        xs, ys = (np.asarray(part[name], dtype=float) for name in (x, y))
        if not ((xs > 0).all() and (ys > 0).all()):
            raise ModelError(f"{x} and {y} must be above 0 for logarithmic axes")
        style = _line_style(i)
        found = fit_exponent(xs, ys)
        words = f"{label} " if label else ""
        if found is not None:
            slope, half, level = found
            words += f"slope {slope:.2f}" + (f" ± {half:.2f}" if np.isfinite(half) else "")
            ends = np.array([xs.min(), xs.max()])
            ax.plot(ends, np.exp(level) * ends**slope, **style)
        ax.plot(xs, ys, ls="", marker="osD^v"[i % 5], ms=3.5, color=style["color"], label=words)
    ax.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    places = np.unique(np.asarray(table[x], dtype=float))
    if len(places) <= 8:  # the places measured, not multiples of powers of ten
        ax.set_xticks(places, [f"{place:g}" for place in places])
        ax.set_xticks([], minor=True)
    return _finished(ax)


def fit_exponent(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float] | None:
    """`(slope, half its 95% interval, intercept)` of log y on log x; None without two places.

    >>> slope, half, _ = fit_exponent(np.array([1.0, 2.0, 4.0]), np.array([3.0, 6.0, 12.0]))
    >>> round(slope, 9), half < 1e-9
    (1.0, True)
    """
    from scipy import stats  # loads slowly

    if len(np.unique(x)) < 2:
        return None
    fit = stats.linregress(np.log(x), np.log(y))
    half = stats.t.ppf(0.975, len(x) - 2) * fit.stderr if len(x) > 2 else np.inf
    return float(fit.slope), float(half), float(fit.intercept)


# ---------------------------------------------------------------------- planning


def bounds(plan: "Plan | Mapping[str, Plan]", ax: "Axes | None" = None) -> "Axes":
    """Lower and upper bound over time, of one plan or of several by label."""
    ax = ax or axes()
    plans = plan if isinstance(plan, Mapping) else {"": plan}
    for i, (label, one) in enumerate(plans.items()):
        rows = [*((s, low, high) for s, _, low, high in one.history)]
        rows.append((max(one.seconds, rows[-1][0] if rows else 0.0), one.lower, one.upper))
        seconds, low, high = np.array(rows, dtype=float).T
        style = _line_style(i) | {"drawstyle": "steps-post"}
        ax.plot(seconds, low, **style, label=str(label) or "policy found")
        ax.plot(seconds, high, **(style | {"ls": ":"}), label="" if label else "upper bound")
        ax.fill_between(seconds, low, high, step="post", color=style["color"], alpha=0.12, lw=0)
    ax.set(xlabel="seconds", ylabel=_with_units("value", plan))
    return _finished(ax)


# ---------------------------------------------------------------------- episodes


def belief(
    beliefs: ArrayLike,
    ax: "Axes | None" = None,
    *,
    model: LatentMDP | None = None,
    true: int | None = None,
) -> "Axes":
    """Belief over the steps of an episode, stacked: `beliefs (steps, M)`; `true` gets hatched."""
    ax = ax or axes()
    array = np.asarray(beliefs, dtype=float)
    if array.ndim != 2 or not np.allclose(array.sum(axis=1), 1.0):
        raise ModelError(f"beliefs must be (steps, M) with rows that sum to 1; {array.shape} given")
    names = [drawn(_context_name(model, m)) if model else str(m) for m in range(array.shape[1])]
    areas = ax.stackplot(
        np.arange(len(array)), array.T, labels=names, lw=0.4, edgecolor="white",
        colors=[PALETTE[m % len(PALETTE)] for m in range(array.shape[1])],
    )  # fmt: skip
    if true is not None:
        areas[true].set_hatch("//")
    ax.set(xlabel="step", ylabel="belief", xlim=(0, max(len(array) - 1, 1)), ylim=(0, 1))
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=_small(ax))
    return ax


def maze(
    model: LatentMDP,
    policy: PolicyGraph | None = None,
    step: int = 0,
    visits: ArrayLike | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """The grid of a model, with a policy's actions at one step and visits as shades of blue.

    `visits (S,)`, for example a learner's counts, on a logarithmic scale. Arrows are what the
    policy does at its default nodes: all of a Markov policy.
    """
    from matplotlib.patches import Rectangle  # loads slowly

    model = model.mean_over_steps()
    if model.layout is None:
        raise ModelError("maze needs a model with a layout; this one has none")
    rows, columns = model.layout.shape
    ax = ax or axes(ONE_COLUMN, ONE_COLUMN * (rows + 1.2) / columns)
    draw_grid(model, None, ax, corner_marks=policy is not None)
    ax.set_title("")
    place = grid_places(model)
    on_grid = np.array(model.layout.positions)[:, 0] >= 0
    if visits is not None:
        for s, share in enumerate(_shares(model, visits)):
            if share > 0 and on_grid[s]:
                corner = place[s] - 0.5
                ax.add_patch(
                    Rectangle(tuple(corner), 1, 1, fc=BLUE, alpha=0.65 * share, zorder=1.5)
                )
    if policy is not None:
        if policy.stationary and step != 0:
            raise ModelError(f"step must be 0 for a stationary policy; it is {step}")
        if not 0 <= step < policy.H:
            raise ModelError(f"step must be between 0 and {policy.H - 1}; it is {step}")
        moves = action_directions(model)[policy.table[step]]
        size = 0.9 * 72 * _inches(ax) / max(columns, rows + 1)  # a cell, in points
        for s in np.flatnonzero(on_grid & (np.abs(moves).sum(axis=1) > 0)).tolist():
            arrow = {"arrowstyle": "-|>", "color": VERMILLION, "lw": max(0.5, 0.03 * size)}
            arrow |= {"mutation_scale": 0.28 * size, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", xy=tuple(place[s] + 0.3 * moves[s]),
                        xytext=tuple(place[s] - 0.3 * moves[s]), arrowprops=arrow,
                        zorder=6)  # fmt: skip
    return ax


def _shares(model: LatentMDP, visits: ArrayLike) -> np.ndarray:
    """Shades from 0 to 1, by the logarithm of visits."""
    array = np.asarray(visits, dtype=float)
    if array.shape != (model.S,) or not (array >= 0).all():
        raise ModelError(f"visits must be {model.S} numbers of at least 0; {array.shape} given")
    seen = array > 0
    least, most = array[seen].min(initial=np.inf), array.max(initial=0.0)
    if not seen.any() or most == least:
        return seen.astype(float)
    return np.where(
        seen, 0.15 + 0.85 * np.log(np.maximum(array, least) / least) / np.log(most / least), 0.0
    )


def policy_graph(
    policy: PolicyGraph,
    model: LatentMDP | None = None,
    ax: "Axes | None" = None,
    *,
    max_nodes: int = 60,
) -> "Axes":
    """A policy as a graph: a column per step, a dot per node in the colour of its action.

    With a `model`, only what it can reach is drawn, the likeliest `max_nodes`, lines as wide as
    they are likely; without one, all nodes and their own successors.
    """
    ax = ax or axes(TWO_COLUMNS, 3.2)
    weight = np.ones(policy.N)
    if model is not None:
        policy = fitted(model, policy)
        weight = reach_weights(model, policy).sum(axis=1)
    column_of = _columns(policy)
    kept = np.sort(np.argsort(-weight, kind="stable")[:max_nodes])
    kept = kept[weight[kept] > 0]
    place = np.full((policy.N, 2), np.nan)
    for t in np.unique(column_of[kept]):
        column = kept[column_of[kept] == t]
        place[column] = [(t, i - (len(column) - 1) / 2) for i in range(len(column))]
    for n, to, width in _edges(policy, model, kept):
        if np.isfinite(place[to, 0]):
            ax.plot(*zip(place[n], place[to], strict=True), color=LINE, lw=width, zorder=1)
    actions = np.unique(policy.action[kept])
    for i, a in enumerate(actions):
        dots = kept[policy.action[kept] == a]
        name = drawn(_action_name(model, int(a))) if model else f"action {a}"
        ax.scatter(place[dots, 0], place[dots, 1], s=26, color=PALETTE[i % len(PALETTE)],
                   label=name, zorder=2, marker="osD^v*P"[i // len(PALETTE) % 7])  # fmt: skip
    if len(kept) <= 40:
        for n in kept:
            name = drawn(
                _state_name(model, int(policy.state[n])) if model else str(policy.state[n])
            )
            ax.annotate(name, place[n], xytext=(0, 5), textcoords="offset points", ha="center",
                        fontsize=_small(ax) - 1)  # fmt: skip
    left = int((weight > 0).sum()) - len(kept)
    first = "fewest steps from the start" if policy.stationary else "step"
    ax.set(xlabel=first + (f" ({left} unlikelier nodes left out)" if left else ""), yticks=[])
    ax.spines["left"].set_visible(False)
    ax.margins(y=0.14)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=_small(ax))
    return ax


def _columns(policy: PolicyGraph) -> np.ndarray:
    """The step of each node; in a stationary policy how soon it may be reached."""
    if not policy.stationary:
        return policy.step
    far = np.full(policy.N, policy.N)
    far[policy.root] = 0
    owner = np.repeat(np.arange(policy.N), np.diff(policy.indptr))
    for t in range(1, policy.N):
        after = np.append(policy.node[far[owner] == t - 1], policy.default[0])
        new = after[far[after] > t]
        if len(new) == 0 and t > 1:
            break
        far[new] = t
    return far


def _edges(
    policy: PolicyGraph, model: LatentMDP | None, kept: np.ndarray
) -> list[tuple[int, int, float]]:
    """`(node, successor, line width)`."""
    if model is None:
        owner = np.repeat(np.arange(policy.N), np.diff(policy.indptr))
        return [(int(n), int(to), 0.7) for n, to in zip(owner, policy.node, strict=True)]
    g = reach_weights(model, policy)
    flow: dict[tuple[int, int], float] = {}
    for n in kept[~policy.ends_after(policy.step[kept])]:
        for m in np.flatnonzero(g[n]):
            row = model.row(policy.step[n], m, policy.state[n], policy.action[n])
            i = np.arange(model.indptr[row], model.indptr[row + 1])
            successors = policy.successors(np.full(len(i), n), model.symbol[i], model.next[i])
            for to, p in zip(successors, model.prob[i], strict=True):
                flow[int(n), int(to)] = flow.get((int(n), int(to)), 0.0) + g[n, m] * p
    return [(n, to, 0.3 + 2.5 * p) for (n, to), p in flow.items()]


# ---------------------------------------------------------------------- looks


def _line_style(i: int) -> dict[str, Any]:
    return {"color": PALETTE[i % len(PALETTE)], "ls": DASHES[i % len(DASHES)]}


def _finished(ax: "Axes") -> "Axes":
    ax.margins(x=0.02)
    if any(ax.get_legend_handles_labels()[1]):
        ax.legend(frameon=False, fontsize=_small(ax))
    return ax


def _small(ax: "Axes") -> float:
    """A size below that of the axes' labels."""
    return max(5.0, float(ax.xaxis.label.get_fontsize()) - 1.0)


def _inches(ax: "Axes") -> float:
    figure = ax.get_figure(root=True)
    assert figure is not None
    return float(figure.get_size_inches()[0]) * ax.get_position().width


__all__: Sequence[str] = (
    "DASHES", "ONE_COLUMN", "STYLE", "TWO_COLUMNS", "axes", "belief", "bounds", "fit_exponent",
    "maze", "policy_graph", "regret", "save", "scaling",
)  # fmt: skip
