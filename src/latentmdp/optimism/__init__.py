"""Optimistic planning: the oracle inside both of the paper's algorithms."""

from latentmdp.optimism.confidence import (
    Bonus,
    Evidence,
    Interval,
    Setting,
    register,
    rule_named,
)
from latentmdp.optimism.given import Known
from latentmdp.optimism.model import OptimisticModel
from latentmdp.optimism.optimistic_plan import OptimisticPlan, make_planner, optimistic_plan
from latentmdp.optimism.pessimistic import PessimisticPlan, pessimistic_plan, pessimistic_value

__all__ = [
    "Bonus",
    "Evidence",
    "Interval",
    "Known",
    "OptimisticModel",
    "OptimisticPlan",
    "PessimisticPlan",
    "Setting",
    "make_planner",
    "optimistic_plan",
    "pessimistic_plan",
    "pessimistic_value",
    "register",
    "rule_named",
]
