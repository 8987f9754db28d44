"""`learn`: Algorithm 1 in a known, simulated model, with exact regret."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.either_kind import refuse_timed
from latentmdp.errors import ModelError
from latentmdp.horizons import needs_finite
from latentmdp.learning.run import Run
from latentmdp.learning.session import Observer, Phase, Session
from latentmdp.learning.solvers import Answer, check_affordable
from latentmdp.learning.spec import Spec
from latentmdp.model import LatentMDP
from latentmdp.optimism.known import check_learnable
from latentmdp.optimism.settings import SEARCH, SearchSettings
from latentmdp.planning.plan import Plan, check_made_for, plan_whole

if TYPE_CHECKING:
    from latentmdp.policy import PolicyGraph

OPTIMAL_WORK = 2 * 10**8
"""Work limit of planning the optimum to compare with: fixed, so that runs repeat."""
OPTIMAL_MEMORY = 2**30


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
    settings: SearchSettings = SEARCH,
    normalize: bool = False,
) -> Run:
    """Learn in a simulated model for `episodes` episodes; see `Run` for what comes back.

    `algorithm`: `bernstein`, `mvp` (the paper); `lucrl`, `ucrl`, `greedy`, `random`, `oracle`;
    `psrl` (draws at doublings only, and may stay wrong for long), `psrl-episode` (draws after every
    episode, at most 10^5 of them). `bonus_scale` 1 is the paper, smaller ones are for practice
    (docs/how_to_learn.md). `simulator`: `counts` (cost by updates) or `episodes` (step by step),
    the same law. `optimal`: a `Plan` of this very model and class, or `(lower, upper)` of the
    class's optimum; without one it is planned with a fixed amount of work. `audit` keeps every
    phase for `audit`. `ties`: which of several optimistic policies is played (docs/learning.md).
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
        Spec(algorithm, episodes, policy_class, delta, bonus_scale, seed, simulator, ties), model
    )
    bracket, policy, seconds = find_optimal(model, spec, optimal)
    oracle = Answer(policy, *bracket) if policy is not None else None
    session = Session(model, spec, oracle, settings)
    phases: list[Any] = []

    def observe(phase: Phase) -> None:
        if audit:
            phases.append(phase.kept())
        if observer is not None:
            observer(phase)

    while session.done < session.target:
        session.next_phase(observe if audit or observer is not None else None)
    run = Run(model, session.state(), bracket, seconds)
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


def checked(spec: Spec, model: LatentMDP) -> Spec:
    """The spec; what cannot be done with this model is refused in one sentence, before any work."""
    refuse_timed(model, "learn")
    if not isinstance(model, LatentMDP):
        raise ModelError(f"learn needs a LatentMDP; it was given a {type(model).__name__}")
    spec.check_algorithm()
    needs_finite(model, "learning")
    spec.setting(model)  # refuses a delta or a bonus_scale that is out of range
    check_learnable(model)
    check_affordable(spec, model.M, model.S, model.A, model.H, model.rewards_on_transitions)
    if spec.episodes * model.H >= 2**62:
        raise ModelError(
            f"episodes times horizon must stay below 2^62; it is {spec.episodes * model.H}"
        )
    return spec


def find_optimal(
    model: LatentMDP, spec: Spec, optimal: Any = None
) -> tuple[tuple[float, float], PolicyGraph | None, float]:
    """`(lower, upper)` of the class's optimum, a policy if there is one, and the seconds taken."""
    started = time.perf_counter()
    if optimal is None:
        optimal = plan_whole(
            model,
            policy_class=spec.policy_class,
            gap=None,
            time_limit=None,
            work_limit=OPTIMAL_WORK,
            memory_limit=OPTIMAL_MEMORY,
        )
    policy = None
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
    return (lower, upper), policy, time.perf_counter() - started


def _pair(optimal: Any) -> tuple[float, float]:
    try:
        lower, upper = (float(x) for x in optimal)
    except (TypeError, ValueError):
        raise ModelError(f"optimal must be a Plan or (lower, upper); it is {optimal!r}") from None
    if not (np.isfinite(lower) and np.isfinite(upper) and lower <= upper):
        raise ModelError(f"optimal must be (lower, upper) with lower <= upper; it is {optimal!r}")
    return lower, upper
