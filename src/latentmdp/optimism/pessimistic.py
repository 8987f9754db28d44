"""`pessimistic_plan`: the policy with the largest value that a log of episodes can certify.

Optimistic planning with the sign turned: in every row the *worst* distribution inside its
confidence box, Eq. (2), chosen anew at every node; the policy whose value against it is largest.
The kernels are those of the optimistic side (`rows.direction` is -1). With probability `1 - delta`
all boxes hold the truth, and then no policy is worth less than its pessimistic value, whichever
policy the log made us choose. docs/pessimism.md derives the boxes.
"""

import math
import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from latentmdp.availability import source_rows
from latentmdp.canonical import Floats, Ints
from latentmdp.counts import Counts
from latentmdp.errors import ModelError
from latentmdp.model import LatentMDP
from latentmdp.optimism.confidence import Evidence, Interval, Rule, Setting, bernstein_radius
from latentmdp.optimism.known import Known
from latentmdp.optimism.model import OptimisticModel
from latentmdp.optimism.plan import checked_counts, make_planner, search_all
from latentmdp.optimism.reference import Reference, best_in_box
from latentmdp.optimism.settings import SEARCH, SearchSettings
from latentmdp.optimism.stand_ins import StandIns
from latentmdp.policy import PolicyGraph, playable

SURE = 2**50  # visits; a row with as many is known
TINY = 1e-300  # a scale where all rewards are 0
IOTA_SHARE = 0.525  # of `ln(2 / error)`: then Eq. (2) follows from Bernstein's inequality


def boxes_of_a_log(evidence: Evidence, setting: Setting, rng: np.random.Generator) -> Interval:
    """Eq. (2) with `iota = 0.525 ln(2 B n (n + 1) / delta)` for a row of `n` visits, `B` boxes.

    The visits of a row are random, so its box must hold after every number of them at once: after
    `n` it may fail with probability `delta / (B n (n + 1))`, and `delta` is the sum of all these.
    """
    return boxes_with_cut_steps(evidence, setting, np.zeros(len(evidence.N), dtype=np.int64))


def boxes_with_cut_steps(evidence: Evidence, setting: Setting, cut: Ints) -> Interval:
    """The same with `cut (rows,)` more visits, each of which may have led to any next state."""
    n = np.maximum(evidence.N + cut, 1).astype(float)
    unit = np.where(evidence.N >= SURE, 0.0, iota_of_a_log(setting, n) / n)
    known, free = evidence.N / n, cut / n
    low = evidence.p_hat * known[evidence.row]
    high = low + free[evidence.row]
    per_slot = unit[evidence.row]
    return Interval(
        np.maximum(low - bernstein_radius(low, per_slot, setting.scale), 0.0),
        np.minimum(high + bernstein_radius(high, per_slot, setting.scale), 1.0),
        np.minimum(free + bernstein_radius(free, unit, setting.scale), 1.0),
    )


def iota_of_a_log(setting: Setting, n: Floats) -> Floats:
    """`0.525 ln(2 B n (n + 1) / delta)`: a box for every `(m, s, a, s')` and every first state."""
    boxes = setting.M * setting.S * (setting.A * setting.S + 1)
    iota: Floats = IOTA_SHARE * (
        math.log(2.0 * boxes / setting.delta) + np.log(n) + np.log(n + 1.0)
    )
    return iota


# without a cap: clipping could only lower a value that is a minimum already
WORST_CASE = Rule("worst case", "interval", boxes_of_a_log, cap=math.inf, direction=-1.0)


class RewardBounds(NamedTuple):
    """Rewards that are not known, in the units of the model."""

    least: np.ndarray  # (M, S, A, S) lower bounds of their means
    unknown: np.ndarray  # (M, S, A, S) bool: what an agent sees with the reward is not known


@dataclass(frozen=True)
class PessimisticPlan:
    """A policy, its worst-case value `lower`, and a bound `upper` on the largest one in the class.

    With probability `1 - delta` the policy is worth at least `lower` in the world that the log came
    from. `upper` says how much better a policy could be *by this criterion*; it bounds no value.
    """

    policy: PolicyGraph
    lower: float
    upper: float
    policy_class: str
    delta: float
    bonus_scale: float
    seconds: float

    @property
    def gap(self) -> float:
        """How far the policy may be from the largest worst-case value."""
        return max(self.upper - self.lower, 0.0)

    def __repr__(self) -> str:
        return (
            f"PessimisticPlan({self.policy_class}, worth at least {self.lower:.6g} with "
            f"probability {1.0 - self.delta:.6g}, {self.seconds:.3g} s)"
        )


