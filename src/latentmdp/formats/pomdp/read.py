"""Latent MDPs from files of POMDPs: `.pomdp` (Cassandra) and `.pomdpx` (SARSOP).

`hidden_static` finds the contexts and the observed part of the states. Of the first state only the
fully observable variables are seen. If a class can start in several states with the same
observation, each of them is a context of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.formats.document import Options, build_within_limit
from latentmdp.formats.pomdp.flat import Pomdp, distribution
from latentmdp.formats.pomdp.hidden_static import NOWHERE, Classes, find_classes
from latentmdp.formats.pomdp.names import Numbered
from latentmdp.formats.pomdp.pomdpx import read_pomdpx
from latentmdp.formats.pomdp.rules import Allowance
from latentmdp.formats.pomdp.text import read_pomdp_text
from latentmdp.model.horizons import WITHOUT_END
from latentmdp.model.labels import Origin
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.repair import Repairs
from latentmdp.runtime.files import PathLike, as_path

MOST_NAMES = 10**5  # longer lists of names are left out
ROWS_AT_A_TIME = 1 << 17


def load_pomdp(path: PathLike, options: Options) -> LatentMDP:
    """The latent MDP in a `.pomdp` file; by default with an infinite horizon, rewards hidden."""
    return _latent_mdp_in(path, read_pomdp_text, options)


def load_pomdpx(path: PathLike, options: Options) -> LatentMDP:
    """The latent MDP in a `.pomdpx` file; by default with an infinite horizon, rewards hidden."""
    return _latent_mdp_in(path, read_pomdpx, options)


def _latent_mdp_in(path: PathLike, read: Callable[..., Pomdp], options: Options) -> LatentMDP:
    repairs = Repairs(options.normalize)
    pomdp = read(path, options.discount, repairs)
    model = latent_mdp(pomdp, options, Allowance(as_path(path).stat().st_size))
    repairs.warn()
    return model


def chosen_horizon(options: Options, discount: float) -> int:
    """The horizon that the caller gave; POMDP files have none, so the default is infinite."""
    if options.horizon is not None:
        return options.horizon
    if discount >= 1.0:
        raise ModelError(
            "the horizon must be given (horizon=, --horizon) where the discount is 1; files of "
            "POMDPs do not hold it"
        )
    return WITHOUT_END


def latent_mdp(pomdp: Pomdp, options: Options, allowance: Allowance) -> LatentMDP:
    """The POMDP as a latent MDP; ModelError names a hidden variable that changes."""
    contexts = _contexts(pomdp, find_classes(pomdp, allowance), allowance)
    return _built(pomdp, contexts, options, allowance)


# ---------------------------------------------------------------------- contexts and first states


@dataclass(frozen=True)
class _Contexts:
    """Contexts and states of the latent MDP, in terms of the POMDP."""

    states: Ints  # (M, S) the POMDP's state, or NOWHERE
    start: Floats  # (M, S) probabilities of the first state and the context
    label: Ints  # (S,) what is seen in the state; NOWHERE for a first state like no other
    names: list[str]
    state_names: list[str]  # empty if there are none


def _contexts(p: Pomdp, classes: Classes, allowance: Allowance) -> _Contexts:
    """One context per class, or several if it can start in several states that look alike."""
    (first,) = np.nonzero(p.start)
    copy = _rank_among_equals(classes.of_first * p.S + p.first_label[first])
    copies = np.ones(len(classes.shown), dtype=np.int64)
    np.maximum.at(copies, classes.of_first, copy + 1)
    class_of = np.repeat(np.arange(len(copies)), copies)  # (M,)
    context = (np.cumsum(copies) - copies)[classes.of_first] + copy  # of each first state

    used = np.flatnonzero((classes.shown != NOWHERE).any(axis=0))
    looks = np.unique(p.first_label[first])
    M, S = len(class_of), len(used) + len(looks)
    why = "; each first state that looks like another one is a context" * (len(copies) < M)
    allowance.check(M * S * p.A, f"all rows ({M} contexts x {S} states x {p.A} actions{why})")
    states, start = np.full((M, S), NOWHERE), np.zeros((M, S))
    states[:, : len(used)] = classes.shown[:, used][class_of]
    label = np.append(used, np.full(len(looks), NOWHERE))
    keep = np.ones(S, dtype=bool)
    labels_of = _LabelsOfStates(classes.shown[:, used])
    for x, look in enumerate(looks, len(used)):
        here = p.first_label[first] == look
        m, s = context[here], first[here]
        like = labels_of.only(states, m, s)
        keep[x] = like is None
        place = x if like is None else like
        states[m, place], start[m, place] = s, p.start[s]

    names = [classes.names[c] for c in class_of]
    for m, s in zip(context, first, strict=True):
        if copies[class_of[m]] > 1:
            names[m] = ", ".join(p.values(int(s)))
    states, start, label = states[:, keep], start[:, keep], label[keep]
    return _Contexts(states, start, label, names, _state_names(p, label))


def _rank_among_equals(key: Ints) -> Ints:
    """0 for the first of each key, 1 for the second, ..."""
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    rank = np.empty(len(key), dtype=np.int64)
    rank[order] = np.arange(len(key)) - np.repeat(starts, np.diff(np.append(starts, len(key))))
    return rank


def _state_names(p: Pomdp, label: Ints) -> list[str]:
    if len(label) > MOST_NAMES or isinstance(p.labels, Numbered):
        return []
    alone = (label == NOWHERE).sum() == 1
    number = np.cumsum(label == NOWHERE) - 1
    starts = ("start" if alone else f"start {k}" for k in number)
    return [
        start if x == NOWHERE else p.labels[int(x)] for x, start in zip(label, starts, strict=True)
    ]


class _LabelsOfStates:
    """Finds a label for what a first state looks like, so that it needs no state of its own."""

    def __init__(self, table: Ints) -> None:
        self.order = np.argsort(table, axis=None, kind="stable")
        self.state = table.reshape(-1)[self.order]
        self.labels = table.shape[1]

    def only(self, states: Ints, context: Ints, state: Ints) -> int | None:
        """The one label that shows these states in these contexts; None if it is not just one."""
        for s in state:
            at = slice(*np.searchsorted(self.state, (s, s + 1)))
            labels = np.unique(self.order[at] % self.labels)
            if len(labels):
                shown = states[np.ix_(context, labels)]
                fits = ((shown == state[:, None]) | (shown == NOWHERE)).all(axis=0)
                return int(labels[fits][0]) if fits.sum() == 1 else None
        return None


# ---------------------------------------------------------------------- the model


def _built(p: Pomdp, c: _Contexts, options: Options, allowance: Allowance) -> LatentMDP:
    number = np.full(len(p.labels), NOWHERE)  # of a label among the states
    number[c.label[c.label != NOWHERE]] = np.flatnonzero(c.label != NOWHERE)
    some = max(1, ROWS_AT_A_TIME // (c.states.shape[1] * p.A))
    parts, count = [], 0
    for m in range(0, len(c.states), some):
        parts.append(_outcomes(p, c.states[m : m + some], number, allowance.less(count)))
        parts[-1][0][:] += m
        count += len(parts[-1][0])
    outcomes = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    del parts
    weight = c.start.sum(axis=1)
    first = np.where(weight[:, None] > 0.0, c.start, c.start.sum(axis=0))  # else as the others
    labels: dict[str, Any] = {}
    if not isinstance(p.actions, Numbered):
        labels["action_names"] = tuple(p.actions)
    if len(c.names) <= MOST_NAMES and any(c.names):
        labels["context_names"] = tuple(c.names)
    if c.state_names:
        labels["state_names"] = tuple(c.state_names)
    observed = options.observe_rewards  # in a POMDP they are not
    return build_within_limit(
        LatentMDP.from_rows,
        (
            *outcomes, distribution(weight, "start", Repairs()),
            first / first.sum(axis=1, keepdims=True), chosen_horizon(options, p.discount),
        ),
        {
            "n_actions": p.A,
            "observe_rewards": False if observed is None else observed,
            "discount": p.discount,
            "normalize": options.normalize,
            "origin": Origin(c.states, p.hidden),
            **labels,
        },
    )  # fmt: skip


def _outcomes(p: Pomdp, states: Ints, number: Ints, allowance: Allowance) -> tuple[np.ndarray, ...]:
    """`(context, state, action, next, prob, reward)` of all rows of some contexts."""
    context, state, action = (
        x.reshape(-1) for x in np.indices((*states.shape, p.A), dtype=np.int64)
    )
    before = states[context, state]
    never = before == NOWHERE  # rows that nothing reaches: they stay where they are
    lost = (context[never], state[never], action[never], state[never])
    alone = (*lost, np.ones(len(lost[0])), np.zeros(len(lost[0])))
    context, state, action, before = (x[~never] for x in (context, state, action, before))
    rows = action * p.S + before
    allowance.check(p.T.count(rows), "its transitions")
    row, k = p.T.entries(rows)
    after = p.T.column[k]
    rows = action[row] * p.S + after
    allowance.check(p.Z.count(rows), "its transitions with observations")
    i, j = p.Z.entries(rows)
    prob, label = p.T.value[k[i]] * p.Z.value[j], p.Z.column[j]
    row, after = row[i], after[i]
    reward = p.reward(action[row], before[row], after, label)
    found = (context[row], state[row], action[row], number[label], prob, reward)
    return tuple(np.concatenate(pair) for pair in zip(found, alone, strict=True))
