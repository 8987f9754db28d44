"""How often certified values hold in worlds with something rare in them, and what they certify.

`python benchmarks/pessimistic_coverage.py [LOGS [DELTA ...]]` (default: 500 logs a line, delta 0.1
and 0.3). Then how tight they are: `python benchmarks/pessimistic_coverage.py tight [LOGS]`.
"""

import sys
from pathlib import Path

import numpy as np

import latentmdp as lm

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from rare_worlds import GARNET, WORLDS, World, two_actions


def coverage(logs: int, deltas: list[float]) -> None:
    """A line for each world and delta."""
    print("| world | episodes | delta | bound above the truth | mean bound | mean true value |")
    print("|---|---|---|---|---|---|")
    for world in WORLDS:
        for delta in deltas:
            rng = np.random.default_rng(0)
            found = np.array([world.certified(rng, delta) for _ in range(logs)])
            above = int((found[:, 0] > found[:, 1] + 1e-9).sum())
            bound, truth = found.mean(axis=0)
            row = (world.name, world.episodes, delta, f"{above} of {logs}")
            print("|", *(f"{x} |" for x in row), f"{bound:.3f} | {truth:.3f} |", flush=True)


def tightness(logs: int) -> None:
    """What logs of 10^2 to 10^5 episodes certify."""
    print("| model | rewards | episodes | mean bound | mean true value |")
    print("|---|---|---|---|---|")
    for name, model in (("two actions", two_actions(0.01)), (GARNET, lm.make(GARNET))):
        for rewards in ("as logged", "fixed", "coins"):
            for episodes in (100, 1000, 10_000, 100_000):
                fixed = {"rewards": "fixed"} if rewards == "fixed" else {}
                world = World(name, model, episodes, coins=rewards == "coins", fit=fixed)
                rng = np.random.default_rng(0)
                bound, truth = np.mean([world.certified(rng) for _ in range(logs)], axis=0)
                print(f"| `{name}` | {rewards} | {episodes:,} | {bound:.3f} | {truth:.3f} |",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["tight"]:
        tightness(int(sys.argv[2]) if len(sys.argv) > 2 else 5)
    else:
        given = [float(x) for x in sys.argv[1:]]
        coverage(int(given[0]) if given else 500, given[1:] or [0.1, 0.3])
