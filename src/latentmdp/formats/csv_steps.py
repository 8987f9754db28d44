"""Step-dependent models in CSV: a column `step`, and terminal rewards in a file of their own.

A table `x.csv` with the column `step`, from 0, has as many steps as are found there; a state
without lines at a step of a model stays where it is there, with reward 0. Terminal rewards lie
beside it in `x.terminal.csv`: `idoutcome, idstate, reward`, 0 where none is given; without
`idoutcome` they are those of all models.
"""

from pathlib import Path

import numpy as np

from latentmdp.csr import Floats
from latentmdp.errors import ModelError
from latentmdp.formats.tables import CsvTable
from latentmdp.runtime.files import PathLike, as_path, refusal
from latentmdp.tables.outcome_table import Outcomes

LABELS = ("idoutcome", "idstate")


def terminal_path(path: PathLike) -> Path:
    """`x.terminal.csv` beside `x.csv`."""
    return as_path(path).with_suffix(".terminal.csv")


def read_terminal(path: PathLike, o: Outcomes) -> Floats | None:
    """`(M, S)` rewards after the last step, if there is a file of them."""
    file = terminal_path(path)
    if not file.exists():
        return None
    table = CsvTable(file, ("idstate", "reward"), ("idoutcome",), LABELS)
    M, S, _ = o.sizes
    try:
        state = table.numbers_in("idstate", o.states)
        context = np.zeros_like(state)
        if "idoutcome" in table:
            context = table.numbers_in("idoutcome", o.contexts)
    except ModelError as error:
        raise refusal(file, str(error)) from None
    if len(np.unique(context * S + state)) < len(state):
        raise refusal(file, "each model and state must have at most one line; one has two")
    terminal = np.zeros((M if "idoutcome" in table else 1, S))
    terminal[context, state] = table.floats("reward")
    return np.ascontiguousarray(np.broadcast_to(terminal, (M, S)))
