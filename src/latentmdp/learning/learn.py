"""`learn`: Algorithm 1 in a known, simulated model; regret against the planned optimum."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.learning.regret import ROUNDING
from latentmdp.learning.run import Run
from latentmdp.learning.session import Observer, Phase, Session
from latentmdp.learning.solvers import Answer, check_affordable
from latentmdp.learning.spec import RunSpec
from latentmdp.model.horizons import needs_finite
from latentmdp.model.latent_mdp import LatentMDP, refuse_steps
from latentmdp.optimism.given import check_learnable
from latentmdp.optimism.settings import SEARCH, SearchEffort
from latentmdp.planning.plan import Plan, check_made_for, plan_whole
from latentmdp.planning.search_result import Progress

if TYPE_CHECKING:
    from latentmdp.policy.graph import PolicyGraph

OPTIMAL_WORK = {"markov": 5 * 10**8, "history": 2 * 10**8}
"""Work limits of planning the optimum to compare with: fixed, so that runs repeat."""
HISTORY_WORK = 10**6
"""And of planning with memory where the Markov optimum stays open: it bounds that too."""
OPTIMAL_MEMORY = 2**30


class Optimum(NamedTuple):
    """What regret is measured against, and what else was found on the way."""

    bounds: tuple[float, float]  # on the optimum of the class
    policy: PolicyGraph | None
    seconds: float
    history_value: float | None = None  # of a policy with memory that beats every one of the class


def learn(
    model: LatentMDP,
    algorithm: str = "mvp",
    episodes: int = 10**6,
    policy_class: str = "markov",
    delta: float = 0.1,
    bonus_scale: float = 1.0,
    seed: int = 0,
    simulator: str = "counts",
    optimal: Any = None,
    audit: bool = False,
    ties: str = "secondary",
    observer: Observer | None = None,
    settings: SearchEffort = SEARCH,
    normalize: bool = False,
) -> Run:
    """Learn in a simulated model for `episodes` episodes; see `Run` for what comes back.

    `algorithm`: `bernstein`, `mvp` (the paper); `lucrl`, `ucrl`, `greedy`, `random`, `oracle`;
    `psrl` (draws at doublings only, and may stay wrong for long), `psrl-episode` (draws after every
    episode, at most 10^5 of them). `bonus_scale` 1 is the paper, smaller ones are for practice
    (docs/how_to_learn.md). `simulator`: `counts` (cost by updates) or `episodes` (step by step),
    the same law. `policy_class` is `markov` here, but `history` in `plan`: regret is against the
    best policy of the class that learns. `optimal`: a `Plan` of this very model and class, or
    `(lower, upper)` of the class's optimum; without one it is planned with a fixed amount of work,
    a few seconds on models of usual size. Regret is known up to the gap that is left
    (`run.regret_bounds`). `audit` keeps every phase for `audit`. `ties`: which of several
    optimistic policies is played (docs/learning.md).
    `observer` is called with each finished phase. `settings` say how hard solvers search, for
    experiments with the search itself.
    `normalize` learns in `model.normalized()`, for costs and for totals above 1, and gives
    `run.in_user_units()`: all its numbers are in the units of `model`, as is an `optimal` given.

    >>> import latentmdp as lm
    >>> run = lm.learn(lm.make("bandit"), "random", episodes=1000)
    >>> run.episodes, run.regret >= 0
    (1000, True)
    """
    given = model
    if normalize and isinstance(model, LatentMDP):
        model = model.normalized()
        optimal = _normalized(optimal, given, model)
    spec = checked(
        RunSpec(algorithm, episodes, policy_class, delta, bonus_scale, seed, simulator, ties), model
    )
    optimum = find_optimal(model, spec, optimal)
    oracle = Answer(optimum.policy, *optimum.bounds) if optimum.policy is not None else None
    session = Session(model, spec, oracle, settings)
    phases: list[Any] = []

    def observe(phase: Phase) -> None:
        if audit:
            phases.append(phase.kept())
        if observer is not None:
            observer(phase)

    while session.done < session.target:
        session.next_phase(observe if audit or observer is not None else None)
    run = Run(model, session.state(), optimum.bounds, optimum.seconds, optimum.history_value)
    run.phases = phases if audit else None
    return run.in_user_units() if normalize and run.units else run


def _normalized(optimal: Any, given: LatentMDP, model: LatentMDP) -> Any:
    """What is known of the optimum of the model as it was given, for the normalised one."""
    if optimal is None or given.units == model.units:
        return optimal

    def normal(value: float) -> float:
        return (value - model.in_user_units(0.0)) / model.reward_scale

    if not isinstance(optimal, Plan):
        lower, upper = _pair(optimal)
        return normal(lower), normal(upper)
    check_made_for(optimal, given, "optimal")
    return replace(
        optimal, policy=optimal.policy.for_model(model), lower=normal(optimal.lower),
        upper=normal(optimal.upper), model_digest=model.digest, reward_scale=model.reward_scale,
        reward_shift=model.reward_shift,
    )  # fmt: skip


def checked(spec: RunSpec, model: LatentMDP) -> RunSpec:
    """The spec; what cannot be done with this model is refused in one sentence, before any work."""
    refuse_steps(model, "learn")
    if not isinstance(model, LatentMDP):
        raise ModelError(f"learn needs a LatentMDP; it was given a {type(model).__name__}")
    spec.check_algorithm()
    needs_finite(model, "learning")
    spec.constants(model)  # refuses a delta or a bonus_scale that is out of range
    check_learnable(model)
    check_affordable(spec, model.M, model.S, model.A, model.H, model.rewards_on_transitions)
    if spec.episodes * model.H >= 2**62:
        raise ModelError(
            f"episodes times horizon must stay below 2^62; it is {spec.episodes * model.H}"
        )
    return spec


def find_optimal(
    model: LatentMDP, spec: RunSpec, optimal: Any = None, progress: Progress | None = None
) -> Optimum:
    """Bounds on the optimum of the class that learns, from `optimal` or planned."""
    started = time.perf_counter()
    policy, history_value = None, None
    if optimal is None:
        optimal, history_value = _plan_optimum(model, spec.policy_class, progress)
    if isinstance(optimal, Plan):
        check_made_for(optimal, model, "optimal")
        if optimal.policy_class != spec.policy_class:
            raise ModelError(
                f"optimal must be a plan of the class that learns, {spec.policy_class}; it is of "
                f"the {optimal.policy_class} class, whose optimum is another one"
            )
        policy, lower, upper = optimal.policy, float(optimal.lower), float(optimal.upper)
    else:
        lower, upper = _pair(optimal)
    if policy is None and spec.algorithm == "oracle":
        raise ModelError("the oracle needs optimal to be a Plan, for its policy; it is a pair")
    return Optimum((lower, upper), policy, time.perf_counter() - started, history_value)


def _plan_optimum(
    model: LatentMDP, policy_class: str, progress: Progress | None
) -> tuple[Plan, float | None]:
    """The optimum by fixed amounts of work, and `history_value`.

    Where the Markov optimum stays open, policies with memory bound it from above (also those that
    do not see rewards, which Markov policies do not look at).
    """
    limits: dict[str, Any] = {
        "gap": None, "time_limit": None, "memory_limit": OPTIMAL_MEMORY, "progress": progress,
    }  # fmt: skip
    found = plan_whole(model, policy_class, work_limit=OPTIMAL_WORK[policy_class], **limits)
    if policy_class != "markov" or found.status == "optimal":
        return found, None
    blind = model.replace(observe_rewards=False)
    bound = plan_whole(blind, "history", work_limit=HISTORY_WORK, **limits)
    found = replace(found, upper=max(found.lower, min(found.upper, bound.upper)))
    memory = bound
    if model.observe_rewards:
        memory = plan_whole(model, "history", work_limit=HISTORY_WORK, **limits)
    rounding = ROUNDING * max(abs(model.min_return), abs(model.max_return))
    return found, memory.lower if memory.lower > found.upper + rounding else None


def _pair(optimal: Any) -> tuple[float, float]:
    try:
        lower, upper = (float(x) for x in optimal)
    except (TypeError, ValueError):
        raise ModelError(f"optimal must be a Plan or (lower, upper); it is {optimal!r}") from None
    if not (np.isfinite(lower) and np.isfinite(upper) and lower <= upper):
        raise ModelError(f"optimal must be (lower, upper) with lower <= upper; it is {optimal!r}")
    return lower, upper
