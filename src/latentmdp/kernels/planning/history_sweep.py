"""Backward passes over belief layers: both bounds, steps to go ascending, where policies pass.

A pass is Eq. (1) for the best action, `max_a E[r + discount V(b')]`, with a bound in place of `V`.

Along a transition a belief's support never grows, so beliefs that can reach one another have the
same support: such a *group* of layers is swept together, after the groups of smaller support. A
sweep covers the steps to go at which the current policies pass through the layers; bounds outside
stay as they are, valid. One pass over all groups and steps gives the exact bounds of the expanded
part, given those at its frontier.
"""

import numpy as np

from latentmdp.kernels.beliefs import N_INNER, N_SWEEPS, NONE, WORK_UNITS
from latentmdp.kernels.planning.history_graph import UNSWEPT, flat_from
from latentmdp.runtime.kernel_cache import kernel


@kernel
def tighten_bounds(bound, changed, n, tau, low, high, now, notice):
    """Keep the better of old and new bounds; notes a change by more than `notice`."""
    if low > bound[n, tau, 0]:
        if low > bound[n, tau, 0] + notice:
            changed[n] = now
        bound[n, tau, 0] = low
    if high < bound[n, tau, 1]:
        if high < bound[n, tau, 1] - notice:
            changed[n] = now
        bound[n, tau, 1] = high


@kernel
def gather_edges(graph, nodes, ptr, to, prob, exits):
    """The edges of `nodes` with their ends numbered: members first, then the `exits` they lead to.

    Returns the number of exits.
    """
    graph.used[N_SWEEPS] += 1
    stamp = graph.used[N_SWEEPS]
    rows, stamps, place = graph.row, graph.stamp, graph.place
    edge_ptr, child, edge_prob = graph.ptr, graph.child, graph.prob
    A, N = graph.gain.shape[1], nodes.size
    n_exits, at = 0, 0
    for i in range(N):
        stamps[nodes[i]], place[nodes[i]] = stamp, i
    ptr[0] = 0
    for i in range(N):
        row = rows[nodes[i]]
        for a in range(A):
            for e in range(edge_ptr[row * A + a], edge_ptr[row * A + a + 1]):
                k = child[e]
                if stamps[k] != stamp:
                    stamps[k], place[k] = stamp, N + n_exits
                    exits[n_exits] = k
                    n_exits += 1
                to[at], prob[at] = place[k], edge_prob[e]
                at += 1
            ptr[i * A + a + 1] = at
    return n_exits


