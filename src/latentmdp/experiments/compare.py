"""Which of two learners is better: paired by seed, corrected for multiple comparisons.

Differences are taken seed by seed. Two learners with one seed share the model, where it is drawn by
the seed (`{seed}` in it; tasks share what their functions draw from `seed`), and nothing else: a
learner's random numbers come from the hash of its whole run. So pairing removes the variation
between drawn models from the comparison; in one fixed model the runs of a pair are independent, and
pairing has no effect.

Each group (a model, a class, a number of episodes) has the mean difference with a bootstrap
interval over seeds, the number of seeds on which one beats the other, the probability that a run of
one beats a run of the other, and the p-value of Wilcoxon's signed-rank test. If many groups or
pairs are compared at once, p-values are corrected by Holm's method, which keeps the probability of
any false claim below the level, whatever the dependence between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Floats
from latentmdp.errors import ModelError, check_share
from latentmdp.experiments.study_run import bracket_of, is_number
from latentmdp.learning.regret import RegretBracket

if TYPE_CHECKING:
    import pandas as pd

OPTIONS = ("bonus_scale", "delta", "simulator", "ties")  # distinguish variants of a learner
RESAMPLES = 5000


def with_learners(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a column `learner`: the algorithm, and those of its options that vary."""
    if "learner" in table.columns or "algorithm" not in table.columns:
        return table
    words = table["algorithm"].astype(str)
    for name in OPTIONS:
        if name in table.columns:
            several = table.groupby("algorithm")[name].transform("nunique") > 1
            shown = f" {name}=" + table[name].map(lambda x: f"{x:g}" if is_number(x) else str(x))
            words = words.where(~several | table[name].isna(), words + shown)
    return table.assign(learner=words.where(table["algorithm"].notna()))


def problem_words(
    groups: Sequence[str], values: Iterable[Any], number: Callable[[Any], str] = "{:g}".format
) -> str:
    """A problem in words: the name of its model, then the swept keys.

    Keys that are swept in other models only are left out.

    >>> problem_words(["model", "H", "size"], ["maze", 4.0, float("nan")])
    'maze, H 4'
    """
    words = []
    for name, value in zip(groups, values, strict=True):
        if is_missing(value):
            continue
        shown = number(value) if is_number(value) else str(value)
        words.append(shown if name in ("model", "task", "policy_class") else f"{name} {shown}")
    return ", ".join(words)


