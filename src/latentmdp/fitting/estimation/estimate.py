"""From counts to a model: posterior means, and what is assumed for rows that were never seen.

Each row's outcome, a next state with what was read on the way there, has a Dirichlet prior that
counts as many visits as `prior` says, spread over outcomes as all contexts together went on from
the same `(state, action)`; `prior=0` is maximum likelihood. First states likewise; weights have the
same prior spread evenly over contexts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.fitting.deciding.total_range import TotalRange
from latentmdp.fitting.estimation.cut_steps import CutSteps, with_cut_steps
from latentmdp.fitting.reading.cells import LogCounts, row_of
from latentmdp.model.availability import substitute_rows
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.rows import floats

UNSEEN = ("self", "uniform", "refuse", "unavailable")
REWARDS = ("noisy", "fixed")
ARRAYS = ("R", "w", "nu")  # what may be known beside the names of contexts, states and actions


@dataclass(frozen=True)
class Assumptions:
    """What the estimate rests on besides the counts."""

    horizon: int
    prior: float = 0.0
    unseen: str = "self"
    observe_rewards: bool | None = None
    discount: float = 1.0
    known: dict[str, Any] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)  # labels of the model
    rewards: str = "noisy"  # or "fixed": what was paid once is what is always paid
    total_range: TotalRange | None = None  # of an episode's total reward

    def __post_init__(self) -> None:
        if self.unseen not in UNSEEN:
            raise ModelError(f"unseen must be one of {', '.join(UNSEEN)}; it is {self.unseen!r}")
        if not (np.isfinite(self.prior) and self.prior >= 0.0):
            raise ModelError(f"prior must be a finite number of at least 0; it is {self.prior!r}")
        if self.rewards not in REWARDS:
            raise ModelError(f"rewards must be noisy or fixed; it is {self.rewards!r}")


@dataclass(frozen=True, eq=False)
class Estimate:
    """A model and the posterior that it is the mean of.

    `row`, `next`, `prob`, `alpha`, `reward` and `error` are of outcomes; `place (nnz,)` says which
    of them stands where in the model's rows (those of unavailable actions repeat others).
    """

    model: LatentMDP
    row: Ints  # (n,)
    next: Ints  # (n,)
    prob: Floats  # (n,)
    alpha: Floats  # (n,) Dirichlet parameters; 0 in rows that are not uncertain
    reward: Floats  # (n,)
    error: Floats  # (n,) standard errors of the rewards; 0 where they do not vary
    cut: CutSteps
    place: Ints
    w_alpha: Floats | None  # (M,), None where w is known
    nu_alpha: Floats | None  # (M, S), None where nu is known
    unseen: Ints  # (u,) rows whose outcomes are assumed
    unseen_low: Floats  # (u,) what they pay at least, as far as the log or what is known says
    unseen_high: Floats  # (u,) and at most
    total_range: TotalRange | None = None  # where only ends pay: what the rest of an episode pays


@dataclass
class EstimatedOutcomes:
    """Outcomes in the making, sorted by row and outcome (`LogCounts.outcome`)."""

    row: Ints
    outcome: Ints
    alpha: Floats
    prob: Floats
    reward: Floats
    error: Floats

    def add(self, row: Ints, outcome: Ints, prob: Any, reward: Any) -> None:
        """Outcomes that are facts or assumptions: nothing about them is uncertain."""
        n = len(row)
        self.row, self.outcome = np.append(self.row, row), np.append(self.outcome, outcome)
        self.alpha = np.append(self.alpha, np.zeros(n))
        self.prob = np.append(self.prob, np.broadcast_to(prob, n))
        self.reward = np.append(self.reward, np.broadcast_to(reward, n))
        self.error = np.append(self.error, np.zeros(n))


def estimate(counts: LogCounts, assumed: Assumptions) -> Estimate:
    """The model that the counts and the assumptions make."""
    M, S, A = counts.M, counts.S, counts.A
    made, cut = _seen_outcomes(counts, assumed.prior)
    n_rows = M * S * A
    final = counts.final[np.arange(n_rows) // A % S]
    rows = np.flatnonzero(final)
    made.add(rows, rows // A % S * counts.readings, 1.0, 0.0)  # nothing new is read
    seen = np.bincount(made.row, minlength=n_rows) > 0
    unseen = np.flatnonzero(~seen)
    _fill_unseen(made, counts, assumed, unseen)
    observe = _observed(counts, assumed)
    nxt, reading = np.divmod(made.outcome, counts.readings)
    reward = _paid(made, nxt, counts, assumed)
    w, w_alpha = _weights(counts, assumed)
    nu, nu_alpha = _first_states(counts, assumed)
    context, rest = np.divmod(made.row, S * A)
    labels: dict[str, Any] = dict(assumed.names)
    model = LatentMDP.from_rows(
        context, rest // A, rest % A, nxt, made.prob, reward, w, nu, assumed.horizon,
        reading=reading, n_readings=counts.readings, n_actions=A, observe_rewards=observe,
        discount=assumed.discount, max_return=None,
        allowed=available(counts) if assumed.unseen == "unavailable" else None, **labels,
    )  # fmt: skip
    return Estimate(
        model, made.row, nxt, made.prob, made.alpha, reward, made.error, cut,
        _places(model, made.row, made.outcome), w_alpha, nu_alpha, unseen,
        *_unseen_rewards(counts, assumed, unseen),
        assumed.total_range if ends_pay_once(assumed) else None,
    )  # fmt: skip


def _seen_outcomes(counts: LogCounts, prior: float) -> tuple[EstimatedOutcomes, CutSteps]:
    """What was seen, and with a prior what was seen in another context from the same place."""
    M, S, A = counts.M, counts.S, counts.A
    size = S * counts.readings  # outcomes of a place
    of_row = counts.rewards_of_rows
    mean = counts.row_sums.mean[counts.row] if of_row else counts.sums.mean
    (row, outcome, n, mean, error), cut = with_cut_steps(counts, mean, _standard_errors(counts))
    if prior > 0.0:
        code, of_code = np.unique(row % (S * A) * size + outcome, return_inverse=True)
        pair, which = np.divmod(code, size)
        together = np.bincount(of_code, n)
        share = together / np.bincount(pair, together, S * A)[pair]
        visited = counts.visits.reshape(M, S * A)[:, pair] > 0  # rows never seen stay unseen
        context, at = np.nonzero(visited)
        wide_row, wide = context * (S * A) + pair[at], which[at]
        key, seen = wide_row * size + wide, row * size + outcome
        place = np.minimum(np.searchsorted(seen, key), len(seen) - 1)
        there = seen[place] == key
        n = np.where(there, n[place], 0.0)
        mean = np.where(there, mean[place], _rewards_elsewhere(counts, wide_row, wide))
        error = np.where(there, error[place], 0.0)
        row, outcome, n = wide_row, wide, n + prior * share[at]
    prob = cut.shares(row, outcome // counts.readings, n)
    return EstimatedOutcomes(row, outcome, n, prob, mean, error), cut


def _rewards_elsewhere(counts: LogCounts, row: Ints, outcome: Ints) -> Floats:
    """Rewards of outcomes never seen: the row's own where it has one reward, else the contexts'."""
    pairs, outcomes = counts.S * counts.A, counts.S * counts.readings
    own = counts.row_sums.mean[row]
    if counts.rewards_of_rows:
        return own
    place = counts.row % pairs * outcomes + counts.outcome
    size = pairs * outcomes
    if size <= 50_000_000:
        total = np.bincount(place, counts.sums.count, size)
        paid = np.bincount(place, counts.sums.count * counts.sums.mean, size)
        wanted = row % pairs * outcomes + outcome
        return paid[wanted] / np.maximum(total[wanted], 1)
    return own


def _standard_errors(counts: LogCounts) -> Floats:
    """`(n,)` of the mean reward of each outcome, pulled a little to what is usual in the log.

    An outcome's variance counts as many degrees of freedom as it has, the pooled one counts one.
    """
    sums = counts.sums
    noisy = counts.noisy
    if not noisy.any():
        return np.zeros(len(sums.count))
    spread, free = np.where(noisy, sums.spread, 0.0), np.maximum(sums.count - 1, 0)
    pooled = float(spread.sum() / max(int(free.sum()), 1))
    variance = (spread + pooled) / (free + 1)
    return np.sqrt(variance / sums.count)


def _fill_unseen(
    made: EstimatedOutcomes, counts: LogCounts, assumed: Assumptions, unseen: Ints
) -> None:
    if not len(unseen):
        return
    S, A = counts.S, counts.A
    if assumed.unseen == "refuse":
        raise _refused(counts, assumed, unseen)
    paid = counts.row_sums.count[unseen] > 0  # the outcome is unknown, the reward is not
    least, once = least_reward(counts), ends_pay_once(assumed)
    reward = np.where(paid, counts.row_sums.mean[unseen], 0.0 if once else least)
    which, read, share = counts.readings_of(unseen)
    rows, reward = unseen[which], reward[which]
    if assumed.unseen == "uniform":
        states = np.flatnonzero(np.arange(S) != (-1 if counts.end is None else counts.end))
        nxt = np.tile(states, len(rows))
        rows, read, share, reward = (np.repeat(x, len(states)) for x in (rows, read, share, reward))
        if once:
            reward = np.where((counts.final & (counts.finished > 0))[nxt], least, reward)
        made.add(rows, nxt * counts.readings + read, share / len(states), reward)
        return
    made.add(rows, rows // A % S * counts.readings + read, share, reward)


def _refused(counts: LogCounts, assumed: Assumptions, unseen: Ints) -> ModelError:
    """The error that names rows never seen, and those of which no next state was seen."""
    last_only = counts.last_steps_only[unseen]
    sentences = []
    for rows, words in (
        (unseen[~last_only], "were not"),
        (unseen[last_only], "were, but only at last steps, after which no state is known"),
    ):
        if len(rows):
            m, s, a = (
                assumed.names[f"{kind}_names"][i] if f"{kind}_names" in assumed.names else i
                for kind, i in zip(("context", "state", "action"), row_of(counts, rows[0]),
                                   strict=True)
            )  # fmt: skip
            sentences.append(
                f"{len(rows):,} of {len(counts.visits):,} {words}, first action {a!r} in state "
                f"{s!r} of context {m!r}"
            )
    return ModelError(
        "with unseen='refuse' every action must have been seen, and what followed, in every state "
        f"of every context; {'; '.join(sentences)}"
    )


def _unseen_rewards(counts: LogCounts, assumed: Assumptions, unseen: Ints) -> tuple[Floats, Floats]:
    """Bounds of what rows never seen pay: known, or between the least and the largest seen."""
    if "R" in assumed.known:
        R = known_rewards(counts, assumed)[unseen]
        return R.min(axis=1), R.max(axis=1)
    paid = counts.row_sums.count[unseen] > 0  # the outcome is unknown, the reward is not
    mean = counts.row_sums.mean[unseen]
    most = max(0.0, float(counts.sums.mean.max(initial=0.0)))
    return np.where(paid, mean, least_reward(counts)), np.where(paid, mean, most)


def ends_pay_once(assumed: Assumptions) -> bool:
    """Whether only steps into ends pay: then one that changes nothing pays 0."""
    return assumed.total_range is not None and assumed.total_range.ends_pay_once


def least_reward(counts: LogCounts) -> float:
    """What is assumed to be paid where nothing was seen: 0, or the least seen if that is less.

    With costs (negative rewards) an unknown action must not look free.
    """
    return min(0.0, float(counts.sums.mean.min(initial=0.0)))


def available(counts: LogCounts) -> np.ndarray:
    """`(S, A)` actions that were seen in every context in which anybody acted in the state.

    In a state without such an action, those seen in the most contexts are.
    """
    seen: np.ndarray = np.asarray(counts.visits > 0).reshape(counts.M, counts.S, counts.A)
    acted = seen.any(axis=2, keepdims=True)
    often = seen.sum(axis=0)
    everywhere = np.all(seen | ~acted, axis=0) & np.any(acted, axis=0)
    most = often == often.max(axis=1, keepdims=True)
    allowed = np.where(everywhere.any(axis=1, keepdims=True), everywhere, most)
    allowed[counts.final] = True
    return allowed


def _observed(counts: LogCounts, assumed: Assumptions) -> bool:
    """Whether the model's rewards are observed: as was asked for, else if they are not noisy."""
    known = "R" in assumed.known
    if assumed.rewards == "fixed" and counts.noisy.any() and not known:
        raise ModelError(
            "with rewards='fixed' one (context, state, action, next state) must always pay the "
            f"same; {int(counts.noisy.sum()):,} of {len(counts.noisy):,} have paid different "
            "rewards (rewards='noisy' estimates their means)"
        )
    if assumed.observe_rewards is False:
        return False
    noisy = bool(counts.noisy.any()) and not counts.rewards_of_rows and not known
    if noisy and assumed.observe_rewards:
        raise ModelError(
            "observed rewards must be the same each time for one (context, state, action, next "
            f"state); {int(counts.noisy.sum()):,} outcomes have several (observe_rewards=False "
            "takes their means as hidden rewards)"
        )
    return not noisy


