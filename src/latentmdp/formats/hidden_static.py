"""The latent MDPs among POMDPs: what is hidden stays, what moves is seen.

States fall into classes between which no transition leads: the contexts. Whoever knows the context
must know the state from what was seen last (the label): then a context and a label make a state,
and the labels are the states of a latent MDP. A noisy reading of something that stays is part of
the label, so it needs no special case.

Nothing is seen of the first state but the variables that are fully observable. If a class can start
in several states that look alike, each of them is a context of its own: it stays as well.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from latentmdp.canonical import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.formats.document import Options, build_within_limit, check_horizon
from latentmdp.formats.factored import Joint
from latentmdp.formats.names import Numbered
from latentmdp.formats.pomdp import Pomdp, distribution
from latentmdp.formats.rules import Allowance
from latentmdp.model import LatentMDP

NOWHERE = -1  # a label that a context never shows
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
    check_horizon(options.horizon)
    return options.horizon


def latent_mdp(pomdp: Pomdp, options: Options, allowance: Allowance) -> LatentMDP:
    """The POMDP as a latent MDP, or a sentence that names what moves unseen."""
    found = _by_variables(pomdp, allowance) or _by_components(pomdp, allowance)
    if found is None:
        found = _by_first_states(pomdp, allowance)
    return _built(pomdp, *_with_starts(pomdp, found, allowance), options, allowance)


# ---------------------------------------------------------------------- classes


@dataclass(frozen=True)
class _Classes:
    """What never mixes: `shown[c, label]` is the state that a label shows in class `c`."""

    shown: Ints  # (classes, labels) or NOWHERE
    of_first: Ints  # (first states,) the class of each state in which the POMDP can start
    names: list[str]


class _Unclear(NamedTuple):
    """Two states of one class that look alike."""

    one: int
    other: int
    label: int


def _by_variables(p: Pomdp, allowance: Allowance) -> _Classes | None:
    """Classes by the values of hidden variables that never change, if labels show all the rest."""
    if [v.is_seen for v in p.variables] == [False]:
        return None
    before, after = _transitions(p)
    static = [
        i
        for i, column in enumerate(p.columns())
        if not p.variables[i].is_seen and (column[before] == column[after]).all()
    ]
    values = Joint([p.variables[i].values for i in static])
    of_state = np.zeros(p.S, dtype=np.int64)
    for i in static:
        of_state = of_state * len(p.variables[i]) + p.columns()[i]
    shown, unclear = _shown(p, of_state, len(values), allowance, also_unvisited=True)
    if unclear is not None:
        return None
    return _Classes(shown, of_state[np.flatnonzero(p.start)], list(values))


def _by_components(p: Pomdp, allowance: Allowance) -> _Classes | None:
    """Classes that no transition from a reachable state leaves, if labels show all the rest."""
    before, after = _transitions(p)
    first = np.flatnonzero(p.start)
    reached = _reachable(_links(p), first)
    inside = reached[before]
    links = csr_array((np.ones(inside.sum()), (before[inside], after[inside])), shape=(p.S, p.S))
    component = connected_components(links, directed=True, connection="weak")[1][reached]
    _, example, number = np.unique(component, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(example))  # classes are numbered by their first states
    of_state = np.full(p.S, NOWHERE)
    of_state[reached] = rank[number.reshape(-1)]
    shown, unclear = _shown(p, of_state, len(rank), allowance)
    if unclear is not None:
        return None
    names = [", ".join(p.values(int(s))) for s in np.flatnonzero(reached)[np.sort(example)]]
    return _Classes(shown, of_state[first], names)


def _by_first_states(p: Pomdp, allowance: Allowance) -> _Classes:
    """A class for each first state, which may lead to the same states later; or a refusal."""
    links, first = _links(p), np.flatnonzero(p.start)
    tables = []
    for s in first:
        of_state = np.where(_reachable(links, np.array([s])), 0, NOWHERE)
        shown, unclear = _shown(p, of_state, 1, allowance)
        if unclear is not None:
            raise ModelError(_what_moves(p, of_state, unclear))
        tables.append(shown)
        allowance.check(len(tables) * len(p.labels), f"{len(first)} first states")
    names = [", ".join(p.values(int(s))) for s in first]
    return _Classes(np.vstack(tables), np.arange(len(first)), names)


def _transitions(p: Pomdp) -> tuple[Ints, Ints]:
    """States before and after, of all transitions."""
    row = np.repeat(np.arange(p.A * p.S), np.diff(p.T.start))
    return row % p.S, p.T.column


def _links(p: Pomdp) -> Any:
    """The states that a state leads to, as a sparse matrix."""
    before, after = _transitions(p)
    return csr_array((np.ones(len(before)), (before, after)), shape=(p.S, p.S))


def _reachable(links: Any, first: Ints) -> np.ndarray:
    """`(S,)` which states can follow, sooner or later, on one of the first."""
    reached = np.zeros(links.shape[0], dtype=bool)
    reached[first] = True
    new = first
    while len(new):
        following = np.unique(links[new].indices)
        new = following[~reached[following]]
        reached[new] = True
    return reached


def _shown(
    p: Pomdp, of_state: Ints, classes: int, allowance: Allowance, also_unvisited: bool = False
) -> tuple[Ints, _Unclear | None]:
    """`(classes, labels)` the state that a label shows in a class, or NOWHERE.

    `of_state` has the class of each state (NOWHERE: it does not come into it). States that no
    transition enters count if asked for and if every state shows one label, whatever was done.
    """
    row = np.repeat(np.arange(p.A * p.S), np.diff(p.Z.start))
    state, label = row % p.S, p.Z.column
    L = len(p.labels)
    allowance.check(classes * L, f"{classes} contexts x {L} observations")
    always = np.full(p.S, NOWHERE)
    always[state] = label
    if not (also_unvisited and (always[state] == label).all()):
        before, after = _transitions(p)
        here = of_state[before] != NOWHERE
        arrived = np.zeros(p.A * p.S, dtype=bool)
        arrived[_action(p)[here] * p.S + after[here]] = True
        state, label = state[arrived[row]], label[arrived[row]]
    known = of_state[state] != NOWHERE
    state, label = state[known], label[known]
    shown = np.full(classes * L, NOWHERE)
    place = of_state[state] * L + label
    shown[place] = state
    bad = np.flatnonzero(shown[place] != state)[:1]
    unclear = [_Unclear(int(state[k]), int(shown[place[k]]), int(label[k])) for k in bad]
    return shown.reshape(classes, L), unclear[0] if unclear else None


def _action(p: Pomdp) -> Ints:
    """The action of each transition."""
    return np.repeat(np.arange(p.A), np.diff(p.T.start[:: p.S]))


def _what_moves(p: Pomdp, of_state: Ints, unclear: _Unclear) -> str:
    """Why there is no latent MDP: a label does not tell two states of one class apart."""
    one, other, label = unclear
    before, after = _transitions(p)
    columns = p.columns()
    differ = [i for i, c in enumerate(columns) if c[one] != c[other]]
    mine = of_state[before] == of_state[one]
    moving = [
        (i, k)
        for i in differ
        for k in np.flatnonzero(mine & (columns[i][before] != columns[i][after]))[:1]
    ]
    direct = np.flatnonzero((before == one) & (after == other))[:1]
    i, k = (differ[0], direct[0]) if len(direct) else moving[0]
    variable = p.variables[i]
    old, new = (variable.values[int(columns[i][s[k]])] for s in (before, after))
    what = f"the hidden variable {variable.name!r}" if variable.name else "the hidden state"
    place = [
        f"{v.name}={value}"
        for v, value in zip(p.variables, p.values(int(before[k])), strict=True)
        if v.is_seen
    ]
    at = f" at {', '.join(place)}" if place else ""
    return (
        f"it is no latent MDP: {what} must stay as it is or be seen, but action "
        f"{p.actions[int(_action(p)[k])]!r}{at} leads from {old!r} to {new!r}, and what is seen "
        f"({p.labels[label]!r}) does not tell"
    )


# ---------------------------------------------------------------------- contexts and first states


def _with_starts(
    p: Pomdp, classes: _Classes, allowance: Allowance
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
    allowance.check(M * (len(used) + len(looks)) * p.A, f"{M} contexts x {len(used)} states")
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
    model = build_within_limit(
        LatentMDP.from_rows,
        (
            *outcomes, distribution(weight, "start"), first / first.sum(axis=1, keepdims=True),
            finite_horizon(options),
        ),
        {
            "n_actions": p.A,
            "observe_rewards": bool(options.observe_rewards),  # they are not, in a POMDP
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
