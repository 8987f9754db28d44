"""Optimistic planning: the oracle inside both of the paper's algorithms."""

from typing import TYPE_CHECKING, Any

_HOME = {
    "Bonus": "confidence",
    "Evidence": "confidence",
    "Interval": "confidence",
    "Setting": "confidence",
    "register": "confidence",
    "rule_named": "confidence",
    "Known": "model",
    "OptimisticModel": "model",
    "OptimisticPlan": "plan",
    "make_planner": "plan",
    "optimistic_plan": "plan",
}

__all__ = [*_HOME]  # noqa: PLE0604

if TYPE_CHECKING:
    from latentmdp.optimism.confidence import (
        Bonus,
        Evidence,
        Interval,
        Setting,
        register,
        rule_named,
    )
    from latentmdp.optimism.model import Known, OptimisticModel
    from latentmdp.optimism.plan import OptimisticPlan, make_planner, optimistic_plan


def __getattr__(name: str) -> Any:
    if name in _HOME:
        from importlib import import_module

        return getattr(import_module(f"latentmdp.optimism.{_HOME[name]}"), name)
    raise AttributeError(f"module 'latentmdp.optimism' has no attribute {name!r}")
