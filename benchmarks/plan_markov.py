"""Markov planning: the published riverswim beside a plain NumPy ascent, then every model.

Run: python benchmarks/plan_markov.py [folder of the published problems]

All times are processor seconds of the second call in this process (compiled).
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import latentmdp as lm
from latentmdp.planning import baselines
from latentmdp.planning.markov.coordinate_ascent import CoordinateAscent
from latentmdp.planning.markov.view import markov_view

DATA = Path(__file__).parents[2] / "shared" / "data"
SPECS = (
    "bandit", "troubleshoot", "hard", "riverswim", "deterministic", "garnet",
    "maze:size=3,goals=2,horizon=8", "maze:size=5,goals=4",
)  # fmt: skip
FILES = ("garnet_ind", "garnet_sup", "garnet_supR", "maze_n5_M4", "maze_n7_M8", "maze_n10_M16")
SECONDS = 20.0  # by the clock, for each plan of the second table; hard models take it all


def timed(function: Callable[[], Any], repeats: int = 3) -> tuple[Any, float]:
    """The result and the least processor seconds."""
    seconds = []
    for _ in range(repeats):
        begun = time.process_time()
        result = function()
        seconds.append(time.process_time() - begun)
    return result, min(seconds)


def numpy_ascent(model: lm.LatentMDP, table: np.ndarray) -> tuple[float, np.ndarray]:
    """Coordinate ascent as one would write it in NumPy, with dense arrays."""
    M, S, A, H = model.M, model.S, model.A, model.H
    P, R = model.P, model.row_reward.reshape(M, S, A)
    table, last = table.copy(), -np.inf
    while True:
        reach = [model.w[:, None] * model.nu]
        for t in range(H - 1):
            step = P[:, np.arange(S), table[t]]  # (M, S, S)
            reach.append(model.discount * np.einsum("ms,msx->mx", reach[-1], step))
        value = np.zeros((M, S))
        for t in range(H - 1, -1, -1):
            q = R + model.discount * (P @ value[:, None, :, None])[..., 0]
            table[t] = np.einsum("ms,msa->sa", reach[t], q).argmax(axis=1)
            value = np.take_along_axis(q, table[t][None, :, None], axis=2)[..., 0]
        total = float((reach[0] * value).sum())
        if total <= last * (1 + 1e-13):
            return total, table
        last = total


def riverswim(folder: Path) -> None:
    """Train on one file, evaluate on the other."""
    print("| horizon | method | training | test | seconds |")
    print("|---|---|---|---|---|")
    for horizon in (50, 150):
        train, test = (
            lm.load(folder / name, observe_rewards=False, horizon=horizon)
            for name in ("train.npz", "test.npz")
        )
        view = markov_view(train)
        begin = baselines.action_table("wsu", train)

        def ascent(train: Any = train, view: Any = view) -> np.ndarray:
            table = baselines.action_table("wsu", train)
            for _ in CoordinateAscent(view).climb(table, view.start, 200):
                pass
            return table

        def plain(train: Any = train, begin: Any = begin) -> np.ndarray:
            return numpy_ascent(train, begin)[1]

        rows: list[tuple[str, Callable[[], Any]]] = [
            ("mean model", lambda m=train: baselines.action_table("mean", m)),
            ("weight-select-update", lambda m=train: baselines.action_table("wsu", m)),
            ("coordinate ascent, NumPy", plain),
            ("coordinate ascent", ascent),
        ]
        for name, function in rows:
            table, seconds = timed(function)
            policy = lm.PolicyGraph.from_table(table)
            values = [lm.evaluate(m, policy).value for m in (train, test)]
            print(f"| {horizon} | {name} | {values[0]:.4f} | {values[1]:.4f} | {seconds:.3f} |")
        for gap in (0.01, 0.001):
            found, seconds = timed(lambda g=gap, m=train: lm.plan(m, "markov", gap=g), 1)
            out = lm.evaluate(test, found.policy).value
            print(
                f"| {horizon} | plan, gap {gap:.1%}: {found.status}, at most {found.upper:.4f} "
                f"| {found.lower:.4f} | {out:.4f} | {seconds:.3f} |"
            )
        known = [baselines.knowing_the_context(m) for m in (train, test)]
        print(f"| {horizon} | knowing the model | {known[0]:.4f} | {known[1]:.4f} | |")


def every_model(folder: Path) -> None:
    """Value and bound at 1%, and how far an exact plan gets in the time allowed."""
    print("| model | M, S, A, H | value | at most | gap | status | nodes | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    models = [(spec, lm.make(spec)) for spec in SPECS]
    for name in FILES:
        path = folder / f"{name}.npz"
        if path.exists():
            models.append((name, lm.load(path, observe_rewards=False)))
    for name, model in models:
        for gap in (0.01, None):
            found, seconds = timed(lambda g=gap, m=model: lm.plan(m, "markov", g, SECONDS), 1)
            print(
                f"| {name} | {model.M}, {model.S}, {model.A}, {model.H} | {found.lower:.6f} "
                f"| {found.upper:.6f} | {found.gap:.2%} | {found.status} | {found.nodes} "
                f"| {seconds:.2f} |",
                flush=True,
            )


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    lm.plan(lm.make("garnet"), "markov", gap=None, work_limit=20_000_000)  # compile
    if (folder / "riverswim").is_dir():
        riverswim(folder / "riverswim")
        print()
    else:
        print("riverswim was left out: the published problems are not there\n")
    every_model(folder / "planning")


if __name__ == "__main__":
    main()
