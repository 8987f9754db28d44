"""`latentmdp report RUN ...`: one HTML page about saved runs."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentmdp.commands._common import AsJson, print_json, print_text
from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from latentmdp.learning.run import Run


def report_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folders that `learn --out` wrote, or folders of such folders.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page to write.")] = Path(
        "report.html"
    ),
    title: Annotated[
        str | None, typer.Option("--title", help="The page's heading.", show_default=False)
    ] = None,
    phases: Annotated[
        int,
        typer.Option(
            "--phases",
            metavar="N",
            min=1,
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
    json: AsJson = False,
) -> None:
    """Write one HTML page about saved runs: regret, bounds, an episode explorer."""
    from latentmdp.learning.run import load_run
    from latentmdp.report import write_report

    started = time.perf_counter()
    if plan is not None and not plan > 0:
        raise typer.BadParameter("--plan must be above 0 seconds")
    folders = run_folders(runs)
    found = [load_run(place) for place in folders] if audit or plan is not None else []
    page = write_report(
        folders, out, plan=_plans(found, plan), audit=_audits(found) if audit else None,
        title=title, phases=phases,
    )  # fmt: skip
    size = page.stat().st_size
    if json:
        seconds = time.perf_counter() - started
        print_json({"report": page, "runs": len(folders), "bytes": size, "seconds": seconds})
    else:
        noun = "run" if len(folders) == 1 else "runs"
        print_text(f"{page}: {len(folders)} {noun}, {size / 1e6:.2f} MB; open it in a browser")


def run_folders(places: list[Path]) -> list[Path]:
    """The folders of runs in these places, in order; each once."""
    found: dict[Path, Path] = {}
    for place in places:
        if not place.is_dir():
            raise ModelError(f"{place} must be a run's folder; there is no such folder")
        here = [file.parent for file in place.rglob("run.npz")]
        if not here:
            raise ModelError(f"{place} must hold a run; no run.npz is in it or below")
        for folder in sorted(here, key=lambda p: [(len(part), part) for part in p.parts]):
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def _plans(runs: "list[Run]", seconds: float | None) -> Any:
    if seconds is None:
        return None
    from latentmdp.planning import plan

    return [plan(runs[0].model, name, time_limit=seconds) for name in ("history", "markov")]


def _audits(runs: "list[Run]") -> Any:
    from latentmdp.report.groups import distinct_models, group_runs
    from latentmdp.theory.audit import audit

    groups = group_runs(runs, distinct_models(runs)[1])
    return {group.label: audit(runs[group.runs[0]]) for group in groups}
