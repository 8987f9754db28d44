"""The curves of a study by learner and problem, as figures draw them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from latentmdp.errors import ModelError
from latentmdp.experiments.compare import group_columns, with_learners

if TYPE_CHECKING:
    import pandas as pd


class RunCurve(NamedTuple):
    """The regret of one run after some numbers of episodes, and the units that it is in."""

    rows: pd.DataFrame  # episode, regret, regret_upper
    units: str


def is_study(given: Any) -> bool:
    """Whether it is a study, or the table that `study.curves()` gives."""
    columns = set(getattr(given, "columns", ()))
    return callable(getattr(given, "curves", None)) or {"id", "episode", "regret"} <= columns


def curves_by_learner(given: Any) -> dict[str, list[RunCurve]]:
    """From labels to runs; a label names the learner, and the problem where there are several."""
    table = given.curves() if callable(getattr(given, "curves", None)) else given
    if not len(table):
        raise ModelError("a study must have finished runs with curves; this one has none")
    named = with_learners(table)
    varying = [name for name in group_columns(named) if named[name].nunique(dropna=False) > 1]
    found: dict[str, list[RunCurve]] = {}
    for _, rows in named.groupby("id", sort=False):
        first = rows.iloc[0]
        words = [str(first["learner"]), *(_words(name, first[name]) for name in varying)]
        units = str(first["units"]) if "units" in rows else ""
        found.setdefault(", ".join(words), []).append(RunCurve(rows, units))
    return found


def _words(name: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{name} {value:g}"
