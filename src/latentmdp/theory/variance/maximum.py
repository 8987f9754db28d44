"""`Var* = max over policies of Var^pi` (Definition 1): exact on small models, else a bracket.

Below: a policy found by ascent, evaluated exactly. Above: `min_c max_pi E[(X - c)^2]`, for each `c`
a planning problem in which the reward collected so far is part of the state; the planner's own
certificate bounds it. That is the best variance of a *mixture* of policies, so the bracket need
not close (choosing between sure rewards 0 and 1: `Var* = 0`, bound 1/4).
"""

import itertools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.evaluation.evaluate import context_optimal, evaluate
from latentmdp.model.horizons import needs_finite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.totals import extreme_totals
from latentmdp.planning.budget import Budget, StopCheck
from latentmdp.planning.plan import plan_whole
from latentmdp.policy.graph import PolicyGraph, fitted, playable
from latentmdp.policy.policy_class import check_policy_class
from latentmdp.theory.variance.collected import Collected, with_collected
from latentmdp.theory.variance.history import history_variance, value_range
from latentmdp.theory.variance.known_context import known_context_bound
from latentmdp.theory.variance.markov import ascend, search, start_tables
from latentmdp.theory.variance.memory import build_memory

MOST_SCRATCH = 4_000_000  # numbers that an ascent may hold
MOST_EXACT_STEPS = 250  # the exact searches call themselves, some calls for each step


class MaxVariance(NamedTuple):
    """`lower <= Var* <= upper`; `lower` is the variance of `policy`."""

    lower: float
    upper: float
    policy: PolicyGraph


def max_variance(
    model: LatentMDP,
    policy_class: str = "history",
    *,
    exact_limit: int = 20_000,
    state_limit: int = 60_000,
    starts: int = 8,
    seed: int = 0,
    centres: int = 6,
    time_limit: float = 20.0,
) -> MaxVariance:
    """The largest variance of an episode's total reward over deterministic policies of a class.

    `exact_limit`: histories (history class), or a tenth of the places that a search through Markov
    policies looks at, up to which the answer is exact, `lower == upper`. Beyond: `starts` random
    starts of ascent; an upper bound from at most `centres` planning problems with at most
    `state_limit` outcomes. `time_limit`: seconds for all of it, half of them for `lower`; a few
    evaluations are made in any case.

    >>> from latentmdp import make
    >>> found = max_variance(make("hard:contexts=2,states=6,eps=0.1,reward=1"))
    >>> round(found.lower, 12), found.lower == found.upper
    (0.25, True)
    """
    check_policy_class(policy_class)
    limits: dict[str, Any] = {"exact_limit": exact_limit, "state_limit": state_limit}
    limits |= {"starts": starts, "seed": seed, "centres": centres, "time_limit": time_limit}
    if model.changes_with_step:
        found = max_variance(model.time_augmented(), policy_class, **limits)
        return found._replace(policy=fitted(model, found.policy))
    needs_finite(model, "max_variance")
    if model.allowed is not None:
        found = max_variance(model.unmasked(), policy_class, **limits)
        return found._replace(policy=playable(model, found.policy))
    if model.H * model.S * model.M * 2 > 10 * MOST_SCRATCH:
        raise ModelError(
            f"max_variance needs H*S*M of at most {5 * MOST_SCRATCH}; "
            f"it is {model.H * model.S * model.M}"
        )
    budget = Budget(time_limit, None)

    def late() -> bool:
        return budget.seconds >= time_limit / 2.0

    tables = ascend(model, start_tables(model, starts, seed), late)
    best, lower = _best(model, map(PolicyGraph.from_table, tables), late)
    if nothing_random(model):
        return MaxVariance(0.0, 0.0, best)
    if policy_class == "markov":
        table, finished = None, False
        if model.H <= MOST_EXACT_STEPS:
            table, finished = search(model, 10 * exact_limit, lower, late)
        if table is not None:
            best, lower = _best(model, [best, PolicyGraph.from_table(table)])
        if finished:
            return MaxVariance(lower, lower, best)
    else:
        actions = None
        if model.H <= MOST_EXACT_STEPS:
            actions = history_variance(model, exact_limit, late)
        if actions is not None:
            policy = PolicyGraph.from_tree(model, lambda h: actions.get(h, 0))
            best, lower = _best(model, [best, policy])
            return MaxVariance(lower, lower, best)
        others = _with_memory(model, state_limit, starts, seed, best, late)
        best, lower = _best(model, itertools.chain([best], others), late)
    return MaxVariance(
        lower, max(lower, _upper(model, policy_class, state_limit, centres, budget)), best
    )


def nothing_random(model: LatentMDP) -> bool:
    """One start and one outcome per row in the contexts that occur: every variance is 0."""
    start = model.w[:, None] * model.nu
    if (start > 0).sum() != 1:
        return False
    m = int(np.flatnonzero(start.any(axis=1))[0])
    rows = slice(m * model.S * model.A, (m + 1) * model.S * model.A)
    return bool((np.diff(model.indptr)[rows] == 1).all())


