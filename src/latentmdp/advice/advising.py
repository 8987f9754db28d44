"""`Adviser`: what to do now, also after people have done something else.

It keeps the step, the state and the belief. While its advice is followed it says what the policy
says. Once another action was done, what the policy remembers does not hold: the belief does. From
there it takes the better of two, by what is proven of them:

- one-step look-ahead on the policy's alpha vectors (`values.py`): worth at least the best node of
  the policy at the step, state and belief, whatever is seen and done later;
- a new plan of the rest of the episode, followed until it is left in its turn.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from latentmdp.advice.names import listed, number_of
from latentmdp.advice.replanning import Detour, Origin, plan_rest
from latentmdp.advice.saved import checked_state, digest_of, without_none
from latentmdp.advice.values import BeliefValues, checked_belief
from latentmdp.csr import Floats
from latentmdp.errors import ModelError
from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.plan import Plan
from latentmdp.policy.cursor import LEAST_BELIEF, belief_after, checked_available, symbol_seen
from latentmdp.policy.graph import PolicyGraph

TIME_LIMIT = 1.0  # seconds of planning again; reached only where the work below takes longer
WORK_LIMIT = 500_000  # of planning again, in the planner's units: a few tenths of a second


class Adviser:
    """Advice through one episode; see the module. `lm.adviser(model, policy)` makes one.

    `policy` is a plan, a policy or a table of actions. Where the policy was left it plans again,
    for at most `time_limit` seconds and `work_limit` units of work: the same history gives the
    same advice as long as the work ends in time. `time_limit=0`: look-ahead alone. None: no limit
    on time. `accept_unexpected`: see `observe`.

    >>> from latentmdp import make, plan
    >>> model = make("bandit:arms=2,contexts=2,horizon=3,seed=0")
    >>> adviser = plan(model, gap=None).adviser()
    >>> advised = adviser.start(0)
    >>> other = 1 - advised
    >>> adviser.observe(int(model.next[model.indptr[other]]), action=other) in (0, 1)
    True
    """

    def __init__(
        self,
        model: LatentMDP,
        policy: Any,
        *,
        time_limit: float | None = TIME_LIMIT,
        work_limit: int = WORK_LIMIT,
        accept_unexpected: bool = False,
    ) -> None:
        if not isinstance(model, LatentMDP):
            raise ModelError(f"an adviser needs a LatentMDP; it is a {type(model).__name__}")
        if time_limit is not None and not (_is_number(time_limit) and time_limit >= 0):
            raise ModelError(f"time_limit must be seconds, or None; it is {time_limit!r}")
        if not (_is_number(work_limit) and work_limit >= 1):
            raise ModelError(f"work_limit must be a number of at least 1; it is {work_limit!r}")
        self.model = model
        self.time_limit, self.work_limit = time_limit, int(work_limit)
        self.accept_unexpected = bool(accept_unexpected)
        self._values = BeliefValues(model, policy)
        self._graph: PolicyGraph = self._values.vectors.policy
        self._upper_at_start = _upper_of_plan(model, policy)
        self._begun = False

    # ------------------------------------------------------------------ one episode

    def start(self, state: int | str, *, accept_unexpected: bool | None = None) -> int:
        """Begin an episode in a state; returns the action to take.

        A first state that the model does not have is refused; with `accept_unexpected` it says
        nothing about the context.
        """
        at = number_of("state", state, self.model.S, self.model.state_names)
        weight = self.model.w * self.model.nu[:, at]
        expected = bool(weight.any())
        if not expected and not self._accepts(accept_unexpected):
            first = np.flatnonzero((self.model.w @ self.model.nu) > 0)
            raise ModelError(
                f"the first state must be one that some context begins in ({listed(first)}); it "
                f"is {state!r} (accept_unexpected=True takes it as saying nothing of the context)"
            )
        if not expected:
            weight = self.model.w
        self._begun, self._step, self._state = True, 0, at
        self._belief = _floored(weight)
        self._detour: Detour | None = None
        alone = np.count_nonzero(self.model.w @ self.model.nu) == 1
        self._upper = self._upper_at_start if expected and alone else np.inf
        self._node: int | None = int(self._graph.root[at]) if expected else None
        self._action: int | None
        if self._node is None:
            self._decide()
        else:
            self._action = int(self._graph.action[self._node])
        assert self._action is not None
        return self._action

    def observe(
        self,
        next_state: int | str,
        action: int | str | None = None,
        reward: float | None = None,
        reading: int | str | None = None,
        *,
        accept_unexpected: bool | None = None,
    ) -> int | None:
        """What was seen, and what was done if it was not the advice; returns the next action.

        None: the episode is over. States, actions and readings are numbers or names. `reward` is
        needed where rewards are seen and contexts that are still possible pay differently,
        `reading` where the model has readings.

        What no context that is still possible can show is refused. With `accept_unexpected` the
        belief becomes what this observation leaves of the contexts' weights by itself; what no
        context can ever show says nothing, and the belief stays as it is.
        """
        accept = self._accepts(accept_unexpected)
        advised = self._advised()
        nxt = number_of("next state", next_state, self.model.S, self.model.state_names)
        done = advised
        if action is not None:
            done = number_of("action", action, self.model.A, self.model.action_names)
            checked_available(self.model, self._step, self._state, done)
        if reward is not None and not isinstance(reward, (int, float, np.number)):
            raise ModelError(f"the reward must be a number; it is {reward!r}")
        read = None
        if reading is not None:
            names = self.model.reading_names
            read = number_of("reading", reading, self.model.readings, names)
        transition = self._state, done, nxt
        symbol = symbol_seen(
            self.model, self._belief, self._step, transition, reward, read,
            accept_unexpected=accept,
        )  # fmt: skip
        found = belief_after(self.model, self._belief, self._step, transition, symbol)
        expected = found is not None
        if found is None:  # accepted: what the observation by itself leaves
            found = belief_after(self.model, self.model.w, self._step, transition, symbol)
        self._belief = self._belief if found is None else found
        node, step = self._node, self._step
        self._step, self._state, self._upper = step + 1, nxt, np.inf
        self._action = None
        if self._step == self.model.H:
            self._node = None
            return None
        if node is None or done != advised or not expected:
            self._decide()
        else:
            graph = self._followed
            self._node = graph.successor(node, symbol, self._state)
            self._action = int(graph.action[self._node])
        return self._action

    def set_belief(self, belief: Any) -> int:
        """Put outside evidence into the belief; returns the action to take at it.

        `belief (M,)`: probabilities or any weights of the contexts, which are divided by their
        sum: `adviser.set_belief(adviser.belief * likelihoods)` for a test that the model does not
        have.
        """
        self._advised()
        weight = checked_belief(belief, self.model.M)
        self._belief = weight / weight.sum()
        self._decide()
        assert self._action is not None
        return self._action

    # ------------------------------------------------------------------ what it knows

    @property
    def action(self) -> int | None:
        """The action to take now; None where the episode is over or has not begun."""
        return self._action if self._begun else None

    @property
    def belief(self) -> Floats:
        """`(M,)` probabilities of the contexts, by all that was done and seen."""
        self._check_begun()
        return self._belief.copy()

    @property
    def step(self) -> int:
        """The current step, from 0."""
        self._check_begun()
        return self._step

    @property
    def current_state(self) -> int:
        """The current state."""
        self._check_begun()
        return self._state

    @property
    def on_policy(self) -> bool:
        """Whether the advice is still the policy's own."""
        return self._begun and self._node is not None and self._detour is None

    @property
    def values(self) -> Floats:
        """`(A, 2)` bounds of what each action is worth from here on, the belief carried on.

        Lower: what can be had by the action and going on by look-ahead or by the plan that is
        followed. Upper: it holds for every way to go on. NaN for actions that are unavailable.
        """
        advised = self._advised()
        found = self._values.q_at(self._values_step, self._state, self._belief)
        if self._detour is not None and self._node is not None:
            following = self._detour.value(self._node, self._belief)
            found[advised, 0] = max(found[advised, 0], following)
        found[:, 1] = np.maximum(np.minimum(found[:, 1], self._upper), found[:, 0])
        return found

    def __repr__(self) -> str:
        if not self._begun:
            return "Adviser(not begun: start(state))"
        names = self.model.state_names
        state = names[self._state] if names else self._state
        if self._action is None:
            return f"Adviser(over after {self._step} steps, in state {state})"
        actions = self.model.action_names
        action = actions[self._action] if actions else self._action
        belief = ", ".join(f"{x:.3g}" for x in self._belief[:6])
        more = ", ..." if self.model.M > 6 else ""
        return f"Adviser(step {self._step}, state {state}: do {action}; belief {belief}{more})"

    # ------------------------------------------------------------------ plain data

    def state(self) -> dict[str, Any]:
        """Where the episode is, as plain data for JSON; `from_state` goes on with it."""
        self._check_begun()
        planned_at = None
        if self._detour is not None:
            origin = self._detour.origin
            planned_at = {
                "step": origin.step, "state": origin.state, "belief": origin.belief.tolist()
            }  # fmt: skip
        return without_none(
            {
                "step": self._step, "state": self._state, "belief": self._belief.tolist(),
                "action": self._action, "node": self._node, "planned_at": planned_at,
                "upper": None if np.isinf(self._upper) else self._upper,
                "time_limit": self.time_limit, "work_limit": self.work_limit,
                "accept_unexpected": self.accept_unexpected,
                "made_for": self._made_for,
            }
        )  # fmt: skip

    @cached_property
    def _made_for(self) -> str:
        return digest_of(self.model, self._graph)

    @classmethod
    def from_state(cls, model: LatentMDP, policy: Any, state: Mapping[str, Any]) -> "Adviser":
        """An adviser that goes on where `state()` was taken, with the same advice."""
        found = checked_state(model, state)
        options = ("time_limit", "work_limit", "accept_unexpected")
        self = cls(model, policy, **{name: found[name] for name in options})
        if found["made_for"] != self._made_for:
            raise ModelError(
                "the state must be of an adviser for this model and policy; it was saved with "
                "others"
            )
        self._begun = True
        self._step, self._state = found["step"], found["state"]
        self._belief, self._action = found["belief"], found["action"]
        self._upper = np.inf if found["upper"] is None else found["upper"]
        self._node, self._detour = found["node"], None
        if found["planned_at"] is not None:
            self._detour = self._planned(Origin(*found["planned_at"]))
        if self._node is not None and not self._is_here(self._node):
            self._node, self._detour = None, None  # planned with another result: see TIME_LIMIT
        return self

    def _is_here(self, node: int) -> bool:
        """Whether this node of what is followed is one of the present step, state and action."""
        graph, since = self._followed, 0 if self._detour is None else self._detour.origin.step
        if not 0 <= node < graph.N or graph.state[node] != self._state:
            return False
        step = 0 if graph.stationary else self._step - since
        return bool(graph.step[node] == step and graph.action[node] == self._action)

    # ------------------------------------------------------------------ off the policy

    def _decide(self) -> None:
        """The action by the belief alone: look-ahead, or a new plan if that is worth more."""
        ahead = self._values.q_at(self._values_step, self._state, self._belief)
        action = int(np.nanargmax(ahead[:, 0]))
        self._node, self._detour, self._action = None, None, action
        if self.time_limit == 0:
            return
        origin = Origin(self._step, self._state, self._belief.copy())
        detour = self._planned(origin)
        self._upper = detour.plan.upper
        if detour.plan.lower > ahead[action, 0]:
            self._detour = detour
            self._node = int(detour.plan.policy.root[origin.state])
            self._action = int(detour.plan.policy.action[self._node])

    def _planned(self, origin: Origin) -> Detour:
        return plan_rest(self._values, origin, self.time_limit, self.work_limit)

    @property
    def _followed(self) -> PolicyGraph:
        """The graph that `_node` is a node of."""
        return self._graph if self._detour is None else self._detour.plan.policy

    @property
    def _values_step(self) -> int:
        return 0 if is_infinite(self.model.horizon) else self._step

    def _advised(self) -> int:
        """The advice, which must be there."""
        self._check_begun()
        if self._action is None:
            raise ModelError(
                f"the episode must not be over; it has had its {self._step} steps (start(state) "
                "begins another)"
            )
        return self._action

    def _accepts(self, given: bool | None) -> bool:
        return self.accept_unexpected if given is None else bool(given)

    def _check_begun(self) -> None:
        if not self._begun:
            raise ModelError("the episode must have begun: start(state) comes first")


def adviser(
    model: LatentMDP,
    policy: Any,
    *,
    time_limit: float | None = TIME_LIMIT,
    work_limit: int = WORK_LIMIT,
    accept_unexpected: bool = False,
) -> Adviser:
    """An `Adviser` for a plan, a policy or a table of actions in a model."""
    return Adviser(
        model, policy, time_limit=time_limit, work_limit=work_limit,
        accept_unexpected=accept_unexpected,
    )  # fmt: skip


def _upper_of_plan(model: LatentMDP, policy: Any) -> float:
    """What a plan for this very model proves of every policy, in an episode."""
    if isinstance(policy, Plan) and policy.policy_class == "history":
        return policy.upper if policy.model_digest == model.digest else np.inf
    return np.inf


def _floored(weight: Floats) -> Floats:
    """A belief of these weights; contexts that are possible stay so, however unlikely."""
    return np.where(weight > 0.0, np.maximum(weight / weight.sum(), LEAST_BELIEF), 0.0)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
