"""`latentmdp audit RUN`: every lemma of the upper bound's proof, checked on a saved run."""

import shutil

import typer

from latentmdp.commands import options as option
from latentmdp.commands.output import Progress, on_terminal, print_json, print_text


def audit_command(run: option.Run, json: option.AsJson = False) -> None:
    """Audit a run: what each lemma promises, what was measured, and which held.

    Exits with 1 if a verdict is `bug`: then no assumption explains what was measured, and the
    program (or a new algorithm) is wrong. The proof is about rewards in [0, 1], and so is the
    audit: for a run with --normalize all numbers are in normalised units.
    """
    from latentmdp.learning.run import load_run
    from latentmdp.theory.auditing.audit import audit

    found = load_run(run)
    with Progress("repeating the run and auditing it"):
        report = audit(found)
    if json:
        print_json(report.to_dict() | ({"units": found.units} if found.units else {}))
    else:
        print_text(report.text(shutil.get_terminal_size().columns if on_terminal() else 80))
    if report.bugs:
        raise typer.Exit(1)
