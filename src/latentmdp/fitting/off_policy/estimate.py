"""`off_policy`: what a log says about a policy that did not make it, without trusting a model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError, OffPolicyWarning, check_share
from latentmdp.evaluation.evaluate import evaluate
from latentmdp.fitting.estimation.worth import in_model
from latentmdp.fitting.fits import END, fit_from_tally
from latentmdp.fitting.off_policy import estimators
from latentmdp.fitting.off_policy.behaviour import estimated_behaviour
from latentmdp.fitting.off_policy.estimators import METHODS, LoggedSteps, Replayed
from latentmdp.fitting.off_policy.given_behaviour import given_behaviour
from latentmdp.fitting.reading.chunks import CHUNK_ROWS
from latentmdp.fitting.reading.coding import LogNames
from latentmdp.fitting.reading.columns import Columns
from latentmdp.fitting.reading.episodes import CENSORED, Episodes, Reading
from latentmdp.fitting.reading.ids import checked_share, held_out
from latentmdp.fitting.reading.names import Names
from latentmdp.fitting.reading.options import ReadingOptions
from latentmdp.fitting.reading.reader import read_episodes
from latentmdp.fitting.reading.sources import named_log, open_log
from latentmdp.fitting.reading.tally import Tally
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.belief import reach_weights
from latentmdp.policy.graph import PolicyGraph

FEW_EPISODES = 10.0  # effective episodes below which an interval means little
NEVER_SEEN = 2**31  # the symbol of a reward that the model cannot pay: the policy forgets


@dataclass(frozen=True)
class OffPolicyEstimate:
    """A policy's value as a log has it, with an interval at `level`.

    `effective_episodes`: as many episodes made by the policy itself would say about as much.
    `warning`: a sentence where the log says little about the policy, else empty.
    """

    value: float
    lower: float
    upper: float
    level: float
    method: str
    episodes: int
    effective_episodes: float
    warning: str = ""
    behaviour: str = ""  # where the probabilities of the logged actions come from; `model`: empty

    def __str__(self) -> str:
        text = (
            f"{self.value:.6g} [{self.lower:.6g}, {self.upper:.6g}] at {self.level:.0%} "
            f"({self.method}, {self.effective_episodes:.1f} effective episodes of "
            f"{self.episodes:,}"
        )
        text += f"; behaviour {self.behaviour})" if self.behaviour else ")"
        return f"{text}; {self.warning}" if self.warning else text


def off_policy(
    log: Any,
    policy: Any,
    behaviour: Any = None,
    method: str = "dr",
    level: float = 0.95,
    *,
    model: LatentMDP | None = None,
    episode: str = "episode",
    step: str | None = None,
    state: str = "state",
    action: str = "action",
    reward: str = "reward",
    next_state: str | None = None,
    context: str | None = "context",
    terminated: str | None = None,
    truncated: str | None = None,
    discount: float | None = None,
    on_bad: str = "raise",
    duplicates: str = "refuse",
    strip: bool = False,
    casefold: bool = False,
    date_format: str | None = None,
    holdout: float = 0.0,
    seed: int = 0,
) -> OffPolicyEstimate:
    """The value of `policy` (a plan, a policy, a table of actions) by episodes of another one.

    `behaviour`: with which probability the log chose its actions: the name of a column, an array
    `(S, A)`, `(M, S, A)` or `(H, M, S, A)`, the policy that made the log, or None, which estimates
    it from the log by as much of context, step and state as makes held-out episodes most likely
    (`behaviour.py`); a warning says where actions depend on more than that. `method`: `dr` (doubly
    robust, the default), `pdis`, `is`, `wis` (`estimators.py`), or `model` (fit the log and
    evaluate there: `Fit.evaluate`). The interval is a bootstrap over episodes, for `model` from
    posterior draws.

    `model` is the policy's own by default, as `plan` gives it: names of the log are looked up
    there, rewards tell the policy what they tell in it, and `dr` takes its values as first guesses
    (a model fitted to the same log makes `dr` a little too sure). The words after it name columns,
    as in `fit`. `holdout`: ask only the episodes that `fit(..., holdout=...)` held out of the
    model. Warns, in a sentence, where few episodes go along with the policy.
    """
    if method not in METHODS:
        raise ModelError(f"method must be one of {', '.join(METHODS)}; it is {method!r}")
    check_share("level", level)
    options = ReadingOptions(on_bad, duplicates, strip, casefold, date_format)
    known = _model_of(policy, model)
    if known.readings > 1:
        raise ModelError(
            "off_policy needs a model in which nothing is read besides the next state and the "
            f"reward; this one has {known.readings} readings (fit.evaluate takes them)"
        )
    graph, filled = in_model(policy, known)
    column = behaviour if isinstance(behaviour, str) else None
    columns = Columns(
        episode, state, action, reward, context, step, next_state, terminated, truncated,
        extra=() if column is None else (column,),
    )  # fmt: skip
    factor = known.discount if discount is None else float(discount)
    with named_log(log):
        reading, parts = _read(log, columns, known, options, checked_share(holdout))
    if method == "model":
        return _by_model(reading, parts, graph, known, level, factor, seed)
    episodes = _joined(parts, columns.extra)
    symbols = _symbols(episodes, known)
    made = (
        estimated_behaviour(episodes, known.A) if behaviour is None
        else given_behaviour(episodes, symbols, behaviour, known)
    )  # fmt: skip
    steps = LoggedSteps(
        episodes.indptr, episodes.state, episodes.action, symbols, episodes.next, episodes.reward,
        made.probability,
    )  # fmt: skip
    replayed = estimators.replay(steps, graph)
    guess = _guesses(episodes, replayed, graph, known) if method == "dr" else None
    scores = estimators.episode_scores(method, steps, replayed, factor, guess)
    effective = estimators.effective_episodes(scores.weight)
    value = estimators.estimate(method, scores)
    random = np.random.default_rng(np.random.SeedSequence(seed))
    lower, upper = estimators.bootstrap_interval(method, scores, level, random)
    if effective == 0.0 and method != "dr":
        value, lower, upper = np.nan, -np.inf, np.inf
    warning = "; ".join(filter(None, (
        _warning(scores.weight, effective), made.warning, _impossible(value, known, factor),
        _cut_short(episodes, known.H), *filled, reading.caution,
    )))  # fmt: skip
    if warning:
        warnings.warn(warning, OffPolicyWarning, stacklevel=2)
    return OffPolicyEstimate(
        value, lower, upper, level, method, len(episodes), effective, warning, made.said
    )  # fmt: skip


def _model_of(policy: Any, model: LatentMDP | None) -> LatentMDP:
    if model is not None:
        return model
    found: LatentMDP | None = getattr(getattr(policy, "policy", policy), "model", None)
    if found is None:
        raise ModelError(
            "off_policy needs the model whose states and actions the policy means: "
            "model=fit.model, say (plans know theirs)"
        )
    return found


def _read(
    log: Any, columns: Columns, model: LatentMDP, options: ReadingOptions, share: float
) -> tuple[Reading, list[Episodes]]:
    """A log in the model's numbers; of a `share` that was held out, only the episodes in it."""
    source = open_log(log, CHUNK_ROWS)
    header = source.header()
    if columns.context is not None and columns.context not in header:
        columns = Columns(**columns.__dict__ | {"context": None})
    spelled = options.spelled if options.strip or options.casefold else None
    names = LogNames(*(Names(kind, fixed, True, spelled) for kind, fixed in _names(model)))
    reading = Reading(columns.found_in(header), names, options)
    parts = []
    for part in read_episodes(source, reading, unlabelled=True):
        parts.append(part.only(held_out(part.key, share)) if share else part)
    reading.refuse()
    if not sum(len(part) for part in parts):
        sentences = reading.problems.sentences
        raise ModelError("; ".join(("a log must have at least one episode", *sentences)))
    longest = max(int(part.lengths.max(initial=0)) for part in parts)
    if longest > model.H:
        raise ModelError(
            f"episodes must have at most H={model.H} steps, as the policy has; one has {longest}"
        )
    return reading, parts


