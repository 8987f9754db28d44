"""The policy that the lower bounds of the belief graph promise, as nodes of a policy graph."""

import numpy as np

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.history_graph import (
    BELIEF,
    ROW,
    STATE,
    best_action,
    corner_policy,
    corner_value,
)
from latentmdp.kernels.history_grid import posterior


@kernel
def reached_policy(graph, corners, start_node, start_prob, cut, at, step, node):
    """Number the points `(step, node)` of the policy that is best under lower bounds.

    `at (H, nodes)` gets their numbers, from 0; -2 where the best corner policy takes over: at the
    frontier, and where the reach is below `cut`. Writes them to `step, node` while there is room.
    Returns their number, their number of successors, and the value at most lost by the cut.
    """
    A = graph.gain.shape[1]
    H = graph.bound.shape[1] - 1
    now, n_now, count, edges = 0, 0, 0, 0
    lost = 0.0
    for i in range(start_node.size):
        graph.queue[0, i] = start_node[i]
        graph.reach[0, start_node[i]] = start_prob[i]
        n_now += 1
    for t in range(H):
        tau = H - t
        n_next = 0
        for j in range(n_now):
            n = graph.queue[now, j]
            r = graph.reach[now, n]
            graph.reach[now, n] = 0.0
            at[t, n] = -2
            if graph.node[n, ROW] < 0:
                continue
            if r < cut:
                b, s = graph.belief[graph.node[n, BELIEF]], graph.node[n, STATE]
                k = corner_policy(b, corners, s, t)
                lost += r * (graph.bound[n, tau, 0] - corner_value(b, corners, s, k, t))
                continue
            a, x = best_action(graph, n, 0, tau)
            if graph.bound[n, tau, 0] > x + 1e-14 * abs(x):
                continue  # it is the corner policy that is worth this much
            at[t, n] = count
            if count < step.size:
                step[count], node[count] = t, n
            count += 1
            row = graph.node[n, ROW]
            for e in range(graph.ptr[row * A + a], graph.ptr[row * A + a + 1]):
                k = graph.child[e]
                edges += 1
                if t + 1 < H:
                    if graph.reach[1 - now, k] == 0.0:
                        graph.queue[1 - now, n_next] = k
                        n_next += 1
                    graph.reach[1 - now, k] += max(r * graph.prob[e], 1e-300)
        now, n_now = 1 - now, n_next
    return count, edges, lost


@kernel
def write_policy(
    graph, joint, corners, at, step, node, action, degree, symbol, nxt, target, vertex
):
    """Write the numbered points; successors are `target` points or, at -1, a `vertex`'s policy."""
    A = graph.gain.shape[1]
    H = graph.bound.shape[1] - 1
    post = np.empty(graph.belief.shape[1])
    used = 0
    for j in range(step.size):
        t, n = step[j], node[j]
        a = best_action(graph, n, 0, H - t)[0]
        action[j], degree[j] = a, 0
        if t + 1 == H:
            continue
        s, row = graph.node[n, STATE], graph.node[n, ROW]
        e = graph.ptr[row * A + a]
        for o in range(joint.ptr[s * A + a], joint.ptr[s * A + a + 1]):
            if posterior(graph.belief[graph.node[n, BELIEF]], joint.like[o], post) > 0.0:
                k = graph.child[e]
                e += 1
                symbol[used], nxt[used], target[used] = (
                    joint.symbol[o],
                    joint.next[o],
                    at[t + 1, k],
                )
                if target[used] < 0:
                    target[used] = -1
                    vertex[used] = corner_policy(
                        graph.belief[graph.node[k, BELIEF]], corners, joint.next[o], t + 1
                    )
                used += 1
                degree[j] += 1
    return used
