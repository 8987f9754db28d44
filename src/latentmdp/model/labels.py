"""What a model carries besides numbers: names, a layout, units, and where it comes from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from latentmdp.csr import Ints
from latentmdp.errors import ModelError
from latentmdp.model.rows import Sizes

LABELS = (
    "state_names", "action_names", "context_names", "reading_names", "layout", "reward_scale",
    "reward_shift", "origin", "augmented",
)  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """Where states lie on a grid, for drawing.

    `positions[s] = (row, column)`, `(-1, -1)` for a state that is not on the grid; `walls` are
    blocked cells; `marks[m]` are the states to mark in context `m` (a maze's goals).
    """

    shape: tuple[int, int]
    positions: tuple[tuple[int, int], ...]
    walls: tuple[tuple[int, int], ...] = ()
    marks: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        rows, columns = (int(i) for i in self.shape)
        object.__setattr__(self, "shape", (rows, columns))
        for name in ("positions", "walls", "marks"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, tuple(tuple(int(i) for i in x) for x in value))
        for name in ("positions", "walls"):
            for i, cell in enumerate(getattr(self, name)):
                on_grid = len(cell) == 2 and 0 <= cell[0] < rows and 0 <= cell[1] < columns
                if not on_grid and not (name == "positions" and cell == (-1, -1)):
                    raise ModelError(
                        f"layout.{name}[{i}] must lie on the {rows} x {columns} grid; it is {cell}"
                    )


@dataclass(frozen=True)
class Origin:
    """Which state of a POMDP a context and a state stand for; `.policyx` files speak of those."""

    state: Ints  # (M, S), or -1 where there is none
    hidden: int  # joint values of what is not fully observable: state % hidden


@dataclass(frozen=True)
class TimeAugmented:
    """Of a time-augmented model: `(step, state)` has the number `step * states + state`."""

    states: int  # of the step-dependent model
    layout: Layout | None = None  # and where they lie


class Labels(TypedDict, total=False):
    """What a model may carry besides numbers. The last four are for files and transforms."""

    state_names: Sequence[str] | None
    action_names: Sequence[str] | None
    context_names: Sequence[str] | None
    reading_names: Sequence[str] | None
    layout: Layout | None
    reward_scale: float
    reward_shift: float
    origin: Origin | None
    augmented: TimeAugmented | None


def check_labels(
    sizes: Sizes, readings: int, horizon: int, labels: Mapping[str, Any]
) -> dict[str, Any]:
    """The labels of a model of these sizes; unknown ones and misfits are refused."""
    for name in labels:
        if name not in LABELS:
            raise ModelError(f"the labels are {', '.join(LABELS)}; not {name!r}")
    checked = dict(labels)
    counts = (*sizes, readings)
    kinds = ("context_names", "state_names", "action_names", "reading_names")
    for name, count in zip(kinds, counts, strict=True):
        names: Sequence[str] | None = labels.get(name)
        if names is not None:
            checked[name] = checked_names(name, names, count)
    scale, shift = labels.get("reward_scale", 1.0), labels.get("reward_shift", 0.0)
    if not (scale > 0.0 and math.isfinite(scale)):
        raise ModelError(f"reward_scale must be a finite number above 0; it is {scale!r}")
    if not math.isfinite(shift):
        raise ModelError(f"reward_shift must be a finite number; it is {shift!r}")
    check_layout(labels.get("layout"), sizes)
    augmented = labels.get("augmented")
    if augmented is not None:
        if not isinstance(augmented, TimeAugmented) or augmented.states * horizon != sizes.S:
            raise ModelError(
                f"augmented must say how many of the {sizes.S} states there are at each of "
                f"{horizon} steps; it is {augmented!r}"
            )
        check_layout(augmented.layout, sizes._replace(S=augmented.states))
    return checked


def checked_names(what: str, names: Sequence[str], count: int) -> tuple[str, ...]:
    """So many strings."""
    found = tuple(names)
    if len(found) != count or not all(isinstance(x, str) for x in found):
        raise ModelError(f"{what} must be {count} strings; found {len(found)} items")
    return found


def check_layout(layout: Any, sizes: Sizes) -> None:
    """Refuse a layout that is not one of a model of these sizes."""
    if layout is None:
        return
    if not isinstance(layout, Layout) or len(layout.positions) != sizes.S:
        raise ModelError(f"layout must be a Layout with {sizes.S} positions, one per state")
    if layout.marks is not None and len(layout.marks) != sizes.M:
        raise ModelError(f"layout.marks must have {sizes.M} entries, one per context")
    if any(not 0 <= s < sizes.S for states in layout.marks or () for s in states):
        raise ModelError(f"layout.marks must be states from 0 to {sizes.S - 1}")
