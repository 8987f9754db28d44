"""The best history-dependent policy of a known latent MDP, with bounds that prove how good it is.

Two searches share the work (docs/planning_history.md says when each wins): `layers` where few
beliefs are met at many steps, `grid` where evidence comes gradually; `race.py` runs them side by
side. All are anytime: whenever they are stopped, `lower` is the exact value of the policy handed
out and `upper` bounds every policy.
"""

from typing import Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.evaluation.evaluate import evaluate
from latentmdp.kernels.planning.history_grid import BeliefGrid
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.baselines import context_start
from latentmdp.planning.budget import Budget
from latentmdp.planning.history.belief_free import default_table
from latentmdp.planning.history.belief_graph import GraphSearch, first_bytes
from latentmdp.planning.history.belief_grid import build_grid, grid_bytes
from latentmdp.planning.history.belief_tree import TreeSearch
from latentmdp.planning.history.extraction import POLICY_NODE_BYTES, PolicyMaker
from latentmdp.planning.history.observations import (
    list_observations,
    listing_bytes,
    model_bytes,
    observations_in_time,
    start_beliefs,
)
from latentmdp.planning.history.race import Race
from latentmdp.planning.history.search import Allowed, HistorySearch
from latentmdp.planning.search_result import BoundsLog, Progress, SearchResult
from latentmdp.policy.graph import PolicyGraph
from latentmdp.runtime.interrupts import interrupts_set

HISTORY_METHODS = ("auto", "exact", "layers", "grid")
LEAST_QUANTUM = 20_000  # work between two looks at the clock
ROUNDING_GAP = 1e-11  # a gap this small, relative to the largest value, is rounding error
DEFAULT_MEMORY = 4 * 2**30
FALLBACK_SECONDS = 2e-8  # per outcome and step, of solving each context and evaluating a policy


def plan_history(
    model: LatentMDP,
    *,
    gap: float | None = None,
    time_limit: float | None = None,
    work_limit: int | None = None,
    memory_limit: int | None = None,
    method: str = "auto",
    progress: Progress | None = None,
) -> SearchResult:
    """Plan over all history-dependent policies until `upper - lower <= gap * |upper|`.

    `gap=None` closes up to rounding error. `method`: `layers`, `grid`, `auto` (both side by side,
    most of the work for the one whose gap falls), or `exact` (as `auto`, to the end whatever the
    gap). Equal work limits give equal results; a reached time or work limit is the status `time`.
    Time spent compiling does not count.

    >>> from latentmdp import make
    >>> plan = plan_history(make("maze:size=4,goals=3,horizon=12,seed=0"), gap=0.01)
    >>> plan.status, plan.method, plan.upper - plan.lower <= 0.01 * plan.upper
    ('gap', 'layers', True)
    """
    if method not in HISTORY_METHODS:
        raise ModelError(f"method must be one of {', '.join(HISTORY_METHODS)}; it is {method!r}")
    if method == "layers" and model.changes_with_step:
        raise ModelError(
            "method='layers' needs a model that is the same at every step, without terminal "
            "rewards; this one is not (method='grid' or 'auto')"
        )
    relative = 0.0 if gap is None or method == "exact" else float(gap)
    memory = DEFAULT_MEMORY if memory_limit is None else memory_limit
    budget = Budget(time_limit, work_limit)
    start = start_beliefs(model)
    report = BoundsLog(budget, progress)
    with interrupts_set(budget.interrupted):
        memory -= least_policy_bytes(model)
        if budget.time_limit is not None:  # keep time back for `_context_policy`
            fallback = FALLBACK_SECONDS * model.H * len(model.next) / model.steps
            budget.kept_back = min(fallback, 0.5 * budget.time_limit)
        corners: BeliefGrid | None = None
        kind: Any = None
        if listing_bytes(model) <= memory:
            listed = list_observations(model)
            J = len(listed.next)
            memory -= model_bytes(model, J)
            kind = _affordable_search(model, method, J, len(start.state), memory)
        if kind is not None:
            observations = observations_in_time(model, listed, budget.reason)
            if observations is not None and not budget.reason():
                corners = build_grid(observations, model.H, model.S, 1, budget.reason)
        if corners is None:
            return _context_policy(model, budget.reason() or "memory", budget, report)
        budget.kept_back = 0.0
        scale = float(np.abs(corners.upper).max())
        allowed = Allowed(relative, ROUNDING_GAP * scale)
        search: HistorySearch = kind(observations, start, model.H, corners)
        worth = np.einsum("ms,skm->k", model.w[:, None] * model.nu, corners.alpha[0])
        best_context = int(np.argmax(worth))
        corner = corners.action[:, :, best_context].astype(np.int64)
        table = default_table(model, corner, budget)
        maker = PolicyMaker(model, table, best_context if table is corner else -1, budget, memory)
        target, shrink = allowed, 0.9
        while True:
            status = _run(search, target, budget, memory, report, maker)
            low, high = search.bounds
            spare = allowed.gap(high) - (high - low)
            policy, lower = maker.write(search, max(0.5 * spare, 0.01 * (high - low)))
            upper = max(high, lower)
            if status == "closed" and maker.shortage:
                status = maker.shortage
            if status != "closed" or upper - lower <= allowed.gap(upper) + ROUNDING_GAP * scale:
                break
            if high <= low:
                status = "stalled"  # what is open is rounding error
                break
            # cutting the policy where it is hardly ever needed cost too much: aim at a smaller gap
            target, shrink = Allowed(0.0, shrink * min(target.gap(high), high - low)), 0.5
        method = search.name
        if upper - lower <= 10 * ROUNDING_GAP * scale:
            status = "optimal"
        elif status == "closed":
            status = "gap"
    report(lower, upper)
    return SearchResult(
        policy, lower, upper, status, method, search.nodes, budget.work, report.history
    )


