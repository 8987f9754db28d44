"""What to do, by a log: a policy that deviates from what was done only where data support it.

- `safe` (the default): the best policy where every step costs one standard error and actions that
  were hardly ever tried are left out (`safe.py`);
- `mean`: the best policy of the fitted model, as `plan` finds it;
- `quantile:q`: among the best policies of the fitted model and of some draws, the one whose value
  is exceeded with posterior probability `1 - q` at the highest level. Chosen on one set of draws,
  judged on another. The best of the candidates, with no proof that there is no better policy;
- `pessimistic`: the policy with the largest value in the worst model that the log leaves possible:
  a lower bound that holds with probability `1 - delta`, for weights, first states, transitions and
  mean rewards, and for contexts and states that the log has not shown (`reward_bounds.py`).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.errors import ModelError, check_share
from latentmdp.evaluation.evaluate import evaluate
from latentmdp.fitting.deciding.log_value import Interval, best_group, gain_over_log, log_value
from latentmdp.fitting.deciding.reward_bounds import reward_bounds
from latentmdp.fitting.deciding.safe import less_optimism, plan_safe
from latentmdp.fitting.estimation.draws import draw_models
from latentmdp.fitting.estimation.worth import Worth, worth_of
from latentmdp.fitting.reading.problems import counted
from latentmdp.model.horizons import checked_whole
from latentmdp.optimism.pessimistic import pessimistic_plan
from latentmdp.planning.budget import Budget
from latentmdp.planning.plan import Plan, plan

if TYPE_CHECKING:
    from latentmdp.fitting.fits import Fit
    from latentmdp.policy.graph import PolicyGraph


PLANNING = 0.75  # of the time limit; the rest is for evaluation by draws


@dataclass(frozen=True, repr=False)
class FitPlan:
    """A policy by a log, and what it is worth.

    `score` is what the objective makes large: the value less the costs of `safe`, the value in the
    fitted model, a quantile, or the certified lower value. `lower` and `upper` bound the
    objective's optimum where that is proved (`upper` is infinite where it is not). `worth` has the
    posterior interval of the value; with `safe` it is corrected for the choice by the same data.
    `log_value` is what the log's own episodes earned, `gain` how much more the policy is worth.
    """

    policy: PolicyGraph
    objective: str
    policy_class: str
    score: float
    lower: float
    upper: float
    worth: Worth
    log_value: Interval  # mean total reward of the log's episodes
    gain: Interval  # `worth` less that
    best_group: float  # what the best group of comparable episodes earned on average
    status: str
    seconds: float
    certificate: Plan | None = None  # of the mean model
    candidates: int = 1
    delta: float | None = None  # of `pessimistic`: how likely `lower` may be too high
    doubt: str = ""  # of `pessimistic`: why `lower` is not certified, in a sentence
    judged_by_others: bool = False  # `worth` is by episodes that had no part in the choice
    min_visits: int | None = None  # of `safe`: actions seen less often were left out
    excluded: np.ndarray | None = field(default=None, repr=False)  # (M, S, A) which ones

    @property
    def corrected(self) -> bool:
        """Whether `worth` can be believed although the same data chose the policy."""
        return self.objective == "safe" or self.judged_by_others

    @property
    def supported(self) -> bool:
        """Whether the log supports doing this instead of what was done."""
        return self.corrected and self.gain.lower > 0.0

    @property
    def verdict(self) -> str:
        """Whether to deviate from what was done, in a sentence."""
        if not self.corrected:
            return (
                "Whether to deviate from what was done these values do not say: the same data "
                "chose the policy (the objective safe or episodes held out do)."
            )
        if self.supported:
            return (
                f"By the log this policy earns {self.gain.value:.4g} more an episode than what was "
                f"done ({self.gain.lower:.4g} to {self.gain.upper:.4g} at {self.worth.level:.0%})."
            )
        return (
            "These data do not support deviating from what was done: its episodes earned "
            f"{self.log_value}, and this policy is worth {self.worth.value:.4g} "
            f"[{self.worth.lower:.4g}, {self.worth.upper:.4g}] by the log."
        )

    @property
    def left_out(self) -> str:
        """Which actions `safe` left out, in a sentence."""
        if self.min_visits is None or self.excluded is None:
            return ""
        text = (
            "The policy deviates from what was done most often only to actions seen at least "
            f"{counted(self.min_visits, 'time')} in a state of a context"
        )
        many = int(self.excluded.sum())
        if not many:
            return f"{text}: all actions were."
        return f"{text}; {many:,} of {self.excluded.size:,} (context, state, action) were not."

    @property
    def warning(self) -> str:
        """A sentence where the value is more than comparable episodes ever earned; else empty.

        Empty too where the data that judge had no part in the choice, or their part is corrected
        for, and the whole interval lies above what those episodes earned.
        """
        shown = self.worth.lower if self.corrected else -math.inf
        if self.worth.value <= self.best_group or shown > self.best_group:
            return ""
        return (
            f"The policy promises {self.worth.value:.4g}; the best group of comparable episodes "
            f"(same first state, one context) earned {self.best_group:.4g} on average."
        )

    def __repr__(self) -> str:
        text = (
            f"{self.verdict}\n{self.objective}, {self.policy_class}: score {self.score:.6g}; worth "
            f"{self.worth}; the log's own episodes earned {self.log_value}."
        )
        text = f"{text} {self.doubt}" if self.doubt else text
        return f"{text} Warning: {self.warning}" if self.warning else text


def plan_fit(
    fit: Fit,
    objective: str = "safe",
    policy_class: str = "history",
    *,
    min_visits: int | None = None,
    gap: float | None = 0.01,
    time_limit: float | None = 60.0,
    level: float = 0.95,
    draws: int = 400,
    candidates: int = 8,
    delta: float = 0.1,
    reward_range: tuple[float, float] | None = None,
    seed: int = 0,
    **options: Any,
) -> FitPlan:
    """Plan by a fit; see the module. `options` go to `plan`.

    `time_limit`: seconds for the whole, planning and evaluation by draws: three quarters at most
    for planning. Where time is short there are fewer than `draws` draws, but always as many as the
    interval needs.

    `min_visits` is of `safe`: how often a (context, state, action) must have been seen for a policy
    to deviate to it (default: chosen from a ladder by judging halves of the data by each other).

    `delta` and `reward_range` are of `pessimistic`: between which numbers all rewards lie. Without
    it, and without `total_range` of `fit`, nothing is certified.
    """
    begun = time.perf_counter()
    kind, q = parse_objective(objective)
    check_share("delta", delta)
    if min_visits is not None:
        if kind != "safe":
            raise ModelError(f"min_visits is for the objective safe; the objective is {objective}")
        min_visits = checked_whole("min_visits", min_visits, 1)
    budget = Budget(time_limit, None)
    limits: dict[str, Any] = {"gap": gap, "time_limit": _share(time_limit, PLANNING), **options}
    if kind == "safe":
        safe = plan_safe(fit, policy_class, min_visits, seed=seed, **limits)
        policy = safe.plan.policy.for_model(fit.model)
        worth = worth_of(fit, policy, level, draws, seed, budget.left)
        worth = less_optimism(fit, worth, safe.optimism)
        return FitPlan(
            policy, objective, policy_class, safe.plan.lower, safe.plan.lower, safe.plan.upper,
            *beside_the_log(fit, worth, seed), safe.plan.status, time.perf_counter() - begun,
            min_visits=safe.min_visits, excluded=safe.excluded,
        )  # fmt: skip
    if kind == "pessimistic":
        if fit.log.readings > 1:
            raise ModelError(
                "the objective pessimistic needs a log in which nothing is read besides the next "
                f"state and the reward; this one has {fit.log.readings} readings"
            )
        planning = math.inf if time_limit is None else PLANNING * time_limit
        return _pessimistic(
            fit, policy_class, delta, reward_range, planning, level, draws, seed, begun, budget
        )
    if kind == "quantile":
        limits["time_limit"] = _share(time_limit, PLANNING / 1.5 / (candidates + 1))
    found = plan(fit.model, policy_class, **limits)
    if kind == "mean":
        worth = worth_of(fit, found.policy, level, draws, seed, budget.left)
        return FitPlan(
            found.policy, objective, policy_class, found.lower, found.lower, found.upper,
            *beside_the_log(fit, worth, seed), found.status, time.perf_counter() - begun, found,
        )  # fmt: skip
    tried = [found.policy]
    for model in draw_models(fit.estimate, candidates, seed + 2):
        tried.append(plan(model, policy_class, **limits).policy)
    values: list[list[float]] = []
    for model in draw_models(fit.estimate, draws, seed + 1):
        values.append([evaluate(model, policy).value for policy in tried])
        if len(values) >= 1.0 / q and (
            time_limit is not None and budget.seconds > PLANNING * time_limit
        ):
            break
    best = int(np.argmax(np.quantile(values, q, axis=0)))
    policy = tried[best].for_model(fit.model)
    worth = worth_of(fit, policy, level, draws, seed, budget.left)
    score = worth.quantile(q)
    return FitPlan(
        policy, objective, policy_class, score, score, math.inf, *beside_the_log(fit, worth, seed),
        "heuristic", time.perf_counter() - begun, found, len(tried),
    )  # fmt: skip


def _share(time_limit: float | None, share: float) -> float | None:
    return None if time_limit is None else time_limit * share


def beside_the_log(
    fit: Fit, worth: Worth, seed: int = 0
) -> tuple[Worth, Interval, Interval, float]:
    """A policy's worth, what the log earned, the difference, and the best comparable group."""
    logged = log_value(fit, worth.level)
    return worth, logged, gain_over_log(worth, logged, seed), best_group(fit.log)


