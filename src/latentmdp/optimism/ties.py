"""Tie rules: which policy is played where several are an argmax.

At the paper's constants almost everything is worth the cap for a long time, and every policy is an
argmax: the tie rule is the learner in practice. The rule chooses *inside* the argmax set, so the
algorithms are followed to the letter. `incumbent` keeps the policy in force. `secondary` proposes
the policy that is best for one standard error of optimism, or the one that is best for the plain
estimate where the first promises little more than that (`by_secondary`); if neither is an argmax,
sweeps on `weight * primary + secondary` with a growing weight look for one near them
(`by_mixing`). docs/optimism.md compares them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.csr import Ints
from latentmdp.kernels.optimism.mix import mix

if TYPE_CHECKING:
    from latentmdp.optimism.planner import OptimisticPlanner

TIES = ("secondary", "incumbent")


def by_secondary(planner: OptimisticPlanner, goal: float) -> tuple[Ints, float]:
    """The best policy for one standard error; that for the estimate, if it promises as much.

    For near the cap the second model prefers by 1e-5 what is far worse by the estimate. While
    exploring costs much by the estimate, every plan searches again, so that what was found
    counts at once.
    """
    first, second, third = planner.searches[:3]
    settings, stream = planner.settings, planner.perturb_stream
    planner.catch_up(1)
    planner.catch_up(2)
    value, other = second.improve(planner.effort, stream), second.evaluate(third.policy)
    if other > value + settings.equal:  # the search has missed it
        second.policy[:] = third.policy
        value = second.improve(planner.effort, stream)
    known = third.evaluate(second.policy)
    loss = third.evaluate(third.policy) - known
    planner.estimating.turn()
    doubtful = value - other <= settings.gain_per_loss and loss > settings.loss_not_kept
    if planner.estimating.due or doubtful:
        loss = third.improve(planner.effort, stream) - known
        rest = settings.proposal_rest
        planner.estimating.tried(True, rest, least=rest)
        other = second.evaluate(third.policy)
    if value - other <= max(loss * settings.gain_per_loss, settings.equal):
        exploiting = first.evaluate(third.policy)
        if exploiting >= goal:
            return third.policy, exploiting
    if loss > settings.loss_not_kept:
        planner.visits_at_search = 0
    return second.policy, first.evaluate(second.policy)


def by_mixing(planner: OptimisticPlanner, best: float, in_force: float) -> tuple[Ints, float]:
    """An argmax near the secondary's best policy: sweeps on `weight * primary + secondary`.

    The weight grows until the primary reaches `best`. Of that policy, the one in force and the
    search's own, those that reach `best` compete by their secondary value.
    """
    first, second = planner.searches[:2]
    settings, enough = planner.settings, best - planner.settings.equal
    choices = [(first.policy, best)]
    if in_force >= enough:
        choices.insert(0, (planner.policy, in_force))  # wins ties
    worth = [second.evaluate(policy) for policy, _ in choices]
    before = len(worth)
    first.evaluate(second.policy)
    second.evaluate(second.policy)
    mixed = second.policy.copy()
    weights = np.array(settings.mix_weights)
    value = mix(first.search, second.search, mixed, weights, enough)
    first.forget_values()
    second.forget_values()
    if value >= enough:
        choices.append((mixed, value))
        worth.append(second.evaluate(mixed))
    gain = worth[-1] - max(worth[:before]) if len(worth) > before else 0.0
    reached = best >= first.upper - settings.equal
    rest = settings.mix_rest if reached else settings.mix_rest_open
    planner.mixing.tried(gain > settings.mix_gain, rest)
    return choices[int(np.argmax(np.array(worth) > max(worth) - settings.equal))]
