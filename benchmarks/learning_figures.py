"""The figures of docs/learning.md: regret where the theorem has something to say.

Run: python benchmarks/learning_figures.py [FOLDER]   (default docs/images; a few minutes)
"""

import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

import latentmdp as lm
from latentmdp import plot
from latentmdp.theory.bounds import lower_bound

PAPER = ("mvp", "bernstein")
SEEDS = 5


def bands(table: pd.DataFrame, over: str, **style: Any) -> Axes:
    """Median regret of the seeds, with a band from lowest to highest, on logarithmic axes."""
    ax = plot.axes()
    learners = table.groupby("algorithm", sort=False)
    for color, ls, (name, part) in zip(plot.PALETTE, cycle(plot.DASHES), learners, strict=False):
        seeds = part.groupby(over)["regret"]
        low, high = seeds.min(), seeds.max()
        ax.plot(seeds.median(), label=name, color=color, ls=ls, **style)
        ax.fill_between(low.index, low, high, alpha=0.2, color=color, lw=0)
    ax.set(xscale="log", yscale="log", xlabel="episodes", ylabel="regret")
    return ax


def save(ax: Axes, path: Path, where: str = "best") -> None:
    """The picture with its legend."""
    ax.legend(fontsize=6, frameon=False, loc=where)
    plot.save(ax, path)


def constant(path: Path) -> None:
    """One deterministic MDP: Var* = 0, and regret stops growing."""
    study = lm.sweep("deterministic", [*PAPER, "random"], SEEDS, 10**10)
    save(bands(study.curves(), "episode"), path)


def flattening(path: Path) -> None:
    """The lower bound's instance with a fixed advantage: regret bends and flattens."""
    model = "hard:contexts=2,states=11,eps=0.1"
    study = lm.sweep(model, [*PAPER, "random"], SEEDS, 10**10)
    save(bands(study.curves(), "episode"), path)


def against_the_lower_bound(path: Path) -> None:
    """The same with the advantage tied to K, in the history class, beside `random`."""
    model, grid = (
        "hard:contexts=2,states=11,variance=0.25,episodes={}",
        [10**k for k in range(4, 9)],
    )
    models = [{"model": model.format(K), "episodes": K} for K in grid]
    small = {"name": "mvp, bonus x 0.001", "algorithm": "mvp", "bonus_scale": 0.001}
    study = lm.sweep(models, [*PAPER, small, "random"], SEEDS, policy_class="history")
    ax = bands(study.table(), "episodes", marker="o", ms=3)
    bound = [lower_bound(2, 11, 2, episodes).value for episodes in grid]
    ax.plot(grid, bound, "--", color="grey", label="lower bound")
    ax.set(xlabel="episodes K, advantage tied to K", ylabel="regret(K)")
    save(ax, path)


def horizon(path: Path) -> None:
    """Longer episodes with totals of at most 1: the predecessor pays at every step.

    Its constant is not certain, so a fifth of it is shown as well (1/25 of the visits).
    """
    grid = [5, 10, 20, 40, 80]
    model = {
        "model": "garnet:states=5,actions=2,contexts=2,branching=2,horizon={H}",
        "sweep": {"H": grid},
    }
    fifth = {"name": "lucrl, bonus x 0.2", "algorithm": "lucrl", "bonus_scale": 0.2}
    study = lm.sweep(model, [*PAPER, "lucrl", "lucrl-uncapped", fifth], SEEDS, 10**8)
    table = study.table()
    medians = table.groupby(["H", "algorithm"], sort=False)["regret"].median()
    print(medians.unstack().to_string(float_format="{:.4g}".format))
    ax = bands(table, "H", marker="o", ms=3)
    ax.set(xlabel="horizon H", ylabel="regret after 10^8 episodes")
    ax.set_xticks(grid, [str(H) for H in grid])
    ax.set_xticks([], minor=True)
    ax.set_ylim(bottom=10)  # room for the legend
    save(ax, path, "lower left")


def ties(path: Path) -> None:
    """Which of several optimistic policies is played, while nearly all are."""
    rules = [
        {"name": f"ties: {rule}", "algorithm": "mvp", "ties": rule}
        for rule in ("secondary", "incumbent")
    ]
    study = lm.sweep("maze:size=4,goals=3,horizon=12", rules, SEEDS, 10**8)
    save(bands(study.curves(), "episode"), path)


def main() -> None:
    """Draw all, or those named after the folder."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    for draw in (constant, flattening, against_the_lower_bound, horizon, ties):
        if len(sys.argv) < 3 or draw.__name__ in sys.argv[2:]:
            draw(folder / f"learning_{draw.__name__}.png")
            print(f"learning_{draw.__name__}.png", flush=True)


if __name__ == "__main__":
    main()
