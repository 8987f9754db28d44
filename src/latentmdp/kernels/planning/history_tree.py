"""The tree of exact beliefs above a grid: its nodes, and how it grows.

A node is `(step, state, belief)`; equal ones are shared. A node is a leaf until it is expanded, and
a leaf takes its bounds from a belief grid. `history_tree_search` decides which leaves to expand.
"""

from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.beliefs import (
    N_EDGES,
    N_INNER,
    N_NODES,
    NONE,
    WORK_UNITS,
    hash_belief,
    posterior,
    same_belief,
)
from latentmdp.kernels.planning.history_grid import find_cell
from latentmdp.kernels.structs import Indices
from latentmdp.runtime.kernel_cache import kernel


class BeliefTree(NamedTuple):
    """Growing arrays; the first `used[N_NODES]` nodes and `used[N_EDGES]` edges are in use.

    The edges of an inner node are one for each observation of its state, in the order of the
    `ObservationModel`.
    """

    used: Ints  # (4,) N_NODES, N_EDGES, N_INNER (expanded nodes), WORK_UNITS
    step: Indices  # (nodes,)
    state: Indices  # (nodes,)
    belief: Floats  # (nodes, M)
    lower: Floats  # (nodes,)
    upper: Floats  # (nodes,)
    first_edge: Indices  # (nodes,) NONE: a leaf
    gain_row: Indices  # (nodes,) of an inner node: its row in `gain`
    grid_level: Indices  # (nodes,) of a leaf: the grid
    vertex: Indices  # (nodes,) and its vertex, whose policy gives the lower bound
    gain: Floats  # (inner nodes, A) expected reward now
    child: Indices  # (edges,) NONE: impossible
    prob: Floats  # (edges,) discounted
    table: Indices  # (power of two,) hash table of nodes; NONE: empty
    reach: Floats  # (nodes,) under the policy that is followed; -1 between rounds
    queue: Indices  # (nodes,) the nodes that it reaches


@kernel
def find_tree_node(table, steps, states, beliefs, step, state, belief, i):
    """`(slot, node)` of the hash table for `(step, state, belief[i])`; NONE: none yet."""
    mask = np.uint64(table.size - 1)
    slot = hash_belief(1000003 * np.int64(step) + state, belief, i) & mask
    while True:
        n = table[slot]
        if n == NONE or (
            steps[n] == step and states[n] == state and same_belief(beliefs, n, belief, i)
        ):
            return slot, n
        slot = (slot + np.uint64(1)) & mask


@kernel
def rehash_nodes(tree):
    """Enter all nodes, which differ from one another, into an empty hash table."""
    table, step, state, belief = tree.table, tree.step, tree.state, tree.belief
    mask = np.uint64(table.size - 1)
    for n in range(tree.used[N_NODES]):
        slot = hash_belief(1000003 * np.int64(step[n]) + state[n], belief, n) & mask
        while table[slot] != NONE:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = n


@kernel
def add_leaf(tree, slot, step, state, belief, i):
    """Enter the leaf `(step, state, belief[i])` with bounds that say nothing; its number."""
    n = tree.used[N_NODES]
    tree.used[N_NODES] += 1
    tree.table[slot] = n
    tree.step[n], tree.state[n], tree.first_edge[n] = step, state, NONE
    tree.lower[n], tree.upper[n], tree.reach[n] = -np.inf, np.inf, -1.0
    support, M = 0, belief.shape[1]
    for m in range(M):
        tree.belief[n, m] = belief[i, m]
        support += belief[i, m] > 0.0
    tree.used[WORK_UNITS] += 1 + M * (64 + support) // 320
    return n


