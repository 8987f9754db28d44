"""Values with intervals as one picture: a dot and a bar for each, below one another."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from latentmdp.report.html import number, tag
from latentmdp.report.static_chart import Axis

WIDTH, ROW, TOP, BOTTOM, LABELS = 720, 38, 8, 30, 250


def interval_chart(rows: Sequence[tuple[str, float, float, float]], description: str) -> Markup:
    """`rows` are `(name, value, lower, upper)`; needs no JavaScript."""
    ends = np.array([[low, high, value] for _, value, low, high in rows], dtype=np.float64)
    low, high = float(ends.min()), float(ends.max())
    room = 0.06 * (high - low) or max(abs(high), 1.0) * 0.05
    axis = Axis(False, low - room, high + room, LABELS, WIDTH - 20)
    bottom = TOP + ROW * len(rows)
    marks = []
    for value, place in zip(axis.ticks(), axis.place(axis.ticks()), strict=True):
        marks.append(tag("path", d=f"M{place:.1f} {TOP}V{bottom}", class_="gridline"))
        words = number(float(f"{value:.6g}"))
        marks.append(tag("text", words, x=f"{place:.1f}", y=bottom + 18, text_anchor="middle"))
    for i, (name, value, lower, upper) in enumerate(rows):
        y = TOP + ROW * i + ROW / 2
        x, a, b = axis.place(np.array([value, lower, upper]))
        tone = f"var(--c{i % 8})"
        marks.append(tag("text", name, x=LABELS - 12, y=y + 4, text_anchor="end"))
        bar = tag("path", d=f"M{a:.1f} {y}H{b:.1f}", stroke=tone, stroke_width=5,
                  stroke_opacity="0.4", stroke_linecap="round")  # fmt: skip
        dot = tag("circle", cx=f"{x:.1f}", cy=y, r=5.5, fill=tone)
        title = tag("title", f"{name}: {number(value)}, {number(lower)} to {number(upper)}")
        marks.append(tag("g", title, bar, dot))
    picture = tag(
        "svg", *marks, viewBox=f"0 0 {WIDTH} {bottom + BOTTOM}", role="img", aria_label=description
    )
    return tag("div", picture, class_="chart")
