"""Memory nodes: the graph of what a policy with memory can distinguish, built forwards by step.

A node is `(step, state, belief)`. The update of the belief is the memory's own
(`optimism/memory.py`); only its merging matters here: beliefs with the same key share a node. Nodes
of a step are numbered in the order of arrival.
"""

import numpy as np

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.optimistic_arena import arena_at


@kernel
def _find(table, keys, state, key, s, n):
    """Node of this layer with state `s` and `key`; inserts `n` if there is none."""
    M = len(key)
    h = np.uint64(s + 1)
    for m in range(M):
        h = (h ^ np.uint64(key[m])) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
    size = np.uint64(len(table))
    at = np.int64(h % size)
    while table[at] >= 0:
        other = table[at]
        same = state[other] == s
        for m in range(M):
            same = same and keys[other, m] == key[m]
        if same:
            return other
        at = at + 1 if at + 1 < len(table) else 0
    table[at] = n
    return n


@kernel
def build(
    D, H, S, A, root, obs_start, obs_next, likelihood, consistent, side, tree,
    state, step, span, first, belief, keys, edge, succ, table,
):  # fmt: skip
    """Grow the graph until it is complete or out of room. Returns `(nodes, edges, complete)`.

    `root (M, S)`; observations of `(s, a)` are `obs_start[s*A + a]:obs_start[s*A + a + 1]`, each
    with its next state, `likelihood (., M)` and whether a context is `consistent` with its symbol
    `(., M)`. Beliefs merge if they agree to `side` (and in which entries are 0), never if `tree`.
    Outputs have room for all nodes: `state, step, belief, keys, edge` count memory nodes from 0,
    `succ, first, span` hold node numbers. What does not fit leads to default nodes.
    """
    M = root.shape[0]
    room, edge_room = len(state), len(succ)
    b, key = np.zeros(M), np.zeros(M, np.int64)
    nodes, edges, complete = 0, 0, True
    span[0] = D
    for s in range(S):
        total = 0.0
        for m in range(M):
            total += root[m, s]
        first[s] = s
        if total > 0.0 and nodes < room:
            for m in range(M):
                belief[nodes, m] = root[m, s] / total
            state[nodes], step[nodes] = s, 0
            first[s] = D + nodes
            nodes += 1
    begin = 0
    for t in range(H):
        end = nodes
        span[t + 1] = D + end
        for i in range(len(table)):
            table[i] = -1
        for n in range(begin, end):
            s = state[n]
            for a in range(A):
                lo, hi = obs_start[s * A + a], obs_start[s * A + a + 1]
                if edges + hi - lo > edge_room:
                    return -1, -1, False
                edge[n, a] = edges
                for o in range(lo, hi):
                    nxt = obs_next[o]
                    succ[edges] = (t + 1) * S + nxt
                    edges += 1
                    if t + 1 == H:
                        continue
                    total = 0.0
                    for m in range(M):
                        b[m] = belief[n, m] * likelihood[o, m]
                        total += b[m]
                    if total <= 0.0:  # unexpected: keep the belief, as far as the symbol allows
                        for m in range(M):
                            b[m] = belief[n, m] if consistent[o, m] else 0.0
                            total += b[m]
                    if total <= 0.0:
                        continue
                    if nodes >= room:
                        complete = False
                        continue
                    found = nodes
                    if not tree:
                        for m in range(M):
                            b[m] /= total
                            key[m] = 0 if b[m] == 0.0 else 1 + np.int64(b[m] / side + 0.5)
                            keys[nodes, m] = key[m]
                        found = _find(table, keys, state, key, nxt, nodes)
                    else:
                        for m in range(M):
                            b[m] /= total
                    if found == nodes:
                        for m in range(M):
                            belief[nodes, m] = b[m]
                        state[nodes], step[nodes] = nxt, t + 1
                        nodes += 1
                    succ[edges - 1] = D + found
        begin = end
    return nodes, edges, complete


@kernel
def mark_active(here):
    """Mark the contexts that can be at a memory node: some path of slots leads them there."""
    x = arena_at(here)
    I, G, T, M, S, A, D = x.I, x.G, x.T, x.M, x.S, x.A, x.D  # noqa: E741
    for i in range(D * M, x.N * M):
        I[x.active + i] = 0
    for s in range(S):
        for m in range(M):
            if x.P[x.root + m * S + s] > 0.0:
                I[x.active + G[x.first + s] * M + m] = 1
    for n in range(D, x.N):  # children have larger numbers, or are default nodes
        for m in range(M):
            if I[x.active + n * M + m] == 0:
                continue
            for a in range(A):
                row = (m * S + G[n]) * A + a
                first = x.succ + G[x.edge + (n - D) * A + a]
                for k in range(T[row], T[row + 1]):
                    I[x.active + G[first + T[x.obs + k]] * M + m] = 1


@kernel
def weigh_by_belief(here, belief):
    """Reach weights `g` of memory nodes: their beliefs. Default nodes get none."""
    x = arena_at(here)
    for i in range(x.D * x.M):
        x.F[x.g + i] = 0.0
    for n in range(x.D, x.N):
        for m in range(x.M):
            x.F[x.g + n * x.M + m] = belief[n - x.D, m]


@kernel
def extract(here, policy, obs_start, obs_next, obs_symbol, number, out_step, out_state,
            out_action, out_indptr, out_symbol, out_next, out_node):  # fmt: skip
    """The part of a policy that it can reach itself, as arrays of a policy graph.

    Default nodes are always part of it. `number (N,)` gets the new number of every node, -1 if it
    is not part. Returns `(nodes, edges)`.
    """
    x = arena_at(here)
    I, G, S, A, D = x.I, x.G, x.S, x.A, x.D  # noqa: E741
    for n in range(x.N):
        number[n] = -1
    for s in range(S):
        if G[x.first + s] >= D:
            number[G[x.first + s]] = 0
    nodes, edges = 0, 0
    for t in range(x.H):
        for n in range(t * S, (t + 1) * S):
            number[n] = nodes
            nodes += 1
        for n in range(G[x.span + t], G[x.span + t + 1]):
            if number[n] < 0:
                continue
            number[n] = nodes
            nodes += 1
            if t + 1 == x.H:
                continue
            a = I[policy + n]
            first = x.succ + G[x.edge + (n - D) * A + a]
            width = obs_start[G[n] * A + a + 1] - obs_start[G[n] * A + a]
            for o in range(width):
                if G[first + o] >= D:
                    number[G[first + o]] = 0
    at = 0
    for t in range(x.H):
        for part in range(2):
            n0 = t * S if part == 0 else G[x.span + t]
            n1 = (t + 1) * S if part == 0 else G[x.span + t + 1]
            for n in range(n0, n1):
                if number[n] < 0:
                    continue
                out_step[at], out_state[at], out_action[at] = t, G[n], I[policy + n]
                out_indptr[at] = edges
                at += 1
                if part == 0 or t + 1 == x.H:
                    continue
                row = G[n] * A + I[policy + n]
                first = x.succ + G[x.edge + (n - D) * A + I[policy + n]]
                for o in range(obs_start[row + 1] - obs_start[row]):
                    child = G[first + o]
                    if child >= D:
                        out_symbol[edges] = obs_symbol[obs_start[row] + o]
                        out_next[edges] = obs_next[obs_start[row] + o]
                        out_node[edges] = number[child]
                        edges += 1
    out_indptr[at] = edges
    return nodes, edges
