"""The objective `safe`: deviate from what was done only where the data support it.

A planner on an estimate favours the actions that look best by chance, and those are the rarely
tried ones. So every step costs standard errors: the standard deviation of an episode's total,
divided by the square root of the visits of its (context, state, action). An action with fewer than
`min_visits` visits there is out of the question, and costs as much as the whole range of totals;
what was done most often is never out of the question (safe policy improvement with baseline
bootstrapping, Laroche et al. 2019, for policies that do not know the context: a cost counts as much
as the context is likely). Where all rows have many visits, this is `mean`.

`min_visits`, and with it the number of standard errors, is chosen from a ladder: half of the visits
choose a policy, the other half judges it (`halves.py`). By how much a policy looked better to the
half that chose it than to the other one is its optimism. The policy by all the data has about as
much, since most of it comes from rows with few visits, which they stay. So the optimism is
subtracted from the value, and one and a half times of it from the lower end of the interval.
benchmarks/safe_plans.py has the logs that this was chosen on, and how it does on others.

All plans, of the halves and of all the data, have equal parts of the time: with more of it for the
last one, its optimism would be more than that of the halves. If that is too little for the first
plan, the most careful `min_visits` is taken without a choice. A plan that is worth less in its
careful model than what was done most often in each state is replaced by that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.evaluation.evaluate import evaluate
from latentmdp.fitting.deciding.halves import halves
from latentmdp.fitting.deciding.log_value import spread_of_totals
from latentmdp.fitting.estimation.estimate import estimate
from latentmdp.fitting.estimation.worth import Worth
from latentmdp.fitting.reading.cells import LogCounts
from latentmdp.model.availability import substitute_rows
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.totals import extreme_totals
from latentmdp.planning.baselines import context_values, row_values
from latentmdp.planning.budget import Budget
from latentmdp.planning.plan import Plan, plan
from latentmdp.policy.graph import PolicyGraph
from latentmdp.policy.numbering import from_model_to_model

if TYPE_CHECKING:
    from latentmdp.fitting.fits import Fit

LADDER = {1: 0.25, 3: 0.5, 10: 1.0, 30: 1.0}  # of min_visits: standard errors that a step costs
SHORTEST = 1e-3  # seconds for a plan, where there is no time left
LOWER_SHARE = 1.5  # of the optimism: less of the lower end; it is itself an estimate


class SafePlan(NamedTuple):
    """A plan with its number of visits, and how much too good it looks to its own data."""

    plan: Plan  # in the careful model
    min_visits: int
    excluded: np.ndarray  # (M, S, A) actions seen too rarely, and not what was mostly done
    optimism: float  # of a half of the data


def plan_safe(
    fit: Fit,
    policy_class: str,
    min_visits: int | None,
    time_limit: float | None,
    seed: int,
    **limits: Any,
) -> SafePlan:
    """Choose `min_visits` unless it is given, then plan by all the data."""
    parts = halves(fit.log, np.random.default_rng(np.random.SeedSequence(seed)))
    models = _models_of_halves(fit, parts)
    ladder = (min_visits,) if min_visits is not None else _different(fit.log)[::-1]
    budget, plans = Budget(time_limit, None), 2 * len(ladder) + 1
    quick = {"method": "ascent"} if policy_class == "markov" else {}  # needs no proof

    def planned(model: LatentMDP, log: LogCounts, visits: int, **options: Any) -> Plan:
        """Plan in an equal part of the time; what was mostly done stands in for what is worse."""
        nonlocal plans
        share = None if budget.left is None else max(budget.left / plans, SHORTEST)
        plans -= 1
        careful = careful_model(fit, model, log, visits)
        options = {"warm": mostly_done(fit.log, model), **limits, **options}
        return plan(careful, policy_class, time_limit=share, **options)

    first = planned(models[0], parts[0], ladder[0], **quick)
    if first.status == "time" and first.upper - first.lower > spread_of_totals(fit.log):
        ladder, plans = ladder[:1], 3  # too little time for all: the most careful one alone
        first = planned(models[0], parts[0], ladder[0], **quick)
    scores, optimism = [], []
    for visits in ladder:
        own, other = [], []
        for i in (0, 1):
            if visits == ladder[0] and i == 0:
                chosen = first.policy
            else:
                chosen = planned(models[i], parts[i], visits, **quick).policy
            own.append(evaluate(models[i], chosen).value)
            other.append(_value_elsewhere(chosen, models[i], models[1 - i]))
        scores.append(sum(other) / 2)
        optimism.append(max((sum(own) - sum(other)) / 2, 0.0))
    best = int(np.argmax(scores))
    found = planned(fit.model, fit.log, ladder[best])
    excluded = ~supported(fit.log, ladder[best])
    return SafePlan(found, ladder[best], excluded, optimism[best])


def _models_of_halves(fit: Fit, parts: tuple[LogCounts, LogCounts]) -> list[LatentMDP]:
    """Their models, of one kind: all actions are there, whatever a half has not shown."""
    assumed = replace(
        fit.assumed,
        unseen="uniform" if fit.assumed.unseen == "uniform" else "self",
        observe_rewards=fit.model.observe_rewards,
    )
    return [estimate(part, assumed).model for part in parts]


def _value_elsewhere(policy: PolicyGraph, own: LatentMDP, other: LatentMDP) -> float:
    """What a policy for `own` is worth in `other`, where rewards may have other numbers."""
    if own.symbol.any() or other.symbol.any():
        policy = from_model_to_model(policy, own, other)
    return evaluate(other, policy).value


def careful_model(
    fit: Fit, model: LatentMDP, log: LogCounts, min_visits: int, errors: float | None = None
) -> LatentMDP:
    """The estimate by `log`, in which every step costs what is not known about it.

    `errors`: how many standard errors (default: those of the ladder).
    """
    if errors is None:
        errors = max(cost for visits, cost in LADDER.items() if visits <= min_visits)
    over = np.broadcast_to(log.final[:, None], (log.M, log.S, log.A)).reshape(-1)
    error = errors * spread_of_totals(fit.log) / np.sqrt(np.maximum(log.visits, 1))
    cost = np.where(over, 0.0, error)
    cost += width_of_totals(fit) * ~supported(log, min_visits).reshape(-1)
    if model.allowed is not None:
        cost = cost[substitute_rows(model.allowed, model.M)]
    return with_costs(model, cost)


def with_costs(model: LatentMDP, cost: Floats) -> LatentMDP:
    """The model in which each (context, state, action) costs that much; symbols stay."""
    reward = model.reward - np.repeat(cost, np.diff(model.indptr))
    low, high = (
        float(sign * (sign * extreme_totals(
            model.sizes, model.rows._replace(reward=reward), model.nu, model.horizon,
            model.discount, sign)).max())
        for sign in (-1, 1)
    )  # fmt: skip
    reward.flags.writeable = False
    return model.with_fields(reward=reward, min_return=low, max_return=high)  # symbols as they were


def told_the_context(fit: Fit, min_visits: int) -> Callable[[LatentMDP], float]:
    """What one would earn in a model if told the context, being as careful."""
    careful = careful_model(fit, fit.model, fit.log, min_visits)
    _, best = context_values(careful)  # (H, M, S)

    def earned(model: LatentMDP) -> float:
        value = np.zeros((model.M, model.S))
        for actions in best[::-1]:
            rows = row_values(model, value)
            value = np.take_along_axis(rows, actions[:, :, None], axis=2)[:, :, 0]
        return float((model.w[:, None] * model.nu * value).sum())

    return earned


def supported(log: LogCounts, min_visits: int) -> np.ndarray:
    """`(M, S, A)` actions seen often enough, or that were done most often in the state.

    In a context that has not shown a state, what was done most often in the others counts.
    """
    found: np.ndarray = log.visits.reshape(log.M, log.S, log.A) >= min_visits
    done = log.row_sums.count.reshape(log.M, log.S, log.A)
    mostly = np.where(done.any(axis=2), done.argmax(axis=2), done.sum(axis=0).argmax(axis=1))
    np.put_along_axis(found, mostly[:, :, None], True, axis=2)
    found[:, log.final] = True
    return found


def mostly_done(log: LogCounts, model: LatentMDP) -> Ints:
    """`(S,)` what was done most often in each state, of the actions that are available there."""
    done = log.row_sums.count.reshape(log.M, log.S, log.A).sum(axis=0)
    if model.allowed is not None:
        done = np.where(model.allowed, done, -1)
    return done.argmax(axis=1)


def width_of_totals(fit: Fit) -> float:
    """How far apart the totals of two episodes can be."""
    possible = fit.assumed.total_range
    if possible is not None:
        return possible.high - possible.low
    return fit.model.max_return - fit.model.min_return


def less_optimism(fit: Fit, worth: Worth, optimism: float) -> Worth:
    """The worth of a policy chosen by the same data, corrected for that."""
    possible = fit.assumed.total_range
    more = LOWER_SHARE * optimism

    def less(value: Any, share: float) -> Any:
        return value - share if possible is None else possible.clip(value - share)

    changes: dict[str, Any] = {
        "value": less(worth.value, optimism),
        "lower": less(worth.lower, more),
        "contexts": less(worth.contexts, optimism),
        "context_lower": less(worth.context_lower, more),
        "draws": less(worth.draws, optimism),
        "worst": less(worth.worst, more),
        "optimism": optimism,
    }
    return replace(worth, **changes)


def _different(log: LogCounts) -> tuple[int, ...]:
    """The rungs of the ladder that differ: in the actions that are supported, or in the cost."""
    kept: dict[tuple[bytes, float], int] = {}
    for visits, errors in LADDER.items():
        kept[np.packbits(supported(log, visits)).tobytes(), errors] = visits
    return tuple(kept.values())
