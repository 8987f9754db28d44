"""What a policy is worth by a log: its value in the fitted model, with an interval from draws.

The interval says how much the value varies with the models that the data leave possible, for this
one policy. Rows that nobody has seen may do anything there (`unseen.py`). A policy that was
*chosen* because it looks best on the same data looks a little too good: docs/how_to_fit.md has the
measured coverage of both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.canonical import Floats
from latentmdp.errors import ModelError
from latentmdp.evaluation import evaluate
from latentmdp.fitting.draws import draw_models
from latentmdp.fitting.summary import row_reach
from latentmdp.fitting.unseen import UnseenRows
from latentmdp.policy import as_policy

if TYPE_CHECKING:
    from latentmdp.fitting.fits import Fit

DRAWS = 1000


@dataclass(frozen=True)
class Worth:
    """A value with an interval at `level`.

    `lower` is a quantile of `worst`, `upper` one of `best`.
    """

    value: float  # in the fitted model
    lower: float
    upper: float
    level: float
    contexts: Floats  # (M,) by context, in the fitted model
    context_lower: Floats  # (M,)
    context_upper: Floats  # (M,)
    assumed_steps: float  # expected steps of an episode in rows that nobody has seen
    draws: Floats = field(repr=False)  # (n,) the value in each draw, unseen rows as assumed
    worst: Floats = field(repr=False)  # (n,) with the unseen rows at their worst
    best: Floats = field(repr=False)  # (n,) and at their best

    def quantile(self, q: float) -> float:
        """What the value exceeds with posterior probability `1 - q`."""
        return float(np.quantile(self.draws, q))

    def __str__(self) -> str:
        text = f"{self.value:.6g} [{self.lower:.6g}, {self.upper:.6g}] at {self.level:.0%}"
        if self.assumed_steps > 0.0:
            text += f"; {self.assumed_steps:.3g} steps of an episode rest on assumptions"
        return text


def worth_of(
    fit: Fit, policy: Any, level: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> Worth:
    """Evaluate a policy (a plan, a policy, or a table of actions) in the fit and in draws."""
    if not 0.0 < level < 1.0:
        raise ModelError(f"level must lie strictly between 0 and 1; it is {level!r}")
    if draws < 2:
        raise ModelError(f"draws must be at least 2; it is {draws!r}")
    graph = as_policy(fit.model, getattr(policy, "policy", policy))
    found = evaluate(fit.model, graph)
    steps = float(row_reach(fit, graph)[fit.estimate.unseen].sum())
    values, contexts, weights = np.empty(draws), *np.empty((2, draws, fit.model.M))
    worst = best = contexts
    open_rows = UnseenRows(fit.estimate, graph) if steps > 0.0 else None
    if open_rows is not None:
        worst, best = np.empty((2, *contexts.shape))
    batch = 1 if open_rows is None else open_rows.batch
    models = draw_models(fit.estimate, draws, seed)
    for begin in range(0, draws, batch):
        part = list(islice(models, batch))
        for i, model in enumerate(part, begin):
            drawn = evaluate(model, graph)
            values[i], contexts[i], weights[i] = drawn.value, drawn.contexts, model.w
        if open_rows is not None:
            worst[begin : begin + batch] = open_rows.contexts(part, best=False)
            best[begin : begin + batch] = open_rows.contexts(part, best=True)
    low, high = (values, values) if open_rows is None else (
        (weights * worst).sum(axis=1), (weights * best).sum(axis=1)
    )  # fmt: skip
    for array in (values, low, high):
        array.flags.writeable = False
    return Worth(
        found.value, *map(float, ends(low, high, level)), level, found.contexts,
        *ends(worst, best, level), steps, values, low, high,
    )  # fmt: skip


def ends(low: Floats, high: Floats, level: float) -> tuple[Any, Any]:
    """The ends of an interval: quantiles over draws (the first axis) of `low` and of `high`.

    The quantiles of `method="weibull"`: one more draw would lie between them with probability
    `level`, also where draws are few.
    """
    tail = (1.0 - level) / 2.0
    return (
        np.quantile(low, tail, axis=0, method="weibull"),
        np.quantile(high, 1.0 - tail, axis=0, method="weibull"),
    )


def logged_return(fit: Fit, level: float = 0.95) -> tuple[float, float, float]:
    """`(mean, lower, upper)` of the total reward of the log's own episodes, by episode.

    A normal interval. Episodes that were cut off before the horizon count what they had.
    """
    from scipy.stats import norm

    from latentmdp.fitting.exact_sums import REWARD_TOP, total

    returns = fit.log.returns
    n = int(returns.count.sum())
    mean = float(total(returns.sums.sum(axis=1, keepdims=True), REWARD_TOP)[0]) / n
    means = returns.mean
    spread = float(returns.spread.sum() + (returns.count * (means - mean) ** 2).sum())
    error = float(norm.ppf((1.0 + level) / 2.0)) * (spread / max(n - 1, 1) / n) ** 0.5
    return mean, mean - error, mean + error
