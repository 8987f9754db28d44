"""Kernels of the belief graph: nodes `(belief, state)` shared by all steps, values per steps to go.

The nodes of one belief are a *layer*; layers are expanded as a whole. Along a transition a belief's
support never grows, so beliefs that can reach one another have the same support: such a *group* of
layers is swept together, steps to go ascending, after the groups of smaller support. One such pass
gives the exact bounds of the expanded part of the graph, given those at its frontier.
"""

from typing import Any, NamedTuple

import numpy as np

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.history_grid import posterior
from latentmdp.kernels.history_tree import hash_belief, same_belief

BELIEFS, NODES, INNER, EDGES, WORK = 0, 1, 2, 3, 4  # entries of `count`
PICKS = 4  # expanded beliefs combined into one upper bound at the frontier


class Graph(NamedTuple):
    """Growing arrays; the first `count[...]` entries of each are in use. `T = H + 1`."""

    count: Any  # (5,)
    belief: Any  # (beliefs, M)
    size: Any  # (beliefs,) number of contexts in its support
    expanded: Any  # (beliefs,) place in the order of expansion; -1: at the frontier
    node_of: Any  # (beliefs, S) node; -1: none
    table: Any  # (power of two,) hash table of beliefs, -1: empty
    of_belief: Any  # (nodes,)
    state: Any  # (nodes,)
    inner: Any  # (nodes,) row in `ptr` and `gain`; -1: at the frontier
    bound: Any  # (nodes, T, 2) lower and upper, by steps to go
    flat: Any  # (nodes,) steps to go from which the bounds hardly change any more
    ptr: Any  # (inner*A + 1,) edges of each action
    gain: Any  # (inner, A) expected reward now
    child: Any  # (edges,)
    prob: Any  # (edges,) discounted
    changed: Any  # (nodes,) round in which its bounds last changed
    member: Any  # (nodes,) round and group of its last sweep
    swept: Any  # (beliefs,) round of its layer's last sweep
    visits: Any  # (beliefs,) whether the current policies pass through
    score: Any  # (beliefs,) reach x gap at the frontier
    reach: Any  # (2, nodes) now and next, zero between rounds
    queue: Any  # (2, nodes)
    peak: Any  # (nodes,) steps to go at which a frontier node matters most


@kernel
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


@kernel
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
    graph.size[i] = n
    graph.expanded[i] = graph.swept[i] = -1
    graph.score[i] = 0.0
    graph.visits[i] = False
    for s in range(graph.node_of.shape[1]):
        graph.node_of[i, s] = -1
    return i


@kernel
def known_value(graph, corners, i, s, t):
    """The value of knowing the context, at belief `i` and state `s`, step `t`."""
    x = 0.0
    for m in range(graph.belief.shape[1]):
        x += graph.belief[i, m] * corners.upper[t, s, m]
    return x


@kernel
def corner_policy(graph, corners, i, s, t):
    """The context whose policy is taken at belief `i`, state `s`, step `t`.

    The best one, at every eighth step; in between that of the step before.
    """
    t -= t % 8
    b = graph.belief[i]
    best, top = -1, 0.0
    for k in range(b.size):
        if b[k] > 0.0:
            x = 0.0
            for m in range(b.size):
                if b[m] > 0.0:
                    x += b[m] * corners.alpha[t, s, k, m]
            if best < 0 or x > top:
                best, top = k, x
    return best


@kernel
def corner_value(graph, corners, i, s, t, k):
    """The value of context `k`'s policy at belief `i`, state `s`, step `t`."""
    x = 0.0
    for m in range(graph.belief.shape[1]):
        x += graph.belief[i, m] * corners.alpha[t, s, k, m]
    return x


@kernel
def find_flat(graph, n, drift):
    """Set from where on a node's bounds change by at most `drift` per step."""
    tau = graph.bound.shape[1] - 1
    while tau > 0 and (
        abs(graph.bound[n, tau, 0] - graph.bound[n, tau - 1, 0]) <= drift
        and abs(graph.bound[n, tau, 1] - graph.bound[n, tau - 1, 1]) <= drift
    ):
        tau -= 1
    graph.flat[n] = tau


