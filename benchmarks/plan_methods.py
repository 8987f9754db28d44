"""What choosing a method costs: CPU seconds of `auto` beside those of each search alone.

    python benchmarks/plan_methods.py                 all models, gaps of 1 % and 0.1 %
    python benchmarks/plan_methods.py troubleshoot    models whose name has this in it

A single search is stopped at 1.2 times what `auto` took: then `>`. The ratio is that of `auto` to
the best, after 5 ms are taken off for what is done once. CPU seconds of one process, compiled, the
policy extracted and evaluated; the best of three calls where they are short.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import latentmdp as lm
from latentmdp.planning.history.planner import plan_history
from latentmdp.planning.limits import Limits

DATA = Path(__file__).parents[2] / "shared" / "data"
CONSTANT = 0.005
LONGEST = 20.0  # CPU seconds for a call of auto
SPECS = (
    *(f"troubleshoot:faults={n},seed={seed}" for n in (4, 8, 12, 16, 20) for seed in (0, 1)),
    "troubleshoot:faults=8,tests=5,horizon=20",
    *(f"garnet:seed={seed}" for seed in (1, 2)),
    *(f"garnet:shared_support=1,shared_rewards=1,seed={seed}" for seed in (1, 2)),
    *(f"garnet:shared_support=1,seed={seed}" for seed in (1, 2)),
    "garnet:contexts=2,states=30,horizon=40,shared_support=1,seed=4",
    *(f"maze:size=5,goals=4,horizon=40,seed={seed}" for seed in (1, 2)),
    *(f"maze:size=7,goals=8,horizon=80,seed={seed}" for seed in (1, 2)),
    "maze:size=6,goals=6,horizon=40,slip=0.3,walls=0.2,seed=2",
    "maze:size=6,goals=16,horizon=40,slip=0,seed=2",
    "maze:size=8,goals=10,horizon=60,seed=3",
    "maze:size=10,goals=16,horizon=160,seed=3",
    "hard:contexts=3,states=20,actions=4",
    "hard:contexts=20,states=40,actions=3,seed=1",
    "riverswim:states=8,contexts=4,horizon=40,seed=1",
    "riverswim:states=12,contexts=6,horizon=60,seed=2",
    "riverswim:states=20,contexts=30,horizon=50",
    *(f"bandit:arms=6,contexts=5,horizon=30,seed={seed}" for seed in (1, 2)),
    "bandit:arms=3,contexts=2,horizon=50,seed=1",
    "bandit:arms=10,contexts=8,horizon=20,seed=3",
    "deterministic:states=100,horizon=50",
    "mastermind:colours=3,balls=3,guesses=4",
    "mastermind:colours=2,balls=5,guesses=4",
    "mastermind:colours=5,balls=2,guesses=4",
    "mastermind:colours=3,balls=3,guesses=3,white=1",
)


def adaptive(seed: int, contexts: int = 2, horizon: int = 200) -> lm.LatentMDP:
    """Like published adaptive-management models: two of three actions do the same in all contexts.

    A population in one of five sizes, which pays by its size less the cost of what is done.
    """
    rng = np.random.default_rng(seed)
    M, S, A = contexts, 5, 3
    P = np.broadcast_to(rng.dirichlet(np.full(S, 0.7), (S, A)), (M, S, A, S)).copy()
    P[:, :, 0] = rng.dirichlet(np.full(S, 0.7), (M, S))
    R = np.clip(np.linspace(0, 1, S)[:, None] - rng.uniform(0, 0.4, (S, A)), 0, 1) / horizon
    nu = np.tile(np.eye(S)[0], (M, 1))
    return lm.LatentMDP.from_arrays(
        P, np.tile(R, (M, 1, 1)), np.full(M, 1 / M), nu, horizon, observe_rewards=False
    )


def models() -> Iterator[tuple[str, Callable[[], lm.LatentMDP]]]:
    """Names and how to make the models."""
    for seed in range(3):
        yield f"adaptive management {seed}", lambda seed=seed: adaptive(seed)
    yield "adaptive management 5, 3 contexts, H=100", lambda: adaptive(5, 3, 100)
    for spec in SPECS:
        yield spec, lambda spec=spec: lm.make(spec, observe_rewards=False)
    if DATA.is_dir():
        for path in sorted((DATA / "planning").glob("*.npz")):
            yield path.stem, lambda path=path: lm.load(path, observe_rewards=False)
        for horizon in (20, 100):
            yield (
                f"riverswim, published, H={horizon}",
                lambda h=horizon: lm.load(
                    DATA / "riverswim" / "train.npz", observe_rewards=False, horizon=h
                ),
            )


def seconds(model: lm.LatentMDP, gap: float, method: str, most: float) -> float | None:
    """Least CPU seconds to the gap; None if it was not reached in `most`."""
    least = None
    for call in range(3):  # the first may load kernels that no call before needed
        begun = time.process_time()

        def stop(*_: float, begun: float = begun) -> None:
            if time.process_time() - begun > most:
                raise KeyboardInterrupt

        plan = plan_history(model, Limits(gap, progress=stop), method=method)
        took = time.process_time() - begun
        if plan.status not in ("gap", "optimal"):
            return least
        least = took if least is None else min(least, took)
        if took > 2.0 or (took > 0.3 and call > 0):
            break
    return least


def main() -> None:
    """Print the table, the worst ratio last."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of models' names")
    options = parser.parse_args()
    for method in ("layers", "grid"):  # compile
        for gap in (0.5, 0.1, None):
            plan_history(adaptive(0, horizon=6), Limits(gap), method=method)
            plan_history(lm.make("maze:size=3,goals=2,horizon=4"), Limits(gap), method=method)
    print("| model | gap | layers (s) | grid (s) | auto (s) | ratio |\n|---|---|---|---|---|---|")
    worst = 0.0
    for name, make in models():
        if options.names and not any(part in name for part in options.names):
            continue
        model = make()
        for gap in (0.01, 0.001):
            auto = seconds(model, gap, "auto", LONGEST)
            most = 1.2 * (LONGEST if auto is None else max(auto, 0.02))
            single = [seconds(model, gap, method, most) for method in ("layers", "grid")]
            cells = [f"> {most:.2f}" if x is None else f"{x:.3f}" for x in (*single, auto)]
            done = [x for x in single if x is not None]
            ratio = "-"
            if done or auto is not None:
                best = min(done, default=auto)
                value = (np.inf if auto is None else max(auto - CONSTANT, best)) / best
                worst, ratio = max(worst, value), f"{value:.2f}"
            print(f"| {name} | {100 * gap:g} % | {' | '.join(cells)} | {ratio} |", flush=True)
    print(f"\nThe worst ratio is {worst:.2f}.")


if __name__ == "__main__":
    main()
