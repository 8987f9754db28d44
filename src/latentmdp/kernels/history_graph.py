"""Kernels of the belief graph: nodes `(belief, state)` shared by all steps, values per steps to go.

The nodes of one belief are a *layer*; layers are expanded as a whole. Along a transition a belief's
support never grows, so beliefs that can reach one another have the same support: such a *group* of
layers is swept together, steps to go ascending, after the groups of smaller support. One such pass
over all steps gives the exact bounds of the expanded part, given those at its frontier.
"""

from typing import Any, NamedTuple

import numpy as np

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.history_grid import posterior
from latentmdp.kernels.history_tree import hash_belief, same_belief

BELIEFS, NODES, ROWS, EDGES, WORK = 0, 1, 2, 3, 4  # entries of `count`; for WORK see history_tree
SIZE = 0  # number of contexts in the support
SWEPT = 1  # round of the layer's last sweep; -1: none yet; FRONTIER: not expanded
LOW, HIGH = 2, 3  # steps to go at which the current policies pass; HIGH 0: they do not
FROM, UPTO = 4, 5  # steps to go of the last sweep
BELIEF, STATE = 0, 1
ROW = 2  # row in `ptr` and `gain`; -1: at the frontier
FLAT = 3  # steps to go from which the bounds hardly change any more
CHANGED = 4  # round in which the bounds last changed
MEMBER = 5  # stamp of the last sweep
PEAK = 6  # steps to go at which a frontier node matters most; 0: nowhere
PLACE = 7  # number in the last sweep
FRONTIER = -2
HOLD = 16  # steps for which a corner's policy is kept at the frontier


class Graph(NamedTuple):
    """Growing arrays; the first `count[...]` entries of each are in use. `T = H + 1`."""

    count: Any  # (5,)
    belief: Any  # (beliefs, M)
    layer: Any  # (beliefs, 6) integers of each belief, SIZE to UPTO
    node_of: Any  # (beliefs, S) node; -1: none
    table: Any  # (power of two,) hash table of beliefs, -1: empty
    node: Any  # (nodes, 8) integers of each node, BELIEF to PLACE
    bound: Any  # (nodes, T, 2) lower and upper, by steps to go
    ptr: Any  # (rows*A + 1,) edges of each action
    gain: Any  # (rows, A) expected reward now
    child: Any  # (edges,)
    prob: Any  # (edges,) discounted
    score: Any  # (beliefs,) reach x gap at the frontier
    reach: Any  # (2, nodes) now and next, zero between rounds
    queue: Any  # (2, nodes)


class Corners(NamedTuple):
    """Values with steps last: a node's bounds at all steps are made from neighbouring entries."""

    known: Any  # (S, M, T) knowing the context
    alpha: Any  # (S, M, M, T) the policy of one context, in every context
    held: Any  # (S, T/HOLD, M, M) alpha at every HOLD-th step


@kernel
def find_belief(graph, b):
    """`(slot, belief)`; belief -1 where there is none yet."""
    mask = np.uint64(graph.table.size - 1)
    slot = hash_belief(0, b) & mask
    while True:
        i = graph.table[slot]
        if i < 0 or same_belief(graph.belief[i], b):
            return slot, i
        slot = (slot + np.uint64(1)) & mask


@kernel
def rehash_beliefs(graph):
    """Enter all beliefs into an empty hash table."""
    for i in range(graph.count[BELIEFS]):
        slot, _ = find_belief(graph, graph.belief[i])
        graph.table[slot] = i


@kernel
def add_belief(graph, b):
    """The number of belief `b`."""
    slot, i = find_belief(graph, b)
    if i >= 0:
        return i
    i = graph.count[BELIEFS]
    graph.count[BELIEFS] += 1
    graph.table[slot] = i
    n = 0
    for m in range(b.size):
        graph.belief[i, m] = b[m]
        n += b[m] > 0.0
    graph.layer[i, SIZE], graph.layer[i, SWEPT] = n, FRONTIER
    graph.layer[i, LOW] = graph.layer[i, HIGH] = 0
    graph.score[i] = 0.0
    for s in range(graph.node_of.shape[1]):
        graph.node_of[i, s] = -1
    return i


@kernel
def weigh(b, x, first, last, out):
    """Fill `out[first:last]` with `sum_m b_m x[m]`, `x (M, T)`."""
    for t in range(first, last):
        out[t] = 0.0
    for m in range(b.size):
        p = b[m]
        if p > 0.0:
            for t in range(first, last):
                out[t] += p * x[m, t]