def is_missing(value: Any) -> bool:
    """Whether a table has no value there: None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def group_columns(table: pd.DataFrame) -> list[str]:
    """The columns that identify a problem: model, swept keys, class, episodes.

    Swept keys are the columns of a study's table between `model` (or `task`) and `algorithm`.
    """
    names = list(table.columns)
    first = min(names.index(name) for name in ("task", "model") if name in names)
    stop = names.index("algorithm")
    swept = names[first:stop] if first < stop else names[first : first + 1]
    return [*swept, *(name for name in ("policy_class", "episodes") if name in names)]


class NothingSharedError(ModelError):
    """Two learners have no finished runs of one problem with the same seed."""


@dataclass(frozen=True)
class Comparison:
    """`a` against `b`: `table` has one row per group, `str()` gives sentences."""

    a: str
    b: str
    metric: str
    larger_is_better: bool
    level: float
    groups: tuple[str, ...]
    table: pd.DataFrame

    def __str__(self) -> str:
        return "\n".join(self._sentence(row) for _, row in self.table.iterrows())

    def __repr__(self) -> str:
        return f"Comparison({self.a} against {self.b}, {len(self.table)} groups)\n{self}"

    def _sentence(self, row: pd.Series) -> str:
        place = problem_words(self.groups, row[list(self.groups)])
        tied = f", {row.ties} tied" if row.ties else ""
        sure = row.p_corrected <= 1.0 - self.level
        verdict = "a clear difference" if sure else "no clear difference"
        return (
            f"{place}: {self.a} beats {self.b} on {row.wins} of {row.seeds} seeds{tied}; "
            f"{self.metric} {_bracket(row, 'a')} against {_bracket(row, 'b')}, "
            f"{self.a} minus {self.b} "
            f"{row.difference:+.4g} [{row.lower:+.4g}, {row.upper:+.4g}]; {verdict} "
            f"(p = {row.p_corrected:.2g} corrected)"
        )


def _bracket(row: pd.Series, which: str) -> str:
    """The mean of one side; of regret with its bracket."""
    mean = row[f"mean_{which}"]
    return RegretBracket(mean, row.get(f"mean_upper_{which}", mean)).text()


def compare(
    table: pd.DataFrame,
    a: str,
    b: str,
    *,
    metric: str = "regret",
    by: str = "learner",
    level: float = 0.95,
    larger_is_better: bool = False,
    seed: int = 0,
    comparisons: int = 1,
) -> Comparison:
    """Compare the runs of a study's table whose column `by` is `a` with those where it is `b`.

    A learner's name is its algorithm, with the options that vary: `bernstein bonus_scale=0.01`.
    Regret is compared by the lower ends of its brackets: the gap of the optimum is the same for
    both. `mean_upper_a, mean_upper_b` are means of the upper ends.

    `difference` is `a` minus `b`, mean over seeds, with a bootstrap interval `lower, upper`
    (over resampled seeds, bias-corrected and accelerated). `improvement`: the probability that a
    run of `a` is better than a run of `b` with another or the same seed (ties count half).
    `comparisons`: the number of calls that are reported together; p-values are corrected for all.
    """
    import pandas as pd

    table = with_learners(table)
    _check(table, a, b, metric, by, level)
    groups = [name for name in group_columns(table) if name != by]
    sign = 1.0 if larger_is_better else -1.0
    rows: list[dict[str, Any]] = []
    differences: list[Floats] = []
    for key, part in table.groupby(groups, sort=False, dropna=False, observed=True):
        x, y = _paired(part, a, b, by, metric)
        if len(x) == 0:
            continue
        random = np.random.default_rng(np.random.SeedSequence([seed, len(rows)]))
        d = x - y
        lower, upper = _mean_interval(d, level, random)
        ends = {}
        if metric == "regret" and "regret_upper" in part:
            known = part.assign(regret_upper=[bracket_of(r).upper for r in part.to_dict("records")])
            tops = _paired(known, a, b, by, "regret_upper")
            ends = {"mean_upper_a": tops[0].mean(), "mean_upper_b": tops[1].mean()}
        better = sign * (x[:, None] - y[None, :])
        rows.append(
            dict(zip(groups, key, strict=True))
            | ends
            | {
                "seeds": len(d), "mean_a": x.mean(), "mean_b": y.mean(), "difference": d.mean(),
                "lower": lower, "upper": upper, "wins": int((sign * d > 0).sum()),
                "ties": int((d == 0).sum()),
                "improvement": float((better > 0).mean() + 0.5 * (better == 0).mean()),
            }
        )  # fmt: skip
        differences.append(d)
    if not rows:
        raise NothingSharedError(
            f"{a!r} and {b!r} must have finished runs with the same seeds somewhere; they have none"
        )
    found = pd.DataFrame(rows)
    found["p"] = [_signed_rank(d) for d in differences]
    found["p_corrected"] = holm(found["p"].to_numpy(), comparisons)
    return Comparison(a, b, metric, larger_is_better, level, tuple(groups), found)


def compare_all(table: pd.DataFrame, *, by: str = "learner", **how: object) -> list[Comparison]:
    """Every pair of values of `by` that share a problem and a seed, corrected for all together.

    Pairs may share different numbers of problems, so one correction is over all their p-values.
    """
    table = with_learners(table)
    names = list(dict.fromkeys(table[by].dropna()))
    found = []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            with suppress(NothingSharedError):
                found.append(compare(table, a, b, by=by, **how))  # type: ignore[arg-type]
    if not found:
        return []
    corrected = holm(np.concatenate([one.table["p"].to_numpy() for one in found]))
    parts = np.split(corrected, np.cumsum([len(one.table) for one in found])[:-1])
    return [
        replace(one, table=one.table.assign(p_corrected=part))
        for one, part in zip(found, parts, strict=True)
    ]


def holm(p: Floats, comparisons: int = 1) -> Floats:
    """Holm's correction; each p-value counts `comparisons` times, for as many tables.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    left = len(p) * comparisons - np.arange(len(p))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * left), 1.0)
    return corrected