def _paid(made: EstimatedOutcomes, nxt: Ints, counts: LogCounts, assumed: Assumptions) -> Floats:
    """The rewards of outcomes; those given as known take the place of what was seen."""
    if "R" not in assumed.known:
        return made.reward
    R = known_rewards(counts, assumed)
    made.error[:] = 0.0
    return R[made.row, nxt if R.shape[1] > 1 else 0]


def known_rewards(counts: LogCounts, assumed: Assumptions) -> Floats:
    """`(rows, 1)` or `(rows, S)` rewards that are known."""
    M, A = counts.M, counts.A
    S = counts.S - (counts.end is not None)
    R = floats("known['R']", assumed.known["R"])
    if R.shape not in ((M, S, A), (M, S, A, S)):
        raise ModelError(
            f"known['R'] must have the shape {(M, S, A)} or {(M, S, A, S)}, as the names of "
            f"contexts, states and actions are sorted; it is {R.shape}"
        )
    if S < counts.S:  # nothing is paid at the end
        width = [(0, 0), (0, 1), (0, 0)] + ([(0, 1)] if R.ndim == 4 else [])
        R = np.pad(R, width)
    return R.reshape(M * counts.S * A, -1)


def _weights(counts: LogCounts, assumed: Assumptions) -> tuple[Floats, Floats | None]:
    if "w" in assumed.known:
        w = floats("known['w']", assumed.known["w"])
        if w.shape != (counts.M,):
            raise ModelError(f"known['w'] must have the shape ({counts.M},); it is {w.shape}")
        return w, None
    alpha = counts.starts.sum(axis=1) + assumed.prior / counts.M
    return alpha / alpha.sum(), alpha


