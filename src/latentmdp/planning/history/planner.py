"""The best history-dependent policy of a known latent MDP, with bounds that prove how good it is.

Two searches share the work (docs/planning_history.md says when each wins): `layers` where few
beliefs are met at many steps, `grid` where evidence comes gradually; `race.py` runs them side by
side. All are anytime: whenever they are stopped, `lower` is the exact value of the policy handed
out and `upper` bounds every policy.
"""

from typing import Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.kernels.planning.history_grid import BeliefGrid
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.baselines import context_start
from latentmdp.planning.budget import Budget
from latentmdp.planning.driver import Driver, TimeReserve, value_of
from latentmdp.planning.history.belief_free import default_table
from latentmdp.planning.history.belief_graph import GraphSearch, first_bytes
from latentmdp.planning.history.belief_grid import build_grid, grid_bytes
from latentmdp.planning.history.belief_tree import TreeSearch
from latentmdp.planning.history.extraction import PolicyWriter
from latentmdp.planning.history.observations import (
    list_observations,
    listing_bytes,
    model_bytes,
    observations_in_time,
    start_beliefs,
)
from latentmdp.planning.history.race import Race
from latentmdp.planning.history.search import Allowed, HistorySearch
from latentmdp.planning.limits import Limits
from latentmdp.planning.search_result import BoundsLog, SearchResult
from latentmdp.planning.settings import SETTINGS, PlanningSettings
from latentmdp.policy.graph import PolicyGraph
from latentmdp.runtime.interrupts import interrupts_set

HISTORY_METHODS = ("auto", "exact", "layers", "grid")


def plan_history(
    model: LatentMDP,
    limits: Limits | None = None,
    settings: PlanningSettings = SETTINGS,
    *,
    method: str = "auto",
) -> SearchResult:
    """Plan over all history-dependent policies until `upper - lower <= gap * |upper|`.

    A gap of `None` closes up to rounding error. `method`: `layers`, `grid`, `auto` (both side by
    side, most of the work for the one whose gap falls), or `exact` (as `auto`, to the end whatever
    the gap). Equal work limits give equal results; a reached time or work limit is the status
    `time`. Time spent compiling does not count.

    >>> from latentmdp import make
    >>> plan = plan_history(make("maze:size=4,goals=3,horizon=12,seed=0"), Limits(gap=0.01))
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
    limits = limits or Limits()
    budget, start = limits.budget(), start_beliefs(model)
    log = BoundsLog(budget, limits.progress)
    with interrupts_set(budget.interrupted):
        memory = limits.bytes - least_policy_bytes(model, settings)
        if budget.time_limit is not None:  # keep time back for `_context_policy`
            fallback = settings.fallback_seconds * model.H * len(model.next) / model.steps
            budget.kept_back = min(fallback, settings.most_kept_back[0] * budget.time_limit)
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
                corners = build_grid(observations, model.H, model.S, 1, budget.reason, settings)
        if corners is None:
            return _context_policy(model, budget.reason() or "memory", budget, log)
        budget.kept_back = 0.0
        search: HistorySearch = kind(observations, start, model.H, corners, settings)
        worth = np.einsum("ms,skm->k", model.w[:, None] * model.nu, corners.alpha[0])
        best_context = int(np.argmax(worth))
        corner = corners.action[:, :, best_context].astype(np.int64)
        table = default_table(model, corner, budget, settings)
        relative = 0.0 if method == "exact" else float(limits.gap or 0.0)
        scale = float(np.abs(corners.upper).max())
        reserve = TimeReserve(
            budget, settings, lambda: search.bytes, settings.unit_seconds,
            small=settings.small_policy,
        )  # fmt: skip
        reserve.keep_for_baselines()
        context = best_context if table is corner else -1
        driver = Driver(
            model, search, PolicyWriter(search, table, context, model.M, reserve, memory),
            Allowed(relative, settings.rounding_gap * scale), reserve, memory, log,
        )  # fmt: skip
        driver.large = memory // 8
        status, upper = driver.run()
    log(driver.lower, upper)
    assert driver.policy is not None
    return SearchResult(
        driver.policy, driver.lower, upper, driver.final_status(status, upper), search.name,
        search.nodes, budget.work, log.history,
    )  # fmt: skip


def least_policy_bytes(model: LatentMDP, settings: PlanningSettings = SETTINGS) -> int:
    """Memory of any policy while it is written and evaluated: of its default nodes."""
    return model.H * model.S * (settings.policy_node_bytes + 16 * model.M)


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


def _context_policy(
    model: LatentMDP,
    status: str,
    budget: Budget,
    log: BoundsLog,
) -> SearchResult:
    """What there is without time or memory for more: a policy for the likeliest context."""
    value, table = context_start(model)
    policy = PolicyGraph.from_table(table)
    lower = value_of(model, policy)
    upper = max(lower, float((model.w[:, None] * model.nu * value).sum()))
    log(lower, upper)
    return SearchResult(policy, lower, upper, status, "context", 0, budget.work, log.history)
