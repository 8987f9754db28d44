"""You have a process whose hidden cause becomes known afterwards, and your own loop around it.

`Workshop` stands for it: machines come in broken, you test and replace parts, and after the repair
you know what the fault was. The learner never sees how the workshop works inside: it is asked for
an action, told what happened, told the fault at the end, and may be saved and resumed at any time.

Run: python examples/learn_in_your_loop.py
"""

import tempfile
from pathlib import Path

import numpy as np

import latentmdp as lm


class Workshop:
    """Your process: numbered states and actions, rewards in [0, 1] with totals of at most 1."""

    def __init__(self, seed: int) -> None:
        self.env = lm.LatentMDPEnv("troubleshoot:faults=3,tests=2,horizon=8")
        self.env.reset(seed=seed)

    def arrive(self) -> int:
        state, _ = self.env.reset()
        return int(state)

    def work(self, action: int) -> tuple[float, int, int | None]:
        """Reward, next state, and the fault once it is known."""
        state, reward, _, _, info = self.env.step(action)
        return float(reward), int(state), info.get("context")


def play(learner: lm.Learner, workshop: Workshop, episodes: int) -> float:
    """Play so many episodes; the mean reward."""
    total = 0.0
    for _ in range(episodes):
        action, fault = learner.begin(workshop.arrive()), None
        while action is not None:
            reward, state, fault = workshop.work(action)
            total += reward
            action = learner.step(reward, state)
        assert fault is not None
        learner.end(fault)  # context in hindsight
    return total / episodes


def main() -> None:
    workshop = Workshop(seed=0)
    model = workshop.env.unwrapped.model
    # What is known beforehand: rewards, how common faults are, where episodes begin. Not how the
    # machines behave. bonus_scale < 1 trusts the data sooner than the theorem's constants do.
    learner = lm.Learner(model, "mvp", episodes=6000, policy_class="history", bonus_scale=0.001)
    file = Path(tempfile.mkdtemp()) / "learner.npz"
    for block in range(6):
        mean = play(learner, workshop, 1000)
        worth = lm.evaluate(model, learner.policy).value
        print(f"episodes {1000 * block + 1:5d} to {1000 * block + 1000}: mean reward {mean:.3f}, "
              f"policy now worth {worth:.4f}, {learner.updates} updates")  # fmt: skip
        learner.save(file)  # the computer may stop here ...
        learner = lm.Learner.load(file)  # ... and go on tomorrow, to the same bits
    best = lm.plan(model, gap=0.001)
    print(f"the best possible is between {best.lower:.4f} and {best.upper:.4f}")
    assert np.isfinite(best.lower)


if __name__ == "__main__":
    main()
