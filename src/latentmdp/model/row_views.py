"""`RowViews`: what can be read off a model's canonical rows."""

import hashlib
import math
from functools import cached_property
from typing import Any

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model import rows as canonical
from latentmdp.model.availability import Mask, substitute_actions
from latentmdp.model.rows import Rows, Sizes


class RowViews:
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
    terminal: Floats | None
    readings: int

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
    def steps(self) -> int:
        """How many steps have rows of their own: 1 where all share them, else the horizon."""
        return (len(self.indptr) - 1) // (self.M * self.S * self.A)

    @property
    def changes_with_step(self) -> bool:
        """Whether rows depend on the step or something is received after the last one."""
        return self.steps > 1 or self.terminal is not None

    @property
    def stride(self) -> int:
        """How far the rows of the next step are away: 0 where they are the same at every step."""
        return 0 if self.steps == 1 else self.M * self.S * self.A

    def row(self, step: Any, context: Any, state: Any, action: Any) -> Any:
        """The number of row `(step, context, state, action)`; of arrays, too."""
        return step * self.stride + (context * self.S + state) * self.A + action

    @cached_property
    def terminal_or_zeros(self) -> Floats:
        """`(M, S)` what is received after the last step."""
        return np.zeros((self.M, self.S)) if self.terminal is None else self.terminal

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
        if not self.repeats_next:
            return self.branching
        row = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        return int(np.bincount(np.unique(row * self.S + self.next) // self.S).max())

    @cached_property
    def repeats_next(self) -> bool:
        """Whether one next state of a row comes with several symbols: rewards or readings."""
        if self.readings == 1 and not (self.observe_rewards and self.rewards_on_transitions):
            return False
        return canonical.repeats_next(self.indptr, self.next, self.S)

    @cached_property
    def stochastic_rewards(self) -> bool:
        """Whether one next state of a row comes with several rewards, each with a symbol."""
        if self.readings == 1:
            return self.repeats_next
        if not (self.observe_rewards and self.rewards_on_transitions):
            return False
        row = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        pairs = np.unique(np.column_stack([row * self.S + self.next, self.reward_symbol]), axis=0)
        return bool((np.diff(pairs[:, 0]) == 0).any())

    @property
    def reading(self) -> Ints:
        """`(nnz,)` what is read with each outcome, besides the next state."""
        return self.symbol % self.readings

    @property
    def reward_symbol(self) -> Ints:
        """`(nnz,)` the part of the symbol that stands for the reward."""
        return self.symbol // self.readings

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
        """`(T*M*S*A,)` expected reward of each row, without terminal rewards."""
        if self.rewards_on_transitions:
            expected = np.add.reduceat(self.prob * self.reward, self.indptr[:-1])
        else:
            expected = self.reward[self.indptr[:-1]]
        expected.flags.writeable = False
        return expected

    @cached_property
    def last_row_reward(self) -> Floats:
        """`(M*S*A,)` expected reward of each row at the last step, with what comes after it."""
        rows = self.M * self.S * self.A
        reward = self.row_reward[-rows:]
        if self.terminal is None:
            return reward
        ptr = self.indptr[-1 - rows :]
        context = np.repeat(np.arange(rows) // (self.S * self.A), np.diff(ptr))
        after = self.prob[ptr[0] :] * self.terminal[context, self.next[ptr[0] :]]
        total: Floats = reward + self.discount * np.add.reduceat(after, ptr[:-1] - ptr[0])
        return total

    @cached_property
    def substitute(self) -> Ints:
        """`(S, A)` the action itself, or the first available one where it is unavailable.

        `(H, S, A)` where the available actions depend on the step.
        """
        allowed = np.ones((self.S, self.A), dtype=bool) if self.allowed is None else self.allowed
        found = substitute_actions(allowed)
        found.flags.writeable = False
        return found

    @cached_property
    def listed_rows(self) -> Mask:
        """`(T*M*S*A,)` whether a row is one of its own: the others only repeat an available action.

        What is shown or written lists these.
        """
        if self.allowed is None:
            return np.ones(len(self.indptr) - 1, dtype=bool)
        by_step = self.allowed.reshape(self.steps, 1, -1)
        return np.repeat(by_step, self.M, axis=1).reshape(-1)

    def allowed_at(self, step: Any, state: Any = slice(None)) -> Mask:
        """`(S, A)` available actions at a step; `(n, A)` for arrays of steps and states.

        After the last step, those of the last one.
        """
        if self.allowed is None:
            return np.ones((self.S, self.A), dtype=bool)[state]
        if self.allowed.ndim == 2:
            return self.allowed[state]
        return self.allowed[np.minimum(step, self.H - 1), state]

    def actions_in(self, state: int, step: int = 0) -> Ints:
        """The available actions of a state, ascending."""
        return np.flatnonzero(self.allowed_at(step, state))

    @property
    def P(self) -> Floats:
        """`(M, S, A, S)` transition probabilities, dense; 0 in rows of unavailable actions.

        `(H, M, S, A, S)` where they depend on the step.
        """
        return self._dense(self.prob)

    @property
    def R(self) -> Floats:
        """`(M, S, A)` rewards, or `(M, S, A, S)` where they sit on transitions, dense.

        With an axis of steps before these where rows depend on the step; without terminal rewards.
        The mean of those of a next state, where there are several.
        """
        if self.rewards_on_transitions and self.repeats_next:
            total = self.P
            mean = self._dense(self.prob * self.reward)
            return np.divide(mean, total, out=mean, where=total > 0)
        if self.rewards_on_transitions:
            return self._dense(self.reward)
        dense = np.where(self.listed_rows, self.row_reward, 0.0)
        return dense.reshape(self._dense_shape[:-1])

    @property
    def _dense_shape(self) -> tuple[int, ...]:
        shape = (self.M, self.S, self.A, self.S)
        return shape if self.steps == 1 else (self.steps, *shape)

    def _dense(self, values: Floats) -> Floats:
        shape = self._dense_shape
        if np.prod(shape, dtype=float) > 2**31:
            raise ModelError(
                f"a dense view must have at most 2^31 entries; {math.prod(shape)} asked"
            )
        dense = np.zeros((len(self.indptr) - 1, self.S))
        row = np.repeat(np.arange(len(dense)), np.diff(self.indptr))
        if self.repeats_next:
            np.add.at(dense, (row, self.next), values)
        else:
            dense[row, self.next] = values
        if self.allowed is not None:
            dense[~self.listed_rows] = 0.0
        return dense.reshape(shape)

    def symbol_of(
        self, state: int, action: int, next: int, reward: float, step: int = 0, reading: int = 0
    ) -> int:
        """The symbol an agent sees with this reward and reading; -1 if no context can give it."""
        outcomes = self.outcomes_to(np.arange(self.M), state, action, next, step)
        outcomes = outcomes[self.reading[outcomes] == reading]
        if not self.observe_rewards:
            return reading if len(outcomes) else -1
        received = self.received(outcomes, step)
        found = canonical.match_reward(received, reward, self.largest_reward)
        return int(self.symbol[outcomes[found]]) if found >= 0 else -1

    def received(self, outcomes: Ints, step: int) -> Floats:
        """The rewards of outcomes at a step; at the last one with what comes after it."""
        reward: Floats = self.reward[outcomes]
        if self.terminal is None or step != self.H - 1:
            return reward
        row = np.searchsorted(self.indptr, outcomes, side="right") - 1
        context = row // (self.S * self.A) % self.M
        return reward + self.discount * self.terminal[context, self.next[outcomes]]

    def outcomes_to(
        self, contexts: Ints, state: int, action: int, next: int, step: int = 0
    ) -> Ints:
        """Positions of the outcomes from `(state, action)` to `next` in these contexts."""
        rows = self.row(step, contexts, state, action)
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
        if self.terminal is not None:
            found.update(self.terminal.tobytes())
        if self.readings > 1:
            found.update(repr(self.readings).encode())
        return found.hexdigest()[:16]
