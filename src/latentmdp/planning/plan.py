"""`plan`: the best policy of a known latent MDP, with proof of how good it is."""

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from latentmdp.errors import ModelError
from latentmdp.evaluation.evaluate import evaluate
from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP, replaced
from latentmdp.model.units import USER
from latentmdp.planning.history.planner import plan_history
from latentmdp.planning.history.safeguard import safeguarded
from latentmdp.planning.infinite.markov import at_least_markov, plan_infinite_markov
from latentmdp.planning.infinite.planner import plan_infinite
from latentmdp.planning.infinite.small_controller import check_max_nodes
from latentmdp.planning.limits import LEAST_SECONDS, Limits, is_number
from latentmdp.planning.markov.planner import plan_markov
from latentmdp.planning.search_result import Progress, SearchResult
from latentmdp.planning.settings import SETTINGS, PlanningSettings
from latentmdp.policy.graph import PolicyGraph, as_policy, check_fits, playable
from latentmdp.policy.policy_class import check_policy_class
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
    model: LatentMDP,
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
    if not isinstance(model, LatentMDP):
        raise ModelError(f"plan needs a LatentMDP; it was given a {type(model).__name__}")
    check_policy_class(policy_class)
    limits = Limits(gap, time_limit, work_limit, memory_limit, progress)
    if not (is_number(seed) and seed >= 0 and seed == seed // 1):
        raise ModelError(f"seed must be a whole number of at least 0; it is {seed!r}")
    if horizon is not None:
        model = replaced(model, horizon=horizon)
    if max_nodes is not None:
        max_nodes = _checked_max_nodes(max_nodes, model, policy_class)
    policy = None if warm is None else as_policy(model, warm, "warm")
    return plan_within(
        model, policy_class, limits, SETTINGS, method, policy, seed, max_nodes, begun
    )


def plan_within(
    model: LatentMDP,
    policy_class: str,
    limits: Limits,
    settings: PlanningSettings = SETTINGS,
    method: str = "auto",
    warm: PolicyGraph | None = None,
    seed: int = 0,
    max_nodes: int | None = None,
    begun: float | None = None,
) -> Plan:
    """`plan` with arguments that were checked, and with settings; it has begun at that time."""
    begun = time.perf_counter() if begun is None else begun
    warm_value = -math.inf
    if warm is not None and (policy_class == "history" or warm.is_markov):
        warm_value = evaluate(model, warm).value
    left = _left(limits, begun)
    within = limits if left is None else replace(limits, time=max(left, LEAST_SECONDS))
    every = model.unmasked()  # rows of unavailable actions repeat available ones
    infinite = is_infinite(model.horizon)
    found: SearchResult
    if policy_class == "history":
        if infinite:
            found = plan_infinite(every, within, settings, method=method, max_nodes=max_nodes)
        else:
            found = plan_history(every, within, settings, method=method)
        left = _left(limits, begun)
        if max_nodes is None:
            found = safeguarded(every, found, left, limits, seed, settings)
        else:
            found = at_least_markov(every, found, left, seed, settings)
    else:
        table = warm.table if warm is not None and warm.is_markov else None
        if infinite:
            table = None if table is None else table[0]
            found = plan_infinite_markov(
                every, within, settings, method=method, warm=table, seed=seed
            )
        else:
            found = plan_markov(every, within, settings, method=method, warm=table, seed=seed)
    policy, lower, unrestricted = playable(model, found.policy), found.lower, found.unrestricted
    if warm is not None and warm_value > lower and (max_nodes is None or max_nodes >= warm.N):
        policy, lower = warm, warm_value
        unrestricted = None if unrestricted is None else max(unrestricted, lower)
    status = _status(model, found.status, lower, found.upper, limits.gap)
    return Plan(
        policy.for_model(model), lower, max(found.upper, lower), status, found.method,
        policy_class, found.nodes, found.work, time.perf_counter() - begun, tuple(found.history),
        model.digest, unrestricted, model.reward_scale, model.reward_shift,
    )  # fmt: skip


def check_made_for(plan: Any, model: LatentMDP, what: str) -> None:
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


def plan_whole(model: LatentMDP, policy_class: str = "history", **options: Any) -> Plan:
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


def _left(limits: Limits, begun: float) -> float | None:
    """Seconds left of the time limit; None if there is no limit."""
    if limits.time is None or math.isinf(limits.time):
        return None
    return max(float(limits.time) - (time.perf_counter() - begun), 0.0)


def _checked_max_nodes(max_nodes: Any, model: LatentMDP, policy_class: str) -> int:
    if not is_infinite(model.horizon) or policy_class != "history":
        raise ModelError(
            "max_nodes is for policies with memory and an infinite horizon (horizon=math.inf); the "
            f"class is {policy_class}, the horizon {model.horizon}"
        )
    return check_max_nodes(max_nodes, model)
