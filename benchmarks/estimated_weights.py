"""How often a learner that estimates the weights of the contexts loses optimism.

    python benchmarks/estimated_weights.py

Optimism is lost where the optimistic value `V~` falls below the optimum: then nothing promises that
the learner finds the best policy. Runs of `Learner`, once with `w` given and once with
`estimate={"w"}`, in two models with deterministic transitions whose contexts pay different rewards.
"""

import numpy as np

import latentmdp as lm

RUNS, EPISODES = 40, 300


def one_step() -> lm.LatentMDP:
    """Two contexts, one state, one step: all that could be unknown are the weights."""
    P, R = np.ones((2, 1, 2, 1)), np.array([[[0.2, 0.1]], [[0.9, 1.0]]])
    return lm.LatentMDP.from_arrays(P, R, [0.5, 0.5], np.ones((2, 1)), 1)


def three_steps() -> lm.LatentMDP:
    """Two contexts, three states on a line, three steps; the last state pays, more in one."""
    P = np.zeros((2, 3, 2, 3))
    for s in range(3):
        P[:, s, 0, max(s - 1, 0)] = P[:, s, 1, min(s + 1, 2)] = 1.0
    R = np.zeros((2, 3, 2))
    R[:, 2, 1] = [0.2, 0.9]
    return lm.LatentMDP.from_arrays(P, R, [0.5, 0.5], np.tile([1.0, 0, 0], (2, 1)), 3)


def least_margin(
    model: lm.LatentMDP, estimate: tuple[str, ...], scale: float, seed: int, episodes: int
) -> float:
    """The smallest `V~ - V*` of a run of `bernstein`."""
    optimum = lm.plan(model, "markov", gap=None).lower
    learner = lm.Learner(
        model, "bernstein", episodes=episodes, estimate=estimate, bonus_scale=scale, seed=seed
    )
    least = learner.optimistic_value - optimum
    for m in np.random.default_rng(seed).choice(model.M, p=model.w, size=episodes):
        state = int(model.nu[m].argmax())
        action: int | None = learner.begin(state)
        while action is not None:
            reward, state = model.R[m, state, action], int(model.P[m, state, action].argmax())
            action = learner.step(reward, state)
        learner.end(int(m))
        least = min(least, learner.optimistic_value - optimum)
    return float(least)


def main() -> None:
    """A line for each model, scale and knowledge."""
    for model, name in ((one_step(), "one step"), (three_steps(), "three steps")):
        for scale in (1.0, 0.01):
            for estimate in ((), ("w",)):
                found = [least_margin(model, estimate, scale, k, EPISODES) for k in range(RUNS)]
                lost = sum(margin < -1e-9 for margin in found)
                known = "w estimated" if estimate else "w given"
                print(
                    f"{name:12} bonus_scale {scale:<5g} {known:12} optimism lost in {lost} of "
                    f"{RUNS} runs, smallest V~ - V* {min(found):.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
