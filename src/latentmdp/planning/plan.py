"""`plan`: the best policy of a known latent MDP, with proof of how good it is."""

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.evaluation.evaluate import evaluate
from latentmdp.model.either_kind import AnyModel
from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP, replaced
from latentmdp.model.timed import TimedLatentMDP
from latentmdp.model.units import USER
from latentmdp.planning.history.planner import plan_history
from latentmdp.planning.history.safeguard import safeguarded
from latentmdp.planning.infinite.markov import at_least_markov, plan_stationary_markov
from latentmdp.planning.infinite.planner import plan_stationary
from latentmdp.planning.infinite.small_controller import check_max_nodes
from latentmdp.planning.markov.planner import plan_markov
from latentmdp.planning.search_result import Progress, SearchResult
from latentmdp.policy.graph import PolicyGraph, as_policy, check_fits, playable
from latentmdp.policy.policy_class import check_policy_class
from latentmdp.policy.policy_fold import unfold
from latentmdp.runtime.files import memory_budget
from latentmdp.runtime.interrupts import interrupts_raised

if TYPE_CHECKING:
    from latentmdp.advice import Adviser

STATUSES = ("optimal", "gap", "time", "memory", "interrupted", "stalled")


@dataclass(frozen=True)
class Plan:
    """A policy with its certificate: the class's optimum lies between `lower` and `upper`.

    `lower` is the exact value of `policy`. `status`: `optimal` (closed, up to rounding error),
    `gap` (as close as asked), `time` (also for the work limit), `memory`, `interrupted` (Ctrl-C),
    or `stalled` (the method has done all that it does: `ascent` and baselines prove nothing by
    themselves; otherwise what is open is rounding error).
    """

    policy: PolicyGraph
    lower: float
    upper: float
    status: str
    method: str
    policy_class: str
    nodes: int  # of the search
    work: int  # units spent; equal limits on work give equal plans
    seconds: float
    history: tuple[tuple[float, int, float, float], ...]  # (seconds, work, lower, upper)
    model_digest: str = ""  # of the model that it was made for
    unrestricted: float | None = None  # what the policy was worth before `max_nodes` cut it down
    reward_scale: float = 1.0  # and its units: the user's reward is `reward * scale + shift`
    reward_shift: float = 0.0

    @property
    def gap(self) -> float:
        """`(upper - lower) / |upper|`; 0 where they are equal."""
        return relative_gap(self.lower, self.upper)

    @property
    def loss(self) -> float:
        """What `max_nodes` costs, exactly: the value before it was cut down less `lower`."""
        return 0.0 if self.unrestricted is None else self.unrestricted - self.lower

    def in_user_units(self) -> "Plan":
        """The same plan for the model as it was before `normalized()`, in its units."""
        model = self.policy.model
        if model is None:
            raise ModelError("the plan's policy must know its model, as that of plan does")
        if not model.units:
            return self
        lower, upper = model.in_user_units(self.lower), model.in_user_units(self.upper)
        history = [(s, w, *map(model.in_user_units, bounds)) for s, w, *bounds in self.history]
        own = model.denormalized()
        whole = None if self.unrestricted is None else model.in_user_units(self.unrestricted)
        return replace(
            self, policy=self.policy.for_model(own), lower=lower, upper=upper,
            history=tuple(history), model_digest=own.digest, reward_scale=1.0, reward_shift=0.0,
            unrestricted=whole,
        )  # fmt: skip

    def adviser(self, **options: Any) -> "Adviser":
        """What to do step by step, also after people did something else; see `lm.adviser`."""
        from latentmdp.advice import Adviser  # which plans

        if self.policy.model is None:
            raise ModelError(
                "the plan's policy must know its model, as that of plan does; it does not "
                "(lm.adviser(model, plan))"
            )
        return Adviser(self.policy.model, self, **options)

    @property
    def units(self) -> str:
        """`normalised units` where values are not in the units of the rewards that were given."""
        return "" if self.policy.model is None else self.policy.model.units

    def _repr_html_(self) -> str:
        """For notebooks, in a person's own units: the certificate, how bounds came together."""
        from latentmdp.tables import notebook

        shown = self.in_user_units() if self.units else self
        facts = (
            ("class", self.policy_class), ("lower", shown.lower), ("upper", shown.upper),
            ("gap", f"{shown.gap:.3%}"), ("status", self.status), ("method", self.method),
            ("policy", repr(self.policy)), ("units", USER if self.units else "as given"),
        )  # fmt: skip
        seconds, _, lower, upper = zip(*shown.history, strict=True) if self.history else ((),) * 4
        lines = ((notebook.BLUE, lower), (notebook.ORANGE, upper))
        picture = notebook.curves(seconds, lines, "lower and upper bound, seconds")
        return notebook.page("Plan", notebook.facts(facts), picture)

    def __repr__(self) -> str:
        in_units = f" in {self.units}" if self.units else ""
        return (
            f"Plan({self.policy_class}, {self.lower:.6g} <= optimum <= {self.upper:.6g}{in_units}, "
            f"{self.status}, {self.method}, {self.seconds:.2f} s)"
        )


