"""Text and pictures of a running episode. The context is shown only after its end."""

from typing import Any, cast

import numpy as np

from latentmdp.drawing import draw_model
from latentmdp.drawing.canvas import (
    BLUE,
    PAPER,
    action_name,
    context_name,
    drawn,
    mark_letter,
    state_name,
)
from latentmdp.drawing.diagram import diagram_places, is_readable
from latentmdp.drawing.grid import cell_font, grid_places
from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP

_MAX_LISTED = 40


class Renderer:
    """Draws frames of one model; the background of the picture is drawn once and reused."""

    def __init__(self, model: LatentMDP) -> None:
        self.model = model.mean_over_steps()
        self._scenes: dict[int | None, _Scene] = {}

    def text(
        self, state: int, step: int, action: int | None, total: float, context: int | None
    ) -> str:
        """A header line and the grid, or the list of states with the current one in brackets."""
        model = self.model
        lines = [self._headline(state, step, action, total, context)]
        if model.layout is not None:
            lines += _grid_lines(model, state, context)
        elif model.S <= _MAX_LISTED:
            names = [state_name(model, s) for s in range(model.S)]
            lines.append(" | ".join(f"[{n}]" if s == state else n for s, n in enumerate(names)))
        return "\n".join(lines)

    def picture(
        self, state: int, step: int, action: int | None, total: float, context: int | None
    ) -> np.ndarray:
        """(height, width, 3) uint8."""
        if context not in self._scenes:
            self._scenes[context] = _Scene(self.model, context)
        return self._scenes[context].frame(
            state, drawn(self._headline(state, step, action, total, context))
        )

    def _headline(
        self, state: int, step: int, action: int | None, total: float, context: int | None
    ) -> str:
        last = "" if is_infinite(self.model.horizon) else f" of {self.model.H}"
        parts = [f"step {step}{last}"]
        if action is not None:
            parts.append(f"{action_name(self.model, action)} -> {state_name(self.model, state)}")
        else:
            parts.append(f"in {state_name(self.model, state)}")
        parts.append(f"total {total:.3g}")
        if context is not None:
            parts.append(f"it was: {context_name(self.model, context)}")
        return ", ".join(parts)


def _grid_lines(model: LatentMDP, state: int, context: int | None) -> list[str]:
    """`@` the agent, `#` a wall, letters the candidate goals (`*` past 26), `!` the true one."""
    layout = model.layout
    assert layout is not None
    canvas = np.full(layout.shape, " ", dtype="<U1")
    for r, c in layout.positions:
        if r >= 0:
            canvas[r, c] = "."
    for r, c in layout.walls:
        canvas[r, c] = "#"
    marks = layout.marks or ()
    no_secret = len(set(marks)) == 1
    for m, marked in enumerate(marks):
        for s in marked:
            canvas[layout.positions[s]] = "*" if no_secret else mark_letter(m) or "*"
    if marks and context is not None:
        for s in marks[context]:
            canvas[layout.positions[s]] = "!"
    r, c = layout.positions[state]
    if r >= 0:
        canvas[r, c] = "@"
    return [" ".join(row) for row in canvas]


class _Scene:
    """A drawn background and an agent that moves over it."""

    def __init__(self, model: LatentMDP, context: int | None) -> None:
        self.ax = draw_model(model, context if model.layout is not None else None)
        figure = self.ax.get_figure(root=True)
        assert figure is not None
        if model.layout is not None:
            self.place, size = grid_places(model), cell_font(model) * 1.5
            style: dict[str, Any] = {"marker": "o", "mfc": BLUE, "mec": PAPER, "mew": 1.5}
        elif is_readable(model, None):
            self.place, size = diagram_places(model, None), 27.0
            style = {"marker": "o", "mfc": "none", "mec": BLUE, "mew": 4.0}
        else:  # the matrix: an arrow head beside the row of the state
            self.place = np.stack([np.full(model.S, model.S - 0.5), np.arange(model.S)], axis=1)
            size, style = 14.0, {"marker": 8, "mfc": BLUE, "mec": PAPER, "mew": 1.0}
        (self.agent,) = self.ax.plot([], [], ls="", ms=size, zorder=9, clip_on=False, **style)
        self.title = self.ax.title
        self.title.set_text(" ")
        figure.canvas.draw()
        figure.set_layout_engine("none")  # the frame stays where it is
        for artist in (self.agent, self.title):
            artist.set_animated(True)
        self.canvas = cast("Any", figure.canvas)  # Agg's, which can copy regions
        self.canvas.draw()
        self.background = self.canvas.copy_from_bbox(figure.bbox)

    def frame(self, state: int, headline: str) -> np.ndarray:
        self.canvas.restore_region(self.background)
        x, y = self.place[state]
        self.agent.set_data([x], [y])
        self.title.set_text(headline)
        self.ax.draw_artist(self.title)
        self.ax.draw_artist(self.agent)
        return np.asarray(self.canvas.buffer_rgba())[:, :, :3].copy()
