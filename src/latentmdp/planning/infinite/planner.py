"""The best policy with memory where there is no last step: a stationary controller with bounds.

A search over exact beliefs (`search.py`) stands on belief grids (`belief_grid.py`).
Whenever it is stopped, `lower` is the exact value of the finite controller that is handed out, by a
linear system, and `upper` bounds every policy: no tail is cut off on either side.
"""

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.baselines import known_bound
from latentmdp.planning.budget import Budget
from latentmdp.planning.driver import Driver, TimeReserve, Written, value_of
from latentmdp.planning.history.belief_free import default_actions
from latentmdp.planning.history.belief_grid import grid_bytes
from latentmdp.planning.history.observations import (
    ObservationList,
    list_observations,
    listing_bytes,
    model_bytes,
    observations_in_time,
    start_beliefs,
)
from latentmdp.planning.history.search import Allowed
from latentmdp.planning.infinite.belief_grid import Solved, corner_grid, known_contexts
from latentmdp.planning.infinite.search import InfiniteSearch
from latentmdp.planning.infinite.small_controller import small_controller
from latentmdp.planning.limits import Limits
from latentmdp.planning.search_result import BoundsLog, SearchResult
from latentmdp.planning.settings import SETTINGS, PlanningSettings
from latentmdp.policy.graph import PolicyGraph
from latentmdp.runtime.interrupts import interrupts_set

INFINITE_METHODS = ("auto", "grid")


def plan_infinite(
    model: LatentMDP,
    limits: Limits | None = None,
    settings: PlanningSettings = SETTINGS,
    *,
    method: str = "auto",
    max_nodes: int | None = None,
) -> SearchResult:
    """Plan over all policies of a model without a last step until the gap is closed.

    Arguments are those of `plan_history`. With `max_nodes` the controller is then cut down to so
    many nodes (`small_controller.py`); `unrestricted` is what it was worth before
    (or `lower`, where the small one is better).

    >>> import math
    >>> from latentmdp import make
    >>> model = make("garnet:contexts=2,states=3,actions=2,branching=2,horizon=9,shared_support=1")
    >>> found = plan_infinite(model.replace(discount=0.9, horizon=math.inf), Limits(gap=0.001))
    >>> found.status, found.policy.stationary, found.upper - found.lower <= 0.001 * found.upper
    ('optimal', True, True)
    """
    if method not in INFINITE_METHODS:
        raise ModelError(
            f"method must be one of {', '.join(INFINITE_METHODS)} where the horizon is infinite; "
            f"it is {method!r}"
        )
    limits = limits or Limits()
    memory, budget = limits.bytes, limits.budget()
    log = BoundsLog(budget, limits.progress)
    with interrupts_set(budget.interrupted):
        budget.kept_back = settings.corners_share * (budget.time_limit or 0.0)
        listed = list_observations(model) if listing_bytes(model) <= memory else None
        if listed is None or least_bytes(model, listed, settings) > memory:
            return _context_policy(model, budget, log, None, settings)
        memory -= model_bytes(model, len(listed.next))
        solved = known_contexts(model, budget.reason, settings)
        observations = observations_in_time(model, listed, budget.reason)
        made = observations and corner_grid(model, observations, solved, budget.reason, settings)
        if observations is None or made is None:
            return _context_policy(model, budget, log, solved, settings)
        corners, store = made
        start = start_beliefs(model)
        search = InfiniteSearch(observations, start, model.S, corners, store, settings)
        known = corners.grid.upper[0].T  # (M, S)
        if not budget.reason():
            search.default_table = default_actions(
                model, search.default_table, known, budget, settings
            )
        scale = max(float(np.abs(corners.grid.upper).max()), 1e-300)
        ending = _Ending(model, search, budget, max_nodes, settings)
        search.stop = ending.reserve.reason

        def write(slack: float) -> Written:
            policy = search.controller(1e-13 * scale)
            return Written(policy, policy.N)

        allowed = Allowed(limits.gap or 0.0, settings.rounding_gap * scale)
        driver = Driver(model, search, write, allowed, ending.reserve, memory, log)
        # corners stopped early have more than the largest total
        status, upper = driver.run(model.max_return + settings.infinite_safety * scale)
        assert driver.policy is not None
        policy, unrestricted = ending.finished(driver.policy)
        if policy is not driver.policy:
            driver.lower = value_of(model, policy)  # of the very policy that is handed out
        if unrestricted is not None:  # a search stopped early may find less than cutting then does
            unrestricted = max(unrestricted, driver.lower)
        status = driver.final_status(status, upper)
    log(driver.lower, upper)
    return SearchResult(
        policy, driver.lower, upper, status, "stationary grid", search.nodes, budget.work,
        log.history, unrestricted=unrestricted, evaluation=ending.reserve.last,
    )  # fmt: skip


