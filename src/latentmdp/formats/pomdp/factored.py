"""A POMDP given by variables, as in `.pomdpx`, and its conversion to one list of states.

Every variable has its own table: the first value, the next value given the action and variables of
the same or the previous step, an observation given the action and the current variables. Rewards
are a sum of tables.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from math import prod
from typing import overload

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.formats.pomdp.flat import Pomdp, Variable, distributions
from latentmdp.formats.pomdp.rules import Allowance, Csr, Rules, digits, joint_values
from latentmdp.model.repair import Repairs

Values = Mapping[str, Ints]  # by variable


@dataclass(frozen=True)
class StateVariable(Variable):
    """`name` is that of the previous step, `next_name` that of the current one."""

    next_name: str = ""


@dataclass(frozen=True)
class VariableTable:
    """The distribution of `variable` given its parents, or, without one, a reward."""

    variable: str
    parents: tuple[str, ...]
    parent_values: tuple[Sequence[str], ...]  # names, for refusals
    rules: Rules  # parents first, then the variable


@dataclass
class Factored:
    """The contents of a `.pomdpx` file; tables by the name of their variable."""

    states: list[StateVariable] = field(default_factory=list)
    actions: dict[str, Sequence[str]] = field(default_factory=dict)
    observations: dict[str, Sequence[str]] = field(default_factory=dict)
    discount: float | None = None
    first: dict[str, VariableTable] = field(default_factory=dict)  # by name
    next: dict[str, VariableTable] = field(default_factory=dict)  # by next_name
    seen: dict[str, VariableTable] = field(default_factory=dict)
    rewards: list[VariableTable] = field(default_factory=list)


class JointValues(Sequence[str]):
    """Names of joint values, the last variable fastest."""

    def __init__(self, values: Sequence[Sequence[str]]) -> None:
        self.values = values
        self.sizes = [len(v) for v in values]

    def __len__(self) -> int:
        return prod(self.sizes)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[str]: ...
    def __getitem__(self, i: int | slice) -> str | Sequence[str]:
        if isinstance(i, slice):
            return [self[k] for k in range(len(self))[i]]
        if not 0 <= i < len(self):
            raise IndexError(i)
        index = digits(np.array(i), self.sizes)
        return ", ".join(v[int(k)] for v, k in zip(self.values, index, strict=True))


def flatten(model: Factored, allowance: Allowance, repairs: Repairs) -> Pomdp:
    """All joint states in one list: variables that are seen first, the last one fastest."""
    variables = tuple(sorted(model.states, key=lambda v: not v.is_seen))
    sizes = [len(v) for v in variables]
    S, A = prod(sizes), prod(len(v) for v in model.actions.values())
    allowance.check(S * A, f"{S} joint states x {A} actions")
    row = np.arange(A * S)
    given = _split(row // S, model.actions) | _split(row % S, {v.name: v.values for v in variables})
    following, T_row, T_prob = _joined(
        [model.next[v.next_name] for v in variables], given, len(row), allowance, repairs
    )
    T_next = joint_values([following[v.next_name] for v in variables], sizes)
    first, _, first_prob = _joined(
        [model.first[v.name] for v in variables], {}, 1, allowance, repairs
    )
    start = np.zeros(S)
    start[joint_values([first[v.name] for v in variables], sizes)] = first_prob

    seen_part = prod(len(v) for v in variables if v.is_seen)
    hidden_part = S // seen_part
    readings = _informative(model, allowance, repairs)
    counts = [len(model.observations[name]) for name in readings]
    after = _split(row // S, model.actions)
    after |= _split(row % S, {v.next_name: v.values for v in variables})
    read, Z_row, Z_prob = _joined(
        [model.seen[name] for name in readings], after, A * S, allowance, repairs
    )
    reading = joint_values([read[name] for name in readings], counts) + np.zeros_like(Z_row)
    Z_label = Z_row % S // hidden_part * prod(counts) + reading

    def reward(action: Ints, state: Ints, next: Ints, label: Ints) -> Floats:
        places = _split(action, model.actions)
        places |= _split(state, {v.name: v.values for v in variables})
        places |= _split(next, {v.next_name: v.values for v in variables})
        places |= _split(label % prod(counts), {n: model.observations[n] for n in readings})
        total = np.zeros(len(action))
        for table in model.rewards:
            total += table.rules.lookup([places[name] for name in table.parents])
        return total

    assert model.discount is not None
    seen_values = [v.values for v in variables if v.is_seen]
    return Pomdp(
        variables=variables,
        actions=JointValues(list(model.actions.values())),
        labels=JointValues([*seen_values, *(model.observations[name] for name in readings)]),
        discount=model.discount,
        start=start,
        first_label=np.arange(S) // hidden_part,
        T=_by_rows(T_row, T_next, T_prob, A * S, S),
        Z=_by_rows(Z_row, Z_label, Z_prob, A * S, seen_part * prod(counts)),
        reward=reward,
    )


def _split(index: Ints, variables: Mapping[str, Sequence[str]]) -> dict[str, Ints]:
    """The value of each variable, of a joint value."""
    return dict(zip(variables, digits(index, [len(v) for v in variables.values()]), strict=True))


def _joined(
    tables: list[VariableTable], given: Values, count: int, allowance: Allowance, repairs: Repairs
) -> tuple[dict[str, Ints], Ints, Floats]:
    """All joint values of the tables' variables in each of `count` cases.

    `given[name]` has a value for each case. Returns the values, the case and the probability.
    """
    case, prob = np.arange(count), np.ones(count)
    found: dict[str, Ints] = {}
    for table in _parents_first(tables):
        matrix = _matrix(table, allowance, repairs)
        places = [found[p] if p in found else given[p][case] for p in table.parents]
        at = joint_values(places, table.rules.sizes[:-1]) + np.zeros_like(case)
        allowance.check(matrix.count(at), f"all values of {table.variable!r}")
        which, k = matrix.entries(at)
        found = {name: values[which] for name, values in found.items()}
        found[table.variable] = matrix.column[k]
        case, prob = case[which], prob[which] * matrix.value[k]
    return found, case, prob


def _matrix(table: VariableTable, allowance: Allowance, repairs: Repairs) -> Csr:
    """The table's rows as checked probabilities."""

    def name_of_row(row: int) -> str:
        where = f"the table of {table.variable!r}"
        given = JointValues(table.parent_values)[row]
        return f"{where} at {given}" if given else where

    what = f"the table of {table.variable!r}"
    return distributions(table.rules.expand(allowance, what), name_of_row, repairs)


