"""Rows that nobody has seen, at their worst and at their best: what a policy is worth then.

The model assumes something for such rows (`unseen=` of `fit`), but no log can say whether it is so.
Here each of them may lead to any state, anew at every node of the policy, whatever is seen of the
reward, and pay what its bounds allow (`Estimate.unseen_low`, `unseen_high`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.fitting.estimation.estimate import Estimate
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.graph import PolicyGraph

BATCH = 2_000_000  # numbers (outcome, draw) of one step that are looked at together
MOST_TOGETHER = 25  # draws that are looked at together: between two batches one may stop


class _Step(NamedTuple):
    """The nodes of one step; a place is a node in a context, `node * M + m`."""

    nodes: Ints
    seen: Ints  # (v,) places in rows that were seen
    first: Ints  # (v,) where the outcomes of each begin
    slot: Ints  # (outcomes,) of the model
    after: Ints  # (outcomes,) place of the next step's node in the same context; empty at the last
    free: Ints  # (k,) places in rows never seen, among this step's
    row: Ints  # (k,) their rows
    owner: Ints  # (f,) free places with listed successors, ascending: which of the k
    start: Ints  # (f,) where their successors begin
    child: Ints  # (e,) the places of the successors, each once


class UnseenRows:
    """A policy in models that differ in numbers only, with the unseen rows left open."""

    def __init__(self, found: Estimate, policy: PolicyGraph) -> None:
        model = found.model
        self.model, self.policy, self.discount = model, policy, model.discount
        is_unseen = np.zeros(model.M * model.S * model.A, dtype=bool)
        is_unseen[found.unseen] = True
        self.low, self.high = np.zeros((2, len(is_unseen)))
        self.low[found.unseen], self.high[found.unseen] = found.unseen_low, found.unseen_high
        self.steps = [self._step(t, is_unseen) for t in range(policy.H)]
        # where only ends pay, no row pays more than one end does
        self.most_once = found.total_range
        widest = max(len(step.slot) + len(step.child) for step in self.steps)
        self.batch = min(max(BATCH // max(widest, 1), 1), MOST_TOGETHER)

    def _step(self, t: int, is_unseen: np.ndarray) -> _Step:
        model, policy, M = self.model, self.policy, self.model.M
        nodes = np.flatnonzero(policy.step == t)
        place = policy.state[nodes] * model.A + policy.action[nodes]
        row = (place[:, None] + np.arange(M) * (model.S * model.A)).reshape(-1)
        unseen, nothing = is_unseen[row], np.zeros(0, dtype=np.int64)
        free, seen = np.flatnonzero(unseen), np.flatnonzero(~unseen)
        begin = model.indptr[row[seen]]
        width = model.indptr[row[seen] + 1] - begin
        first = np.cumsum(width) - width
        slot = np.arange(width.sum()) + np.repeat(begin - first, width)
        if t == policy.H - 1:
            return _Step(
                nodes, seen, first, slot, nothing, free, row[free], nothing, nothing, nothing
            )
        node, context = np.divmod(np.repeat(seen, width), M)
        later = policy.successors(nodes[node], model.symbol[slot], model.next[slot])
        edges = policy.indptr[nodes[free // M]]
        many = policy.indptr[nodes[free // M] + 1] - edges
        owner = np.repeat(np.arange(len(free)), many)
        edge = np.arange(len(owner)) + np.repeat(edges - (np.cumsum(many) - many), many)
        places = policy.N * M
        pair = np.unique(owner * places + policy.node[edge] * M + (free % M)[owner])
        owner, start = np.unique(pair // places, return_index=True)
        return _Step(nodes, seen, first, slot, later * M + context, free, row[free], owner, start,
                     pair % places)  # fmt: skip

    def contexts(self, models: Sequence[LatentMDP], best: bool) -> Floats:
        """`(models, M)` values by context, the unseen rows at their best or at their worst."""
        extreme, gain = (np.maximum, self.high) if best else (np.minimum, self.low)
        policy, M, n = self.policy, self.model.M, len(models)
        prob, reward = (np.stack([getattr(x, name) for x in models], axis=1)
                        for name in ("prob", "reward"))  # fmt: skip
        alpha = np.zeros((policy.N * M, n))
        for t, step in reversed(list(enumerate(self.steps))):
            value = np.empty((len(step.nodes) * M, n))
            if len(step.seen):
                worth = reward[step.slot]
                if t < policy.H - 1:
                    worth += self.discount * alpha[step.after]
                value[step.seen] = np.add.reduceat(prob[step.slot] * worth, step.first, axis=0)
            if len(step.free):
                found = np.zeros((len(step.free), n))
                if t < policy.H - 1:
                    later = alpha.reshape(policy.N, M, n)[policy.default[t + 1]]  # (S, M, n)
                    found = extreme.reduce(later, axis=0)[step.free % M]
                    if len(step.owner):
                        listed = extreme.reduceat(alpha[step.child], step.start, axis=0)
                        found[step.owner] = extreme(found[step.owner], listed)
                worth = gain[step.row][:, None] + self.discount * found
                value[step.free] = self.most_once.clip(worth) if self.most_once else worth
            places = (step.nodes[:, None] * M + np.arange(M)).reshape(-1)
            alpha[places] = value
        first = alpha.reshape(policy.N, M, n)[policy.root]  # (S, M, n)
        nu = np.stack([model.nu for model in models])
        return np.einsum("nms,smn->nm", nu, first)
