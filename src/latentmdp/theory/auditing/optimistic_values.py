"""Optimistic alpha vectors recomputed from counts by the paper's equations, for the audit.

Written from Eqs. (2) to (4) and independent of the learner's planners, so that a wrong radius,
bonus or snapshot there shows up here as a different value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Floats
from latentmdp.kernels.policies import policy_nodes
from latentmdp.kernels.structs import BonusTerms, BoxScratch, BoxTerms, PricedRows
from latentmdp.kernels.theory.audit import bonus_alpha, interval_alpha
from latentmdp.optimism.confidence import Bonus, Evidence, Interval, rule_named
from latentmdp.optimism.given import Given
from latentmdp.theory.bounds import iota

if TYPE_CHECKING:
    from latentmdp.learning.spec import RunSpec
    from latentmdp.model.counts import Counts
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.policy.graph import PolicyGraph

PAPER_ALGORITHMS = ("mvp", "bernstein")  # what the theorem is about


@dataclass(frozen=True)
class Variant:
    """The paper's equations, or a wrong version of them that the audit can recognise."""

    text: str
    spread: float = 1.0  # factor on the term with the variance (MVP) or with P_hat (Bernstein)
    flat: float = 1.0  # factor on the term in 1/N
    reward: float = 1.0  # factor on the reward
    all_states: bool = False  # S in place of supp(P_hat) in MVP's variance term


AS_WRITTEN = Variant("as written")
WRONG = (
    Variant("the {} without its variance term", spread=0.0),
    Variant("the {} without its 1/N term", flat=0.0),
    Variant("the reward added twice", reward=2.0),
    Variant("S in place of supp(P_hat)", all_states=True),
)


def optimistic_alpha(
    model: LatentMDP,
    policy: PolicyGraph,
    counts: Counts,
    spec: RunSpec,
    variant: Variant = AS_WRITTEN,
) -> Floats | None:
    """`alpha~ (N, M)` of the policy at the snapshot; None where counts do not determine it.

    `counts` are laid out along the model. `O(N M Gamma)`, for intervals `O(N M S)` and more.
    """
    if spec.algorithm in ("random", "oracle"):
        return None
    rule = rule_named(spec.algorithm)
    if rule.random:
        return None
    # the audit's own logarithm, so that a wrong one in the learner shows
    log = iota(model.M, model.S, model.A, model.H, spec.episodes, spec.delta)
    evidence = _evidence(counts)
    answer: Bonus | Interval
    if spec.algorithm == "mvp":
        answer = _mvp(evidence, model.S, log, spec.bonus_scale, variant)
    elif spec.algorithm == "bernstein":
        answer = _bernstein(evidence, log, spec.bonus_scale, variant)
    else:
        answer = rule.compute(evidence, spec.constants(model), np.random.default_rng(0))
    unknown = (counts.N == 0) & (not rule.own_unvisited)
    if isinstance(answer, Bonus):
        return _bonus(model, policy, evidence, answer, unknown, rule.cap, variant.reward)
    return _interval(model, policy, evidence, answer, unknown, rule.cap, variant.reward)


def _evidence(counts: Counts) -> Evidence:
    row = counts.slot_row
    support = np.bincount(row[counts.N_next > 0], minlength=counts.rows)
    return Evidence(counts.N, support, row, counts.N_next, counts.p_hat)


def _mvp(evidence: Evidence, S: int, log: float, scale: float, variant: Variant) -> Bonus:
    unit = log / np.maximum(evidence.N, 1)
    support = np.full_like(evidence.support, S) if variant.all_states else evidence.support
    c1 = variant.spread * scale * 4.0 * np.sqrt(support * unit)  # Eq. (3)
    flat = np.maximum(scale * 16.0 * S, scale**2 * 16.0 * evidence.support)
    return Bonus(c1, variant.flat * flat * unit, 0.0)


def _bernstein(evidence: Evidence, log: float, scale: float, variant: Variant) -> Interval:
    unit = log / np.maximum(evidence.N, 1)  # Eq. (2)
    spread = variant.spread * 2.0 * np.sqrt(evidence.p_hat * unit[evidence.row])
    flat = variant.flat * 5.0 * unit
    radius = scale * (spread + flat[evidence.row])
    return Interval(evidence.p_hat - radius, evidence.p_hat + radius, scale * flat)


def _bonus(
    model: LatentMDP,
    policy: PolicyGraph,
    evidence: Evidence,
    answer: Bonus,
    unknown: Any,
    cap: float,
    reward: float,
) -> Floats:
    rows = len(evidence.N)
    c1, c2, c3 = (np.broadcast_to(x, rows).astype(float) for x in answer[:3])
    c1[unknown], c2[unknown], c3[unknown] = 0.0, np.inf, 0.0
    on_next = model.rewards_on_transitions
    alpha = np.empty((policy.N, model.M))
    on_transitions = reward * model.reward if on_next else np.zeros(len(model.next))
    on_rows = np.zeros(rows) if on_next else reward * model.row_reward
    estimates = _estimates(model, evidence, on_transitions)
    terms = BonusTerms(float(cap), on_rows, c1, c2, c3)
    bonus_alpha(estimates, terms, policy_nodes(policy), np.empty(model.Gamma), alpha)
    return alpha


def _interval(
    model: LatentMDP, policy: PolicyGraph, evidence: Evidence, answer: Interval, unknown: Any,
    cap: float, reward: float,
) -> Floats:  # fmt: skip
    known = Given.of(model)
    rows, slots = len(evidence.N), len(evidence.p_hat)
    on_next = known.next_reward is not None
    nothing = np.zeros((1, 1))
    low, high = (np.broadcast_to(x, slots).astype(float) for x in (answer.lower, answer.upper))
    unseen = np.minimum(np.broadcast_to(answer.unseen, rows).astype(float), 1.0)
    alpha = np.empty((policy.N, model.M))
    S = model.S
    scratch = BoxScratch(np.zeros(S), np.zeros(S), np.zeros(S), np.zeros(S, dtype=np.int64))
    terms = BoxTerms(
        float(cap), on_next, reward * known.row_reward, known.row_symbol,
        nothing if known.next_reward is None else reward * known.next_reward,
        known.next_symbol if known.next_symbol is not None else nothing.astype(np.int64),
        low, high, unseen, np.broadcast_to(answer.budget, rows).astype(float), ~np.asarray(unknown),
    )  # fmt: skip
    estimates = _estimates(model, evidence, np.zeros(0))
    interval_alpha(estimates, terms, policy_nodes(policy), scratch, alpha)
    return alpha


def _estimates(model: LatentMDP, evidence: Evidence, reward: Floats) -> PricedRows:
    """`P_hat` along the model's outcomes, with these rewards on transitions."""
    return PricedRows(model.A, model.indptr, model.next, model.symbol, evidence.p_hat, reward)