@kernel
def tighten_leaves(tree, grid, grid_level, begin, end):
    """Tighten the bounds of the leaves from node `begin` to before `end` by a grid.

    Above: interpolation between the vertices around the belief. Below: the best policy of them.
    """
    step, state, belief, first_edge = tree.step, tree.state, tree.belief, tree.first_edge
    lower, upper, level, vertex = tree.lower, tree.upper, tree.grid_level, tree.vertex
    M = belief.shape[1]
    part, jump = np.empty(M), np.empty(M, np.int64)
    N, rank, grid_upper, alpha = grid.N, grid.rank, grid.upper, grid.alpha
    for n in range(begin, end):
        if first_edge[n] != NONE or upper[n] <= lower[n]:
            continue
        t, s = step[n], state[n]
        high, low, best = 0.0, 0.0, -1
        v, count = find_cell(belief, n, 0, M, 1.0, N, rank, part, jump)
        rest = 1.0
        for j in range(count):
            if rest > part[j]:
                high += (rest - part[j]) * grid_upper[t, s, v]
                value = 0.0
                for m in range(M):
                    value += belief[n, m] * alpha[t, s, v, m]
                if best < 0 or value > low:
                    low, best = value, v
                rest = part[j]
            v += jump[j]
        upper[n] = min(upper[n], high)
        if low > lower[n]:
            lower[n], level[n], vertex[n] = low, grid_level, best


@kernel
def plant_tree(tree, state, belief):
    """Make leaves of the first states; their bounds say nothing yet."""
    table, step, states, beliefs = tree.table, tree.step, tree.state, tree.belief
    for i in range(state.size):
        slot, _ = find_tree_node(table, step, states, beliefs, 0, state[i], belief, i)
        add_leaf(tree, slot, 0, state[i], belief, i)


@kernel
def expand_leaves(tree, model, n_queue, tiny, threshold, H, forward, widest):
    """Expand the queued leaves with a score of at least `threshold`; False: there is no more room.

    A leaf's score is its reach times its gap, if that is above `tiny`. New nodes are leaves whose
    bounds say nothing yet. Successors are `forward` steps further, if that is before step `H`.
    `widest` is the most edges that an expansion may make.
    """
    used, table, queue, reach = tree.used, tree.table, tree.queue, tree.reach
    step, state, belief, first_edge = tree.step, tree.state, tree.belief, tree.first_edge
    lower, upper, gain, gain_row = tree.lower, tree.upper, tree.gain, tree.gain_row
    child, prob = tree.child, tree.prob
    ptr, following, likelihood = model.ptr, model.next, model.likelihood
    reward, last_reward = model.reward, model.last_reward
    A, M, discount = gain.shape[1], belief.shape[1], model.discount
    post = np.empty((1, M))
    for i in range(n_queue):
        n = queue[i]
        if first_edge[n] != NONE or upper[n] <= lower[n] + tiny:
            continue
        if reach[n] * (upper[n] - lower[n]) < threshold:
            continue
        inner, edge = used[N_INNER], used[N_EDGES]
        if (
            inner == gain.shape[0]
            or edge + widest > child.size
            or used[N_NODES] + widest > step.size
        ):
            return False
        t, s = step[n] + forward, state[n]
        first_edge[n], gain_row[n] = edge, inner
        row = step[n] * model.stride + s * A  # of action 0
        for a in range(A):
            total = 0.0
            for m in range(M):
                total += belief[n, m] * (reward[row + a, m] if t < H else last_reward[s * A + a, m])
            gain[inner, a] = total
            for o in range(ptr[row + a], ptr[row + a + 1]):
                child[edge], prob[edge] = NONE, 0.0
                if t < H:
                    p = posterior(belief, n, likelihood, o, post)
                    if p > 0.0:
                        y = following[o]
                        slot, k = find_tree_node(table, step, state, belief, t, y, post, 0)
                        if k == NONE:
                            k = add_leaf(tree, slot, t, y, post, 0)
                        child[edge], prob[edge] = k, discount * p
                edge += 1
        used[N_INNER], used[N_EDGES] = inner + 1, edge
        used[WORK_UNITS] += 1 + (ptr[row + A] - ptr[row]) // 32
    return True
