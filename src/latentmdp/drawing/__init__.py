"""Pictures of models and policies, on Matplotlib axes.

Each function draws on the axes given (or on a new figure without pyplot) and returns them; nothing
is shown or saved by itself. The colours are those of Okabe and Ito, safe for colour blindness.
Matplotlib loads slowly, so it is imported inside the functions that draw.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from latentmdp.drawing.canvas import write
from latentmdp.drawing.diagram import draw_diagram, draw_matrix, is_readable
from latentmdp.drawing.grid import draw_grid
from latentmdp.drawing.policies import draw_policy
from latentmdp.errors import ModelError
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.graph import PolicyGraph

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_model", "draw_policy", "save_picture"]


def draw_model(model: LatentMDP, context: int | None = None, ax: "Axes | None" = None) -> "Axes":
    """The model's picture: its grid, else a diagram of its states, else a transition matrix.

    `context=None` shows all contexts together (candidate goals on a grid, else the mixture, whose
    probabilities and rewards are averages by weight), a number that context alone. A step-dependent
    model is averaged over its steps.
    """
    if model.steps > 1:
        ax = draw_model(model.mean_over_steps(), context, ax)
        ax.set_title(f"{ax.get_title()}\naverage of its steps", fontsize=10)
        return ax
    if context is not None and not 0 <= context < model.M:
        raise ModelError(f"context must be between 0 and {model.M - 1}; it is {context}")
    if model.layout is not None:
        return draw_grid(model, context, ax)
    if is_readable(model, context):
        return draw_diagram(model, context, ax)
    return draw_matrix(model, context, ax)


def save_picture(
    model: LatentMDP,
    path: str | Path,
    policy: PolicyGraph | None = None,
    step: int = 0,
    context: int | None = None,
) -> Path:
    """Write a picture file (png, svg or pdf by ending) of the model or of a policy at one step."""
    ax = draw_model(model, context) if policy is None else draw_policy(model, policy, step)
    return write(ax.get_figure(root=True), path)
