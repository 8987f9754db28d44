"""Kernels of the belief graph: nodes `(belief, state)` shared by all steps, values per steps to go.

The nodes of one belief are a *layer*; layers are expanded as a whole. Along a transition a belief's
support never grows, so beliefs that can reach one another have the same support: such a *group* of
layers is swept together, steps to go ascending, after the groups of smaller support. One such pass
gives the exact bounds of the expanded part of the graph, given those at its frontier.
"""

from typing import Any, NamedTuple

import numpy as np

from latentmdp.kernels._cache import helper, kernel
from latentmdp.kernels.history_grid import posterior
from latentmdp.kernels.history_tree import hash_belief, same_belief

BELIEFS, NODES, ROWS, EDGES, WORK = 0, 1, 2, 3, 4  # entries of `count`
SIZE = 0  # number of contexts in the support
SWEPT = 1  # round of the layer's last sweep; -1: none yet; FRONTIER: not expanded
PASSED = 2  # whether the current policies pass through
BELIEF, STATE = 0, 1
ROW = 2  # row in `ptr` and `gain`; -1: at the frontier
FLAT = 3  # steps to go from which the bounds hardly change any more
CHANGED = 4  # round in which the bounds last changed
MEMBER = 5  # stamp of the last sweep
PEAK = 6  # steps to go at which a frontier node matters most; 0: nowhere
FRONTIER = -2
PICKS = 4  # expanded beliefs combined into one upper bound at the frontier


class Graph(NamedTuple):
    """Growing arrays; the first `count[...]` entries of each are in use. `T = H + 1`."""

    count: Any  # (5,)
    belief: Any  # (beliefs, M)
    layer: Any  # (beliefs, 3) integers of each belief: SIZE, SWEPT, PASSED
    node_of: Any  # (beliefs, S) node; -1: none
    table: Any  # (power of two,) hash table of beliefs, -1: empty
    node: Any  # (nodes, 7) integers of each node: BELIEF, STATE, ROW, FLAT, CHANGED, MEMBER, PEAK
    bound: Any  # (nodes, T, 2) lower and upper, by steps to go
    ptr: Any  # (rows*A + 1,) edges of each action
    gain: Any  # (rows, A) expected reward now
    child: Any  # (edges,)
    prob: Any  # (edges,) discounted
    score: Any  # (beliefs,) reach x gap at the frontier
    reach: Any  # (2, nodes) now and next, zero between rounds
    queue: Any  # (2, nodes)


@helper
def find_belief(graph, b):
    """`(slot, belief)`; belief -1 where there is none yet."""
    mask = np.uint64(graph.table.size - 1)
    slot = hash_belief(0, b) & mask
    while True:
        i = graph.table[slot]
        if i < 0 or same_belief(graph.belief[i], b):
            return slot, i
        slot = (slot + np.uint64(1)) & mask


@kernel
def rehash_beliefs(graph):
    """Enter all beliefs into an empty hash table."""
    for i in range(graph.count[BELIEFS]):
        slot, _ = find_belief(graph, graph.belief[i])
        graph.table[slot] = i


@helper
def add_belief(graph, b):
    """The number of belief `b`."""
    slot, i = find_belief(graph, b)
    if i >= 0:
        return i
    i = graph.count[BELIEFS]
    graph.count[BELIEFS] += 1
    graph.table[slot] = i
    n = 0
    for m in range(b.size):
        graph.belief[i, m] = b[m]
        n += b[m] > 0.0
    graph.layer[i, SIZE], graph.layer[i, SWEPT], graph.layer[i, PASSED] = n, FRONTIER, 0
    graph.score[i] = 0.0
    for s in range(graph.node_of.shape[1]):
        graph.node_of[i, s] = -1
    return i


@helper
def known_value(belief, known, i, s, t):
    """The value of knowing the context, at belief `i` and state `s`, step `t`."""
    x = 0.0
    for m in range(belief.shape[1]):
        x += belief[i, m] * known[t, s, m]
    return x


@helper
def corner_policy(belief, alpha, i, s, t):
    """The context whose policy is taken at belief `i`, state `s`, step `t`.

    The best one, at every eighth step; in between that of the step before.
    """
    t -= t % 8
    b = belief[i]
    best, top = -1, 0.0
    for k in range(b.size):
        if b[k] > 0.0:
            x = 0.0
            for m in range(b.size):
                if b[m] > 0.0:
                    x += b[m] * alpha[t, s, k, m]
            if best < 0 or x > top:
                best, top = k, x
    return best


