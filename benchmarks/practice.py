"""Which `bonus_scale` to use in practice: regret over all domains, several scales and seeds.

    python benchmarks/practice.py            # the tables of docs/how_to_learn.md, some minutes
    python benchmarks/practice.py sampling   # posterior sampling on riverswim
    python benchmarks/practice.py exploring  # when exploring begins at the paper's constants

A scale's score is its regret over that of the best scale of the domain: 1 is the best. The mean
over seeds counts, because a small bonus fails by never finding the better policy in some of them.
"""

import sys
import time

import numpy as np

import latentmdp as lm
from latentmdp.theory.exploration import exploring_from

DOMAINS = (
    "bandit", "deterministic", "garnet:states=6,actions=3,contexts=3,horizon=10",
    "hard:contexts=2,states=11", "maze:size=4,goals=3,horizon=10", "riverswim",
    "troubleshoot:faults=3,tests=2,horizon=8",
)  # fmt: skip
SCALES = {
    "mvp": (1.0, 0.1, 0.01, 1e-3, 1e-4, 3e-5, 1e-5, 1e-6),
    "bernstein": (1.0, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4),
}
SEEDS = 10
EPISODES = (10**4, 10**6)


def scales() -> None:
    """One table for each algorithm and number of episodes."""
    for algorithm, tried in SCALES.items():
        regret = np.zeros((len(EPISODES), len(DOMAINS), len(tried), SEEDS))
        started = time.process_time()
        for d, spec in enumerate(DOMAINS):
            model = lm.make(spec)
            best = lm.plan(model, "markov", gap=None, time_limit=None, work_limit=2 * 10**8)
            for s, scale in enumerate(tried):
                for seed in range(SEEDS):
                    run = lm.learn(
                        model, algorithm, EPISODES[-1], bonus_scale=scale, seed=seed, optimal=best
                    )
                    regret[:, d, s, seed] = run.regret_at(EPISODES)
        for k, episodes in enumerate(EPISODES):
            mean = regret[k].mean(axis=2)
            score = mean / mean.min(axis=1, keepdims=True)
            print(f"\n{algorithm}, {episodes:.0e} episodes: mean regret of {SEEDS} seeds (largest)")
            print("| domain | " + " | ".join(f"{scale:g}" for scale in tried) + " |")
            print("|---" * (len(tried) + 1) + "|")
            for d, spec in enumerate(DOMAINS):
                cells = [f"{mean[d, s]:.3g} ({max(x):.3g})" for s, x in enumerate(regret[k, d])]
                print(f"| {spec.split(':')[0]} | " + " | ".join(cells) + " |")
            worst = " | ".join(f"{x:.3g}" for x in score.max(axis=0))
            middle = " | ".join(f"{x:.3g}" for x in np.exp(np.log(score).mean(axis=0)))
            print(f"| times the best scale, at worst | {worst} |")
            print(f"| and in the geometric mean | {middle} |")
        print(f"({time.process_time() - started:.0f} s of CPU)", flush=True)


def sampling() -> None:
    """Drawing at doublings against drawing at every episode."""
    model = lm.make("riverswim")
    best = lm.plan(model, "markov", gap=None)
    print("| algorithm | 1e3 episodes | 1e4 episodes | CPU seconds |\n|---|---|---|---|")
    for algorithm in ("psrl", "psrl-episode", "greedy", "mvp", "bernstein"):
        started = time.process_time()
        runs = [lm.learn(model, algorithm, 10**4, seed=s, optimal=best) for s in range(5)]
        regret = np.array([run.regret_at([10**3, 10**4]) for run in runs])
        cells = [f"{np.mean(x):.0f} ({np.min(x):.0f} to {np.max(x):.0f})" for x in regret.T]
        seconds = (time.process_time() - started) / len(runs)
        print(f"| `{algorithm}` | {' | '.join(cells)} | {seconds:.2f} |", flush=True)


def exploring() -> None:
    """The episode from which exploring is expected, and regret per episode around it."""
    edges = 10.0 ** np.arange(0.0, 9.25, 0.5)
    for spec in ("riverswim", "bandit", "hard:contexts=2,states=11"):
        model = lm.make(spec)
        best = lm.plan(model, "markov", gap=None)
        for algorithm in ("mvp", "lucrl"):
            run = lm.learn(model, algorithm, 10**9, optimal=best)
            expected = exploring_from(model, best.policy, run.spec)
            loss = np.diff(run.regret_at(edges)) / np.diff(edges)
            i = int(np.searchsorted(edges, expected)) - 1  # the half decade that it lies in
            around = ", ".join(f"to {edges[j + 1]:.1g}: {loss[j]:.4f}" for j in range(i - 1, i + 3))
            print(f"{spec}, {algorithm}: expected at {expected:.2g}; {around}", flush=True)


if __name__ == "__main__":
    {"sampling": sampling, "exploring": exploring}.get(" ".join(sys.argv[1:]), scales)()
