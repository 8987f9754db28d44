"""A plan that ended early hands out a policy that is at least as good as simple rules give.

Whatever ended the search, its policy is compared with the best Markov policy that ascent finds, and
with one made from candidate actions at each belief (`candidate_policy.py`): look-ahead on the
values of the contexts' own policies, the most informative action, the best action if the context is
told next.
"""

from contextlib import suppress
from dataclasses import replace

from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.budget import Budget
from latentmdp.planning.driver import value_of
from latentmdp.planning.history.candidate_policy import CandidatePolicy
from latentmdp.planning.infinite.markov import plan_infinite_markov
from latentmdp.planning.limits import LEAST_SECONDS, Limits
from latentmdp.planning.markov.planner import plan_markov
from latentmdp.planning.search_result import SearchResult
from latentmdp.planning.settings import SETTINGS, PlanningSettings
from latentmdp.policy.graph import PolicyGraph
from latentmdp.runtime.interrupts import interrupts_set

ENDED_EARLY = ("time", "memory", "interrupted")


def safeguarded(
    model: LatentMDP,
    found: SearchResult,
    seconds: float | None,
    limits: Limits,
    seed: int,
    settings: PlanningSettings = SETTINGS,
) -> SearchResult:
    """The plan with memory `found`, or a better policy if it ended early; `seconds` are left.

    Of `limits`, memory and progress count.
    """
    if found.status not in ENDED_EARLY:
        return found
    s, passed = settings, found.history[-1][0] if found.history else 0.0
    if found.status == "interrupted":
        most = min(s.interrupted_share * passed, s.interrupted_seconds)
        seconds = most if seconds is None else min(seconds, most)
    endless = is_infinite(model.horizon)
    steps = 1 if endless else model.H
    outcomes = steps * len(model.next) // model.steps
    if seconds is not None and outcomes <= s.small_model:
        seconds = max(seconds, s.small_model_seconds)
    if seconds is not None and seconds <= s.least_evaluations * found.evaluation:
        return found
    budget, memory = Budget(seconds, None), max(limits.bytes, s.baseline_memory)
    sweep = steps * model.M * model.S * model.A
    least, sweeps = s.baseline_backups, s.baseline_sweeps
    if endless:
        least, sweeps = s.baseline_infinite_backups, s.baseline_infinite_sweeps
    within = Limits(
        time=None if seconds is None else max(s.baseline_markov_time * seconds, LEAST_SECONDS),
        work=max(least, sweeps * sweep) + s.baseline_backups_share * found.work, memory=memory,
    )  # fmt: skip
    if endless:
        markov = plan_infinite_markov(
            model, within, s, method="ascent", seed=seed, known=found.known
        )
    else:
        markov = plan_markov(model, within, s, method="ascent", seed=seed)
    best, method = found, found.method
    if markov.lower > best.lower:
        best = _improved(best, markov.policy, markov.lower, f"{markov.method}+{method}")
    if markov.status != "interrupted":
        with interrupts_set(budget.interrupted):
            work = s.candidate_work + int(
                s.candidate_outcome_work * outcomes + s.candidate_work_share * found.work
            )
            base = best.policy if best.policy.is_markov else markov.policy
            candidates = CandidatePolicy(
                model, base.table, budget, memory, work, markov.known, settings
            )
            policy = candidates.policy()
            if policy is not None:
                value = value_of(model, policy)
                if value > best.lower:
                    best = _improved(best, policy, value, f"candidates+{method}")
    if best is not found:
        moment = passed + budget.seconds, found.work, best.lower, best.upper
        best = replace(best, history=[*found.history, moment])
        if limits.progress is not None:
            with suppress(KeyboardInterrupt):  # it is over anyway
                limits.progress(*moment)
    return best


def _improved(found: SearchResult, policy: PolicyGraph, value: float, method: str) -> SearchResult:
    return replace(found, policy=policy, lower=value, upper=max(found.upper, value), method=method)
