"""Grow a policy graph from a rule: memory, how it moves on, and what to do with it."""

from collections import deque
from collections.abc import Callable
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.model.horizons import needs_finite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.graph import PolicyGraph


def expand(
    model: LatentMDP,
    start: Callable[[int], Any],
    follow: Callable[[int, int, Any, int, int, int], Any],
    choose: Callable[[int, int, Any], int],
    max_nodes: int | None = None,
    time_limit: float | None = None,
) -> PolicyGraph:
    """Expand nodes `(step, state, memory)` from the possible first states, breadth first.

    Where `max_nodes` or `time_limit` end it, observations lead to the default nodes.
    """
    needs_finite(model, "a policy that is grown history by history")
    end = inf if time_limit is None else perf_counter() + time_limit
    most = inf if max_nodes is None else max_nodes
    H, S, A = model.H, model.S, model.A
    ids: dict[tuple[int, int, Any], int] = {}
    nodes: list[tuple[int, int, Any]] = []
    actions: list[int] = []

    def node(t: int, s: int, memory: Any) -> int:
        key = (t, s, memory)
        if key not in ids:
            action = int(choose(t, s, memory))
            if not 0 <= action < A:
                raise ModelError(
                    f"the chosen action must be from 0 to {A - 1}; at step {t}, state {s} "
                    f"it is {action}"
                )
            ids[key] = len(nodes)
            nodes.append(key)
            actions.append(action)
        return ids[key]

    default = [[node(t, s, start(s)) for s in range(S)] for t in range(H)]
    root = default[0]
    edges: dict[int, list[tuple[int, int, int]]] = {}
    queue = deque(root[s] for s in range(S) if (model.w * model.nu[:, s]).any())
    contexts = {n: np.flatnonzero(model.w * model.nu[:, nodes[n][1]]) for n in queue}
    seen = {n: {int(m) for m in contexts[n]} for n in queue}
    while queue and perf_counter() < end and len(nodes) < most:
        n = queue.popleft()
        t, s, memory = nodes[n]
        if t == H - 1:
            continue
        out: dict[tuple[int, int], set[int]] = {}
        for m in seen[n]:
            row = model.row(t, m, s, actions[n])
            for i in range(model.indptr[row], model.indptr[row + 1]):
                out.setdefault((int(model.symbol[i]), int(model.next[i])), set()).add(int(m))
        edges[n] = []
        for (symbol, nxt), by in sorted(out.items()):
            after = follow(t, s, memory, actions[n], symbol, nxt)
            if after is None:
                continue
            k = node(t + 1, nxt, after)
            edges[n].append((symbol, nxt, k))
            if not by <= seen.setdefault(k, set()):
                seen[k] |= by
                queue.append(k)
    flat = [edge for n in range(len(nodes)) for edge in edges.get(n, ())]
    degree = [len(edges.get(n, ())) for n in range(len(nodes))]
    symbol_, next_, node_ = np.array(flat, dtype=np.int64).reshape(-1, 3).T
    return (
        PolicyGraph.from_arrays(
            [n[0] for n in nodes],
            [n[1] for n in nodes],
            actions,
            np.concatenate([[0], np.cumsum(degree, dtype=np.int64)]),
            symbol_,
            next_,
            node_,
            root,
            default,
        )
        .prune()
        .for_model(model)
    )
