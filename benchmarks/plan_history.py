"""Seconds to a certified gap, history class, beside SARSOP's figures (quoted, not run here).

    python benchmarks/plan_history.py                 the six published models
    python benchmarks/plan_history.py --seeds 3       the same kinds with other seeds
    python benchmarks/plan_history.py --frontier 60   what that many seconds give on harder ones
    python benchmarks/plan_history.py --figure FILE   bounds over time on two of them

CPU seconds of one process, compiled, policy extracted and evaluated; the best of `--repeat` calls.
The published models are read from ../shared/data/planning beside the project.
"""

import argparse
import math
import time
from pathlib import Path

import latentmdp as lm
from latentmdp.planning.history.planner import plan_history
from latentmdp.planning.limits import Limits
from latentmdp.planning.search_result import SearchResult

DATA = Path(__file__).parents[2] / "shared" / "data" / "planning"
# name: (SARSOP's seconds to 1 % and 0.1 %, one core, quoted from the data's README; our targets)
PUBLISHED = {
    "garnet_ind": ("1.8", "4.5", 0.01, 0.1),
    "garnet_sup": ("1.25", "25", 0.01, 0.1),
    "garnet_supR": ("never", "never", 0.5, 5.0),
    "maze_n5_M4": ("0.28", "0.56", 0.03, 0.05),
    "maze_n7_M8": ("5.5", "20.4", 0.2, 0.5),
    "maze_n10_M16": ("never", "never", 5.0, 15.0),
}
KINDS = {
    "garnet, own supports": "garnet:seed={}",
    "garnet, one support": "garnet:shared_support=True,shared_rewards=True,seed={}",
    "garnet, one support, own rewards": "garnet:shared_support=True,seed={}",
    "maze 5x5, 4 goals, H=40": "maze:size=5,goals=4,horizon=40,seed={}",
    "maze 7x7, 8 goals, H=80": "maze:size=7,goals=8,horizon=80,seed={}",
    "maze 10x10, 16 goals, H=160": "maze:size=10,goals=16,horizon=160,seed={}",
}
FRONTIER = {
    "garnet, 12 contexts, own rewards": "garnet:shared_support=True,contexts=12,seed=0",
    "maze 12x12, 20 goals, H=200": "maze:size=12,goals=20,horizon=200,seed=0",
}


def make(spec: str) -> lm.LatentMDP:
    """A domain with hidden rewards; mazes with discount 0.99, as the published ones."""
    model = lm.make(spec, observe_rewards=False)
    return model.replace(discount=0.99) if spec.startswith("maze") else model


def measure(
    model: lm.LatentMDP, gap: float, time_limit: float, repeat: int
) -> tuple[float, SearchResult]:
    """Least CPU seconds of `repeat` calls, and the last plan."""
    seconds = []
    for _ in range(repeat):
        begun = time.process_time()
        plan = plan_history(model, Limits(gap, time=time_limit))
        seconds.append(time.process_time() - begun)
    return min(seconds), plan


def cell(model: lm.LatentMDP, gap: float, time_limit: float, repeat: int) -> str:
    """`seconds`, or the gap where the limit came first."""
    seconds, plan = measure(model, gap, time_limit, repeat)
    if plan.status in ("gap", "optimal"):
        return f"{seconds:.3f}"
    return f"{100 * (plan.upper - plan.lower) / abs(plan.upper):.2f} % after {seconds:.0f} s"


def draw(path: str) -> None:
    """Both bounds over time on the two hardest published models, and the gap between them."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 5), layout="constrained", sharex="col")
    for (top, bottom), name in zip(axes.T, ("garnet_supR", "maze_n10_M16"), strict=True):
        model = lm.load(DATA / f"{name}.npz", observe_rewards=False)
        plan = plan_history(model, Limits(0.001, time=60.0))
        seconds, _, lower, upper = zip(*plan.history, strict=True)
        top.fill_between(seconds, lower, upper, alpha=0.25)
        top.plot(seconds, upper, label="upper")
        top.plot(seconds, lower, label="lower")
        top.set(title=f"{name} ({plan.method})", ylabel="bounds")
        top.legend(loc="lower right")
        gap = [100 * (u - x) / abs(u) for x, u in zip(lower, upper, strict=True)]
        bottom.plot(seconds, gap, color="black")
        for level in (1, 0.1):
            bottom.axhline(level, linestyle=":", color="gray")
        ends = (10 ** math.floor(math.log10(seconds[0])), 10 ** math.ceil(math.log10(seconds[-1])))
        bottom.set(xlabel="seconds", ylabel="gap (%)", xscale="log", yscale="log", xlim=ends)
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def main() -> None:
    """Print one table per question."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=0, help="other seeds of the same kinds")
    parser.add_argument("--frontier", type=float, default=0.0, help="seconds on harder models")
    parser.add_argument("--figure", default="", help="file for a figure of bounds over time")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--time-limit", type=float, default=60.0)
    options = parser.parse_args()
    plan_history(make("garnet:horizon=3"))  # compile both searches
    plan_history(make("maze:size=3,goals=2,horizon=4"))
    limits = options.time_limit, options.repeat
    if options.figure:
        draw(options.figure)
    elif options.seeds:
        print("| kind | seed | to 1 % (s) | to 0.1 % (s) |\n|---|---|---|---|")
        for kind, spec in KINDS.items():
            for seed in range(1, options.seeds + 1):
                model = make(spec.format(seed))
                row = " | ".join(cell(model, gap, *limits) for gap in (0.01, 0.001))
                print(f"| {kind} | {seed} | {row} |", flush=True)
    elif options.frontier:
        print(
            "| model | seconds | lower | upper | gap | beliefs' nodes |\n|---|---|---|---|---|---|"
        )
        for name, spec in FRONTIER.items():
            plan = plan_history(make(spec), Limits(0.001, time=options.frontier))
            gap = 100 * (plan.upper - plan.lower) / abs(plan.upper)
            print(
                f"| {name} | {plan.history[-1][0]:.0f} ({plan.status}) | {plan.lower:.5f} "
                f"| {plan.upper:.5f} | {gap:.2f} % | {plan.nodes} |",
                flush=True,
            )
    else:
        if not DATA.is_dir():
            raise SystemExit(f"the published models are not at {DATA}; try --seeds 3")
        print(
            "| model | 1 % (s) | target | SARSOP (quoted) | 0.1 % (s) | target | SARSOP (quoted) |"
            "\n|---|---|---|---|---|---|---|"
        )
        for name, (sarsop_1, sarsop_01, target_1, target_01) in PUBLISHED.items():
            model = lm.load(DATA / f"{name}.npz", observe_rewards=False)
            print(
                f"| {name} | {cell(model, 0.01, *limits)} | {target_1} | {sarsop_1} "
                f"| {cell(model, 0.001, *limits)} | {target_01} | {sarsop_01} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
