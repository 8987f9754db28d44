"""`HindsightEnv`: several environments as one; which one was chosen is revealed at the end."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from latentmdp.errors import ModelError
from latentmdp.model.horizons import checked_whole


class HindsightEnv(gym.Env[Any, Any]):
    """Each episode runs one of `envs`, drawn with the weights `w`; its last step reveals which one.

    Observations, rewards and ends are those of the drawn environment; `info["context"]` is there at
    the last step only. With a `horizon`, episodes are cut (truncated) there. `reset(options=
    {"context": m})` forces the environment; other options are passed to it. `learn_env` learns in
    it.

    >>> lakes = [gym.make("FrozenLake-v1", desc=m) for m in (["SG"], ["SH"])]
    >>> env = HindsightEnv(lakes, w=[0.5, 0.5])
    >>> state, info = env.reset(seed=0, options={"context": 1})
    >>> over = False
    >>> while not over:
    ...     state, reward, ended, truncated, info = env.step(2)
    ...     over = ended or truncated
    >>> info["context"]
    1
    """

    def __init__(self, envs: Sequence[Any], w: Any = None, horizon: int | None = None) -> None:
        if isinstance(envs, (str, bytes)) or not isinstance(envs, Sequence) or len(envs) == 0:
            raise ModelError("HindsightEnv needs a list of environments, at least one")
        self.envs = [gym.make(env) if isinstance(env, str) else env for env in envs]
        for name in ("observation_space", "action_space"):
            for i, env in enumerate(self.envs):
                space = getattr(env, name, None)
                if space is None or space != getattr(self.envs[0], name):
                    raise ModelError(
                        f"all environments must have the same {name}; that of environment {i} is "
                        f"{space}, that of environment 0 {getattr(self.envs[0], name, None)}"
                    )
        self.w = _weights(w, len(self.envs))
        self.horizon = None if horizon is None else checked_whole("horizon", horizon, 1)
        self.observation_space = self.envs[0].observation_space
        self.action_space = self.envs[0].action_space
        self.metadata = dict(getattr(self.envs[0], "metadata", {}))
        self.render_mode = getattr(self.envs[0], "render_mode", None)
        self._context = self._steps = 0
        self._running = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Draw an environment and start an episode of it; `options["context"]` forces which."""
        super().reset(seed=seed)
        left = dict(options or {})
        forced = left.pop("context", None)
        drawn = int(np.searchsorted(np.cumsum(self.w), self.np_random.random(), side="right"))
        seeds = self.np_random.integers(2**31, size=len(self.envs))
        self._context = min(drawn, int(np.flatnonzero(self.w)[-1]))
        if forced is not None:
            self._context = checked_whole("the context", forced, 0)
            if self._context >= len(self.envs):
                raise ModelError(
                    f"the context must be from 0 to {len(self.envs) - 1}; it is {forced}"
                )
        own = int(seeds[self._context])  # so that the same seed gives the same episodes
        observation, info = self.envs[self._context].reset(seed=own, options=left or None)
        self._steps, self._running = 0, True
        return observation, _without_context(info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step of the drawn environment; the last one's info has the context."""
        if not self._running:
            raise ResetNeeded("call reset() before step(): no episode is running")
        observation, reward, ended, truncated, info = self.envs[self._context].step(action)
        self._steps += 1
        truncated = bool(truncated) or self._steps == self.horizon
        info = _without_context(info)
        if ended or truncated:
            self._running = False
            info["context"] = self._context
        return observation, float(reward), bool(ended), truncated, info

    def render(self) -> Any:
        """The frame of the environment that was drawn."""
        return self.envs[self._context].render()

    def close(self) -> None:
        """Close all environments."""
        for env in self.envs:
            env.close()


def _without_context(info: Any) -> dict[str, Any]:
    """A copy without a `context` of the environment's own, which would reveal it too early."""
    return {key: value for key, value in dict(info).items() if key != "context"}


def _weights(w: Any, M: int) -> np.ndarray:
    try:
        weights = np.full(M, 1.0 / M) if w is None else np.array(w, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"w must be {M} numbers, one for each environment") from None
    right = weights.shape == (M,) and np.isfinite(weights).all() and (weights >= 0).all()
    if not right or abs(weights.sum() - 1.0) > 1e-9:
        raise ModelError(
            f"w must be {M} weights of at least 0 that sum to 1, one per environment; it is {w}"
        )
    return weights
