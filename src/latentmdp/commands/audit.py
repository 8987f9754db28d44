"""`latentmdp audit RUN`: every lemma of the upper bound's proof, checked on a saved run."""

from pathlib import Path
from typing import Annotated

import typer

from latentmdp.commands._common import AsJson, print_json, print_text


def audit_command(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", show_default=False, help="A folder that `latentmdp learn --out` wrote."
        ),
    ],
    json: AsJson = False,
) -> None:
    """Audit a run: what each lemma promises, what was measured, and which held."""
    from latentmdp.learning.run import load_run
    from latentmdp.theory.audit import audit

    report = audit(load_run(run))
    if json:
        print_json(report.to_dict())
    else:
        print_text(str(report))
