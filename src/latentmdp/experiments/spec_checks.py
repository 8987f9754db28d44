"""Checks of values in a study's file, before any work; errors name the line."""

import math
from typing import Any

from latentmdp.experiments.lines import Document
from latentmdp.experiments.study_run import Plain, is_number

Where = tuple[str | int, ...]

COLUMNS = (
    "id", "model", "task", "algorithm", "policy_class", "episodes", "delta", "bonus_scale",
    "simulator", "ties", "seed", "learner", "regret", "regret_upper", "optimal_lower",
    "optimal_upper", "final_value", "updates", "kept", "audit_held", "seconds", "seconds_planning",
    "seconds_simulation", "seconds_optimal", "units",
)  # fmt: skip
"""Columns of a learner's run; a swept key must have another name."""
TASK_COLUMNS = ("id", "task", "seed", "stream", "learner", "seconds", "units")
"""Columns of a task; a swept key must have another name."""


def check_plain(document: Document, value: Any, where: Where = ()) -> None:
    """Refuse dates and numbers that are not finite: ids cannot hold them."""
    if isinstance(value, dict):
        for key, one in value.items():
            check_plain(document, one, (*where, key))
    elif isinstance(value, list):
        for i, one in enumerate(value):
            check_plain(document, one, (*where, i))
    elif isinstance(value, (str, int)) or (is_number(value) and math.isfinite(value)):
        return
    else:
        name = next((part for part in reversed(where) if isinstance(part, str)), "a value")
        raise document.refusal(where, f"{name} must be finite numbers, text or true or false; "
                               f"it has {value!r}")  # fmt: skip


def check_model_options(document: Document, model: Plain, where: Where) -> None:
    """Refuse options of a model with values of a wrong kind."""
    for name in ("observe_rewards", "normalize", "unroll"):
        found = model.get(name, True)
        text = f"{name} must be true or false; it is {found!r}"
        document.require(isinstance(found, bool), (*where, name), text)
    horizon, discount = model.get("horizon", 1), model.get("discount", 1)
    right = is_number(horizon) and horizon >= 1 and horizon == int(horizon)
    text = f"horizon must be a whole number of at least 1; it is {horizon!r}"
    document.require(right, (*where, "horizon"), text)
    right = is_number(discount) and 0 < discount <= 1
    text = f"discount must be above 0 and at most 1; it is {discount!r}"
    document.require(right, (*where, "discount"), text)