@kernel
def add_node(graph, corners, i, s, drift):
    """The node of belief `i` and state `s`; new ones with the bounds of the corners."""
    n = graph.node_of[i, s]
    if n >= 0:
        return n
    n = graph.count[NODES]
    graph.count[NODES] += 1
    graph.node_of[i, s] = n
    graph.of_belief[n], graph.state[n], graph.inner[n] = i, s, -1
    graph.changed[n] = graph.member[n] = graph.peak[n] = 0
    graph.reach[0, n] = graph.reach[1, n] = 0.0
    H = corners.action.shape[0]
    k = 0
    for t in range(H + 1):
        if t % 8 == 0:
            k = corner_policy(graph, corners, i, s, t)
        graph.bound[n, H - t, 0] = corner_value(graph, corners, i, s, t, k)
        graph.bound[n, H - t, 1] = known_value(graph, corners, i, s, t)
    find_flat(graph, n, drift)
    graph.count[WORK] += 1 + H * b_work(graph.size[i]) // 64
    return n


@kernel
def b_work(n):
    """Work of choosing among `n` corner policies, per step."""
    return 1 + n + n * n // 8


@kernel
def has_room(graph, nodes, edges):
    """Whether one more layer fits."""
    A = graph.gain.shape[1]
    return (
        graph.count[BELIEFS] + edges <= graph.belief.shape[0]
        and graph.count[NODES] + edges + nodes <= graph.state.size
        and graph.count[EDGES] + edges <= graph.child.size
        and (graph.count[INNER] + nodes) * A < graph.ptr.size
    )


@kernel
def expand_belief(graph, joint, corners, i, order, now, drift):
    """Give all nodes of belief `i` their successors, and all nodes they lead to inside the layer."""
    S = graph.node_of.shape[1]
    A = graph.gain.shape[1]
    b = graph.belief[i]
    post = np.empty(b.size)
    queue = np.empty(S, np.int64)
    n_queue = 0
    for s in range(S):
        if graph.node_of[i, s] >= 0:
            queue[n_queue] = s
            n_queue += 1
    graph.expanded[i] = order
    at = 0
    while at < n_queue:
        s = queue[at]
        at += 1
        row = graph.count[INNER]
        graph.count[INNER] += 1
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
                    graph.child[e] = add_node(graph, corners, j, joint.next[o], drift)
                    graph.prob[e] = joint.discount * p
            graph.ptr[row * A + a + 1] = graph.count[EDGES]
        graph.inner[graph.node_of[i, s]] = row
        graph.changed[graph.node_of[i, s]] = now
    graph.count[WORK] += (joint.ptr[S * A] * b.size) // 16


@kernel
def best_action(graph, n, side, tau):
    """The action that is best at node `n` under lower (0) or upper (1) bounds, `tau` steps to go."""
    A = graph.gain.shape[1]
    row = graph.inner[n]
    best, top = -1, 0.0
    for a in range(A):
        x = graph.gain[row, a]
        for e in range(graph.ptr[row * A + a], graph.ptr[row * A + a + 1]):
            x += graph.prob[e] * graph.bound[graph.child[e], tau - 1, side]
        if best < 0 or x > top:
            best, top = a, x
    return best


