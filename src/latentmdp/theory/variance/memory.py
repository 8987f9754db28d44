"""Policies with memory as Markov policies: states that carry belief and collected reward.

Given memory nodes with deterministic updates, `(step, node)` behaves like an observed state, so
ascent written for Markov tables serves the history class too.
"""

from dataclasses import dataclass

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.budget import StopCheck
from latentmdp.policy.graph import PolicyGraph
from latentmdp.policy.grow import expand

NodeKey = tuple[int, tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class MemoryModel:
    """A model whose states are memory nodes, and how to turn its tables into policy graphs."""

    base: LatentMDP
    model: LatentMDP
    start: dict[int, int]  # first state -> node
    follow: dict[tuple[int, int, int, int], int]  # (node, action, symbol, next) -> node
    state: Ints  # (nodes,) of the base model

    def policy(self, table: Ints, elsewhere: Ints) -> PolicyGraph:
        """The policy of `table (H, nodes)`; `elsewhere (H, S)` answers what cannot happen."""

        def choose(t: int, s: int, node: int | None) -> int:
            return int(elsewhere[t, s] if node is None else table[t, node])

        def step(t: int, s: int, node: int | None, a: int, symbol: int, nxt: int) -> int | None:
            return None if node is None else self.follow.get((node, a, symbol, nxt))

        return expand(self.base, self.start.get, step, choose)


def after_action(
    model: LatentMDP, t: int, s: int, a: int, g: Floats, C: Floats
) -> dict[tuple[int, int], tuple[Floats, Floats]]:
    """What may be observed after action `a` in state `s` at step `t`, as `(symbol, next)`.

    `g (M,)`: the weight of each context; `C (M,)`: the reward collected in it so far. The values
    are both of them after the observation.
    """
    after: dict[tuple[int, int], tuple[Floats, Floats]] = {}
    for m in np.flatnonzero(g):
        row = (m * model.S + s) * model.A + a
        for i in range(model.indptr[row], model.indptr[row + 1]):
            seen = (int(model.symbol[i]), int(model.next[i]))
            weight, collected = after.setdefault(seen, (np.zeros(model.M), np.zeros(model.M)))
            weight[m] = g[m] * model.prob[i]
            collected[m] = C[m] + model.discount**t * model.reward[i]
    return after


def build_memory(
    model: LatentMDP, limit: int, digits: int = 12, stop: StopCheck = lambda: False
) -> MemoryModel | None:
    """Nodes `(state, belief, collected reward by context)`, rounded to `digits` to merge.

    None if that takes more than `limit` outcomes, or `stop` says so before.
    """
    ids: dict[NodeKey, int] = {}
    exact: list[tuple[int, np.ndarray, np.ndarray]] = []  # a node's first arrival

    def number(s: int, g: np.ndarray, C: np.ndarray) -> int:
        g = g / g.sum()
        key = (s, tuple(np.round(g, digits)), tuple(np.round(np.where(g > 0, C, 0.0), digits)))
        if key not in ids:
            ids[key] = len(exact)
            exact.append((s, g, C))
        return ids[key]

    weight = model.w[:, None] * model.nu
    start = {
        int(s): number(int(s), weight[:, s], np.zeros(model.M))
        for s in np.flatnonzero(weight.any(axis=0))
    }
    follow: dict[tuple[int, int, int, int], int] = {}
    rows: list[tuple] = []
    layer = set(start.values())
    done: set[int] = set()
    for t in range(model.H):
        following = set()
        for node in sorted(layer - done):
            done.add(node)
            s, g, C = exact[node]
            for a in range(model.A):
                for seen, (p, c) in after_action(model, t, s, a, g, C).items():
                    to = number(seen[1], p, c)
                    follow[(node, a, *seen)] = to
                    following.add(to)
                for m in np.flatnonzero(g):
                    row = (m * model.S + s) * model.A + a
                    for i in range(model.indptr[row], model.indptr[row + 1]):
                        after_node = follow[node, a, int(model.symbol[i]), int(model.next[i])]
                        rows.append((m, node, a, after_node, model.prob[i], model.reward[i]))
            if len(rows) > limit or stop():
                return None
        layer = following
    known = {(m, node) for m, node, *_ in rows}
    for absent in range(model.M):  # what cannot happen stays where it is, at no reward
        if stop():
            return None
        for node in range(len(exact)):
            if (absent, node) not in known:
                rows += [(absent, node, a, node, 1.0, 0.0) for a in range(model.A)]
    nu = np.zeros((model.M, len(exact)))
    for s, node in start.items():
        nu[:, node] = model.nu[:, s]
    nu[model.w == 0] = np.eye(1, len(exact))  # contexts that never occur
    context, at, action, end, prob, reward = (np.array(c) for c in zip(*rows, strict=True))
    augmented = LatentMDP.from_rows(
        context, at, action, end, prob, reward, model.w, nu, model.H, n_actions=model.A,
        observe_rewards=False, discount=model.discount, max_return=None,
    )  # fmt: skip
    return MemoryModel(model, augmented, start, follow, np.array([s for s, _, _ in exact]))
