"""`latentmdp audit RUN`: every lemma of the upper bound's proof, checked on a saved run."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from latentmdp.commands.common import AsJson, some_path
from latentmdp.commands.output import on_terminal, print_json, print_text, working


def audit_command(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            parser=some_path,
            show_default=False,
            help="A folder that `latentmdp learn --out` wrote.",
        ),
    ],
    json: AsJson = False,
) -> None:
    """Audit a run: what each lemma promises, what was measured, and which held.

    Exits with 1 if a verdict is `bug`: then nothing allows what was measured, and the program (or a
    new algorithm) does not do what it says. The proof is about rewards in [0, 1], and so is the
    audit: of a run with --normalize all numbers are in normalised units.
    """
    from latentmdp.learning.run import load_run
    from latentmdp.theory.auditing.audit import audit

    found = load_run(run)
    with working("playing the run again and auditing it"):
        report = audit(found)
    if json:
        print_json(report.to_dict() | ({"units": found.units} if found.units else {}))
    else:
        print_text(report.text(shutil.get_terminal_size().columns if on_terminal() else 80))
    if report.bugs:
        raise typer.Exit(1)
