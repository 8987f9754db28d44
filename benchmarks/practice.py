"""Which `bonus_scale` to use in practice: regret over all domains, several scales and seeds.

    python benchmarks/practice.py            # the tables of docs/how_to_learn.md, some minutes
    python benchmarks/practice.py sampling   # posterior sampling on riverswim
    python benchmarks/practice.py exploring  # when exploring begins at the paper's constants

A scale's score is its regret over that of the best scale of the domain: 1 is the best. The mean
over seeds counts, because a small bonus fails by never finding the better policy in some of them.
"""

import sys

import numpy as np

import latentmdp as lm
from latentmdp.theory.auditing.exploration import exploring_from

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
    models = {spec.split(":")[0]: spec for spec in DOMAINS}
    algorithms = [{"algorithm": a, "bonus_scale": list(tried)} for a, tried in SCALES.items()]
    study = lm.sweep(models, algorithms, seeds=SEEDS, episodes=EPISODES[-1])
    curves = study.curves()
    for (algorithm, episodes), part in curves[curves["episode"].isin(EPISODES)].groupby(
        ["algorithm", "episode"], sort=False
    ):
        found = part.groupby(["model", "bonus_scale"], sort=False)["regret"]
        mean, most = found.mean().unstack(), found.max().unstack()
        mean, most = (x[list(SCALES[algorithm])].loc[list(models)] for x in (mean, most))
        score = mean.div(mean.min(axis=1), axis=0)
        print(f"\n{algorithm}, {episodes:.0e} episodes: mean regret of {SEEDS} seeds (largest)")
        print("| domain | " + " | ".join(f"{scale:g}" for scale in mean) + " |")
        print("|---" * (len(mean.columns) + 1) + "|")
        for name in models:
            pairs = zip(mean.loc[name], most.loc[name], strict=True)
            print(f"| {name} | " + " | ".join(f"{x:.3g} ({y:.3g})" for x, y in pairs) + " |")
        worst, middle = score.max(), np.exp(np.log(score).mean())
        for name, row in (("at worst", worst), ("in the geometric mean", middle)):
            print(f"| times the best scale, {name} | " + " | ".join(f"{x:.3g}" for x in row) + " |")
    table = study.table()
    gaps = (table["optimal_upper"] - table["optimal_lower"]).groupby(table["model"]).max()
    listed = ", ".join(f"{name} {gap:.3g}" for name, gap in gaps.items() if gap > 1e-9)
    print(f"\nregret: lower ends; by how much optima are open, per episode: {listed or 'none'}")
    print(f"({table['seconds'].sum():.0f} s of work)")


def sampling() -> None:
    """Drawing at doublings against drawing at every episode."""
    algorithms = ["psrl", "psrl-episode", "greedy", "mvp"]
    study = lm.sweep("riverswim", algorithms, seeds=20, episodes=10**4, keep=["runs"])
    runs, seconds = lm.load_runs(study.folder), study.table().groupby("algorithm")["seconds"].mean()
    print("| algorithm | 1e3 episodes | 1e4 episodes | seconds |\n|---|---|---|---|")
    for name in algorithms:
        regret = [run.regret_at([10**3, 10**4]) for run in runs if run.spec.algorithm == name]
        cells = [f"{np.mean(x):.0f} ({min(x):.0f} to {max(x):.0f})" for x in np.transpose(regret)]
        print(f"| `{name}` | {' | '.join(cells)} | {seconds[name]:.2f} |")


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
