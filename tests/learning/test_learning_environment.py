"""`learn_env`: Gymnasium environments, ours and foreign ones with early ends."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import latentmdp as lm
from latentmdp.errors import ActionMaskWarning
from latentmdp.learning.environment import learn_env
from latentmdp.learning.learner import Learner


class Doors(gym.Env[int, int]):
    """Two doors; the context says which one pays. Ends after one step, and tells the context."""

    observation_space = gym.spaces.Discrete(3)  # 0 before the doors, 1 won, 2 lost
    action_space = gym.spaces.Discrete(2)

    def __init__(self, tell: bool = True) -> None:
        self.tell = tell

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.context = int(self.np_random.random() < 0.7)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        won = action == self.context
        info = {"context": self.context} if self.tell else {}
        return 1 if won else 2, float(won), True, False, info


def test_our_own_environment_knows_its_model() -> None:
    env = lm.LatentMDPEnv("maze:size=3,goals=2,horizon=6")
    run = learn_env(env, episodes=60, algorithm="random", seed=5)
    assert run.learner.episode == 61
    assert run.learner.counts.n.sum() == 60 * 6
    assert run.updated.sum() == run.learner.updates
    assert ((run.returns >= 0) & (run.returns <= 1)).all()
    assert set(run.contexts) <= {0, 1}
    again = learn_env(env, episodes=60, algorithm="random", seed=5)
    assert np.array_equal(run.returns, again.returns)


def test_early_ends_are_spent_in_the_terminal_state(tmp_path) -> None:
    run = learn_env(
        Doors(), contexts=2, horizon=3, terminal=3, episodes=100, algorithm="random", seed=1
    )
    counts = run.learner.counts.visits()
    assert counts.shape == (2, 4, 2, 4)
    assert counts[:, 0].sum() == 100
    assert counts[:, 1:3, :, 3].sum() == 100
    assert counts[:, 3, :, 3].sum() == 100
    assert counts.sum() == 300
    rewards = run.learner.known.next_reward.reshape(2, 4, 2, 4)
    assert rewards[0, 0, 0, 1] == rewards[1, 0, 1, 1] == 1.0
    assert rewards.reshape(-1, 4)[run.learner.knowledge.seen].sum() == 2.0
    assert abs(run.learner.known.w[1] - 0.7) < 5 * 0.5 / 10
    run.learner.save(tmp_path / "learner.npz")
    more = learn_env(
        Doors(), episodes=10, terminal=3, learner=Learner.load(tmp_path / "learner.npz")
    )
    assert more.learner.episode == 111


class Lakes(gym.Env[int, int]):
    """Gymnasium's FrozenLake; the hidden context is whether the ice is slippery today."""

    def __init__(self) -> None:
        self.lakes = [
            gym.make("FrozenLake-v1", is_slippery=slippery, max_episode_steps=30)
            for slippery in (False, True)
        ]
        self.observation_space = self.lakes[0].observation_space
        self.action_space = self.lakes[0].action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.context = int(self.np_random.integers(2))
        return self.lakes[self.context].reset(seed=seed)

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        state, reward, ended, truncated, info = self.lakes[self.context].step(action)
        return state, reward, ended, truncated, info | {"context": self.context}


LAKE = {"contexts": 2, "horizon": 30, "terminal": 16, "bonus_scale": 1e-5, "seed": 3}


def test_frozen_lakes_are_learned_without_any_knowledge() -> None:
    run = learn_env(Lakes(), episodes=300, **LAKE)
    dry = run.returns[run.contexts == 0]
    assert dry[:20].mean() < 0.25
    assert dry[-25:].mean() > 0.5
    visits = run.learner.counts.visits()
    assert ((visits[0] > 0).sum(axis=-1) <= 1).all()  # dry ice is deterministic
    assert (visits[1] > 0).sum(axis=-1).max() == 3
    assert repr(run).startswith("EnvRun(300 episodes, mean return 0.")
    assert "Learner(mvp, markov, 300 episodes" in repr(run)
    assert "bonus_scale 1e-05; w, nu, R estimated: beyond the theorem" in repr(run)


