"""`latentmdp report RUN ...`: one HTML page about saved runs."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentmdp.commands.common import AsJson, UserUnits, some_path, whole_number
from latentmdp.commands.output import Say, print_json, print_text, working
from latentmdp.errors import ModelError
from latentmdp.model.units import NORMALISED, USER

if TYPE_CHECKING:
    from latentmdp.learning.run import Run


def report_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Folders that `learn --out` wrote, or folders of them.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", parser=some_path, help="The page to write.")
    ] = Path("report.html"),
    title: Annotated[
        str | None, typer.Option("--title", help="The page's heading.", show_default=False)
    ] = None,
    phases: Annotated[
        int,
        typer.Option(
            "--phases",
            metavar="N",
            parser=whole_number,
            help="Policies of each learner in the explorer; 1: the last alone, nothing is rerun.",
        ),
    ] = 12,
    audit: Annotated[
        bool, typer.Option("--audit", help="Audit each learner's first run (reruns it).")
    ] = False,
    plan: Annotated[
        float | None,
        typer.Option(
            "--plan",
            metavar="SECONDS",
            help="Plan in the first run's model, this long for each policy class.",
            show_default=False,
        ),
    ] = None,
    user_units: UserUnits = True,
    json: AsJson = False,
) -> None:
    """Write one HTML page about saved runs: regret, bounds, an episode explorer."""
    from latentmdp.learning.run import load_run
    from latentmdp.report import write_report
    from latentmdp.runtime.files import check_writable

    started = time.perf_counter()
    if phases < 1:
        raise typer.BadParameter(f"--phases must be at least 1; it is {phases}")
    if plan is not None and not plan > 0:
        raise typer.BadParameter("--plan must be above 0 seconds")
    check_writable(out)
    folders = places(runs)
    what = f"{len(folders)} run{'s' * (len(folders) > 1)}"
    with working(f"reading {what}") as say:
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
    """Folders of runs in these places, in order; each once."""
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


def _plans(runs: "list[Run]", seconds: float | None, say: Say) -> Any:
    if seconds is None:
        return None
    from latentmdp.planning.plan import plan_whole

    found = []
    for name in ("history", "markov"):
        say(f"planning, {name} class, at most {seconds:g} s")
        found.append(plan_whole(runs[0].model, name, time_limit=seconds))
    return found


def _audits(runs: "list[Run]", wanted: bool, say: Say) -> Any:
    if not wanted:
        return None
    from latentmdp.report.groups import distinct_models, group_runs
    from latentmdp.theory.auditing.audit import audit

    found = {}
    for group in group_runs(runs, distinct_models(runs)[1]):
        say(f"auditing {group.label}")
        found[group.label] = audit(runs[group.runs[0]])
    return found
