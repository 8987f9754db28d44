"""Kernels of the exact-belief tree above a grid: expand, back up, choose what to expand (AO*).

A node is `(step, state, belief)`; equal ones are shared. Leaves take their bounds from a grid. Each
round follows the actions with the best upper bounds down from the roots, expands the leaves with
the largest `reach x gap`, and backs up what was passed on the way. Bounds only ever get better, so
any order of updates keeps them valid.
"""

from typing import Any, NamedTuple

import numpy as np

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.history_grid import grid_bounds, posterior

CLOSED, FULL, PAUSED, EXHAUSTED = 0, 1, 2, 3  # why `search` returned
NODES, EDGES, INNER, WORK = 0, 1, 2, 3  # entries of `count`; a unit of work is about 250 ns
SHARE = 1.0  # of the mean score: leaves with more are expanded
EQUAL = 2.0**-40  # beliefs this close are one belief


class Tree(NamedTuple):
    """Growing arrays; the first `count[NODES]` nodes and `count[EDGES]` edges are in use."""

    count: Any  # (4,)
    step: Any  # (n,) int64, as all
    state: Any  # (n,)
    belief: Any  # (n, M)
    lower: Any  # (n,)
    upper: Any  # (n,)
    first: Any  # (n,) first edge; -1: a leaf
    inner: Any  # (n,) row in `gain`
    rung: Any  # (n,) the grid and
    vertex: Any  # (n,) its vertex whose policy gives a leaf's lower bound
    gain: Any  # (inner, A) expected reward now
    child: Any  # (edges,) one per observation of the state; -1: impossible
    prob: Any  # (edges,)
    table: Any  # (power of two,) hash table of nodes, -1: empty
    reach: Any  # (n,) -1 between rounds
    queue: Any  # (n,) scratch


@kernel
def hash_belief(seed, b):
    """A hash that agrees for beliefs that round to the same multiple of `EQUAL`."""
    h = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
    for m in range(b.size):
        x = np.uint64(np.int64(b[m] / EQUAL + 0.5)) + np.uint64(b[m] > 0.0)
        h = (h ^ x) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
    return h


@kernel
def same_belief(b, c):
    """Whether two beliefs are equal up to rounding and have the same support."""
    for m in range(b.size):
        if abs(b[m] - c[m]) > EQUAL or (b[m] > 0.0) != (c[m] > 0.0):
            return False
    return True


@kernel
def find(tree, step, state, b):
    """`(slot, node)` of the hash table; node -1 where there is none yet."""
    mask = np.uint64(tree.table.size - 1)
    slot = hash_belief(step * 1000003 + state, b) & mask
    while True:
        n = tree.table[slot]
        if n < 0 or (
            tree.step[n] == step and tree.state[n] == state and same_belief(tree.belief[n], b)
        ):
            return slot, n
        slot = (slot + np.uint64(1)) & mask


@kernel
def rehash(tree):
    """Enter all nodes, which differ from one another, into an empty hash table."""
    mask = np.uint64(tree.table.size - 1)
    for n in range(tree.count[NODES]):
        slot = hash_belief(tree.step[n] * 1000003 + tree.state[n], tree.belief[n]) & mask
        while tree.table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        tree.table[slot] = n


@kernel
def add(tree, grid, rung, step, state, b, scratch):
    """The node `(step, state, b)`, new ones with the grid's bounds."""
    slot, n = find(tree, step, state, b)
    if n >= 0:
        return n
    n = tree.count[NODES]
    tree.count[NODES] += 1
    tree.table[slot] = n
    tree.step[n], tree.state[n] = step, state
    support = 0
    for m in range(b.size):
        tree.belief[n, m] = b[m]
        support += b[m] > 0.0
    tree.count[WORK] += 1 + b.size * (64 + support) // 320
    tree.first[n] = -1
    tree.reach[n] = -1.0
    whole, part, order, vertex, weight = scratch
    low, high, v = grid_bounds(grid, step, state, b, whole, part, order, vertex, weight)
    tree.lower[n], tree.upper[n] = low, high
    tree.rung[n], tree.vertex[n] = rung, v
    return n


@kernel
def scratch_space(M):
    """Scratch for `locate`: whole, part, order, vertex, weight."""
    return (
        np.empty(M, np.int64), np.empty(M), np.empty(M, np.int64), np.empty(M, np.int64),
        np.empty(M),
    )  # fmt: skip


@kernel
def plant(tree, grid, rung, step, state, belief):
    """Make nodes of the first states."""
    scratch = scratch_space(belief.shape[1])
    for i in range(state.size):
        add(tree, grid, rung, step, state[i], belief[i], scratch)