def _names(model: LatentMDP) -> list[tuple[str, Any]]:
    """The names of a model's contexts, states and actions: its numbers where it has none.

    The end of episodes, which `fit` adds as the last state, is no state of a log.
    """
    states = list(model.state_names or range(model.S))
    return [
        ("context", model.context_names or range(model.M)),
        ("state", states[:-1] if states[-1] == END else states),
        ("action", model.action_names or range(model.A)),
    ]


def _joined(parts: list[Episodes], extra: tuple[str, ...]) -> Episodes:
    def whole(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    return Episodes(
        np.concatenate([[0], np.cumsum([n for part in parts for n in part.lengths])]),
        whole("key"), whole("context"), whole("stop"), whole("state"), whole("action"),
        whole("reward"), whole("next"), whole("reading"),
        {name: np.concatenate([part.extra[name] for part in parts]) for name in extra},
        whole("written"),
    )  # fmt: skip


def _symbols(episodes: Episodes, model: LatentMDP) -> Ints:
    """`(n,)` what the policy sees of each reward; each different outcome is looked up once."""
    if not model.observe_rewards:
        return np.zeros(len(episodes.state), dtype=np.int64)
    table = np.column_stack(
        [episodes.state, episodes.action, np.maximum(episodes.next, 0), episodes.reward]
    )
    distinct, place = np.unique(table, axis=0, return_inverse=True)
    found = np.array([model.symbol_of(int(s), int(a), int(n), r) for s, a, n, r in distinct])
    return np.where(found < 0, NEVER_SEEN, found)[place.reshape(-1)]


def _guesses(
    episodes: Episodes, replayed: Replayed, policy: PolicyGraph, model: LatentMDP
) -> Floats:
    """`(n,)` the policy's remaining value by the model in the episode's context, where it follows.

    Where the context is not known: the mean over contexts by the model's belief at the node.
    """
    alpha = evaluate(model, policy).alpha
    weight = reach_weights(model, policy)
    total = weight.sum(axis=1, keepdims=True)
    belief = np.where(total > 0.0, weight / np.where(total > 0.0, total, 1.0), model.w)
    context, node = episodes.context[episodes.owner], np.maximum(replayed.node, 0)
    own = alpha[node, np.maximum(context, 0)]
    guess = np.where(context >= 0, own, (belief * alpha).sum(axis=1)[node])
    return np.where(replayed.node >= 0, guess, 0.0)


def _warning(weight: Floats, effective: float) -> str:
    if effective >= FEW_EPISODES:
        return ""
    follow = int((weight > 0.0).sum())
    if follow == 0:
        return (
            f"the log says nothing about this policy: none of {len(weight):,} episodes went along "
            "with it to the end"
        )
    return (
        f"the log says little about this policy: {follow:,} of {len(weight):,} episodes went along "
        f"with it, worth {effective:.1f} of its own; do not trust the interval"
    )


def _impossible(value: float, model: LatentMDP, discount: float) -> str:
    """A sentence if no policy can be worth that in the model."""
    low, high = model.min_return, model.max_return
    margin = 1e-6 * max(abs(low), abs(high), 1.0)
    if discount != model.discount or not (value < low - margin or value > high + margin):
        return ""
    return (
        f"totals in the model lie between {low:.6g} and {high:.6g}, so {value:.6g} is impossible: "
        "a few episodes have far too large weights; do not trust the interval"
    )


def _cut_short(episodes: Episodes, horizon: int) -> str:
    """Without a model, what an episode would have earned after it was cut off is not known."""
    cut = int(((episodes.stop == CENSORED) & (episodes.lengths < horizon)).sum())
    if not cut:
        return ""
    return (
        f"{cut:,} of {len(episodes):,} episodes were cut off before the horizon, and what they "
        "would have earned after that counts as 0 (method='model' does not take it so)"
    )


def _by_model(
    reading: Reading,
    parts: list[Episodes],
    policy: PolicyGraph,
    model: LatentMDP,
    level: float,
    discount: float,
    seed: int,
) -> OffPolicyEstimate:
    """The value in the model fitted to the log."""
    if any((part.context < 0).any() for part in parts):
        raise ModelError("method='model' needs the context of every episode; some have none")
    tally = Tally(model.H, discount)
    for part in parts:
        tally.add(part)
    found = fit_from_tally(
        reading, tally, horizon=model.H, prior=0.5, unseen="self", known={},
        observe_rewards=model.observe_rewards, discount=discount,
    )  # fmt: skip
    if found.model.S != model.S:
        raise ModelError(
            "the log must end episodes as the policy's model does: it makes "
            f"{found.model.S} states, the model has {model.S}"
        )
    worth = found.evaluate(policy, level, seed=seed)
    return OffPolicyEstimate(
        worth.value, worth.lower, worth.upper, level, "model", found.episodes, float(found.episodes)
    )
