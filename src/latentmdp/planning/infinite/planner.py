"""The best policy with memory where there is no last step: a stationary controller with bounds.

A search over exact beliefs (`search.py`) stands on belief grids (`belief_grid.py`).
Whenever it is stopped, `lower` is the exact value of the finite controller that is handed out, by a
linear system, and `upper` bounds every policy: no tail is cut off on either side.
"""

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.evaluation.discounted import discounted_values
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.baselines import known_bound
from latentmdp.planning.budget import Budget
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
from latentmdp.planning.history.planner import DEFAULT_MEMORY, LEAST_QUANTUM, ROUNDING_GAP
from latentmdp.planning.history.search import Allowed
from latentmdp.planning.infinite.belief_grid import (
    FIRST_ROOM,
    SAFETY,
    Solved,
    corner_grid,
    known_contexts,
)
from latentmdp.planning.infinite.ending import MOST_TIDIED, TIDYING, VISITS, Ending
from latentmdp.planning.infinite.search import StationarySearch
from latentmdp.planning.infinite.small_controller import small_controller
from latentmdp.planning.search_result import BoundsLog, Progress, SearchResult
from latentmdp.policy.graph import PolicyGraph
from latentmdp.runtime.interrupts import interrupts_set

STATIONARY_METHODS = ("auto", "grid")
WORTH_GOING_ON = 1.3  # times what the end takes: with more time left, the search goes on
CORNERS_KEEP_BACK = 0.2  # of the time limit, while each context is solved by itself
CONTEXTS_KEEP_BACK = 0.6  # the same where that is all that there is memory for


def plan_stationary(
    model: LatentMDP,
    *,
    gap: float | None = None,
    time_limit: float | None = None,
    work_limit: int | None = None,
    memory_limit: int | None = None,
    method: str = "auto",
    progress: Progress | None = None,
    max_nodes: int | None = None,
) -> SearchResult:
    """Plan over all policies of a model without a last step until the gap is closed.

    Arguments are those of `plan_history`. With `max_nodes` the controller is then cut down to so
    many nodes (`small_controller.py`); `unrestricted` is what it was worth before
    (or `lower`, where the small one is better).

    >>> import math
    >>> from latentmdp import make
    >>> model = make("garnet:contexts=2,states=3,actions=2,branching=2,horizon=9,shared_support=1")
    >>> found = plan_stationary(model.replace(discount=0.9, horizon=math.inf), gap=0.001)
    >>> found.status, found.policy.stationary, found.upper - found.lower <= 0.001 * found.upper
    ('gap', True, True)
    """
    if method not in STATIONARY_METHODS:
        raise ModelError(
            f"method must be one of {', '.join(STATIONARY_METHODS)} where the horizon is infinite; "
            f"it is {method!r}"
        )
    memory = DEFAULT_MEMORY if memory_limit is None else memory_limit
    budget = Budget(time_limit, work_limit)
    report = BoundsLog(budget, progress)
    with interrupts_set(budget.interrupted):
        budget.kept_back = CORNERS_KEEP_BACK * (time_limit or 0.0)
        listed = list_observations(model) if listing_bytes(model) <= memory else None
        if listed is None or least_bytes(model, listed) > memory:
            return _context_policy(model, budget, report, None)
        memory -= model_bytes(model, len(listed.next))
        solved = known_contexts(model, budget.reason)
        observations = observations_in_time(model, listed, budget.reason)
        made = observations and corner_grid(model, observations, solved, budget.reason)
        if observations is None or made is None:
            return _context_policy(model, budget, report, solved)
        corners, store = made
        search = StationarySearch(observations, start_beliefs(model), model.S, corners, store)
        known = corners.grid.upper[0].T  # (M, S)
        if not budget.reason():
            search.default_table = default_actions(model, search.default_table, known, budget)
        scale = max(float(np.abs(corners.grid.upper).max()), 1e-300)
        allowed = Allowed(0.0 if gap is None else float(gap), ROUNDING_GAP * scale)
        target, further = allowed, 0.9
        best: tuple[float, PolicyGraph] | None = None
        ending = Ending(model.M, budget, max_nodes is not None)
        search.stop = lambda: ending.reason(search)
        while True:
            status = _run(search, target, budget, memory, ending, report)
            low, high = search.bounds
            high = min(high, model.max_return + SAFETY * scale)  # corners stopped early have more
            began = budget.seconds
            policy = search.controller(1e-13 * scale)
            value = controller_value(model, policy)
            ending.measure(budget.seconds - began, policy.N, search.most_policy_nodes)
            if status == "measured":
                continue  # equal work gives equal plans: this one depends on the clock
            if best is None or value > best[0]:
                best = value, policy
            lower, upper = best[0], max(high, best[0])
            closed = upper - lower <= allowed.gap(upper) + ROUNDING_GAP * scale
            needed = WORTH_GOING_ON * ending.seconds(search.most_policy_nodes)
            needed += ending.for_baselines
            if status == "time" and not closed and budget.has_left(needed):
                continue  # it took less than feared
            if status != "closed" or closed:
                break
            if high <= low:
                status = "stalled"  # what is open is rounding error
                break
            target, further = Allowed(0.0, further * min(target.gap(high), high - low)), 0.5
        unrestricted = None
        policy = best[1]
        if budget.in_time(TIDYING * ending.last):
            policy = tidied(model, policy)
        if max_nodes is not None:
            unrestricted = controller_value(model, policy)
            policy = _cut_down(model, policy, max_nodes, search, ending)
        if policy is not best[1]:
            lower = controller_value(model, policy)  # of the very policy that is handed out
        if unrestricted is not None:  # a search stopped early may find less than cutting then does
            unrestricted = max(unrestricted, lower)
        if status == "closed" and upper - lower > allowed.gap(upper) + ROUNDING_GAP * scale:
            status = "stalled"  # as good as it gets with so few nodes
        if upper - lower <= 10 * ROUNDING_GAP * scale:
            status = "optimal"
        elif status == "closed":
            status = "gap"
    report(lower, upper)
    return SearchResult(
        policy, lower, upper, status, "stationary grid", search.nodes, budget.work, report.history,
        unrestricted=unrestricted, evaluation=ending.last,
    )  # fmt: skip


