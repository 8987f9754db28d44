"""The exact optimistic optimum of tiny models: the paper's exhaustive search, pruned.

Backups are monotone, so a continuation whose values are nowhere larger than another's, in any
context, is never needed: dynamic programming over *sets* of value vectors with Pareto pruning. For
the history class one set per `(steps to go, state)`, vectors `(M,)`, every observation chooses its
own continuation. For the Markov class one continuation serves all states, so vectors `(S, M)`.
Plain NumPy, no code shared with the fast kernels.
"""

import itertools

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.kernels.structs import BoxRows
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.reference import Reference

MOST_VECTORS = 2_000_000  # values of continuations that are tried at once


def exact_history(model: ConfidenceModel, limit: int = MOST_VECTORS) -> float:
    """Largest optimistic value over all deterministic policies."""
    known = model.known
    M, S, A, H = known.M, known.S, known.A, known.H
    sets: list[Floats] = [np.zeros((1, M)) for _ in range(S)]
    for togo in range(1, H + 1):
        new: list[Floats] = []
        for s in range(S):
            found = [_continuations(model, s, a, sets, limit) for a in range(A)]
            vectors = np.concatenate(found)
            if togo == H:  # only the mixture at the root matters
                vectors = vectors[[int(np.argmax(vectors @ known.root[:, s]))]]
            new.append(pareto(vectors))
        sets = new
    return float(sum(sets[s][0] @ known.root[:, s] for s in range(S)))


def exact_markov(model: ConfidenceModel, limit: int = MOST_VECTORS) -> tuple[float, Ints]:
    """Largest optimistic value over all tables `(H, S)`, and a table that has it."""
    known, backup = model.known, Reference(model).backup
    M, S, A, H = known.M, known.S, known.A, known.H
    vectors = np.zeros((1, S * M))
    tables = np.zeros((1, 0, S), dtype=np.int64)
    for _ in range(H):
        if len(vectors) * A**S > limit:
            raise ModelError(f"the exact solver is for tiny models; {len(vectors)} vectors at once")
        values = np.empty((A, S, len(vectors), M))
        for a, s, m in itertools.product(range(A), range(S), range(M)):
            row = np.full(len(vectors), (m * S + s) * A + a)
            values[a, s, :, m] = backup(row, vectors.reshape(-1, S, M)[:, :, m])
        actions = np.array(list(itertools.product(range(A), repeat=S)))
        joint = np.stack([values[actions[:, s], s] for s in range(S)], axis=2)
        vectors_new = joint.reshape(-1, S * M)
        tables = np.concatenate(
            [
                np.repeat(actions[:, None, None, :], len(vectors), axis=1),
                np.repeat(tables[None], len(actions), axis=0),
            ],
            axis=2,
        ).reshape(len(vectors_new), -1, S)
        keep = pareto_rows(vectors_new)
        vectors, tables = vectors_new[keep], tables[keep]
    worth = vectors @ known.root.T.reshape(-1)
    best = int(np.argmax(worth))
    return float(worth[best]), tables[best]


def _continuations(
    model: ConfidenceModel, s: int, a: int, sets: list[Floats], limit: int
) -> Floats:
    """All value vectors of playing `a` in `s` that can matter, one choice per observation."""
    known, backup = model.known, Reference(model).backup
    M, S = known.M, known.S
    rows = (np.arange(M) * S + s) * known.A + a
    states = np.arange(S)
    symbols = np.array([np.broadcast_to(known.symbols(np.full(S, r), states), S) for r in rows])
    # an observation matters to the contexts that can give it; linked contexts are solved together
    matters = np.array([_possible(model, int(r)) for r in rows])
    result = np.zeros((1, M))
    for group in _groups(symbols, matters):
        observations = sorted(
            {(int(symbols[m, x]), x) for m in group for x in range(S) if matters[m, x]}
        )
        choices = []
        for y, x in observations:
            ms = [m for m in group if matters[m, x] and symbols[m, x] == y]
            part = np.zeros((len(sets[x]), M))
            part[:, ms] = sets[x][:, ms]
            choices.append(pareto(part))
        size = int(np.prod([len(c) for c in choices], dtype=float)) if choices else 1
        if size * len(result) > limit:
            raise ModelError(f"the exact solver is for tiny models; a product of {size} vectors")
        index = np.indices([len(c) for c in choices]).reshape(len(choices), size)
        vectors = np.zeros((size, M))
        for m in group:
            v = np.zeros((size, S))
            for (y, x), choice, i in zip(observations, choices, index, strict=True):
                if matters[m, x] and symbols[m, x] == y:
                    v[:, x] = choice[i, m]
            vectors[:, m] = backup(np.full(size, rows[m]), v)
        vectors = pareto(vectors)
        if len(result) * len(vectors) > limit:
            raise ModelError("the exact solver is for tiny models; too many value vectors")
        result = (result[:, None, :] + vectors[None, :, :]).reshape(-1, M)
    return pareto(result)


def _possible(model: ConfidenceModel, row: int) -> np.ndarray:
    """`(S,)` next states on whose values a row can depend."""
    S, rows, at = model.known.S, model.rows, model.slots(row)
    if isinstance(rows, BoxRows):
        return np.ones(S, dtype=bool)
    possible = np.zeros(S, dtype=bool)
    possible[rows.next[at]] = rows.p_hat[at] > 0
    if rows.gain[row] + rows.c2[row] >= rows.cap:
        possible[:] = False  # saturated: worth the cap whatever comes
    return possible


def _groups(symbols: Ints, matters: np.ndarray) -> list[list[int]]:
    """Contexts linked by a shared observation, transitively."""
    M = len(symbols)
    label = list(range(M))
    for m, n in itertools.combinations(range(M), 2):
        if (matters[m] & matters[n] & (symbols[m] == symbols[n])).any():
            old, new = label[n], label[m]
            label = [new if x == old else x for x in label]
    return [[m for m in range(M) if label[m] == x] for x in sorted(set(label))]


def pareto(vectors: Floats) -> Floats:
    """The rows that no other row dominates."""
    return vectors[pareto_rows(vectors)]


def pareto_rows(vectors: Floats) -> Ints:
    """Indices of the rows that no other row dominates, one per group of equals. `O(n * kept)`."""
    order = np.lexsort([*(-vectors.T), -vectors.sum(axis=1)])  # only earlier ones can dominate
    kept = np.empty((len(order), vectors.shape[1]))
    index: list[int] = []
    for i in order:
        x = vectors[i]
        if not index or not (kept[: len(index)] >= x - 1e-15).all(axis=1).any():
            kept[len(index)] = x
            index.append(int(i))
    return np.array(index, dtype=np.int64)
