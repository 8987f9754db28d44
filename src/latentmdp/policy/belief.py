"""Beliefs over contexts, and how likely each node of a policy is in each context."""

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.csr import Floats, outcomes_of_a_row, pieces
from latentmdp.errors import ModelError
from latentmdp.model.latent_mdp import LatentMDP

if TYPE_CHECKING:
    from latentmdp.policy.graph import PolicyGraph


def initial_belief(model: LatentMDP, state: int) -> Floats | None:
    """`(M,)` belief after seeing the first state, `b_m ∝ w_m nu_m(s)`; None if it is impossible."""
    return _normalized(model.w * model.nu[:, state])


def update_belief(
    model: LatentMDP,
    belief: Floats,
    state: int,
    action: int,
    next: int,
    *,
    symbol: int | None = None,
    reward: float | None = None,
    reading: int | None = None,
    step: int | None = None,
) -> Floats | None:
    """`(M,)` belief after one more observation; None if it is impossible under `belief`.

    `b_m(h a r s') ∝ b_m(h) P_m(s'|s,a) 1[r = R_m(s,a)]`. What was seen besides the next state is
    given as a `symbol`, or as a `reward` and a `reading`; a hidden reward is not needed, nor a
    reading where the model has none. A step-dependent model needs the `step` (from 0) at which the
    action was taken.
    """
    if model.changes_with_step and (step is None or not 0 <= step < model.H):
        raise ModelError(
            "the step must be given for a model that changes with the step, from 0 to "
            f"{model.H - 1}; it is {step}"
        )
    step = step or 0
    if symbol is None:
        if model.readings > 1 and reading is None:
            raise ModelError("the model has readings: give the symbol or the reading")
        if model.observe_rewards and reward is None:
            raise ModelError("rewards are observed: give the symbol or the reward")
        symbol = model.symbol_of(state, action, next, reward or 0.0, step, reading or 0)
    return _normalized(belief * likelihoods(model, state, action, next, symbol, step))


def likelihoods(
    model: LatentMDP, state: int, action: int, next: int, symbol: int, step: int = 0
) -> Floats:
    """`(M,)` probability of `(symbol, next)` after the action, by context; symbol -1: any."""
    contexts = np.arange(model.M)
    outcomes = model.outcomes_to(contexts, state, action, next, step)
    if symbol >= 0:
        outcomes = outcomes[model.symbol[outcomes] == symbol]
    row = np.searchsorted(model.indptr, outcomes, side="right") - 1
    found = np.zeros(model.M)
    np.add.at(found, row // (model.S * model.A) % model.M, model.prob[outcomes])
    return found


def reach_weights(model: LatentMDP, policy: "PolicyGraph") -> Floats:
    """`(N, M)` probability of the context and of being at the node at its step.

    Row `n` divided by its sum is the belief at node `n`. `O(N M Gamma)`. Without a last step:
    probability of the context times the discounted number of visits, by a linear system.
    """
    from latentmdp.kernels.policies import policy_nodes, reach_nodes  # Numba loads slowly
    from latentmdp.policy.graph import as_policy  # which imports this module

    policy = as_policy(model, policy)
    if policy.stationary:
        from latentmdp.evaluation.discounted import discounted_reach  # which needs this module

        return discounted_reach(model, policy)
    reach = np.zeros((policy.N, model.M))
    np.add.at(reach, policy.root, (model.w[:, None] * model.nu).T)
    nodes = policy_nodes(policy)
    for first, end in pieces(policy.N, model.M * outcomes_of_a_row(model)):
        reach_nodes(
            model.indptr, model.next, model.symbol, model.prob, model.A, model.stride, nodes,
            first, end, reach,
        )  # fmt: skip
    return reach


def _normalized(weight: Floats) -> Floats | None:
    total = weight.sum()
    return weight / total if total > 0 else None
