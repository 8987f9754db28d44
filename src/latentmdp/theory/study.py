"""A scaling study: regret while one size varies, fitted exponents, and the file they are kept in.

`study.json` is plain data (`latentmdp report` draws it): `format`, `version`, `title`, `command`,
`versions`, `seconds`, and `varied`, one entry per sweep with its `rows` (one per run) and `fits`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from latentmdp._workers import workers
from latentmdp.errors import ModelError
from latentmdp.formats.files import refusal
from latentmdp.formats.strict_json import read_json, write_json
from latentmdp.learning.learn import learn
from latentmdp.model import LatentMDP
from latentmdp.planning.plan import plan_whole

ALGORITHMS = ("mvp", "bernstein", "lucrl")
PLAN_WORK = 2 * 10**7
RESOLUTION = 2.0 ** (1 / 16)  # between neighbouring gaps, where the worst one is looked for
BROKEN = 1e-9  # an optimistic value this far below the best known one has lost optimism


@dataclass(frozen=True)
class Sweep:
    """One size varied. `make(x, seed, gap)` is the instance; `gap` is None for fixed instances.

    With `gaps` the regret of a size is the largest over them (and below them while that is more,
    and then between the neighbours, down to a factor `RESOLUTION`): the worst of a family.
    """

    name: str
    parameter: str
    label: str
    model: str
    make: Callable[[float, int, float], LatentMDP]
    sizes: tuple[float, ...]
    theorem_exponent: float | None
    note: str
    episodes: int = 10**9  # where K is not what varies
    gaps: tuple[float, ...] = ()
    scale: Callable[[float], float] | None = None  # bonus_scale by size; None is the paper's 1
    algorithms: tuple[str, ...] = ALGORITHMS
    quick: tuple[float, ...] = ()  # sizes of the one-minute version
    policy_class: str = "markov"

    def episodes_at(self, x: float) -> int:
        """`K` at size `x`."""
        return int(x) if self.parameter == "K" else self.episodes


Row = dict[str, Any]
SweepTask = tuple[Sweep, float, int, str]


def measure(task: SweepTask) -> Row:
    """The regret of one algorithm at one size and seed; `short` is how far optimism was missed."""
    started = time.process_time()
    row = _measured(*task)
    return row | {"cpu": time.process_time() - started}


def _measured(sweep: Sweep, x: float, seed: int, algorithm: str) -> Row:
    row: Row = {"algorithm": algorithm, "x": float(x), "seed": seed}
    if not sweep.gaps:
        regret, short = _regret(sweep, x, seed, algorithm, math.nan)
        return row | {"regret": regret, "short": short}
    # Regret is the gap times a number of episodes that comes in powers of two (snapshots double):
    # a grid with the same phase at all sizes would give lattice points, whose slopes agree to the
    # digit for all seeds. So every seed and size shifts the grid, and the search goes on finely.
    shift = 2.0 ** -float(np.random.default_rng([seed, *np.float64(x).tobytes()]).random())
    found = {g: _regret(sweep, x, seed, algorithm, g * shift) for g in sweep.gaps}
    while (g := _worst(found)) == min(found):  # the worst one may lie below the grid
        found[g / 2.0] = _regret(sweep, x, seed, algorithm, g / 2.0 * shift)
    step = math.sqrt(2.0)
    while step >= RESOLUTION * (1.0 - 1e-9):
        for g in (_worst(found) * step, _worst(found) / step):
            found[g] = _regret(sweep, x, seed, algorithm, g * shift)
        step = math.sqrt(step)
    worst = _worst(found)
    short = max(short for _, short in found.values())
    return row | {"regret": found[worst][0], "short": short, "gap": worst * shift}


def _worst(found: dict[float, tuple[float, float]]) -> float:
    return max(found, key=lambda gap: found[gap][0])


def _regret(sweep: Sweep, x: float, seed: int, algorithm: str, gap: float) -> tuple[float, float]:
    model = sweep.make(x, seed, gap)
    limits: dict[str, Any] = {"gap": 1e-6, "time_limit": None, "work_limit": PLAN_WORK}
    optimal = plan_whole(model, sweep.policy_class, **limits)
    scale = 1.0 if sweep.scale is None else sweep.scale(x)
    run = learn(
        model, algorithm, sweep.episodes_at(x), sweep.policy_class, bonus_scale=scale, seed=seed,
        optimal=optimal,
    )  # fmt: skip
    return run.regret, max(float(run.best_value - run.table["optimistic_value"].min()), 0.0)


def exponent(rows: Sequence[Row]) -> tuple[float, float, float]:
    """`(exponent, low, high)`: seeds are replicates.

    Each seed gives one least-squares slope of log regret on log size, over the sizes it has (two at
    least); the exponent is their mean, the interval Student's with one degree less than seeds.
    """
    from scipy.stats import t  # loads slowly

    slopes = []
    for seed in sorted({row["seed"] for row in rows}):
        mine = [row for row in rows if row["seed"] == seed]
        x = np.log([row["x"] for row in mine])
        y = np.log([max(row["regret"], 1e-9) for row in mine])
        if len(np.unique(x)) >= 2:
            slopes.append(float((x - x.mean()) @ y / ((x - x.mean()) @ (x - x.mean()))))
    if len(slopes) < 2:
        raise ModelError(f"an exponent's interval needs two seeds at least; found {len(slopes)}")
    mean, n = float(np.mean(slopes)), len(slopes)
    half = float(t.ppf(0.975, n - 1) * np.std(slopes, ddof=1) / math.sqrt(n))
    return mean, mean - half, mean + half


def entry(sweep: Sweep, rows: Iterable[Row]) -> dict[str, Any]:
    """One entry of `varied`. Runs whose solver lost optimism are kept apart, in `left_out`."""
    rows = list(rows)
    kept = [row for row in rows if row["short"] <= BROKEN]
    fits = []
    for algorithm in sweep.algorithms:
        mine = [row for row in kept if row["algorithm"] == algorithm]
        try:
            value, low, high = exponent(mine)
        except ModelError:
            continue  # too few usable runs; the page says so
        fits.append({"algorithm": algorithm, "exponent": value, "low": low, "high": high})
    return {
        "name": sweep.name, "parameter": sweep.parameter, "label": sweep.label,
        "model": sweep.model, "theorem_exponent": sweep.theorem_exponent,
        "policy_class": sweep.policy_class,
        "rows": [{k: v for k, v in row.items() if k not in ("short", "cpu")} for row in kept],
        "fits": fits, "left_out": [row for row in rows if row["short"] > BROKEN],
        "note": sweep.note, "cpu_seconds": sum(row["cpu"] for row in rows),
    }  # fmt: skip


def _begun(path: Path) -> dict[str, Any]:
    """The entries and the seconds of a study that was begun."""
    found = read_json(path)
    seconds, varied = found.get("seconds"), found.get("varied")
    named = isinstance(varied, list) and all(
        isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in varied
    )
    if not named or type(seconds) not in (int, float):
        raise refusal(path, "must be a study that can be continued; seconds or a name is missing")
    return {"varied": varied, "seconds": seconds}


def run_study(
    sweeps: Sequence[Sweep],
    *,
    seeds: int = 5,
    jobs: int = 2,
    quick: bool = False,
    title: str = "How regret scales",
    command: str = "",
    out: str | Path | None = None,
    say: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Run the sweeps; after each one `out/study.json` is written anew, whole or not at all.

    Sweeps that `out` already holds are not run again. `say` is shown each finished entry.
    """
    started = time.perf_counter()
    document: dict[str, Any] = {
        "format": "latentmdp-study", "version": 1, "title": title, "command": command,
        "versions": {name: version(name) for name in ("latentmdp", "numpy", "numba")},
        "seconds": 0.0, "varied": [],
    }  # fmt: skip
    path = None if out is None else Path(out) / "study.json"
    if path is not None and path.exists():
        document |= _begun(path)
    before = document["seconds"]
    have = {found["name"]: found for found in document["varied"]}
    with workers(jobs) as pool:
        for sweep in sweeps:
            if sweep.name not in have:
                tasks = [
                    (sweep, x, seed, algorithm)
                    for x in (sweep.quick if quick else sweep.sizes)
                    for seed in range(seeds)
                    for algorithm in sweep.algorithms
                ]
                have[sweep.name] = entry(sweep, pool.map(measure, tasks))
            # words may change, rows do not
            episodes = None if sweep.parameter == "K" else sweep.episodes
            have[sweep.name] |= {"note": sweep.note, "episodes": episodes}
            document["varied"] = list(have.values())
            document["seconds"] = before + time.perf_counter() - started
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_json(path, document)
            if say is not None:
                say(have[sweep.name])
    return document
