"""`Cursor`: runs a policy through one episode, step by step."""

from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.policy.belief import likelihoods

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.policy.graph import PolicyGraph

LEAST_BELIEF = 1e-300  # a context that is possible stays so, however long the episode
ACCEPT = "accept_unexpected=True goes on as if nothing had been seen before"


class Cursor:
    """Runs a policy: where it is (`node`), what it does (`action`), what it sees (`observe`).

    With a `model` it knows what can be seen, and refuses the rest; see `PolicyGraph.cursor`. An
    `Adviser` does more: after another action than the policy's it plans again.
    """

    __slots__ = ("_vectors", "belief", "model", "node", "policy")

    def __init__(self, policy: "PolicyGraph", node: int, model: "LatentMDP | None" = None) -> None:
        self.policy = policy
        self.node = node
        self.model = model
        self._vectors: Any = None  # AlphaVectors, made when they are needed
        self.belief: Floats | None = None  # (M,) which context may be the hidden one
        if model is not None:
            weight = model.w * model.nu[:, policy.state[node]]
            if not weight.any():  # a first state that the model does not have
                weight = model.w
            self.belief = weight / weight.sum()

    @property
    def step(self) -> int:
        """The current step, from 0."""
        return int(self.policy.step[self.node])

    @property
    def _state(self) -> int:
        return int(self.policy.state[self.node])

    @property
    def action(self) -> int:
        """The action to take now."""
        return int(self.policy.action[self.node])

    @property
    def possible(self) -> np.ndarray | None:
        """`(M,)` which contexts may still be the hidden one; None without a model."""
        return None if self.belief is None else self.belief > 0.0

    def observe(
        self,
        next_state: int,
        *,
        action: int | None = None,
        reward: float | None = None,
        reading: int | None = None,
        symbol: int | None = None,
        accept_unexpected: bool = False,
    ) -> int | None:
        """What was done and seen; returns the next action, or None when the episode is over.

        `action` is what was done, if it was not the policy's own (`self.action`). A Markov policy
        goes on at the next state. One with memory then goes on at the node of the next step and
        state that is worth most at the belief; that takes the model.

        `reward` is needed where the model's contexts pay differently and the policy sees it, and
        `reading` where the model has readings. What no context that is still possible can produce
        is refused; with `accept_unexpected` the policy goes on from the default node of the next
        state, without what it remembered.
        `symbol` stands for both where it is known by its number (`model.symbol`), and is not
        checked.
        """
        policy = self.policy
        if not isinstance(next_state, (int, np.integer)) or not 0 <= next_state < policy.S:
            raise ModelError(
                f"the next state must be a whole number from 0 to {policy.S - 1}; it is "
                f"{next_state!r}"
            )
        if symbol is not None and (reward is not None or reading is not None):
            raise ModelError(
                "reward and reading, or symbol, must be given, not both: a symbol is their number"
            )
        done = self.action if action is None else self._checked_action(action)
        if symbol is None:
            symbol = self._symbol(done, next_state, reward, reading, accept_unexpected)
        if self.model is not None:
            expected = self._update(done, next_state, symbol)
        else:
            expected = True
        if policy.ends_after(self.step):
            return None
        after = int(policy.step_after(self.step))
        if done == self.action:
            self.node = policy.successor(self.node, symbol, next_state)
        elif policy.is_markov or not expected:
            self.node = int(policy.default[after, next_state])
        else:
            self.node = self._best_node(after, next_state)
        return self.action

    def _checked_action(self, action: Any) -> int:
        """What was done; a policy with memory needs the model if that was not its own action."""
        if not isinstance(action, (int, np.integer)) or action < 0:
            raise ModelError(f"the action must be a whole number of at least 0; it is {action!r}")
        if self.model is not None:
            return checked_available(self.model, self.step, self._state, int(action))
        if int(action) != self.action and not self.policy.is_markov:
            raise ModelError(
                f"the action must be the policy's own, {self.action}, where the cursor does not "
                f"know the model; it is {action} (lm.adviser(model, policy) goes on after any "
                "action; policy.cursor(state, model) too)"
            )
        return int(action)

    def _symbol(
        self,
        action: int,
        next_state: int,
        reward: float | None,
        reading: int | None,
        accept_unexpected: bool,
    ) -> int:
        """What the policy sees of `reward` and `reading`; -1 for what it cannot tell."""
        if reward is not None and not isinstance(reward, (int, float, np.number)):
            raise ModelError(f"the reward must be a number; it is {reward!r}")
        if self.model is None:
            if self.policy.is_markov:
                return -1  # it looks at the next state alone
            raise ModelError(
                "to know what a reward says the cursor needs the model: policy.cursor(state, model)"
            )
        assert self.belief is not None
        return symbol_seen(
            self.model, self.belief, self.step, (self._state, action, next_state), reward,
            reading, needed=not self.policy.is_markov, accept_unexpected=accept_unexpected,
        )  # fmt: skip

    def _update(self, action: int, next_state: int, symbol: int) -> bool:
        """The belief after this (symbol -1: any reward); whether a context could show it."""
        assert self.model is not None
        assert self.belief is not None
        transition = self._state, action, next_state
        found = belief_after(self.model, self.belief, self.step, transition, symbol)
        self.belief = self.model.w if found is None else found
        return found is not None

    def _best_node(self, step: int, state: int) -> int:
        """The node that is worth most at the belief, where what was remembered does not hold."""
        from latentmdp.evaluation.alpha_vectors import AlphaVectors  # which imports this module

        assert self.model is not None
        assert self.belief is not None
        if self._vectors is None:
            self._vectors = AlphaVectors(self.model, self.policy)
        return int(self._vectors.best(step, state, self.belief)[1])


