"""Axes, colours, names and files, shared by all pictures."""

from pathlib import Path
from typing import TYPE_CHECKING

from latentmdp.errors import ModelError, printable
from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.runtime.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
PALETTE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
PINK = "#F4C3A8"  # vermillion, lighter
WALL, LINE, FAINT, PAPER = "#3C4048", "#B8BDC4", "#8A9099", "#FFFFFF"

PICTURE_ENDINGS = (".png", ".svg", ".pdf")


def new_axes(width: float = 6.4, height: float = 5.2) -> "Axes":
    """Axes on a figure of their own, outside pyplot's list of open figures."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def write(figure: "Figure | None", path: str | Path) -> Path:
    """Save the figure, all or nothing."""
    assert figure is not None
    path = Path(path)
    if path.suffix.lower() not in PICTURE_ENDINGS:
        raise ModelError(
            f"a picture's name must end in {', '.join(PICTURE_ENDINGS)}; it is {path.name!r}"
        )
    if not path.parent.is_dir():
        raise ModelError(f"the folder of the picture must exist; {path.parent} does not")
    ending = path.suffix.lower().removeprefix(".")
    write_atomically(path, lambda file: figure.savefig(file, format=ending))
    return path


def state_name(model: LatentMDP, state: int) -> str:
    """The state's name, or its number."""
    return printable(model.state_names[state]) if model.state_names else str(state)


def action_name(model: LatentMDP, action: int) -> str:
    """The action's name, or its number."""
    return printable(model.action_names[action]) if model.action_names else str(action)


def context_name(model: LatentMDP, context: int) -> str:
    """The context's name, or its number."""
    return printable(model.context_names[context]) if model.context_names else f"context {context}"


def drawn(text: str) -> str:
    """The text with `$` escaped, so that Matplotlib does not read a formula."""
    return text.replace("$", r"\$")


def mark_letter(index: int) -> str:
    """A, B, ..., Z, then nothing: the label of a candidate goal."""
    return chr(ord("A") + index) if index < 26 else ""


def sizes_title(model: LatentMDP, context: int | None) -> str:
    """One line of sizes for a picture's title."""
    contexts = (
        _count(model.M, "context") if context is None else drawn(context_name(model, context))
    )
    sizes = (
        _count(model.S, "state"),
        _count(model.A, "action"),
        ("no last step" if is_infinite(model.horizon) else _count(model.H, "step")),
    )
    return ", ".join((contexts, *sizes))


def averaged_title(model: LatentMDP, context: int | None) -> str:
    """The sizes, and that several contexts are averaged."""
    line = sizes_title(model, context)
    several = context is None and model.M > 1
    return f"{line}\naverage of the contexts by their weights" if several else line


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
