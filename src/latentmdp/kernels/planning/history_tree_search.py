"""Best-first search in the tree of beliefs (AO*, in rounds), and the policy that it finds.

Each round follows the actions with the best upper bounds down from the roots, expands the leaves
with the largest `reach x gap`, and backs up what was passed on the way: Eq. (1) for the best
action, with a bound in place of `V`. Bounds only ever get better, so any order of updates keeps
them valid.
"""

import numpy as np

from latentmdp.kernels.beliefs import N_NODES, NONE, WORK_UNITS
from latentmdp.kernels.planning.history_tree import expand_leaves, tighten_leaves
from latentmdp.runtime.kernel_cache import kernel

CLOSED, FULL, PAUSED, EXHAUSTED = 0, 1, 2, 3  # why `search_tree` returned


@kernel
def best_tree_action(row, first_edge, gain_row, ptr, gain, child, prob, bound):
    """`(action, value)`: the best one of an inner node under `bound (nodes,)`.

    `row` is the model's, of action 0 at the node's step and state.
    """
    A = gain.shape[1]
    best, top, e = -1, 0.0, first_edge
    for a in range(A):
        value = gain[gain_row, a]
        for _ in range(ptr[row + a], ptr[row + a + 1]):
            if child[e] != NONE:
                value += prob[e] * bound[child[e]]
            e += 1
        if best < 0 or value > top:
            best, top = a, value
    return best, top


@kernel
def grid_policy_is_better(lower, value):
    """Whether an inner node's bound is from when it was a leaf: its actions are worth `value`.

    The policy of a grid's vertex may be worth more than what the bounds of the successors say, as
    these are those of other vertices.
    """
    return lower > value + 1e-14 * abs(value)


@kernel
def follow_tree(tree, model, bound, start_prob, for_policy):
    """Queue the nodes that the best actions under `bound` reach, by step, and fill `reach`.

    `for_policy`: `bound` is `tree.lower`, and nodes whose grid policy is worth more than their
    actions are not followed. Returns how many nodes, and how many edges were looked at.
    """
    ptr, gain, child, prob = model.ptr, tree.gain, tree.child, tree.prob
    step, state, first_edge, gain_row = tree.step, tree.state, tree.first_edge, tree.gain_row
    queue, reach = tree.queue, tree.reach
    A, stride = model.A, model.stride
    n_queue, edges = start_prob.size, 0
    for i in range(n_queue):
        queue[i], reach[i] = i, start_prob[i]
    i = 0
    while i < n_queue:
        n = queue[i]
        i += 1
        if first_edge[n] == NONE:
            continue
        row = step[n] * stride + state[n] * A
        edges += ptr[row + A] - ptr[row]
        a, value = best_tree_action(row, first_edge[n], gain_row[n], ptr, gain, child, prob, bound)
        if for_policy and grid_policy_is_better(bound[n], value):
            continue
        begin = np.int64(first_edge[n]) + ptr[row + a] - ptr[row]
        for e in range(begin, begin + ptr[row + a + 1] - ptr[row + a]):
            k = child[e]
            if k != NONE:
                if reach[k] < 0.0:
                    reach[k] = 0.0
                    queue[n_queue] = k
                    n_queue += 1
                reach[k] += reach[n] * prob[e]
    return n_queue, edges


@kernel
def back_up_nodes(tree, model, node, n_nodes):
    """Tighten both bounds of the inner ones of the first `n_nodes` of `node`, the last first.

    Whether any bound moved.
    """
    ptr, gain, child, prob = model.ptr, tree.gain, tree.child, tree.prob
    step, state, first_edge, gain_row = tree.step, tree.state, tree.first_edge, tree.gain_row
    lower, upper = tree.lower, tree.upper
    A, stride = model.A, model.stride
    moved = False
    for i in range(n_nodes - 1, -1, -1):
        n = node[i]
        if first_edge[n] == NONE:
            continue
        row, edge, inner = step[n] * stride + state[n] * A, first_edge[n], gain_row[n]
        _, high = best_tree_action(row, edge, inner, ptr, gain, child, prob, upper)
        _, low = best_tree_action(row, edge, inner, ptr, gain, child, prob, lower)
        moved |= high < upper[n] or low > lower[n]
        upper[n] = min(upper[n], high)
        lower[n] = max(lower[n], low)
    return moved


@kernel
def back_up_range(tree, model, begin, end):
    """One pass over the inner nodes from `begin` to before `end`, the latest first."""
    for n in range(begin, end):
        tree.queue[n - begin] = n
    back_up_nodes(tree, model, tree.queue, end - begin)