def parse_objective(objective: str) -> tuple[str, float]:
    """`("safe", 0)`, `("mean", 0)`, `("pessimistic", 0)` or `("quantile", q)`."""
    kind, _, text = str(objective).partition(":")
    if objective in ("safe", "mean", "pessimistic"):
        return kind, 0.0
    if kind == "quantile":
        try:
            q = float(text)
        except ValueError:
            q = math.nan
        if 0.0 < q < 1.0:
            return kind, q
    raise ModelError(
        "objective must be safe, mean, pessimistic, or quantile:q with q between 0 and 1 "
        f"(quantile:0.1, say); it is {objective!r}"
    )


def _pessimistic(
    fit: Fit,
    policy_class: str,
    delta: float,
    reward_range: Any,
    time_limit: float,
    level: float,
    draws: int,
    seed: int,
    begun: float,
    budget: Budget,
) -> FitPlan:
    """Rows never seen may do anything; that nothing happens after the end is sure.

    Where episodes were cut off and others ended, ends are always written down and steps that went
    on are not: a step at which an episode was cut off may have led anywhere.
    """
    log = fit.log
    over = log.final & (log.finished > 0)
    sure = np.broadcast_to(over[None, :, None], (log.M, log.S, log.A)).copy()
    bounds = reward_bounds(fit, delta, reward_range)
    found = pessimistic_plan(
        fit.model, fit.counts, policy_class, bounds.delta, starts=log.starts, sure=sure,
        rewards=bounds.rewards, lowest=bounds.lowest, totals=bounds.totals, seed=seed,
        cut=log.went_on.reshape(sure.shape) if log.finished.any() else None,
        time_limit=time_limit,
    )  # fmt: skip
    worth = worth_of(fit, found.policy, level, draws, seed, budget.left)
    return FitPlan(
        found.policy, "pessimistic", policy_class, found.lower, found.lower, found.upper,
        *beside_the_log(fit, worth, seed), "not certified" if bounds.doubt else "certified",
        time.perf_counter() - begun, delta=float(delta), doubt=bounds.doubt,
    )  # fmt: skip