def test_an_environment_that_fails_loses_one_episode(tmp_path) -> None:
    """The saved learner goes on, with new random episodes; nothing is counted twice."""

    class Fails(Lakes):
        steps = 0

        def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
            self.steps += 1
            if self.steps == 333:
                raise RuntimeError("the simulator's licence has run out")
            return super().step(action)

    file = tmp_path / "learner.npz"
    with pytest.raises(RuntimeError, match="licence"):
        learn_env(Fails(), episodes=500, algorithm="random", save_to=file, **LAKE)
    learner = Learner.load(file)
    played = learner.episode - 1
    assert learner.counts.n.sum() == 30 * played > 0
    first = learn_env(Lakes(), episodes=played, algorithm="random", **LAKE)
    assert np.array_equal(first.learner.counts.n, learner.counts.n)
    again = learn_env(Lakes(), episodes=played, terminal=16, seed=3, learner=learner, save_to=file)
    assert not np.array_equal(again.returns, first.returns) or not np.array_equal(
        again.contexts, first.contexts
    )
    assert Learner.load(file).episode == 2 * played + 1


def test_refusals() -> None:
    how = {"episodes": 3, "algorithm": "random"}
    with pytest.raises(lm.ModelError, match=r"one ended after 1 \(name a terminal state\)"):
        learn_env(Doors(), contexts=2, horizon=3, **how)
    with pytest.raises(lm.ModelError, match="the last step's info must have 'context'"):
        learn_env(Doors(tell=False), contexts=2, horizon=1, **how)
    with pytest.raises(lm.ModelError, match="contexts and horizon must be given"):
        learn_env(Doors(), **how)
    with pytest.raises(lm.ModelError, match="observation_space must be Discrete"):
        learn_env(gym.make("CartPole-v1"), contexts=2, horizon=3, **how)
    with pytest.raises(lm.ModelError, match="context must be a whole number from 0 to 0"):
        learn_env(Doors(), contexts=1, horizon=1, **(how | {"episodes": 50}))
    for terminal in (-1, 4):
        with pytest.raises(lm.ModelError, match=r"terminal must be a state from 0 to 2, or"):
            learn_env(Doors(), contexts=2, horizon=3, terminal=terminal, **how)
    for episodes in (0, -1, 2.5):
        with pytest.raises(lm.ModelError, match="episodes must be a whole number from 1"):
            learn_env(Doors(), contexts=2, horizon=1, episodes=episodes)
    run = learn_env(Doors(), contexts=2, horizon=1, episodes=1e1, algorithm="random")
    assert len(run.returns) == 10
    run.learner.begin(0)
    with pytest.raises(lm.ModelError, match="begin must follow end or cancel; episode 11 has 0"):
        learn_env(Doors(), episodes=1, learner=run.learner)


class Guarded(Doors):
    """Doors with a third one that its mask rules out, and that nobody may open."""

    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict]:
        state, _ = super().reset(seed=seed)
        return state, {"action_mask": np.array([1, 1, 0], dtype=np.int8)}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        if action == 2:
            raise ValueError("the third door is locked")
        return super().step(action)


def test_masks_of_an_environment_are_not_followed_in_silence() -> None:
    settings = {"contexts": 2, "horizon": 1, "episodes": 100, "algorithm": "random"}
    with (
        pytest.warns(ActionMaskWarning, match="rules out action 2 in state 0, .* give allowed="),
        pytest.raises(ValueError, match="the third door is locked"),
    ):
        learn_env(Guarded(), **settings)
    allowed = np.ones((3, 3), dtype=bool)
    allowed[0, 2] = False
    run = learn_env(Guarded(), allowed=allowed, **settings)  # warnings are errors in tests
    assert run.learner.counts.n.reshape(2, 3, 3)[:, 0, 2].sum() == 0
    with pytest.raises(ValueError, match="the third door is locked"):
        learn_env(Guarded(), allowed=np.ones((3, 3)), **settings)  # as it was told


def test_one_warning_for_masks_that_mark_actions_without_effect() -> None:
    class Taxi(Guarded):
        def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
            return Doors.step(self, action)

    settings = {"contexts": 2, "horizon": 1, "episodes": 50, "algorithm": "random"}
    with pytest.warns(ActionMaskWarning) as told:
        run = learn_env(Taxi(), **settings)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert run.learner.counts.n.reshape(2, 3, 3)[:, 0, 2].sum() > 0
    learn_env(Taxi(), contexts=2, horizon=1, episodes=10, learner=run.learner)


def test_our_own_masked_environment_needs_no_telling() -> None:
    env = lm.LatentMDPEnv("troubleshoot:once=1,faults=2")
    assert learn_env(env, episodes=20, algorithm="random").learner.known.allowed is not None