def _best(
    model: LatentMDP, policies: Iterable[PolicyGraph], stop: StopCheck = lambda: False
) -> tuple[PolicyGraph, float]:
    """The policy with the largest variance, of those that are looked at before `stop` says so."""
    best: PolicyGraph | None = None
    most = -math.inf
    for policy in policies:
        variance = evaluate(model, policy).variance
        if best is None or variance > most:
            best, most = policy, variance
        if stop():
            break
    assert best is not None, "there is a policy to look at"
    return best, most


def _with_memory(
    model: LatentMDP, limit: int, starts: int, seed: int, markov: PolicyGraph, stop: StopCheck
) -> Iterable[PolicyGraph]:
    """Policies with memory found by ascent, as exact a memory as fits."""
    for digits in (12, 2, 1):
        memory = build_memory(model, limit, digits, stop)
        if memory is not None and memory.model.S * model.H * model.M <= MOST_SCRATCH:
            augmented = memory.model
            as_markov = np.zeros((model.H, augmented.S), dtype=np.int64)
            for t in range(model.H):
                as_markov[t] = markov.table[t, memory.state]
            given = [as_markov, *start_tables(augmented, starts, seed)]
            for table in ascend(augmented, given, stop):
                yield memory.policy(table, markov.table)
            return


# ---------------------------------------------------------------------- above


def _upper(model: LatentMDP, policy_class: str, limit: int, centres: int, budget: Budget) -> float:
    low, high = value_range(model)
    start = model.w[:, None] * model.nu
    values = float((start * low[0]).sum()), float((start * high[0]).sum())
    bound = min(_spread(model, values), known_context_bound(model, values, stop=budget.reason))
    augmented = None
    for grid in (None, 1 / 512, 1 / 128, 1 / 32):
        width = None if grid is None else grid * max(model.max_return - model.min_return, 1e-300)
        augmented = with_collected(model, limit, width, budget.reason)
        if augmented is not None and not budget.reason():
            return min(bound, _mixture(augmented, policy_class, values, centres, budget))
    return bound


def _spread(model: LatentMDP, values: tuple[float, float]) -> float:
    """`(b - mean)(mean - a)`, the most a variable in `[a, b]` can vary, over all means."""
    ends = [
        extreme_totals(model.sizes, model.rows, model.nu, model.H, model.discount, sign)[
            model.w > 0
        ]
        for sign in (-1, 1)
    ]
    a, b = float(ends[0].min()), float(ends[1].max())
    mean = min(max((a + b) / 2.0, values[0]), values[1])
    return max((b - mean) * (mean - a), 0.0)


def _mixture(
    augmented: Collected,
    policy_class: str,
    values: tuple[float, float],
    centres: int,
    budget: Budget,
) -> float:
    """`min_c max_pi E[(X - c)^2]` from above: each `c` by the planner's certificate.

    `E[(X - c)^2] - c^2 = q - 2 c mu` is linear in `c` for each policy, so its maximum is convex
    and piecewise linear: the next `c` is where the last policies on both sides agree.
    """
    plain = augmented.model(None)
    below: tuple[float, float] | None = None  # (mu, q) of a policy that wants a larger c
    above: tuple[float, float] | None = None
    c = sum(values) / 2.0
    best = np.inf
    for k in range(centres):
        left = math.inf if budget.left is None else budget.left
        if left <= 0.0:
            break
        bound, value, policy = _largest_square(
            augmented.model(c), policy_class, left / (centres - k)
        )
        best = min(best, (np.sqrt(max(bound + c * c, 0.0)) + augmented.error) ** 2)
        if policy is None:
            break
        mu = evaluate(plain, policy).value
        q = value + 2.0 * c * mu
        if abs(mu - c) < 1e-9:
            break
        if mu > c:
            below = mu, q
        else:
            above = mu, q
        if below and above and below[0] > above[0]:
            following = (below[1] - above[1]) / (2.0 * (below[0] - above[0]))
        else:
            following = mu
        if abs(following - c) < 1e-9:
            break
        c = following
    return float(best)


def _largest_square(
    model: LatentMDP, policy_class: str, time_limit: float
) -> tuple[float, float, PolicyGraph | None]:
    """`(upper bound, value of the policy, policy)` of the largest `E[(X - c)^2] - c^2`."""
    known, _ = context_optimal(model)
    bound = float((model.w[:, None] * model.nu * known[0]).sum())
    if model.M == 1:
        _, actions = context_optimal(model)
        return bound, bound, PolicyGraph.from_table(actions[:, 0])
    found = plan_whole(model, policy_class, gap=1e-3, time_limit=time_limit)
    return min(bound, found.upper), found.lower, found.policy
