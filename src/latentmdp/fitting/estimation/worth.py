"""What a policy is worth by a log: its value in the fitted model, with an interval from draws.

The interval says how much the value varies with the models that the data leave possible, for this
one policy. Rows that nobody has seen may do anything there (`unseen.py`). A policy that was
*chosen* because it looks best on the same data looks a little too good: docs/how_to_fit.md has the
measured coverage of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Floats
from latentmdp.errors import ModelError, check_share
from latentmdp.evaluation.evaluate import evaluate
from latentmdp.fitting.estimation.draws import draw_models
from latentmdp.fitting.estimation.missing_mass import Unshown, not_counted, unshown
from latentmdp.fitting.estimation.unseen import UnseenRows
from latentmdp.fitting.summary import row_reach
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.budget import Budget
from latentmdp.policy.graph import PolicyGraph, as_policy
from latentmdp.policy.transfer import transfer

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
    assumed_steps: float  # expected steps of an episode in rows whose next states nobody has seen
    draws: Floats = field(repr=False)  # (n,) the value in each draw, unseen rows as assumed
    worst: Floats = field(repr=False)  # (n,) with the unseen rows at their worst
    best: Floats = field(repr=False)  # (n,) and at their best
    unshown: tuple[Unshown, ...] = ()  # what may happen that is not in the interval
    filled: tuple[str, ...] = ()  # what a policy of another model does not say here (`transfer`)
    optimism: float = 0.0  # of a policy chosen by these data, as far as corrected for (`safe.py`)

    def quantile(self, q: float) -> float:
        """What the value exceeds with posterior probability `1 - q`."""
        return float(np.quantile(self.draws, q))

    def __str__(self) -> str:
        text = f"{self.value:.6g} [{self.lower:.6g}, {self.upper:.6g}] at {self.level:.0%}"
        if self.assumed_steps > 0.0:
            text += f"; {self.assumed_steps:.3g} steps of an episode rest on assumptions"
        if ignored := " and ".join(not_counted(self.unshown)):
            text += f"; not counted: {ignored}"
        return "; ".join((text, *self.filled))


def worth_of(
    fit: Fit,
    policy: Any,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
    time_limit: float | None = None,
) -> Worth:
    """Evaluate a policy (a plan, a policy, or a table of actions) in the fit and in draws.

    After `time_limit` seconds no more models are drawn, if there are as many as an interval at
    `level` needs (`fewest_draws`); the first ones are the same however many follow.
    """
    check_share("level", level)
    if draws < 2:
        raise ModelError(f"draws must be at least 2; it is {draws!r}")
    graph, filled = in_model(policy, fit.model)
    budget = Budget(time_limit, None)
    found = evaluate(fit.model, graph)
    steps = float(row_reach(fit, graph)[fit.estimate.unseen].sum())
    open_rows = UnseenRows(fit.estimate, graph) if steps > 0.0 else None
    contexts, worst, best, weights = np.empty((4, draws, fit.model.M))
    models = draw_models(fit.estimate, draws, seed)
    batch = 1 if open_rows is None else open_rows.batch
    now = slice(0, 0)
    for begin in range(0, draws, batch):
        part = list(islice(models, batch))
        now = slice(begin, begin + len(part))
        weights[now] = [model.w for model in part]
        contexts[now] = [evaluate(model, graph).contexts for model in part]
        if open_rows is None:
            worst[now] = best[now] = contexts[now]
        else:
            worst[now], best[now] = (open_rows.contexts(part, best=b) for b in (False, True))
        if now.stop >= fewest_draws(level) and budget.reason():
            break
    contexts, worst, best, weights = (x[: now.stop] for x in (contexts, worst, best, weights))
    values, low, high = ((weights * x).sum(axis=1) for x in (contexts, worst, best))
    value, by_context = found.value, found.contexts
    if (possible := fit.assumed.total_range) is not None:
        clip = possible.clip
        value, by_context, values, low, high, worst, best = map(
            clip, (value, by_context, values, low, high, worst, best)
        )
    for array in (values, low, high):
        array.flags.writeable = False
    lower, upper = ends(low, high, level)
    context_lower, context_upper = ends(worst, best, level)
    return Worth(
        value, float(lower), float(upper), level, by_context, context_lower,
        context_upper, steps, values, low, high, unshown(fit.log, level), filled,
    )  # fmt: skip


def fewest_draws(level: float) -> int:
    """So many draws that the interval `ends` at `level` does not end at the outermost ones.

    >>> fewest_draws(0.95)
    39
    """
    return math.ceil(2.0 / (1.0 - level) - 1e-9) - 1


def in_model(policy: Any, model: LatentMDP) -> tuple[PolicyGraph, tuple[str, ...]]:
    """The policy in the numbers of the model, by names and rewards, and what was filled in."""
    own = getattr(getattr(policy, "policy", policy), "model", None)
    if isinstance(own, LatentMDP):
        found = transfer(policy, model)
        return found.policy, found.filled
    return as_policy(model, policy), ()


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
