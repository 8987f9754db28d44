"""Line charts as SVG, drawn here: they need no JavaScript, so a page may have hundreds."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from latentmdp.csr import Floats
from latentmdp.report.html import number, tag

WIDTH, HEIGHT = 440, 280
LEFT, RIGHT, TOP, BOTTOM = 62, 28, 24, 44  # room for the axes
DASHES = ("", "7 3", "2 3", "9 3 2 3")  # with eight colours: 32 kinds of lines
REFERENCE = -1  # the kind of a thin dashed line without dots, for a slope to compare with


class Line(NamedTuple):
    """A curve with an optional band, `(n,)` each; `kind` chooses its colour and dashes.

    `upper`: the truth lies between `y` and this.
    """

    name: str
    kind: int
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    upper: Floats | None = None


class Axis(NamedTuple):
    """From values to places, with its ticks."""

    log: bool
    low: float
    high: float
    start: float
    end: float

    def place(self, values: Floats) -> Floats:
        """Where values stand, in the picture's units."""
        low, high = self._scaled(np.array([self.low, self.high]))
        share = (self._scaled(np.clip(values, self.low, self.high)) - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> Floats:
        """Powers of ten, or round numbers where there are none or one: at most about six."""
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            if last > first:
                every = max(1, math.ceil((last - first + 1) / 6))
                return np.power(10.0, np.arange(first, last + 1, every), dtype=np.float64)
            powers = np.power(10.0, np.arange(first - 1, last + 1), dtype=np.float64)
            found: Floats = np.outer(powers, np.array([1.0, 2.0, 5.0])).ravel()
            found = found[(self.low <= found) & (found <= self.high)]
            if len(found) > 1:
                return found
        rough = (self.high - self.low) / 5
        unit = 10.0 ** math.floor(math.log10(rough))
        step = unit * next(k for k in (1, 2, 5, 10) if k * unit >= rough)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return np.arange(first, last + 1, dtype=np.float64) * step

    def _scaled(self, values: Floats) -> Floats:
        return np.log10(values) if self.log else np.asarray(values, dtype=np.float64)


def line_chart(
    lines: Sequence[Line],
    *,
    x_label: str,
    y_label: str,
    description: str,
    log_x: bool = True,
    log_y: bool = True,
    dots: bool = False,
) -> Markup:
    """A chart of lines and bands; what cannot stand on a logarithmic axis is left out."""
    kept = [_drawable(line, log_x, log_y) for line in lines]
    kept = [line for line in kept if len(line.x)]
    if not kept:
        return tag("p", "There is nothing to draw yet.", class_="soft")
    x = _axis([line.x for line in kept], log_x, LEFT, WIDTH - RIGHT)
    ranges = [v for line in kept for v in (line.y, line.low, line.high, line.upper)
              if v is not None]  # fmt: skip
    y = _axis(ranges, log_y, HEIGHT - BOTTOM, TOP)
    brackets = [line._replace(low=line.y, high=line.upper) for line in kept]
    marks = [_grid(x, y), *(_band(line, x, y, 0.09) for line in brackets)]
    marks += [_band(line, x, y, 0.15) for line in kept]
    marks += [_curve(line, x, y, dots) for line in kept]
    marks += _labels(x_label, y_label)
    picture = tag(
        "svg", *marks, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=description
    )
    return tag("div", picture, class_="chart")


def legend(names: Sequence[str]) -> Markup:
    """Which line is whose, for all charts of a page."""
    items = [
        tag("li", tag("svg", _stroke("path", i, d="M1 5H25"), viewBox="0 0 26 10",
                      aria_hidden="true"), " ", name)
        for i, name in enumerate(names)
    ]  # fmt: skip
    return tag("ul", *items, class_="names")


def _drawable(line: Line, log_x: bool, log_y: bool) -> Line:
    """The points that have a place on the axes; bands end where the axis does."""
    keep = np.isfinite(line.x) & np.isfinite(line.y)
    keep &= (line.x > 0) | (not log_x)
    keep &= (line.y > 0) | (not log_y)
    low, high = line.low, line.high
    upper = None if line.upper is None else line.upper[keep]
    if low is not None and high is not None:
        if log_y:
            low = np.where(low > 0, low, np.where(line.y > 0, line.y, np.nan))
        low, high = low[keep], high[keep]
    return line._replace(x=line.x[keep], y=line.y[keep], low=low, high=high, upper=upper)


def _axis(values: Sequence[Floats], log: bool, start: float, end: float) -> Axis:
    low = min(float(np.min(v)) for v in values)
    high = max(float(np.max(v)) for v in values)
    if not log:
        low = min(low, 0.0)
    if not high > low:
        low, high = (low / 2, high * 2) if log else (low, low + 1.0)
    return Axis(log, low, high, start, end)


def _grid(x: Axis, y: Axis) -> Markup:
    marks = []
    for value, place in zip(x.ticks(), x.place(x.ticks()), strict=True):
        marks.append(_rule(place, y.start, place, y.end))
        marks.append(_text(number(_tidy(value)), place, HEIGHT - BOTTOM + 16, "middle"))
    for value, place in zip(y.ticks(), y.place(y.ticks()), strict=True):
        marks.append(_rule(x.start, place, x.end, place))
        marks.append(_text(number(_tidy(value)), LEFT - 6, place + 4, "end"))
    return tag("g", *marks)


def _tidy(value: float) -> float:
    """Whole numbers as such: 1,000 and not 1000.0."""
    return int(value) if float(value).is_integer() else float(f"{value:.6g}")


def _rule(x1: float, y1: float, x2: float, y2: float) -> Markup:
    return tag("path", d=f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}", class_="gridline")


def _text(words: str, x: float, y: float, anchor: str) -> Markup:
    return tag("text", words, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _labels(x_label: str, y_label: str) -> list[Markup]:
    middle = (LEFT + WIDTH - RIGHT) / 2
    across = tag("text", y_label, x=14, y=14, text_anchor="start")
    return [_text(x_label, middle, HEIGHT - 8, "middle"), across]


def _band(line: Line, x: Axis, y: Axis, opacity: float) -> Markup:
    if line.low is None or line.high is None or len(line.x) < 2:
        return Markup()
    upper = _points(x.place(line.x), y.place(line.high))
    lower = _points(x.place(line.x)[::-1], y.place(line.low)[::-1])
    return tag(
        "path", d=f"M{upper}L{lower}Z", fill=f"var(--c{line.kind % 8})", fill_opacity=f"{opacity}"
    )


def _curve(line: Line, x: Axis, y: Axis, dots: bool) -> Markup:
    px, py = x.place(line.x), y.place(line.y)
    title = tag("title", line.name)
    dots = (dots or len(px) == 1) and line.kind != REFERENCE
    marks = [tag("circle", cx=f"{a:.1f}", cy=f"{b:.1f}", r=3, fill=f"var(--c{line.kind % 8})")
             for a, b in zip(px, py, strict=True)] if dots else []  # fmt: skip
    return tag("g", title, _stroke("path", line.kind, d=f"M{_points(px, py)}"), *marks)


def _stroke(name: str, kind: int, **attributes: str) -> Markup:
    if kind == REFERENCE:
        return tag(name, fill="none", stroke="var(--soft)", stroke_dasharray="5 4", **attributes)
    dashes = DASHES[kind // 8 % len(DASHES)] or None
    return tag(
        name, fill="none", stroke=f"var(--c{kind % 8})", stroke_width=2, stroke_dasharray=dashes,
        **attributes,
    )  # fmt: skip


def _points(x: Floats, y: Floats) -> str:
    return "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))
