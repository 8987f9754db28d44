"""What logged episodes say about a policy that did not make them: importance weights.

A deterministic policy would have made an episode's first `t` steps with its own actions only if
they are the logged ones; the log made them with the probabilities of its own behaviour. The ratio
of both, `ratio_t = prod_{u<=t} 1[a_u is the policy's] / behaviour(a_u)`, turns averages over the
log into averages under the policy. With `G` an episode's total reward, all discounted:

    is    mean of ratio_end G
    wis   sum of ratio_end G / sum of ratio_end
    pdis  mean of sum_t ratio_t r_t
    dr    mean of sum_t (ratio_{t-1} v_t + ratio_t (r_t - v_t))

`is`, `pdis` and `dr` are unbiased if the behaviour is known and never rules out what the policy
plays; `wis` is biased towards the log and steadier. In `dr` (doubly robust) `v_t` is any guess of
the policy's remaining reward that does not look at `a_t` or later: here the policy's value by a
model in the episode's own context, which is known in hindsight and cannot have swayed the actions.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

from latentmdp.csr import Floats, Ints
from latentmdp.policy.graph import PolicyGraph

METHODS = ("dr", "pdis", "is", "wis", "model")
RESAMPLES = 2000
ROUNDING = 1e-12  # of the largest score: a smaller spread is rounding error
JACKKNIFE_EPISODES = 5000  # BCa leaves out one episode at a time, which takes quadratic time
BATCH = 10_000_000  # numbers drawn at once by the bootstrap


class LoggedSteps(NamedTuple):
    """Rows of a log in numbers, episode after episode, each in the order of its steps."""

    first: Ints  # (E + 1,) rows of episode e: first[e] to first[e + 1], none empty
    state: Ints  # (n,)
    action: Ints  # (n,)
    symbol: Ints  # (n,) what was seen of the reward
    next: Ints  # (n,)
    reward: Floats  # (n,)
    behaviour: Floats  # (n,) probability with which the log chose the action

    @property
    def episode(self) -> Ints:
        """`(n,)` the episode of each row."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @property
    def step(self) -> Ints:
        """`(n,)` the step of each row, from 0."""
        return np.arange(self.first[-1]) - np.repeat(self.first[:-1], np.diff(self.first))


class Replayed(NamedTuple):
    """A log as a policy would have gone through it, as far as it goes along."""

    node: Ints  # (n,) where the policy is; -1 after it has left the episode
    ratio: Floats  # (n,) ratio_t, 0 from the step at which the policy leaves on
    before: Floats  # (n,) ratio_{t-1}, 1 at first


def replay(steps: LoggedSteps, policy: PolicyGraph) -> Replayed:
    """Play the policy along all episodes at once, one step of each at a time. `O(n log E)`."""
    n, length = len(steps.state), np.diff(steps.first)
    node, ratio, before = np.full(n, -1), np.zeros(n), np.zeros(n)
    row = steps.first[:-1]  # the next row of each episode that the policy still follows
    end = steps.first[1:]
    at, weight = policy.root[steps.state[row]], np.ones(len(row))
    for step in range(int(length.max(initial=0))):
        node[row], before[row] = at, weight
        same = steps.action[row] == policy.action[at]
        weight = np.where(same, weight / steps.behaviour[row], 0.0)
        ratio[row] = weight
        on = same & (row + 1 < end)
        row, end, at, weight = row[on], end[on], at[on], weight[on]
        if len(row) == 0 or step == policy.H - 1:
            break
        at = policy.successors(at, steps.symbol[row], steps.next[row])
        row = row + 1
    return Replayed(node, ratio, before)


class Scores(NamedTuple):
    """Per episode: `weight (E,)` is ratio_end, `score (E,)` what an estimate averages."""

    weight: Floats
    score: Floats


def episode_scores(
    method: str, steps: LoggedSteps, replayed: Replayed, discount: float, value: Floats | None
) -> Scores:
    """The summands of an estimate; `value (n,)` is `v_t` where the policy still follows (`dr`)."""
    starts, factor = steps.first[:-1], discount**steps.step
    weight = replayed.ratio[steps.first[1:] - 1]
    reward = factor * steps.reward
    if method in ("is", "wis"):
        return Scores(weight, weight * np.add.reduceat(reward, starts))
    gain = replayed.ratio * reward
    if method == "dr":
        assert value is not None
        gain = gain + (replayed.before - replayed.ratio) * factor * value
    return Scores(weight, np.add.reduceat(gain, starts))


def estimate(method: str, scores: Scores) -> float:
    """The estimate; NaN where `wis` has no episode to look at."""
    if method == "wis":
        total = float(scores.weight.sum())
        return float(scores.score.sum()) / total if total > 0.0 else float("nan")
    return float(scores.score.mean())


def effective_episodes(weight: Floats) -> float:
    """`(sum W)^2 / sum W^2`: as many equally weighted episodes would say as much."""
    squares = float((weight**2).sum())
    return float(weight.sum()) ** 2 / squares if squares > 0.0 else 0.0


def bootstrap_interval(
    method: str, scores: Scores, level: float, rng: np.random.Generator
) -> tuple[float, float]:
    """An interval at `level` by resampling whole episodes (BCa, SciPy).

    Without any spread among the episodes there is nothing to resample: the estimate itself.
    """
    value = estimate(method, scores)
    spread = scores.score if method != "wis" else scores.score - value * scores.weight
    rounding = ROUNDING * float(np.abs(scores.score).max(initial=0.0))
    if len(scores.score) < 2 or not np.ptp(spread) > rounding:
        return value, value
    columns = (scores.score,) if method != "wis" else (scores.score, scores.weight)

    def statistic(*parts: Floats, axis: int = -1) -> Floats:
        if len(parts) == 1:
            return parts[0].mean(axis=axis)
        total = parts[1].sum(axis=axis)
        return parts[0].sum(axis=axis) / np.where(total > 0.0, total, np.inf)

    found = stats.bootstrap(
        columns, statistic, paired=True, vectorized=True, n_resamples=RESAMPLES,
        confidence_level=level, batch=max(1, BATCH // len(scores.score)), rng=rng,
        method="BCa" if len(scores.score) <= JACKKNIFE_EPISODES else "percentile",
    )  # fmt: skip
    return float(found.confidence_interval.low), float(found.confidence_interval.high)