@kernel
def regrid(tree, grid, rung):
    """Tighten all leaves by a finer grid."""
    M = tree.belief.shape[1]
    whole, part, order, vertex, weight = scratch_space(M)
    for n in range(tree.count[NODES]):
        if tree.first[n] < 0 and tree.upper[n] > tree.lower[n]:
            low, high, v = grid_bounds(
                grid,
                tree.step[n],
                tree.state[n],
                tree.belief[n],
                whole,
                part,
                order,
                vertex,
                weight,
            )
            tree.upper[n] = min(tree.upper[n], high)
            if low > tree.lower[n]:
                tree.lower[n], tree.rung[n], tree.vertex[n] = low, rung, v


@kernel
def expand(tree, joint, grid, rung, n, H, post, scratch):
    """Give node `n` its successors."""
    A = tree.gain.shape[1]
    s = tree.state[n]
    b = tree.belief[n]
    first = tree.count[EDGES]
    row = tree.count[INNER]
    tree.count[EDGES] += joint.ptr[(s + 1) * A] - joint.ptr[s * A]
    tree.count[INNER] += 1
    tree.count[WORK] += 1 + (joint.ptr[(s + 1) * A] - joint.ptr[s * A]) // 32
    e = first
    for a in range(A):
        sa = s * A + a
        x = 0.0
        for m in range(b.size):
            x += b[m] * joint.reward[sa, m]
        tree.gain[row, a] = x
        for o in range(joint.ptr[sa], joint.ptr[sa + 1]):
            tree.child[e], tree.prob[e] = -1, 0.0
            if tree.step[n] + 1 < H:
                p = posterior(b, joint.like[o], post)
                if p > 0.0:
                    tree.child[e] = add(
                        tree, grid, rung, tree.step[n] + 1, joint.next[o], post, scratch
                    )
                    tree.prob[e] = joint.discount * p
            e += 1
    tree.first[n], tree.inner[n] = first, row


@kernel
def action_value(tree, joint, n, a, bound):
    """The value of action `a` at the inner node `n` under `bound`, one of the two."""
    A = tree.gain.shape[1]
    sa = tree.state[n] * A + a
    shift = tree.first[n] - joint.ptr[tree.state[n] * A]
    x = tree.gain[tree.inner[n], a]
    for e in range(joint.ptr[sa] + shift, joint.ptr[sa + 1] + shift):
        if tree.child[e] >= 0:
            x += tree.prob[e] * bound[tree.child[e]]
    return x


@kernel
def best_action(tree, joint, n, bound):
    """`(action, value)` that is best under `bound`."""
    best, top = -1, 0.0
    for a in range(tree.gain.shape[1]):
        x = action_value(tree, joint, n, a, bound)
        if best < 0 or x > top:
            best, top = a, x
    return best, top


@kernel
def back_up(tree, joint, n):
    """Tighten both bounds of the inner node `n`; whether either moved."""
    high = best_action(tree, joint, n, tree.upper)[1]
    low = best_action(tree, joint, n, tree.lower)[1]
    moved = high < tree.upper[n] or low > tree.lower[n]
    tree.upper[n] = min(tree.upper[n], high)
    tree.lower[n] = max(tree.lower[n], low)
    return moved


@kernel
def back_up_all(tree, joint):
    """One pass over all inner nodes, the latest first."""
    for n in range(tree.count[NODES] - 1, -1, -1):
        if tree.first[n] >= 0:
            back_up(tree, joint, n)


@kernel
def follow(tree, joint, bound, start_prob):
    """Queue the nodes reached by the best actions under `bound`, with their reach; by step.

    Returns how many, and how many edges were looked at.
    """
    A = tree.gain.shape[1]
    n_queue, edges = start_prob.size, 0
    for i in range(n_queue):
        tree.queue[i] = i
        tree.reach[i] = start_prob[i]
    i = 0
    while i < n_queue:
        n = tree.queue[i]
        i += 1
        if tree.first[n] < 0:
            continue
        edges += joint.ptr[(tree.state[n] + 1) * A] - joint.ptr[tree.state[n] * A]
        a = best_action(tree, joint, n, bound)[0]
        sa = tree.state[n] * A + a
        shift = tree.first[n] - joint.ptr[tree.state[n] * A]
        for e in range(joint.ptr[sa] + shift, joint.ptr[sa + 1] + shift):
            k = tree.child[e]
            if k >= 0:
                if tree.reach[k] < 0.0:
                    tree.reach[k] = 0.0
                    tree.queue[n_queue] = k
                    n_queue += 1
                tree.reach[k] += tree.reach[n] * tree.prob[e]
    return n_queue, edges


