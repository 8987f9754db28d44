"""The page of a study: regret by problem in small charts, tables to sort, who beats whom, profiles.

Everything is made from the study's two tables (`Study.table`, `Study.curves`); charts are SVG that
is drawn here, so the page opens at once also with thousands of runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from latentmdp.errors import ModelError
from latentmdp.experiments.compare import (
    by_problem,
    compare_all,
    group_columns,
    performance_profile,
    problem_words,
    with_learners,
)
from latentmdp.experiments.exponents import exponents, swept_numbers
from latentmdp.experiments.study_run import bracket_of, is_number
from latentmdp.learning.regret import RegretBracket
from latentmdp.model.units import USER, USER_WORDS
from latentmdp.report.frame import render_page
from latentmdp.report.html import Figure, count, number, section, table, tag
from latentmdp.report.sections import exactness, open_words
from latentmdp.report.static_chart import REFERENCE, Line, legend, line_chart
from latentmdp.runtime.files import PathLike, write_atomically, writer_of

if TYPE_CHECKING:
    import pandas as pd

BAND = (0.1, 0.9)  # quantiles over seeds
MOST_PAIRS = 28  # of learners that are compared: all pairs of eight
SHORT = 24  # rows of a table of medians that comes first; a longer one comes after the charts
MOST_RUNS = 5000  # rows of the table of single runs
LOWER_ENDS = " Where the optimum is open, this is about the lower ends of the brackets."
NEED = "Sorting and filtering need JavaScript; charts, tables and text do not."


def write_study_page(
    path: PathLike,
    runs: pd.DataFrame,
    curves: pd.DataFrame,
    *,
    title: str,
    notes: Sequence[str] = (),
    about: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> None:
    """Write the page of a study's finished runs. `notes`: sentences about the rest of it.

    `about`: what the study's file says of its tasks (`StudySpec.about`).
    """
    if not len(runs):
        raise ModelError("a study's page needs at least one finished run; there is none yet")
    if not {"algorithm", "seed", "regret"} <= set(runs.columns):
        raise ModelError(
            "the runs of a study's page must be learners', or of functions with an algorithm and a "
            "regret; these are not"
        )
    finished = len(runs)
    runs = with_learners(runs[runs["algorithm"].notna() & runs["regret"].notna()])
    if not len(runs):
        raise ModelError("a study's page needs at least one run with a regret; there is none")
    if len(runs) < finished:
        others = count(finished - len(runs), "run")
        notes = [*notes, f"{others} of functions without an algorithm or a regret are not on this "
                         "page; `latentmdp study table` writes them"]  # fmt: skip
    if len(curves):  # runs of functions may have none; a learner has one name in all parts
        curves = curves.assign(learner=curves["id"].map(runs.set_index("id")["learner"]))
        curves = curves[curves["learner"].notna()]
    groups = _telling(runs)
    names = list(dict.fromkeys(runs["learner"]))
    lead = (
        f"{count(len(names), 'learner')} on {count(_problems(runs, groups), 'problem')}, "
        f"{count(runs['seed'].nunique(), 'seed')}, {count(len(runs), 'run')} in all. "
    )
    brackets = [bracket_of(row) for row in runs.to_dict("records")]
    closed = all(bracket.exact for bracket in brackets)
    told = exactness(closed)
    lead += told[0].upper() + told[1:]
    if any(bracket.wide for bracket in brackets):
        lead += " Some brackets are wider than a tenth of the regret."
    runs = runs.assign(regret_upper=[bracket.upper for bracket in brackets])
    for units in sorted(set(runs.get("units", ())) - {""}):
        words = USER_WORDS if units == USER else units
        lead += f" Those of normalised models are in {words}."
    medians, length = _summary(runs, groups)
    short = [tag("ul", *(tag("li", note) for note in notes))] if notes else []
    if length <= SHORT:
        short.append(medians)
    parts = [("short", "In short", section("short", "In short", *short))] if short else []
    if len(curves):
        parts.append(("regret", "Regret", _regret(curves, groups, names, closed)))
    swept = swept_numbers(runs)
    if swept:
        parts.append(("scaling", "Scaling", _scaling(runs, swept, names, about, closed)))
    if len(names) > 1 and runs["seed"].nunique() > 1:
        parts.append(("compare", "Who beats whom", _comparisons(runs, groups, names)))
    if len(names) > 1 and _problems(runs, groups) > 1:
        parts.append(("profile", "Profiles", _profiles(runs, names, closed)))
    if length > SHORT:
        parts.append(("medians", "Medians", section("medians", "Medians", medians)))
    parts.append(("runs", "All runs", _all_runs(runs, groups)))
    html = render_page(title, lead, parts, {}, ("study", "theme"), NEED)
    write_atomically(path, writer_of(html.encode("utf-8")))


def _telling(runs: pd.DataFrame) -> list[str]:
    """The model or task, and the other columns that tell problems apart in this study."""
    columns = group_columns(runs)
    return [c for c in columns if c in ("model", "task") or runs[c].nunique(dropna=False) > 1]


def _problems(runs: pd.DataFrame, groups: Sequence[str]) -> int:
    return len(runs[list(groups)].drop_duplicates())


def _summary(runs: pd.DataFrame, groups: Sequence[str]) -> tuple[Markup, int]:
    """Median and spread over seeds, a row for each problem and learner; and how many rows."""
    further = [c for c in ("final_value", "seconds") if c in runs and runs[c].notna().any()]
    rows = []
    for key, part in runs.groupby([*groups, "learner"], sort=False, dropna=False):
        ends = part[["regret", "regret_upper"]]
        rows.append((
            label(groups, key[:-1]), key[-1], len(part),
            *(Figure(RegretBracket(*end).text(number))
              for end in (ends.median(), ends.min(), ends.max())),
            *(Figure(_median(part[column])) for column in further),
        ))  # fmt: skip
    headers = ["problem", "learner", "seeds", "regret", "lowest", "highest"]
    headers += [column.replace("_", " ") for column in further]
    return _sortable("Median over seeds, by problem and learner", headers, rows), len(rows)


def _median(values: pd.Series) -> str:
    """For people; a dash where no run has a value."""
    middle = float(values.median())
    return "–" if math.isnan(middle) else f"{middle:.6g}"


def _regret(
    curves: pd.DataFrame, groups: Sequence[str], names: Sequence[str], closed: bool
) -> Markup:
    """A small chart for each problem: the median over seeds, a band, the shade of the bracket."""
    words = (
        "Regret is what was lost against the best known policy of the same class, summed over all "
        "episodes; lines are medians over seeds, bands hold the middle 80% of them. On these axes "
        "a line that bends down to level has found the best policy."
    )
    if not closed:
        words += " " + open_words()
    panels = []
    groups = [name for name in groups if name in curves]
    for key, part in curves.groupby(groups, sort=False, dropna=False):
        heading = label(groups, key)
        real = part.assign(regret=_without_rounding(part))
        lines = [_median_line(real, name, i) for i, name in enumerate(names)]
        chart = line_chart(
            [line for line in lines if line is not None], x_label="episodes", y_label="regret",
            description=f"Regret over episodes: {heading}",
        )  # fmt: skip
        panels.append(tag("div", tag("h3", heading), chart, class_="panel", data_filter=heading))
    search = _search("charts", "Show problems with", "regret-panels")
    shown = tag("div", *panels, class_="panels", id="regret-panels")
    return section("regret", "Regret", tag("p", words), legend(names), search, shown)


def _without_rounding(part: pd.DataFrame) -> pd.Series:
    """Regret with 0 where it is rounding error, which would stretch a logarithmic axis.

    Values are exact to about 1e-15 of what an episode can lose.
    """
    loss = (part["regret"] / part["episode"]).max()
    return part["regret"].where(part["regret"] > loss * (1e-12 + 1e-15 * part["episode"]), 0.0)


def _median_line(part: pd.DataFrame, name: str, kind: int) -> Line | None:
    found = part[part["learner"] == name]
    if not len(found):
        return None
    by_point = found.groupby("episode")["regret"]
    middle, low, high = (by_point.quantile(q) for q in (0.5, *BAND))
    x = middle.index.to_numpy(dtype=np.float64)
    band = (low.to_numpy(), high.to_numpy()) if found["seed"].nunique() > 1 else (None, None)
    upper = None
    if "regret_upper" in found and (found["regret_upper"] > found["regret"]).any():
        upper = found.groupby("episode")["regret_upper"].quantile(0.5).to_numpy()
    return Line(name, kind, x, middle.to_numpy(), *band)._replace(upper=upper)


def _scaling(
    runs: pd.DataFrame,
    swept: Sequence[str],
    names: Sequence[str],
    about: Mapping[str, Mapping[str, Any]],
    closed: bool,
) -> Markup:
    """Exponents of regret in each numeric key that was swept."""
    words = (
        "How regret grows with a size that was swept: the slope on logarithmic axes, fitted for "
        "each seed; the exponent is their mean, with Student's 95% interval over seeds. Dots are "
        "geometric means over seeds, bands go from the lowest to the highest."
    )
    if any("exponent" in one for one in about.values()):
        words += (
            " The dashed line has the theorem's slope and is drawn through the first learner's "
            "points. The theorem is an upper bound: a smaller exponent does not contradict it."
        )
    words += LOWER_ENDS * (not closed)
    parts: list[Any] = [tag("p", words), legend(names)]
    for key in swept:
        others = [name for name in _telling(runs) if name != key]
        found = exponents(runs, key)
        rows: list[tuple[Any, ...]] = [
            (label(others, row[others]), row["learner"], int(row["seeds"]),
             _power(_told(about, row).get("exponent")), _power(row["exponent"]),
             Figure("–" if row["seeds"] < 2 else f"{row['lower']:.3f} to {row['upper']:.3f}"))
            for _, row in found.iterrows()
        ]  # fmt: skip
        panels = []
        for place, part in runs[(runs["regret"] > 0) & runs[key].notna()].groupby(
            others, sort=False, dropna=False
        ):
            heading, told = label(others, place), _told(about, part.iloc[0])
            size = told.get("size", key)
            lines = [_by_size(part, key, name, i) for i, name in enumerate(names)]
            if "exponent" in told:
                lines.append(_of_slope(told["exponent"], next(a for a in lines if len(a.x))))
            chart = line_chart(
                lines, x_label=size, y_label="regret", dots=True,
                description=f"Regret by {size}: {heading}",
            )  # fmt: skip
            texts = [told[name] for name in ("setting", "note") if name in told]
            below = (tag("p", text, class_="small soft") for text in texts)
            panels.append(tag("div", tag("h3", heading), chart, *below, class_="panel"))
        headers = ["problem", "learner", "seeds", "theorem", "exponent", "interval"]
        if not any("exponent" in one for one in about.values()):
            headers.remove("theorem")
            rows = [(*row[:3], *row[4:]) for row in rows]
        parts += [tag("h3", f"In {key}"), tag("div", *panels, class_="panels")]
        parts.append(_sortable(f"Exponents in {key}", headers, rows))
    return section("scaling", "Scaling", *parts)


def _told(about: Mapping[str, Mapping[str, Any]], row: pd.Series) -> Mapping[str, Any]:
    """What the file says about a run's task."""
    return about.get(str(row.get("task")), {})


