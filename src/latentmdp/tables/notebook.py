"""Small pieces of HTML for notebooks: tables, bars, curves and grids; all text is escaped.

Used by `_repr_html_` of models, plans, evaluations, runs and audits. Pictures are inline SVG in
the colour of the text: no scripts, no downloads.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from latentmdp.errors import printable

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP

WIDTH, HEIGHT, EDGE = 320, 110, 6  # of a picture, in pixels
MOST_ROWS = 12  # of a table; the rest is counted
MOST_POINTS = 400  # of a curve
MOST_CELLS = 400  # of a grid
BLUE, ORANGE = "#2b6cb0", "#c05621"


def text(value: Any) -> str:
    """A formatted value, as escaped HTML text."""
    if isinstance(value, float):
        value = f"{value:.6g}"
    return escape(printable(str(value)))


def page(title: str, *parts: str) -> str:
    """A heading and the parts below it."""
    return f"<div><strong>{text(title)}</strong>{''.join(parts)}</div>"


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]], most: int = MOST_ROWS) -> str:
    """Rows under headers, at most `most`; cells of type `Picture` are not escaped."""
    lines = list(rows)
    head = "".join(f"<th>{text(name)}</th>" for name in headers)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in lines[:most])
    more = f"<div>and {len(lines) - most} more</div>" if len(lines) > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


class Picture(str):
    """SVG that this module made; it is not escaped again."""


def _cell(value: Any) -> str:
    if isinstance(value, Picture):
        return f"<td>{value}</td>"
    side = ' style="text-align:right"' if isinstance(value, (int, float)) else ""
    return f"<td{side}>{text(value)}</td>"


def facts(pairs: Iterable[tuple[str, Any]]) -> str:
    """A table of two columns without a header."""
    left = ' style="text-align:left"'
    body = "".join(
        f"<tr><th{left}>{text(name)}</th><td{left}>{text(value)}</td></tr>" for name, value in pairs
    )
    return f"<table><tbody>{body}</tbody></table>"


def bar(value: float, low: float, high: float, width: int = 120) -> Picture:
    """From zero to a value, on a scale from `low` (at most 0) to `high` (at least 0)."""
    per_unit = width / (high - low) if high > low else 0.0
    end = value if math.isfinite(value) else 0.0
    left, right = sorted(min(max(per_unit * (x - low), 0.0), width) for x in (0.0, end))
    return Picture(
        f'<svg width="{width}" height="12" role="img" aria-label="{text(float(value))}">'
        f'<rect width="{width}" height="12" fill="currentColor" opacity="0.12"/>'
        f'<rect x="{left:.1f}" width="{right - left:.1f}" height="12" fill="{BLUE}"/></svg>'
    )


def curves(
    x: Sequence[float],
    lines: Sequence[tuple[str, Sequence[float]]],
    label: str,
    band: tuple[Sequence[float], Sequence[float]] | None = None,
) -> Picture:
    """Curves over common places `x`, with the ends of both axes written beside them.

    `band`: a lower and an upper curve, shaded in between in the colour of the first line.
    """
    step = max(1, math.ceil(len(x) / MOST_POINTS))
    kept = sorted({*range(0, len(x), step), len(x) - 1}) if len(x) else []
    every = [y for _, y in lines] + list(band or ())
    values = [y[i] for y in every for i in kept if math.isfinite(y[i])]
    if not values:
        return Picture("")
    low, high = min(values), max(values)
    left, right = float(x[kept[0]]), float(x[kept[-1]])
    across = (WIDTH - 2 * EDGE) / ((right - left) or 1.0)
    up = (HEIGHT - 2 * EDGE) / ((high - low) or 1.0)
    drawn = []

    def points(y: Sequence[float], order: Sequence[int]) -> str:
        return " ".join(
            f"{EDGE + (x[i] - left) * across:.1f},{HEIGHT - EDGE - (y[i] - low) * up:.1f}"
            for i in order
            if math.isfinite(y[i])
        )

    if band is not None:
        outline = f"{points(band[1], kept)} {points(band[0], kept[::-1])}"
        drawn.append(f'<polygon points="{outline}" fill="{escape(lines[0][0])}" opacity="0.2"/>')
    for colour, y in lines:
        drawn.append(
            f'<polyline points="{points(y, kept)}" fill="none" stroke="{escape(colour)}"/>'
        )
    ends = f"{text(label)}: {text(float(left))} to {text(float(right))}; "
    ends += f"values {text(float(low))} to {text(float(high))}"
    return Picture(
        f'<div><svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{ends}">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="currentColor" opacity="0.3"/>'
        f"{''.join(drawn)}</svg><div><small>{ends}</small></div></div>"
    )


def model_page(model: "LatentMDP") -> str:
    """A summary of a model: its sizes, its grid and its contexts."""
    names = model.context_names or [str(m) for m in range(model.M)]
    shares = model.w.tolist()
    rows = list(zip(names, shares, (bar(x, 0.0, 1.0) for x in shares), strict=True))
    return page(repr(model), grid(model), table(("context", "weight", ""), rows))


def grid(model: "LatentMDP") -> Picture:
    """A model's layout: walls, marked states (the letter of their context), first states."""
    layout = model.layout
    if layout is None or layout.shape[0] * layout.shape[1] > MOST_CELLS:
        return Picture("")
    rows, columns = layout.shape
    side = max(10, min(24, WIDTH // max(columns, 1)))
    first = {int(s) for m in range(model.M) for s in model.nu[m].nonzero()[0]}
    letters: dict[int, str] = {}
    for m, states in enumerate(layout.marks or ()):
        for s in states:
            letters[s] = "*" if s in letters else (chr(65 + m) if m < 26 else "*")
    drawn = []
    for s, (r, c) in enumerate(layout.positions):
        if r >= 0:
            colour, opacity = (BLUE, 0.35) if s in first else ("currentColor", 0.06)
            drawn.append(_square(r, c, side, colour, opacity, letters.get(s, "")))
    drawn += [_square(r, c, side, "currentColor", 0.6, "") for r, c in layout.walls]
    return Picture(
        f'<div><svg width="{columns * side}" height="{rows * side}" role="img" aria-label="grid">'
        f"{''.join(drawn)}</svg></div>"
    )


def _square(r: int, c: int, side: int, colour: str, opacity: float, letter: str) -> str:
    x, y = c * side, r * side
    mark = (
        f'<text x="{x + side / 2}" y="{y + side * 0.72}" font-size="{side * 0.6:.0f}" '
        f'text-anchor="middle" fill="{ORANGE}">{text(letter)}</text>'
        if letter
        else ""
    )
    return (
        f'<rect x="{x}" y="{y}" width="{side - 1}" height="{side - 1}" fill="{colour}" '
        f'opacity="{opacity}"/>{mark}'
    )