@kernel
def root_bounds(tree, start_prob):
    """`(lower, upper)` of the whole problem."""
    low, high = 0.0, 0.0
    for i in range(start_prob.size):
        low += start_prob[i] * tree.lower[i]
        high += start_prob[i] * tree.upper[i]
    return low, high


@kernel
def search(tree, joint, grid, rung, start_prob, gap, floor, work_limit):
    """Rounds of expansion until closed, out of space, out of work, or nothing is left to expand.

    Closed: `upper - lower <= max(gap |upper|, floor)`. A leaf with a gap far below
    the floor is done. Where the best policy under upper bounds reaches no other leaf, and backing
    it up moves no bound, the roots' gap is at most what those leaves have: nothing is left. As
    long as any bound on the way moves, another action may be the best one in the next round,
    although the roots' bounds stand.
    """
    H, A = grid.action.shape[0], tree.gain.shape[1]
    S = grid.upper.shape[1]
    widest = 0
    for s in range(S):
        widest = max(widest, joint.ptr[(s + 1) * A] - joint.ptr[s * A])
    post = np.empty(joint.like.shape[1])
    scratch = scratch_space(post.size)
    tiny = 1e-4 * floor
    while True:
        low, high = root_bounds(tree, start_prob)
        allowed = max(gap * abs(high), floor)
        if high - low <= allowed:
            return CLOSED
        if tree.count[WORK] >= work_limit:
            return PAUSED
        n_queue, edges = follow(tree, joint, tree.upper, start_prob)
        tree.count[WORK] += 1 + n_queue // 3 + edges // 32
        leaves, total = 0, 0.0
        for i in range(n_queue):
            n = tree.queue[i]
            if tree.first[n] < 0 and tree.upper[n] > tree.lower[n] + tiny:
                leaves += 1
                total += tree.reach[n] * (tree.upper[n] - tree.lower[n])
        # a little less than the mean, or rounding could leave equal leaves all below it
        threshold = (1.0 - 1e-9) * SHARE * total / max(leaves, 1)
        full = False
        for i in range(n_queue):
            n = tree.queue[i]
            if tree.first[n] < 0 and tree.upper[n] > tree.lower[n] + tiny:
                score = tree.reach[n] * (tree.upper[n] - tree.lower[n])
                if score >= threshold:
                    if (
                        tree.count[NODES] + widest > tree.step.size
                        or tree.count[EDGES] + widest > tree.child.size
                        or tree.count[INNER] >= tree.gain.shape[0]
                    ):
                        full = True
                        break
                    expand(tree, joint, grid, rung, n, H, post, scratch)
        moved = False
        for i in range(n_queue - 1, -1, -1):
            n = tree.queue[i]
            tree.reach[n] = -1.0
            if tree.first[n] >= 0:
                moved |= back_up(tree, joint, n)
        if full:
            return FULL
        if leaves == 0 and not moved:
            return EXHAUSTED


@kernel
def count_policy(tree, joint, start_prob):
    """`(nodes, successors)` of the policy that is best under the lower bounds, queued by step."""
    n_queue, _ = follow(tree, joint, tree.lower, start_prob)
    A = tree.gain.shape[1]
    edges = 0
    for i in range(n_queue):
        n = tree.queue[i]
        tree.reach[n] = -1.0
        if tree.first[n] >= 0:
            sa = tree.state[n] * A + best_action(tree, joint, n, tree.lower)[0]
            edges += joint.ptr[sa + 1] - joint.ptr[sa]
    return n_queue, edges


@kernel
def write_policy(tree, joint, n_queue, action, degree, symbol, nxt, target):
    """Write the queued nodes: action (-1: a leaf), successors as numbers of tree nodes."""
    A = tree.gain.shape[1]
    used = 0
    for i in range(n_queue):
        n = tree.queue[i]
        action[i], degree[i] = -1, 0
        if tree.first[n] >= 0:
            a = best_action(tree, joint, n, tree.lower)[0]
            action[i] = a
            sa = tree.state[n] * A + a
            shift = tree.first[n] - joint.ptr[tree.state[n] * A]
            for o in range(joint.ptr[sa], joint.ptr[sa + 1]):
                if tree.child[o + shift] >= 0:
                    symbol[used], nxt[used] = joint.symbol[o], joint.next[o]
                    target[used] = tree.child[o + shift]
                    used += 1
                    degree[i] += 1
    return used
