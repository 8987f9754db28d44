"""`latentmdp report RUN ...`: one HTML page about saved runs."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentmdp.commands import options as option
from latentmdp.commands.common import check_range
from latentmdp.commands.output import Progress, print_json, print_text
from latentmdp.errors import ModelError
from latentmdp.model.units import NORMALISED, USER

if TYPE_CHECKING:
    from latentmdp.learning.run import Run


def report_command(
    runs: Annotated[
        list[Path],
        option.argument("RUN", "Folders written by `learn --out`, or folders that contain such."),
    ],
    out: Annotated[Path, option.path("--out FILE", "The page to write.")] = Path("report.html"),
    title: option.Title = None,
    phases: Annotated[
        int,
        option.whole(
            "--phases N",
            "Number of policies of each learner in the explorer; with 1, the last one, no run is "
            "repeated.",
        ),
    ] = 12,
    audit: Annotated[
        bool, option.new("--audit", "Audit the first run of each learner (repeats that run).")
    ] = False,
    plan: Annotated[
        float | None,
        option.new("--plan SECONDS", "Also plan in the model of the first run, for each class."),
    ] = None,
    user_units: option.UserUnits = True,
    json: option.AsJson = False,
) -> None:
    """Write one HTML page about saved runs: regret, bounds, an episode explorer."""
    from latentmdp.learning.run import load_run
    from latentmdp.report import write_report
    from latentmdp.runtime.files import check_writable

    started = time.perf_counter()
    check_range("--phases", phases, 1)
    if plan is not None and not plan > 0:
        raise typer.BadParameter("--plan must be above 0 seconds")
    check_writable(out)
    folders = places(runs)
    what = f"{len(folders)} run{'s' * (len(folders) > 1)}"
    with Progress(f"reading {what}") as say:
        found = [load_run(place) for place in folders]
        page = write_report(
            found, out, plan=_plans(found, plan, say), audit=_audits(found, audit, say),
            title=title, phases=phases, progress=say,
            units="user" if user_units else "model",
        )  # fmt: skip
    size = page.stat().st_size
    if json:
        seconds = time.perf_counter() - started
        facts = {"report": page, "runs": len(folders)}
        units = {"units": USER if user_units else NORMALISED} if any(r.units for r in found) else {}
        print_json(facts | {"bytes": size, "seconds": seconds} | units)
    else:
        print_text(f"{page}: {what}, {size / 1e6:.2f} MB; open it in a browser")


def places(given: list[Path]) -> list[Path]:
    """The folders of runs in these folders, in order and without repetition."""
    from latentmdp.experiments.study import run_folders

    runs: dict[Path, Path] = {}
    for place in given:
        if not place.is_dir():
            raise ModelError(f"{place} must be a folder of a run; there is none")
        folders = run_folders(place)
        if not folders:
            raise ModelError(
                f"{place} must hold a run; no run.npz is in it or below (for the page of a study: "
                "latentmdp study report)"
            )
        for folder in folders:
            runs.setdefault(folder.resolve(), folder)
    return list(runs.values())


def _plans(runs: "list[Run]", seconds: float | None, say: Progress) -> Any:
    if seconds is None:
        return None
    from latentmdp.planning.plan import plan_whole

    found = []
    for name in ("history", "markov"):
        say(f"planning, {name} class, at most {seconds:g} s")
        found.append(plan_whole(runs[0].model, name, time_limit=seconds))
    return found


def _audits(runs: "list[Run]", wanted: bool, say: Progress) -> Any:
    if not wanted:
        return None
    from latentmdp.report.groups import distinct_models, group_runs
    from latentmdp.theory.auditing.audit import audit

    found = {}
    for group in group_runs(runs, distinct_models(runs)[1]):
        say(f"auditing {group.label}")
        found[group.label] = audit(runs[group.runs[0]])
    return found
