"""All planning methods on one model, and the two numbers that say what would help."""

import time
from dataclasses import dataclass
from typing import Any

from latentmdp.evaluation.evaluate import evaluate
from latentmdp.model.horizons import needs_finite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning import baselines
from latentmdp.planning.plan import Plan, plan_whole, relative_gap

BASELINES = (("weight-select-update", "wsu"), ("mean model", "mean"), ("QMDP", "qmdp"))


@dataclass(frozen=True)
class MethodResult:
    """One method: what its policy earns and how far that is from its class's best bound."""

    name: str
    policy_class: str
    value: float
    gap: float | None  # to the best upper bound of the class; None for a bound, not a policy
    seconds: float
    status: str

    @property
    def shown_gap(self) -> str:
        """For tables."""
        return "" if self.gap is None else f"{self.gap:.3%}"

    def facts(self, sign: float) -> dict[str, Any]:
        """For JSON."""
        return {
            "method": self.name, "class": self.policy_class, "value": sign * self.value,
            "gap": self.gap, "seconds": self.seconds, "status": self.status,
        }  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Rows, and brackets `(lower, upper)` on what memory and information are worth."""

    rows: tuple[MethodResult, ...]
    value_of_memory: tuple[float, float]
    value_of_information: tuple[float, float]


def compare_methods(model: LatentMDP, **options: Any) -> Comparison:
    """Run every baseline and both planners. The limits hold for each planner by itself."""
    needs_finite(model, "--compare, whose baselines choose step by step,")
    evaluate(model, baselines.policy("wsu", model))  # loads kernels; no row's time includes that
    rows: list[tuple[str, str, float, float, str]] = []
    for name, key in BASELINES:
        begun = time.perf_counter()
        policy = baselines.policy(key, model)
        value = evaluate(model, policy).value
        rows.append((name, "markov", value, time.perf_counter() - begun, "baseline"))
    markov = plan_whole(model, "markov", **options)
    history = plan_whole(model, "history", warm=markov.policy, **options)
    begun = time.perf_counter()
    known = baselines.knowing_the_context(model)
    known_seconds = time.perf_counter() - begun
    for found in (markov, history):
        seconds = found.history[-1][0]  # compiling left out
        rows.append((found.method, found.policy_class, found.lower, seconds, found.status))
    upper = {"markov": min(markov.upper, history.upper), "history": min(history.upper, known)}
    table = [
        MethodResult(name, of, value, relative_gap(value, max(value, upper[of])), seconds, status)
        for name, of, value, seconds, status in rows
    ]
    table.append(MethodResult("knowing the context", "bound", known, None, known_seconds, "exact"))
    return Comparison(
        tuple(table),
        _difference(history, markov.lower, upper["markov"]),
        (max(0.0, known - upper["history"]), max(0.0, known - history.lower)),
    )


def _difference(history: Plan, low: float, high: float) -> tuple[float, float]:
    """Bounds on the history optimum minus an optimum in `[low, high]`; never below 0."""
    return max(0.0, history.lower - high), max(0.0, history.upper - low)
