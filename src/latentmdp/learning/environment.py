"""`learn_env`: Algorithm 1 in a Gymnasium environment whose final `info` tells the context."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.csr import Array
from latentmdp.errors import ActionMaskWarning, ModelError
from latentmdp.learning.knowledge import ESTIMABLE, nothing_known
from latentmdp.learning.learner import Learner
from latentmdp.learning.spec import RunSpec

if TYPE_CHECKING:
    import gymnasium

    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.optimism.given import Given
    from latentmdp.runtime.files import PathLike


class EnvRun(NamedTuple):
    """What came of it: the learner (its `policy`, `counts`), and one entry per episode."""

    learner: Learner
    returns: Array  # (episodes,) total rewards
    contexts: Array  # (episodes,)
    updated: Array  # (episodes,) whether the solver was called after it

    def __repr__(self) -> str:
        K = len(self.returns)
        return f"EnvRun({K} episodes, mean return {self.returns.mean():.6g}, {self.learner!r})"


def learn_env(
    env: gymnasium.Env[Any, Any],
    given: LatentMDP | Given | None = None,
    *,
    episodes: int,
    contexts: int | None = None,
    horizon: int | None = None,
    allowed: ArrayLike | None = None,
    terminal: int | None = None,
    estimate: Collection[str] | None = None,
    algorithm: str = "mvp",
    policy_class: str = "markov",
    delta: float = 0.1,
    bonus_scale: float = 1.0,
    seed: int = 0,
    learner: Learner | None = None,
    context_key: str = "context",
    save_to: PathLike | None = None,
) -> EnvRun:
    """Learn for `episodes` episodes in an environment with numbered states and actions.

    `given` is what is known: a model, `known_from(R, w, nu, H)`, or by default what a
    `LatentMDPEnv` knows. Without any, give `contexts` and `horizon`: `w`, `nu` and `R` are then
    estimated (`estimate` names some of them), which is beyond the theorem and loses optimism, since
    the frequencies of `w` and `nu` have no bonus; `allowed (S, A)` says which actions are available
    then.
    Rewards must lie in [0, 1] and total at most 1.

    Episodes have exactly `H` steps; where the environment ends one earlier, `terminal` names the
    state in which the rest is spent with reward 0 (the number after the last state, say). The last
    step's `info[context_key]` must be the context. `learner` continues one (say, a loaded one),
    with its own settings and other random episodes than those it has seen.

    An `info["action_mask"]` is not followed, since masks mean different things: Taxi's only marks
    actions without effect, which may well be played. One `ActionMaskWarning` says so if a mask
    rules out what the learner may play; `allowed` says what is available.

    `save_to` names a file that the learner is saved to after every update and however it ends; an
    episode cut short is dropped.
    """
    nobody_said = learner is None and allowed is None  # which actions are available
    if learner is None:
        given, estimate = _given(env, given, contexts, horizon, allowed, terminal, estimate)
        episodes = RunSpec(episodes=episodes).episodes
        learner = Learner(
            given,
            algorithm,
            episodes=episodes,
            policy_class=policy_class,
            delta=delta,
            bonus_scale=bonus_scale,
            seed=seed,
            estimate=estimate,
        )
    if terminal is not None and not 0 <= terminal < learner.known.S:
        raise ModelError(
            f"terminal must be a state from 0 to {learner.known.S - 1}, or the number after the "
            f"environment's last state; it is {terminal}"
        )
    masks = _Masks(nobody_said and learner.known.allowed is None)
    returns, told = np.zeros(int(episodes)), np.zeros(int(episodes), dtype=np.int64)
    updated = np.zeros(int(episodes), dtype=bool)
    first = seed if learner.episode == 1 else _seed_of(seed, learner.episode)
    try:
        for k in range(int(episodes)):
            returns[k], told[k] = _episode(
                env, learner, terminal, first if k == 0 else None, context_key, masks
            )
            updated[k] = learner.end(int(told[k]))
            if save_to is not None and updated[k]:
                learner.save(save_to)
    finally:
        if save_to is not None:
            learner.cancel()
            learner.save(save_to)
    return EnvRun(learner, returns, told, updated)


class _Masks:
    """Warns once, if `asked`, of an environment that masks an action of a state."""

    def __init__(self, asked: bool) -> None:
        self._asked = asked

    def look(self, info: dict[str, Any], state: Any) -> None:
        """Look at what is said of a state in which an action is about to be played."""
        if not self._asked or "action_mask" not in info:
            return
        masked = np.flatnonzero(np.asarray(info["action_mask"]) == 0)
        if len(masked):
            self._asked = False
            warnings.warn(
                f"info['action_mask'] rules out action {masked[0]} in state {state}, but learn_env "
                "does not follow masks, since some only mark actions without effect: if masked "
                "actions are unavailable, give allowed=, an array (S, A) that is true where an "
                "action is available (or a model that has it); if not, np.ones((S, A))",
                ActionMaskWarning,
                stacklevel=4,
            )


def _seed_of(seed: int, episode: int) -> int:
    """For the environment of a learner that goes on at this episode."""
    return int(np.random.SeedSequence([seed, episode]).generate_state(1)[0])


def _episode(
    env: gymnasium.Env[Any, Any],
    learner: Learner,
    terminal: int | None,
    seed: int | None,
    context_key: str,
    masks: _Masks,
) -> tuple[float, int]:
    """Play one episode of exactly `H` learner's steps; its total reward and context."""
    H = learner.known.H
    state, info = env.reset(seed=seed)
    action: int | None = learner.begin(_number(state))
    masks.look(info, state)
    total, steps, over = 0.0, 0, False
    while action is not None and not over:
        state, reward, ended, truncated, info = env.step(action)
        action = learner.step(float(reward), _number(state))
        total, steps, over = total + float(reward), steps + 1, ended or truncated
        if action is not None and not over:
            masks.look(info, state)
    if context_key not in info:
        raise ModelError(
            f"the last step's info must have {context_key!r}, the episode's context; after "
            f"{steps} of {H} steps it has {sorted(info)}"
        )
    if action is not None and terminal is None:
        raise ModelError(
            f"an episode must have {H} steps; one ended after {steps} (name a terminal state)"
        )
    while action is not None:
        action = learner.step(0.0, terminal)  # type: ignore[arg-type]
    return total, int(info[context_key])


def _given(
    env: gymnasium.Env[Any, Any],
    given: LatentMDP | Given | None,
    contexts: int | None,
    horizon: int | None,
    allowed: ArrayLike | None,
    terminal: int | None,
    estimate: Collection[str] | None,
) -> tuple[LatentMDP | Given, Collection[str]]:
    """What is known, and what is to be estimated."""
    given = given if given is not None else getattr(env.unwrapped, "model", None)
    if given is not None:
        if allowed is not None:
            raise ModelError("allowed must be part of what is given: of the model or known_from")
        return given, estimate or ()
    if contexts is None or horizon is None:
        raise ModelError("without a model, contexts and horizon must be given")
    sizes = []
    for name in ("observation_space", "action_space"):
        size = getattr(getattr(env, name), "n", None)
        if size is None:
            raise ModelError(f"{name} must be Discrete; it is {getattr(env, name)}")
        sizes.append(int(size))
    states = sizes[0] + (terminal == sizes[0])
    known = nothing_known(contexts, states, sizes[1], horizon, allowed=allowed)
    return known, estimate or ESTIMABLE


def _number(state: Any) -> int:
    try:
        return int(state)
    except (TypeError, ValueError):
        raise ModelError(f"observations must be state numbers; one is {state!r}") from None
