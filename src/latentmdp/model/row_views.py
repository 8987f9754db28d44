"""`ModelRows`: what can be read off a model's canonical rows."""

import hashlib
from functools import cached_property

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model import rows as canonical
from latentmdp.model.availability import Mask, stand_ins
from latentmdp.model.rows import Rows, Sizes


class ModelRows:
    """The reading half of `LatentMDP`, which has these fields."""

    w: Floats
    nu: Floats
    horizon: int
    discount: float
    n_actions: int
    indptr: Ints
    next: Ints
    symbol: Ints
    prob: Floats
    reward: Floats
    observe_rewards: bool
    allowed: Mask | None

    @property
    def M(self) -> int:
        """Number of contexts."""
        return len(self.w)

    @property
    def S(self) -> int:
        """Number of states."""
        return int(self.nu.shape[1])

    @property
    def A(self) -> int:
        """Number of actions."""
        return self.n_actions

    @property
    def H(self) -> int:
        """The horizon: every episode has exactly this many steps (`math.inf`: it has no end)."""
        return self.horizon

    @property
    def sizes(self) -> Sizes:
        """`(M, S, A)`."""
        return Sizes(self.M, self.S, self.A)

    @property
    def rows(self) -> Rows:
        """The outcomes in CSR form."""
        return Rows(self.indptr, self.next, self.symbol, self.prob, self.reward)

    @cached_property
    def branching(self) -> int:
        """The largest number of outcomes of any row."""
        return int(np.diff(self.indptr).max())

    @cached_property
    def Gamma(self) -> int:
        """The largest number of next states of any row."""
        if not self.stochastic_rewards:
            return self.branching
        row = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        return int(np.bincount(np.unique(row * self.S + self.next) // self.S).max())

    @cached_property
    def stochastic_rewards(self) -> bool:
        """Whether one next state of a row comes with several rewards, each with a symbol."""
        if not (self.observe_rewards and self.rewards_on_transitions):
            return False
        return canonical.repeats_next(self.indptr, self.next, self.S)

    @cached_property
    def rewards_on_transitions(self) -> bool:
        """Whether the reward depends on the next state as well."""
        return not canonical.constant_in_rows(self.indptr, self.reward)

    @cached_property
    def largest_reward(self) -> float:
        """The largest absolute reward: what rounding error is measured against."""
        return float(np.abs(self.reward).max())

    @cached_property
    def row_reward(self) -> Floats:
        """`(M*S*A,)` expected reward of each row."""
        if self.rewards_on_transitions:
            expected = np.add.reduceat(self.prob * self.reward, self.indptr[:-1])
        else:
            expected = self.reward[self.indptr[:-1]]
        expected.flags.writeable = False
        return expected

    @cached_property
    def stand_in(self) -> Ints:
        """`(S, A)` the action itself, or the first available one where it is unavailable."""
        allowed = np.ones((self.S, self.A), dtype=bool) if self.allowed is None else self.allowed
        found = stand_ins(allowed)
        found.flags.writeable = False
        return found

    @cached_property
    def listed_rows(self) -> Mask:
        """`(M*S*A,)` whether a row is one of its own: the others only repeat an available action.

        What is shown or written lists these.
        """
        if self.allowed is None:
            return np.ones(self.M * self.S * self.A, dtype=bool)
        return np.tile(self.allowed.reshape(-1), self.M)

    def actions_in(self, state: int) -> Ints:
        """The available actions of a state, ascending."""
        return np.arange(self.A) if self.allowed is None else np.flatnonzero(self.allowed[state])

    @property
    def P(self) -> Floats:
        """`(M, S, A, S)` transition probabilities, dense; 0 in rows of unavailable actions."""
        return self._dense(self.prob)

    @property
    def R(self) -> Floats:
        """`(M, S, A)` rewards, or `(M, S, A, S)` where they sit on transitions, dense.

        The mean of those of a next state, where there are several.
        """
        if self.stochastic_rewards:
            total = self.P
            mean = self._dense(self.prob * self.reward)
            return np.divide(mean, total, out=mean, where=total > 0)
        if self.rewards_on_transitions:
            return self._dense(self.reward)
        dense = self.row_reward.reshape(self.M, self.S, self.A).copy()
        if self.allowed is not None:
            dense[:, ~self.allowed] = 0.0
        return dense

    def _dense(self, values: Floats) -> Floats:
        M, S, A = self.sizes
        if M * S * A * S > 2**31:
            raise ModelError(f"a dense view must have at most 2^31 entries; {M * S * A * S} asked")
        dense = np.zeros((M * S * A, S))
        row = np.repeat(np.arange(M * S * A), np.diff(self.indptr))
        if self.stochastic_rewards:
            np.add.at(dense, (row, self.next), values)
        else:
            dense[row, self.next] = values
        if self.allowed is not None:
            dense[~self.listed_rows] = 0.0
        return dense.reshape(M, S, A, S)

    def symbol_of(self, state: int, action: int, next: int, reward: float) -> int:
        """The symbol an agent sees with this reward there; -1 if no context can give it."""
        outcomes = self.outcomes_to(np.arange(self.M), state, action, next)
        if not self.observe_rewards:
            return 0 if len(outcomes) else -1
        found = canonical.match_reward(self.reward[outcomes], reward, self.largest_reward)
        return int(self.symbol[outcomes[found]]) if found >= 0 else -1

    def outcomes_to(self, contexts: Ints, state: int, action: int, next: int) -> Ints:
        """Positions of the outcomes from `(state, action)` to `next` in these contexts."""
        rows = (contexts * self.S + state) * self.A + action
        outcomes = np.concatenate([np.arange(*self.indptr[row : row + 2]) for row in rows])
        return outcomes[self.next[outcomes] == next]

    @cached_property
    def digest(self) -> str:
        """Of all that values and runs depend on; names, layout and units are not among it."""
        found = hashlib.sha256()
        for name in ("w", "nu", "indptr", "next", "symbol", "prob", "reward"):
            found.update(getattr(self, name).tobytes())
        found.update(repr((self.M, self.S, self.A, self.H, self.discount)).encode())
        if self.allowed is not None:
            found.update(self.allowed.tobytes())
        return found.hexdigest()[:16]
