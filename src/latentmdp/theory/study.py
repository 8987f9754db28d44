"""A scaling study: regret while one size varies, and fitted exponents.

The runs are those of a study (`docs/study/theorem.toml`). `study.json` is made of its table and is
plain data (`latentmdp report` draws it): `format`, `version`, `title`, `command`, `versions`,
`seconds`, and `varied`, one entry per sweep with its `rows` (one per run) and `fits`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latentmdp.errors import ModelError
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
    theorem_exponent: float | None
    note: str
    episodes: int = 10**9  # where K is not what varies
    gaps: tuple[float, ...] = ()
    scale: Callable[[float], float] | None = None  # bonus_scale by size; None is the paper's 1
    policy_class: str = "markov"

    def episodes_at(self, x: float) -> int:
        """`K` at size `x`."""
        return int(x) if self.parameter == "K" else self.episodes


Row = dict[str, Any]


def measure(sweep: Sweep, x: float, seed: int, algorithm: str) -> Row:
    """The regret of one algorithm at one size and seed; `short` is how far optimism was missed."""
    if not sweep.gaps:
        regret, short = _regret(sweep, x, seed, algorithm, math.nan)
        return {"regret": regret, "short": short}
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
    return {"regret": found[worst][0], "short": short, "gap": worst * shift}


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
    """One entry of `varied`, from rows with `algorithm, x, seed, regret, short, seconds`.

    Runs whose solver lost optimism are kept apart, in `left_out`.
    """
    rows = list(rows)
    kept = [row for row in rows if row["short"] <= BROKEN]
    fits = []
    for algorithm in dict.fromkeys(row["algorithm"] for row in rows):
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
        "rows": [{k: v for k, v in row.items() if k not in ("short", "seconds")} for row in kept],
        "fits": fits, "left_out": [row for row in rows if row["short"] > BROKEN],
        "note": sweep.note, "seconds": sum(row["seconds"] for row in rows),
        "episodes": None if sweep.parameter == "K" else sweep.episodes,
    }  # fmt: skip
