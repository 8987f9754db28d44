"""Visit counts of Algorithm 1: what the learner has seen, and the snapshot it plans with.

A row is `(m, s, a)`, numbered `(m * S + s) * A + a` as in `LatentMDP`. A slot is one next state
that the row can record; given the context, the next state alone identifies an outcome, since
rewards are known.

Layout (CSR): row `i` has the slots `indptr[i]:indptr[i+1]`; slot `k` counts next state `next[k]`.

    n      (rows,)   visits so far                      n_m(s, a)
    n_next (slots,)  of them, those that went to next   n_m(s' | s, a)
    N      (rows,)   visits at the row's last snapshot  N_m(s, a)
    N_next (slots,)  of those, the ones to next; P_hat = N_next / N

The layout is storage, not knowledge: a slot whose count is zero is a next state never seen, and
everything that reads counts treats it exactly like a next state without a slot. So a simulator may
lay the slots out along the true model (`for_model`; then slot `k` is the model's outcome `k`), and
a learner in a user's own loop starts with no slots and lets them grow (`empty`). `version` changes
whenever the layout does.

The arrays are public and may be written in place by kernels; `indptr` and `next` change only
through `grow`, which replaces the arrays by longer ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.csr import Array
from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP


class Counts:
    """Counts and snapshot of every row, in a CSR layout that can grow; see the module."""

    __slots__ = ("A", "M", "N", "N_next", "S", "indptr", "n", "n_next", "next", "version")

    def __init__(self, M: int, S: int, A: int, indptr: Array, next: Array) -> None:
        self.M, self.S, self.A = int(M), int(S), int(A)
        self.indptr = np.array(indptr, dtype=np.int64)  # own copies: a model's arrays are frozen
        self.next = np.array(next, dtype=np.int64)
        if self.indptr.shape != (self.rows + 1,) or self.indptr[-1] != self.next.size:
            raise ModelError(
                f"indptr must have M*S*A + 1 = {self.rows + 1} entries and end at "
                f"{self.next.size}; its shape is {self.indptr.shape}"
            )
        self.n = np.zeros(self.rows, dtype=np.int64)
        self.N = np.zeros(self.rows, dtype=np.int64)
        self.n_next = np.zeros(self.next.size, dtype=np.int64)
        self.N_next = np.zeros(self.next.size, dtype=np.int64)
        self.version = 0

    # ---------------------------------------------------------------- makers

    @classmethod
    def empty(cls, M: int, S: int, A: int) -> Counts:
        """Nothing seen and no slots; they grow as outcomes are recorded."""
        return cls(M, S, A, np.zeros(M * S * A + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))

    @classmethod
    def for_model(cls, model: LatentMDP) -> Counts:
        """Nothing seen, one slot per outcome of the model, in its order (for simulators)."""
        return cls(model.M, model.S, model.A, model.indptr, model.next)

    @classmethod
    def from_visits(cls, visits: Array) -> Counts:
        """From integers `(M, S, A, S)` of observed transitions, with the snapshot taken now."""
        visits = np.asarray(visits)
        if visits.ndim != 4 or visits.shape[1] != visits.shape[3]:
            raise ModelError(f"visits must have shape (M, S, A, S); found {visits.shape}")
        if not np.issubdtype(visits.dtype, np.integer):
            raise ModelError(f"visits must be integers; found {visits.dtype}")
        if visits.size and visits.min() < 0:
            where = tuple(int(i) for i in np.argwhere(visits < 0)[0])
            raise ModelError(f"visits must not be negative; visits{list(where)} is {visits[where]}")
        if visits.size and visits.sum(axis=3, dtype=np.float64).max() >= 2.0**62:
            raise ModelError("visits of a row must stay below 2^62 in all; some do not")
        M, S, A, _ = visits.shape
        flat = visits.reshape(M * S * A, S)
        row, nxt = np.nonzero(flat)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=M * S * A))])
        counts = cls(M, S, A, indptr, nxt)
        counts.n_next[:] = flat[row, nxt]
        counts.n[:] = flat.sum(axis=1)
        counts.snapshot_all()
        return counts

    # ---------------------------------------------------------------- reading

    @property
    def rows(self) -> int:
        """Number of rows, `M * S * A`."""
        return self.M * self.S * self.A

    @property
    def slot_row(self) -> Array:
        """Row of each slot `(slots,)`."""
        return np.repeat(np.arange(self.rows), np.diff(self.indptr))

    @property
    def p_hat(self) -> Array:
        """Estimate at the snapshot `(slots,)`; zero in rows without one."""
        return self.N_next / np.maximum(self.N, 1)[self.slot_row]

    def visits(self) -> Array:
        """All transitions seen so far, dense `(M, S, A, S)`."""
        return self._dense(self.n_next)

    def snapshot_visits(self) -> Array:
        """The snapshot's transitions, dense `(M, S, A, S)`."""
        return self._dense(self.N_next)

    def _dense(self, per_slot: Array) -> Array:
        dense = np.zeros((self.rows, self.S), dtype=np.int64)
        np.add.at(dense, (self.slot_row, self.next), per_slot)
        return dense.reshape(self.M, self.S, self.A, self.S)

    # ---------------------------------------------------------------- writing

    def slot(self, row: int, next: int) -> int:
        """Slot of an outcome, or -1 if the row has none for it."""
        for k in range(self.indptr[row], self.indptr[row + 1]):
            if self.next[k] == next:
                return int(k)
        return -1

    def record(self, row: int, next: int) -> int:
        """Count one transition, growing the layout if it is new. Returns the row's visits."""
        k = self.slot(row, next)
        if k < 0:
            k = self.grow(row, next)
        self.n[row] += 1
        self.n_next[k] += 1
        return int(self.n[row])

    def grow(self, row: int, next: int) -> int:
        """Add an empty slot at the end of a row; O(slots). Returns the slot."""
        if not 0 <= next < self.S:
            raise ModelError(f"next state must lie in 0..{self.S - 1}; found {next}")
        k = int(self.indptr[row + 1])
        self.next = np.insert(self.next, k, next)
        self.n_next = np.insert(self.n_next, k, 0)
        self.N_next = np.insert(self.N_next, k, 0)
        self.indptr = self.indptr.copy()
        self.indptr[row + 1 :] += 1
        self.version += 1
        return k

    def snapshot(self, row: int) -> None:
        """Alg. 1, l. 14: freeze one row's counts as its estimate."""
        lo, hi = self.indptr[row], self.indptr[row + 1]
        self.N[row] = self.n[row]
        self.N_next[lo:hi] = self.n_next[lo:hi]

    def snapshot_all(self) -> None:
        """Freeze every row."""
        self.N[:] = self.n
        self.N_next[:] = self.n_next

    # ---------------------------------------------------------------- plain data

    def to_arrays(self) -> dict[str, Array]:
        """Everything, as named arrays (for npz)."""
        shape = np.array([self.M, self.S, self.A], dtype=np.int64)
        names = ("indptr", "next", "n", "n_next", "N", "N_next")
        return {"shape": shape} | {name: getattr(self, name).copy() for name in names}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> Counts:
        """Inverse of `to_arrays`."""
        M, S, A = (int(x) for x in arrays["shape"])
        counts = cls(M, S, A, arrays["indptr"], arrays["next"])
        for name in ("n", "n_next", "N", "N_next"):
            getattr(counts, name)[:] = arrays[name]
        return counts

    def copy(self) -> Counts:
        """An independent copy."""
        return Counts.from_arrays(self.to_arrays())
