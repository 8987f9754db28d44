"""Latent MDPs from files of POMDPs: `.pomdp` (Cassandra) and `.pomdpx` (SARSOP).

`hidden_static` finds the contexts and what is seen of the states. Nothing is seen of the first
state but the variables that are fully observable. If a class can start in several states that look
alike, each of them is a context of its own: it stays as well.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.formats.document import Options, build_within_limit
from latentmdp.formats.files import PathLike, as_path
from latentmdp.formats.hidden_static import NOWHERE, Classes, find_classes
from latentmdp.formats.names import Numbered
from latentmdp.formats.pomdp import Pomdp, distribution
from latentmdp.formats.pomdp_text import read_pomdp_text
from latentmdp.formats.pomdpx import read_pomdpx
from latentmdp.formats.rules import Allowance
from latentmdp.model import LatentMDP

MOST_NAMES = 10**5  # longer lists of names are left out
ROWS_AT_A_TIME = 1 << 17


@dataclass(frozen=True)
class Origin:
    """Which state of the POMDP a context and a state stand for; `.policyx` files speak of those."""

    state: Ints  # (M, S) or NOWHERE
    hidden: int  # joint values of what is not fully observable: state % hidden


def origin_of(model: LatentMDP) -> Origin | None:
    """Where a model that was read from a POMDP comes from; copies of it do not know."""
    return model.__dict__.get("_origin")


def load_pomdp(path: PathLike, options: Options) -> LatentMDP:
    """The latent MDP in a `.pomdp` file; the horizon must be given, rewards are hidden."""
    finite_horizon(options)
    pomdp = read_pomdp_text(path, options.discount)
    return latent_mdp(pomdp, options, Allowance(as_path(path).stat().st_size))


def load_pomdpx(path: PathLike, options: Options) -> LatentMDP:
    """The latent MDP in a `.pomdpx` file; the horizon must be given, rewards are hidden."""
    finite_horizon(options)
    pomdp = read_pomdpx(path, options.discount)
    return latent_mdp(pomdp, options, Allowance(as_path(path).stat().st_size))


def finite_horizon(options: Options) -> int:
    """The horizon that the caller gave; POMDP files have none."""
    if options.horizon is None:
        raise ModelError(
            "the horizon must be given (horizon=, --horizon); files of POMDPs do not hold it"
        )
    if options.horizon == np.inf:
        raise ModelError(
            "the horizon must be finite for now; give horizon= (--horizon) as a number of steps"
        )
    return options.horizon


def latent_mdp(pomdp: Pomdp, options: Options, allowance: Allowance) -> LatentMDP:
    """The POMDP as a latent MDP, or a sentence that names what moves unseen."""
    classes = find_classes(pomdp, allowance)
    return _built(pomdp, *_with_starts(pomdp, classes, allowance), options, allowance)


def _with_starts(
    p: Pomdp, classes: Classes, allowance: Allowance
) -> tuple[Ints, Floats, Ints, list[str], list[str]]:
    """`(states (M, S), start (M, S), label (S,), context names, state names)`.

    `label[x]` is the label that state `x` stands for; NOWHERE for a first state of its own.
    """
    (first,) = np.nonzero(p.start)
    shown, of_first = classes.shown, classes.of_first
    key = of_first * (int(p.first_label.max()) + 1) + p.first_label[first]
    order = np.argsort(key, kind="stable")
    first, of_first, key = first[order], of_first[order], key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    copy = np.arange(len(first)) - np.repeat(starts, np.diff(np.append(starts, len(first))))
    copies = np.ones(len(shown), dtype=np.int64)
    np.maximum.at(copies, of_first, copy + 1)
    M = int(copies.sum())
    class_of = np.repeat(np.arange(len(shown)), copies)
    context = (np.cumsum(copies) - copies)[of_first] + copy

    used = np.flatnonzero((shown != NOWHERE).any(axis=0))
    looks = np.unique(p.first_label[first])
    each = "; each first state that looks like another one is a context" * (len(shown) < M)
    allowance.check(
        M * (len(used) + len(looks)) * p.A, f"{M} contexts x {len(used)} states{each}, all rows"
    )
    states = np.hstack([shown[:, used][class_of], np.full((M, len(looks)), NOWHERE)])
    start = np.zeros(states.shape)
    label = np.append(used, np.full(len(looks), NOWHERE))
    keep = np.ones(len(label), dtype=bool)
    labels_of = _LabelsOfStates(shown[:, used])
    for i, look in enumerate(looks):
        here = p.first_label[first] == look
        m, s = context[here], first[here]
        x = labels_of.only(states, m, s)
        keep[len(used) + i] = x is None
        x = len(used) + i if x is None else x
        states[m, x], start[m, x] = s, p.start[s]
    copied = copies[class_of] > 1
    names = [classes.names[c] for c in class_of]
    for m, s in zip(context, first, strict=True):
        if copied[m]:
            names[m] = ", ".join(p.values(int(s)))
    several = len(looks) > 1
    looks_named = [
        p.labels[int(x)] if x != NOWHERE else "start" + (f" {i - len(used)}" if several else "")
        for i, x in enumerate(label)
    ] if len(label) <= MOST_NAMES and not isinstance(p.labels, Numbered) else []  # fmt: skip
    state_names = [name for name, kept in zip(looks_named, keep, strict=False) if kept]
    return states[:, keep], start[:, keep], label[keep], names, state_names


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


def _built(
    p: Pomdp, states: Ints, start: Floats, label: Ints, names: list[str], state_names: list[str],
    options: Options, allowance: Allowance,
) -> LatentMDP:  # fmt: skip
    number = np.full(len(p.labels), NOWHERE)  # of a label among the states
    number[label[label != NOWHERE]] = np.flatnonzero(label != NOWHERE)
    each = max(1, ROWS_AT_A_TIME // (states.shape[1] * p.A))
    parts, count = [], 0
    for m in range(0, len(states), each):
        parts.append(_outcomes(p, states[m : m + each], number, allowance.most - count))
        parts[-1][0][:] += m
        count += len(parts[-1][0])
    outcomes = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    del parts
    weight = start.sum(axis=1)
    first = np.where(weight[:, None] > 0.0, start, start.sum(axis=0))  # of no weight: as the others
    labels: dict[str, Any] = {}
    if not isinstance(p.actions, Numbered):
        labels["action_names"] = tuple(p.actions)
    if len(names) <= MOST_NAMES and any(names):
        labels["context_names"] = tuple(names)
    if state_names:
        labels["state_names"] = tuple(state_names)
    observed = options.observe_rewards  # in a POMDP they are not
    model = build_within_limit(
        LatentMDP.from_rows,
        (
            *outcomes, distribution(weight, "start"), first / first.sum(axis=1, keepdims=True),
            finite_horizon(options),
        ),
        {
            "n_actions": p.A,
            "observe_rewards": False if observed is None else observed,
            "discount": p.discount,
            **labels,
        },
    )  # fmt: skip
    model.__dict__["_origin"] = Origin(states, p.hidden)
    return model


def _outcomes(p: Pomdp, states: Ints, number: Ints, most: int) -> tuple[np.ndarray, ...]:
    """`(context, state, action, next, prob, reward)` of all rows of some contexts."""
    context, state, action = (
        x.reshape(-1) for x in np.indices((*states.shape, p.A), dtype=np.int64)
    )
    before = states[context, state]
    never = before == NOWHERE  # rows that nothing reaches: they stay where they are
    lost = (context[never], state[never], action[never], state[never])
    alone = (*lost, np.ones(len(lost[0])), np.zeros(len(lost[0])))
    context, state, action, before = (x[~never] for x in (context, state, action, before))
    row, k = p.T.entries(action * p.S + before)
    after = p.T.column[k]
    seen = action[row] * p.S + after
    if p.Z.count(seen) > most:
        raise ModelError(
            f"what the file describes must not be far larger than the file itself; it has more "
            f"than {most} outcomes"
        )
    i, j = p.Z.entries(seen)
    prob, label = p.T.value[k[i]] * p.Z.value[j], p.Z.column[j]
    row, after = row[i], after[i]
    reward = p.reward(action[row], before[row], after, label)
    found = (context[row], state[row], action[row], number[label], prob, reward)
    return tuple(np.concatenate(pair) for pair in zip(found, alone, strict=True))
