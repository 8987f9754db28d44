"""The search over exact beliefs without a last step, and the controller that it finds.

The arrays are those of `history_tree.BeliefTree` with every node at step 0: equal beliefs in one
state are one node however late they come, so edges may lead back. Bounds only ever get better.
"""

import numpy as np

from latentmdp.kernels.beliefs import N_NODES, NONE, WORK_UNITS
from latentmdp.kernels.planning.history_tree_search import (
    CLOSED,
    EXHAUSTED,
    FULL,
    PAUSED,
    back_up_nodes,
    back_up_range,
    best_tree_action,
    expand_round,
    root_bounds,
)
from latentmdp.runtime.kernel_cache import kernel

PASSES = 20  # over the nodes of a round, at most; they end when the roots' bounds hardly move
GROWTH = 1.2  # all nodes are backed up when there are so many times more


@kernel
def search_in_place(tree, model, grid, grid_level, start_prob, widest, gap, floor, work_limit):
    """`history_tree_search.search_tree` where edges may lead back: rounds with several passes."""
    tiny = 1e-4 * floor
    swept = tree.used[N_NODES]
    while True:
        low, high = root_bounds(tree, start_prob)
        if high - low <= max(gap * abs(high), floor):
            return CLOSED
        if tree.used[WORK_UNITS] >= work_limit:
            return PAUSED
        n_queue, leaves, room = expand_round(
            tree, model, grid, grid_level, start_prob, tiny, 1, 0, widest
        )
        moved = back_up_nodes(tree, model, tree.queue, n_queue)
        for _ in range(PASSES):
            before_low, before_high = low, high
            low, high = root_bounds(tree, start_prob)
            rise = abs(before_high - high) + abs(low - before_low)
            if not moved or rise <= 0.02 * (high - low):
                break
            tree.used[WORK_UNITS] += n_queue // 12
            moved = back_up_nodes(tree, model, tree.queue, n_queue)
        if tree.used[N_NODES] > GROWTH * swept or leaves == 0:
            swept = tree.used[N_NODES]
            tree.used[WORK_UNITS] += swept // 6
            back_up_range(tree, model, 0, swept)
        if not room:
            return FULL
        if leaves == 0 and not moved:
            return EXHAUSTED


@kernel
def queue_controller(tree, model, start_prob, slack, action):
    """Queue the nodes of the policy of the lower bounds; `action (nodes,)` is what they play.

    -1: the node goes on by the policy of its grid vertex, which is worth more than any action
    under the lower bounds (leaves too). Returns the numbers of nodes and of successors.
    """
    ptr, gain, child, prob = model.ptr, tree.gain, tree.child, tree.prob
    state, first_edge, gain_row = tree.state, tree.first_edge, tree.gain_row
    queue, reach, lower = tree.queue, tree.reach, tree.lower
    A = gain.shape[1]
    n_queue, edges = start_prob.size, 0
    for i in range(n_queue):
        queue[i], reach[i] = i, 0.0
    i = 0
    while i < n_queue:
        n = queue[i]
        i += 1
        action[n] = -1
        if first_edge[n] == NONE:
            continue
        row = state[n] * A
        a, value = best_tree_action(row, first_edge[n], gain_row[n], ptr, gain, child, prob, lower)
        if value < lower[n] - slack:
            continue
        action[n] = a
        begin = np.int64(first_edge[n]) + ptr[row + a] - ptr[row]
        for e in range(begin, begin + ptr[row + a + 1] - ptr[row + a]):
            k = child[e]
            if k != NONE:
                edges += 1
                if reach[k] < 0.0:
                    reach[k] = 0.0
                    queue[n_queue] = k
                    n_queue += 1
    for i in range(n_queue):
        reach[queue[i]] = -1.0
    return n_queue, edges