def least_policy_bytes(model: LatentMDP) -> int:
    """Memory of any policy while it is written and evaluated: of its default nodes."""
    return model.H * model.S * (POLICY_NODE_BYTES + 16 * model.M)


def _affordable_search(
    model: LatentMDP, method: str, J: int, starts: int, memory: int
) -> type[Any] | None:
    """The search of the method that there is memory for, with `J` observations; None: none."""
    corners = grid_bytes((J, model.M), model.H, model.S, 1)
    corners += 24 * model.H * model.M * model.S  # ascent of the default nodes' table
    graph = corners + first_bytes(model.sizes, J, model.H, starts)
    if method == "layers":
        return GraphSearch if graph <= memory else None
    if method == "grid" or graph > memory or model.changes_with_step:
        return TreeSearch if corners <= memory else None
    return Race


def _run(
    search: HistorySearch,
    target: Allowed,
    budget: Budget,
    memory: int,
    report: BoundsLog,
    maker: PolicyMaker,
) -> str:
    """Let the search work until it is done or a limit is reached; says which."""
    while True:
        budget.work = search.work
        low, high = search.bounds
        report(low, high)
        if high - low <= target.gap(high):
            return "closed"
        maker.watch(search)
        if reason := budget.reason():
            return reason
        quantum = max(LEAST_QUANTUM, search.work // 200)
        if budget.work_limit is not None:
            quantum = min(quantum, budget.work_limit - search.work)
        outcome = search.advance(quantum, target, budget, memory)
        if outcome in ("memory", "stalled"):
            budget.work = search.work
            return budget.reason() or outcome


def _context_policy(
    model: LatentMDP,
    status: str,
    budget: Budget,
    report: BoundsLog,
) -> SearchResult:
    """What there is without time or memory for more: a policy for the likeliest context."""
    value, table = context_start(model)
    policy = PolicyGraph.from_table(table)
    lower = evaluate(model, policy).value
    upper = max(lower, float((model.w[:, None] * model.nu * value).sum()))
    report(lower, upper)
    return SearchResult(policy, lower, upper, status, "context", 0, budget.work, report.history)
