"""`latentmdp study ...`: many runs described by one file, each done once and stored."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentmdp.commands import options as option
from latentmdp.commands.common import some_path
from latentmdp.commands.output import ShownUnits, print_json, print_table, print_text
from latentmdp.errors import ModelError
from latentmdp.model.units import NORMALISED

if TYPE_CHECKING:
    import pandas as pd

    from latentmdp.experiments.study import Study

FAILED = 1  # exit code of `study run` if a run has failed
MOST_LISTED = 20  # runs that --dry-run and status list

study_app = typer.Typer(
    help="Run, look at and tabulate a study: a grid of runs in one TOML file.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

StudyArgument = Annotated[
    Path, option.argument("STUDY.toml", "The file of the study.", parser=some_path)
]
Only = Annotated[
    str | None, option.new("--only GLOB", "Only the runs whose id matches, such as '*mvp*'.")
]


@study_app.command("run")
def run_command(
    study: StudyArgument,
    jobs: option.Jobs = None,
    engine: Annotated[
        str, option.new("--engine NAME", "processes, or dask for a cluster.")
    ] = "processes",
    scheduler: Annotated[
        str | None,
        option.new(
            "--scheduler ADDRESS",
            "Address of the Dask scheduler, such as tcp://host:8786, or its scheduler file; "
            "implies --engine dask.",
        ),
    ] = None,
    only: Only = None,
    retry: Annotated[
        bool, option.new("--retry", "Also repeat the runs that have failed or are damaged.")
    ] = False,
    wait: Annotated[
        bool, option.new("--wait", "Wait until no other process runs this study.")
    ] = False,
    dry_run: Annotated[
        bool, option.new("--dry-run", "List the runs that are left, and estimate their time.")
    ] = False,
    json: option.AsJson = False,
) -> None:
    """Do all runs that are not done yet. Interrupt it at any time; the same command continues."""
    from latentmdp.experiments.live import shown
    from latentmdp.experiments.study import Study

    found = Study.load(study)
    if dry_run:
        _show_plan(found, only, retry, jobs, json)
        return
    before = _matching(found, only)
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
            f"{after['done']} of {after['runs']} runs are done and saved; repeat the command to "
            "continue",
            file=sys.stderr,
        )
        raise
    after = found.status(only)
    _report(found, after, json)
    if after["failed"]:
        raise typer.Exit(FAILED)


@study_app.command("status")
def status_command(study: StudyArgument, only: Only = None, json: option.AsJson = False) -> None:
    """Show how many runs are done, and which have failed; also while the study runs."""
    from latentmdp.experiments.study import Study

    found = Study.load(study)
    _report(found, _matching(found, only), json)


@study_app.command("table")
def table_command(
    study: StudyArgument,
    csv: Annotated[bool, option.new("--csv", "Write CSV.")] = False,
    parquet: Annotated[bool, option.new("--parquet", "Write Parquet (needs --out).")] = False,
    curves: Annotated[bool, option.new("--curves", "The regret by episode, in long form.")] = False,
    out: Annotated[Path | None, option.path("--out FILE", "Write the table to this file.")] = None,
    spreadsheet_safe: Annotated[
        bool,
        option.new(
            "--spreadsheet-safe",
            "Put an apostrophe before text that a spreadsheet would read as a formula.",
        ),
    ] = False,
    user_units: option.UserUnits = True,
    json: option.AsJson = False,
) -> None:
    """Print a table with one row for each finished run; also while the study runs."""
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
        Path | None, option.path("--out FILE", "The page (default: STUDY.html beside the study).")
    ] = None,
    user_units: option.UserUnits = True,
    json: option.AsJson = False,
) -> None:
    """Write one page: regret by problem, comparisons of learners, exponents, all runs."""
    from latentmdp.commands.output import Progress
    from latentmdp.experiments.study import Study
    from latentmdp.report.study_page import write_study_page

    found = Study.load(study)
    place = study.with_suffix(".html") if out is None else out
    with Progress("writing the page"):
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


def _matching(study: "Study", only: str | None) -> dict[str, Any]:
    """The status of the runs whose id matches; there must be one."""
    status = study.status(only)
    if not status["runs"]:
        first = next(study.spec.runs()).id
        raise ModelError(f"--only must match ids of runs, such as {first}; {only!r} matches none")
    return status


def _report(study: "Study", status: dict[str, Any], json: bool) -> None:
    if json:
        print_json(status)
        return
    from latentmdp.experiments.live import in_words

    at_work = " (the study is running)" if status["running"] else ""
    print_text(
        f"{status['done']} of {status['runs']} runs done, {status['failed']} failed, "
        f"{status['left']} left{at_work}; saved in {status['folder']}"
    )
    for task in status["under_way"][:MOST_LISTED]:
        print_text(
            f"under way: {task['id']} for {in_words(task['seconds'])} ({task['worker']}); "
            f"last report {in_words(task['silent_seconds'])} ago: {task['progress']}"
        )
    if (more := len(status["under_way"]) - MOST_LISTED) > 0:
        print_text(f"and {more} more under way (--json lists all)")
    if len(status["versions"]) > 1:
        print_text(f"runs of different versions: {'; '.join(status['versions'])}")
    for name, word in (("failures", "failed"), ("damaged", "damaged")):
        for one in status[name][:MOST_LISTED]:
            print_text(f"{word}: {one['id']}\n    " + one["error"].replace("\n", "\n    "))
        if (more := len(status[name]) - MOST_LISTED) > 0:
            print_text(f"and {more} more {word} (--json lists all)")
    if status["failures"] or status["damaged"]:
        print_text("study run --retry repeats them")


def _show_plan(study: "Study", only: str | None, retry: bool, jobs: int | None, json: bool) -> None:
    from latentmdp.experiments.live import in_words

    ids, optima, seconds, known = study.plan(only, retry)
    jobs = jobs or os.cpu_count() or 1
    if json:
        print_json({"runs": ids, "optima": optima, "seconds": seconds, "runs_estimated": known})
        return
    for id in ids[:MOST_LISTED]:
        print_text(id)
    if len(ids) > MOST_LISTED:
        print_text(f"and {len(ids) - MOST_LISTED} more")
    print_text(f"{len(ids)} runs left, and {optima} optima to plan first")
    if known:
        print_text(
            f"about {in_words(seconds / jobs)} with {jobs} jobs, estimated from finished runs like "
            f"{known} of them"
        )
    elif ids:
        print_text("no estimate of the time: no run like these is finished yet")


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
                f"columns of a Parquet file must hold values of one kind ({error}): use --csv"
            ) from None
    else:
        write_atomically(out, lambda file: table.to_csv(file, index=False))


FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet computes a cell that begins so


def _without_formulas(table: "pd.DataFrame") -> "pd.DataFrame":
    """The table with an apostrophe before text that a spreadsheet would compute."""

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
    """The columns that name the runs, if they differ, and the results; regret with its bounds."""
    from latentmdp.experiments.study_run import bracket_of

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
        print_text(
            "Some bounds of the regret differ by more than a tenth of it: the optima are open."
        )
    _units(table).say("regret and values of normalised models")