def plan(
    model: AnyModel,
    policy_class: str = "history",
    gap: float | None = 0.01,
    time_limit: float | None = 60.0,
    *,
    method: str = "auto",
    work_limit: int | None = None,
    memory_limit: int | None = None,
    warm: "Plan | PolicyGraph | Any | None" = None,
    progress: Progress | None = None,
    seed: int = 0,
    horizon: float | None = None,
    max_nodes: int | None = None,
) -> Plan:
    """The best policy of a class found until `upper - lower <= gap * |upper|`, or a limit.

    `policy_class`: `history` (all policies; `learn` has `markov` as its default) or `markov` (step
    and state alone). `gap` is relative, from 0 to 1: 0.05 means 5%; `None` closes exactly.
    `method`: `auto`, or one of the class's own (docs/planning_markov.md). `time_limit` in seconds,
    the policy's making and evaluation included; `work_limit` in the planner's units (repeats
    exactly); `memory_limit` in bytes (default: a quarter of the machine's). `warm`: a plan, policy
    or Markov table that the result must not fall behind (for `markov`, one without memory).
    `progress(seconds, work, lower, upper)` is called now and then. Ctrl-C returns the best so far.
    `horizon` in place of the model's own; with `math.inf` the policy is a stationary controller
    (docs/planning_infinite.md), of at most `max_nodes` nodes if that is given.

    >>> from latentmdp import make
    >>> found = plan(make("bandit:arms=2,contexts=2,horizon=3,seed=0"), "markov", gap=None)
    >>> found.status, found.gap < 1e-9
    ('optimal', True)
    """
    begun = time.perf_counter()
    if isinstance(model, TimedLatentMDP):
        options: dict[str, Any] = {"method": method, "work_limit": work_limit}
        options |= {"memory_limit": memory_limit, "progress": progress, "seed": seed, "warm": warm}
        options["max_nodes"] = max_nodes
        timed = model if horizon is None else replaced(model, horizon=horizon)
        return _plan_timed(timed, policy_class, gap, time_limit, options)
    _check_arguments(model, policy_class, gap, time_limit, work_limit, memory_limit, progress, seed)
    if horizon is not None:
        model = replaced(model, horizon=horizon)
    infinite = is_infinite(model.horizon)
    if max_nodes is not None:
        max_nodes = _checked_max_nodes(max_nodes, model, policy_class)
    warm_policy = None if warm is None else as_policy(model, warm, "warm")
    warm_value = -math.inf
    if warm_policy is not None and (policy_class == "history" or warm_policy.is_markov):
        warm_value = evaluate(model, warm_policy).value
    limits: dict[str, Any] = {
        "gap": gap,
        "time_limit": _left(time_limit, time.perf_counter() - begun),
        "work_limit": None if work_limit is None else int(work_limit),
        "memory_limit": _memory(memory_limit),
        "progress": progress,
    }
    found: SearchResult
    every = model.unmasked()  # rows of unavailable actions repeat available ones
    if infinite and policy_class == "history":
        found = plan_stationary(every, method=method, max_nodes=max_nodes, **limits)
        left = _left(time_limit, time.perf_counter() - begun)
        if max_nodes is not None:
            found = at_least_markov(every, found, left, seed)
        else:
            found = safeguarded(every, found, left, limits["memory_limit"], progress, seed)
    elif infinite:
        table = warm_policy.table[0] if warm_policy is not None and warm_policy.is_markov else None
        found = plan_stationary_markov(every, method=method, warm=table, seed=seed, **limits)
    elif policy_class == "markov":
        table = warm_policy.table if warm_policy is not None and warm_policy.is_markov else None
        found = plan_markov(every, method=method, warm=table, seed=seed, **limits)
    else:
        found = plan_history(every, method=method, **limits)
        left = _left(time_limit, time.perf_counter() - begun)
        found = safeguarded(every, found, left, limits["memory_limit"], progress, seed)
    policy, lower, unrestricted = playable(model, found.policy), found.lower, found.unrestricted
    if (
        warm_policy is not None
        and warm_value > lower
        and (max_nodes is None or max_nodes >= warm_policy.N)
    ):
        policy, lower = warm_policy, warm_value
        unrestricted = None if unrestricted is None else max(unrestricted, lower)
    status = _status(model, found.status, lower, found.upper, gap)
    return Plan(
        policy.for_model(model), lower, max(found.upper, lower), status, found.method,
        policy_class, found.nodes, found.work, time.perf_counter() - begun, tuple(found.history),
        model.digest, unrestricted, model.reward_scale, model.reward_shift,
    )  # fmt: skip