@kernel
def sweep_group(graph, nodes, first, last, now, drift, notice, work_limit):
    """Tighten both bounds of the expanded `nodes`, steps to go from `first` to `last`.

    Returns the steps to go at which to go on; more than `last` when done. Sweeps at least eight
    steps, then stops when the limit on work is reached.

    Where bounds change by at most `drift` from one step to the next, inside and at exits, and are
    better than their backups by at most that, a further step adds at most twice that much (a
    backup does not magnify differences): the rest is filled in so.
    """
    bound, gain, rows, changed = graph.bound, graph.gain, graph.row, graph.changed
    H, A, N = bound.shape[1] - 1, gain.shape[1], nodes.size
    edges = 0
    for i in range(N):
        row = rows[nodes[i]]
        edges += graph.ptr[(row + 1) * A] - graph.ptr[row * A]
    ptr, to = np.empty(N * A + 1, np.uint32), np.empty(edges, np.uint32)
    prob, exits = np.empty(edges), np.empty(edges, np.uint32)
    n_exits = gather_edges(graph, nodes, ptr, to, prob, exits)
    # the bounds of one step, of members and exits: small enough for the processor's cache
    before, after = np.empty((N + n_exits, 2)), np.empty((N + n_exits, 2))
    exits_flat = 0
    for j in range(n_exits):
        exits_flat = max(exits_flat, graph.flat_from[exits[j]])
    for i in range(N):
        n = nodes[i]
        before[i, 0], before[i, 1] = bound[n, first - 1, 0], bound[n, first - 1, 1]
    allowed = max(8, (work_limit - graph.used[WORK_UNITS]) * 64 // max(edges, 1))  # steps
    tau, flat = first - 1, False
    while tau < last and tau + 1 - first < allowed and not flat:
        for j in range(n_exits):
            k = exits[j]
            before[N + j, 0], before[N + j, 1] = bound[k, tau, 0], bound[k, tau, 1]
        tau += 1
        worst = 0.0
        for i in range(N):
            n = nodes[i]
            row = rows[n]
            low = high = -np.inf
            for a in range(A):
                below = above = gain[row, a]
                for e in range(ptr[i * A + a], ptr[i * A + a + 1]):
                    p, k = prob[e], to[e]
                    below += p * before[k, 0]
                    above += p * before[k, 1]
                low, high = max(low, below), max(high, above)
            tighten_bounds(bound, changed, n, tau, low, high, now, notice)
            after[i, 0], after[i, 1] = bound[n, tau, 0], bound[n, tau, 1]
            worst = max(worst, high - after[i, 1])
            worst = max(worst, after[i, 0] - low)
            worst = max(worst, abs(after[i, 0] - before[i, 0]))
            worst = max(worst, abs(after[i, 1] - before[i, 1]))
        before, after = after, before
        flat = tau > exits_flat and worst <= drift
    graph.used[WORK_UNITS] += edges * (tau + 9 - first) // 64
    for i in range(N):
        n = nodes[i]
        if flat:
            low, high = bound[n, tau, 0], bound[n, tau, 1]
            for later in range(tau + 1, H + 1):
                low -= 2.0 * drift
                high += 2.0 * drift
                tighten_bounds(bound, changed, n, later, low, high, now, notice)
        graph.flat_from[n] = flat_from(bound, n, drift)
    return last + 1 if flat else tau + 1


@kernel
def is_stale(
    i, first, last, swept, swept_from, swept_to, node_of, rows, ptr, child, changed, A
):  # fmt: skip
    """Whether layer `i` was not yet swept over these steps to go, or a successor changed since."""
    if swept[i] == UNSWEPT or swept_from[i] > first or swept_to[i] < last:
        return True
    for s in range(node_of.shape[1]):
        n = node_of[i, s]
        if n != NONE and rows[n] != NONE:
            for e in range(ptr[rows[n] * A], ptr[(rows[n] + 1) * A]):
                if changed[child[e]] > swept[i]:
                    return True
    return False


@kernel
def same_support(belief, i, j):
    """Whether two beliefs have the same support."""
    differ = 0
    for m in range(belief.shape[1]):
        differ += (belief[i, m] > 0.0) != (belief[j, m] > 0.0)
    return differ == 0


@kernel
def back_up_layers(graph, order, first, step, now, everything, drift, notice, work_limit):
    """One pass over the stale groups that the current policies pass, or over all groups.

    `order` lists the expanded beliefs, those of one support together, small supports first.
    Starts at place `first` (in the middle of that group's sweep, at `step` steps to go, if `step`
    is not 0); returns where it stopped for its limit on work, `(place, step)`, or the end.
    """
    belief, node_of, rows, changed = graph.belief, graph.node_of, graph.row, graph.changed
    swept, swept_from, swept_to = graph.swept, graph.swept_from, graph.swept_to
    passed_from, passed_to = graph.passed_from, graph.passed_to
    ptr, child, A = graph.ptr, graph.child, graph.gain.shape[1]
    S, H = node_of.shape[1], graph.bound.shape[1] - 1
    nodes = np.empty(graph.used[N_INNER], np.uint32)
    while first < order.size and graph.used[WORK_UNITS] < work_limit:
        last, n_nodes = first, 0
        low, high = (1, H) if everything else (H + 1, 0)
        while last < order.size and same_support(belief, order[first], order[last]):
            i = order[last]
            if swept[i] == UNSWEPT:
                low, high = 1, H
            elif passed_to[i] > 0:
                low, high = min(low, passed_from[i]), max(high, passed_to[i])
            for s in range(S):
                n = node_of[i, s]
                if n != NONE and rows[n] != NONE:
                    nodes[n_nodes] = n
                    n_nodes += 1
            last += 1
        stale = everything or step > 0
        for j in range(first, last):
            stale = stale or (
                high > 0
                and is_stale(
                    order[j], low, high, swept, swept_from, swept_to, node_of, rows, ptr, child,
                    changed, A,
                )
            )  # fmt: skip
        if stale:
            step = sweep_group(
                graph, nodes[:n_nodes], max(low, step), high, now, drift, notice, work_limit
            )
            if step <= high:
                return first, step
            for j in range(first, last):
                i = order[j]
                swept[i], swept_from[i], swept_to[i] = now, low, high
        first, step = last, 0
    return first, 0
