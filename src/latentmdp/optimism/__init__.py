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
from latentmdp.optimism.plan import OptimisticPlan, make_planner, optimistic_plan

__all__ = [
    "Bonus",
    "Evidence",
    "Interval",
    "Known",
    "OptimisticModel",
    "OptimisticPlan",
    "Setting",
    "make_planner",
    "optimistic_plan",
    "register",
    "rule_named",
]