@helper
def corner_value(belief, alpha, i, s, t, k):
    """The value of context `k`'s policy at belief `i`, state `s`, step `t`."""
    x = 0.0
    for m in range(belief.shape[1]):
        x += belief[i, m] * alpha[t, s, k, m]
    return x


@helper
def find_flat(graph, n, drift):
    """Set from where on a node's bounds change by at most `drift` per step."""
    tau = graph.bound.shape[1] - 1
    while tau > 0 and (
        abs(graph.bound[n, tau, 0] - graph.bound[n, tau - 1, 0]) <= drift
        and abs(graph.bound[n, tau, 1] - graph.bound[n, tau - 1, 1]) <= drift
    ):
        tau -= 1
    graph.node[n, FLAT] = tau


@helper
def add_node(graph, known, alpha, i, s, drift):
    """The node of belief `i` and state `s`; new ones with the bounds of the corners."""
    n = graph.node_of[i, s]
    if n >= 0:
        return n
    n = graph.count[NODES]
    graph.count[NODES] += 1
    graph.node_of[i, s] = n
    graph.node[n, BELIEF], graph.node[n, STATE], graph.node[n, ROW] = i, s, -1
    graph.node[n, CHANGED] = graph.node[n, MEMBER] = graph.node[n, PEAK] = 0
    graph.reach[0, n] = graph.reach[1, n] = 0.0
    H = graph.bound.shape[1] - 1
    k = 0
    for t in range(H + 1):
        if t % 8 == 0:
            k = corner_policy(graph.belief, alpha, i, s, t)
        graph.bound[n, H - t, 0] = corner_value(graph.belief, alpha, i, s, t, k)
        graph.bound[n, H - t, 1] = known_value(graph.belief, known, i, s, t)
    find_flat(graph, n, drift)
    size = graph.layer[i, SIZE]
    graph.count[WORK] += 1 + H * (1 + size + size * size // 8) // 64
    return n


@kernel
def plant(graph, known, alpha, state, belief, drift, start_node):
    """Make nodes of the first states."""
    for i in range(state.size):
        start_node[i] = add_node(graph, known, alpha, add_belief(graph, belief[i]), state[i], drift)


@kernel
def expand_belief(graph, joint, known, alpha, i, now, drift):
    """Expand the nodes of belief `i` that are not yet, and those they lead to inside the layer."""
    S = graph.node_of.shape[1]
    A = graph.gain.shape[1]
    b = graph.belief[i]
    post = np.empty(b.size)
    queue = np.empty(S, np.int64)
    n_queue = 0
    for s in range(S):
        n = graph.node_of[i, s]
        if n >= 0 and graph.node[n, ROW] < 0:
            queue[n_queue] = s
            n_queue += 1
    graph.layer[i, SWEPT] = -1
    at = 0
    while at < n_queue:
        s = queue[at]
        at += 1
        row = graph.count[ROWS]
        graph.count[ROWS] += 1
        for a in range(A):
            sa = s * A + a
            x = 0.0
            for m in range(b.size):
                x += b[m] * joint.reward[sa, m]
            graph.gain[row, a] = x
            for o in range(joint.ptr[sa], joint.ptr[sa + 1]):
                p = posterior(b, joint.like[o], post)
                if p > 0.0:
                    j = i if same_belief(b, post) else add_belief(graph, post)
                    if j == i and graph.node_of[i, joint.next[o]] < 0:
                        queue[n_queue] = joint.next[o]
                        n_queue += 1
                    e = graph.count[EDGES]
                    graph.count[EDGES] += 1
                    graph.child[e] = add_node(graph, known, alpha, j, joint.next[o], drift)
                    graph.prob[e] = joint.discount * p
            graph.ptr[row * A + a + 1] = graph.count[EDGES]
        graph.node[graph.node_of[i, s], ROW] = row
        graph.node[graph.node_of[i, s], CHANGED] = now
    graph.count[WORK] += (joint.ptr[S * A] * b.size) // 16


@helper
def best_action(graph, n, side, tau):
    """`(action, value)`, best at node `n` under lower (0) or upper (1) bounds, `tau` to go."""
    A = graph.gain.shape[1]
    row = graph.node[n, ROW]
    best, top = -1, 0.0
    for a in range(A):
        x = graph.gain[row, a]
        for e in range(graph.ptr[row * A + a], graph.ptr[row * A + a + 1]):
            x += graph.prob[e] * graph.bound[graph.child[e], tau - 1, side]
        if best < 0 or x > top:
            best, top = a, x
    return best, top


@helper
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


@helper
def sweep(graph, nodes, now, stamp, drift, notice):
    """Tighten both bounds of the inner `nodes`, steps to go ascending; notes what changed.

    Where upper bounds change by at most `drift` from one step to the next, inside and at exits, and
    exceed their backups by no less than minus that, a further step adds at most twice that much (a
    backup does not magnify differences): the rest is filled in so.
    """
    H = graph.bound.shape[1] - 1
    A = graph.gain.shape[1]
    bound, ptr, gain, child, prob = graph.bound, graph.ptr, graph.gain, graph.child, graph.prob
    edges, exits_flat = 0, 0
    for n in nodes:
        graph.node[n, MEMBER] = stamp
    for n in nodes:
        row = graph.node[n, ROW]
        edges += ptr[(row + 1) * A] - ptr[row * A]
        for e in range(ptr[row * A], ptr[(row + 1) * A]):
            k = graph.child[e]
            if graph.node[k, MEMBER] != stamp:
                exits_flat = max(exits_flat, graph.node[k, FLAT])
    tau = 0
    while tau < H:
        tau += 1
        worst = 0.0
        for n in nodes:
            row = graph.node[n, ROW]
            low = high = -np.inf
            for a in range(A):
                x = y = gain[row, a]
                for e in range(ptr[row * A + a], ptr[row * A + a + 1]):
                    p, k = prob[e], child[e]
                    x += p * bound[k, tau - 1, 0]
                    y += p * bound[k, tau - 1, 1]
                low, high = max(low, x), max(high, y)
            tighten(bound, graph.node, n, tau, low, high, now, notice)
            worst = max(worst, high - bound[n, tau, 1])
            worst = max(worst, abs(bound[n, tau, 0] - bound[n, tau - 1, 0]))
            worst = max(worst, abs(bound[n, tau, 1] - bound[n, tau - 1, 1]))
        if tau > exits_flat and worst <= drift:
            break
    graph.count[WORK] += edges * tau // 64
    for n in nodes:
        low, high = bound[n, tau, 0], bound[n, tau, 1]
        for later in range(tau + 1, H + 1):
            low -= 2.0 * drift
            high += 2.0 * drift
            tighten(bound, graph.node, n, later, low, high, now, notice)
        find_flat(graph, n, drift)


@helper
def is_stale(graph, i):
    """Whether a successor of layer `i` changed since its last sweep, or there was none."""
    A = graph.gain.shape[1]
    if graph.layer[i, SWEPT] < 0:
        return True
    for s in range(graph.node_of.shape[1]):
        n = graph.node_of[i, s]
        if n >= 0 and graph.node[n, ROW] >= 0:
            row = graph.node[n, ROW]
            for e in range(graph.ptr[row * A], graph.ptr[(row + 1) * A]):
                if graph.node[graph.child[e], CHANGED] > graph.layer[i, SWEPT]:
                    return True
    return False


@helper
def same_support(b, c):
    """Whether two beliefs have the same support."""
    differ = 0
    for m in range(b.size):
        differ += (b[m] > 0.0) != (c[m] > 0.0)
    return differ == 0


@kernel
def back_up(graph, order, first, now, everything, drift, notice, work_limit):
    """One pass over the stale groups that the current policies pass, or over all that are stale.

    `order` lists the expanded beliefs, those of one support together, small supports first.
    Starts at place `first`; returns where it stopped for its limit on work, or the end.
    """
    S = graph.node_of.shape[1]
    nodes = np.empty(graph.count[ROWS], np.int64)
    while first < order.size and graph.count[WORK] < work_limit:
        last, stale, n_nodes, passed = first, False, 0, everything
        while last < order.size and same_support(
            graph.belief[order[first]], graph.belief[order[last]]
        ):
            i = order[last]
            passed = passed or graph.layer[i, PASSED] == 1 or graph.layer[i, SWEPT] < 0
            stale = stale or (passed and is_stale(graph, i))
            for s in range(S):
                n = graph.node_of[i, s]
                if n >= 0 and graph.node[n, ROW] >= 0:
                    nodes[n_nodes] = n
                    n_nodes += 1
            last += 1
        if stale:
            stamp = now * (order.size + 1) + first + 1
            sweep(graph, nodes[:n_nodes], now, stamp, drift, notice)
            for j in range(first, last):
                graph.layer[order[j], SWEPT] = now
        first = last
    return first


@kernel
def follow(graph, side, start_node, start_prob, cut):
    """Fill `score` and `peak` at the frontier reached by the best actions under one bound.

    Nodes reached with less than `cut` are not followed. Marks the beliefs passed.
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
                graph.layer[graph.node[n, BELIEF], PASSED] = 1
                a = best_action(graph, n, side, tau)[0]
                row = graph.node[n, ROW]
                for e in range(graph.ptr[row * A + a], graph.ptr[row * A + a + 1]):
                    k = graph.child[e]
                    if graph.reach[1 - now, k] == 0.0:
                        graph.queue[1 - now, n_next] = k
                        n_next += 1
                    graph.reach[1 - now, k] += max(r * graph.prob[e], 1e-300)
        graph.count[WORK] += n_now // 4
        now, n_now = 1 - now, n_next
    for j in range(n_now):
        graph.reach[now, graph.queue[now, j]] = 0.0


@kernel
def tighten_frontier(graph, known, order, now, drift, notice):
    """Tighten upper bounds of the reached frontier by expanded beliefs (repeated sawtooth).

    Where `b = sum_j f_j b_j + rest` with all parts non-negative, convexity gives
    `V(b) <= sum_j f_j U(b_j) + (value of knowing the context at the rest)`.
    """
    S, H = graph.node_of.shape[1], graph.bound.shape[1] - 1
    M = graph.belief.shape[1]
    rest = np.empty(M)
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
            picks = 0
            while picks < PICKS:
                best, most, share_best = -1, notice, 0.0
                for j in order:
                    if graph.layer[j, SIZE] > graph.layer[i, SIZE]:
                        break
                    k = graph.node_of[j, s]
                    if k < 0 or graph.layer[j, SIZE] == 1:
                        continue
                    f = 1e300
                    for m in range(M):
                        if graph.belief[j, m] > 0.0:
                            f = min(f, rest[m] / graph.belief[j, m])
                            if f == 0.0:
                                break
                    if f > 0.0:
                        x = f * (
                            known_value(graph.belief, known, j, s, H - tau) - graph.bound[k, tau, 1]
                        )
                        if x > most:
                            best, most, share_best = j, x, f
                if best < 0:
                    break
                pick[picks], share[picks] = best, share_best
                picks += 1
                for m in range(M):
                    rest[m] = max(0.0, rest[m] - share_best * graph.belief[best, m])
            if picks == 0:
                continue
            for t in range(H):
                x = known_value(graph.belief, known, i, s, t)
                for j in range(picks):
                    x -= share[j] * (
                        known_value(graph.belief, known, pick[j], s, t)
                        - graph.bound[graph.node_of[pick[j], s], H - t, 1]
                    )
                if x < graph.bound[n, H - t, 1]:
                    if x < graph.bound[n, H - t, 1] - notice:
                        graph.node[n, CHANGED] = now
                    graph.bound[n, H - t, 1] = x
            find_flat(graph, n, drift)
            graph.count[WORK] += order.size * M // 16 + H * picks * M // 64


@kernel
def reached_policy(graph, alpha, side, start_node, start_prob, cut, at, step, node):
    """Number the points `(step, node)` of the policy that is best under lower bounds (side 0).

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
                i, s = graph.node[n, BELIEF], graph.node[n, STATE]
                k = corner_policy(graph.belief, alpha, i, s, t)
                lost += r * (graph.bound[n, tau, 0] - corner_value(graph.belief, alpha, i, s, t, k))
                continue
            a, x = best_action(graph, n, side, tau)
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
    graph, joint, alpha, side, at, step, node, action, degree, symbol, nxt, target, vertex
):
    """Write the numbered points; successors are `target` points or, at -1, a `vertex`'s policy."""
    A = graph.gain.shape[1]
    H = graph.bound.shape[1] - 1
    post = np.empty(graph.belief.shape[1])
    used = 0
    for j in range(step.size):
        t, n = step[j], node[j]
        a = best_action(graph, n, side, H - t)[0]
        action[j], degree[j] = a, 0
        if t + 1 == H:
            continue
        s, row = graph.node[n, STATE], graph.node[n, ROW]
        e = graph.ptr[row * A + a]
        for o in range(joint.ptr[s * A + a], joint.ptr[s * A + a + 1]):
            if posterior(graph.belief[graph.node[n, BELIEF]], joint.like[o], post) > 0.0:
                k = graph.child[e]
                e += 1
                symbol[used], nxt[used], target[used] = joint.symbol[o], joint.next[o], at[t + 1, k]
                if target[used] < 0:
                    target[used] = -1
                    vertex[used] = corner_policy(
                        graph.belief, alpha, graph.node[k, BELIEF], joint.next[o], t + 1
                    )
                used += 1
                degree[j] += 1
    return used
