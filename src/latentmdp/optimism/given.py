"""`Given`: what a learner knows beforehand, everything of a model but its transitions."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model.availability import Mask, substitute_actions
from latentmdp.model.horizons import needs_finite
from latentmdp.model.latent_mdp import LatentMDP, refuse_readings, refuse_steps
from latentmdp.model.rows import dense_symbols


@dataclass(frozen=True)
class Given:
    """What the learner knows beforehand: everything of the model but its transitions.

    Rewards sit on rows, `row_reward (rows,)`; where they depend on the next state they sit in
    `next_reward (rows, S)` instead and `row_reward` is 0. Symbols likewise. Which actions are
    available is known too; rows of the others repeat, as in the model.
    """

    M: int
    S: int
    A: int
    H: int
    w: Floats
    nu: Floats
    row_reward: Floats
    row_symbol: Ints
    next_reward: Floats | None
    next_symbol: Ints | None
    allowed: Mask | None = None  # (S, A); None: all actions

    @classmethod
    def of(cls, model: LatentMDP) -> "Given":
        """Read `w, nu, R, H` from a model that satisfies the paper's conditions, else refuse."""
        check_learnable(model)
        rows = model.M * model.S * model.A
        w, nu = np.array(model.w), np.array(model.nu)
        sizes = (model.M, model.S, model.A, model.H)
        first = model.indptr[:-1]
        if not model.rewards_on_transitions:
            on_rows = model.reward[first], model.symbol[first]
            return cls(*sizes, w, nu, *on_rows, None, None, model.allowed)
        reward, nothing = model.unmasked().R.reshape(rows, model.S), np.zeros(rows, dtype=np.int64)
        symbol = np.zeros(reward.shape, dtype=np.int64)
        if model.observe_rewards:
            symbol = dense_symbols(model.sizes, model.rows)
        return cls(*sizes, w, nu, np.zeros(rows), nothing, reward, symbol, model.allowed)

    @cached_property
    def substitute(self) -> Ints:
        """`(S, A)` the action itself, or the first available one where it is unavailable."""
        everything = np.ones((self.S, self.A), dtype=bool)
        return substitute_actions(everything if self.allowed is None else self.allowed)

    @property
    def root(self) -> Floats:
        """`(M, S)` joint probability of context and first state."""
        return self.w[:, None] * self.nu

    def rewards(self, row: Ints, next: Ints) -> Floats:
        """Rewards on transitions of these outcomes; 0 where rewards sit on rows."""
        return np.zeros(len(row)) if self.next_reward is None else self.next_reward[row, next]

    def symbols(self, row: Ints, next: Ints) -> Ints:
        """What the agent sees besides the next state."""
        return self.row_symbol[row] if self.next_symbol is None else self.next_symbol[row, next]


def check_learnable(model: LatentMDP) -> None:
    """The paper's conditions: rewards at least 0, totals at most 1, no discount.

    Transitions and rewards do not change with the step, and the context, state, action and next
    state say what the reward is.
    """
    refuse_steps(model, "learning")
    refuse_readings(model, "learning")
    needs_finite(model, "learning")
    if model.stochastic_rewards:
        raise ModelError(
            "learning needs one reward for each context, state, action and next state; here some "
            "have several, which are observed: model.replace(observe_rewards=False) hides and "
            "averages them (--hidden-rewards, in a study observe_rewards = false), "
            "model.rewards_in_state() makes them part of the state"
        )
    cure = (
        "normalized() (--normalize, in a study normalize = true) gives rewards and totals in [0, 1]"
    )
    if model.discount != 1.0:
        raise ModelError(
            f"learning needs discount 1; it is {model.discount}; replace(discount=1.0) "
            f"(--discount 1, in a study discount = 1) gives that, and {cure}"
        )
    if model.reward.size and model.reward.min() < 0:
        raise ModelError(f"learning needs rewards >= 0; one is {model.reward.min():.6g}; {cure}")
    if model.max_return > 1.0 + 1e-9:
        raise ModelError(
            f"learning needs total rewards of at most 1; one is {model.max_return:.6g}; {cure}"
        )
