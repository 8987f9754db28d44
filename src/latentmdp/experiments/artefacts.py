"""What is stored of a finished run: its numbers, its curve, and files in the study's folder."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.experiments.store import TroubleError
from latentmdp.experiments.study_run import Plain
from latentmdp.formats.policy import save_policy_npz
from latentmdp.learning.run import Run
from latentmdp.runtime.files import write_atomically
from latentmdp.runtime.strict_json import plain, write_json
from latentmdp.theory.auditing.audit import audit

CURVE_POINTS = 100  # of a stored curve, evenly spaced on a logarithmic axis
RESULTS = (
    "regret", "regret_upper", "optimal_lower", "optimal_upper", "final_value", "updates", "kept",
    "seconds_planning", "seconds_simulation", "seconds_optimal",
)  # fmt: skip
"""Columns of a learner's run."""


@contextmanager
def writing(task: Plain) -> Iterator[Path]:
    """The study's folder; an error inside is a `TroubleError`: the run itself is not at fault."""
    folder = Path(task["folder"])
    if not folder.is_dir():
        raise TroubleError(
            f"{folder} must be a folder that the worker on {platform.node()} can see, to save "
            "files there; it is not"
        )
    try:
        yield folder
    except (OSError, ModelError) as error:
        raise TroubleError(str(error)) from None


def curve(run: Run) -> list[list[float]]:
    """Cumulative regret after 1, ..., K episodes: exact, at points that all runs of K share."""
    points = np.unique(np.geomspace(1, run.episodes, CURVE_POINTS).round())
    return [points.tolist(), run.regret_at(points).tolist()]


def numbers(run: Run) -> Plain:
    """The columns of a run."""
    summary = run.summary()
    return {name: summary[name] for name in RESULTS}


def keep(run: Run, task: Plain) -> Plain:
    """Write the files to keep of a run into its folder; returns the columns of its audit."""
    report = audit(run) if "audits" in task["keep"] else None
    with writing(task) as folder:
        place = folder / "runs" / task["files"]
        place.mkdir(parents=True, exist_ok=True)
        if "runs" in task["keep"]:
            run.save(place, overwrite=True)
        if "tables" in task["keep"]:
            write_atomically(place / "table.csv", lambda file: run.table.to_csv(file, index=False))
        if "policies" in task["keep"]:
            save_policy_npz(run.policy, place / "policy.npz")
        if report is not None:
            write_json(place / "audit.json", plain(report.to_dict()))
    return {} if report is None else {"audit_held": report.held}
