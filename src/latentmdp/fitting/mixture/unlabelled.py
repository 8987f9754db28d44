"""Logs in which the context of some or all episodes was never written down.

A mixture of MDPs (`mixture.py`) says which context each episode probably had; every episode gets
the most likely one, and from there on the log is counted like any other. So what comes out rests on
guessed labels: intervals do not know how sure those guesses are, and nothing guarantees that the
contexts found are the true ones. All episodes are held in memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from latentmdp.csr import Floats, Ints
from latentmdp.errors import MixtureWarning, ModelError
from latentmdp.fitting.mixture.expectation_maximisation import EpisodeCounts, Mixture, fit_mixture
from latentmdp.fitting.mixture.verdict import mixture_verdict
from latentmdp.fitting.reading.coding import LogNames
from latentmdp.fitting.reading.columns import Columns
from latentmdp.fitting.reading.episodes import ENDED, Episodes, Reading
from latentmdp.fitting.reading.options import ReadingOptions
from latentmdp.fitting.reading.reader import read_episodes
from latentmdp.fitting.reading.sources import open_log
from latentmdp.fitting.reading.tally import Tally
from latentmdp.model.horizons import checked_whole
from latentmdp.model.rows import rank_rewards

MOST_REWARDS = 50  # different rewards in a log that count as evidence; more are taken as noise
PRIOR = 0.1  # visits added to each outcome of each context: keeps rare outcomes possible


def read_unlabelled(
    log: Any,
    asked: Columns,
    known: Mapping[str, Any],
    horizon: int | None,
    discount: float,
    chunk_rows: int,
    contexts: int | None,
    seed: int,
    options: ReadingOptions,
) -> tuple[Reading, Tally, Mixture]:
    """Read a log, guess the contexts that are missing, and count it."""
    source = open_log(log, checked_whole("chunk_rows", chunk_rows, 1))
    header = source.header()
    if asked.context not in header:
        asked = replace(asked, context=None)
    reading = Reading(asked.found_in(header), LogNames.given(dict(known), options), options)
    parts = list(read_episodes(source, reading, unlabelled=True))
    labels = np.concatenate([part.context for part in parts]) if parts else np.zeros(0, np.int64)
    if not len(labels):
        sentences = reading.problems.sentences
        raise ModelError("; ".join(("a log must have at least one episode", *sentences)))
    wanted = _number_of_contexts(contexts, reading, len(labels))
    data = episode_counts(parts, len(reading.names.states), len(reading.names.actions))
    mixture = fit_mixture(data, wanted, seed, prior=PRIOR, labels=labels)
    mixture = replace(mixture, verdict=mixture_verdict(data, mixture, seed, labels))
    if mixture.verdict is not None and not mixture.verdict.shown:
        warnings.warn(str(mixture.verdict), MixtureWarning, stacklevel=3)
    _name_contexts(reading, wanted)
    guessed = mixture.membership.argmax(axis=1)
    tally, first = Tally(horizon, discount), 0
    for part in parts:
        tally.add(replace(part, context=guessed[first : first + len(part)]))
        first += len(part)
    return reading, tally, mixture


def episode_counts(parts: Sequence[Episodes], states: int, actions: int) -> EpisodeCounts:
    """What each episode showed: its first state, and what came of each `(state, action)`.

    An outcome is the next state with its reward, where the log has few different rewards; with
    many, rewards are noise and only the next state counts. Last steps without a next state say
    nothing, unless the episode ended there for good.
    """
    first = np.concatenate([part.state[part.indptr[:-1]] for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    owner = np.repeat(np.arange(len(lengths)), lengths)
    state, action, reward, nxt = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("state", "action", "reward", "next")
    )
    ended = np.concatenate([part.stop == ENDED for part in parts])
    last = np.cumsum(lengths) - 1
    nxt = nxt.copy()
    nxt[last[ended & (nxt[last] < 0)]] = states  # the end, as a state of its own
    seen = nxt >= 0
    kind = _reward_kinds(reward)
    pair = state * actions + action
    code = ((pair * (states + 1) + nxt) * (kind.max(initial=0) + 1) + kind)[seen]
    outcomes, column = np.unique(code, return_inverse=True)
    group_of = outcomes // ((kind.max(initial=0) + 1) * (states + 1))
    _, group = np.unique(group_of, return_inverse=True)
    starts, start_column = np.unique(first, return_inverse=True)
    rows = np.concatenate([np.arange(len(lengths)), owner[seen]])
    columns = np.concatenate([start_column, len(starts) + column])
    shape = (len(lengths), len(starts) + len(outcomes))
    counts = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    counts.sum_duplicates()
    return EpisodeCounts(counts, np.concatenate([np.zeros(len(starts), np.int64), 1 + group]))


def _reward_kinds(reward: Floats) -> Ints:
    """The number of each reward among the log's, or 0 for all where there are too many."""
    kind = rank_rewards(np.zeros(len(reward), dtype=np.int64), reward)
    return kind if kind.max(initial=0) < MOST_REWARDS else np.zeros_like(kind)


def _number_of_contexts(contexts: int | None, reading: Reading, episodes: int) -> int:
    labelled = len(reading.names.contexts)
    if contexts is None:
        raise ModelError(
            "without a column of contexts their number must be given: contexts=3, say (fit several "
            "and compare fit.mixture.bic, the smaller the better)"
        )
    wanted = checked_whole("contexts", contexts, 1)
    if wanted < labelled:
        raise ModelError(
            f"contexts must be at least {labelled}, the labels of the log; it is {wanted}"
        )
    if wanted > episodes:
        raise ModelError(f"contexts must be at most {episodes}, the episodes; it is {wanted}")
    return wanted


def _name_contexts(reading: Reading, wanted: int) -> None:
    """Names for contexts that have none: `type 1`, `type 2`, ... by weight."""
    names = reading.names.contexts
    width, number = len(str(wanted)), 0
    while len(names) < wanted:
        number += 1
        names.number(f"type {number:0{width}d}")
