"""Optimistic planning: the oracle inside both of the paper's algorithms."""

import warnings
from typing import Any

from latentmdp.optimism.confidence import (
    Bonus,
    BonusConstants,
    Evidence,
    Interval,
    register,
    rule_named,
)
from latentmdp.optimism.given import Given
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.optimistic_plan import OptimisticPlan, make_planner, optimistic_plan
from latentmdp.optimism.pessimistic import PessimisticPlan, pessimistic_plan, pessimistic_value
from latentmdp.optimism.settings import SearchEffort

__all__ = [
    "Bonus",
    "BonusConstants",
    "ConfidenceModel",
    "Evidence",
    "Given",
    "Interval",
    "OptimisticPlan",
    "PessimisticPlan",
    "SearchEffort",
    "make_planner",
    "optimistic_plan",
    "pessimistic_plan",
    "pessimistic_value",
    "register",
    "rule_named",
]

_FORMER = {"Known": Given, "OptimisticModel": ConfidenceModel, "Setting": BonusConstants}


def __getattr__(name: str) -> Any:
    if name not in _FORMER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = _FORMER[name]
    warnings.warn(f"{name} is now {new.__name__}", DeprecationWarning, stacklevel=2)
    globals()[name] = new  # said once
    return new