@kernel
def sweep(graph, nodes, now, stamp, drift, notice):
    """Tighten both bounds of the inner `nodes`, steps to go ascending; notes what changed.

    Once no bound, inside or at an exit, changes by more than `drift` per step, none will later on
    (a backup does not magnify changes), and the rest is filled in with that much to spare.
    """
    H = graph.bound.shape[1] - 1
    A = graph.gain.shape[1]
    bound, ptr = graph.bound, graph.ptr
    edges, exits_flat = 0, 0
    for n in nodes:
        graph.member[n] = stamp
    for n in nodes:
        row = graph.inner[n]
        edges += ptr[(row + 1) * A] - ptr[row * A]
        for e in range(ptr[row * A], ptr[(row + 1) * A]):
            k = graph.child[e]
            if graph.member[k] != stamp:
                exits_flat = max(exits_flat, graph.flat[k])
    tau = 0
    while tau < H:
        tau += 1
        worst = 0.0
        for n in nodes:
            row = graph.inner[n]
            low = high = -np.inf
            for a in range(A):
                x = y = graph.gain[row, a]
                for e in range(ptr[row * A + a], ptr[row * A + a + 1]):
                    p, k = graph.prob[e], graph.child[e]
                    x += p * bound[k, tau - 1, 0]
                    y += p * bound[k, tau - 1, 1]
                low, high = max(low, x), max(high, y)
            if low > bound[n, tau, 0]:
                if low > bound[n, tau, 0] + notice:
                    graph.changed[n] = now
                bound[n, tau, 0] = low
            if high < bound[n, tau, 1]:
                if high < bound[n, tau, 1] - notice:
                    graph.changed[n] = now
                bound[n, tau, 1] = high
            worst = max(worst, abs(bound[n, tau, 0] - bound[n, tau - 1, 0]))
            worst = max(worst, abs(bound[n, tau, 1] - bound[n, tau - 1, 1]))
        if tau > exits_flat and worst <= drift:
            break
    graph.count[WORK] += edges * tau // 64
    for n in nodes:
        low, high = bound[n, tau, 0], bound[n, tau, 1]
        for later in range(tau + 1, H + 1):
            low -= drift
            high += drift
            if low > bound[n, later, 0]:
                if low > bound[n, later, 0] + notice:
                    graph.changed[n] = now
                bound[n, later, 0] = low
            if high < bound[n, later, 1]:
                if high < bound[n, later, 1] - notice:
                    graph.changed[n] = now
                bound[n, later, 1] = high
        find_flat(graph, n, drift)


@kernel
def is_stale(graph, i):
    """Whether a successor of layer `i` changed since its last sweep, or there was none."""
    A = graph.gain.shape[1]
    if graph.swept[i] < 0:
        return True
    for s in range(graph.node_of.shape[1]):
        n = graph.node_of[i, s]
        if n >= 0:
            row = graph.inner[n]
            for e in range(graph.ptr[row * A], graph.ptr[(row + 1) * A]):
                if graph.changed[graph.child[e]] > graph.swept[i]:
                    return True
    return False


@kernel
def same_support(b, c):
    """Whether two beliefs have the same support."""
    for m in range(b.size):
        if (b[m] > 0.0) != (c[m] > 0.0):
            return False
    return True


@kernel
def back_up(graph, order, now, everything, drift, notice):
    """One pass over the stale groups that the current policies pass, or over all that are stale.

    `order` lists the expanded beliefs, those of one support together, small supports first.
    """
    S = graph.node_of.shape[1]
    nodes = np.empty(graph.count[INNER], np.int64)
    first = 0
    while first < order.size:
        last, stale, n_nodes, visited = first, False, 0, everything
        while last < order.size and same_support(
            graph.belief[order[first]], graph.belief[order[last]]
        ):
            i = order[last]
            visited = visited or graph.visits[i] or graph.swept[i] < 0
            stale = stale or (visited and is_stale(graph, i))
            for s in range(S):
                if graph.node_of[i, s] >= 0:
                    nodes[n_nodes] = graph.node_of[i, s]
                    n_nodes += 1
            last += 1
        if stale and visited:
            stamp = now * (order.size + 1) + first + 1
            sweep(graph, nodes[:n_nodes], now, stamp, drift, notice)
            for j in range(first, last):
                graph.swept[order[j]] = now
        first = last


