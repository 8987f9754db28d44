"""What a learner hoped each action to be worth: its optimistic value of every alternative.

A plain NumPy twin of the optimistic backups (Eqs. 2 to 4), one step at a time, written to be read;
the fast kernels are in `latentmdp.kernels`. An alternative is taken once; then the policy goes on
from its default nodes, as the learner does when it is made to deviate.
"""

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.policy import PolicyGraph

if TYPE_CHECKING:
    from latentmdp.learning.counts import Counts
    from latentmdp.learning.run import Run
    from latentmdp.learning.session import Spec
    from latentmdp.model import LatentMDP

MAX_WORK = 2**25  # rows x states x steps of a dense backup
MAX_KEPT = 2**19  # numbers (node, context, action) of one phase


def optimistic_actions(run: "Run", counts: "Counts", policy: PolicyGraph) -> np.ndarray | None:
    """`(N, M, A)` optimistic values at the policy's nodes; None where there are none to show.

    None for algorithms without optimism or without a cap, for sampled models (`psrl`), and where
    it would be large.
    """
    from latentmdp.optimism.confidence import RULES

    model = run.model
    rule = RULES.get(run.spec.algorithm)
    if rule is None or rule.random or rule.cap > 1.0:
        return None
    work = model.M * model.S**2 * model.A * model.H + policy.N * model.M * model.S
    if work > MAX_WORK or policy.N * model.M * model.A > MAX_KEPT:
        return None
    return _backward(Hopes(model, counts, run.spec), policy)


class Hopes:
    """The optimistic model of a snapshot, with a column per next state: `(rows, S)` arrays."""

    def __init__(self, model: "LatentMDP", counts: "Counts", spec: "Spec") -> None:
        from latentmdp.optimism.confidence import Bonus, Evidence, Setting, rule_named
        from latentmdp.optimism.model import Known

        self.known = known = Known.of(model)
        rows, S, row = counts.rows, model.S, counts.slot_row
        rule = rule_named(spec.algorithm)
        setting = Setting(known.M, S, known.A, known.H, spec.episodes, spec.delta, spec.bonus_scale)
        support = np.bincount(row[counts.N_next > 0], minlength=rows)
        evidence = Evidence(counts.N, support, row, counts.N_next, counts.p_hat)
        answer = rule.compute(evidence, setting, np.random.default_rng(0))
        unknown = (counts.N == 0) & (not rule.own_unvisited)
        self.cap = rule.cap
        self.reward = np.zeros((rows, S)) if known.next_reward is None else known.next_reward
        self.p_hat = np.zeros((rows, S))
        self.p_hat[row, counts.next] = counts.p_hat
        self.is_bonus = isinstance(answer, Bonus)
        if isinstance(answer, Bonus):
            self.c1, self.c2, self.c3 = (np.zeros(rows) + x for x in answer[:3])
            self.c2[unknown] = np.inf  # a row without visits is worth the cap
            return
        self.budget = np.zeros(rows) + answer.budget
        unseen = np.minimum(np.zeros(rows) + answer.unseen, 1.0)
        self.lower, self.upper = np.zeros((rows, S)), np.repeat(unseen[:, None], S, axis=1)
        seen = counts.N_next > 0
        where = (row[seen], counts.next[seen])
        self.lower[where] = np.maximum((np.zeros(len(row)) + answer.lower)[seen], 0.0)
        self.upper[where] = np.minimum((np.zeros(len(row)) + answer.upper)[seen], 1.0)
        self.lower[unknown], self.upper[unknown], self.budget[unknown] = 0.0, 1.0, 1.0

    def backup(self, row: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Optimistic values of these rows from the values `after (len(row), S)` of next states."""
        v = np.minimum(self.reward[row] + after, self.cap)
        best = self._bonus(row, v) if self.is_bonus else self._interval(row, v)
        return np.minimum(self.known.row_reward[row] + best, self.cap)

    def _bonus(self, row: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Eqs. (3), (4): `p.v + max(c1 sqrt(Var(p, v)), c2) + c3`."""
        p = self.p_hat[row]
        mean = (p * v).sum(axis=1)
        deviation = np.sqrt((p * (v - mean[:, None]) ** 2).sum(axis=1))
        return mean + np.maximum(self.c1[row] * deviation, self.c2[row]) + self.c3[row]

    def _interval(self, row: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Eq. (2): the best distribution in the box, with at most `budget` of the mass moved."""
        order = np.argsort(-v, axis=1, kind="stable")
        v, p, low, high = (
            np.take_along_axis(x, order, axis=1)
            for x in (v, self.p_hat[row], self.lower[row], self.upper[row])
        )
        missing = np.maximum(1.0 - p.sum(axis=1, keepdims=True), 0.0)  # 1 in a row never visited
        budget = self.budget[row][:, None]
        full = low + _fill(high - low, 1.0 - low.sum(axis=1, keepdims=True))
        moved = np.maximum(full - p, 0.0).sum(axis=1, keepdims=True) - missing
        gain = _fill(high - p, budget)
        loss = _fill((p - low)[:, ::-1], budget)[:, ::-1]
        return (np.where(moved <= budget, full, p + gain - loss) * v).sum(axis=1)


def _fill(room: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """Pour `amount` into the columns from left to right, each up to its room."""
    before = np.cumsum(room, axis=1) - room
    return np.clip(amount - before, 0.0, np.maximum(room, 0.0))


def _backward(hopes: Hopes, policy: PolicyGraph) -> np.ndarray:
    M, S, A, H = hopes.known.M, hopes.known.S, hopes.known.A, hopes.known.H
    alpha, values = np.zeros((policy.N, M)), np.zeros((policy.N, M, A))
    rows = np.arange(M * S * A)
    for t in range(H - 1, -1, -1):
        after = alpha[policy.default[t + 1]].T if t + 1 < H else np.zeros((M, S))  # (M, S)
        every = hopes.backup(rows, np.repeat(after, S * A, axis=0)).reshape(M, S, A)
        nodes = np.flatnonzero(policy.step == t)
        values[nodes] = every[:, policy.state[nodes]].transpose(1, 0, 2)
        for n in nodes[policy.indptr[nodes + 1] > policy.indptr[nodes]]:  # own successors
            row = (np.arange(M) * S + policy.state[n]) * A + policy.action[n]
            seen = _successor_values(hopes, policy, alpha, after, n, row)
            values[n, :, policy.action[n]] = hopes.backup(row, seen)
        chosen = policy.action[nodes][:, None, None]
        alpha[nodes] = np.take_along_axis(values[nodes], chosen, axis=2)[:, :, 0]
    return values


def _successor_values(
    hopes: Hopes,
    policy: PolicyGraph,
    alpha: np.ndarray,
    after: np.ndarray,
    node: int,
    row: np.ndarray,
) -> np.ndarray:
    """`(M, S)` values of the next states as this node's own successors have them."""
    seen = after.copy()
    edges = slice(policy.indptr[node], policy.indptr[node + 1])
    symbol, nxt, to = policy.symbol[edges], policy.next[edges], policy.node[edges]
    for m in range(len(seen)):
        match = hopes.known.symbols(np.full(len(nxt), row[m]), nxt) == symbol
        seen[m, nxt[match]] = alpha[to[match], m]
    return seen
