"""`latentmdp study ...`: many runs from one file, done once each, kept in a store."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentmdp.commands.common import AsJson, UserUnits, some_path, whole_number
from latentmdp.commands.output import ShownUnits, print_json, print_table, print_text
from latentmdp.errors import ModelError
from latentmdp.model.units import NORMALISED

if TYPE_CHECKING:
    import pandas as pd

    from latentmdp.experiments.study import Study

FAILED = 1  # the exit code of `study run` where a run has failed
MOST_LISTED = 20  # runs that --dry-run and status list

study_app = typer.Typer(
    help="Run, look at and tabulate a study: a grid of runs in one TOML file.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

StudyArgument = Annotated[
    Path,
    typer.Argument(
        metavar="STUDY.toml", parser=some_path, help="The study's file.", show_default=False
    ),
]
Only = Annotated[
    str | None,
    typer.Option("--only", metavar="GLOB", help="Runs whose id fits, like '*mvp*'."),
]


@study_app.command("run")
def run_command(
    study: StudyArgument,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            parser=whole_number,
            help="Worker processes (default: one per core).",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option("--engine", help="processes, or dask for a cluster.")
    ] = "processes",
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            help="Dask's scheduler, like tcp://host:8786, or its scheduler file; implies "
            "--engine dask.",
            show_default=False,
        ),
    ] = None,
    only: Only = None,
    retry: Annotated[bool, typer.Option("--retry", help="Also runs that have failed.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for another process that runs this study.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would run, and how long it may take.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Do all runs that are not done yet. Stop it any way you like, and start it again."""
    from latentmdp.experiments.live import shown
    from latentmdp.experiments.study import Study

    found = Study.load(study)
    if dry_run:
        _show_plan(found, only, retry, jobs, json)
        return
    before = _fitting(found, only)
    failed = 0 if retry else before["failed"]
    try:
        with shown(before["runs"], before["done"], failed, quiet=json) as listener:
            found.run(
                jobs, "dask" if scheduler else engine, scheduler, only=only, retry=retry,
                wait=wait, listener=listener, say=lambda text: print(text, file=sys.stderr),
            )  # fmt: skip
    except KeyboardInterrupt:
        after = found.status(only)
        print(
            f"{after['done']} of {after['runs']} runs are done and kept; the same command goes on",
            file=sys.stderr,
        )
        raise
    after = found.status(only)
    _report(found, after, json)
    if after["failed"]:
        raise typer.Exit(FAILED)


@study_app.command("status")
def status_command(study: StudyArgument, only: Only = None, json: AsJson = False) -> None:
    """How far a study is, and what has failed; also while it runs."""
    from latentmdp.experiments.study import Study

    found = Study.load(study)
    _report(found, _fitting(found, only), json)


@study_app.command("table")
def table_command(
    study: StudyArgument,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV.")] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="As Parquet (needs --out).")] = False,
    curves: Annotated[
        bool, typer.Option("--curves", help="Regret by episode, in long form.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", parser=some_path, help="Write it there.", show_default=False
        ),
    ] = None,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option(
            "--spreadsheet-safe",
            help="Put an apostrophe before text that a spreadsheet would take for a formula.",
        ),
    ] = False,
    user_units: UserUnits = True,
    json: AsJson = False,
) -> None:
    """One row per finished run; also while it runs."""
    from latentmdp.experiments.study import Study

    if csv + parquet + json > 1:
        raise typer.BadParameter("give one of --csv, --parquet and --json")
    if parquet and out is None:
        raise typer.BadParameter("--parquet needs --out FILE")
    if out is not None and not (csv or parquet):
        raise typer.BadParameter("--out needs --csv or --parquet")
    if spreadsheet_safe and not csv:
        raise typer.BadParameter("--spreadsheet-safe needs --csv")
    found = Study.load(study)
    units = "user" if user_units else "model"
    table = found.curves(units) if curves else found.table(units)
    table = _without_formulas(table) if spreadsheet_safe else table
    if json:
        print_json({"runs": table.to_dict("records")})
    elif csv or parquet:
        _write(table, parquet, out)
    elif not len(table):
        print_text("no run is finished yet")
    else:
        _print_runs(table)


@study_app.command("report")
def report_command(
    study: StudyArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="PAGE", parser=some_path, show_default=False,
            help="The page (default: beside the study, with the ending .html).",
        ),
    ] = None,
    user_units: UserUnits = True,
    json: AsJson = False,
) -> None:  # fmt: skip
    """One page: regret by problem, who beats whom, exponents, all runs; also while it runs."""
    from latentmdp.commands.output import working
    from latentmdp.experiments.study import Study
    from latentmdp.report.study_page import write_study_page

    found = Study.load(study)
    place = study.with_suffix(".html") if out is None else out
    with working("writing the page"):
        status = found.status()
        notes = []
        if status["left"]:
            notes.append(f"{status['left']} of {status['runs']} runs are not done yet")
        units = "user" if user_units else "model"
        table, curves = found.table(units), found.curves(units)
        runs, left_out = found.spec.within_limits(table)
        if len(left_out):
            limits = " or ".join(f"{k} above {most:g}" for k, most in found.spec.limits.items())
            notes.append(f"{len(left_out)} runs with {limits} are left out")
            curves = curves[~curves["id"].isin(left_out["id"])] if len(curves) else curves
        notes += [
            f"failed: {one['id']}: {one['error']}" for one in status["failures"][:MOST_LISTED]
        ]
        notes += [
            f"damaged in the database, not on this page: {one['id']}: {one['error']}"
            for one in status["damaged"][:MOST_LISTED]
        ]
        title = found.spec.title or found.folder.name
        write_study_page(place, runs, curves, title=title, notes=notes, about=found.spec.about)
    if json:
        print_json({"page": place, "runs": status["done"]} | _units(table).facts)
    else:
        print_text(f"{place}: {status['done']} runs")