def checked_available(model: "LatentMDP", step: int, state: int, action: int) -> int:
    """Refuse an action that is unavailable in the state at the step."""
    available = model.actions_in(state, step).tolist()
    if action not in available:
        raise ModelError(
            f"the action must be available in state {state} "
            f"({', '.join(map(str, available))}); it is {action}"
        )
    return action


def symbol_seen(
    model: "LatentMDP",
    belief: Floats,
    step: int,
    transition: tuple[int, int, int],
    reward: float | None,
    reading: int | None = None,
    *,
    needed: bool = True,
    accept_unexpected: bool = False,
) -> int:
    """The symbol of what was seen at `transition` (state, action, next state); -1: unknown.

    What no context of positive belief can show is refused, unless it is accepted. Without a
    `reward` or a `reading`, that of the only one that there can be; -1 if it is not `needed`.
    """
    outcomes = _outcomes(model, belief, step, transition)
    where = "(state {}, action {}, next {})".format(*transition)
    if model.readings > 1:
        possible = np.unique(model.reading[outcomes])
        if reading is None and len(possible) > 1:
            if not needed:
                return -1
            raise ModelError(f"the reading must be given: several are possible for {where}")
        reading = (
            _checked_reading(model, reading)
            if reading is not None
            else int(possible.max(initial=0))
        )
        outcomes = outcomes[model.reading[outcomes] == reading]
    elif reading is not None:
        raise ModelError(f"the model has no readings; the reading is {reading!r}")
    symbols = np.unique(model.symbol[outcomes])
    if reward is None and len(symbols) > 1:
        if not needed:
            return -1
        raise ModelError(f"the reward must be given: contexts pay differently for {where}")
    if reward is None:
        symbol = int(symbols[0]) if len(symbols) else -1
    else:
        symbol = model.symbol_of(*transition, reward, step, reading or 0)
    if symbol not in symbols and not accept_unexpected:
        received = model.received(outcomes, step)
        raise ModelError(_refusal(model, transition, reward, reading, received))
    return symbol


def _checked_reading(model: "LatentMDP", reading: Any) -> int:
    whole = isinstance(reading, (int, np.integer)) and not isinstance(reading, bool)
    if not whole or not 0 <= reading < model.readings:
        raise ModelError(
            f"the reading must be a whole number from 0 to {model.readings - 1}; it is {reading!r}"
        )
    return int(reading)


def belief_after(
    model: "LatentMDP", belief: Floats, step: int, transition: tuple[int, int, int], symbol: int
) -> Floats | None:
    """The belief after a transition (symbol -1: any reward); None if no context can show it."""
    weight = belief * likelihoods(model, *transition, symbol, step)
    if not weight.any():
        return None
    return np.where(weight > 0.0, np.maximum(weight / weight.sum(), LEAST_BELIEF), 0.0)


def _outcomes(
    model: "LatentMDP", belief: Floats, step: int, transition: tuple[int, int, int]
) -> Ints:
    """Positions of the outcomes of a transition in the contexts of positive belief."""
    return model.outcomes_to(np.flatnonzero(belief > 0.0), *transition, step)


def _refusal(
    model: "LatentMDP",
    transition: tuple[int, int, int],
    reward: float | None,
    reading: int | None,
    rewards: Floats,
) -> str:
    where = "(state {}, action {}, next {})".format(*transition)
    remedy = (
        "if another action was done, say so: action=, also in lm.adviser(model, policy), which "
        f"goes on with the best advice after any action; {ACCEPT}"
    )
    if len(rewards) == 0:
        seen = "" if reading is None else f" with reading {reading}"
        return (
            "the next state must be one that some context can lead to after what was seen so "
            f"far; none leads to {where}{seen} ({remedy})"
        )
    values = ", ".join(f"{x:.6g}" for x in np.unique(rewards))
    if model.units:
        values += f" in {model.units}"
    return (
        f"the reward of {where} must be one that some context pays after what was seen so far "
        f"({values}); it is {reward!r} ({remedy})"
    )
