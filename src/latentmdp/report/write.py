"""`write_report`: one self-contained HTML file about runs, readable offline."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from latentmdp.errors import ModelError
from latentmdp.learning.run import Run, load_run
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.units import USER
from latentmdp.planning.plan import check_made_for
from latentmdp.policy.time_augmented import in_time_augmented
from latentmdp.report import sections
from latentmdp.report.audits import audit_section
from latentmdp.report.content import content
from latentmdp.report.frame import render_page
from latentmdp.report.groups import common_optimum, distinct_models, group_runs
from latentmdp.runtime.files import PathLike, write_atomically, writer_of

if TYPE_CHECKING:
    from latentmdp.planning.plan import Plan

SCRIPTS = (
    "data", "random", "episode", "values", "svg", "scale", "chart", "charts", "views", "shades",
    "action_bars", "explorer", "main", "theme",
)  # fmt: skip
NEED = "Charts and the episode explorer need JavaScript; tables and text do not."


def write_report(
    runs: "Run | PathLike | Iterable[Run | PathLike]",
    path: PathLike,
    *,
    plan: "Plan | Sequence[Plan] | Mapping[str, Plan] | None" = None,
    audit: Any = None,
    title: str | None = None,
    phases: int = 12,
    progress: Callable[[str], None] = lambda text: None,
    units: str = "user",
) -> Path:
    """Write one HTML file about these runs (or folders of saved runs); returns its path.

    `plan`: planning certificates to show, of the first run's model; their policies can be explored.
    Of runs on `model.time_augmented()` of a step-dependent model, the page shows the states of
    `model`, and plans may be of either.
    `audit`: one audit report, a list of them, or a mapping from names to them. `phases`: how many
    policies of a learner the explorer gets. They come from `run.phases` where `learn(...,
    audit=True)` kept them, or from what `save_phases` left in the run's folder; else each learner's
    first run is played again, to the same bits; 1 takes the last policy alone and plays nothing.
    `progress` is told, in words, what is being done. `units`: `user`, for values and regret in the
    units of the rewards before `normalized()`, or `model`. Audits are always in the model's.
    """
    found, folders = _runs(runs)
    if not found:
        raise ModelError("a report needs at least one run; it was given none")
    if not isinstance(phases, int) or phases < 0:
        raise ModelError(f"phases must be a whole number of at least 0; it is {phases!r}")
    if units not in ("model", "user"):
        raise ModelError(f"units must be model or user; it is {units!r}")
    plans = _named(plan, lambda p: f"{getattr(p, 'policy_class', 'no')} class")
    audits = _named(audit, lambda a: "audit")
    plans = [(name, _of_learners(one, found[0].model)) for name, one in plans]
    for name, one in plans:
        check_made_for(one, found[0].model, f"the plan ({name})")
    shown = found
    if units == "user":
        shown = [run.in_user_units() for run in found]
        plans = [(name, one.in_user_units()) for name, one in plans]
    data = content(found, shown, plans, phases, folders, progress)
    parts = _sections(found, shown, data, plans, audits)
    html = render_page(title or _title(found), data.pop("lead"), parts, data, SCRIPTS, NEED)
    write_atomically(path, writer_of(html.encode("utf-8")))
    return Path(path)


def _runs(runs: Any) -> tuple[list["Run"], list[Path | None]]:
    """The runs in the units in which they learned, and the folders of those that were loaded."""
    given = [runs] if isinstance(runs, (Run, str, Path)) else list(runs)
    found = [(run if isinstance(run, Run) else load_run(run)).in_model_units for run in given]
    folders = [run.folder for run in found]
    for run in found:
        if run.episodes < 1:
            raise ModelError("a report needs runs with episodes; one has none")
    return found, folders


def _named(given: Any, name: Any) -> list[tuple[str, Any]]:
    """Pairs of a unique name and a thing, from one, several, or a mapping of them."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [(str(key), value) for key, value in given.items()]
    things = list(given) if isinstance(given, (list, tuple)) else [given]
    names = [name(thing) for thing in things]
    return [
        (n if names.count(n) == 1 else f"{n} {i + 1}", thing)
        for i, (n, thing) in enumerate(zip(names, things, strict=True))
    ]


def _of_learners(plan: Any, model: LatentMDP) -> Any:
    """A plan of a step-dependent model as one of its time-augmented model, which learners see."""
    own = getattr(getattr(plan, "policy", None), "model", None)
    if model.augmented is None or own is None or model.augmented.states != own.S:
        return plan
    if own.time_augmented().digest != model.digest:
        return plan
    policy = in_time_augmented(own, plan.policy).for_model(model)
    return replace(plan, policy=policy, model_digest=model.digest)


def _title(runs: Sequence["Run"]) -> str:
    names = list(dict.fromkeys(run.spec.algorithm for run in runs))
    shown = ", ".join(names[:4]) + (" and others" if len(names) > 4 else "")
    return f"Learning with {shown}"


def _sections(
    runs: Sequence["Run"],
    shown: Sequence["Run"],
    data: dict[str, Any],
    plans: Sequence[tuple[str, "Plan"]],
    audits: Sequence[tuple[str, Any]],
) -> list[tuple[str, str, Markup]]:
    """`(id, name in the contents, html)` of each section; numbers are those of `shown`."""
    models, model_of = distinct_models(runs)
    groups = group_runs(runs, model_of)
    optima = common_optimum(shown, model_of, [plan for _, plan in plans])
    closed = all(best == upper for best, upper in optima)
    found = [
        ("short", "In short", sections.in_short(shown, groups, optima)),
        ("regret", "Regret", sections.regret_section(
            any(len(group.runs) > 1 for group in groups), data["limits"], data["lowerLimits"],
            data.pop("exploring"), any(run.units == USER for run in shown), closed)),
        ("explore", "Explorer", sections.explorer_section(data.pop("leftOut"))),
        ("value", "Value", sections.chart_section(
            "value", "Value of the policy",
            "What the policy in force is really worth per episode, exactly, and what the learner "
            "hoped for when it chose it (dotted). Where the dotted line comes down to the solid "
            "one, optimism is used up.")),
        ("updates", "Updates", sections.chart_section(
            "updates", "Updates",
            "The policy changes only when some row's visits double, so updates grow with the "
            "logarithm of episodes. Dashed: the most that doubling allows.")),
    ]  # fmt: skip
    if plans:
        html = sections.plan_section(plans, data.pop("informed"))
        found.append(("planning", "Planning", html))
    if audits:
        found.append(("audit", "Audit", audit_section(audits)))
    found.append(("setting", "What was run", sections.setting_section(runs, models, groups)))
    data["lead"] = sections.lead(runs, models, groups, optima)
    return found
