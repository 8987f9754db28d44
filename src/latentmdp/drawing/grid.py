"""The picture of a model with a grid layout: cells, walls, start, candidate goals."""

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.drawing.canvas import (
    BLUE,
    FAINT,
    LINE,
    ORANGE,
    PAPER,
    VERMILLION,
    WALL,
    drawn,
    mark_letter,
    new_axes,
    sizes_title,
    state_name,
)
from latentmdp.model.latent_mdp import LatentMDP

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OFF_GRID = 8
"""At most this many states without a cell are drawn, in a row below the grid."""


def draw_grid(
    model: LatentMDP,
    context: int | None = None,
    ax: "Axes | None" = None,
    corner_marks: bool = False,
) -> "Axes":
    """Cells and walls, S for the start, a diamond with a letter for each context's goal.

    `corner_marks` leaves the middle of the cells free for arrows.
    """
    from matplotlib.patches import FancyBboxPatch, Rectangle

    layout = model.layout
    assert layout is not None
    rows, columns = layout.shape
    ax = ax or new_axes(6.0, float(np.clip(6.0 * (rows + 1) / columns, 1.8, 8.0)))
    place = grid_places(model)
    ax.set_aspect("equal")
    ax.axis("off")

    for s, (r, c) in enumerate(layout.positions):
        if (r, c) != (-1, -1):
            ax.add_patch(Rectangle((c - 0.5, r - 0.5), 1, 1, fc=PAPER, ec=LINE, lw=0.8, zorder=1))
        elif np.isfinite(place[s, 0]):
            ax.add_patch(
                FancyBboxPatch(
                    (place[s, 0] - 0.32, place[s, 1] - 0.22), 0.64, 0.44,
                    boxstyle="round,pad=0.08", fc=PAPER, ec=FAINT, lw=0.8, zorder=1,
                )
            )  # fmt: skip
            ax.text(place[s, 0], place[s, 1], drawn(state_name(model, s)), ha="center", va="center",
                    fontsize=min(8.0, cell_font(model)), color=FAINT, zorder=2)  # fmt: skip
    for r, c in layout.walls:
        ax.add_patch(Rectangle((c - 0.5, r - 0.5), 1, 1, fc=WALL, ec=WALL, zorder=2))
    ax.add_patch(
        Rectangle((-0.5, -0.5), columns, rows, fc="none", ec=WALL, lw=2.0, zorder=4, clip_on=False)
    )

    if rows == 1 and columns <= 12:
        for s in np.flatnonzero(np.isfinite(place[:, 0])).tolist():
            name = drawn(state_name(model, s))
            ax.text(place[s, 0], 0.62, name, ha="center", va="top", fontsize=8)
    shift, scale = (-0.33, 0.55) if corner_marks else (0.0, 1.0)
    for x, y in place[start_states(model, context)] + shift:
        ax.text(x, y, "S", ha="center", va="center", color=BLUE, fontweight="bold",
                fontsize=max(cell_font(model), 5) * scale, zorder=3)  # fmt: skip
    _draw_marks(model, context, ax, place + shift, cell_font(model) * scale)

    bottom = np.nanmax(place[:, 1]) if np.isfinite(place).any() else rows - 1
    ax.set_xlim(-0.7, columns - 0.3)
    ax.set_ylim(max(bottom, rows - 1) + 0.7, -0.7)
    ax.set_title(sizes_title(model, context), fontsize=10)
    return ax


def grid_places(model: LatentMDP) -> np.ndarray:
    """Where each state is drawn, (S, 2) as (x, y), y pointing down; NaN if it is not drawn."""
    layout = model.layout
    assert layout is not None
    cell = np.array(layout.positions, dtype=float).reshape(model.S, 2)
    place = cell[:, ::-1].copy()
    off = np.flatnonzero(cell[:, 0] < 0)
    rows, columns = layout.shape
    place[off] = np.nan
    if off.size <= min(_OFF_GRID, columns):
        place[off, 0] = (columns - 1) / 2 + (np.arange(off.size) - (off.size - 1) / 2) * 1.2
        place[off, 1] = rows
    return place


def start_states(model: LatentMDP, context: int | None) -> np.ndarray:
    """The states in which an episode can start."""
    return np.flatnonzero((model.w @ model.nu if context is None else model.nu[context]) > 0)


def _draw_marks(
    model: LatentMDP, context: int | None, ax: "Axes", place: np.ndarray, font: float
) -> None:
    marks = model.layout.marks if model.layout is not None else None
    if marks is None:
        return
    same = len(set(marks)) == 1 and model.M > 1  # no secret: one mark without letter
    chosen = range(model.M) if context is None else [context]
    for m in [0] if same else chosen:
        for s in marks[m]:
            x, y = place[s]
            sure = same or context is not None
            small = font < 5  # too small for letters: a full diamond
            rim = VERMILLION if sure else ORANGE
            fill = rim if sure or small else PAPER
            ax.plot(x, y, marker="D", ms=max(font * 1.55, 4), mfc=fill, mec=rim, mew=font / 8,
                    ls="", zorder=3)  # fmt: skip
            ax.text(x, y, "" if same or small else mark_letter(m), ha="center",
                    va="center_baseline", color=PAPER if sure else WALL, fontsize=font * 0.72,
                    zorder=5, fontweight="bold")  # fmt: skip


def cell_font(model: LatentMDP) -> float:
    """A font size that fits into a cell."""
    assert model.layout is not None
    return float(np.clip(96 / max(model.layout.shape), 3.0, 14.0))
