"""How regret grows with a size that was swept: slopes on logarithmic axes, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.experiments.compare import check_columns, group_columns, with_learners
from latentmdp.experiments.study_run import is_number

if TYPE_CHECKING:
    import pandas as pd

LEAST_SIZES = 3  # of a key whose exponents the page shows


def swept_numbers(table: pd.DataFrame) -> list[str]:
    """The columns that identify problems and have three or more different positive numbers.

    Not all models need the key: its column is empty for the others.
    """
    found = []
    for name in group_columns(table):
        column = table[name].dropna()
        if column.dtype.kind not in "iuf" or table[name].dtype.kind not in "iuf":
            continue
        if (column > 0).all() and column.nunique() >= LEAST_SIZES:
            found.append(name)
    return found


def exponents(table: pd.DataFrame, key: str, metric: str = "regret") -> pd.DataFrame:
    """Least-squares slopes of `log metric` on `log key`: mean over seeds, Student's 95% interval.

    One row per learner and rest of the problem: `seeds, exponent, lower, upper`; a single seed has
    no interval. Runs whose metric is not above 0 are left out; a seed counts if it has two sizes.
    """
    import pandas as pd
    from scipy import stats

    table = with_learners(table)
    check_columns(table, metric, key)
    table = table[table[key].notna() & table["learner"].notna()]
    bad = [x for x in table[key] if not (is_number(x) and x > 0)]
    if bad:
        raise ModelError(f"{key} must have numbers above 0 for exponents; it has {bad[0]!r}")
    groups = [name for name in group_columns(table) if name != key]
    rows = []
    for place, part in table.groupby([*groups, "learner"], sort=False, dropna=False):
        slopes = []
        for _, one in part[part[metric] > 0].groupby("seed"):
            if one[key].nunique() >= 2:
                slopes.append(float(np.polyfit(np.log(one[key]), np.log(one[metric]), 1)[0]))
        if not slopes:
            continue
        mean, n = float(np.mean(slopes)), len(slopes)
        half = np.nan
        if n > 1:
            half = float(stats.t.ppf(0.975, n - 1) * np.std(slopes, ddof=1) / np.sqrt(n))
        row = dict(zip([*groups, "learner"], place, strict=True))
        rows.append(
            row | {"seeds": n, "exponent": mean, "lower": mean - half, "upper": mean + half}
        )
    columns = [*groups, "learner", "seeds", "exponent", "lower", "upper"]
    return pd.DataFrame(rows, columns=columns)
