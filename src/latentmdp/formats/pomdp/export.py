"""A latent MDP as a POMDP for other solvers: shared by the writers of `.pomdp` and `.pomdpx`.

The context is a hidden constant. Those solvers have no horizon, so the state contains the step, and
all rewards after the last step are 0. Observed rewards are part of the observation: a state is
written once for every reward with which it can be entered. The optimal value of the POMDP is that
of the model. Neither format has unavailable actions: such an action is a copy of the first
available one of its state.
"""

import re
from collections.abc import Iterator
from math import isinf
from typing import BinaryIO

import numpy as np

from latentmdp.csr import Ints
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.runtime.files import PathLike, write_atomically

PIECE = 1 << 14  # lines that are written at a time
RESERVED = (
    *("discount", "values", "states", "actions", "observations", "start", "include", "exclude"),
    *("reset", "uniform", "identity", "reward", "cost", "end", "null", "T", "O", "R"),
)


class Export:
    """A model with names for everything, and its states together with the observed rewards."""

    def __init__(self, model: LatentMDP) -> None:
        self.model = model
        self.contexts = plain_names(model.context_names, "m", model.M)
        self.actions = plain_names(model.action_names, "a", model.A)
        self.is_finite = not isinf(model.horizon)
        symbols = int(model.symbol.max()) + 1
        entered = model.next * symbols + model.symbol
        looks = np.unique(entered)
        never_entered = np.setdiff1d(np.arange(model.S), looks // symbols)
        looks = np.sort(np.append(looks, never_entered * symbols))
        self.state: Ints = looks // symbols  # (V,) the state of each look
        self.after: Ints = np.searchsorted(looks, entered)  # (nnz,) the look that an outcome has
        self.first: Ints = np.searchsorted(self.state, np.arange(model.S))  # (S,) as first state
        names = plain_names(model.state_names, "s", model.S)
        alone = np.bincount(self.state) == 1
        self.looks = [
            names[s] if alone[s] else f"{names[s]}-r{symbol}"
            for s, symbol in zip(self.state.tolist(), (looks % symbols).tolist(), strict=True)
        ]

    def rows(self) -> Iterator[tuple[int, int, int, int]]:
        """`(context, look, action, row of the model)` for all of them."""
        model = self.model
        for m in range(model.M):
            for v, s in enumerate(self.state.tolist()):
                for a in range(model.A):
                    yield m, v, a, (m * model.S + s) * model.A + a

    def outcomes(self, row: int) -> Iterator[tuple[int, float, float]]:
        """`(look, prob, reward)` of a row."""
        part = slice(self.model.indptr[row], self.model.indptr[row + 1])
        columns = (self.after[part], self.model.prob[part], self.model.reward[part])
        return zip(*(column.tolist() for column in columns), strict=True)

    def count(self) -> int:
        """The number of outcomes of all rows."""
        per_state = np.diff(self.model.indptr).reshape(self.model.M, self.model.S, -1).sum((0, 2))
        return int(per_state[self.state].sum())


def plain_names(names: tuple[str, ...] | None, letter: str, count: int) -> list[str]:
    """Names that every reader of these formats takes: letters, digits and `_`, all different."""
    if names is None:
        return [f"{letter}{i}" for i in range(count)]
    taken = set(RESERVED)
    plain = []
    for i, name in enumerate(names):
        word = re.sub(r"[^A-Za-z0-9_]", "_", name)
        word = word if re.match(r"[A-Za-z]", word) else f"{letter}_{word}"
        if word in taken:
            word = f"{word}_{i}"
        while word in taken:
            word += "_"
        taken.add(word)
        plain.append(word)
    return plain


def not_in_pomdp(model: LatentMDP) -> list[str]:
    """The parts of this model that neither format can store."""
    lost = [name for name in ("layout", "allowed") if getattr(model, name) is not None]
    return lost + ["units"] * bool(model.units)


def write_lines(path: PathLike, lines: Iterator[str]) -> None:
    """Write lines of ASCII text, all or nothing."""

    def write(file: BinaryIO) -> None:
        piece: list[str] = []
        for line in lines:
            piece.append(line + "\n")
            if len(piece) >= PIECE:
                file.write("".join(piece).encode("ascii"))
                piece = []
        file.write("".join(piece).encode("ascii"))

    write_atomically(path, write)
