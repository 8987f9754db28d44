"""Learning for 10^9 episodes at the paper's constants, and the simulators by themselves.

Times are processor seconds of a second run (compiled code is cached on disk), so that ratios within
one table can be trusted on a busy machine. The optimum is given: only learning is timed.
Run: python benchmarks/learning.py [--long]
"""

import sys
import time
from collections.abc import Callable

import numpy as np

import latentmdp as lm
from latentmdp.learning.counts import Counts
from latentmdp.learning.simulation import Simulator

SMALL, LARGE = "hard:contexts=1,states=11", "hard:contexts=5,states=20"
MAZE = "maze:size=5,goals=4,horizon=20"
GARNET = "garnet:states=20,actions=4,contexts=1,branching=3,horizon=20"
UCBVI_EPISODES_PER_SECOND = 92  # rlberry-scool 0.1.0 at S=20, A=4, H=20, as the issue quotes it

RUNS = [
    (SMALL, "mvp", "markov", 10**6), (SMALL, "mvp", "markov", 10**9),
    (SMALL, "mvp", "markov", 10**10), (SMALL, "bernstein", "markov", 10**6),
    (SMALL, "bernstein", "markov", 10**10), (LARGE, "mvp", "markov", 10**9),
    (LARGE, "mvp", "history", 10**9), (MAZE, "mvp", "markov", 10**9),
]  # fmt: skip
LONG_RUNS = [
    (LARGE, "bernstein", "markov", 10**9), (MAZE, "bernstein", "markov", 10**9),
    (MAZE, "mvp", "history", 10**7), (MAZE, "mvp", "markov", 10**12),
]  # fmt: skip


def seconds(function: Callable[[], object]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def learning(runs: list[tuple[str, str, str, int]]) -> None:
    """One line per run."""
    print(f"{'model':<32} {'solver':<10} {'class':<8} {'K':>7} {'updates':>8} {'us/update':>10} s")
    for spec, algorithm, policy_class, episodes in runs:
        model = lm.make(spec)
        lm.learn(model, algorithm, 100, policy_class, optimal=(1.0, 1.0))  # compile
        start = time.process_time()
        updates = lm.learn(model, algorithm, episodes, policy_class, optimal=(1.0, 1.0)).updates
        taken = time.process_time() - start
        print(
            f"{spec:<32} {algorithm:<10} {policy_class:<8} {episodes:>7.0e} {updates:>8} "
            f"{taken / updates * 1e6:>10.0f} {taken:.3f}"
        )


def simulators() -> None:
    """Steps per second, and episodes per second beside the nearest public learner."""
    model = lm.make(MAZE)
    tables = np.random.default_rng(0).integers(model.A, size=(model.H, model.S))
    simulator = Simulator(model, np.random.default_rng(0), "episodes")
    simulator.play(lm.PolicyGraph.from_table(tables))
    counts = Counts.for_model(model)
    counts.n[:] = 2**40 + 1  # far from a trigger
    simulator.run(counts, 10)
    taken = min(seconds(lambda: simulator.run(counts, 10**5)) for _ in range(5))
    print(f"step simulation on {MAZE}: {1e5 * model.H / taken / 1e6:.0f} million steps per second")
    garnet = lm.make(GARNET)
    for simulator_name, episodes in (("episodes", 10**6), ("counts", 10**9)):
        lm.learn(garnet, "mvp", 100, simulator=simulator_name, optimal=(1.0, 1.0))
        start = time.process_time()
        lm.learn(garnet, "mvp", episodes, simulator=simulator_name, optimal=(1.0, 1.0))
        taken = time.process_time() - start
        rate = episodes / taken
        print(
            f"mvp on {GARNET}, {simulator_name}: {rate:.3g} episodes per second, "
            f"{rate / UCBVI_EPISODES_PER_SECOND:.3g} times UCBVI of rlberry-scool"
        )


if __name__ == "__main__":
    learning(RUNS + (LONG_RUNS if "--long" in sys.argv else []))
    simulators()
