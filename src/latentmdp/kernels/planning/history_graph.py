"""The graph of merged beliefs: nodes `(belief, state)` shared by all steps, and how it grows.

The nodes of one belief are a *layer*; layers are expanded as a whole. Transitions do not depend on
the step, so a node has both bounds on its best value, Eq. (1), for every number of steps to go.
Beliefs that are not expanded are the *frontier*; their nodes have the bounds of the corners.
"""

from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.beliefs import (
    N_BELIEFS,
    N_EDGES,
    N_INNER,
    N_NODES,
    NONE,
    WORK_UNITS,
    hash_belief,
    posterior,
    same_belief,
)
from latentmdp.kernels.structs import Indices
from latentmdp.runtime.kernel_cache import kernel

UNSWEPT, FRONTIER = -1, -2  # `swept` of beliefs that are expanded, and that are not
HOLD = 16  # steps for which a corner's policy is kept at the frontier


class BeliefGraph(NamedTuple):
    """Growing arrays; the first `used[...]` entries of each are in use. `T = H + 1`.

    An expanded node has a row; the edges of its action `a` are those from `ptr[row * A + a]` to
    before `ptr[row * A + a + 1]`, one for each possible observation.
    """

    used: Ints  # (6,) N_NODES, N_EDGES, N_INNER (rows), WORK_UNITS, N_BELIEFS, N_SWEEPS
    belief: Floats  # (beliefs, M)
    support: Indices  # (beliefs,) number of contexts in the support
    node_of: Indices  # (beliefs, S) NONE: no node
    swept: Ints  # (beliefs,) round of the last sweep; UNSWEPT; FRONTIER
    swept_from: Indices  # (beliefs,) steps to go of that sweep, from
    swept_to: Indices  # (beliefs,) and to
    passed_from: Indices  # (beliefs,) steps to go at which the current policies pass, from
    passed_to: Indices  # (beliefs,) and to; 0: they do not
    score: Floats  # (beliefs,) reach x gap at the frontier
    table: Indices  # (power of two,) hash table of beliefs; NONE: empty
    belief_of: Indices  # (nodes,)
    state: Indices  # (nodes,)
    row: Indices  # (nodes,) NONE: at the frontier
    bound: Floats  # (nodes, T, 2) lower and upper, by steps to go
    flat_from: Indices  # (nodes,) steps to go from which the bounds hardly change any more
    changed: Indices  # (nodes,) round in which the bounds last changed
    peak: Indices  # (nodes,) steps to go at which a frontier node matters most; 0: nowhere
    stamp: Ints  # (nodes,) the sweep that last used the node
    place: Indices  # (nodes,) its number in that sweep
    reach: Floats  # (2, nodes) now and next, zero between rounds
    queue: Indices  # (2, nodes)
    ptr: Indices  # (rows*A + 1,)
    gain: Floats  # (rows, A) expected reward now
    child: Indices  # (edges,)
    prob: Floats  # (edges,) discounted


class Corners(NamedTuple):
    """Values with steps last: a node's bounds at all steps are made from neighbouring entries."""

    known: Floats  # (S, M, T) knowing the context
    alpha: Floats  # (S*M, M, T) in state s the policy of context k, row s*M + k, in every context
    held: Floats  # (S, T/HOLD, M, M) alpha at every HOLD-th step


@kernel
def find_belief(table, belief, other, j):
    """`(slot, belief)` of the hash table for the belief `other[j]`; NONE: none yet."""
    mask = np.uint64(table.size - 1)
    slot = hash_belief(0, other, j) & mask
    while True:
        i = table[slot]
        if i == NONE or same_belief(belief, i, other, j):
            return slot, i
        slot = (slot + np.uint64(1)) & mask


@kernel
def rehash_beliefs(graph):
    """Enter all beliefs into an empty hash table."""
    table, belief = graph.table, graph.belief
    for i in range(graph.used[N_BELIEFS]):
        slot, _ = find_belief(table, belief, belief, i)
        table[slot] = i


@kernel
def add_belief(graph, slot, other, j):
    """Enter the belief `other[j]` at a slot of the hash table; its number."""
    i = graph.used[N_BELIEFS]
    graph.used[N_BELIEFS] += 1
    graph.table[slot] = i
    graph.support[i] = 0
    for m in range(other.shape[1]):
        graph.belief[i, m] = other[j, m]
        graph.support[i] += other[j, m] > 0.0
    graph.swept[i] = FRONTIER
    graph.passed_from[i] = graph.passed_to[i] = 0
    graph.score[i] = 0.0
    for s in range(graph.node_of.shape[1]):
        graph.node_of[i, s] = NONE
    return i


