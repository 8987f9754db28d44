"""What the page's scripts read: curves, bounds, models, and the policies of the explorer."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latentmdp.evaluation.evaluate import evaluate
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.units import USER
from latentmdp.planning.baselines import knowing_the_context
from latentmdp.report.encode import rounded, safe_json
from latentmdp.report.groups import (
    common_optimum,
    curves,
    distinct_models,
    episode_grid,
    group_runs,
    units_of,
)
from latentmdp.report.limits import exploring_begins, lower_limit, update_limit, upper_limit
from latentmdp.report.phases import plan_phase, policy_ahead_exists, run_phases
from latentmdp.report.sections import plan_seconds
from latentmdp.report.world import world

if TYPE_CHECKING:
    from latentmdp.learning.run import Run
    from latentmdp.planning.plan import Plan
    from latentmdp.report.groups import Group

POLICY_BYTES = 4_000_000  # bytes for the explorer's policies
MAX_SOURCES = 16  # learners in the explorer


def content(
    runs: Sequence["Run"],
    shown: Sequence["Run"],
    plans: Sequence[tuple[str, "Plan"]],
    phases: int,
    folders: Sequence[Path | None],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """The whole document; `folders` are those that runs were read from, None for others.

    `shown` are the runs in the units of the page. The explorer gets models and policies in their
    own units and converts what it shows.
    """
    models, model_of = distinct_models(runs)
    groups = group_runs(runs, model_of)
    members = [[runs[i] for i in group.runs] for group in groups]
    of_run = common_optimum(shown, model_of, [plan for _, plan in plans])
    optima = [of_run[group.runs[0]] for group in groups]
    best = [value for value, _ in optima]
    members_shown = [[shown[i] for i in group.runs] for group in groups]
    user = [run.units == USER for run in shown]
    places = [folders[group.runs[0]] for group in groups]
    sources, left_out = _sources(groups, members, best, phases, places, progress)
    for name, plan in reversed(plans):
        value = evaluate(models[0], plan.policy).value
        phase = plan_phase(models[0], plan.policy, value)
        sources.append(
            {"name": f"plan, {name}", "model": 0, "total": 1, "best": None, "phases": [phase]}
        )
    data: dict[str, Any] = {
        "groups": [
            {"label": group.label, "curves": curves(found, optimum)}
            for group, found, optimum in zip(groups, members_shown, optima, strict=True)
        ],
        **_limits(groups, members, members_shown),
        "optima": _optima(groups, members, optima),
        "units": units_of(shown),
        "models": [
            world(model, _optimum(model, plans, user[0]) if i == 0 else None)
            | {"userUnits": any(u for u, m in zip(user, model_of, strict=True) if m == i)}
            for i, model in enumerate(models)
        ],
        "sources": sources,
        "plans": [{"name": name, "history": _history(plan)} for name, plan in plans],
        "leftOut": left_out,
        "exploring": [
            (group.label, episode, found[0].episodes)
            for group, found in zip(groups, members, strict=True)
            if (episode := exploring_begins(found[0])) is not None
        ],
    }
    if plans:
        known = knowing_the_context(models[0])
        data["informed"] = models[0].in_user_units(known) if user[0] else known
    return data


def _optimum(model: LatentMDP, plans: Sequence[tuple[str, "Plan"]], user: bool) -> float | None:
    """What bounds all policies: the least upper bound of plans with memory; in model units."""
    bounds = [plan.upper for _, plan in plans if plan.policy_class == "history"]
    if not bounds:
        return None
    zero, one = (model.in_user_units(x) for x in (0.0, 1.0)) if user else (0.0, 1.0)
    return (min(bounds) - zero) / (one - zero)


def _limits(
    groups: Sequence["Group"],
    members: Sequence[Sequence["Run"]],
    members_shown: Sequence[Sequence["Run"]],
) -> dict[str, Any]:
    """Bounds on regret and on updates, each drawn once for all groups that share it."""
    regret: dict[str, dict[str, Any]] = {}
    updates: dict[str, dict[str, Any]] = {}
    lower: list[dict[str, Any]] = []
    several = (
        len(
            {
                (group.model, found[0].spec.episodes)
                for group, found in zip(groups, members, strict=True)
            }
        )
        > 1
    )
    for group, found, shown in zip(groups, members, members_shown, strict=True):
        run = found[0]
        unit = run.model.reward_scale if shown[0].units == USER else 1.0
        x = episode_grid(min(run.episodes for run in found))
        suffix = f", {group.label}" if several else ""
        bound = upper_limit(run, x)
        if bound is not None:
            name = f"theorem's upper bound{suffix}"
            y = rounded(unit * bound["curve"])
            regret.setdefault(name, {"name": name, "x": x.tolist(), "y": y,
                                     "dash": "5 4", "off": len(regret) > 0})  # fmt: skip
        name = f"losing every episode{suffix}"
        y = rounded(x * unit * run.best_value)
        regret.setdefault(name, {"name": name, "x": x.tolist(), "y": y,
                                 "dash": "1 3", "off": True})  # fmt: skip
        name = f"the most that doubling allows{suffix}"
        if len(updates) < 3:
            updates.setdefault(name, {"name": name, "x": x.tolist(), "y": update_limit(run, x)})
        least = lower_limit(run)
        if least is not None:
            name = f"lower bound for any learner{suffix}"
            if name not in {entry["name"] for entry in lower}:
                lower.append({"name": name, "x": least["episode"],
                              "y": unit * least["value"]})  # fmt: skip
    kept = sorted(regret.values(), key=lambda limit: bool(limit["off"]))[:6]
    return {"limits": kept, "updateLimits": list(updates.values()), "lowerLimits": lower}


def _optima(
    groups: Sequence["Group"],
    members: Sequence[Sequence["Run"]],
    optima: Sequence[tuple[float, float]],
) -> list[dict[str, Any]]:
    """Best known values, and upper bounds where the optimum is open, by model and policy class."""
    found: dict[str, dict[str, Any]] = {}
    models = len({group.model for group in groups})
    for group, runs, optimum in zip(groups, members, optima, strict=True):
        policy_class = runs[0].spec.policy_class
        suffix = f", model {group.model + 1}" if models > 1 else ""
        for words, value in zip(("best known", "no policy beats"), optimum, strict=True):
            if words != "best known" and value <= optimum[0]:
                continue
            name = f"{words}, {policy_class}{suffix}"
            entry = found.setdefault(name, {"name": name, "value": value, "episodes": 1})
            entry["episodes"] = max(entry["episodes"], *(run.episodes for run in runs))
    return list(found.values())[:8]


def _sources(
    groups: Sequence["Group"],
    members: Sequence[Sequence["Run"]],
    best: Sequence[float],
    phases: int,
    folders: Sequence[Path | None],
    progress: Callable[[str], None],
) -> tuple[list[dict[str, Any]], str]:
    """Policies of each group's first run, as many as the budget allows; and what was left out."""
    sources: list[dict[str, Any]] = []
    left = POLICY_BYTES
    notes = []
    for i, (group, found) in enumerate(zip(groups, members, strict=True)):
        if i >= MAX_SOURCES:
            notes.append(f"learners after the first {MAX_SOURCES}")
            break
        run = found[0]
        progress(f"policies of {group.label} ({i + 1} of {min(len(groups), MAX_SOURCES)})")
        kept = run_phases(run, phases, folders[i])
        share = left // (min(len(groups), MAX_SOURCES) - i)
        before, hoped = len(kept), any("hoped" in phase for phase in kept)
        thinned, size = _thin(kept, share)
        if hoped and not any("hoped" in phase for phase in thinned):
            notes.append(f"what {group.label} hoped for")
        if len(thinned) < before:
            notes.append(f"{before - len(thinned)} policies of {group.label}")
        if not thinned:
            continue
        left -= size
        seed = f", seed {run.spec.seed}" if len(found) > 1 else ""
        sources.append(
            {
                "name": group.label + seed,
                "model": group.model,
                "total": len(run.state["table"]["episode"]) + policy_ahead_exists(run),
                "best": best[i],
                "phases": thinned,
            }
        )
    return sources, f"Left out to keep this file small: {', '.join(notes)}." if notes else ""


def _thin(phases: list[dict[str, Any]], limit: int) -> tuple[list[dict[str, Any]], int]:
    """Drop hoped-for values, then phases from the middle, until the rest fits."""
    size = [len(safe_json(phase)) for phase in phases]
    if sum(size) > limit:
        for phase in phases:
            phase.pop("hoped", None)
        size = [len(safe_json(phase)) for phase in phases]
    while phases and sum(size) > limit:
        drop = max(range(len(phases)), key=lambda i: (0 < i < len(phases) - 1, size[i]))
        del phases[drop], size[drop]
    return phases, sum(size)


def _history(plan: "Plan") -> list[list[float | None]]:
    """`[seconds, lower, upper]` at a few hundred moments, and at the end."""
    entries = [(seconds, lower, upper) for seconds, _, lower, upper in plan.history]
    if not entries:
        return []
    every = max(1, len(entries) // 200)
    kept = [*entries[::every], (plan_seconds(plan), plan.lower, plan.upper)]
    return [rounded(entry, 10) for entry in kept]
