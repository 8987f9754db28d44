"""Columns of a table with one row per outcome, found by meaning, in a data frame or a CSV file."""

from typing import Any

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.tables.outcome_table import Axis, OutcomeTable, agreed, check_size

MOST_STEPS = 10**6
EXACT_WHOLE = 2**53  # floats hold all smaller whole numbers exactly


class OutcomeColumns:
    """Checked access to the columns of a data frame; errors name the column and the row."""

    frame: Any  # a pandas DataFrame
    names: dict[str, str]  # of its columns, by what they mean

    def __contains__(self, meaning: str) -> bool:
        return meaning in self.names

    def floats(self, meaning: str) -> Floats:
        """A column of finite numbers."""
        import pandas as pd

        column = self.frame[self.names[meaning]]
        try:
            if column.dtype.kind in "bc":  # truth values, complex numbers
                raise TypeError
            values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            raise self.refused(f"{self.names[meaning]!r} must hold numbers; it does not") from None
        self.refuse_where(~np.isfinite(values), meaning, "must be a finite number")
        return np.array(values)

    def wholes(self, meaning: str, below: int = MOST_STEPS) -> Ints:
        """A column of whole numbers from 0."""
        return self.checked_wholes(self.floats(meaning), meaning, below)

    def checked_wholes(self, values: Floats, meaning: str, below: int = EXACT_WHOLE) -> Ints:
        """The values of a column as whole numbers."""
        bad = ~((values >= 0) & (values < below) & (values == np.floor(values)))
        limit = f", below {below}" if below < EXACT_WHOLE else ""
        self.refuse_where(bad, meaning, f"must be a whole number from 0{limit}")
        return values.astype(np.int64)

    def refuse_where(self, bad: np.ndarray, meaning: str, rule: str) -> None:
        """Refuse the first row that breaks a rule."""
        if bad.any():
            i = int(np.argmax(bad))
            found = shown_cell(self.frame[self.names[meaning]].iloc[i])
            raise self.refused(f"{self.names[meaning]!r} {rule}; in {self.place(i)} it is {found}")

    def refused(self, sentence: str) -> ModelError:
        """The error to raise."""
        return ModelError(sentence)

    def place(self, i: int) -> str:
        """The name of a row in an error message."""
        raise NotImplementedError

    def labels(self, what: str, *meanings: str) -> tuple[Axis, list[Ints]]:
        """Columns of contexts, states or actions as numbers of one axis."""
        raise NotImplementedError


def shown_cell(cell: Any) -> str:
    """A cell in an error message."""
    if isinstance(cell, str):
        return repr(cell[:80]) if cell else "empty or missing"
    return str(cell)[:80]


def outcomes_of(table: OutcomeColumns) -> OutcomeTable:
    """The outcomes in a table, one per row."""
    states, (state, following) = table.labels("state", "state", "next_state")
    actions, (action,) = table.labels("action", "action")
    contexts, context = Axis("context", 1), np.zeros(len(state), dtype=np.int64)
    if "context" in table:
        contexts, (context,) = table.labels("context", "context")
    prob, reward = table.floats("probability"), table.floats("reward")
    table.refuse_where(prob < 0.0, "probability", "must be at least 0")
    o = OutcomeTable(context, state, action, following, prob, reward, contexts, states, actions)
    if "reading" in table:
        readings, (reading,) = table.labels("reading", "reading")
        o = o._replace(reading=reading, readings=readings)
    check_size(o)
    return o


def weight_column(table: OutcomeColumns, o: OutcomeTable) -> Floats:
    """`(M,)` from a column that is constant for each context."""
    rule = "must be the same in all rows of a context"
    w, differs = agreed(table.floats("weight"), o.context, o.contexts.size)
    table.refuse_where(differs, "weight", rule)
    return w
