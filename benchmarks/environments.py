"""Steps per second: `LatentMDPVectorEnv` against Gymnasium's `SyncVectorEnv` on the same model.

python benchmarks/environments.py
"""

import time

import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv

import latentmdp as lm

MODELS = ("maze:size=10,goals=16,horizon=40", "garnet:states=200,branching=8", "bandit")
BATCHES = (16, 256, 4096)


def steps_per_second(env: VectorEnv, batch: int, actions: np.ndarray, rounds: int) -> float:
    """The best of three timings of `rounds` batched steps, actions given."""
    best = 0.0
    env.reset(seed=0)
    for _ in range(3):
        start = time.process_time()
        for i in range(rounds):
            env.step(actions[i % len(actions)])
        best = max(best, batch * rounds / (time.process_time() - start))
    return best


def main() -> None:
    """Print a table: model, batch, both speeds, their ratio."""
    print(f"{'model':<36} {'batch':>6} {'sync':>12} {'vector':>12} {'ratio':>7}")
    for spec in MODELS:
        model = lm.make(spec)
        for batch in BATCHES:
            actions = np.random.default_rng(0).integers(model.A, size=(50, batch))
            vector = steps_per_second(
                lm.LatentMDPVectorEnv(model, batch), batch, actions, max(20, 400_000 // batch)
            )
            sync = steps_per_second(
                SyncVectorEnv([lambda model=model: lm.LatentMDPEnv(model)] * batch),
                batch,
                actions,
                max(2, 20_000 // batch),
            )
            print(f"{spec:<36} {batch:>6} {sync:>12,.0f} {vector:>12,.0f} {vector / sync:>6.0f}x")


if __name__ == "__main__":
    main()
