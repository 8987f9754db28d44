"""Optimistic planning: the oracle inside both of the paper's algorithms."""

from latentmdp.optimism.confidence import (
    Bonus,
    Evidence,
    Interval,
    Setting,
    register,
    rule_named,
)
from latentmdp.optimism.known import Known
from latentmdp.optimism.model import OptimisticModel
from latentmdp.optimism.pessimistic import PessimisticPlan, pessimistic_plan, pessimistic_value
from latentmdp.optimism.plan import OptimisticPlan, make_planner, optimistic_plan

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
