"""A plan that ended early hands out a policy that is at least as good as simple rules give.

Whatever ended the search, its policy is compared with the best Markov policy that ascent finds, and
with one made from candidate actions at each belief (`candidate_policy.py`): look-ahead on the
values of the contexts' own policies, the most informative action, the best action if the context is
told next.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from latentmdp.evaluation.evaluate import evaluate
from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.budget import Budget
from latentmdp.planning.history.candidate_policy import CandidatePolicy
from latentmdp.planning.infinite.markov import plan_stationary_markov
from latentmdp.planning.infinite.planner import controller_value
from latentmdp.planning.markov.planner import plan_markov
from latentmdp.planning.search_result import Progress, SearchResult
from latentmdp.policy.graph import PolicyGraph
from latentmdp.runtime.interrupts import interrupts_set

ENDED_EARLY = ("time", "memory", "interrupted")
MARKOV_SHARE = 0.3  # of the time that is left: for the Markov policy
MARKOV_BACKUPS = 20_000_000  # row backups: its work, or
MARKOV_SWEEPS = 10  # so many backups of all rows at all steps, if that is more
TABLE_BACKUPS, TABLE_SWEEPS = 20_000, 100  # the same without a last step, where a linear system
# counts as four sweeps
BACKUPS_SHARE = 2  # ... and, for both, this for each unit of the search's work
LEAST_WORK = 150_000  # of the candidates' graph, about 0.15 seconds,
OUTCOME_WORK = 0.5  # ... and this for each outcome at each step,
WORK_SHARE = 0.02  # ... and this for each unit of the search's work
INTERRUPTED_SHARE = 0.1  # of the time so far: what may be added after Ctrl-C, or
INTERRUPTED_SECONDS = 0.5  # this, if that is less
SMALL_MODEL = 200_000  # outcomes times steps: for these there are always
SMALL_SECONDS = 0.03
LEAST_EVALUATIONS = 6.0  # of the plan's policy: with less time left there is no use in a beginning
LEAST_MEMORY = 2**24  # bytes that it may take however low the limit is


def safeguarded(
    model: LatentMDP,
    found: SearchResult,
    seconds: float | None,
    memory: int,
    progress: Progress | None,
    seed: int,
) -> SearchResult:
    """The plan with memory `found`, or a better policy if it ended early; `seconds` are left."""
    if found.status not in ENDED_EARLY:
        return found
    passed = found.history[-1][0] if found.history else 0.0
    if found.status == "interrupted":
        most = min(INTERRUPTED_SHARE * passed, INTERRUPTED_SECONDS)
        seconds = most if seconds is None else min(seconds, most)
    endless = is_infinite(model.horizon)
    steps = 1 if endless else model.H
    if seconds is not None and steps * len(model.next) // model.steps <= SMALL_MODEL:
        seconds = max(seconds, SMALL_SECONDS)
    if seconds is not None and seconds <= LEAST_EVALUATIONS * found.evaluation:
        return found
    budget, memory = Budget(seconds, None), max(memory, LEAST_MEMORY)
    sweep = steps * model.M * model.S * model.A
    outcomes = steps * len(model.next) // model.steps
    options: dict[str, Any] = {"method": "ascent", "memory_limit": memory, "seed": seed}
    options["time_limit"] = None if seconds is None else MARKOV_SHARE * seconds
    if endless:
        backups = max(TABLE_BACKUPS, TABLE_SWEEPS * sweep) + BACKUPS_SHARE * found.work
        markov = plan_stationary_markov(model, work_limit=backups, known=found.known, **options)
    else:
        backups = max(MARKOV_BACKUPS, MARKOV_SWEEPS * sweep) + BACKUPS_SHARE * found.work
        markov = plan_markov(model, work_limit=backups, **options)
    best, method = found, found.method
    if markov.lower > best.lower:
        best = _improved(best, markov.policy, markov.lower, f"{markov.method}+{method}")
    if markov.status != "interrupted":
        with interrupts_set(budget.interrupted):
            work = LEAST_WORK + int(OUTCOME_WORK * outcomes + WORK_SHARE * found.work)
            base = best.policy if best.policy.is_markov else markov.policy
            candidates = CandidatePolicy(model, base.table, budget, memory, work, markov.known)
            policy = candidates.policy()
            if policy is not None:
                value = value_of(model, policy)
                if value > best.lower:
                    best = _improved(best, policy, value, f"candidates+{method}")
    if best is not found:
        moment = passed + budget.seconds, found.work, best.lower, best.upper
        best = replace(best, history=[*found.history, moment])
        if progress is not None:
            with suppress(KeyboardInterrupt):  # it is over anyway
                progress(*moment)
    return best


def value_of(model: LatentMDP, policy: PolicyGraph) -> float:
    """The exact value, as `evaluate` has it."""
    if policy.stationary:
        return controller_value(model, policy)
    return evaluate(model, policy).value


def _improved(found: SearchResult, policy: PolicyGraph, value: float, method: str) -> SearchResult:
    return replace(found, policy=policy, lower=value, upper=max(found.upper, value), method=method)