@kernel
def forget_visits(graph):
    """No policy passes anywhere yet."""
    for i in range(graph.count[BELIEFS]):
        graph.visits[i] = False


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
            if graph.inner[n] < 0:
                x = r * gap
                graph.score[graph.of_belief[n]] += x
                if x > weight[n]:
                    weight[n] = x
                    graph.peak[n] = tau
            elif r >= cut and gap > 0.0:
                graph.visits[graph.of_belief[n]] = True
                a = best_action(graph, n, side, tau)
                row = graph.inner[n]
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
def tighten_frontier(graph, corners, order, now, drift, notice):
    """Tighten upper bounds of the reached frontier by expanded beliefs (repeated sawtooth).

    Where `b = sum_j f_j b_j + rest` with all parts non-negative, convexity gives
    `V(b) <= sum_j f_j U(b_j) + (value of knowing the context at the rest)`.
    """
    S, H = graph.node_of.shape[1], corners.action.shape[0]
    M = graph.belief.shape[1]
    rest = np.empty(M)
    pick, share = np.empty(PICKS, np.int64), np.empty(PICKS)
    for i in range(graph.count[BELIEFS]):
        if graph.score[i] <= 0.0 or graph.expanded[i] >= 0:
            continue
        for s in range(S):
            n = graph.node_of[i, s]
            if n < 0 or graph.peak[n] == 0:
                continue
            tau = graph.peak[n]
            for m in range(M):
                rest[m] = graph.belief[i, m]
            picks = 0
            while picks < PICKS:
                best, most, share_best = -1, notice, 0.0
                for j in order:
                    if graph.size[j] > graph.size[i]:
                        break
                    k = graph.node_of[j, s]
                    if k < 0 or graph.size[j] == 1:
                        continue
                    f = 1e300
                    for m in range(M):
                        if graph.belief[j, m] > 0.0:
                            f = min(f, rest[m] / graph.belief[j, m])
                            if f == 0.0:
                                break
                    if f > 0.0:
                        x = f * (known_value(graph, corners, j, s, H - tau) - graph.bound[k, tau, 1])
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
                x = known_value(graph, corners, i, s, t)
                for j in range(picks):
                    x -= share[j] * (
                        known_value(graph, corners, pick[j], s, t)
                        - graph.bound[graph.node_of[pick[j], s], H - t, 1]
                    )
                if x < graph.bound[n, H - t, 1]:
                    if x < graph.bound[n, H - t, 1] - notice:
                        graph.changed[n] = now
                    graph.bound[n, H - t, 1] = x
            find_flat(graph, n, drift)
            graph.count[WORK] += order.size * M // 16 + H * picks * M // 64


@kernel
def root_bounds(graph, start_node, start_prob):
    """`(lower, upper)` of the whole problem."""
    H = graph.bound.shape[1] - 1
    low, high = 0.0, 0.0
    for i in range(start_node.size):
        low += start_prob[i] * graph.bound[start_node[i], H, 0]
        high += start_prob[i] * graph.bound[start_node[i], H, 1]
    return low, high


@kernel
def reached_policy(graph, corners, start_node, start_prob, cut, at, step, node):
    """Number the points `(step, node)` of the policy that is best under the lower bounds.

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
            if graph.inner[n] < 0:
                continue
            if r < cut:
                i, s = graph.of_belief[n], graph.state[n]
                k = corner_policy(graph, corners, i, s, t)
                lost += r * (graph.bound[n, tau, 0] - corner_value(graph, corners, i, s, t, k))
                continue
            at[t, n] = count
            if count < step.size:
                step[count], node[count] = t, n
            count += 1
            a = best_action(graph, n, 0, tau)
            row = graph.inner[n]
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
def write_policy(graph, joint, corners, at, step, node, action, degree, symbol, nxt, target, vertex):
    """Write the numbered points; a successor is a `target` point, or, at -1, the `vertex`'s policy."""
    A = graph.gain.shape[1]
    H = graph.bound.shape[1] - 1
    post = np.empty(graph.belief.shape[1])
    used = 0
    for j in range(step.size):
        t, n = step[j], node[j]
        a = best_action(graph, n, 0, H - t)
        action[j], degree[j] = a, 0
        if t + 1 == H:
            continue
        s, row = graph.state[n], graph.inner[n]
        e = graph.ptr[row * A + a]
        for o in range(joint.ptr[s * A + a], joint.ptr[s * A + a + 1]):
            if posterior(graph.belief[graph.of_belief[n]], joint.like[o], post) > 0.0:
                k = graph.child[e]
                e += 1
                symbol[used], nxt[used], target[used] = joint.symbol[o], joint.next[o], at[t + 1, k]
                if target[used] < 0:
                    target[used] = -1
                    vertex[used] = corner_policy(
                        graph, corners, graph.of_belief[k], joint.next[o], t + 1
                    )
                used += 1
                degree[j] += 1
    return used
