"""`latentmdp report RUN_OR_STUDY ...`: one HTML page about saved runs and studies."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentmdp.commands._common import AsJson, UserUnits, some_path, whole_number
from latentmdp.commands._output import Say, print_json, print_text, working
from latentmdp.errors import ModelError
from latentmdp.units import NORMALISED, USER

if TYPE_CHECKING:
    from latentmdp.learning.run import Run


def report_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_OR_STUDY...",
            help="Folders that `learn --out` wrote, folders with a study.json, or folders of them.",
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
    """Write one HTML page about saved runs or studies: regret, bounds, an episode explorer."""
    from latentmdp.formats.files import check_writable
    from latentmdp.learning.run import load_run
    from latentmdp.report import write_report
    from latentmdp.report.study import load_study

    started = time.perf_counter()
    if phases < 1:
        raise typer.BadParameter(f"--phases must be at least 1; it is {phases}")
    if plan is not None and not plan > 0:
        raise typer.BadParameter("--plan must be above 0 seconds")
    check_writable(out)
    folders, files = places(runs)
    if (plan is not None or audit) and not folders:
        raise ModelError("--plan and --audit need a run; only studies were given")
    studies = [load_study(file) for file in files]
    with working(f"reading {_counted(folders, studies)}") as say:
        found = [load_run(place) for place in folders]
        page = write_report(
            found, out, plan=_plans(found, plan, say), audit=_audits(found, audit, say),
            study=studies, title=title, phases=phases, progress=say,
            units="user" if user_units else "model",
        )  # fmt: skip
    size = page.stat().st_size
    if json:
        seconds = time.perf_counter() - started
        facts = {"report": page, "runs": len(folders), "studies": len(studies)}
        units = {"units": USER if user_units else NORMALISED} if any(r.units for r in found) else {}
        print_json(facts | {"bytes": size, "seconds": seconds} | units)
    else:
        what = _counted(folders, studies)
        print_text(f"{page}: {what}, {size / 1e6:.2f} MB; open it in a browser")


def _counted(folders: list[Path], studies: list[Any]) -> str:
    """`3 runs and 1 study`."""
    parts = []
    if folders:
        parts.append(f"{len(folders)} run{'s' * (len(folders) > 1)}")
    if studies:
        parts.append("1 study" if len(studies) == 1 else f"{len(studies)} studies")
    return " and ".join(parts)


def places(given: list[Path]) -> tuple[list[Path], list[Path]]:
    """Folders of runs and files of studies in these places, in order; each once."""
    runs: dict[Path, Path] = {}
    studies: dict[Path, Path] = {}
    for place in given:
        if place.is_file() and place.suffix == ".json":
            studies.setdefault(place.resolve(), place)
            continue
        if not place.is_dir():
            raise ModelError(f"{place} must be a folder of a run or a study; there is none")
        folders = [file.parent for file in place.rglob("run.npz")]
        files = sorted(place.rglob("study.json"))
        if not folders and not files:
            raise ModelError(
                f"{place} must hold a run or a study; no run.npz or study.json is in it or below"
            )
        for folder in sorted(folders, key=lambda p: [(len(part), part) for part in p.parts]):
            runs.setdefault(folder.resolve(), folder)
        for file in files:
            studies.setdefault(file.resolve(), file)
    return list(runs.values()), list(studies.values())


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
    from latentmdp.theory.audit import audit

    found = {}
    for group in group_runs(runs, distinct_models(runs)[1]):
        say(f"auditing {group.label}")
        found[group.label] = audit(runs[group.runs[0]])
    return found
