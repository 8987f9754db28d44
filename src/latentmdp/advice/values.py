"""Bounds on the Q-values at a step, state and belief: what each action is worth from there on.

Below: each node of a policy is an alpha vector at its step and state, so the best node there is a
value that can be had from any belief. So is the best of the policies that are optimal in a single
context, which have nodes everywhere. One-step look-ahead on the best of all these gives a lower
bound for each action. The action with the largest one is worth at least the best node, and so is
going on in this way at each later step. Above: from the next step on, the context is known.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.evaluation.alpha_vectors import AlphaVectors, value_vectors
from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.baselines import context_values
from latentmdp.planning.infinite.belief_grid import known_contexts
from latentmdp.policy.graph import PolicyGraph

MOST_OWN_BYTES = 2**28  # of the values of each context's own policy in all contexts
BELIEF_TOLERANCE = 1e-6  # what the probabilities of a belief may miss 1 by


class Following(NamedTuple):
    """The observations that can follow a state and an action."""

    symbol: Ints  # (n,)
    next: Ints  # (n,)
    weight: Floats  # (n, M) probability of context and observation


def q_values(model: LatentMDP, policy: Any, step: int, state: int, belief: Any) -> Floats:
    """`(A, 2)` lower and upper bounds of the Q-values at a step, state and belief.

    The lower one can be had by the action and going on by these bounds, the belief carried on:
    at least what the best node of `policy` (a plan, a graph, a table) at the next step and state
    is worth. Actions that are unavailable have NaN. For many beliefs make one
    `BeliefValues(model, policy)` and ask its `q`.

    >>> from latentmdp import make
    >>> model = make("bandit:arms=2,contexts=2,horizon=3,seed=0")
    >>> bounds = q_values(model, np.zeros((3, model.S), dtype=int), 1, 0, model.w)
    >>> bounds.shape, bool((bounds[:, 0] <= bounds[:, 1]).all())
    ((2, 2), True)
    """
    return BeliefValues(model, policy).q(step, state, belief)


class BeliefValues:
    """Bounds on values at any step, state and belief, by the nodes of a policy.

    The first question costs an evaluation of the policy and the solution of each context; each one
    costs `A` times the observations, nodes and contexts.
    """

    def __init__(self, model: LatentMDP, policy: Any) -> None:
        self.model = model
        self.vectors = AlphaVectors(model, policy)

    @cached_property
    def _contexts(self) -> tuple[Floats, Ints]:
        """Each context as a problem of its own: values and actions, `(H + 1, M, S), (H, M, S)`.

        `(1, M, S)` both, without a last step.
        """
        if is_infinite(self.model.horizon):
            actions, values, _ = known_contexts(self.model, lambda: False)
            return values[None], actions[None]
        return context_values(self.model)

    @property
    def known(self) -> Floats:
        """`(H + 1, M, S)` values of knowing the context; `(1, M, S)` without a last step."""
        return self._contexts[0]

    @cached_property
    def _own(self) -> Floats:
        """`(H, S, K, M)` what the policy that is optimal in one of `K` contexts earns in each.

        `K` is 0 where this would not fit into `MOST_OWN_BYTES`.
        """
        model, actions = self.model, self._contexts[1]
        contexts = np.flatnonzero(model.w > 0.0)
        steps = len(actions)
        if 8 * steps * model.S * len(contexts) * model.M > MOST_OWN_BYTES:
            contexts = contexts[:0]
        found = np.empty((steps, model.S, len(contexts), model.M))
        for k, m in enumerate(contexts):
            policy = PolicyGraph.from_table(actions[:, m], is_infinite(model.horizon))
            found[:, :, k] = value_vectors(model, policy)[0].reshape(steps, model.S, model.M)
        return found

    def lower(self, step: int, state: int, belief: Any) -> float:
        """What can be had at a step, state and belief: by the best node, or a context's policy."""
        return self._lower(*self._checked(step, state, belief))

    def _lower(self, step: int, state: int, weight: Floats) -> float:
        own = self._own[0 if is_infinite(self.model.horizon) else step, state]
        best_node = self.vectors.best(step, state, weight)[0]
        return max(best_node, float(np.max(own @ weight, initial=-np.inf)))

    def q(self, step: int, state: int, belief: Any) -> Floats:
        """`(A, 2)` lower and upper bounds of each action's value; NaN where it is unavailable."""
        return self.q_at(*self._checked(step, state, belief))

    def q_at(self, step: int, state: int, weight: Floats) -> Floats:
        """`q` for checked weights of the contexts."""
        model = self.model
        found = np.full((model.A, 2), np.nan)
        for action in model.actions_in(state, step):
            found[action] = self._lower_and_upper(step, state, int(action), weight)
        return found

    def _lower_and_upper(
        self, step: int, state: int, action: int, weight: Floats
    ) -> tuple[float, float]:
        model = self.model
        last = step == model.H - 1
        row = model.row(step, np.arange(model.M), state, action)
        if last:
            rewards = model.last_row_reward[row % (model.M * model.S * model.A)]
        else:
            rewards = model.row_reward[row]
        low = high = float(weight @ rewards)
        if is_infinite(model.horizon):
            later = 0
        elif last:
            return low, high
        else:
            later = step + 1
        seen = following(model, step, state, action, weight)
        for nxt, after in zip(seen.next.tolist(), seen.weight, strict=True):
            low += model.discount * self._lower(later, nxt, after)
            high += model.discount * float(after @ self.known[later, :, nxt])
        return low, max(low, high)  # they may cross by rounding error

    def _checked(self, step: Any, state: Any, belief: Any) -> tuple[int, int, Floats]:
        model = self.model
        for what, value, below in (("step", step, model.H), ("state", state, model.S)):
            if not isinstance(value, (int, np.integer)) or not 0 <= value < below:
                raise ModelError(
                    f"the {what} must be a whole number from 0 to {below - 1}; it is {value!r}"
                )
        weight = checked_belief(belief, model.M)
        if abs(weight.sum() - 1.0) > BELIEF_TOLERANCE:
            raise ModelError(f"the belief must sum to 1; it sums to {weight.sum():.6g}")
        return int(step), int(state), weight


def following(model: LatentMDP, step: int, state: int, action: int, weight: Floats) -> Following:
    """What can be observed after the action, in the contexts of positive weight."""
    contexts = np.flatnonzero(weight > 0.0)
    rows = model.row(step, contexts, state, action)
    length = model.indptr[rows + 1] - model.indptr[rows]
    outcome = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    outcome += np.repeat(model.indptr[rows], length)
    code = model.symbol[outcome] * model.S + model.next[outcome]
    seen, number = np.unique(code, return_inverse=True)
    joint = np.zeros((len(seen), model.M))
    context = np.repeat(contexts, length)
    np.add.at(joint, (number, context), weight[context] * model.prob[outcome])
    symbol, following = np.divmod(seen, model.S)
    return Following(symbol, following, joint)


def checked_belief(belief: Any, M: int) -> Floats:
    """`(M,)` finite numbers of at least 0 that are not all 0."""
    try:
        weight = np.array(belief, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"a belief must hold {M} numbers; it is {belief!r}") from None
    if weight.shape != (M,):
        raise ModelError(
            f"a belief must hold {M} numbers, one per context; its shape is {weight.shape}"
        )
    if not np.isfinite(weight).all() or weight.min() < 0.0 or weight.sum() <= 0.0:
        raise ModelError(
            f"a belief must hold numbers of at least 0 that are not all 0; it is {weight.tolist()}"
        )
    return weight