def _first_states(counts: LogCounts, assumed: Assumptions) -> tuple[Floats, Floats | None]:
    if "nu" in assumed.known:
        nu = floats("known['nu']", assumed.known["nu"])
        S = counts.S - (counts.end is not None)
        if nu.shape != (counts.M, S):
            raise ModelError(f"known['nu'] must have the shape {(counts.M, S)}; it is {nu.shape}")
        return np.pad(nu, [(0, 0), (0, counts.S - S)]), None
    pooled = counts.starts.sum(axis=0)
    alpha = counts.starts + assumed.prior * pooled / pooled.sum()
    alpha = np.where(alpha.sum(axis=1, keepdims=True) > 0, alpha, pooled)  # no episode: as others
    return alpha / alpha.sum(axis=1, keepdims=True), alpha


def _places(model: LatentMDP, row: Ints, outcome: Ints) -> Ints:
    """Where the model's outcomes are among those it was made from."""
    rows = np.arange(len(model.indptr) - 1)
    source = rows if model.allowed is None else substitute_rows(model.allowed, model.M)
    size = model.S * model.readings
    own = np.repeat(source, np.diff(model.indptr)) * size
    own += model.next * model.readings + model.reading
    key = row * size + outcome
    order = np.argsort(key, kind="stable")
    return order[np.searchsorted(key[order], own)]
