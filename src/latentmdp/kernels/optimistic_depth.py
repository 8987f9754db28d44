"""Depth-first AND/OR solve by belief: memory nodes are made only where an action could win.

A node is `(step, state, belief)`. Its actions are tried in the order of their context-known bound
`sum_m b_m Q_m(t, s, a)` until the next bound cannot win; the nodes that may follow an action are
made when it is first tried. A node is solved once. An action that is not expanded leads to default
nodes, where a policy goes on without memory; if that already reaches the bound, as behind saturated
rows, it stays so.

The graph lies in `G` of an arena (`optimistic_arena.py`), nodes in the order in which they were
made, and is shared by all models that plan through it. Its first `H * observations` successors are
the default nodes' blocks, one a step: an action whose `edge` is there has not been expanded.
"""

import numpy as np

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.optimistic_arena import arena_at
from latentmdp.kernels.optimistic_backup import backup
from latentmdp.kernels.optimistic_sweep import TOLERANCE
from latentmdp.kernels.optimistic_values import evaluate_policy, objective


@kernel
def find(table, keys, n):
    """The node with the key of node `n` in an open hash table; that is `n` itself if it is new."""
    h = np.uint64(1)
    for key in keys[n]:
        h = (h ^ np.uint64(key)) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
    at = np.int64(h % np.uint64(len(table)))
    while table[at] >= 0:
        same = True
        for i in range(keys.shape[1]):
            same = same and keys[table[at], i] == keys[n, i]
        if same:
            return table[at]
        at = at + 1 if at + 1 < len(table) else 0
    table[at] = n
    return n


@kernel
def set_key(keys, belief, n, state, step, side):
    """Beliefs merge if they agree to `side` and in which entries are 0."""
    M = belief.shape[1]
    keys[n, M], keys[n, M + 1] = state, step
    for m in range(M):
        b = belief[n, m]
        keys[n, m] = 0 if b == 0.0 else 1 + np.int64(b / side + 0.5)


@kernel
def fill_table(table, keys, belief, state, step, side):
    """Keys and hash table of the nodes that are there."""
    for i in range(len(table)):
        table[i] = -1
    for n in range(len(state)):
        set_key(keys, belief, n, state[n], step[n], side)
        find(table, keys, n)


@kernel
def expand(x, n, a, reach, least, side, start, nxt, likelihood, consistent, belief, keys, table,
           used):  # fmt: skip
    """Make the nodes that may follow `(n, a)`; what is reached with less than `least` is left out.

    `used` holds the numbers of nodes and of successors, and the room for these. Returns whether
    there was room.
    """
    G, M, D = x.G, x.M, x.D
    i, s, t = n - D, G[n], G[x.step + n]
    lo, hi = start[s * x.A + a], start[s * x.A + a + 1]
    if used[0] + hi - lo > len(belief) or used[1] + hi - lo > used[2]:
        return False
    G[x.edge + i * x.A + a] = used[1]
    for o in range(lo, hi):
        new, total = used[0], 0.0
        for m in range(M):
            belief[new, m] = belief[i, m] * likelihood[o, m]
            total += belief[new, m]
        likely = reach * total >= least
        if total <= 0.0:  # unexpected: keep the belief, as far as the symbol allows
            for m in range(M):
                belief[new, m] = belief[i, m] if consistent[o, m] else 0.0
                total += belief[new, m]
        child = (t + 1) * x.S + nxt[o]
        if likely and total > 0.0:
            for m in range(M):
                belief[new, m] /= total
            found = new
            if side > 0.0:
                set_key(keys, belief, new, nxt[o], t + 1, side)
                found = find(table, keys, new)
            if found == new:
                G[D + new], G[x.step + D + new] = nxt[o], t + 1
                for b in range(x.A):
                    block = (t + 1) * start[-1] + start[nxt[o] * x.A + b]
                    G[x.edge + new * x.A + b] = block
                mark_possible(x, D + new, belief)
                used[0] += 1
            child = D + found
        G[x.succ + used[1]] = child
        used[1] += 1
    return True


@kernel
def mark_possible(x, n, belief):
    """Values of contexts that the memory excludes are not needed; intervals may give them mass."""
    for m in range(x.M):
        x.I[x.active + n * x.M + m] = 1 if belief[n - x.D, m] > 0.0 else x.interval


@kernel
def value_of(x, n, a, belief):
    """Value of an action by belief, with the successors it has; the contexts' own go to `q`."""
    backup(x, n, n + 1, x.every, x.policy, a, 0, x.M, 1, x.q)
    value = 0.0
    for m in range(x.M):
        value += belief[n - x.D, m] * x.F[x.q + n * x.M + m]
    return value


