"""Alpha vectors: what a policy earns from each of its nodes on, in each context.

A node of a policy graph answers for its step and state whatever was seen before. So from any belief
`b` there, `max_n b . alpha[n]` over the nodes `n` of that step and state is a value that can be
had: the lower bound with which advice goes on after an override.
"""

from functools import cached_property
from typing import Any

import numpy as np

from latentmdp.csr import Floats, Ints, outcomes_of_a_row, pieces
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.graph import PolicyGraph, as_policy


def value_vectors(model: LatentMDP, policy: PolicyGraph) -> tuple[Floats, Floats]:
    """`alpha (N, M)` and the variances `(N, M)` of what is earned from each node on."""
    if policy.stationary:
        from latentmdp.evaluation.discounted import discounted_values  # SciPy loads slowly

        return discounted_values(model, policy)
    from latentmdp.kernels.policies import alpha_vectors, policy_nodes  # Numba loads slowly

    alpha, variance = np.empty((2, policy.N, model.M))
    nodes, total = policy_nodes(policy), np.empty(model.branching)
    for first, end in reversed(pieces(policy.N, model.M * outcomes_of_a_row(model))):
        alpha_vectors(
            model.indptr, model.next, model.symbol, model.prob, model.reward, model.A,
            model.stride, model.discount, model.terminal_or_zeros, nodes, first, end, total,
            alpha, variance,
        )  # fmt: skip
    return alpha, variance


class AlphaVectors:
    """The alpha vectors of a policy's nodes by step and state.

    >>> from latentmdp import make
    >>> model = make("bandit:arms=2,contexts=2,horizon=3,seed=0")
    >>> vectors = AlphaVectors(model, np.zeros((3, model.S), dtype=int))
    >>> value, node = vectors.best(2, 0, model.w)
    >>> int(vectors.policy.step[node]), int(vectors.policy.state[node])
    (2, 0)
    """

    def __init__(self, model: LatentMDP, policy: Any) -> None:
        self.model, self.policy = model, as_policy(model, policy)

    @cached_property
    def alpha(self) -> Floats:
        """`(N, M)`."""
        return value_vectors(self.model, self.policy)[0]

    @cached_property
    def _by_place(self) -> tuple[Ints, Ints]:
        """The nodes in the order of `step * S + state`, and these numbers."""
        place = self.policy.step * self.policy.S + self.policy.state
        order = np.argsort(place, kind="stable")
        return order, place[order]

    def nodes(self, step: int, state: int) -> Ints:
        """The nodes of a step and state, as `policy` numbers them (stationary: of any step)."""
        order, place = self._by_place
        at = (0 if self.policy.stationary else step) * self.policy.S + state
        first, end = np.searchsorted(place, [at, at + 1])
        return order[first:end]

    def best(self, step: int, state: int, weight: Floats) -> tuple[float, int]:
        """The largest `weight . alpha` over the nodes of a step and state, and its node.

        `weight (M,)` is a belief, or any other weights of the contexts.
        """
        nodes = self.nodes(step, state)
        values = self.alpha[nodes] @ weight
        k = int(np.argmax(values))
        return float(values[k]), int(nodes[k])