def _parents_first(tables: list[VariableTable]) -> list[VariableTable]:
    """The tables in an order in which each comes after its parents among them."""
    left = {table.variable: table for table in tables}
    ordered: list[VariableTable] = []
    while left:
        free = [t for t in left.values() if not any(p in left for p in t.parents)]
        if not free:
            raise ModelError(
                f"variables must not depend on each other in a circle; {list(left)} do"
            )
        ordered += free
        for table in free:
            del left[table.variable]
    return ordered


def _informative(model: Factored, allowance: Allowance, repairs: Repairs) -> list[str]:
    """The observations that can depend on hidden variables, or that rewards depend on."""
    hidden = {v.next_name for v in model.states if not v.is_seen}
    for_rewards = {name for table in model.rewards for name in table.parents}
    return [
        name
        for name, table in model.seen.items()
        if name in for_rewards or _depends(table, hidden, allowance, repairs)
    ]


def _depends(
    table: VariableTable, variables: set[str], allowance: Allowance, repairs: Repairs
) -> bool:
    """Whether the distribution is not the same for all values of some of the variables."""
    axes = [i for i, parent in enumerate(table.parents) if parent in variables]
    if not axes or table.rules.sizes[-1] == 1:
        return False
    if prod(table.rules.sizes) > allowance.most:
        return True  # perhaps it does not; then there are more states than need be
    matrix = _matrix(table, allowance, copy(repairs))  # counted when the tables are joined
    dense = np.zeros(prod(table.rules.sizes))
    row = np.repeat(np.arange(len(matrix.start) - 1), np.diff(matrix.start))
    dense[row * table.rules.sizes[-1] + matrix.column] = matrix.value
    dense = dense.reshape(table.rules.sizes)
    return any((dense != dense.take([0], axis=axis)).any() for axis in axes)


def _by_rows(row: Ints, column: Ints, value: Floats, n_rows: int, n_columns: int) -> Csr:
    order = np.argsort(row * n_columns + column, kind="stable")
    start = np.zeros(n_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=n_rows), out=start[1:])
    return Csr(start, column[order], value[order])
