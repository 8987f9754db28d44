"""Models from pandas: one row per outcome; see `LatentMDP.from_frame`."""

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.tables.outcome_table import (
    Axis,
    Outcomes,
    agreed,
    build_by_step,
    check_names,
    check_size,
    first_probabilities,
    first_states,
    label_text,
    weights,
)

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP

COLUMNS = ("context", "state", "action", "next_state", "probability", "reward")
OPTIONAL = ("weight", "first", "step")  # of the context; of the first state; where rows change
MOST_STEPS = 10**6


def frame_model(
    frame: Any, horizon: Any, columns: dict[str, str | None], w: Any, start: Any, nu: Any,
    options: dict[str, Any],
) -> "LatentMDP":  # fmt: skip
    """See `LatentMDP.from_frame`."""
    table = _Table(frame, columns)
    outcomes = _outcomes(table)
    if w is None and "weight" in table:
        w = _weight_column(table, outcomes)
    nu = _first(table, outcomes, start, nu)
    step = table.wholes("step") if "step" in table else None
    w = weights(w, outcomes.contexts)
    return build_by_step(outcomes, step, w, nu, horizon, **options)


def _first(table: "_Table", outcomes: Outcomes, start: Any, nu: Any) -> Floats:
    if nu is not None and start is not None:
        raise ModelError("the first state must be given once: nu= or start=, not both")
    if nu is not None:
        return first_probabilities(nu, outcomes)
    if start is not None:
        return first_states(start, outcomes)
    if "first" in table:
        return _first_column(table, outcomes)
    raise ModelError(
        "the first state must be given: start= (a state, or a mapping from states to "
        "probabilities), nu= (an array), or a column 'first' with its probability in the context "
        f"(found {table.found()})"
    )


class _Table:
    """Columns of a frame by what they mean; every refusal names the column and the row."""

    def __init__(self, frame: Any, columns: dict[str, str | None]) -> None:
        import pandas as pd  # loads slowly

        if not isinstance(frame, pd.DataFrame):
            raise ModelError(
                f"from_frame needs a pandas DataFrame; it was given a {type(frame).__name__}"
            )
        if len(frame) == 0:
            raise ModelError("the frame must have one row per outcome; it has no rows")
        wanted = {name for name in columns.values() if name is not None}
        if wanted & set(frame.index.names) - set(frame.columns):
            frame = frame.reset_index()
        self.frame, self.rows = frame, frame.index
        self.names: dict[str, str] = {}  # of the columns, by what they mean
        for meaning, name in columns.items():
            self._find(meaning, name)

    def _find(self, meaning: str, name: str | None) -> None:
        if name is None:
            if meaning in COLUMNS and meaning != "context":
                raise ModelError(f"{meaning} must be the name of a column; it is None")
            return
        count = list(self.frame.columns).count(name)
        if count > 1:
            raise ModelError(f"the column {name!r} must be there once; it is there {count} times")
        if count == 1:
            self.names[meaning] = name
            return
        by_default = name == meaning and (meaning in OPTIONAL or meaning == "context")
        close = difflib.get_close_matches(str(name), map(str, self.frame.columns), 1, 0.8)
        if not by_default or close:
            hint = f"; {meaning}={close[0]!r} would take that one" if close else ""
            raise ModelError(
                f"the frame must have a column {name!r} for the {meaning.replace('_', ' ')}"
                f"{hint} (found {self.found()})"
            )

    def found(self) -> str:
        """The columns in a few words."""
        names = [repr(str(name)[:40]) for name in self.frame.columns[:12]]
        return ", ".join(names) + ", ..." * (len(self.frame.columns) > 12) or "no column"

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
            raise ModelError(f"{self.names[meaning]!r} must hold numbers; it does not") from None
        self.refuse_where(~np.isfinite(values), meaning, "must be a finite number")
        return np.array(values)

    def wholes(self, meaning: str) -> Ints:
        """A column of whole numbers from 0."""
        values = self.floats(meaning)
        bad = (values < 0) | (values >= MOST_STEPS) | (values != np.floor(values))
        self.refuse_where(bad, meaning, f"must be a whole number from 0, below {MOST_STEPS}")
        return values.astype(np.int64)

    def refuse_where(self, bad: np.ndarray, meaning: str, rule: str) -> None:
        """Refuse the first row that breaks a rule."""
        if bad.any():
            i = int(np.argmax(bad))
            found = str(self.frame[self.names[meaning]].iloc[i])[:80]
            raise ModelError(
                f"{self.names[meaning]!r} {rule}; in row {self.rows[i]} (number {i}) it is {found}"
            )

    def labels(self, what: str, *meanings: str) -> tuple[Axis, list[Ints]]:
        """Columns of labels as numbers of one axis."""
        import pandas as pd

        for meaning in meanings:
            missing = self.frame[self.names[meaning]].isna().to_numpy()
            self.refuse_where(missing, meaning, f"must name a {what}")
        columns = [self.frame[self.names[meaning]] for meaning in meanings]
        categories = columns[0].cat.categories if hasattr(columns[0], "cat") else None
        values = pd.concat([c.astype(object) for c in columns], ignore_index=True).infer_objects()
        kind = values.dtype.kind
        try:
            codes, found = pd.factorize(values, sort=kind in "iufb")
            if categories is not None and set(found) <= set(categories):
                order = pd.Index(categories).get_indexer(found)  # as the person has sorted them
                if what == "action":  # one without rows is an action that is available nowhere
                    codes, found = order[codes], list(categories)
                else:
                    rank = np.argsort(np.argsort(order))
                    codes, found = rank[codes], [found[i] for i in np.argsort(order)]
        except TypeError:
            raise ModelError(
                f"{self.names[meanings[0]]!r} must hold names or numbers; it holds lists or the "
                "like"
            ) from None
        parts = np.split(codes.astype(np.int64), len(meanings))
        numbers = kind in "iuf" and np.array_equal(found, np.arange(len(found)))
        if numbers:
            return Axis(what, len(found)), parts
        names = tuple(label_text(label) for label in found)
        check_names(what, names)
        return Axis(what, len(names), names), parts


def _outcomes(table: _Table) -> Outcomes:
    states, (state, following) = table.labels("state", "state", "next_state")
    actions, (action,) = table.labels("action", "action")
    contexts, context = Axis("context", 1), np.zeros(len(state), dtype=np.int64)
    if "context" in table:
        contexts, (context,) = table.labels("context", "context")
    prob, reward = table.floats("probability"), table.floats("reward")
    table.refuse_where(prob < 0.0, "probability", "must be at least 0")
    o = Outcomes(context, state, action, following, prob, reward, contexts, states, actions)
    check_size(o)
    return o


def _weight_column(table: _Table, o: Outcomes) -> Floats:
    """`(M,)` from a column that says the same in all rows of a context."""
    rule = "must be the same in all rows of a context"
    w, differs = agreed(table.floats("weight"), o.context, o.contexts.size)
    table.refuse_where(differs, "weight", rule)
    return w


def _first_column(table: _Table, o: Outcomes) -> Floats:
    """`(M, S)` from a column that says the same in all rows of a context and state."""
    M, S, _ = o.sizes
    rule = "must be the same in all rows of a context and state"
    nu, differs = agreed(table.floats("first"), o.context * S + o.state, M * S)
    table.refuse_where(differs, "first", rule)
    return nu.reshape(M, S)
