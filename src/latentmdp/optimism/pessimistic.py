"""`pessimistic_plan`: the policy with the largest value that a log of episodes can certify.

Optimistic planning with the sign turned: in every row the *worst* distribution inside its
confidence boxes, chosen anew at every node; the policy whose value against it is largest. One more
state stands for everything that a row has not shown (`other_state.py`): it pays the least possible
until the end. The kernels are those of the optimistic side (`rows.direction` is -1). With
probability `1 - delta` all boxes hold the truth, and then no policy is worth less than its
pessimistic value, whichever policy the log made us choose. docs/pessimism.md derives the boxes.
"""

import math
import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model.availability import substitute_rows
from latentmdp.model.counts import Counts
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.optimism.confidence import BonusConstants, Evidence, Interval, Rule
from latentmdp.optimism.given import Given
from latentmdp.optimism.log_boxes import log_boxes
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.optimistic_plan import (
    checked_counts,
    class_in_time,
    make_planner,
    search_all,
)
from latentmdp.optimism.other_state import (
    narrower_policy,
    wider_counts,
    wider_known,
    wider_policy,
    wider_rows,
)
from latentmdp.optimism.reference import Reference, best_in_box
from latentmdp.optimism.settings import SEARCH, SearchEffort
from latentmdp.optimism.substitutes import Substitutes
from latentmdp.policy.graph import PolicyGraph, playable

SURE = 2**50  # visits; a row with as many is known
TINY = 1e-300  # a scale where all rewards are 0


class RewardBounds(NamedTuple):
    """Lower bounds of mean rewards, in the units of the model."""

    least: Floats  # (M, S, A, S) of the outcomes that were seen
    other: Floats  # (M, S, A) of everything else together


class Totals(NamedTuple):
    """What is known of an episode's total reward beside the rewards of its steps."""

    least: float  # of a whole episode
    floor: Floats  # (H, M, S) of what is still to come, wherever the log has been


