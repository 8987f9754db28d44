"""`Cursor`: runs a policy through one episode, step by step."""

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.either_kind import ordinary, place
from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from latentmdp.either_kind import AnyModel
    from latentmdp.policy import PolicyGraph


class Cursor:
    """Runs a policy: where it is (`node`), what it does (`action`), what it sees (`observe`).

    With a `model` it knows what can be seen, and refuses the rest; see `PolicyGraph.cursor`.
    """

    __slots__ = ("model", "node", "policy", "possible")

    def __init__(self, policy: "PolicyGraph", node: int, model: "AnyModel | None" = None) -> None:
        self.policy = policy
        self.node = node
        self.model = model
        self.possible: np.ndarray | None = None  # (M,) which contexts may still be the hidden one
        if model is not None:
            self.possible = model.w * model.nu[:, policy.state[node]] > 0.0
            if not self.possible.any():  # a first state that the model does not have
                self.possible = model.w > 0.0

    @property
    def step(self) -> int:
        """The current step, from 0."""
        return int(self.policy.step[self.node])

    @property
    def action(self) -> int:
        """The action to take now."""
        return int(self.policy.action[self.node])

    def observe(
        self,
        next_state: int,
        *,
        reward: float | None = None,
        symbol: int | None = None,
        accept_unexpected: bool = False,
    ) -> int | None:
        """What came of `action`; returns the next action, or None when the episode is over.

        `reward` is needed where the model's contexts pay differently and the policy sees it. What
        no context that is still possible can produce is refused; with `accept_unexpected` the
        policy goes on from the default node of the next state, without what it remembered.
        `symbol` stands for the reward where it is known by its number (`model.symbol`), and is
        not checked.
        """
        policy = self.policy
        if not isinstance(next_state, (int, np.integer)) or not 0 <= next_state < policy.S:
            raise ModelError(
                f"the next state must be a whole number from 0 to {policy.S - 1}; it is "
                f"{next_state!r}"
            )
        if reward is not None and symbol is not None:
            raise ModelError("reward or symbol must be given, not both: a symbol is its number")
        if reward is not None and not isinstance(reward, (int, float, np.number)):
            raise ModelError(f"the reward must be a number; it is {reward!r}")
        if symbol is None:
            symbol = self._symbol(next_state, reward, accept_unexpected)
        if self.model is not None:
            self._rule_out(next_state, symbol)
        if policy.ends_after(self.step):
            return None
        for e in range(policy.indptr[self.node], policy.indptr[self.node + 1]):
            if policy.symbol[e] == symbol and policy.next[e] == next_state:
                self.node = int(policy.node[e])
                return self.action
        self.node = int(policy.default[policy.step_after(self.step), next_state])
        return self.action

    def _symbol(self, next_state: int, reward: float | None, accept_unexpected: bool) -> int:
        """What the policy sees of `reward`; -1 for what it cannot tell."""
        model = self.model
        if model is None:
            if self.policy.is_markov:
                return -1  # it looks at the next state alone
            raise ModelError(
                "to know what a reward says the cursor needs the model: policy.cursor(state, model)"
            )
        state = int(self.policy.state[self.node])
        outcomes = self._outcomes(next_state)
        symbols = np.unique(ordinary(model).symbol[outcomes])
        if reward is None and len(symbols) > 1:
            if self.policy.is_markov:
                return -1
            raise ModelError(
                f"the reward must be given: contexts pay differently for (state {state}, action "
                f"{self.action}, next {next_state})"
            )
        if reward is None:
            symbol = int(symbols[0]) if len(symbols) else -1
        else:
            symbol = ordinary(model).symbol_of(*self._places(next_state), reward)
        if symbol not in symbols and not accept_unexpected:
            raise ModelError(
                self._refusal(state, next_state, reward, ordinary(model).reward[outcomes])
            )
        return symbol

    def _outcomes(self, next_state: int) -> np.ndarray:
        """Positions of the outcomes with this next state in the contexts that are possible."""
        model = self.model
        assert model is not None
        assert self.possible is not None
        contexts = np.flatnonzero(self.possible)
        return ordinary(model).outcomes_to(contexts, *self._places(next_state))

    def _places(self, next_state: int) -> tuple[int, int, int]:
        """State, action and next state as `ordinary(model)` numbers them."""
        assert self.model is not None
        state = place(self.model, self.step, int(self.policy.state[self.node]))
        return int(state), self.action, int(place(self.model, self.step + 1, next_state))

    def _rule_out(self, next_state: int, symbol: int) -> None:
        """Keep the contexts that can have shown this (-1: any reward); all if none can."""
        assert self.model is not None
        model = ordinary(self.model)
        outcomes = self._outcomes(next_state)
        if symbol >= 0:
            outcomes = outcomes[model.symbol[outcomes] == symbol]
        row = np.searchsorted(model.indptr, outcomes, side="right") - 1
        contexts = row // (model.S * model.A)
        self.possible = np.isin(np.arange(model.M), contexts) if len(row) else model.w > 0.0

    def _refusal(
        self, state: int, next_state: int, reward: float | None, rewards: np.ndarray
    ) -> str:
        place = f"(state {state}, action {self.action}, next {next_state})"
        remedy = "accept_unexpected=True goes on as if nothing had been seen before"
        if len(rewards) == 0:
            return (
                "the next state must be one that some context can lead to after what was seen so "
                f"far; none leads to {place} ({remedy})"
            )
        values = ", ".join(f"{x:.6g}" for x in np.unique(rewards))
        if self.model is not None and self.model.units:
            values += f" in {self.model.units}"
        return (
            f"the reward of {place} must be one that some context pays after what was seen so far "
            f"({values}); it is {reward!r} ({remedy})"
        )