def performance_profile(
    table: pd.DataFrame, *, metric: str = "regret", by: str = "learner", points: int = 50
) -> pd.DataFrame:
    """How often each learner is within a factor of the best one: columns `by, factor, share`.

    On every problem and seed, the ratio of each learner's metric to the smallest there; `share` is
    the part of all (problem, seed) where it is at most `factor`. A learner without a finished run
    there counts as beyond every factor; a problem and seed where no learner has the metric does
    not count. The metric must be at least 0.
    """
    import pandas as pd

    table = with_learners(table)
    check_columns(table, metric, by)
    table = table[table[by].notna()]
    wide = by_problem(table, metric, by)
    if (wide < 0).any(axis=None):
        raise ModelError(f"{metric} must be at least 0 for a profile; some are below")
    best = wide.min(axis=1)
    ratio = wide.div(best.where(best > 0), axis=0)
    ratio = ratio.mask(wide.eq(best, axis=0), 1.0).fillna(np.inf)
    largest = np.nanmax(ratio.replace(np.inf, np.nan).to_numpy(), initial=2.0)
    factors = np.geomspace(1.0, largest, points)
    parts = [
        pd.DataFrame(
            {by: name, "factor": factors, "share": [(column <= f).mean() for f in factors]}
        )
        for name, column in ratio.items()
    ]
    return pd.concat(parts, ignore_index=True)


def by_problem(table: pd.DataFrame, metric: str, by: str = "learner") -> pd.DataFrame:
    """The metric with a row for each problem and seed, and a column for each value of `by`.

    Rows and columns without any value are left out. Keys that are empty for some problems are
    values as any other: `pivot_table` would drop these problems.
    """
    groups = [name for name in group_columns(table) if name != by]
    row = table.groupby([*groups, "seed"], sort=False, dropna=False).ngroup()
    twice = table.assign(row=row).duplicated(["row", by])
    if twice.any():
        first = table[twice].iloc[0]
        raise _several_runs(first[by], first["seed"])
    wide = table.assign(row=row).pivot(index="row", columns=by, values=metric)
    return wide.astype(np.float64).dropna(how="all").dropna(how="all", axis=1)


def _several_runs(name: Any, seed: Any) -> ModelError:
    return ModelError(
        f"{name!r} must have one run per seed in each group; it has several with seed {seed}: give "
        "its variants different names"
    )


def _paired(part: pd.DataFrame, a: str, b: str, by: str, metric: str) -> tuple[Floats, Floats]:
    """The metric of `a` and of `b` on the seeds that both have, in the order of the seeds."""
    columns = []
    for name in (a, b):
        found = part.loc[part[by] == name, ["seed", metric]].dropna().set_index("seed")[metric]
        if found.index.has_duplicates:
            raise _several_runs(name, found.index[found.index.duplicated()][0])
        columns.append(found)
    both = columns[0].index.intersection(columns[1].index).sort_values()
    x, y = (column.loc[both].to_numpy(dtype=np.float64) for column in columns)
    return x, y


def _mean_interval(d: Floats, level: float, random: np.random.Generator) -> tuple[float, float]:
    """A bootstrap interval of the mean; the mean itself where there is no spread."""
    from scipy import stats

    if len(d) < 2 or np.ptp(d) == 0.0:
        return float(d.mean()), float(d.mean())
    found = stats.bootstrap(
        (d,), np.mean, n_resamples=RESAMPLES, confidence_level=level, method="BCa", rng=random
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def _signed_rank(d: Floats) -> float:
    """Wilcoxon's signed-rank test of differences; 1 where all are 0."""
    from scipy import stats

    return 1.0 if not d.any() else float(stats.wilcoxon(d, zero_method="pratt").pvalue)


def _check(table: pd.DataFrame, a: str, b: str, metric: str, by: str, level: float) -> None:
    check_columns(table, metric, by)
    check_share("level", level)
    there = list(dict.fromkeys(table[by].dropna()))
    for name in (a, b):
        if name not in there:
            names = ", ".join(map(str, there))
            raise ModelError(f"{name!r} must be a value of {by}; there are {names}")


def check_columns(table: pd.DataFrame, metric: str, by: str) -> None:
    """Refuse a table without these columns, or without those of a study of learners."""
    for name in (metric, by, "seed", "algorithm", "task" if "task" in table else "model"):
        if name not in table.columns:
            names = ", ".join(map(str, table.columns))
            raise ModelError(f"the table must have the column {name!r}; it has {names}")