@kernel
def corner_policy(b, corners, s, t):
    """The context whose policy is taken at belief `b`, state `s`, step `t`.

    The best one at every `HOLD`-th step; in between that of the step before.
    """
    held = corners.held[s, t // HOLD]
    best, top = -1, 0.0
    for k in range(b.size):
        if b[k] > 0.0:
            x = 0.0
            for m in range(b.size):
                x += b[m] * held[k, m]
            if best < 0 or x > top:
                best, top = k, x
    return best


@kernel
def corner_value(b, corners, s, k, t):
    """The value of context `k`'s policy at belief `b`, state `s`, step `t`."""
    x = 0.0
    for m in range(b.size):
        x += b[m] * corners.alpha[s, k, m, t]
    return x


@kernel
def find_flat(graph, n, drift):
    """Set from where on a node's bounds change by at most `drift` per step."""
    tau = graph.bound.shape[1] - 1
    while tau > 0 and (
        abs(graph.bound[n, tau, 0] - graph.bound[n, tau - 1, 0]) <= drift
        and abs(graph.bound[n, tau, 1] - graph.bound[n, tau - 1, 1]) <= drift
    ):
        tau -= 1
    graph.node[n, FLAT] = tau


@kernel
def add_node(graph, corners, i, s, drift):
    """The node of belief `i` and state `s`; new ones with the bounds of the corners."""
    n = graph.node_of[i, s]
    if n >= 0:
        return n
    n = graph.count[NODES]
    graph.count[NODES] += 1
    graph.node_of[i, s] = n
    graph.node[n, BELIEF], graph.node[n, STATE], graph.node[n, ROW] = i, s, -1
    graph.node[n, CHANGED] = graph.node[n, MEMBER] = graph.node[n, PEAK] = 0
    graph.reach[0, n] = graph.reach[1, n] = 0.0
    T = graph.bound.shape[1]
    b, x = graph.belief[i], np.empty(T)
    weigh(b, corners.known[s], 0, T, x)
    for t in range(T):
        graph.bound[n, T - 1 - t, 1] = x[t]
    for first in range(0, T, HOLD):
        k = corner_policy(b, corners, s, first)
        weigh(b, corners.alpha[s, k], first, min(first + HOLD, T), x)
    for t in range(T):
        graph.bound[n, T - 1 - t, 0] = x[t]
    find_flat(graph, n, drift)
    size = graph.layer[i, SIZE]
    graph.count[WORK] += 10 + (T * (1 + size) + (T // HOLD + 1) * size * b.size // 3) // 140
    return n


@kernel
def plant(graph, corners, state, belief, drift, start_node):
    """Make nodes of the first states."""
    for i in range(state.size):
        start_node[i] = add_node(graph, corners, add_belief(graph, belief[i]), state[i], drift)


@kernel
def expand_belief(graph, joint, corners, i, now, drift):
    """Expand the nodes of belief `i` that are not yet, and those they lead to inside the layer."""
    S = graph.node_of.shape[1]
    A = graph.gain.shape[1]
    b = graph.belief[i]
    post = np.empty(b.size)
    queue = np.empty(S, np.int64)
    n_queue = 0
    for s in range(S):
        n = graph.node_of[i, s]
        if n >= 0 and graph.node[n, ROW] < 0:
            queue[n_queue] = s
            n_queue += 1
    graph.layer[i, SWEPT] = -1
    at, edges = 0, 0
    while at < n_queue:
        s = queue[at]
        edges += joint.ptr[(s + 1) * A] - joint.ptr[s * A]
        at += 1
        row = graph.count[ROWS]
        graph.count[ROWS] += 1
        for a in range(A):
            sa = s * A + a
            x = 0.0
            for m in range(b.size):
                x += b[m] * joint.reward[sa, m]
            graph.gain[row, a] = x
            for o in range(joint.ptr[sa], joint.ptr[sa + 1]):
                p = posterior(b, joint.like[o], post)
                if p > 0.0:
                    j = i if same_belief(b, post) else add_belief(graph, post)
                    if j == i and graph.node_of[i, joint.next[o]] < 0:
                        queue[n_queue] = joint.next[o]
                        n_queue += 1
                    e = graph.count[EDGES]
                    graph.count[EDGES] += 1
                    graph.child[e] = add_node(graph, corners, j, joint.next[o], drift)
                    graph.prob[e] = joint.discount * p
            graph.ptr[row * A + a + 1] = graph.count[EDGES]
        graph.node[graph.node_of[i, s], ROW] = row
        graph.node[graph.node_of[i, s], CHANGED] = now
    graph.count[WORK] += edges * b.size // 80


@kernel
def best_action(graph, n, side, tau):
    """`(action, value)`, best at node `n` under lower (0) or upper (1) bounds, `tau` to go."""
    A = graph.gain.shape[1]
    row = graph.node[n, ROW]
    best, top = -1, 0.0
    for a in range(A):
        x = graph.gain[row, a]
        for e in range(graph.ptr[row * A + a], graph.ptr[row * A + a + 1]):
            x += graph.prob[e] * graph.bound[graph.child[e], tau - 1, side]
        if best < 0 or x > top:
            best, top = a, x
    return best, top
