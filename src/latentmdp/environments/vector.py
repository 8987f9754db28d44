"""`LatentMDPVectorEnv`: a batch of episodes stepped with array operations."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from latentmdp.builtin_domains import make
from latentmdp.environments.single import forced_context, observation_space
from latentmdp.errors import ModelError
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.sampling import Sampler


class LatentMDPVectorEnv(VectorEnv[Any, Any, Any]):
    """`num_envs` independent episodes of one model, stepped together.

    The same contract as a `SyncVectorEnv` of `LatentMDPEnv`s: `infos["symbol"]` at each step,
    `infos["context"]` with the mask `infos["_context"]` where an episode ended (in
    `infos["final_info"]` with `autoreset_mode="SameStep"`). One random stream serves the whole
    batch, so single episodes differ from theirs, but have the same distribution.
    `reset(options={"context": m})` takes one context or one per episode. Where the model has
    unavailable actions, `infos["action_mask"] (num_envs, A)` says which are available.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        model: LatentMDP | str,
        num_envs: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        if isinstance(model, str):
            model = make(model)
        if num_envs < 1:
            raise ModelError(f"num_envs must be at least 1; it is {num_envs}")
        self.model = model
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = observation_space(model)
        self.single_action_space = gym.spaces.Discrete(model.A)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._sampler = Sampler(model)
        self._context = np.zeros(num_envs, dtype=np.int64)
        self._state = np.zeros(num_envs, dtype=np.int64)
        self._reading = np.zeros(num_envs, dtype=np.int64)
        self._steps = np.full(num_envs, -1, dtype=np.int64)  # -1: no episode yet
        self._common_step: int | None = -1  # the step of all episodes, None where they differ

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start all episodes, or those of `options["reset_mask"]`."""
        super().reset(seed=seed)
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        forced = forced_context(self.model, options)
        if mask is None:
            chosen = np.arange(self.num_envs)
        else:
            mask = np.asarray(mask)
            if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
                raise ModelError(
                    f"options['reset_mask'] must be {self.num_envs} booleans; "
                    f"it is {mask.dtype} of shape {mask.shape}"
                )
            chosen = np.flatnonzero(mask)
        if forced is not None:
            if forced.shape not in ((), (self.num_envs,)):
                raise ModelError(
                    f"options['context'] must be one number or {self.num_envs}; "
                    f"its shape is {forced.shape}"
                )
            forced = np.broadcast_to(forced, self.num_envs)[chosen]
        self._start(chosen, forced)
        return self._observations(), self._masks(np.isin(np.arange(self.num_envs), chosen))

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step of every episode; finished ones are reset according to `autoreset_mode`."""
        a = self._checked(actions)
        n, H = self.num_envs, self.model.horizon
        never = np.zeros(n, dtype=bool)
        if self._common_step is not None:  # all in step: no masks needed
            if 0 <= self._common_step < H:
                reward, infos = self._advance(a)
                self._common_step += 1
                over = np.full(n, self._common_step == H)
                return self._finish(reward, never, over, infos)
            if self._common_step < 0 or self.autoreset_mode is not AutoresetMode.NEXT_STEP:
                raise gym.error.ResetNeeded("call reset() before step(): an episode is over")
            self._start(np.arange(n), None)
            return self._observations(), np.zeros(n), never, never.copy(), self._masks(~never)
        return self._step_apart(a)

    def _step_apart(
        self, a: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """A step of episodes that are at different steps."""
        waiting = (self._steps < 0) | (self._steps >= self.model.horizon)
        if waiting.any() and (
            self.autoreset_mode is not AutoresetMode.NEXT_STEP or (self._steps < 0).any()
        ):
            raise gym.error.ResetNeeded("call reset() before step(): an episode is over")
        kept = self._state.copy(), self._context.copy()
        reward, infos = self._advance(a)
        self._steps += 1
        over = self._steps == self.model.horizon
        if waiting.any():  # these spend the step on starting anew
            self._state[waiting], self._context[waiting] = kept[0][waiting], kept[1][waiting]
            reward[waiting] = 0.0
            infos["symbol"][waiting] = 0
            infos["_symbol"] = ~waiting
            self._start(np.flatnonzero(waiting), None)
        return self._finish(reward, np.zeros(self.num_envs, dtype=bool), over, infos)

    def _advance(self, a: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        u = self.np_random.random(self.num_envs)
        step = self._steps if self._common_step is None else self._common_step
        model = self.model
        i = self._sampler.outcome(self._context, self._state, a, u, self._within(step))
        self._state, self._reading = model.next[i], model.symbol[i] % model.readings
        infos = {"symbol": model.symbol[i], "_symbol": np.ones(self.num_envs, dtype=bool)}
        reward = model.reward[i]
        if model.terminal is not None:
            after = model.discount * model.terminal[self._context, self._state]
            reward = reward + np.where(np.asarray(step) == model.horizon - 1, after, 0.0)
        return reward, infos

    def _observations(self) -> np.ndarray:
        """`(num_envs,)` states, or `(num_envs, 2)` states and readings."""
        if self.model.readings == 1:
            return self._state.copy()
        return np.stack([self._state, self._reading], axis=1)

    def _within(self, step: Any) -> Any:
        """The step, of episodes that are over the last one (their draw is not used)."""
        return np.minimum(step, self.model.horizon - 1) if self.model.steps > 1 else 0

    def _finish(
        self, reward: np.ndarray, never: np.ndarray, over: np.ndarray, infos: dict[str, Any]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if over.any():
            told = {"context": np.where(over, self._context, 0), "_context": over.copy()}
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                final = np.full(self.num_envs, None, dtype=object)
                final[over] = list(self._observations()[over])
                told["symbol"] = np.where(over, infos["symbol"], 0)
                told["_symbol"] = over.copy()
                told |= self._masks(over)
                going_on = infos["_symbol"] & ~over
                infos = {"symbol": infos["symbol"] * going_on, "_symbol": going_on}
                infos = infos if going_on.any() else {}
                infos |= {"final_obs": final, "_final_obs": over.copy()}
                infos |= {"final_info": told, "_final_info": over.copy()}
                self._start(np.flatnonzero(over), None)
            else:
                infos |= told
        infos |= self._masks(np.ones(self.num_envs, dtype=bool))
        return self._observations(), reward, never, over, infos

    def _masks(self, which: np.ndarray) -> dict[str, Any]:
        """Masks of the current states of these episodes, if any action is unavailable anywhere."""
        if self.model.allowed is None:
            return {}
        step = self._steps if self._common_step is None else self._common_step
        allowed = self.model.allowed_at(self._within(step), self._state)
        masks = np.where(which[:, None], allowed, False)
        return {"action_mask": masks.astype(np.int8), "_action_mask": which.copy()}

    def _start(self, chosen: np.ndarray, forced: np.ndarray | None) -> None:
        u, v = self.np_random.random((2, chosen.size))
        context = self._sampler.context(u) if forced is None else forced
        if self._common_step is not None:
            self._steps[:] = self._common_step
        self._context[chosen] = context
        self._state = self._state.copy()
        self._state[chosen] = self._sampler.start(context, v)
        self._reading = self._reading.copy()
        self._reading[chosen] = self.model.readings
        self._steps[chosen] = 0
        together = (self._steps == self._steps[0]).all()
        self._common_step = int(self._steps[0]) if together else None

    def _checked(self, actions: Any) -> np.ndarray:
        a = np.asarray(actions)
        if a.shape != (self.num_envs,) or a.dtype.kind not in "iu":
            raise ModelError(
                f"actions must be {self.num_envs} whole numbers; found {a.dtype} of shape {a.shape}"
            )
        if (a < 0).any() or (a >= self.model.A).any():
            raise ModelError(f"actions must be between 0 and {self.model.A - 1}; found {a!r}")
        if self.model.allowed is not None:
            self._check_available(a)
        return a

    def _check_available(self, a: np.ndarray) -> None:
        """Refuse unavailable actions; episodes that are over ignore theirs."""
        steps = self._steps if self._common_step is None else np.full(a.size, self._common_step)
        under_way = (steps >= 0) & (steps < self.model.horizon)
        allowed = self.model.allowed_at(self._within(np.maximum(steps, 0)), self._state)
        bad = under_way & ~allowed[np.arange(a.size), a]
        if bad.any():
            i = int(np.argmax(bad))
            raise ModelError(
                f"action {a[i]} must be available in state {self._state[i]} of episode {i}; it is "
                "not (see infos['action_mask'])"
            )
