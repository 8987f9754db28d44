"""The policy that the lower bounds of the belief graph promise, as nodes of a policy graph."""

import numpy as np

from latentmdp.kernels.beliefs import NONE, posterior
from latentmdp.kernels.planning.history_frontier import LEAST_REACH
from latentmdp.kernels.planning.history_graph import best_graph_action, corner_policy
from latentmdp.runtime.kernel_cache import kernel

AT_CORNER = -1  # a point where the best policy of one context takes over


@kernel
def reached_policy(graph, corners, start_node, start_prob, cut, at, step, node):
    """Number the points `(step, node)` of the policy that is best under lower bounds.

    `at (H, nodes)` gets their numbers, from 0; AT_CORNER at the frontier, and where the reach is
    below `cut`. Writes them to `step, node` while there is room. Returns their number, their number
    of successors, and the value at most lost by the cut.
    """
    ptr, gain, child, prob, bound = graph.ptr, graph.gain, graph.child, graph.prob, graph.bound
    belief, belief_of, state, rows = graph.belief, graph.belief_of, graph.state, graph.row
    reach, queue, alpha, held = graph.reach, graph.queue, corners.alpha, corners.held
    A, H, M = gain.shape[1], bound.shape[1] - 1, belief.shape[1]
    now, n_now, count, edges, lost = 0, start_node.size, 0, 0, 0.0
    for i in range(n_now):
        queue[0, i] = start_node[i]
        reach[0, start_node[i]] = start_prob[i]
    for t in range(H):
        tau, n_next = H - t, 0
        for j in range(n_now):
            n = queue[now, j]
            p = reach[now, n]
            reach[now, n] = 0.0
            at[t, n] = AT_CORNER
            row = rows[n]
            if row == NONE:
                continue
            if p < cut:
                i, s = belief_of[n], state[n]
                k = corner_policy(belief, i, held, s, t)
                value = 0.0
                for m in range(M):
                    value += belief[i, m] * alpha[s * M + k, m, t]
                lost += p * (bound[n, tau, 0] - value)
                continue
            a, value = best_graph_action(row, 0, tau, ptr, gain, child, prob, bound)
            if bound[n, tau, 0] > value + 1e-14 * abs(value):
                continue  # it is the corner policy that is worth this much
            at[t, n] = count
            if count < step.size:
                step[count], node[count] = t, n
            count += 1
            edges += ptr[row * A + a + 1] - ptr[row * A + a]
            if t + 1 == H:
                continue
            for e in range(ptr[row * A + a], ptr[row * A + a + 1]):
                k = child[e]
                if reach[1 - now, k] == 0.0:
                    queue[1 - now, n_next] = k
                    n_next += 1
                reach[1 - now, k] += max(p * prob[e], LEAST_REACH)
        now, n_now = 1 - now, n_next
    return count, edges, lost


@kernel
def write_graph_policy(
    graph, model, corners, at, step, node, action, degree, symbol, following, target, vertex
):
    """Write the numbered points; successors are `target` points or, at -1, a `vertex`'s policy."""
    ptr, gain, child, prob, bound = graph.ptr, graph.gain, graph.child, graph.prob, graph.bound
    belief, belief_of, state, rows = graph.belief, graph.belief_of, graph.state, graph.row
    likelihood, held = model.likelihood, corners.held
    A, H = gain.shape[1], bound.shape[1] - 1
    post = np.empty((1, belief.shape[1]))
    used = 0
    for j in range(step.size):
        t, n = step[j], node[j]
        s, row = state[n], rows[n]
        a, _ = best_graph_action(row, 0, H - t, ptr, gain, child, prob, bound)
        action[j], degree[j] = a, 0
        if t + 1 == H:
            continue
        e = ptr[row * A + a]
        for o in range(model.ptr[s * A + a], model.ptr[s * A + a + 1]):
            if posterior(belief, belief_of[n], likelihood, o, post) > 0.0:
                k = child[e]
                e += 1
                symbol[used], following[used] = model.symbol[o], model.next[o]
                target[used] = at[t + 1, k]
                if target[used] == AT_CORNER:
                    vertex[used] = corner_policy(belief, belief_of[k], held, model.next[o], t + 1)
                used += 1
                degree[j] += 1
    return used
