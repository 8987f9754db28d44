"""Contexts that nobody wrote down: a mixture of MDPs fitted by expectation maximisation (EM).

An episode in context `m` draws its first state and its next states (with the rewards, where they
are seen) from distributions of that context; which actions were played does not depend on the
context once the past is given. So the likelihood of an episode is, up to the actions' share,
`sum_m w_m prod_j theta[m, j] ** counts[episode, j]`, where an outcome `j` is one first state or one
way in which one `(state, action)` can go on, and `theta[m]` sums to 1 over the outcomes of a group.

EM climbs the log-likelihood (with `prior > 0`: the log-posterior); every step is checked not to
lower it. It finds a local maximum, the best of several starts: the first one from a clustering of
the episodes (`clustering.py`), the others at random. There is no guarantee that this is the truth:
docs/how_to_fit.md measures when it is, and `mixture_verdict.py` says whether the data show it.
Episodes whose context is known keep it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.fitting.mixture.clustering import clustered

if TYPE_CHECKING:
    from latentmdp.fitting.mixture.verdict import MixtureVerdict

UNKNOWN = -1
SURE = 0.9  # how sure EM is at first that an episode belongs to its cluster
TINY = 1e-290  # an outcome that a mixture has not seen is unlikely in all contexts alike
MAX_STEPS = 2000
ROUNDING = 1e-9  # of the objective: how far rounding may lower it in one step


class EpisodeCounts(NamedTuple):
    """What each episode showed, as counts of outcomes."""

    counts: csr_array  # (E, J) how often episode e showed outcome j
    group: Ints  # (J,) outcomes with one group are alternatives: their probabilities sum to 1

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.group.max(initial=-1)) + 1


@dataclass(frozen=True)
class Mixture:
    """A fitted mixture: weights, outcome probabilities, and who probably belonged where."""

    w: Floats  # (M,)
    theta: Floats  # (M, J)
    membership: Floats  # (E, M) probability of each context given the whole episode
    log_likelihood: float  # of all episodes; a known context counts as observed
    objective: tuple[float, ...]  # after each step of EM: the log-likelihood and the prior's share
    parameters: int  # free ones, for the BIC
    verdict: MixtureVerdict | None = None  # whether the data show so many contexts

    @property
    def contexts(self) -> int:
        """Number of contexts."""
        return len(self.w)

    @property
    def bic(self) -> float:
        """Bayesian information criterion, `-2 log-likelihood + parameters log(episodes)`."""
        return -2.0 * self.log_likelihood + self.parameters * math.log(len(self.membership))


def fit_mixture(
    data: EpisodeCounts,
    contexts: int,
    seed: int = 0,
    starts: int = 10,
    prior: float = 0.0,
    labels: Ints | None = None,
    tolerance: float = 1e-8,
) -> Mixture:
    """The best of `starts` runs of EM: the first from a clustering, others from random memberships.

    `labels (E,)`: the context of episodes whose context is known, `UNKNOWN` elsewhere. `prior` adds
    that many visits to each outcome of each context. A run ends when a step gains less than
    `tolerance` of the objective. Without labels the contexts come in the order of their weight, the
    largest first.
    """
    _check(data, contexts, starts, prior, labels)
    known = np.full(data.counts.shape[0], UNKNOWN) if labels is None else np.asarray(labels)
    best: Mixture | None = None
    for number, stream in enumerate(np.random.SeedSequence(seed).spawn(starts)):
        rng = np.random.default_rng(stream)
        if number == 0:
            membership = _clustered(data, contexts, rng)
        else:
            membership = rng.dirichlet(np.full(contexts, 0.3), size=len(known))
        found = _climb(data, _with_labels(membership, known), known, prior, tolerance)
        if best is None or found.objective[-1] > best.objective[-1]:
            best = found
        if (known != UNKNOWN).all():
            break  # nothing is left to guess
    assert best is not None
    return _in_order(best, known)


def held_out_likelihood(
    data: EpisodeCounts,
    contexts: int,
    folds: int = 5,
    seed: int = 0,
    prior: float = 0.5,
    starts: int = 10,
) -> float:
    """Mean log-likelihood of an episode that was not used to fit, over `folds` parts of the log.

    `prior` must be above 0, or one new outcome makes an episode impossible.
    """
    return float(held_out_likelihoods(data, contexts, folds, seed, prior, starts).mean())


def held_out_likelihoods(
    data: EpisodeCounts,
    contexts: int,
    folds: int = 5,
    seed: int = 0,
    prior: float = 0.5,
    starts: int = 10,
    tolerance: float = 1e-8,
) -> Floats:
    """`(E,)` log-likelihood of each episode by a mixture of the other folds; see the mean above.

    What a context was not seen to do is estimated as all contexts together do it: its frequencies
    count beside `prior` visits that go as those of the whole log.
    """
    if prior <= 0.0:
        raise ModelError(f"prior must be above 0 for held-out episodes; it is {prior}")
    episodes = data.counts.shape[0]
    if not 2 <= folds <= episodes:
        raise ModelError(
            f"folds must be from 2 to the number of episodes, {episodes}; it is {folds}"
        )
    order = np.random.default_rng(np.random.SeedSequence(seed)).permutation(episodes)
    found = np.empty(episodes)
    for part in range(folds):
        out = np.zeros(episodes, dtype=bool)
        out[order[part::folds]] = True
        training = data._replace(counts=data.counts[~out])
        mixture = fit_mixture(training, contexts, seed, starts, prior, tolerance=tolerance)
        theta = _backed_off(training, mixture.membership, prior)
        found[out] = _log_sum(_joint(data.counts[out], mixture.w, theta))
    return found


def memberships(data: EpisodeCounts, mixture: Mixture) -> Floats:
    """`(E, M)` probability of each context given the whole episode, by a mixture fitted before."""
    theta = np.where(mixture.theta > 0.0, mixture.theta, TINY)  # outcomes that it has not seen
    joint = _joint(data.counts, mixture.w, theta)
    found: Floats = np.exp(joint - _log_sum(joint)[:, None])
    return found


def _clustered(data: EpisodeCounts, contexts: int, rng: np.random.Generator) -> Floats:
    """`(E, M)` memberships by clusters of episodes, each cut at random into two disjoint halves."""
    half = data.counts.copy()
    half.data = rng.binomial(data.counts.data.astype(np.int64), 0.5).astype(np.float64)
    label = clustered((half, csr_array(data.counts - half)), data.group, contexts, rng)
    return SURE * np.eye(contexts)[label] + (1.0 - SURE) / contexts


def _backed_off(data: EpisodeCounts, membership: Floats, prior: float) -> Floats:
    """`(M, J)` outcome probabilities, `prior` visits of each group as in all contexts together."""
    size = np.bincount(data.group, minlength=data.groups)[data.group]
    total = np.asarray(data.counts.sum(axis=0)).reshape(-1)
    pooled = total + prior / size
    pooled /= np.bincount(data.group, pooled, data.groups)[data.group]
    visits = (data.counts.T @ membership).T + prior * pooled
    return np.stack([row / np.bincount(data.group, row, data.groups)[data.group] for row in visits])


def _climb(
    data: EpisodeCounts, membership: Floats, known: Ints, prior: float, tolerance: float
) -> Mixture:
    """EM from given memberships until it stops gaining."""
    objective: list[float] = []
    while True:
        w, theta = _maximise(data, membership, prior)
        joint = _joint(data.counts, w, theta)
        labelled = np.flatnonzero(known != UNKNOWN)
        others = np.arange(joint.shape[1]) != known[labelled, None]
        joint[labelled] = np.where(others, -np.inf, joint[labelled])
        per_episode = _log_sum(joint)
        likelihood = float(per_episode.sum())
        with np.errstate(divide="ignore"):
            penalty = prior * float(np.log(theta).sum()) if prior > 0.0 else 0.0
        objective.append(likelihood + penalty)
        membership = np.exp(joint - per_episode[:, None])
        if len(objective) > 1:
            gain, size = objective[-1] - objective[-2], 1.0 + abs(objective[-1])
            assert gain >= -ROUNDING * size, f"EM lowered the likelihood by {-gain}"
            if gain <= tolerance * size:
                break
        if len(objective) == MAX_STEPS:
            break
    free = (len(w) - 1) + len(w) * (theta.shape[1] - data.groups)
    return Mixture(w, theta, membership, likelihood, tuple(objective), free)


def _maximise(data: EpisodeCounts, membership: Floats, prior: float) -> tuple[Floats, Floats]:
    """The weights and outcome probabilities that suit these memberships best."""
    w = membership.mean(axis=0)
    visits = (data.counts.T @ membership).T + prior  # (M, J) expected counts
    total = np.array([np.bincount(data.group, row, data.groups) for row in visits])
    size = np.bincount(data.group, minlength=data.groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        theta = visits / total[:, data.group]
    return w, np.where(total[:, data.group] > 0.0, theta, 1.0 / size[data.group])


def _joint(counts: csr_array, w: Floats, theta: Floats) -> Floats:
    """`(E, M)` log probability of the context and all that the episode showed."""
    with np.errstate(divide="ignore"):
        log_w, log_theta = np.log(w), np.log(theta)
    # Where theta is 0 the logarithm is -inf; sparse products touch seen outcomes alone.
    return np.asarray(counts @ log_theta.T) + log_w


def _log_sum(joint: Floats) -> Floats:
    """`(E,)` the logarithm of the sum of exponentials; -inf where all are."""
    top = joint.max(axis=1)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        found: Floats = np.log(np.exp(joint - safe[:, None]).sum(axis=1)) + safe
    return found


def _with_labels(membership: Floats, known: Ints) -> Floats:
    sure = known != UNKNOWN
    membership[sure] = np.eye(membership.shape[1])[known[sure]]
    return membership


def _in_order(found: Mixture, known: Ints) -> Mixture:
    """Contexts in the order of their weight; where there are labels, they keep their numbers."""
    if (known != UNKNOWN).any():
        return found
    order = np.argsort(-found.w, kind="stable")
    return replace(
        found, w=found.w[order], theta=found.theta[order], membership=found.membership[:, order]
    )


def _check(
    data: EpisodeCounts, contexts: int, starts: int, prior: float, labels: Ints | None
) -> None:
    episodes, outcomes = data.counts.shape
    if episodes == 0:
        raise ModelError("a mixture needs at least one episode; there is none")
    if not 1 <= contexts <= episodes:
        raise ModelError(
            f"contexts must be from 1 to the number of episodes, {episodes}; it is {contexts}"
        )
    if starts < 1:
        raise ModelError(f"starts must be at least 1; it is {starts}")
    if not 0.0 <= prior < math.inf:
        raise ModelError(f"prior must be finite and at least 0; it is {prior}")
    if data.group.shape != (outcomes,):
        raise ModelError(f"group must have {outcomes} entries, one per outcome")
    if labels is not None:
        wrong = (np.asarray(labels) < UNKNOWN) | (np.asarray(labels) >= contexts)
        if np.shape(labels) != (episodes,) or wrong.any():
            raise ModelError(
                f"labels must be {episodes} contexts from 0 to {contexts - 1}, or {UNKNOWN} where "
                "the context is not known"
            )
