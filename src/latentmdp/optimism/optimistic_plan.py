"""`optimistic_plan`: the oracle by itself; `make_planner`: the one that a learner keeps calling."""

import math
import time
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.model.counts import Counts
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.optimism.confidence import BonusConstants, Rule, rule_named
from latentmdp.optimism.given import Given
from latentmdp.optimism.memory.planner import HistoryPlanner
from latentmdp.optimism.planner import OptimisticPlanner
from latentmdp.optimism.reference import Reference
from latentmdp.optimism.settings import ALONE, SEARCH, SearchEffort
from latentmdp.policy.graph import PolicyGraph, playable
from latentmdp.policy.policy_class import check_policy_class

MEMORY_SECONDS = 1.5e-5  # measured, for each context and each outcome that some context has shown


@dataclass(frozen=True)
class OptimisticPlan:
    """A policy, its optimistic value `lower`, and a bound `upper` on the class's optimum."""

    policy: PolicyGraph
    lower: float
    upper: float
    algorithm: str
    policy_class: str
    bonus_scale: float
    seconds: float
    planner: Any  # give the plan as `warm` to plan again from here

    @property
    def gap(self) -> float:
        """How far the policy may be from the largest optimistic value."""
        return max(self.upper - self.lower, 0.0)

    @property
    def certified(self) -> bool:
        """Whether the policy is proven to be an argmax: its value reaches `upper` (to 1e-9)."""
        return self.gap <= self.planner.settings.equal

    def __repr__(self) -> str:
        proven = "an argmax" if self.certified else "not proven to be an argmax"
        return (
            f"OptimisticPlan({self.algorithm}, {self.policy_class}, "
            f"{self.lower:.6g} <= optimum <= {self.upper:.6g}, {proven}, {self.seconds:.3g} s)"
        )


def optimistic_plan(
    model: LatentMDP,
    visits: np.ndarray | Counts,
    algorithm: str = "mvp",
    policy_class: str = "markov",
    episodes: int = 1_000_000,
    delta: float = 0.1,
    bonus_scale: float = 1.0,
    warm: OptimisticPlan | None = None,
    seed: int = 0,
    settings: SearchEffort = ALONE,
    time_limit: float = math.inf,
) -> OptimisticPlan:
    """The policy of a class with the largest optimistic value, as Algorithms 2 and 3 ask for.

    The search is a heuristic: where `certified` is False another policy may be worth up to `gap`
    more.

    `visits (M, S, A, S)` are observed transitions (or a learner's counts, of which the snapshot is
    used). The model gives `w, nu, R, H` and which actions are available; its `P` is not used.
    `episodes` and `delta` enter through `iota`; `bonus_scale` multiplies the bonus or the radius.
    `warm`, an earlier plan of the same problem with other visits, is where the search starts; one
    of another problem is of no use.
    `settings` say how hard it searches; after `time_limit` seconds no better policy is looked for.

    >>> import latentmdp as lm, numpy as np
    >>> model = lm.make("bandit:arms=2,contexts=2,horizon=3,seed=0")
    >>> plan = optimistic_plan(model, np.zeros((model.M, model.S, model.A, model.S), dtype=int))
    >>> plan.lower, plan.upper  # nothing is known: everything is worth 1
    (1.0, 1.0)
    """
    if not isinstance(warm, OptimisticPlan | None):
        raise ModelError(f"warm must be an earlier optimistic plan; it is a {type(warm).__name__}")
    known = Given.of(model)
    counts = checked_counts(known, visits)
    constants = BonusConstants(
        known.M, known.S, known.A, known.H, int(episodes), delta, bonus_scale
    )
    began = time.perf_counter()
    if warm is not None and _fits(warm, known, algorithm, policy_class, constants, settings):
        planner = warm.planner
        planner.expect(counts)
    else:
        stream = np.random.default_rng(seed)
        rule = rule_named(algorithm)
        kind = class_in_time(policy_class, known, counts, time_limit)
        planner = make_planner(known, rule, constants, kind, stream, settings=settings)
    planner.deadline = began + time_limit
    found = search_all(planner, counts, settings)
    lower = Reference(planner.searches[0].model).value(found.policy)  # by none of the search's code
    assert abs(lower - found.value) < settings.equal, f"{found.value} is not the value {lower}"
    return OptimisticPlan(
        playable(model, found.policy), lower, max(float(found.upper), lower), algorithm,
        policy_class, float(bonus_scale), time.perf_counter() - began, planner,
    )  # fmt: skip


def checked_counts(known: Given, visits: np.ndarray | Counts) -> Counts:
    """The visits as counts, refused if they are of another problem."""
    counts = visits if isinstance(visits, Counts) else Counts.from_visits(visits)
    if (counts.M, counts.S, counts.A) != (known.M, known.S, known.A):
        raise ModelError(
            f"visits must be of {known.M} contexts, {known.S} states and {known.A} actions; "
            f"they are of {counts.M}, {counts.S} and {counts.A}"
        )
    return counts


def class_in_time(policy_class: str, known: Given, counts: Counts, seconds: float) -> str:
    """The class, or `markov` in place of `history` where the time does not suffice for memory.

    To set up a search with memory takes a time that grows with what can be seen after the actions,
    in all contexts. A policy without memory is one of the class too, and the bound holds for both.
    """
    if policy_class != "history" or math.isinf(seconds):
        return policy_class
    seen = np.unique(counts.slot_row % (known.S * known.A) * known.S + counts.next)
    return "history" if MEMORY_SECONDS * known.M * len(seen) <= seconds else "markov"


def search_all(planner: OptimisticPlanner, counts: Counts, settings: SearchEffort) -> Any:
    """Plan once; on tiny models again, with other perturbations, until the bound is reached."""
    found = planner.replan(counts)
    nothing = np.zeros(0, dtype=np.int64)
    if planner.effort.every and not planner.rule.random:  # tiny; a sample would change
        for _ in range(settings.further_searches):
            closed = found.value >= found.upper - settings.equal
            if closed or time.perf_counter() >= planner.deadline:
                break
            found = planner.replan(counts, nothing)
    return found


def _fits(
    warm: OptimisticPlan,
    known: Given,
    algorithm: str,
    policy_class: str,
    constants: BonusConstants,
    settings: SearchEffort,
) -> bool:
    """Whether a plan's planner solves the same problem, so that its policy may go on from there."""
    old = warm.planner
    if (warm.policy_class == "history") != isinstance(old, HistoryPlanner):
        return False  # there was no time for memory
    same_known = all(
        np.array_equal(getattr(old.known, f.name), getattr(known, f.name)) for f in fields(Given)
    )
    asked = (algorithm, policy_class, constants, settings)
    made_for = (warm.algorithm, warm.policy_class, old.constants, old.settings)
    return same_known and made_for == asked


def make_planner(
    known: Given,
    rule: Rule,
    constants: BonusConstants,
    policy_class: str,
    random: np.random.Generator,
    ties: str = "secondary",
    settings: SearchEffort = SEARCH,
) -> OptimisticPlanner:
    """A planner that is called again and again: `replan(counts, changed)`, `state()`, `restore()`.

    `changed` are the rows whose snapshot differs from the last call's; the answer has `policy`,
    `value`, `upper`, `kept`. Random numbers come from streams spawned off `random`.
    """
    check_policy_class(policy_class)
    kind = HistoryPlanner if policy_class == "history" else OptimisticPlanner
    return kind(known, rule, constants, random, ties, settings)
