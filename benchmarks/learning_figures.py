"""The figures of docs/learning.md: regret where the theorem has something to say.

Run: python benchmarks/learning_figures.py [FOLDER]   (default docs/images; a few minutes)
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

import latentmdp as lm
from latentmdp import plot
from latentmdp.theory.bounds import lower_bound

PAPER = ("mvp", "bernstein")
SEEDS = range(5)


def runs(
    model: lm.LatentMDP, algorithms: tuple[str, ...], episodes: int, **how: object
) -> dict[str, list[lm.Run]]:
    """Five seeds of each algorithm, against one plan of the optimum."""
    policy_class = str(how.get("policy_class", "markov"))
    optimal = lm.plan(model, policy_class, gap=1e-4, time_limit=5.0)
    return {
        name: [
            lm.learn(model, name, episodes, seed=seed, optimal=optimal, **how)  # type: ignore[arg-type]
            for seed in SEEDS
        ]
        for name in algorithms
    }


def curves(ax: Axes, grid: list[int], loss: dict[str, list[list[float]]]) -> None:
    """Median of the seeds at each point of the grid, with a band from lowest to highest."""
    for name, values in loss.items():
        seeds = np.array(values)  # (grid, seeds)
        (line,) = ax.plot(grid, np.median(seeds, axis=1), marker="o", ms=3, label=name)
        ax.fill_between(
            grid, seeds.min(axis=1), seeds.max(axis=1), alpha=0.2, color=line.get_color(), lw=0
        )
    ax.set(xscale="log", yscale="log")


def constant(path: Path) -> None:
    """One deterministic MDP: Var* = 0, and regret stops growing."""
    found = runs(lm.make("deterministic"), (*PAPER, "random"), 10**10)
    plot.save(plot.regret(found), path)


def flattening(path: Path) -> None:
    """The lower bound's instance with a fixed advantage: regret bends and flattens."""
    found = runs(lm.make("hard:contexts=2,states=11,eps=0.1"), (*PAPER, "random"), 10**10)
    plot.save(plot.regret(found), path)


def against_the_lower_bound(path: Path) -> None:
    """The same with the advantage tied to K, in the history class, beside `random`."""
    ax, grid = plot.axes(), [10**k for k in range(4, 9)]
    variants = (("mvp", 1.0), ("bernstein", 1.0), ("mvp", 0.001), ("random", 1.0))
    loss: dict[str, list[list[float]]] = {}
    for episodes in grid:
        model = lm.make(f"hard:contexts=2,states=11,variance=0.25,episodes={episodes}")
        optimal = lm.plan(model, "history", gap=None, time_limit=20.0)
        for name, scale in variants:
            how = {"bonus_scale": scale, "optimal": optimal}
            found = [lm.learn(model, name, episodes, "history", seed=s, **how) for s in SEEDS]
            label = name if scale == 1.0 else f"{name}, bonus x {scale:g}"
            loss.setdefault(label, []).append([run.regret for run in found])
    curves(ax, grid, loss)
    bound = [lower_bound(2, 11, 2, episodes).value for episodes in grid]
    ax.plot(grid, bound, "--", color="grey", label="lower bound")
    ax.set(xlabel="episodes K, advantage tied to K", ylabel="regret(K)")
    ax.legend(fontsize=6, frameon=False)
    plot.save(ax, path)


def horizon(path: Path) -> None:
    """Longer episodes with totals of at most 1: the predecessor pays at every step.

    Its constant is not certain, so a fifth of it is shown as well (1/25 of the visits).
    """
    ax, grid = plot.axes(), [5, 10, 20, 40, 80]
    loss: dict[str, list[list[float]]] = {}
    for H in grid:
        model = lm.make(f"garnet:states=5,actions=2,contexts=2,branching=2,horizon={H}")
        found = runs(model, (*PAPER, "lucrl", "lucrl-uncapped"), 10**8)
        found["lucrl, bonus x 0.2"] = runs(model, ("lucrl",), 10**8, bonus_scale=0.2)["lucrl"]
        for name, of_seeds in found.items():
            loss.setdefault(name, []).append([run.regret for run in of_seeds])
        print(f"H={H}: " + ", ".join(f"{k} {np.median(v[-1]):.4g}" for k, v in loss.items()))
    curves(ax, grid, loss)
    ax.set(xlabel="horizon H", ylabel="regret after 10^8 episodes")
    ax.set_xticks(grid, [str(H) for H in grid])
    ax.set_xticks([], minor=True)
    ax.set_ylim(bottom=10)  # room for the legend
    ax.legend(fontsize=6, frameon=False, loc="lower left")
    plot.save(ax, path)


def ties(path: Path) -> None:
    """Which of several optimistic policies is played, while nearly all are."""
    model = lm.make("maze:size=4,goals=3,horizon=12")
    found = {
        f"ties: {rule}": runs(model, ("mvp",), 10**8, ties=rule)["mvp"]
        for rule in ("secondary", "ladder", "incumbent")
    }
    plot.save(plot.regret(found), path)


def main() -> None:
    """Draw all, or those named after the folder."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    for draw in (constant, flattening, against_the_lower_bound, horizon, ties):
        if len(sys.argv) < 3 or draw.__name__ in sys.argv[2:]:
            draw(folder / f"learning_{draw.__name__}.png")
            print(f"learning_{draw.__name__}.png", flush=True)


if __name__ == "__main__":
    main()