def _plan_timed(
    model: TimedLatentMDP,
    policy_class: str,
    gap: float | None,
    time_limit: float | None,
    options: dict[str, Any],
) -> Plan:
    """Plan the time-augmented model; the policy comes back on the person's states."""
    if options["warm"] is not None:
        options["warm"] = unfold(model, as_policy(model, options["warm"], "warm"))
    found = plan(model.unrolled, policy_class, gap, time_limit, **options)
    return replace(found, policy=found.policy.for_model(model), model_digest=model.digest)


def check_made_for(plan: Any, model: AnyModel, what: str) -> None:
    """Refuse what is not a plan, and a plan for another model or in other units."""
    if not isinstance(plan, Plan):
        raise ModelError(f"{what} must be a Plan, as plan gives; it is a {type(plan).__name__}")
    check_fits(model, plan.policy)
    if plan.model_digest == model.digest:
        return
    if (plan.reward_scale, plan.reward_shift) != (model.reward_scale, model.reward_shift):
        raise ModelError(
            f"{what} must be in the units of the model, where a reward of 1 stands for "
            f"{model.reward_scale:.6g}; the plan's stands for {plan.reward_scale:.6g} (plan the "
            "model that is used, after normalized())"
        )
    raise ModelError(
        f"{what} must be made for this very model; it was made for another one (weights, first "
        "states, transitions, rewards, whether they are observed, horizon or discount differ)"
    )


def plan_whole(model: AnyModel, policy_class: str = "history", **options: Any) -> Plan:
    """`plan` for callers that go on with it: Ctrl-C ends them, and not only the plan."""
    with interrupts_raised():
        return plan(model, policy_class, **options)


def relative_gap(lower: float, upper: float) -> float:
    """`(upper - lower) / |upper|`."""
    if upper == lower:
        return 0.0
    return (upper - lower) / abs(upper) if upper else math.inf


def _status(model: LatentMDP, status: str, lower: float, upper: float, gap: float | None) -> str:
    """What the bounds say comes before how the planner ended."""
    assert status in STATUSES, status
    scale = max(abs(model.min_return), abs(model.max_return))
    if status == "optimal" or upper - lower <= 1e-14 * scale:
        return "optimal"
    if gap is not None and upper - lower <= gap * abs(upper):
        return "gap"
    return status


def _left(time_limit: float | None, seconds: float) -> float | None:
    """What is left of the time limit after so many seconds; None if there is no limit."""
    if time_limit is None or math.isinf(time_limit):
        return None
    return max(float(time_limit) - seconds, 0.0)


def _checked_max_nodes(max_nodes: Any, model: LatentMDP, policy_class: str) -> int:
    if not is_infinite(model.horizon) or policy_class != "history":
        raise ModelError(
            "max_nodes is for policies with memory and an infinite horizon (horizon=math.inf); the "
            f"class is {policy_class}, the horizon {model.horizon}"
        )
    return check_max_nodes(max_nodes, model)


def _memory(limit: int | None) -> int:
    return memory_budget() if limit is None else int(limit)


def _check_arguments(
    model: Any,
    policy_class: Any,
    gap: Any,
    time_limit: Any,
    work_limit: Any,
    memory_limit: Any,
    progress: Any,
    seed: Any,
) -> None:
    if not isinstance(model, LatentMDP):
        raise ModelError(f"plan needs a LatentMDP; it was given a {type(model).__name__}")
    check_policy_class(policy_class)
    if gap is not None and not (_number(gap) and 0 <= gap <= 1):
        raise ModelError(
            "gap must be a number from 0 to 1, or None; it is relative, so that 0.05 means 5% of "
            f"the upper bound; it is {gap!r}"
        )
    if time_limit is not None and not (_number(time_limit) and time_limit > 0):
        raise ModelError(f"time_limit must be seconds above 0, or None; it is {time_limit!r}")
    for name, value in (("work_limit", work_limit), ("memory_limit", memory_limit)):
        if value is not None and not (_number(value) and value >= 1 and value == value // 1):
            raise ModelError(f"{name} must be a whole number of at least 1; it is {value!r}")
    if progress is not None and not callable(progress):
        raise ModelError(f"progress must be a function or None; it is {progress!r}")
    if not (_number(seed) and seed >= 0 and seed == seed // 1):
        raise ModelError(f"seed must be a whole number of at least 0; it is {seed!r}")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