@kernel
def keep_best(x, n, a, value):
    """The action becomes the node's own if none before it was as good."""
    top = x.F[x.top + n]
    if value > top + TOLERANCE * (1.0 + top):
        x.F[x.top + n], x.I[x.policy + n] = value, a
        for m in range(x.M):
            x.F[x.alpha + (x.N + n) * x.M + m] = x.F[x.q + n * x.M + m]


@kernel
def open_node(x, n, t, node, bounds, belief, every):
    """Start a node at level `t` of the stack: the bounds of its actions, none tried."""
    node[t, 0], node[t, 1], node[t, 2] = n, -1, 0
    x.F[x.top + n] = -1.0
    for a in range(x.A):
        at = x.known_q + ((t * x.S + x.G[n]) * x.A + a) * x.M
        bounds[t, a] = np.inf if every else 0.0
        for m in range(x.M):
            bounds[t, a] += belief[n - x.D, m] * x.F[at + m]


@kernel
def solve(here, start, nxt, likelihood, consistent, side, least, every, belief, keys, table, used,
          solved, node, bounds):  # fmt: skip
    """Best policy by belief from all first states, into the arena's policy.

    Observations as in `Observations`; `consistent (., M)` says for which contexts an unexpected one
    keeps the belief. Beliefs merge to `side`, never if it is 0. With `every`, all actions are tried
    everywhere. The graph's other arrays are `belief, keys (room, .)`, its hash `table` and `used`.
    `solved (room,)` is 0 and becomes 1; the stack is `node (H, 3)`: node, action, next child;
    and `bounds (H, A + 1)`, of actions not yet tried, and the probability of getting there.
    Returns whether all fitted, the number of actions tried, and the objective.
    """
    x = arena_at(here)
    G, S, A, M, H, D = x.G, x.S, x.A, x.M, x.H, x.D
    for n in range(D, D + used[0]):
        mark_possible(x, n, belief)
    evaluate_policy(x, x.policy, 1)  # of the default nodes
    fits, tried = True, 0
    for s in range(S):
        if G[x.first + s] < D:
            continue
        t, bounds[0, A] = 0, 0.0
        for m in range(M):
            bounds[0, A] += x.P[x.root + m * S + s]
        open_node(x, G[x.first + s], 0, node, bounds, belief, every)
        while t >= 0:
            n, a = node[t, 0], node[t, 1]
            if a < 0:  # the next action, if any
                a = 0
                for other in range(1, A):
                    if bounds[t, other] > bounds[t, a]:
                        a = other
                top = x.F[x.top + n]
                if bounds[t, a] <= top + TOLERANCE * (1.0 + top):
                    solved[n - D] = 1
                    t -= 1
                    continue
                tried += 1
                node[t, 1], node[t, 2] = a, 0
                if t + 1 < H and G[x.edge + (n - D) * A + a] < H * start[-1]:
                    value = value_of(x, n, a, belief)
                    if value < bounds[t, a] - TOLERANCE:
                        fits = expand(x, n, a, bounds[t, A], least, side, start, nxt, likelihood,
                                      consistent, belief, keys, table, used) and fits  # fmt: skip
            row, edge = G[n] * A + a, G[x.edge + (n - D) * A + a]
            width = 0 if edge < H * start[-1] else start[row + 1] - start[row]
            child = D
            while node[t, 2] < width:  # the first of its children that is not solved
                child = G[x.succ + edge + node[t, 2]]
                if child >= D and solved[child - D] == 0:
                    break
                node[t, 2] += 1
            if node[t, 2] < width:
                total = 0.0
                for m in range(M):
                    total += belief[n - D, m] * likelihood[start[row] + node[t, 2], m]
                bounds[t + 1, A] = bounds[t, A] * total
                t += 1
                open_node(x, child, t, node, bounds, belief, every)
                continue
            keep_best(x, n, a, value_of(x, n, a, belief))
            node[t, 1], bounds[t, a] = -1, -1.0
    return fits, tried, objective(x, 1)


@kernel
def push_reach(D, state, edge, succ, start, likelihood, belief, order, action, within, reach):
    """Probability `(nodes,)` of getting to nodes under a policy; see `Growth.reach`.

    `reach` holds that of first states; `order` is by step, `succ` holds node numbers.
    """
    for n in order:
        row = state[D + n] * edge.shape[1] + action[n]
        if reach[n] == 0.0:
            continue
        for o in range(start[row], start[row + 1]):
            child = succ[edge[n, action[n]] + o - start[row]] - D
            if child >= 0 and within[child]:
                for m in range(belief.shape[1]):
                    reach[child] += reach[n] * belief[n, m] * likelihood[o, m]
