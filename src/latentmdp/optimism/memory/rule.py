"""The memory of a history-dependent policy: what it tells apart, and what it makes of that.

The memory updates a belief over contexts. Evaluation never uses that belief, so the update need not
use `P_hat`: contexts whose counts at `(s, a)` are statistically indistinguishable are *pooled*, so
that noise has likelihood ratio exactly 1 and beliefs merge exactly. Where they still do not merge,
cells of a grid on top. On tiny models the memory is the whole history. A graph stays valid while
counts grow; it is rebuilt when pools change.
"""

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.model.counts import Counts
from latentmdp.optimism.given import Given
from latentmdp.optimism.memory.observations import Observations
from latentmdp.optimism.settings import SEARCH


def pools(known: Given, counts: Counts, pairs: Ints, limit: float = SEARCH.pool_limit) -> Floats:
    """Pooled estimates `(M, pairs, S)` at some `s*A + a`: indistinguishable contexts share theirs.

    Contexts join a pool while the G statistic stays below `limit * df + limit`, in the order of
    their numbers; only contexts with the same symbols are compared, the others are told apart
    anyway.
    """
    M, S = known.M, known.S
    n = _visits(counts, pairs)
    symbols = _symbols(known)[:, pairs]
    pooled = np.zeros((M, len(pairs), S))
    member = np.full((M, len(pairs)), -1)
    for m in range(M):
        for leader in range(m):
            same = (symbols[m] == symbols[leader]).all(axis=1)
            open_ = (member[m] < 0) & (member[leader] == leader) & same
            if not open_.any():
                continue
            both = pooled[leader] + n[m]
            df = np.maximum((both > 0).sum(axis=1) - 1, 0)
            joins = open_ & (_g_statistic(pooled[leader], n[m]) <= limit * df + limit)
            member[m, joins] = leader
            pooled[leader, joins] = both[joins]
        member[m, member[m] < 0] = m
        own = member[m] == m
        pooled[m, own] = n[m, own]
    pooled = pooled[member, np.arange(len(pairs))[None, :]]
    total = pooled.sum(axis=2, keepdims=True)
    return np.divide(pooled, total, out=np.full_like(pooled, 1.0 / S), where=total > 0)


def _visits(counts: Counts, pairs: Ints) -> Floats:
    """Snapshot counts `(M, pairs, S)`."""
    rows = np.arange(counts.M)[:, None] * (counts.S * counts.A) + pairs[None, :]
    n = np.zeros((rows.size, counts.S))
    length = counts.indptr[rows + 1] - counts.indptr[rows]
    local = np.repeat(np.arange(rows.size), length.ravel())
    ends = np.cumsum(length.ravel())
    slot = np.arange(len(local)) + (counts.indptr[rows].ravel() - ends + length.ravel())[local]
    n[local, counts.next[slot]] = counts.N_next[slot]
    return n.reshape(counts.M, len(pairs), counts.S)


def _symbols(known: Given) -> Ints:
    """`(M, S*A, S)` symbols of all outcomes."""
    shape = (known.M, known.S * known.A, known.S)
    if known.next_symbol is not None:
        return known.next_symbol.reshape(shape)
    return np.broadcast_to(known.row_symbol.reshape(*shape[:2], 1), shape)


def _g_statistic(x: Floats, y: Floats) -> Floats:
    """Twice the log likelihood ratio of two rows of counts having one distribution `(rows,)`."""

    def entropy(z: Floats) -> Floats:
        return (z * np.log(np.maximum(z, 1.0))).sum(axis=-1)

    def total(z: Floats) -> Floats:
        s = z.sum(axis=-1)
        return s * np.log(np.maximum(s, 1.0))

    return 2.0 * (
        entropy(x) + entropy(y) - entropy(x + y) - total(x) - total(y) + total(x + y)
    )  # fmt: skip


def likelihoods(
    known: Given,
    counts: Counts,
    seen: Observations,
    pairs: Ints,
    limit: float = SEARCH.pool_limit,
) -> Floats:
    """Pooled likelihood `(observations, M)`, filled in at the pairs given; 0 elsewhere."""
    result = np.zeros((len(seen.next), known.M))
    column = np.full(known.S * known.A, -1)
    column[pairs] = np.arange(len(pairs))
    at = np.flatnonzero(column[seen.row] >= 0)
    pooled = pools(known, counts, pairs, limit)[:, column[seen.row[at]], seen.next[at]].T
    result[at] = np.where(consistent(known, seen)[at], pooled, 0.0)
    return result


def consistent(known: Given, seen: Observations) -> np.ndarray:
    """`(observations, M)`: whether the symbol seen is the context's own."""
    return (_symbols(known)[:, seen.row, seen.next] == seen.symbol[None, :]).T


def drifted(new: Floats, old: Floats, much: float = SEARCH.drift) -> bool:
    """Whether the likelihood *ratios* have changed enough to ask for another graph."""
    if ((new > 0) != (old > 0)).any():
        return True
    high = [np.maximum(x.max(axis=1, initial=0.0, keepdims=True), 1e-300) for x in (new, old)]
    return bool((np.abs(new / high[0] - old / high[1]) > much).any())
