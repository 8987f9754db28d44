"""A POMDP with all its states in one list: what `.pomdp` and `.pomdpx` are read into.

`from_pomdp` makes a latent MDP of it; `hidden_static` says what stands against that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.formats.pomdp.rules import Csr, digits
from latentmdp.model.repair import Repairs
from latentmdp.model.rows import sum_tolerance

SUM_TOLERANCE = 1e-5
"""How far printed probabilities may be from summing to 1; they are then divided by their sum.

pomdp-solve accepts as much; published files have six digits.
"""


@dataclass(frozen=True)
class Variable:
    """A variable of a `.pomdpx` file, or, without a name, all of the state in a `.pomdp` file."""

    name: str
    values: Sequence[str]
    is_seen: bool  # declared as fully observable

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Pomdp:
    """Sparse and checked. State `s` stands for values of the `variables`, the last one fastest.

    `label` is what an agent sees after a step: the observation, and the values of variables that
    are fully observable. Such variables come first in the list. Rewards are not seen.
    """

    variables: tuple[Variable, ...]
    actions: Sequence[str]
    labels: Sequence[str]
    discount: float
    start: Floats  # (S,) the first state
    first_label: Ints  # (S,) what is seen of the first state: a number, the same if it looks alike
    T: Csr  # (A * S, S) next states; row a * S + s
    Z: Csr  # (A * S, L) labels; row a * S + next
    reward: Callable[[Ints, Ints, Ints, Ints], Floats]  # by (action, state, next, label)

    @property
    def S(self) -> int:
        """Number of states."""
        return len(self.start)

    @property
    def A(self) -> int:
        """Number of actions."""
        return len(self.actions)

    @property
    def hidden(self) -> int:
        """Number of joint values of the variables that are not fully observable."""
        return int(np.prod([len(v) for v in self.variables if not v.is_seen], dtype=np.int64))

    def values(self, state: int) -> list[str]:
        """The value of every variable in a state."""
        index = digits(np.array(state), [len(v) for v in self.variables])
        return [v.values[int(i)] for v, i in zip(self.variables, index, strict=True)]

    def columns(self) -> list[Ints]:
        """`(S,)` for every variable: its value, as a number, in each state."""
        return digits(np.arange(self.S), [len(v) for v in self.variables])


def distributions(matrix: Csr, name_of_row: Callable[[int], str], repairs: Repairs) -> Csr:
    """The rows as probabilities: at least 0, with a sum of 1 (to five digits; then repaired).

    What is further from 1 is repaired as far as the caller allows.
    """
    start, column, value = matrix
    length = np.diff(start)
    if (value < 0.0).any():
        k = int(np.argmax(value < 0.0))
        row = int(np.searchsorted(start, k, side="right")) - 1
        raise ModelError(
            f"{name_of_row(row)} must have probabilities of at least 0; it has {value[k]:.6g}"
        )
    total = np.zeros(len(length))
    (filled,) = np.nonzero(length)
    if len(filled):
        with np.errstate(over="ignore"):
            total[filled] = np.add.reduceat(value, start[filled])
    repairs.divisors(total, SUM_TOLERANCE, name_of_row)  # refuses, or counts what is divided here
    repaired = np.where(np.abs(total - 1.0) > sum_tolerance(length), total, 1.0)
    return Csr(start, column, value / np.repeat(repaired, length))


def distribution(values: Floats, name: str, repairs: Repairs) -> Floats:
    """One row of probabilities, checked in the same way."""
    (column,) = np.nonzero(values)
    row = Csr(np.array([0, len(column)]), column, values[column])
    checked = np.zeros(len(values))
    checked[column] = distributions(row, lambda _: name, repairs).value
    return checked