def pessimistic_plan(
    model: LatentMDP,
    visits: np.ndarray | Counts,
    policy_class: str = "markov",
    delta: float = 0.1,
    *,
    starts: np.ndarray | None = None,
    sure: np.ndarray | None = None,
    rewards: RewardBounds | None = None,
    cut: np.ndarray | None = None,
    bonus_scale: float = 1.0,
    seed: int = 0,
    settings: SearchSettings = SEARCH,
) -> PessimisticPlan:
    """The policy of a class whose value in the worst model of the confidence set is largest.

    `visits (M, S, A, S)` are observed transitions, or counts, as in `optimistic_plan`. The model
    gives `w, nu, R, H`; they count as known. Its `P` is used only in the rows `sure (M, S, A)`,
    which are known as well (a terminal state, say). With `starts (M, S)`, how often episodes began
    in a context and state, `w` and `nu` are not taken from the model but estimated, with a box of
    their own. `rewards` take the place of the model's: lower bounds, whose error is not part of
    `delta`, and where it is not known what an agent sees with them, which the world then chooses at
    its worst. `cut (M, S, A)`: more visits, of which nobody knows where they led: it may be
    anywhere. `bonus_scale` multiplies the radius; below 1 the probability is no longer certain.

    What is certified is `lower`, computed from the finished policy by code that the search does not
    use. That no policy of the class is better is not certain unless `lower` reaches `upper`.

    >>> import latentmdp as lm, numpy as np
    >>> model = lm.make("bandit:arms=2,contexts=2,horizon=3,seed=0")
    >>> many = np.rint(model.P * 10**6).astype(int)
    >>> few = np.rint(model.P * 10**3).astype(int)
    >>> plans = [lm.pessimistic_plan(model, visits) for visits in (few, many)]
    >>> optimum = lm.plan(model, "markov").lower
    >>> plans[0].lower < plans[1].lower < optimum
    True
    """
    began = time.perf_counter()
    problem = _Problem(model, visits, delta, starts, sure, rewards, cut, bonus_scale)
    stream = np.random.default_rng(seed)
    planner = make_planner(
        problem.known, problem.rule, problem.setting, policy_class, stream, "incumbent", settings
    )
    found = search_all(planner, problem.counts, settings)
    optimistic = planner.searches[0].model
    alone = Reference(optimistic).value(found.policy)  # with the estimated first states
    assert abs(alone - found.value) < settings.equal, f"{found.value} is not the value {alone}"
    lower = problem.lower(optimistic, found.policy)
    upper = max(problem.in_units(float(found.upper)), lower)
    return PessimisticPlan(
        playable(model, found.policy).for_model(model), lower, upper, policy_class, float(delta),
        float(bonus_scale), time.perf_counter() - began,
    )  # fmt: skip


def pessimistic_value(
    model: LatentMDP,
    visits: np.ndarray | Counts,
    policy: PolicyGraph,
    delta: float = 0.1,
    *,
    starts: np.ndarray | None = None,
    sure: np.ndarray | None = None,
    rewards: RewardBounds | None = None,
    cut: np.ndarray | None = None,
    bonus_scale: float = 1.0,
) -> float:
    """The value of a given policy in the worst model of the confidence set of `pessimistic_plan`.

    Holds for all policies at once with probability `1 - delta`, so it may be asked for many.
    """
    problem = _Problem(model, visits, delta, starts, sure, rewards, cut, bonus_scale)
    known, counts = problem.known, problem.counts
    if known.allowed is not None:
        counts = StandIns(known).of(counts)
    optimistic = OptimisticModel.of(known, counts, problem.rule, problem.setting)
    return problem.lower(optimistic, policy.for_model(problem.model))