@kernel
def add_node(graph, i, s):
    """Make a node of belief `i` and state `s`, still without bounds; its number."""
    n = graph.used[N_NODES]
    graph.used[N_NODES] += 1
    graph.node_of[i, s] = n
    graph.belief_of[n], graph.state[n], graph.row[n] = i, s, NONE
    graph.changed[n] = graph.stamp[n] = graph.peak[n] = 0
    graph.reach[0, n] = graph.reach[1, n] = 0.0
    T, M, support = graph.bound.shape[1], graph.belief.shape[1], graph.support[i]
    graph.used[WORK_UNITS] += 10 + (T * (1 + support) + (T // HOLD + 1) * support * M // 3) // 140
    return n


@kernel
def mix_values(belief, i, values, row, begin, end, out):
    """Fill `out[begin:end]` with `sum_m b_m values[row, m]`, `values (rows, M, T)`."""
    for t in range(begin, end):
        out[t] = 0.0
    for m in range(belief.shape[1]):
        p = belief[i, m]
        if p > 0.0:
            for t in range(begin, end):
                out[t] += p * values[row, m, t]


@kernel
def corner_policy(belief, i, held, s, t):
    """The context whose policy is taken at belief `i`, state `s`, step `t`.

    The best one at every `HOLD`-th step; in between that of the step before.
    """
    M = belief.shape[1]
    best, top = -1, 0.0
    for k in range(M):
        if belief[i, k] > 0.0:
            value = 0.0
            for m in range(M):
                value += belief[i, m] * held[s, t // HOLD, k, m]
            if best < 0 or value > top:
                best, top = k, value
    return best


@kernel
def flat_from(bound, n, drift):
    """Steps to go from which on the bounds of node `n` change by at most `drift` per step."""
    tau = bound.shape[1] - 1
    while tau > 0 and (
        abs(bound[n, tau, 0] - bound[n, tau - 1, 0]) <= drift
        and abs(bound[n, tau, 1] - bound[n, tau - 1, 1]) <= drift
    ):
        tau -= 1
    return tau


@kernel
def bound_nodes(graph, corners, begin, drift):
    """Give the nodes from `begin` on the bounds of the corners.

    Above: knowing the context. Below: the policy of one context, kept for `HOLD` steps.
    """
    belief, bound, belief_of, state = graph.belief, graph.bound, graph.belief_of, graph.state
    known, alpha, held = corners.known, corners.alpha, corners.held
    T, M = bound.shape[1], belief.shape[1]
    values = np.empty(T)
    for n in range(begin, graph.used[N_NODES]):
        i, s = belief_of[n], state[n]
        mix_values(belief, i, known, s, 0, T, values)
        for t in range(T):
            bound[n, T - 1 - t, 1] = values[t]
        for t in range(0, T, HOLD):
            k = corner_policy(belief, i, held, s, t)
            mix_values(belief, i, alpha, s * M + k, t, min(t + HOLD, T), values)
        for t in range(T):
            bound[n, T - 1 - t, 0] = values[t]
        graph.flat_from[n] = flat_from(bound, n, drift)


@kernel
def plant_graph(graph, state, belief, start_node):
    """Make nodes of the first states, still without bounds."""
    for i in range(state.size):
        slot, j = find_belief(graph.table, graph.belief, belief, i)
        if j == NONE:
            j = add_belief(graph, slot, belief, i)
        start_node[i] = add_node(graph, j, state[i])


@kernel
def expand_beliefs(graph, model, chosen, begin, now, work_limit):
    """Expand the nodes of the chosen beliefs, and those they lead to inside the layer.

    Goes on from place `begin` of `chosen` while there is room and work; returns where it stopped.
    New nodes have no bounds yet.
    """
    ptr, following, likelihood, reward = model.ptr, model.next, model.likelihood, model.reward
    used, table, belief, node_of = graph.used, graph.table, graph.belief, graph.node_of
    row_of, changed, edge_ptr = graph.row, graph.changed, graph.ptr
    gain, child, prob = graph.gain, graph.child, graph.prob
    S, M, A, J = node_of.shape[1], belief.shape[1], gain.shape[1], likelihood.shape[0]
    post, queue = np.empty((1, M)), np.empty(S, np.uint32)
    while begin < chosen.size and used[WORK_UNITS] < work_limit:
        if (
            used[N_BELIEFS] + J + S > belief.shape[0]
            or used[N_NODES] + J + S > row_of.size
            or used[N_INNER] + S > gain.shape[0]
            or used[N_EDGES] + J > child.size
        ):
            break
        i = chosen[begin]
        begin += 1
        graph.swept[i] = UNSWEPT
        n_queue = 0
        for s in range(S):
            if node_of[i, s] != NONE and row_of[node_of[i, s]] == NONE:
                queue[n_queue] = s
                n_queue += 1
        at, edge, looked_at = 0, used[N_EDGES], 0
        while at < n_queue:
            s, row = queue[at], used[N_INNER] + at
            at += 1
            looked_at += ptr[(s + 1) * A] - ptr[s * A]
            for a in range(A):
                total = 0.0
                for m in range(M):
                    total += belief[i, m] * reward[s * A + a, m]
                gain[row, a] = total
                for o in range(ptr[s * A + a], ptr[s * A + a + 1]):
                    p = posterior(belief, i, likelihood, o, post)
                    if p <= 0.0:
                        continue
                    y, j = following[o], i
                    if not same_belief(belief, i, post, 0):
                        slot, j = find_belief(table, belief, post, 0)
                        if j == NONE:
                            j = add_belief(graph, slot, post, 0)
                    elif node_of[i, y] == NONE:
                        queue[n_queue] = y
                        n_queue += 1
                    if node_of[j, y] == NONE:
                        add_node(graph, j, y)
                    child[edge], prob[edge] = node_of[j, y], model.discount * p
                    edge += 1
                edge_ptr[row * A + a + 1] = edge
            n = node_of[i, s]
            row_of[n], changed[n] = row, now
        used[N_INNER] += n_queue
        used[N_EDGES] = edge
        used[WORK_UNITS] += looked_at * M // 80
    return begin


@kernel
def best_graph_action(row, side, tau, ptr, gain, child, prob, bound):
    """`(action, value)`: the best one of an expanded node with `tau` steps to go.

    Under lower bounds (side 0) or upper bounds (side 1).
    """
    A = gain.shape[1]
    best, top = -1, 0.0
    for a in range(A):
        value = gain[row, a]
        for e in range(ptr[row * A + a], ptr[row * A + a + 1]):
            value += prob[e] * bound[child[e], tau - 1, side]
        if best < 0 or value > top:
            best, top = a, value
    return best, top