@kernel
def leaf_threshold(tree, n_queue, tiny):
    """`(leaves, threshold)`: how many queued leaves have a gap above `tiny`; their mean score.

    The threshold is a little less than the mean: rounding could leave equal leaves all below it.
    """
    queue, reach, first_edge = tree.queue, tree.reach, tree.first_edge
    lower, upper = tree.lower, tree.upper
    leaves, total = 0, 0.0
    for i in range(n_queue):
        n = queue[i]
        if first_edge[n] == NONE and upper[n] > lower[n] + tiny:
            leaves += 1
            total += reach[n] * (upper[n] - lower[n])
    return leaves, (1.0 - 1e-9) * total / max(leaves, 1)


@kernel
def root_bounds(tree, start_prob):
    """`(lower, upper)` of the whole problem; the first nodes are the roots."""
    lower, upper = tree.lower, tree.upper
    low, high = 0.0, 0.0
    for i in range(start_prob.size):
        low += start_prob[i] * lower[i]
        high += start_prob[i] * upper[i]
    return low, high


@kernel
def expand_round(tree, model, grid, grid_level, start_prob, tiny, H, forward, widest):
    """Follow the best policy under upper bounds and expand its leaves of the largest score.

    Arguments as in `search_tree` and `expand_leaves`. Returns the number of nodes followed, which
    are queued to be backed up, that of their leaves, and whether there was room.
    """
    n_queue, edges = follow_tree(tree, model, tree.upper, start_prob, False)
    tree.used[WORK_UNITS] += 1 + n_queue // 3 + edges // 32
    leaves, threshold = leaf_threshold(tree, n_queue, tiny)
    new = tree.used[N_NODES]
    room = expand_leaves(tree, model, n_queue, tiny, threshold, H, forward, widest)
    tighten_leaves(tree, grid, grid_level, new, tree.used[N_NODES])
    for i in range(n_queue):
        tree.reach[tree.queue[i]] = -1.0
    return n_queue, leaves, room


@kernel
def search_tree(tree, model, grid, grid_level, start_prob, widest, gap, floor, work_limit):
    """Rounds of expansion until closed, out of space, out of work, or nothing is left to expand.

    Closed: `upper - lower <= max(gap |upper|, floor)`. A leaf with a gap far below
    the floor is done. Where the best policy under upper bounds reaches no other leaf, and backing
    it up moves no bound, the roots' gap is at most what those leaves have: nothing is left. As
    long as any bound on the way moves, another action may be the best one in the next round,
    although the roots' bounds stand. `widest` is the most edges of a node.
    """
    H, tiny = grid.action.shape[0], 1e-4 * floor
    while True:
        low, high = root_bounds(tree, start_prob)
        if high - low <= max(gap * abs(high), floor):
            return CLOSED
        if tree.used[WORK_UNITS] >= work_limit:
            return PAUSED
        n_queue, leaves, room = expand_round(
            tree, model, grid, grid_level, start_prob, tiny, H, 1, widest
        )
        moved = back_up_nodes(tree, model, tree.queue, n_queue)
        if not room:
            return FULL
        if leaves == 0 and not moved:
            return EXHAUSTED


@kernel
def queue_policy(tree, model, start_prob, action):
    """Queue the nodes of the policy that is best under the lower bounds, by step.

    `action (nodes,)` gets what they play, -1 where a grid's policy takes over: at leaves, and where
    it is better. Returns the numbers of nodes and edges.
    """
    ptr, gain, child, prob = model.ptr, tree.gain, tree.child, tree.prob
    A, stride = model.A, model.stride
    n_queue, _ = follow_tree(tree, model, tree.lower, start_prob, True)
    edges = 0
    for i in range(n_queue):
        n = tree.queue[i]
        tree.reach[n], action[n] = -1.0, -1
        if tree.first_edge[n] != NONE:
            row = tree.step[n] * stride + tree.state[n] * A
            a, value = best_tree_action(
                row, tree.first_edge[n], tree.gain_row[n], ptr, gain, child, prob, tree.lower
            )
            if grid_policy_is_better(tree.lower[n], value):
                continue
            action[n] = a
            edges += ptr[row + a + 1] - ptr[row + a]
    return n_queue, edges


@kernel
def write_policy(tree, model, n_queue, action, degree, symbol, following, target):
    """Write the successors of the queued nodes that play an action, as numbers of tree nodes.

    `action (nodes,)`, -1: none. `degree (n_queue,)` gets how many successors each has; returns how
    many they are in all.
    """
    ptr, child = model.ptr, tree.child
    A, stride = model.A, model.stride
    used = 0
    for i in range(n_queue):
        n = tree.queue[i]
        degree[i] = 0
        if action[n] < 0:
            continue
        row = tree.step[n] * stride + tree.state[n] * A
        e = np.int64(tree.first_edge[n]) + ptr[row + action[n]] - ptr[row]
        for o in range(ptr[row + action[n]], ptr[row + action[n] + 1]):
            if child[e] != NONE:
                symbol[used], following[used] = model.symbol[o], model.next[o]
                target[used] = child[e]
                used += 1
                degree[i] += 1
            e += 1
    return used
