"""`learn_env`: Gymnasium environments, ours and foreign ones with early ends."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import latentmdp as lm
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
    assert rewards.sum() == 2.0
    assert abs(run.learner.known.w[1] - 0.7) < 5 * 0.5 / 10
    run.learner.save(tmp_path / "learner.npz")
    more = learn_env(
        Doors(), episodes=10, terminal=3, learner=Learner.load(tmp_path / "learner.npz")
    )
    assert more.learner.episode == 111


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