# ---------------------------------------------------------------------- words


def _fitting(study: "Study", only: str | None) -> dict[str, Any]:
    """The status of the runs whose id fits; a pattern that none fits is a slip."""
    status = study.status(only)
    if not status["runs"]:
        first = next(study.spec.runs()).id
        raise ModelError(f"--only must fit ids of runs, like {first}; {only!r} fits none")
    return status


def _report(study: "Study", status: dict[str, Any], json: bool) -> None:
    if json:
        print_json(status)
        return
    at_work = " (a driver is at work)" if status["running"] else ""
    print_text(
        f"{status['done']} of {status['runs']} runs done, {status['failed']} failed, "
        f"{status['left']} left{at_work}; kept in {status['folder']}"
    )
    if len(status["versions"]) > 1:
        print_text(f"runs of different versions: {'; '.join(status['versions'])}")
    for failure in status["failures"][:MOST_LISTED]:
        print_text(f"failed: {failure['id']}\n    " + failure["error"].replace("\n", "\n    "))
    more = len(status["failures"]) - MOST_LISTED
    if more > 0:
        print_text(f"and {more} more that failed (--json lists all)")
    for damage in status["damaged"][:MOST_LISTED]:
        print_text(f"damaged: {damage['id']}: {damage['error']}")
    more = len(status["damaged"]) - MOST_LISTED
    if more > 0:
        print_text(f"and {more} more that are damaged (--json lists all)")
    if status["failures"] or status["damaged"]:
        print_text("study run --retry tries them again")


def _show_plan(study: "Study", only: str | None, retry: bool, jobs: int | None, json: bool) -> None:
    from latentmdp.experiments.live import in_words

    ids, optima, seconds, known = study.plan(only, retry)
    jobs = jobs or _cores()
    if json:
        print_json({"runs": ids, "optima": optima, "seconds": seconds, "runs_estimated": known})
        return
    for id in ids[:MOST_LISTED]:
        print_text(id)
    if len(ids) > MOST_LISTED:
        print_text(f"and {len(ids) - MOST_LISTED} more")
    print_text(f"{len(ids)} runs to do, and {optima} optima to plan first")
    if known:
        print_text(
            f"about {in_words(seconds / jobs)} with {jobs} jobs, by finished runs like "
            f"{known} of them"
        )
    elif ids:
        print_text("how long it takes is not known: no run like these is finished yet")


def _cores() -> int:
    import os

    return os.cpu_count() or 1


def _write(table: "pd.DataFrame", parquet: bool, out: Path | None) -> None:
    from latentmdp.runtime.files import write_atomically

    if out is None:
        print(table.to_csv(index=False), end="")
    elif parquet:
        try:
            write_atomically(out, lambda file: table.to_parquet(file, index=False))
        except ImportError:
            raise ModelError(
                "Parquet needs the package pyarrow: pip install 'latentmdp[cluster]'"
            ) from None
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"columns of a Parquet file must hold values of one kind ({error}): take --csv"
            ) from None
    else:
        write_atomically(out, lambda file: table.to_csv(file, index=False))


FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet computes


def _without_formulas(table: "pd.DataFrame") -> "pd.DataFrame":
    """Text cells and names of columns as text to a spreadsheet; numbers stay numbers."""

    def guarded(value: Any) -> Any:
        return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value

    return table.map(guarded).rename(columns=guarded)


def _units(table: "pd.DataFrame") -> ShownUnits:
    """Those of the runs whose model is normalised."""
    name = max(table["units"]) if "units" in table else ""
    return ShownUnits(name, NORMALISED)


HIDDEN = ("id", "units", "regret_upper", "optimal_lower", "optimal_upper", "kept",
          "seconds_planning", "seconds_simulation", "seconds_optimal")  # fmt: skip


def _print_runs(table: "pd.DataFrame") -> None:
    """What names the runs, where it differs, and their results; regret with its bracket."""
    from latentmdp.experiments.run_spec import bracket_of

    brackets = []
    if "regret" in table and table["regret"].dtype.kind in "if":
        brackets = [bracket_of(row) for row in table.to_dict("records")]
        table = table.assign(regret=[bracket.text() for bracket in brackets])
    shown = table.drop(columns=[name for name in HIDDEN if name in table])
    named = shown.columns.get_loc("seed") if "seed" in shown else 0
    constant = [
        name for name in shown.columns[:named]
        if len(table) > 1 and shown[name].nunique(dropna=False) == 1
    ]  # fmt: skip
    for name in constant:
        print_text(f"{name.replace('_', ' ')}: {shown[name].iloc[0]}")
    shown = shown.drop(columns=constant)
    rows = [tuple(row) for row in shown.itertuples(index=False)]
    print_table([name.replace("_", " ") for name in shown.columns], rows)
    if any(bracket.wide for bracket in brackets):
        print_text("Some brackets are wider than a tenth of the regret: their optima are open.")
    _units(table).say("regret and values of normalised models")
