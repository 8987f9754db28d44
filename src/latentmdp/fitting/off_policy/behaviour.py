"""How the episodes of a log chose their actions, estimated from the log itself.

The probability of an action may depend on the context (known in hindsight, perhaps known to whoever
acted), on the step and on the state. Each *chain* of features refines the one before it; at every
level an action's share is smoothed towards the level above,

    p(a | cell) = (n(cell, a) + c p(a | parent)) / (n(cell) + c),

from 1/A at the top, so no action has probability 0. The chain and `c` are those with the largest
log-likelihood on held-out episodes (five folds, by a hash of the episodes' ids, so that neither
chance nor the order of rows matters). Then the same comparison tests whether the previous state,
action or reward predicts actions beyond the chosen features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from latentmdp.csr import Floats, Ints
from latentmdp.fitting.reading.episodes import Episodes
from latentmdp.model.rows import rank_rewards

CHAINS: tuple[tuple[tuple[str, ...], ...], ...] = (  # of equally good ones, the first
    ((),),
    ((), ("state",)),
    ((), ("state",), ("step", "state")),
    ((), ("state",), ("context", "state")),
    ((), ("state",), ("step", "state"), ("context", "step", "state")),
    ((), ("state",), ("context", "state"), ("context", "step", "state")),
)
HISTORY = ("previous state", "previous action", "previous reward")
SMOOTHING = (0.001, 0.01, 0.1, 0.5, 2.0, 8.0, 32.0)  # visits that the level above counts as
TIE = 1e-4  # of held-out log-likelihood per step: chains that are nearer count as equally good
FOLDS = 5
HISTORY_ERRORS = 3.0  # standard errors by which history must raise the held-out log-likelihood
HISTORY_GAIN = 1e-3  # and at least so much per step: a smaller gain cannot move weights by much
MOST_REWARDS = 50  # different rewards up to which the previous one is tested


@dataclass(frozen=True)
class Behaviour:
    """With which probability a log chose its actions, and what that rests on."""

    probability: Floats  # (n,) of the action that was taken
    features: tuple[str, ...] = ()  # what actions were taken to depend on
    smoothing: float = 0.0
    history: tuple[str, ...] = ()  # what predicts actions beyond that
    history_gain: float = 0.0  # the largest gain in held-out log-likelihood per step
    said: str = ""  # where the probabilities come from, in words

    @property
    def warning(self) -> str:
        """A sentence if actions depend on more than the features."""
        if not self.history:
            return ""
        return (
            f"the log's actions depend on more than {_words(self.features)}: the "
            f"{_words(self.history)} {'predicts' if len(self.history) == 1 else 'predict'} them "
            f"too (held-out log-likelihood +{self.history_gain:.3g} per step), so the estimated "
            "probabilities are wrong and the value may be; give the true ones by behaviour="
        )


class _Rows(NamedTuple):
    """Different rows of a log: their features, action and fold, and how often each occurs."""

    features: dict[str, Ints]
    action: Ints
    fold: Ints
    visits: Ints
    A: int


def estimated_behaviour(episodes: Episodes, actions: int) -> Behaviour:
    """Estimate the probability of each logged action; see the module. `O(n log n)`."""
    step = np.arange(len(episodes.state)) - np.repeat(episodes.indptr[:-1], episodes.lengths)
    context = episodes.context[episodes.owner]
    features = {"context": context, "step": step, "state": episodes.state}
    fold = _folds(episodes.key)[episodes.owner]
    rows, place = _distinct(features, episodes.action, fold, actions)
    known = len(np.unique(context)) > 1
    fits = [_best_smoothing(rows, chain) for chain in CHAINS if known or "context" not in chain[-1]]
    likelihood = np.array([fit.log_share @ rows.visits for fit in fits]) / len(place)
    best = fits[int(np.argmax(likelihood >= likelihood.max() - TIE))]
    chain, smoothing = best.chain, best.smoothing
    counts = [_counts(rows, level, held_out=False) for level in chain]
    probability = _smoothed(counts, rows.A, smoothing)[place]
    chosen = chain[-1]
    history, gain = _history(episodes, features, fold, actions, chain)
    said = f"estimated by {_words(chosen)}" if chosen else "estimated as the same in all states"
    if not history:
        said += ", no dependence on the previous step found"
    return Behaviour(probability, chosen, smoothing, history, gain, said)


def _history(
    episodes: Episodes,
    features: dict[str, Ints],
    fold: Ints,
    actions: int,
    chain: tuple[tuple[str, ...], ...],
) -> tuple[tuple[str, ...], float]:
    """Which of `HISTORY` predict actions of held-out episodes beyond the chain, and by how much."""
    first = episodes.indptr[:-1]
    kind = rank_rewards(np.zeros(len(episodes.reward), dtype=np.int64), episodes.reward)
    before: dict[str, Ints] = {}
    for name, column in zip(HISTORY, (episodes.state, episodes.action, kind), strict=True):
        if name != "previous reward" or kind.max(initial=0) < MOST_REWARDS:
            before[name] = np.roll(column, 1)
            before[name][first] = -1
    found: list[tuple[float, str]] = []
    for name, column in before.items():
        rows, place = _distinct({**features, name: column}, episodes.action, fold, actions)
        known = _best_smoothing(rows, chain).log_share
        wider = _best_smoothing(rows, (*chain, (*chain[-1], name))).log_share
        gain = np.add.reduceat((wider - known)[place], first)  # by episode
        error = float(gain.std()) / len(gain) ** 0.5
        per_step = float(gain.sum()) / len(episodes.state)
        if per_step > HISTORY_GAIN and gain.mean() > HISTORY_ERRORS * error:
            found.append((per_step, name))
    return tuple(name for _, name in found), max((gain for gain, _ in found), default=0.0)


def _folds(keys: Ints) -> Ints:
    """`(E,)` the fold of each episode, by the order of hashes of the ids."""
    fold = np.empty(len(keys), dtype=np.int64)
    fold[np.argsort(pd.util.hash_array(keys), kind="stable")] = np.arange(len(keys)) % FOLDS
    return fold


def _distinct(
    features: dict[str, Ints], action: Ints, fold: Ints, actions: int
) -> tuple[_Rows, Ints]:
    """The different rows, and which of them each row of the log is."""
    columns = [*features.values(), action, fold]
    code, place = np.unique(_code(columns), return_inverse=True)
    place = place.reshape(-1)
    one = np.empty(len(code), dtype=np.int64)
    one[place] = np.arange(len(place))
    chosen = {name: column[one] for name, column in features.items()}
    count = np.bincount(place, minlength=len(code))
    return _Rows(chosen, action[one], fold[one], count, actions), place


class _Fit(NamedTuple):
    chain: tuple[tuple[str, ...], ...]
    smoothing: float
    log_share: Floats  # (n,) log probability of the action by the episodes of the other folds


def _best_smoothing(rows: _Rows, chain: tuple[tuple[str, ...], ...]) -> _Fit:
    """The chain with the smoothing that makes held-out actions most likely."""
    counts = [_counts(rows, level, held_out=True) for level in chain]
    fits = [_Fit(chain, c, np.log(_smoothed(counts, rows.A, c))) for c in SMOOTHING]
    return max(fits, key=lambda fit: float(fit.log_share @ rows.visits))


def _counts(rows: _Rows, level: tuple[str, ...], *, held_out: bool) -> tuple[Floats, Floats]:
    """`(n,)` visits of the row's cell and of its action there; `held_out`: in the other folds."""
    cell = _code([np.zeros_like(rows.action), *(rows.features[name] for name in level)])
    pair = _code([cell, rows.action])
    visits, taken = (_total(code, rows.visits) for code in (cell, pair))
    if held_out:
        visits = visits - _total(_code([cell, rows.fold]), rows.visits)
        taken = taken - _total(_code([pair, rows.fold]), rows.visits)
    return visits, taken


def _smoothed(counts: Sequence[tuple[Floats, Floats]], actions: int, smoothing: float) -> Floats:
    """`(n,)` the probability of each row's action; `counts`: of each level, the coarsest first."""
    share: Floats = np.full(len(counts[0][0]), 1.0 / actions)
    for visits, taken in counts:
        share = (taken + smoothing * share) / (visits + smoothing)
    return share


def _code(columns: Sequence[Ints]) -> Ints:
    """`(n,)` a number from 0 for each different tuple, below the number of tuples."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        low = int(column.min(initial=0))
        code = code * (int(column.max(initial=0)) - low + 1) + (column - low)
        if code.max(initial=0) > len(code):
            code = np.unique(code, return_inverse=True)[1].reshape(-1)
    return code


def _total(code: Ints, count: Ints) -> Floats:
    """`(n,)` the sum of counts over the rows with the same code."""
    total: Floats = np.bincount(code, count).astype(np.float64)
    return total[code]


def _words(names: Sequence[str]) -> str:
    """
    >>> _words(("context", "step", "state"))
    'context, step and state'
    """
    if not names:
        return "nothing"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
