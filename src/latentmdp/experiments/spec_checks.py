"""Values of a study's file that are refused before any work, each with its line."""

import math
from typing import Any

from latentmdp.experiments.lines import Document
from latentmdp.experiments.run_spec import Plain, is_number

Where = tuple[str | int, ...]

COLUMNS = (
    "id", "model", "task", "algorithm", "policy_class", "episodes", "delta", "bonus_scale",
    "simulator", "ties", "seed", "learner", "regret", "regret_upper", "optimal_lower",
    "optimal_upper", "final_value", "updates", "kept", "audit_held", "seconds", "seconds_planning",
    "seconds_simulation", "seconds_optimal", "units",
)  # fmt: skip
"""Columns of a learner's run: no key of a model that is swept may have their names."""
TASK_COLUMNS = ("id", "task", "seed", "stream", "learner", "seconds", "units")
"""The same for tasks, whose own arguments may have any other name."""


def check_plain(document: Document, value: Any, where: Where = ()) -> None:
    """Refuse numbers that are not finite, and dates: no id could be made of them."""
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
    """Refuse options of a model that are of another kind than they must be."""
    for name in ("observe_rewards", "normalize", "unroll"):
        if not isinstance(model.get(name, True), bool):
            text = f"{name} must be true or false; it is {model[name]!r}"
            raise document.refusal((*where, name), text)
    horizon, discount = model.get("horizon", 1), model.get("discount", 1)
    if not (is_number(horizon) and horizon >= 1 and horizon == int(horizon)):
        text = f"horizon must be a whole number of at least 1; it is {horizon!r}"
        raise document.refusal((*where, "horizon"), text)
    if not (is_number(discount) and 0 < discount <= 1):
        text = f"discount must be above 0 and at most 1; it is {discount!r}"
        raise document.refusal((*where, "discount"), text)
