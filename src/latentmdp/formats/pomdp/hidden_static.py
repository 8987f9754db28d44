"""POMDPs that are latent MDPs: the hidden part never changes, and the rest is observed.

States are divided into classes without transitions between them. Within a class, the last
observation (the label) must determine the state: then the classes are the contexts of a latent MDP,
and the labels its states. A noisy reading of a constant is part of the label, so it needs no
special case.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from latentmdp.csr import Ints
from latentmdp.errors import ModelError
from latentmdp.formats.pomdp.factored import JointValues
from latentmdp.formats.pomdp.flat import Pomdp
from latentmdp.formats.pomdp.rules import Allowance, Csr

NOWHERE = -1  # a label that a class never shows


@dataclass(frozen=True)
class Classes:
    """What never mixes: `shown[c, label]` is the state that a label shows in class `c`."""

    shown: Ints  # (classes, labels) or NOWHERE
    of_first: Ints  # (first states,) the class of each state in which the POMDP can start
    names: list[str]


def find_classes(p: Pomdp, allowance: Allowance) -> Classes:
    """The classes of a POMDP; ModelError names a hidden variable that changes."""
    found = _by_variables(p, allowance) or _by_components(p, allowance)
    return found or _by_first_states(p, allowance)


def _by_variables(p: Pomdp, allowance: Allowance) -> Classes | None:
    """By the values of hidden variables that never change, if labels show all the rest.

    All values that the file declares are kept, also what can never come about.
    """
    if [v.is_seen for v in p.variables] == [False]:
        return None
    moves = _Moves(p)
    static = [
        i
        for i, column in enumerate(p.columns())
        if not p.variables[i].is_seen and (column[moves.before] == column[moves.after]).all()
    ]
    values = JointValues([p.variables[i].values for i in static])
    of_state = np.zeros(p.S, dtype=np.int64)
    for i in static:
        of_state = of_state * len(p.variables[i]) + p.columns()[i]
    allowance.check(len(values) * len(p.labels), f"{len(values)} contexts x labels")
    rows = np.arange(p.A * p.S)
    state, label = _states_and_labels(p, rows)
    if len(np.unique(state * len(p.labels) + label)) > p.S:
        rows = _entered(p, np.arange(p.S))  # what is seen is not only the state's own look
    shown, unclear = _shown(p, rows, of_state, len(values))
    if unclear is not None:
        return None
    return Classes(shown, of_state[np.flatnonzero(p.start)], list(values))


def _by_components(p: Pomdp, allowance: Allowance) -> Classes | None:
    """Sets of reachable states that no transition leaves, if labels show all the rest."""
    first = np.flatnonzero(p.start)
    members = np.sort(_Reach(p).of(first))
    rows = _rows(p, members)
    which, k = p.T.entries(rows)
    links = csr_array(
        (np.ones(len(k)), (rows[which] % p.S, p.T.column[k])), shape=(p.S, p.S)
    )  # fmt: skip
    component = connected_components(links, directed=True, connection="weak")[1][members]
    _, example, number = np.unique(component, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(example))  # classes are numbered by their first states
    of_state = np.full(p.S, NOWHERE)
    of_state[members] = rank[number.reshape(-1)]
    allowance.check(len(rank) * len(p.labels), f"{len(rank)} contexts x {len(p.labels)} labels")
    shown, unclear = _shown(p, _entered(p, members), of_state, len(rank))
    if unclear is not None:
        return None
    names = [", ".join(p.values(int(s))) for s in members[np.sort(example)]]
    return Classes(shown, of_state[first], names)


def _by_first_states(p: Pomdp, allowance: Allowance) -> Classes:
    """A class for each first state, which may lead to the same states later; or a refusal."""
    first, reach = np.flatnonzero(p.start), _Reach(p)
    of_state = np.zeros(p.S, dtype=np.int64)
    tables = []
    for s in first:
        members = reach.of(np.array([s]))
        shown, unclear = _shown(p, _entered(p, members), of_state, 1)
        if unclear is not None:
            raise ModelError(_what_moves(p, members, unclear))
        tables.append(shown)
        allowance.check(len(tables) * len(p.labels), f"{len(first)} first states x labels")
    names = [", ".join(p.values(int(s))) for s in first]
    return Classes(np.vstack(tables), np.arange(len(first)), names)


# ---------------------------------------------------------------------- transitions


class _Moves:
    """All transitions: `action`, and the states `before` and `after`."""

    def __init__(self, p: Pomdp) -> None:
        row = np.repeat(np.arange(p.A * p.S), np.diff(p.T.start))
        self.action, self.before = np.divmod(row, p.S)
        self.after = p.T.column


class _Reach:
    """The states that can be reached from others; the cost is proportional to their number."""

    def __init__(self, p: Pomdp) -> None:
        moves = _Moves(p)
        links = csr_array((np.ones(p.T.start[-1]), (moves.before, moves.after)), shape=(p.S, p.S))
        links.sum_duplicates()
        indptr, indices = links.indptr.astype(np.int64), links.indices.astype(np.int64)
        self.links = Csr(indptr, indices, links.data)
        self.reached = np.zeros(p.S, dtype=bool)

    def of(self, first: Ints) -> Ints:
        """The first states and all states that can be reached from them."""
        found, new = [first], first
        self.reached[first] = True
        while len(new):
            following = np.unique(self.links.column[self.links.entries(new)[1]])
            new = following[~self.reached[following]]
            self.reached[new] = True
            found.append(new)
        states = np.concatenate(found)
        self.reached[states] = False
        return states


def _rows(p: Pomdp, states: Ints) -> Ints:
    """The rows `action * S + state` of these states."""
    return (np.arange(p.A)[:, None] * p.S + states).reshape(-1)


def _entered(p: Pomdp, states: Ints) -> Ints:
    """The rows `action * S + next` that can come about from these states."""
    rows = _rows(p, states)
    which, k = p.T.entries(rows)
    return np.unique(rows[which] // p.S * p.S + p.T.column[k])


# ---------------------------------------------------------------------- labels


class _Unclear(NamedTuple):
    """Two states of one class that look alike."""

    one: int
    other: int
    label: int


def _states_and_labels(p: Pomdp, rows: Ints) -> tuple[Ints, Ints]:
    """The states and labels that go together in these rows."""
    which, k = p.Z.entries(rows)
    return rows[which] % p.S, p.Z.column[k]


def _shown(p: Pomdp, rows: Ints, of_state: Ints, classes: int) -> tuple[Ints, _Unclear | None]:
    """`(classes, labels)` the state that a label shows in a class, or NOWHERE."""
    state, label = _states_and_labels(p, rows)
    L = len(p.labels)
    shown = np.full(classes * L, NOWHERE)
    place = of_state[state] * L + label
    shown[place] = state
    bad = np.flatnonzero(shown[place] != state)[:1]
    unclear = [_Unclear(int(state[k]), int(shown[place[k]]), int(label[k])) for k in bad]
    return shown.reshape(classes, L), unclear[0] if unclear else None


def _what_moves(p: Pomdp, members: Ints, unclear: _Unclear) -> str:
    """Why there is no latent MDP: a label does not tell two states of one class apart.

    Names a transition between the two; else one from a state that may stay as well and show the
    label then, too; else one into either of the two that shows it; else any that changes what they
    differ in.
    """
    one, other, label = unclear
    moves, columns = _Moves(p), p.columns()
    mine = np.isin(moves.before, members) & (moves.before != moves.after)
    differ = [i for i, column in enumerate(columns) if column[one] != column[other]]
    between = (moves.before == one) & (moves.after == other)
    between |= (moves.before == other) & (moves.after == one)
    shown = np.isin(np.arange(p.A * p.S), _rows_that_show(p, label))
    stays = np.zeros(p.A * p.S, dtype=bool)
    stays[(moves.action * p.S + moves.before)[moves.before == moves.after]] = True
    row, row_after = moves.action * p.S + moves.before, moves.action * p.S + moves.after
    unseen = stays[row] & shown[row] & shown[row_after]
    into = ((moves.after == one) | (moves.after == other)) & shown[row_after]
    changes = [(i, columns[i][moves.before] != columns[i][moves.after]) for i in differ]
    candidates = [(i, mine & between) for i in differ[:1]]
    for kind in (unseen, into, np.ones_like(into)):
        candidates += [(i, mine & kind & changed) for i, changed in changes]
    i, k = next((i, int(np.argmax(found))) for i, found in candidates if found.any())
    before, after = int(moves.before[k]), int(moves.after[k])
    variable = p.variables[i]
    what = f"the hidden variable {variable.name!r}" if variable.name else "the hidden state"
    place = [
        f"{v.name}={value}"
        for v, value in zip(p.variables, p.values(before), strict=True)
        if v.is_seen
    ]
    at = f" at {', '.join(place)}" if place else ""
    told = between | unseen
    alike = before if told[k] else {one: other, other: one}.get(after, before)
    later = "" if told[k] or into[k] else "later "
    return (
        f"it is no latent MDP: {what} must stay as it is or be seen, but action "
        f"{p.actions[int(moves.action[k])]!r}{at} leads from {p.values(before)[i]!r} to "
        f"{p.values(after)[i]!r}, and what is seen {later}({p.labels[label]!r}) does not tell"
        + (f" it from {p.values(alike)[i]!r}" if alike != before else "")
    )


def _rows_that_show(p: Pomdp, label: int) -> Ints:
    """The rows `action * S + next` of `Z` in which the label can be seen."""
    return np.searchsorted(p.Z.start, np.flatnonzero(p.Z.column == label), side="right") - 1
