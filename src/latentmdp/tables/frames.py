"""Models from pandas: one row per outcome; see `LatentMDP.from_frame`."""

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.tables.outcome_columns import OutcomeColumns, outcomes_of, weight_column
from latentmdp.tables.outcome_table import (
    Axis,
    OutcomeTable,
    agreed,
    build_by_step,
    check_names,
    first_probabilities,
    first_states,
    label_text,
    weights,
)

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP

COLUMNS = ("context", "state", "action", "next_state", "probability", "reward")
OPTIONAL = ("weight", "first", "step", "reading")


def frame_model(
    frame: Any, horizon: Any, columns: dict[str, str | None], w: Any, start: Any, nu: Any,
    options: dict[str, Any],
) -> "LatentMDP":  # fmt: skip
    """See `LatentMDP.from_frame`."""
    table = _FrameColumns(frame, columns)
    outcomes = outcomes_of(table)
    if w is None and "weight" in table:
        w = weight_column(table, outcomes)
    nu = _first(table, outcomes, start, nu)
    step = table.wholes("step") if "step" in table else None
    w = weights(w, outcomes.contexts)
    return build_by_step(outcomes, step, w, nu, horizon, **options)


def _first(table: "_FrameColumns", outcomes: OutcomeTable, start: Any, nu: Any) -> Floats:
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


class _FrameColumns(OutcomeColumns):
    """Columns of the frame given to `from_frame`."""

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
        """The columns, for error messages."""
        names = [repr(str(name)[:40]) for name in self.frame.columns[:12]]
        return ", ".join(names) + ", ..." * (len(self.frame.columns) > 12) or "no column"

    def place(self, i: int) -> str:
        return f"row {self.rows[i]} (number {i})"

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


def _first_column(table: _FrameColumns, o: OutcomeTable) -> Floats:
    """`(M, S)` from a column that is constant for each context and state."""
    M, S, _ = o.sizes
    rule = "must be the same in all rows of a context and state"
    nu, differs = agreed(table.floats("first"), o.context * S + o.state, M * S)
    table.refuse_where(differs, "first", rule)
    return nu.reshape(M, S)
