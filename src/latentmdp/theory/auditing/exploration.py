"""When exploring begins: the episode from which optimism no longer covers a good policy.

At the paper's constants a bonus is above 1 for a long time. Until then every policy is worth the
cap of 1 to the learner, the tie rule decides, and all algorithms with such bonuses play alike. When
the bonuses along a policy's own episodes fall below what it does not earn, its optimistic value
leaves the cap, policies that were played less are still worth 1, and the learner tries them:
regret rises again. That is exploring, which the bound allows for; nothing is unlearned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import RULES
from latentmdp.policy.belief import reach_weights
from latentmdp.theory.auditing.optimistic_values import optimistic_alpha

if TYPE_CHECKING:
    from latentmdp.learning.spec import RunSpec
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.policy.graph import PolicyGraph

BELOW_CAP = 1e-9  # an optimistic value this far below 1 has left the cap
LARGEST_POWER = 60  # episodes are searched up to 2^60
HALVINGS = 40


def exploring_from(model: LatentMDP, policy: PolicyGraph, spec: RunSpec) -> float | None:
    """The first episode at which `policy`, played all the time, should look worth less than 1.

    By halving on the number of episodes `k`: every row gets `k` times its expected visits, and the
    algorithm's equations give the optimistic value. For MVP's `16 S iota / N` alone that is
    `k = 16 S iota min_m D_m / (w_m (1 - V_m))` with `D_m` the rows that the policy reaches in
    context `m` and `V_m` its value there. A run is later by up to a factor 2, because its
    estimates are of the last doubling, and by what it takes good policies like it to leave the cap
    as well. None for algorithms without optimism, and where it never happens.
    """
    rule = RULES.get(spec.algorithm)
    if rule is None or rule.random or rule.cap > 1.0 or spec.algorithm == "greedy":
        return None
    low, high = 0.0, float(LARGEST_POWER)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        value = optimistic_value(model, policy, spec, 2.0**middle)
        assert value is not None
        if value < 1.0 - BELOW_CAP:
            high = middle
        else:
            low = middle
    return None if high == LARGEST_POWER else 2.0**high


def optimistic_value(
    model: LatentMDP, policy: PolicyGraph, spec: RunSpec, episodes: float
) -> float | None:
    """What the algorithm hopes for from `policy` once it has been played for so many episodes."""
    row = (np.arange(model.M) * model.S + policy.state[:, None]) * model.A + policy.action[:, None]
    per_episode = np.bincount(
        row.ravel(), reach_weights(model, policy).ravel(), model.M * model.S * model.A
    )
    counts = Counts.for_model(model)
    each = episodes * np.repeat(per_episode, np.diff(model.indptr)) * model.prob
    counts.n_next[:] = np.rint(np.minimum(each, 2.0**61))
    counts.n[:] = np.bincount(counts.slot_row, counts.n_next, counts.rows)
    counts.snapshot_all()
    alpha = optimistic_alpha(model, policy, counts, spec)
    if alpha is None:
        return None
    return float((model.w[:, None] * model.nu * alpha[policy.root].T).sum())
