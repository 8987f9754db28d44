"""A policy without memory in place of one that was stopped too early: the best cheap baseline."""

import numpy as np

from latentmdp.evaluation import evaluate
from latentmdp.model import LatentMDP
from latentmdp.planning.baselines import TABLES
from latentmdp.planning.budget import Budget
from latentmdp.policy import PolicyGraph


class _Late(Exception):  # noqa: N818  (control flow, not an error)
    """The time limit is reached."""


def better_baseline(
    model: LatentMDP, lower: float, budget: Budget
) -> tuple[str, PolicyGraph, float] | None:
    """The baseline that is worth most, with its name and value; None if none has more than `lower`.

    As many of them as there is time for, whatever is left of the work limit. `O(H M S A Gamma)`.
    """

    def check_clock() -> None:
        if not budget.in_time(0.0) or budget.interrupted.is_set():
            raise _Late

    best, longest = None, 0.0
    for name, fill in TABLES.items():
        begun = budget.seconds
        table = np.zeros((model.H, model.S), dtype=np.int64)
        try:
            check_clock()
            fill(model, table, check_clock)
        except _Late:
            break
        if not budget.in_time(budget.seconds - begun):
            break  # its evaluation takes about as long
        policy = PolicyGraph.from_table(table)
        value = evaluate(model, policy).value
        if value > lower:
            best, lower = (name, policy, value), value
        longest = max(longest, budget.seconds - begun)
        if not budget.in_time(1.5 * longest):
            break
    return best
