"""Scaling plots of a study: points and fitted slopes, one panel per size that was varied."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from latentmdp.report.encode import rounded
from latentmdp.report.html import Figure, count, section, table, tag
from latentmdp.report.study import Study, Varied


def scaling_data(studies: Sequence[Study]) -> list[list[dict[str, Any]]]:
    """What the page's charts need, by study and panel."""
    return [
        [_panel(varied, study.algorithms) for varied in study.varied] for study in studies
    ]  # fmt: skip


def _panel(varied: Varied, algorithms: Sequence[str]) -> dict[str, Any]:
    """Per algorithm: its points, their geometric mean at each size, and the fitted line's ends."""
    series = []
    for name in varied.algorithms:
        points = [p for p in varied.points if p.algorithm == name and p.regret > 0]
        if not points:
            continue
        at = {x: [p.regret for p in points if p.x == x] for x in sorted({p.x for p in points})}
        fit = varied.fit(name)
        series.append({
            "name": name,
            "number": algorithms.index(name),
            "x": list(at),
            "y": rounded([math.exp(np.mean(np.log(found))) for found in at.values()]),
            "low": rounded([min(found) for found in at.values()]),
            "high": rounded([max(found) for found in at.values()]),
            "dots": [[p.x, *rounded([p.regret]), p.seed] for p in points],
            "exponent": None if fit is None else fit.exponent,
            "line": None if fit is None else _line(points, fit.exponent),
        })  # fmt: skip
    first = next(iter(series), None)
    slope = varied.theorem_exponent
    reference = None
    if first is not None and slope is not None:
        drawn = [p for p in varied.points if p.algorithm == first["name"] and p.regret > 0]
        ends = [p.x for p in varied.points if p.regret > 0]
        reference = {"slope": slope, "line": _line(drawn, slope, ends)}
    return {"parameter": varied.parameter, "label": _heading(varied), "series": series,
            "reference": reference}  # fmt: skip


def _line(points: Sequence[Any], slope: float, ends: Sequence[float] = ()) -> dict[str, Any]:
    """The line of this slope through the points' centre of mass, on logarithmic axes."""
    x, y = (np.log([getattr(p, name) for p in points]) for name in ("x", "regret"))
    over = np.array([min(ends or np.exp(x)), max(ends or np.exp(x))])
    height = np.exp(y.mean() + slope * (np.log(over) - x.mean()))
    return {"x": rounded(over, 12), "y": rounded(height)}


def scaling_section(studies: Sequence[Study]) -> Markup:
    """Tables of exponents and the places of the charts."""
    parts: list[Any] = [
        tag("p", "How regret grows when one size of the problem grows. Each dot is one run; lines "
                 "are fitted on logarithmic axes, so that their slope is the exponent. The dashed "
                 "line has the theorem's slope and is drawn through the first learner's points. "
                 "The theorem is an upper bound: a smaller exponent does not contradict it.")
    ]  # fmt: skip
    for i, study in enumerate(studies):
        if len(studies) > 1:
            parts.append(tag("h3", study.title))
        parts += [_exponents(study), *_panels(i, study), *_made(i, study)]
    return section("scaling", "Scaling", *parts)


def _exponents(study: Study) -> Markup:
    rows = [
        (_heading(varied), _power(varied.theorem_exponent),
         *(_interval(varied, name) for name in study.algorithms))
        for varied in study.varied
    ]  # fmt: skip
    headers = ("size varied", "theorem", *study.algorithms)
    return table(f"Exponents with 95% intervals, {study.title}", headers, rows)


def _heading(varied: Varied) -> str:
    """`K: worst gap`, or the label alone where it begins with what is varied."""
    label = varied.label
    return label if label.startswith(varied.parameter) else f"{varied.parameter}: {label}"


def _power(exponent: float | None) -> Figure:
    return Figure("–" if exponent is None else f"{exponent:.4g}".replace("-", "−"))


def _interval(varied: Varied, algorithm: str) -> Figure:
    fit = varied.fit(algorithm)
    if fit is None:
        return Figure("–")
    slope, low, high = (f"{x:z.2f}".replace("-", "−") for x in (fit.exponent, fit.low, fit.high))
    return Figure(f"{slope} ({low} to {high})")


def _panels(i: int, study: Study) -> list[Markup]:
    panels = []
    for j, varied in enumerate(study.varied):
        none = sum(p.regret <= 0 for p in varied.points)
        words = [varied.model, varied.note]
        if none:
            words.append(
                f"{count(none, 'run')} without regret cannot stand on a logarithmic axis and "
                "is left out." if none == 1 else
                f"{count(none, 'run')} without regret cannot stand on a logarithmic axis and are "
                "left out."
            )  # fmt: skip
        panels.append(tag(
            "div", tag("h3", _heading(varied)), tag("div", id=f"chart-scaling-{i}-{j}"),
            *(tag("p", text, class_="small soft") for text in words if text), class_="panel",
        ))  # fmt: skip
    return [tag("div", *panels, class_="panels")]


def _made(i: int, study: Study) -> list[Markup]:
    """How the study was made, and how to make it again."""
    runs = sum(len(varied.points) for varied in study.varied)
    took = f"{study.seconds / 60:.1f} minutes" if study.seconds >= 120 else f"{study.seconds:.1f} s"
    versions = ", ".join(f"{name} {found}" for name, found in study.versions.items())
    block = tag("pre", study.command, id=f"again-{i}", tabindex=0)
    button = tag("button", "copy", type="button", data_copy=f"again-{i}")
    return [
        tag("p", f"{count(runs, 'run')} in {took}, made by"),
        tag("div", block, button, class_="copy"),
        tag("p", f"Versions: {versions}.", class_="small soft") if versions else Markup(""),
    ]


def study_lead(studies: Sequence[Study]) -> str:
    """One sentence of what was measured."""
    runs = sum(len(varied.points) for study in studies for varied in study.varied)
    sizes = list(dict.fromkeys(v.parameter for study in studies for v in study.varied))
    names = list(dict.fromkeys(name for study in studies for name in study.algorithms))
    return (
        f"How the regret of {', '.join(names)} grows with {', '.join(sizes)}: {count(runs, 'run')}."
    )
