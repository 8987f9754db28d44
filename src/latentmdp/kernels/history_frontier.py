"""The frontier of the belief graph: what the current policies reach of it, and its upper bounds."""

import numpy as np

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.history_graph import (
    BELIEF,
    BELIEFS,
    CHANGED,
    HIGH,
    LOW,
    NODES,
    PEAK,
    ROW,
    SIZE,
    WORK,
    best_action,
    find_flat,
    weigh,
)

PICKS = 4  # expanded beliefs combined into one upper bound


@kernel
def follow(graph, side, start_node, start_prob, cut):
    """Fill `score` and `peak` at the frontier reached by the best actions under one bound.

    Nodes reached with less than `cut` are not followed. Widens the beliefs' range
    of steps to go by those at which it passes.
    """
    A = graph.gain.shape[1]
    H = graph.bound.shape[1] - 1
    now, n_now = 0, 0
    for i in range(graph.count[BELIEFS]):
        graph.score[i] = 0.0
    weight = np.zeros(graph.count[NODES])
    for i in range(start_node.size):
        graph.queue[0, i] = start_node[i]
        graph.reach[0, start_node[i]] = start_prob[i]
        n_now += 1
    for tau in range(H, 0, -1):
        n_next = 0
        for j in range(n_now):
            n = graph.queue[now, j]
            r = graph.reach[now, n]
            graph.reach[now, n] = 0.0
            gap = graph.bound[n, tau, 1] - graph.bound[n, tau, 0]
            if graph.node[n, ROW] < 0:
                x = r * gap
                graph.score[graph.node[n, BELIEF]] += x
                if x > weight[n]:
                    weight[n] = x
                    graph.node[n, PEAK] = tau
            elif r >= cut and gap > 0.0:
                i = graph.node[n, BELIEF]
                if graph.layer[i, HIGH] == 0:
                    graph.layer[i, LOW] = graph.layer[i, HIGH] = tau
                graph.layer[i, LOW] = min(graph.layer[i, LOW], tau)
                graph.layer[i, HIGH] = max(graph.layer[i, HIGH], tau)
                a = best_action(graph, n, side, tau)[0]
                row = graph.node[n, ROW]
                for e in range(graph.ptr[row * A + a], graph.ptr[row * A + a + 1]):
                    k = graph.child[e]
                    if graph.reach[1 - now, k] == 0.0:
                        graph.queue[1 - now, n_next] = k
                        n_next += 1
                    graph.reach[1 - now, k] += max(r * graph.prob[e], 1e-300)
        graph.count[WORK] += n_now // 6
        now, n_now = 1 - now, n_next
    for j in range(n_now):
        graph.reach[now, graph.queue[now, j]] = 0.0


@kernel
def best_part(graph, order, i, s, tau, rest, worth, least):
    """`(belief, share)` of the expanded belief that lowers the bound most, as part of `rest`.

    Belief -1: none does by more than `least`.

    `worth (M,)` is the value of knowing the context; `i` the belief to be bounded.
    """
    best, most, share = -1, least, 0.0
    for j in order:
        if graph.layer[j, SIZE] > graph.layer[i, SIZE]:
            break
        k = graph.node_of[j, s]
        if k < 0 or graph.layer[j, SIZE] == 1:
            continue
        f = 1e300
        for m in range(rest.size):
            if graph.belief[j, m] > 0.0:
                f = min(f, rest[m] / graph.belief[j, m])
                if f == 0.0:
                    break
        if f > 0.0:
            gain = -graph.bound[k, tau, 1]
            for m in range(rest.size):
                gain += graph.belief[j, m] * worth[m]
            if f * gain > most:
                best, most, share = j, f * gain, f
    return best, share


@kernel
def tighten_frontier(graph, corners, order, now, drift, notice):
    """Tighten upper bounds of the reached frontier by expanded beliefs (repeated sawtooth).

    Where `b = sum_j f_j b_j + rest` with all parts non-negative, convexity gives
    `V(b) <= sum_j f_j U(b_j) + (value of knowing the context at the rest)`.
    """
    S, H = graph.node_of.shape[1], graph.bound.shape[1] - 1
    M = graph.belief.shape[1]
    rest, worth, x = np.empty(M), np.empty(M), np.empty(H + 1)
    pick, share = np.empty(PICKS, np.int64), np.empty(PICKS)
    for i in range(graph.count[BELIEFS]):
        if graph.score[i] <= 0.0:
            continue
        for s in range(S):
            n = graph.node_of[i, s]
            if n < 0 or graph.node[n, ROW] >= 0 or graph.node[n, PEAK] == 0:
                continue
            tau = graph.node[n, PEAK]
            for m in range(M):
                rest[m] = graph.belief[i, m]
                worth[m] = corners.known[s, m, H - tau]
            picks = 0
            while picks < PICKS:
                pick[picks], share[picks] = best_part(graph, order, i, s, tau, rest, worth, notice)
                if pick[picks] < 0:
                    break
                for m in range(M):
                    rest[m] = max(0.0, rest[m] - share[picks] * graph.belief[pick[picks], m])
                picks += 1
            graph.count[WORK] += (picks + 1) * order.size // 40 + H * picks * M // 64
            if picks == 0:
                continue
            weigh(rest, corners.known[s], 0, H, x)
            for j in range(picks):
                k = graph.node_of[pick[j], s]
                for t in range(H):
                    x[t] += share[j] * graph.bound[k, H - t, 1]
            for t in range(H):
                if x[t] < graph.bound[n, H - t, 1]:
                    if x[t] < graph.bound[n, H - t, 1] - notice:
                        graph.node[n, CHANGED] = now
                    graph.bound[n, H - t, 1] = x[t]
            find_flat(graph, n, drift)
