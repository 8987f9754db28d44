"""The policy of default nodes: a good one that looks at step and state alone.

A policy graph answers what its nodes have no successor for with a default node. What led there is
not known any more, so default nodes must be good whatever the context is: they play a Markov policy
by the weights of all contexts, and not one that is optimal in a single context (unless no better
one is found). A few sweeps of coordinate ascent from the baseline `wsu` find it.
"""

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.evaluation.discounted import discounted_values
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.baselines import TABLES, row_values
from latentmdp.planning.budget import Budget
from latentmdp.planning.limits import LEAST_SECONDS, Limits
from latentmdp.planning.markov.coordinate_ascent import CoordinateAscent
from latentmdp.planning.markov.view import markov_view
from latentmdp.planning.settings import SETTINGS, PlanningSettings
from latentmdp.policy.graph import PolicyGraph


class _Late(Exception):  # noqa: N818  (control flow, not an error)
    """The time for it is used up."""


def default_table(
    model: LatentMDP, table: Ints, budget: Budget, settings: PlanningSettings = SETTINGS
) -> Ints:
    """`(H, S)` actions of a Markov policy that is better than `table`; else `table` itself.

    Equal models give equal tables, unless time is short: then the best one so far.
    """
    until = np.inf
    if budget.time_limit is not None:
        until = min(budget.seconds + settings.default_time * budget.time_limit, budget.time_limit)

    def check_clock() -> None:
        if budget.seconds > until or budget.interrupted.is_set():
            raise _Late

    best = table
    try:
        check_clock()
        ascent, start = CoordinateAscent(markov_view(model)), model.w[:, None] * model.nu
        found, worth = np.zeros_like(table), [-np.inf, -np.inf]
        TABLES["wsu"](model, found, check_clock)
        for k, candidate in enumerate((table, found)):
            for value in ascent.value(candidate):
                check_clock()
                worth[k] = value
        worth[0] += settings.default_gain * abs(worth[0])
        if worth[1] > worth[0]:
            best = found
        climbing = found.copy()
        for value, _ in ascent.climb(climbing, start, settings.default_sweeps):
            if value > max(worth):
                best, worth[1] = climbing.copy(), value
            check_clock()
    except _Late:
        pass
    return best


def default_actions(
    model: LatentMDP, table: Ints, known: Floats, budget: Budget, settings: PlanningSettings
) -> Ints:
    """`(S,)` the same without a last step: ascent for a few evaluations.

    From `table`, or from the best action if the context is told next; `known (M, S)` is what that
    is worth in each.
    """
    from latentmdp.planning.infinite.markov import plan_infinite_markov  # which imports this

    told = np.einsum("m,msa->sa", model.w, row_values(model, known)).argmax(axis=1)
    best, worth, gain = table, _worth(model, table), settings.default_gain
    if (value := _worth(model, told)) > worth + gain * abs(worth):
        best, worth = told, value
    limit = budget.time_limit
    seconds = None if limit is None else max(settings.default_time * limit, LEAST_SECONDS)
    evaluation = 4 * model.M * model.S * model.A  # what the ascent takes one for
    limits = Limits(time=seconds, work=settings.default_evaluations * evaluation)
    found = plan_infinite_markov(model, limits, settings, method="ascent", warm=best)
    better = found.lower > worth + gain * abs(worth)
    return found.policy.table[0] if better else best


def _worth(model: LatentMDP, table: Ints) -> float:
    """The value of a table without a last step."""
    policy = PolicyGraph.from_table(table, stationary=True)
    first = discounted_values(model, policy, variances=False)[0][policy.root].T
    return float((model.w[:, None] * model.nu * first).sum())