class _Ending:
    """What follows the search: tidy the controller and, if few nodes are asked for, cut it down."""

    def __init__(
        self,
        model: LatentMDP,
        search: InfiniteSearch,
        budget: Budget,
        max_nodes: int | None,
        settings: PlanningSettings,
    ) -> None:
        self.model, self.search, self.budget = model, search, budget
        self.max_nodes, self.settings = max_nodes, settings
        self.reserve = TimeReserve(
            budget, settings, lambda: search.most_policy_nodes,
            settings.controller_seconds * model.M, share=1.0, after=self.seconds,
        )  # fmt: skip
        if max_nodes is None:
            self.reserve.keep_for_baselines()

    def seconds(self, once: float, nodes: float) -> float:
        """That it takes, where a controller of this size takes `once` to write and evaluate."""
        s, limit, total = self.settings, self.budget.time_limit or 0.0, 0.0
        if nodes <= s.most_tidied:
            total += min((s.tidying - s.reserve_factor) * once, s.tidying_share * limit)
        if self.max_nodes is not None:
            total += s.visits * once + min(s.cutting_seconds, s.cutting_share * limit)
        return total

    def finished(self, policy: PolicyGraph) -> tuple[PolicyGraph, float | None]:
        """The controller to hand out and, if it was cut down, what it was worth before."""
        if self.budget.in_time(self.settings.tidying * self.reserve.last):
            policy = self._tidied(policy)
        if self.max_nodes is None:
            return policy, None
        unrestricted = value_of(self.model, policy)
        return self._cut_down(policy, self.max_nodes), unrestricted

    def _cut_down(self, policy: PolicyGraph, max_nodes: int) -> PolicyGraph:
        """A controller of at most `max_nodes` nodes; the work limit does not hold for this."""
        budget, s, once = self.budget, self.settings, self.reserve.last
        if max_nodes < policy.N and not budget.in_time(s.visits * once):
            return PolicyGraph.from_table(self.search.default_table, stationary=True)
        last = s.tidying * once * max_nodes / policy.N

        def in_time(seconds: float) -> bool:
            return budget.in_time(seconds + last) and not budget.interrupted.is_set()

        return self._tidied(small_controller(self.model, policy, max_nodes, in_time, s))

    def _tidied(self, policy: PolicyGraph) -> PolicyGraph:
        """Without nodes that are never reached, equivalent ones merged; large ones as they are."""
        if self.settings.most_tidied >= policy.N:
            return policy.prune(self.model).merge()
        return policy


def least_bytes(model: LatentMDP, listed: ObservationList, settings: PlanningSettings) -> int:
    """Memory of the observations and the corners: their values in all contexts, and their store."""
    (M, S, _), J, width = model.sizes, len(listed.next), int(np.diff(listed.ptr).max())
    corners = 4 * M * M * S + max(2 * M * S, settings.first_room) * (M + width + 2)
    return model_bytes(model, J) + 8 * corners + grid_bytes((J, M), 0, S, 1)


def _context_policy(
    model: LatentMDP,
    budget: Budget,
    log: BoundsLog,
    solved: Solved | None,
    settings: PlanningSettings,
) -> SearchResult:
    """What there is without memory or time for more: the best policy of the likeliest context.

    `solved` is given where time is what was missing.
    """
    status = "memory" if solved is None else budget.reason() or "time"
    budget.kept_back = settings.most_kept_back[0] * (budget.time_limit or 0.0)
    action, known, _ = solved or known_contexts(model, budget.reason, settings)
    policy = PolicyGraph.from_table(action[int(np.argmax(model.w))], stationary=True)
    began = budget.seconds
    lower = value_of(model, policy)
    evaluation = budget.seconds - began
    scale = max(float(np.abs(known).max()), 1e-300)
    bound = known_bound(model, known, settings.infinite_safety * scale)
    told = float((model.w[:, None] * model.nu * bound).sum())
    upper = max(lower, min(told, model.max_return + settings.infinite_safety * scale))
    log(lower, upper)
    return SearchResult(
        policy, lower, upper, status, "context", 0, budget.work, log.history, (action, known),
        evaluation=evaluation,
    )  # fmt: skip
