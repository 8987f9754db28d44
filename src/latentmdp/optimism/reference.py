"""Optimistic values by the definitions, Eqs. (2) to (5), dense and slow; the kernels' twin.

The value of a policy that `optimistic_plan` hands out is computed here, from the finished graph. No
code is shared with the search that found it; in particular a successor is looked up by what an
agent sees, `(symbol, next)`, and so cannot depend on the hidden context.
"""

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.structs import BoxRows
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.policy.graph import PolicyGraph

CHUNK = 2**21  # numbers (node, context, next state) at once


class Reference:
    """An optimistic model, evaluated one step at a time with a column per next state.

    `floor (H, M, S)`: values that are known to be reached at each step, context and state.
    """

    def __init__(self, model: ConfidenceModel, floor: Floats | None = None) -> None:
        self.model, self.known, self.cap = model, model.known, model.cap
        self.floor = floor

    def backup(self, row: Ints, after: Floats) -> Floats:
        """Optimistic values of these rows from the values `after (len(row), S)` of next states."""
        rows = self.model.rows
        local, slot = self._slots(row)
        column = rows.next[slot].astype(np.int64)
        if isinstance(rows, BoxRows) and not rows.unseen[row].any():
            # nothing else can have mass: columns for what is listed are enough
            begin = np.searchsorted(local, np.arange(len(row)))
            place = np.arange(len(local)) - begin[local]
            narrow = np.zeros((len(row), int(place.max(initial=0)) + 1))
            narrow[local, place] = after[local, column]
            after, column = narrow, place
        numbers = np.zeros((4, *after.shape))  # p_hat, reward on transitions, lower, upper
        if isinstance(rows, BoxRows):
            numbers[3] = rows.unseen[row][:, None]  # of next states that are not listed
        for array, listed in zip(
            numbers, (rows.p_hat, rows.reward, rows.lower, rows.upper), strict=True
        ):
            array[local, column] = listed[slot]
        p, reward, low, high = numbers
        v = np.minimum(reward + after, self.cap)
        if isinstance(rows, BoxRows):
            scores = rows.direction * v  # the worst distribution is the best one for -v
            best = best_in_box(p, scores, low, high, rows.budget[row])
            best *= rows.direction
        else:
            best = _bonus(p, v, rows.c1[row], rows.c2[row])
        return np.minimum(rows.gain[row] + best, self.cap)

    def _slots(self, row: Ints) -> tuple[Ints, Ints]:
        """What these rows list: which of them, and the slot."""
        rows = self.model.rows
        start, stop = rows.start[row].astype(np.int64), rows.stop[row].astype(np.int64)
        local = np.repeat(np.arange(len(row)), stop - start)
        before = np.cumsum(stop - start) - (stop - start)
        return local, np.arange(len(local)) + (start - before)[local]

    def alpha(self, policy: PolicyGraph) -> Floats:
        """`(N, M)`: the optimistic value of every node of a policy in every context."""
        known = self.known
        M, S, A, H = known.M, known.S, known.A, known.H
        alpha = np.zeros((policy.N, M))
        for t in range(H - 1, -1, -1):
            later = alpha[policy.default[t + 1]].T if t + 1 < H else np.zeros((M, S))
            at_step = np.flatnonzero(policy.step == t)
            for begin in range(0, len(at_step), max(CHUNK // (M * S), 1)):
                nodes = at_step[begin : begin + max(CHUNK // (M * S), 1)]
                row = (np.arange(M) * S + policy.state[nodes][:, None]) * A
                row += policy.action[nodes][:, None]
                after = np.repeat(later[None], len(nodes), axis=0)  # (nodes, M, S)
                if t + 1 < H:
                    self._follow_edges(policy, alpha, nodes, row, after)
                values = self.backup(row.ravel(), after.reshape(-1, S))
                alpha[nodes] = values.reshape(len(nodes), M)
            if self.floor is not None:
                least = self.floor[t][:, policy.state[at_step]].T
                alpha[at_step] = np.maximum(alpha[at_step], least)
        return alpha

    def _follow_edges(
        self, policy: PolicyGraph, alpha: Floats, nodes: Ints, row: Ints, after: Floats
    ) -> None:
        """Where a node has a successor for what a context shows, take the value there."""
        width = policy.indptr[nodes + 1] - policy.indptr[nodes]
        owner = np.repeat(np.arange(len(nodes)), width)
        before = np.cumsum(width) - width
        edge = np.arange(len(owner)) + (policy.indptr[nodes] - before)[owner]
        symbol, nxt, child = policy.symbol[edge], policy.next[edge], policy.node[edge]
        for m in range(self.known.M):
            shown = self.known.symbols(row[owner, m], nxt) == symbol
            after[owner[shown], m, nxt[shown]] = alpha[child[shown], m]

    def value(self, policy: PolicyGraph) -> float:
        """Eq. (5): the mixture over contexts and first states."""
        return float((self.known.root.T * self.alpha(policy)[policy.root]).sum())


def _bonus(p: Floats, v: Floats, c1: Floats, c2: Floats) -> Floats:
    """Eqs. (3), (4): `p.v + max(c1 sqrt(Var(p, v)), c2)`; `c3` is part of the row's reward."""
    mean = (p * v).sum(axis=1)
    variance = (p * (v - mean[:, None]) ** 2).sum(axis=1)
    return mean + np.maximum(c1 * np.sqrt(variance), c2)


def best_in_box(p: Floats, v: Floats, low: Floats, high: Floats, budget: Floats) -> Floats:
    """Eq. (2): the best distribution in a box around `p`, with at most `budget` of mass moved."""
    order = np.argsort(-v, axis=1, kind="stable")
    v, p, low, high = (np.take_along_axis(x, order, axis=1) for x in (v, p, low, high))
    missing = np.where(p.any(axis=1), 0.0, 1.0)  # without visits: all mass is free
    taken = _fill((p - low)[:, ::-1], budget)[:, ::-1]  # from the lowest values
    given = _fill(high - (p - taken), taken.sum(axis=1) + missing)  # to the highest
    return ((p - taken + given) * v).sum(axis=1)


def _fill(room: Floats, amount: Floats) -> Floats:
    """Pour `amount` into the columns from left to right, each up to its room."""
    before = np.cumsum(room, axis=1) - room
    return np.clip(amount[:, None] - before, 0.0, np.maximum(room, 0.0))