class _Problem:
    """What is asked, checked: rewards at least 0, rows that are sure, first states."""

    def __init__(
        self,
        model: LatentMDP,
        visits: np.ndarray | Counts,
        delta: float,
        starts: np.ndarray | None,
        sure: np.ndarray | None,
        rewards: RewardBounds | None,
        cut: np.ndarray | None,
        bonus_scale: float,
    ) -> None:
        self.model = model.normalized()
        self.known = Known.of(self.model)
        self.scale = self.model.reward_scale / model.reward_scale
        self.shift = (self.model.reward_shift - model.reward_shift) / model.reward_scale
        self.unknown: np.ndarray | None = None
        if rewards is not None:
            self._take(rewards)
        counts = checked_counts(self.known, visits)
        self.counts = counts if sure is None else _with_sure_rows(model, counts, sure)
        sizes = (self.known.M, self.known.S, self.known.A, self.known.H)
        self.setting = Setting(*sizes, 1, delta, bonus_scale)
        self.rule = WORST_CASE if cut is None else self._rule(cut)
        self.starts = None if starts is None else _checked_starts(starts, sizes)
        if self.starts is not None:
            total = self.starts.sum(axis=1)
            nu = np.where(total[:, None] > 0, self.starts / np.maximum(total, 1)[:, None], model.nu)
            self.known = replace(self.known, w=total / total.sum(), nu=nu)

    def _rule(self, cut: Any) -> Rule:
        """The boxes that leave it open where the steps that were cut off led."""
        M, S, A = self.known.M, self.known.S, self.known.A
        cut = np.asarray(cut)
        if cut.shape != (M, S, A) or not np.issubdtype(cut.dtype, np.integer) or cut.min() < 0:
            raise ModelError(
                f"cut must be integers of shape {(M, S, A)}, contexts, states and actions, and not "
                f"negative; it is an array of {cut.dtype} of shape {cut.shape}"
            )
        allowed = self.known.allowed
        rows = source_rows(np.ones((S, A), dtype=bool) if allowed is None else allowed, M)
        of_rows = cut.reshape(-1)[rows]

        def boxes(evidence: Evidence, setting: Setting, rng: np.random.Generator) -> Interval:
            return boxes_with_cut_steps(evidence, setting, of_rows[evidence.rows])

        return replace(WORST_CASE, compute=boxes)

    def _take(self, rewards: RewardBounds) -> None:
        """Plan with these rewards instead of the model's, scaled to totals of at most 1."""
        M, S, A, H = self.known.M, self.known.S, self.known.A, self.known.H
        for name, array in zip(rewards._fields, rewards, strict=True):
            if np.shape(array) != (M, S, A, S):
                raise ModelError(
                    f"rewards.{name} must have the shape {(M, S, A, S)}; it is {np.shape(array)}"
                )
        allowed = self.known.allowed
        source = source_rows(np.ones((S, A), dtype=bool) if allowed is None else allowed, M)
        least, unknown = (np.reshape(array, (-1, S))[source] for array in rewards)
        self.unknown = unknown if self.model.observe_rewards else None
        self.shift = min(0.0, float(least.min()))
        self.scale = max(float(least.max() - self.shift) * H, TINY)
        least = (least - self.shift) / self.scale
        known = self.known
        if known.next_symbol is None and (least == least[:, :1]).all():
            self.known = replace(known, row_reward=least[:, 0].copy())
            return
        symbol = known.next_symbol
        if symbol is None:
            symbol = np.repeat(known.row_symbol[:, None], S, axis=1)
        none = np.zeros_like(known.row_symbol)
        self.known = replace(
            known, row_reward=none.astype(float), row_symbol=none, next_reward=least,
            next_symbol=symbol,
        )  # fmt: skip

    def lower(self, optimistic: OptimisticModel, policy: PolicyGraph) -> float:
        """The worst-case value of a policy, also over first states if they are estimated."""
        reference = Reference(optimistic, self.unknown)
        if self.starts is None:
            return self.in_units(reference.value(policy))
        v = reference.alpha(policy)[policy.root].T.reshape(1, -1)  # (1, M * S)
        n = self.starts.reshape(1, -1)
        evidence = Evidence(
            n.sum(axis=1), (n > 0).sum(axis=1), np.zeros(n.size, dtype=np.int64), n[0],
            n[0] / n.sum(),
        )  # fmt: skip
        box = boxes_of_a_log(evidence, self.setting, np.random.default_rng(0))
        p, low, high = (np.reshape(x, (1, -1)) for x in (evidence.p_hat, box.lower, box.upper))
        return self.in_units(-float(best_in_box(p, -v, low, high, np.ones(1))[0]))

    def in_units(self, value: float) -> float:
        """A value of the planner's model in the units of the model that was given."""
        return value * self.scale + self.shift * self.known.H


def _with_sure_rows(model: LatentMDP, counts: Counts, sure: Any) -> Counts:
    """The same counts, with so many visits of the rows `sure` that they are known."""
    sure = np.asarray(sure)
    if sure.shape != (model.M, model.S, model.A) or sure.dtype != np.bool_:
        raise ModelError(
            f"sure must be true or false for each of {model.M} contexts, {model.S} states and "
            f"{model.A} actions; it is an array of {sure.dtype} of shape {sure.shape}"
        )
    is_sure, outcomes = sure.ravel(), model.rows
    model_row = np.repeat(np.arange(counts.rows), np.diff(outcomes.indptr))
    counted, given = ~is_sure[counts.slot_row], is_sure[model_row]
    row = np.concatenate([counts.slot_row[counted], model_row[given]])
    nxt = np.concatenate([counts.next[counted], outcomes.next[given]])
    many = np.rint(outcomes.prob[given] * (2.0 * SURE)).astype(np.int64)
    N_next = np.concatenate([counts.N_next[counted], many])
    order = np.lexsort([nxt, row])
    indptr = np.searchsorted(row[order], np.arange(counts.rows + 1))
    result = Counts(counts.M, counts.S, counts.A, indptr, nxt[order])
    result.n[:], result.N_next[:] = counts.N, N_next[order]
    result.N[:] = counts.N
    result.N[is_sure] = 0
    np.add.at(result.N, model_row[given], many)
    return result


def _checked_starts(starts: Any, sizes: tuple[int, int, int, int]) -> np.ndarray:
    """How often episodes began in each context and state."""
    starts = np.asarray(starts)
    if starts.shape != sizes[:2] or not np.issubdtype(starts.dtype, np.integer):
        raise ModelError(
            f"starts must be integers of shape {sizes[:2]}, contexts and states; it is an array "
            f"of {starts.dtype} of shape {starts.shape}"
        )
    if starts.min() < 0 or starts.sum() == 0:
        raise ModelError("starts must not be negative, and one of them must be positive")
    return starts
