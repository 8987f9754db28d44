"""The memory of a history-dependent policy: what it tells apart, and what it makes of that.

The memory updates a belief over contexts. Evaluation never uses that belief, so the update need not
use `P_hat`: contexts whose counts at `(s, a)` are statistically indistinguishable are *pooled*, so
that noise has likelihood ratio exactly 1 and beliefs merge exactly. Where they still do not merge,
cells of a grid on top. On tiny models the memory is the whole history. A graph stays valid while
counts grow; it is rebuilt when pools change.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.optimism.model import Known, OptimisticModel

if TYPE_CHECKING:
    from latentmdp.counts import Counts


@dataclass(frozen=True)
class Observations:
    """What can be seen after `(s, a)`: `(symbol, next)`, sorted; row `s*A + a` has a slice."""

    start: Ints  # (S*A + 1,)
    symbol: Ints
    next: Ints
    codes: Ints  # ascending numbers of (s*A + a, symbol, next)

    @classmethod
    def of(cls, model: OptimisticModel) -> "Observations":
        """The observations that some context lists. `O(slots log slots)`."""
        known, (row, slot) = model.known, model.listing()
        return cls.of_codes(known, np.unique(_codes(known, row, model.next[slot])))

    @classmethod
    def of_codes(cls, known: Known, codes: Ints) -> "Observations":
        """From ascending `codes`."""
        start = np.searchsorted(codes, np.arange(known.S * known.A + 1) * known.M * known.S)
        return cls(start, codes // known.S % known.M, codes % known.S, codes)

    def of_slots(self, model: OptimisticModel) -> Ints:
        """Number `(slots,)` of what each slot shows among those after its `(s, a)`, or -1."""
        row, slot = model.listing()
        number = np.full(len(model.next), -1)
        number[slot] = self._numbers(model.known, row, model.next[slot])
        return number

    def of_candidates(self, model: OptimisticModel) -> Ints:
        """The same for everything that a row may list."""
        start, nxt = model.candidates.start, model.candidates.next
        return self._numbers(model.known, np.repeat(np.arange(len(start) - 1), np.diff(start)), nxt)

    def _numbers(self, known: Known, row: Ints, next: Ints) -> Ints:
        code = _codes(known, row, next)
        place = np.minimum(np.searchsorted(self.codes, code), len(self.codes) - 1)
        if not len(self.codes):
            return np.full(len(code), -1)
        number = place - self.start[row % (known.S * known.A)]
        return np.where(self.codes[place] == code, number, -1)

    @property
    def row(self) -> Ints:
        """`s*A + a` of each observation."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


def _codes(known: Known, row: Ints, next: Ints) -> Ints:
    """`(s*A + a, symbol, next)` of outcomes as one number; there are at most `M` symbols."""
    return ((row % (known.S * known.A)) * known.M + known.symbols(row, next)) * known.S + next


def pools(known: Known, counts: "Counts", pairs: Ints, limit: float = 8.0) -> Floats:
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


def _visits(counts: "Counts", pairs: Ints) -> Floats:
    """Snapshot counts `(M, pairs, S)`."""
    rows = np.arange(counts.M)[:, None] * (counts.S * counts.A) + pairs[None, :]
    n = np.zeros((rows.size, counts.S))
    length = counts.indptr[rows + 1] - counts.indptr[rows]
    local = np.repeat(np.arange(rows.size), length.ravel())
    ends = np.cumsum(length.ravel())
    slot = np.arange(len(local)) + (counts.indptr[rows].ravel() - ends + length.ravel())[local]
    n[local, counts.next[slot]] = counts.N_next[slot]
    return n.reshape(counts.M, len(pairs), counts.S)


def _symbols(known: Known) -> Ints:
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


@dataclass(frozen=True)
class Memory:
    """A graph of memory nodes by step, node numbers as in an arena; made by `growth.Growth`."""

    observations: Observations
    order: Ints  # (nodes,) number of each node in the growing graph
    state: Ints
    step: Ints
    span: Ints  # (H + 1,) first node of every step
    first: Ints  # (S,) node of every first state
    belief: Floats  # (nodes, M)
    edge: Ints  # (nodes, A) where the successors of an action begin
    succ: Ints

    @property
    def N(self) -> int:
        """Number of memory nodes."""
        return len(self.state)


def likelihoods(known: Known, counts: "Counts", seen: Observations, pairs: Ints) -> Floats:
    """Pooled likelihood `(observations, M)`, filled in at the pairs given; 0 elsewhere."""
    result = np.zeros((len(seen.next), known.M))
    column = np.full(known.S * known.A, -1)
    column[pairs] = np.arange(len(pairs))
    at = np.flatnonzero(column[seen.row] >= 0)
    pooled = pools(known, counts, pairs)[:, column[seen.row[at]], seen.next[at]].T
    result[at] = np.where(consistent(known, seen)[at], pooled, 0.0)
    return result


def consistent(known: Known, seen: Observations) -> np.ndarray:
    """`(observations, M)`: whether the symbol seen is the context's own."""
    return (_symbols(known)[:, seen.row, seen.next] == seen.symbol[None, :]).T


def drifted(new: Floats, old: Floats, much: float = 0.05) -> bool:
    """Whether the likelihood *ratios* have changed enough to ask for another graph."""
    if ((new > 0) != (old > 0)).any():
        return True
    high = [np.maximum(x.max(axis=1, initial=0.0, keepdims=True), 1e-300) for x in (new, old)]
    return bool((np.abs(new / high[0] - old / high[1]) > much).any())
