"""The frontier of the belief graph: what the current policies reach of it, and its upper bounds."""

import numpy as np

from latentmdp.kernels.beliefs import N_BELIEFS, N_NODES, NONE, WORK_UNITS
from latentmdp.kernels.planning.history_graph import best_graph_action, flat_from, mix_values
from latentmdp.runtime.kernel_cache import kernel

MAX_PARTS = 4  # expanded beliefs combined into one upper bound
LEAST_REACH = 1e-300  # added instead of 0: a node whose reach is 0 counts as not queued yet


@kernel
def score_frontier(graph, side, start_node, start_prob, cut):
    """Fill `score` and `peak` at the frontier reached by the best actions under one bound.

    Side 0 follows lower bounds, 1 upper ones. Nodes reached with less than `cut` are not followed.
    Widens the beliefs' range of steps to go by those at which the policy passes.
    """
    ptr, gain, child, prob, bound = graph.ptr, graph.gain, graph.child, graph.prob, graph.bound
    belief_of, rows, peak, score = graph.belief_of, graph.row, graph.peak, graph.score
    passed_from, passed_to = graph.passed_from, graph.passed_to
    reach, queue = graph.reach, graph.queue
    A, H = gain.shape[1], bound.shape[1] - 1
    for i in range(graph.used[N_BELIEFS]):
        score[i] = 0.0
    weight = np.zeros(graph.used[N_NODES])
    now, n_now = 0, start_node.size
    for i in range(n_now):
        queue[0, i] = start_node[i]
        reach[0, start_node[i]] = start_prob[i]
    for tau in range(H, 0, -1):
        n_next = 0
        for j in range(n_now):
            n = queue[now, j]
            p = reach[now, n]
            reach[now, n] = 0.0
            gap = bound[n, tau, 1] - bound[n, tau, 0]
            i, row = belief_of[n], rows[n]
            if row == NONE:
                score[i] += p * gap
                if p * gap > weight[n]:
                    weight[n], peak[n] = p * gap, tau
            elif p >= cut and gap > 0.0:
                if passed_to[i] == 0:
                    passed_from[i] = passed_to[i] = tau
                passed_from[i] = min(passed_from[i], tau)
                passed_to[i] = max(passed_to[i], tau)
                a, _ = best_graph_action(row, side, tau, ptr, gain, child, prob, bound)
                for e in range(ptr[row * A + a], ptr[row * A + a + 1]):
                    k = child[e]
                    if reach[1 - now, k] == 0.0:
                        queue[1 - now, n_next] = k
                        n_next += 1
                    reach[1 - now, k] += max(p * prob[e], LEAST_REACH)
        graph.used[WORK_UNITS] += n_now // 6
        now, n_now = 1 - now, n_next
    for j in range(n_now):
        reach[now, queue[now, j]] = 0.0


@kernel
def best_part(i, s, tau, order, support, node_of, belief, bound, rest, known, least):
    """`(belief, share)` of the expanded belief that lowers the bound most, as part of `rest`.

    Belief -1: none does by more than `least`. `rest, known (1, M)`: what is left of belief `i`,
    which is to be bounded, and the value of knowing the context.
    """
    M = belief.shape[1]
    best, most, share = -1, least, 0.0
    for j in order:
        if support[j] > support[i]:
            break
        k = node_of[j, s]
        if k == NONE or support[j] == 1:
            continue
        f = 1e300
        for m in range(M):
            if belief[j, m] > 0.0:
                f = min(f, rest[0, m] / belief[j, m])
                if f == 0.0:
                    break
        if f > 0.0:
            gain = -bound[k, tau, 1]
            for m in range(M):
                gain += belief[j, m] * known[0, m]
            if f * gain > most:
                best, most, share = j, f * gain, f
    return best, share


@kernel
def tighten_frontier(graph, corners, order, begin, now, drift, notice, work_limit):
    """Tighten upper bounds of the reached frontier by expanded beliefs (repeated sawtooth).

    Starts at belief `begin`; returns where it stopped for its limit on work, or the end.

    Where `b = sum_j f_j b_j + rest` with all parts non-negative, convexity gives
    `V(b) <= sum_j f_j U(b_j) + (value of knowing the context at the rest)`.
    """
    belief, bound, node_of, support = graph.belief, graph.bound, graph.node_of, graph.support
    score, rows, peak, changed = graph.score, graph.row, graph.peak, graph.changed
    known = corners.known
    S, H, M = node_of.shape[1], bound.shape[1] - 1, belief.shape[1]
    rest, known_now, value = np.empty((1, M)), np.empty((1, M)), np.empty(H + 1)
    part, share = np.empty(MAX_PARTS, np.uint32), np.empty(MAX_PARTS)
    for i in range(begin, graph.used[N_BELIEFS]):
        if graph.used[WORK_UNITS] >= work_limit:
            return i
        if score[i] <= 0.0:
            continue
        for s in range(S):
            n = node_of[i, s]
            if n == NONE or rows[n] != NONE or peak[n] == 0:
                continue
            for m in range(M):
                rest[0, m] = belief[i, m]
                known_now[0, m] = known[s, m, H - peak[n]]
            parts = 0
            while parts < MAX_PARTS:
                j, share[parts] = best_part(
                    i, s, peak[n], order, support, node_of, belief, bound, rest, known_now, notice
                )
                if j < 0:
                    break
                part[parts] = j
                for m in range(M):
                    rest[0, m] = max(0.0, rest[0, m] - share[parts] * belief[j, m])
                parts += 1
            graph.used[WORK_UNITS] += (parts + 1) * order.size // 40 + H * parts * M // 64
            if parts == 0:
                continue
            mix_values(rest, 0, known, s, 0, H, value)
            for j in range(parts):
                k = node_of[part[j], s]
                for t in range(H):
                    value[t] += share[j] * bound[k, H - t, 1]
            for t in range(H):
                if value[t] < bound[n, H - t, 1]:
                    if value[t] < bound[n, H - t, 1] - notice:
                        changed[n] = now
                    bound[n, H - t, 1] = value[t]
            graph.flat_from[n] = flat_from(bound, n, drift)
    return graph.used[N_BELIEFS]