def _power(exponent: float | None) -> Figure:
    return Figure("–" if exponent is None else f"{exponent:z.3f}")


def _by_size(part: pd.DataFrame, key: str, name: str, kind: int) -> Line:
    """A learner's regret at each size: geometric mean, lowest, highest."""
    own = part[part["learner"] == name]
    found = np.log(own["regret"]).groupby(own[key]).agg(["mean", "min", "max"])
    x = found.index.to_numpy(np.float64)
    return Line(name, kind, x, *np.exp(found.to_numpy(np.float64).T))


def _of_slope(slope: float, line: Line) -> Line:
    """The line of this slope through the other's centre, on logarithmic axes."""
    x, y = np.log(line.x), np.log(line.y)
    return Line(f"slope {slope:g}", REFERENCE, line.x, np.exp(y.mean() + slope * (x - x.mean())))


def _comparisons(runs: pd.DataFrame, groups: list[str], names: Sequence[str]) -> Markup:
    if len(names) * (len(names) - 1) // 2 > MOST_PAIRS:
        few = tag("p", f"With {len(names)} learners there are too many pairs for one page; "
                       "study.compare(a, b) compares two.")  # fmt: skip
        return section("compare", "Who beats whom", few)
    rows = []
    for found in compare_all(runs):
        for _, row in found.table.iterrows():
            rows.append((
                label(groups, row[groups]), f"{found.a} against {found.b}",
                Figure(f"{row.wins} of {row.seeds}"), row.difference,
                Figure(f"{number(row.lower)} to {number(row.upper)}"),
                Figure(f"{row.improvement:.2f}"), Figure(f"{row.p_corrected:.2g}"),
            ))  # fmt: skip
    words = (
        "Paired by seed. The difference of regret is the first minus the second, with a 95% "
        "bootstrap interval; below 0 the first is better. Improvement: the probability that a run "
        "of the first has less regret than one of the second. p: Wilcoxon's signed-rank test, "
        "corrected by Holm's method for all comparisons of this table together."
    )
    headers = ["problem", "pair", "wins", "difference", "interval", "improvement", "p"]
    made = _sortable("Comparisons", headers, rows) if rows else tag("p", "No two learners have "
        "runs of one problem with the same seed.")  # fmt: skip
    return section("compare", "Who beats whom", tag("p", words), made)


