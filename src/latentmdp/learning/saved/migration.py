"""States of learners and runs that an earlier version has saved, as this one says the same.

What is not there, or not what it should be, is left as it is: the checks refuse it by name.
"""

from __future__ import annotations

from typing import Any

from latentmdp.errors import ModelError

OLDEST = 6  # format; older ones are refused

SETTINGS = {"kick_gain": "perturb_gain", "tilt": "weight_spread", "jolted": "random_share"}
SOLVER = {
    "patience": "backoffs", "seen": "visits_at_search", "kicks": "perturb_stream",
    "rule": "rule_stream", "looked": "visits_at_solve", "pending": "changed_pairs",
    "answered": "has_result",
}  # fmt: skip


def migrate(state: dict[str, Any], kind: str) -> None:
    """From format 6, in place: other words for the same, and the tie rule `ladder` is gone."""
    learner = state.get("learner") if kind == "run" else state
    if not isinstance(learner, dict):
        return
    choice = learner.get("choice")
    if isinstance(choice, dict) and choice.get("ties") == "ladder":
        raise ModelError(
            "must break ties by a rule that this version has; it was saved with 'ladder', which "
            "has been removed: go on with the version that saved it, or start anew"
        )
    _rename(learner.get("settings"), SETTINGS, gone="ladder")
    solver = learner.get("solver")
    _rename(solver, SOLVER, gone="rung")
    if isinstance(solver, dict):
        _rename(solver.get("markov"), SOLVER, gone="rung")


def _rename(found: Any, names: dict[str, str], gone: str) -> None:
    if isinstance(found, dict):
        found.pop(gone, None)
        for old in names.keys() & found.keys():
            found[names[old]] = found.pop(old)