def rule_of_a_log(rows: int, cut: Ints | None = None) -> Rule:
    """Boxes of a log that has visited `rows` rows, in a world whose last state is the unseen one.

    The rows are taken in the order of their first visits: the `k`-th one may fail with probability
    `delta / (k (k + 1))`, and none is numbered higher than `rows`. `cut (all rows,)`: visits of
    each row of which nobody knows where they led.
    """

    def boxes(evidence: Evidence, constants: BonusConstants, rng: np.random.Generator) -> Interval:
        assert evidence.next is not None
        assert evidence.rows is not None
        shown = np.flatnonzero(evidence.N_next > 0)
        free = None if cut is None else cut[evidence.rows]
        found = log_boxes(
            evidence.row[shown], evidence.N_next[shown], len(evidence.N),
            constants.delta / (rows * (rows + 1)), free, constants.scale,
        )  # fmt: skip
        sure = evidence.N >= SURE
        unseen = np.where(sure, 0.0, found.unseen)
        lower = np.zeros(len(evidence.row))
        lower[shown] = found.lower
        upper = np.where(evidence.next == constants.S - 1, unseen[evidence.row], 0.0)
        upper[shown] = found.upper
        known = sure[evidence.row]
        lower[known] = upper[known] = evidence.p_hat[known]
        return Interval(lower, upper, np.zeros(len(unseen)))

    # without a cap: clipping could only lower a value that is a minimum already
    return Rule(
        "worst case", "interval", boxes, cap=math.inf, own_unvisited=True, last_next=True,
        direction=-1.0,
    )  # fmt: skip


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
    lowest: float | None = None,
    totals: Totals | None = None,
    cut: np.ndarray | None = None,
    bonus_scale: float = 1.0,
    time_limit: float = math.inf,
    seed: int = 0,
    settings: SearchEffort = SEARCH,
) -> PessimisticPlan:
    """The policy of a class whose value in the worst model of the confidence set is largest.

    `visits (M, S, A, S)` are observed transitions, or counts, as in `optimistic_plan`. The model
    gives `w, nu, R, H`; they count as known. Its `P` is used only in the rows `sure (M, S, A)`,
    which are known as well (a terminal state, say). With `starts (M, S)`, how often episodes began
    in a context and state, `w` and `nu` are not taken from the model but estimated, with boxes of
    their own. What a row has not shown, a state that the model does not have or a context, may
    happen: from then on every step pays `lowest` (default: the least reward of the model).

    `rewards` take the place of the model's: lower bounds, whose error is not part of `delta`.
    `totals`: bounds of what is still to come. `cut (M, S, A)`: more visits, of which nobody knows
    where they led: it may be anywhere. `bonus_scale` multiplies the boxes; below 1 the probability
    is no longer certain. `time_limit`: seconds after which no better policy is looked for; the
    first one must be found and certified, which takes `O(H M S A)` in all. Where the time does not
    suffice to begin a search with memory, the policy has none.

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
    problem = LogProblem(
        model, visits, delta, starts, sure, rewards, lowest, totals, cut, bonus_scale
    )
    stream = np.random.default_rng(seed)
    kind = class_in_time(policy_class, problem.known, problem.counts, time_limit)
    planner = make_planner(
        problem.known, problem.rule, problem.constants, kind, stream, "incumbent", settings
    )
    planner.deadline = began + time_limit
    found = search_all(planner, problem.counts, settings)
    optimistic = planner.searches[0].model
    alone = Reference(optimistic).value(found.policy)  # with the estimated first states
    assert abs(alone - found.value) < settings.equal, f"{found.value} is not the value {alone}"
    lower = problem.lower(optimistic, found.policy)
    upper = math.inf if totals else max(problem.in_units(float(found.upper)), lower)
    policy = playable(model, narrower_policy(found.policy)).for_model(model)
    return PessimisticPlan(
        policy,
        lower,
        upper,
        policy_class,
        float(delta),
        float(bonus_scale),
        time.perf_counter() - began,
    )


def pessimistic_value(
    model: LatentMDP,
    visits: np.ndarray | Counts,
    policy: PolicyGraph,
    delta: float = 0.1,
    *,
    starts: np.ndarray | None = None,
    sure: np.ndarray | None = None,
    rewards: RewardBounds | None = None,
    lowest: float | None = None,
    totals: Totals | None = None,
    cut: np.ndarray | None = None,
    bonus_scale: float = 1.0,
) -> float:
    """The value of a given policy in the worst model of the confidence set of `pessimistic_plan`.

    Holds for all policies at once with probability `1 - delta`, so it may be asked for many.
    """
    problem = LogProblem(
        model, visits, delta, starts, sure, rewards, lowest, totals, cut, bonus_scale
    )
    known, counts = problem.known, problem.counts
    if known.allowed is not None:
        counts = Substitutes(known).of(counts)
    optimistic = ConfidenceModel.of(known, counts, problem.rule, problem.constants)
    return problem.lower(optimistic, wider_policy(policy.for_model(problem.model)))


class LogProblem:
    """What is asked, checked, in a world with one more state and rewards of at least 0."""

    def __init__(
        self,
        model: LatentMDP,
        visits: np.ndarray | Counts,
        delta: float,
        starts: np.ndarray | None,
        sure: np.ndarray | None,
        rewards: RewardBounds | None,
        lowest: float | None,
        totals: Totals | None,
        cut: np.ndarray | None,
        bonus_scale: float,
    ) -> None:
        self.model, self.totals = model, totals
        known = Given.of(model.normalized())  # of which rewards are not used
        self.sizes = known.M, known.S, known.A, known.H
        M, S, A, H = self.sizes
        counts = checked_counts(known, visits)
        counted = int((counts.N > 0).sum()) if sure is None else self._unsure(counts, sure)
        if sure is not None:
            counts = _with_sure_rows(model, counts, sure)
        self.counts = wider_counts(counts, 2 * SURE)
        self.source = substitute_rows(
            np.ones((S, A), dtype=bool) if known.allowed is None else known.allowed, M
        )
        self.known = self._world(known, rewards, lowest)
        self.starts = None if starts is None else _checked_starts(starts, self.sizes)
        if self.starts is not None:
            total = self.starts.sum(axis=1)
            nu = np.where(total[:, None] > 0, self.starts / np.maximum(total, 1)[:, None], model.nu)
            nu = np.concatenate([nu, np.zeros((M, 1))], axis=1)
            self.known = replace(self.known, w=total / total.sum(), nu=nu)
            delta /= 2.0  # the other half is for the first states
        self.constants = BonusConstants(M, S + 1, A, H, 1, delta, bonus_scale)
        self.rule = rule_of_a_log(max(counted, 1), None if cut is None else self._cut(cut))

    def _unsure(self, counts: Counts, sure: Any) -> int:
        """How many rows that are not sure have visits."""
        return int(((counts.N > 0) & ~_checked_sure(self.sizes, sure).ravel()).sum())

    def _cut(self, cut: Any) -> Ints:
        """Visits of each row of the wider world of which nobody knows where they led."""
        M, S, A, _ = self.sizes
        cut = np.asarray(cut)
        if cut.shape != (M, S, A) or not np.issubdtype(cut.dtype, np.integer) or cut.min() < 0:
            raise ModelError(
                f"cut must be integers of shape {(M, S, A)}, contexts, states and actions, and not "
                f"negative; it is an array of {cut.dtype} of shape {cut.shape}"
            )
        wide = np.zeros(M * (S + 1) * A, dtype=np.int64)
        wide[wider_rows(np.arange(M * S * A), S, A)] = cut.reshape(-1)[self.source]
        return wide

    def _world(self, known: Given, given: RewardBounds | None, lowest: float | None) -> Given:
        """What is known, with the unseen state; rewards are scaled to totals of 0 to 1."""
        M, S, A, H = self.sizes
        if given is None:
            R = self.model.unmasked().R
            least = np.broadcast_to(R if R.ndim == 4 else R[..., None], (M, S, A, S))
            bottom = float(R.min()) if lowest is None else lowest
            given = RewardBounds(least, R if R.ndim == 3 else np.full((M, S, A), bottom))
        shapes = (M, S, A, S), (M, S, A)
        for name, array, shape in zip(given._fields, given, shapes, strict=True):
            if np.shape(array) != shape:
                raise ModelError(
                    f"rewards.{name} must have the shape {shape}; it is {np.shape(array)}"
                )
        least, other = np.reshape(given.least, (-1, S)), np.reshape(given.other, -1)
        least, other = least[self.source], other[self.source]
        self.lowest = min(float(least.min()), float(other.min())) if lowest is None else lowest
        self.shift = min(self.lowest, float(least.min()), float(other.min()))
        most = max(self.lowest, float(least.max()), float(other.max()))
        self.scale = max((most - self.shift) * H, TINY)
        least, other = (least - self.shift) / self.scale, (other - self.shift) / self.scale
        return wider_known(known, least, other, (self.lowest - self.shift) / self.scale)

    def lower(self, optimistic: ConfidenceModel, policy: PolicyGraph) -> float:
        """The worst-case value of a policy, also over first states if they are estimated."""
        M, S, _, H = self.sizes
        floor, lowest = None, self.lowest * H
        if self.totals is not None:
            lowest = max(lowest, self.totals.least)
            to_come = self.totals.floor - self.shift * (H - np.arange(H))[:, None, None]
            floor = np.full((H, M, S + 1), -math.inf)
            floor[:, :, :S] = to_come / self.scale
        reference = Reference(optimistic, floor)
        if self.starts is None:
            return self.in_units(reference.value(policy))
        v = reference.alpha(policy)[policy.root[:S]].T.ravel()  # (M * S,)
        first = np.flatnonzero(self.starts.ravel())
        seen = self.starts.ravel()[first]
        box = log_boxes(
            np.zeros(len(first), dtype=np.int64), seen, 1, self.constants.delta,
            scale=self.constants.scale,
        )  # fmt: skip
        p, low, high, value = (
            np.append(x, y)[None]
            for x, y in (
                (seen / seen.sum(), 0.0), (box.lower, 0.0), (box.upper, box.unseen[0]),
                (v[first], (lowest - self.shift * H) / self.scale),
            )
        )  # fmt: skip
        return self.in_units(-float(best_in_box(p, -value, low, high, np.ones(1))[0]))

    def in_units(self, value: float) -> float:
        """A value of the planner's world in the units of the model that was given."""
        return value * self.scale + self.shift * self.sizes[3]


def _with_sure_rows(model: LatentMDP, counts: Counts, sure: Any) -> Counts:
    """The same counts, with so many visits of the rows `sure` that they are known."""
    is_sure, outcomes = np.asarray(sure).ravel(), model.rows
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


def _checked_sure(sizes: tuple[int, int, int, int], sure: Any) -> np.ndarray:
    """`sure` as an array, refused if it is not one of truth values for all rows."""
    M, S, A, _ = sizes
    sure = np.asarray(sure)
    if sure.shape != (M, S, A) or sure.dtype != np.bool_:
        raise ModelError(
            f"sure must be true or false for each of {M} contexts, {S} states and {A} actions; it "
            f"is an array of {sure.dtype} of shape {sure.shape}"
        )
    return sure
