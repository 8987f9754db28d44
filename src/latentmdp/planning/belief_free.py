"""The policy of default nodes: a good one that looks at step and state alone.

A policy graph answers what its nodes have no successor for with a default node. What led there is
not known any more, so default nodes must be good whatever the context is: they play a Markov policy
by the weights of all contexts, and not one that is optimal in a single context (unless no better
one is found). A few sweeps of coordinate ascent from the baseline `wsu` find it.
"""

import numpy as np

from latentmdp.canonical import Ints
from latentmdp.model import LatentMDP
from latentmdp.planning.baselines import TABLES
from latentmdp.planning.budget import Budget
from latentmdp.planning.climber import Climber
from latentmdp.planning.markov_view import markov_view

SWEEPS = 5  # of coordinate ascent; 20 more gained at most 0.004 in four domains
GAIN = 1e-9  # relative, that another table must be better by
TIME_SHARE = 0.05  # of the time limit: what all of it may take


class _Late(Exception):  # noqa: N818  (control flow, not an error)
    """The time for it is used up."""


def default_table(model: LatentMDP, table: Ints, budget: Budget) -> Ints:
    """`(H, S)` actions of a Markov policy that is better than `table`; else `table` itself.

    Equal models give equal tables, unless time is short: then the best one so far.
    """
    until = np.inf
    if budget.time_limit is not None:
        until = min(budget.seconds + TIME_SHARE * budget.time_limit, budget.time_limit)

    def check_clock() -> None:
        if budget.seconds > until or budget.interrupted.is_set():
            raise _Late

    best = table
    try:
        check_clock()
        climber, start = Climber(markov_view(model)), model.w[:, None] * model.nu
        found, worth = np.zeros_like(table), [-np.inf, -np.inf]
        TABLES["wsu"](model, found, check_clock)
        for k, candidate in enumerate((table, found)):
            for value in climber.value(candidate):
                check_clock()
                worth[k] = value
        worth[0] += GAIN * abs(worth[0])
        if worth[1] > worth[0]:
            best = found
        climbing = found.copy()
        for value, _ in climber.climb(climbing, start, SWEEPS):
            if value > max(worth):
                best, worth[1] = climbing.copy(), value
            check_clock()
    except _Late:
        pass
    return best