def _profiles(runs: pd.DataFrame, names: Sequence[str], closed: bool) -> Markup:
    pairs = len(by_problem(runs, "regret"))
    words = (
        "How often a learner's regret is within a factor of the smallest on the same problem and "
        "seed. Higher is better; at factor 1 it is how often the learner is the best. Over "
        f"{count(pairs, 'pair')} of problem and seed; a learner that has no run there counts as "
        "beyond every factor."
    )
    words += LOWER_ENDS * (not closed)
    if (runs["regret"] < 0).any():
        words = "Some regrets are below 0 (the best known policy was not the best): no profile."
        return section("profile", "Profiles", tag("p", words))
    found = performance_profile(runs)
    lines = []
    for i, name in enumerate(names):
        part = found[found["learner"] == name]
        lines.append(Line(name, i, part["factor"].to_numpy(), part["share"].to_numpy()))
    chart = line_chart(
        lines, x_label="factor of the smallest regret", y_label="share of problems and seeds",
        log_y=False, description="Performance profiles",
    )  # fmt: skip
    chart = tag("div", tag("div", chart, class_="panel"), class_="panels")
    return section("profile", "Profiles", tag("p", words), legend(names), chart)


def _all_runs(runs: pd.DataFrame, groups: Sequence[str]) -> Markup:
    """Every run, up to a limit."""
    shown = [c for c in ("learner", "seed", "regret", "final_value", "updates", "seconds")
             if c in runs.columns]  # fmt: skip
    rows = []
    for _, run in runs.head(MOST_RUNS).iterrows():
        cells = [
            Figure(RegretBracket(run[c], run["regret_upper"]).text(number))
            if c == "regret"
            else _plain(run[c])
            for c in shown
        ]
        rows.append((label(groups, run[list(groups)]), *cells))
    parts = [_search("runs", "Show runs with", "table-runs")]
    if len(runs) > MOST_RUNS:
        left = count(len(runs) - MOST_RUNS, "run")
        parts.append(tag("p", f"The first {number(MOST_RUNS)} are shown; {left} more are in the "
                              "table that `latentmdp study table` writes."))  # fmt: skip
    made = _sortable("All runs", ["problem", *(c.replace("_", " ") for c in shown)], rows, "runs")
    return section("runs", "All runs", *parts, made)


def label(groups: Sequence[str], values: Iterable[Any]) -> str:
    """A problem in words, with numbers as the page writes them."""
    return problem_words(groups, values, lambda value: number(_plain(value)))


def _plain(value: Any) -> Any:
    """A number as Python has it, whole ones as such; everything else as it is."""
    if not is_number(value):
        return value
    found = float(value)
    return int(found) if found.is_integer() and abs(found) < 2**53 else found


def _sortable(
    caption: str, headers: Sequence[str], rows: Sequence[Sequence[Any]], ident: str = ""
) -> Markup:
    """A table whose columns the page's script can sort."""
    made = table(caption, headers, rows)
    return tag("div", made, class_="sortable", id=f"table-{ident}" if ident else None)


def _search(name: str, words: str, target: str) -> Markup:
    """A field that hides what does not contain its words."""
    field = tag("input", type="search", id=f"search-{name}", data_hides=target)
    return tag("p", tag("label", words, for_=f"search-{name}"), " ", field, class_="tools")
