"""Backward passes over belief layers: both bounds, steps to go ascending, where policies pass.

Layers of one support are swept together, after those of smaller support. A sweep covers the steps
to go at which the current policies pass through the layers; bounds outside stay as they are, valid.
"""

import numpy as np

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.history_graph import (
    CHANGED,
    FLAT,
    FROM,
    HIGH,
    LOW,
    MEMBER,
    PLACE,
    ROW,
    ROWS,
    SWEPT,
    UPTO,
    WORK,
    find_flat,
)


@kernel
def tighten(bound, node, n, tau, low, high, now, notice):
    """Keep the better of old and new bounds; notes a change."""
    if low > bound[n, tau, 0]:
        if low > bound[n, tau, 0] + notice:
            node[n, CHANGED] = now
        bound[n, tau, 0] = low
    if high < bound[n, tau, 1]:
        if high < bound[n, tau, 1] - notice:
            node[n, CHANGED] = now
        bound[n, tau, 1] = high


@kernel
def gather(graph, nodes, stamp, ptr, to, prob, exits):
    """The edges of `nodes` with their ends numbered: members first, then the `exits` they lead to.

    Returns the number of exits.
    """
    A = graph.gain.shape[1]
    N, n_exits, at = nodes.size, 0, 0
    for i in range(N):
        graph.node[nodes[i], MEMBER] = stamp
        graph.node[nodes[i], PLACE] = i
    ptr[0] = 0
    for i in range(N):
        row = graph.node[nodes[i], ROW]
        for a in range(A):
            for e in range(graph.ptr[row * A + a], graph.ptr[row * A + a + 1]):
                k = graph.child[e]
                if graph.node[k, MEMBER] != stamp:
                    graph.node[k, MEMBER] = stamp
                    graph.node[k, PLACE] = N + n_exits
                    exits[n_exits] = k
                    n_exits += 1
                to[at] = graph.node[k, PLACE]
                prob[at] = graph.prob[e]
                at += 1
            ptr[i * A + a + 1] = at
    return n_exits


@kernel
def sweep(graph, nodes, first, last, now, stamp, drift, notice):
    """Tighten both bounds of the inner `nodes`, steps to go from `first` to `last`; notes changes.

    Where bounds change by at most `drift` from one step to the next, inside and at exits, and are
    better than their backups by at most that, a further step adds at most twice that much (a
    backup does not magnify differences): the rest is filled in so.
    """
    H = graph.bound.shape[1] - 1
    A = graph.gain.shape[1]
    N, edges = nodes.size, 0
    for n in nodes:
        row = graph.node[n, ROW]
        edges += graph.ptr[(row + 1) * A] - graph.ptr[row * A]
    ptr, to, prob = (
        np.empty(N * A + 1, np.int64),
        np.empty(edges, np.int64),
        np.empty(edges),
    )
    exits = np.empty(edges, np.int64)
    n_exits = gather(graph, nodes, stamp, ptr, to, prob, exits)
    bound, gain = graph.bound, graph.gain
    before, after = (
        np.empty((N + n_exits, 2)),
        np.empty((N + n_exits, 2)),
    )  # one step: in the cache
    exits_flat = 0
    for j in range(n_exits):
        exits_flat = max(exits_flat, graph.node[exits[j], FLAT])
    for i in range(N):
        n = nodes[i]
        before[i, 0], before[i, 1] = bound[n, first - 1, 0], bound[n, first - 1, 1]
    tau, flat = first - 1, False
    while tau < last and not flat:
        for j in range(n_exits):
            before[N + j, 0] = bound[exits[j], tau, 0]
            before[N + j, 1] = bound[exits[j], tau, 1]
        tau += 1
        worst = 0.0
        for i in range(N):
            n = nodes[i]
            row = graph.node[n, ROW]
            low = high = -np.inf
            for a in range(A):
                x = y = gain[row, a]
                for e in range(ptr[i * A + a], ptr[i * A + a + 1]):
                    p, k = prob[e], to[e]
                    x += p * before[k, 0]
                    y += p * before[k, 1]
                low, high = max(low, x), max(high, y)
            tighten(bound, graph.node, n, tau, low, high, now, notice)
            after[i, 0], after[i, 1] = bound[n, tau, 0], bound[n, tau, 1]
            worst = max(worst, high - after[i, 1])
            worst = max(worst, after[i, 0] - low)
            worst = max(worst, abs(after[i, 0] - before[i, 0]))
            worst = max(worst, abs(after[i, 1] - before[i, 1]))
        before, after = after, before
        flat = tau > exits_flat and worst <= drift
    graph.count[WORK] += edges * (tau + 9 - first) // 64
    for n in nodes:
        if not flat:
            continue
        low, high = bound[n, tau, 0], bound[n, tau, 1]
        for later in range(tau + 1, H + 1):
            low -= 2.0 * drift
            high += 2.0 * drift
            tighten(bound, graph.node, n, later, low, high, now, notice)
    for n in nodes:
        find_flat(graph, n, drift)


@kernel
def is_stale(graph, i, first, last):
    """Whether layer `i` was not yet swept over these steps to go, or a successor changed since."""
    A = graph.gain.shape[1]
    if graph.layer[i, SWEPT] < 0 or graph.layer[i, FROM] > first or graph.layer[i, UPTO] < last:
        return True
    for s in range(graph.node_of.shape[1]):
        n = graph.node_of[i, s]
        if n >= 0 and graph.node[n, ROW] >= 0:
            row = graph.node[n, ROW]
            for e in range(graph.ptr[row * A], graph.ptr[(row + 1) * A]):
                if graph.node[graph.child[e], CHANGED] > graph.layer[i, SWEPT]:
                    return True
    return False


@kernel
def same_support(b, c):
    """Whether two beliefs have the same support."""
    differ = 0
    for m in range(b.size):
        differ += (b[m] > 0.0) != (c[m] > 0.0)
    return differ == 0


@kernel
def back_up(graph, order, first, now, everything, drift, notice, work_limit):
    """One pass over the stale groups that the current policies pass, or over all groups.

    `order` lists the expanded beliefs, those of one support together, small supports first.
    Starts at place `first`; returns where it stopped for its limit on work, or the end.
    """
    S, H = graph.node_of.shape[1], graph.bound.shape[1] - 1
    nodes = np.empty(graph.count[ROWS], np.int64)
    while first < order.size and graph.count[WORK] < work_limit:
        last, n_nodes = first, 0
        low, high = (1, H) if everything else (H + 1, 0)
        while last < order.size and same_support(
            graph.belief[order[first]], graph.belief[order[last]]
        ):
            i = order[last]
            if graph.layer[i, SWEPT] < 0:
                low, high = 1, H
            elif graph.layer[i, HIGH] > 0:
                low, high = (
                    min(low, graph.layer[i, LOW]),
                    max(high, graph.layer[i, HIGH]),
                )
            for s in range(S):
                n = graph.node_of[i, s]
                if n >= 0 and graph.node[n, ROW] >= 0:
                    nodes[n_nodes] = n
                    n_nodes += 1
            last += 1
        stale = everything
        for j in range(first, last):
            stale = stale or (high > 0 and is_stale(graph, order[j], low, high))
        if stale:
            stamp = now * (order.size + 1) + first + 1
            sweep(graph, nodes[:n_nodes], low, high, now, stamp, drift, notice)
            for j in range(first, last):
                graph.layer[order[j], SWEPT] = now
                graph.layer[order[j], FROM], graph.layer[order[j], UPTO] = low, high
        first = last
    return first