def least_bytes(model: LatentMDP, listed: ObservationList) -> int:
    """Memory of the observations and the corners: their values in all contexts, and their store."""
    (M, S, _), J, width = model.sizes, len(listed.next), int(np.diff(listed.ptr).max())
    corners = 4 * M * M * S + max(2 * M * S, FIRST_ROOM) * (M + width + 2)
    return model_bytes(model, J) + 8 * corners + grid_bytes((J, M), 0, S, 1)


def _context_policy(
    model: LatentMDP,
    budget: Budget,
    report: BoundsLog,
    solved: Solved | None,
) -> SearchResult:
    """What there is without memory or time for more: the best policy of the likeliest context.

    `solved` is given where time is what was missing.
    """
    status = "memory" if solved is None else budget.reason() or "time"
    budget.kept_back = CONTEXTS_KEEP_BACK * (budget.time_limit or 0.0)
    action, known, _ = solved or known_contexts(model, budget.reason)
    policy = PolicyGraph.from_table(action[int(np.argmax(model.w))], stationary=True)
    began = budget.seconds
    lower = controller_value(model, policy)
    evaluation = budget.seconds - began
    scale = max(float(np.abs(known).max()), 1e-300)
    bound = known_bound(model, known, SAFETY * scale)
    told = float((model.w[:, None] * model.nu * bound).sum())
    upper = max(lower, min(told, model.max_return + SAFETY * scale))
    report(lower, upper)
    return SearchResult(
        policy, lower, upper, status, "context", 0, budget.work, report.history, (action, known),
        evaluation=evaluation,
    )  # fmt: skip


def _cut_down(
    model: LatentMDP, policy: PolicyGraph, max_nodes: int, search: StationarySearch, ending: Ending
) -> PolicyGraph:
    """A controller of at most so many nodes; the work limit does not hold for this."""
    budget = ending.budget
    if max_nodes < policy.N and not budget.in_time(VISITS * ending.last):
        return PolicyGraph.from_table(search.default_table, stationary=True)
    last = TIDYING * ending.last * max_nodes / policy.N

    def in_time(seconds: float) -> bool:
        return budget.in_time(seconds + last) and not budget.interrupted.is_set()

    return tidied(model, small_controller(model, policy, max_nodes, in_time))


def controller_value(model: LatentMDP, policy: PolicyGraph) -> float:
    """The exact value of a stationary policy, as `evaluate` has it."""
    alpha, _ = discounted_values(model, policy, variances=False)
    contexts = (model.nu * alpha[policy.root].T).sum(axis=1)
    return float(model.w @ contexts)


def tidied(model: LatentMDP, policy: PolicyGraph) -> PolicyGraph:
    """Without nodes that are never reached, equivalent ones merged; large ones as they are."""
    if policy.N > MOST_TIDIED:
        return policy
    return policy.prune(model).merge()


def _run(
    search: StationarySearch,
    target: Allowed,
    budget: Budget,
    memory: int,
    ending: Ending,
    report: BoundsLog,
) -> str:
    """Let the search work until it is done, a limit is reached or its end is to be measured."""
    while True:
        budget.work = search.work
        low, high = search.bounds
        report(low, high)
        if high - low <= target.gap(high):
            return "closed"
        if reason := ending.reason(search):
            return reason
        if ending.is_due(search.most_policy_nodes):
            return "measured"
        quantum = max(LEAST_QUANTUM, search.work // 200)
        if budget.work_limit is not None:
            quantum = min(quantum, budget.work_limit - search.work)
        began, grids = budget.seconds, len(search.grids)
        outcome = search.advance(quantum, target, budget, memory)
        if grids == len(search.grids):  # building a grid looks at the clock itself
            ending.longest_round = max(ending.longest_round, budget.seconds - began)
        if outcome in ("memory", "stalled"):
            budget.work = search.work
            return ending.reason(search) or outcome
