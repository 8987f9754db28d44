"""Runs that differ only by their seed belong together: one line with a band in every chart."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.learning.regret import open_gap
from latentmdp.report.encode import rounded

if TYPE_CHECKING:
    from latentmdp.learning.run import Run
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.planning.plan import Plan

POINTS = 150  # of a curve, evenly on a logarithmic axis; a third as many more on a linear one
SEEDS_FOR_PERCENTILES = 10  # with fewer seeds a band reaches from the lowest to the highest


@dataclass(frozen=True)
class Group:
    """The seeds of one setting; `runs` and `model` index the report's lists."""

    label: str
    model: int
    runs: tuple[int, ...]


def distinct_models(runs: Sequence["Run"]) -> tuple[list["LatentMDP"], list[int]]:
    """The different models, and for each run the index of its own."""
    models: list[LatentMDP] = []
    model_of = []
    for run in runs:
        for i, model in enumerate(models):
            if run.model is model or run.model == model:
                model_of.append(i)
                break
        else:
            model_of.append(len(models))
            models.append(run.model)
    return models, model_of


def group_runs(runs: Sequence["Run"], model_of: Sequence[int]) -> list[Group]:
    """Groups in order of their first run; labels say what tells the groups apart."""
    settings = []
    for run, model in zip(runs, model_of, strict=True):
        setting = asdict(run.spec) | {"model": model, "played": run.episodes}
        del setting["seed"]
        settings.append(setting)
    varying = {key for key in settings[0] if len({str(s[key]) for s in settings}) > 1}
    groups: dict[str, list[int]] = {}
    for i, setting in enumerate(settings):
        groups.setdefault(str(setting), []).append(i)
    return [
        Group(_label(settings[members[0]], varying), model_of[members[0]], tuple(members))
        for members in groups.values()
    ]


_FORMS = {"delta": "δ = {:g}", "episodes": "K = {:,}", "simulator": "{}", "ties": "{} ties"}


def _label(setting: dict[str, Any], varying: set[str]) -> str:
    """The algorithm and the class, then whatever else differs between the groups."""
    rest = {key: value for key, value in setting.items() if key in varying}
    parts = [rest.pop("algorithm", setting["algorithm"])]
    parts.append(rest.pop("policy_class", setting["policy_class"]))
    rest.pop("bonus_scale", None)
    if setting["bonus_scale"] != 1.0:
        parts.append(f"bonus × {setting['bonus_scale']:g}")
    played, model = rest.pop("played", setting["episodes"]), rest.pop("model", None)
    parts += [_FORMS.get(key, key + " {}").format(value) for key, value in rest.items()]
    if played != setting["episodes"]:
        parts.append(f"{played:,} played")
    if model is not None:
        parts.append(f"model {model + 1}")
    return ", ".join(parts)


def episode_grid(episodes: int) -> np.ndarray:
    """Where curves are evaluated: logarithmic and linear, so that both axes show smooth lines."""
    both = [np.geomspace(1, episodes, POINTS), np.linspace(1, episodes, POINTS // 3)]
    return np.unique(np.rint(np.concatenate(both)).astype(np.int64))


def common_optimum(
    runs: Sequence["Run"], model_of: Sequence[int], plans: Sequence["Plan"] = ()
) -> list[tuple[float, float]]:
    """For each run `(best, upper)`: bounds on its class's optimum from all that the report knows.

    So that all regret in one report is against the same value. `plans` are of the first model. The
    two are equal where the optimum is closed.
    """
    found: dict[tuple[int, str], tuple[float, float]] = {}
    known = [((0, plan.policy_class), plan.lower, plan.upper) for plan in plans]
    places = [(model, run.spec.policy_class) for run, model in zip(runs, model_of, strict=True)]
    for run, place in zip(runs, places, strict=True):
        known.append((place, run.best_value, run.optimal[1]))
    for place, low, high in known:
        best, upper = found.get(place, (low, high))
        found[place] = max(best, low), min(upper, high)
    return [
        (best, best + open_gap(best, upper, run.largest_value))
        for run, (best, upper) in zip(runs, map(found.__getitem__, places), strict=True)
    ]


def units_of(runs: Sequence["Run"]) -> str:
    """The units of all runs in words, or nothing; runs of several models may differ in them."""
    found = sorted({run.units or "rewards as given" for run in runs})
    return "" if found == ["rewards as given"] else " and ".join(found)


def curves(runs: Sequence["Run"], optimum: tuple[float, float]) -> dict[str, Any]:
    """Regret against the optimum, value, updates of a group on a common grid, bands over seeds.

    Where the optimum is open, regret has an `upper` line: the middle one against its upper bound.
    """
    best, upper = optimum
    grid = episode_grid(min(run.episodes for run in runs))
    regret = np.array([run.regret_at(grid) + (best - run.best_value) * grid for run in runs])
    table = [run.state["table"] for run in runs]
    phase = [np.searchsorted(t["episode"], grid, side="right") - 1 for t in table]

    def at(column: str) -> np.ndarray:
        return np.array([t[column][p] for t, p in zip(table, phase, strict=True)])

    line = band(regret)
    if upper > best:
        line["upper"] = rounded(np.median(regret, axis=0) + (upper - best) * grid)
    return {
        "episode": grid.tolist(),
        "regret": line,
        "value": band(at("value")),
        "optimistic": rounded(np.median(at("optimistic_value"), axis=0)),
        "updates": band(np.array([p.astype(float) for p in phase])),
        "seeds": len(runs),
    }


def band(values: np.ndarray) -> dict[str, Any]:
    """`values (seeds, points)` as a middle line and, for several seeds, a band around it."""
    line = {"middle": rounded(np.median(values, axis=0))}
    if len(values) == 1:
        return line
    shares = (0.0, 1.0) if len(values) < SEEDS_FOR_PERCENTILES else (0.1, 0.9)
    low, high = np.quantile(values, shares, axis=0)
    return line | {"low": rounded(low), "high": rounded(high)}
