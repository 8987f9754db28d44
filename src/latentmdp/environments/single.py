"""`LatentMDPEnv`: one latent MDP as a Gymnasium environment."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from latentmdp.builtin_domains import make
from latentmdp.environments.rendering import Renderer
from latentmdp.errors import ModelError
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.sampling import Sampler


class LatentMDPEnv(gym.Env[Any, Any]):
    """Episodes of a latent MDP; the last step reveals the hidden context.

    Observations are states, actions are numbers, episodes are truncated after exactly `horizon`
    steps (never, if that is infinite) and never terminate earlier. `info["symbol"]` is what a
    `PolicyGraph` observes besides the next state; only the last step has `info["context"]`. Where
    the model has unavailable actions, `info["action_mask"]` says which are available in the state,
    1 or 0 for each, in the form that `action_space.sample` takes; playing an unavailable one is an
    error. `reset(options={"context": m})` forces the context. A terminal reward, times the
    discount, is part of the last step's reward. If the model has readings, an observation is an
    array, the pair `(state, reading)`; before the first action the reading is `model.readings`.

    >>> env = LatentMDPEnv("bandit:horizon=2")
    >>> state, info = env.reset(seed=0, options={"context": 1})
    >>> "context" in info, env.step(0)[4].get("context"), env.step(0)[4].get("context")
    (False, None, 1)
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(self, model: LatentMDP | str, render_mode: str | None = None) -> None:
        if isinstance(model, str):
            model = make(model)
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ModelError(f"render_mode must be 'ansi' or 'rgb_array'; it is {render_mode!r}")
        self.model = model
        self.render_mode = render_mode
        self.observation_space = observation_space(model)
        self.action_space = gym.spaces.Discrete(model.A)
        self._sampler, self._stride = Sampler(model), model.stride
        self._renderer = Renderer(model) if render_mode else None
        self._step = -1  # no episode yet
        self._context = self._state = self._reading = 0
        self._action: int | None = None
        self._total = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; `options={"context": m}` forces the context."""
        super().reset(seed=seed)
        forced = forced_context(self.model, options)
        u, v = self.np_random.random(2)
        drawn = int(self._sampler.context(u)) if forced is None else int(forced)
        self._context = drawn
        self._state = int(self._sampler.start(np.array([drawn]), np.array([v]))[0])
        self._step, self._action, self._total = 0, None, 0.0
        self._reading = self.model.readings
        return self._observation(), self._mask()

    def _observation(self) -> Any:
        """The state, or the pair of state and reading."""
        if self.model.readings == 1:
            return self._state
        return np.array([self._state, self._reading])

    def _mask(self) -> dict[str, Any]:
        """`action_mask (A,)` of the current state, if any action is unavailable anywhere."""
        if self.model.allowed is None:
            return {}
        return {"action_mask": self.model.allowed_at(self._step)[self._state].astype(np.int8)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step; the last one (the horizon's) is truncated and its info has the context."""
        if self._step < 0 or self._step >= self.model.horizon:
            raise ResetNeeded("call reset() before step(): no episode is running")
        if not 0 <= action < self.model.A or action != int(action):
            raise ModelError(f"action must be between 0 and {self.model.A - 1}; it is {action!r}")
        model, a = self.model, int(action)
        if model.allowed is not None and not model.allowed_at(self._step)[self._state, a]:
            available = ", ".join(map(str, model.actions_in(self._state, self._step)))
            raise ModelError(
                f"action {a} must be available in state {self._state}; it is not (available are "
                f"{available}: see info['action_mask'])"
            )
        row = self._step * self._stride + (self._context * model.S + self._state) * model.A + a
        first, last = model.indptr[row], model.indptr[row + 1]
        u = self.np_random.random()
        i = first + self._sampler.cumulative[first:last].searchsorted(u, side="right")
        reward = float(model.reward[i])
        self._state, self._reading = int(model.next[i]), int(model.symbol[i]) % model.readings
        self._step += 1
        if self._step == model.horizon and model.terminal is not None:
            reward += model.discount * float(model.terminal[self._context, self._state])
        self._action, self._total = a, self._total + reward
        info: dict[str, Any] = {"symbol": int(model.symbol[i]), **self._mask()}
        over = self._step == model.horizon
        if over:
            info["context"] = self._context
        return self._observation(), reward, False, over, info

    def render(self) -> Any:
        """The current state as text (`ansi`) or as an RGB picture (`rgb_array`)."""
        if self._renderer is None:
            return None
        if self._step < 0:
            raise ResetNeeded("call reset() before render(): no episode is running")
        over = self._step == self.model.horizon
        frame = (self._state, self._step, self._action, self._total)
        known = self._context if over else None
        if self.render_mode == "ansi":
            return self._renderer.text(*frame, known)
        return self._renderer.picture(*frame, known)


def observation_space(model: LatentMDP) -> gym.spaces.Space[Any]:
    """States, or pairs of state and reading; one more reading says that there is none yet."""
    if model.readings == 1:
        return gym.spaces.Discrete(model.S)
    return gym.spaces.MultiDiscrete([model.S, model.readings + 1])


def forced_context(model: LatentMDP, options: dict[str, Any] | None) -> Any:
    """The context that `options` asks for (a number, or an array for batches), checked; or None."""
    options = options or {}
    for name in options:
        if name != "context":
            raise ModelError(f"the reset option is 'context'; not {name!r}")
    asked = options.get("context")
    if asked is None:
        return None
    contexts = np.asarray(asked)
    if contexts.dtype.kind not in "iu" or (contexts < 0).any() or (contexts >= model.M).any():
        raise ModelError(
            f"options['context'] must be a whole number between 0 and {model.M - 1}; "
            f"it is {asked!r}"
        )
    return contexts
