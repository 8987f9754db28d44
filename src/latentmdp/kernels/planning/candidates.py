"""A graph of exact beliefs in which each node has a few candidate actions, in little memory.

Beliefs are sparse, and outcomes are read from the model's rows: nothing grows with contexts times
observations. A node may also stop there: follow one of a few Markov policies (*exits*) from then
on, whose values are known in all contexts. Backing up the better of stopping and the candidate
actions gives a policy that is at least as good as each rule that proposes actions, and as each
exit, from every node on.

Without a last step there is one layer of exit values (`T = 1`) and all nodes have step 0.
"""

from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.runtime.kernel_cache import kernel

LOOK_AHEAD, INFORM, KNOWN = 0, 1, 2  # the rules that propose actions
RULES = 3
SWITCH = 0.1  # the weight of a path is multiplied by this where it changes to another rule
SAME_WEIGHT = 2.0**-40  # entries of beliefs that are this close are equal
STEP, STATE, FIRST, CONTEXTS, EXIT, CHOICE, EXPANDED = 0, 1, 2, 3, 4, 5, 6  # columns of `node`
NODE_COLUMNS = 7
OWNER, ACTION, EDGE, EDGES, NEXT = 0, 1, 2, 3, 4  # columns of `option`
OPTION_COLUMNS = 5
N_NODES, N_OPTIONS, N_EDGES, N_ENTRIES, N_HEAP, WORK = 0, 1, 2, 3, 4, 5  # entries of `used`
UNIT = 64  # multiplications, about, that take a unit of work


class CandidateRows(NamedTuple):
    """The model, and values of Markov policies and of knowing the context."""

    S: int
    A: int
    discount: float
    indptr: Ints  # (rows + 1,)
    next: Ints  # (outcomes,)
    symbol: Ints  # (outcomes,)
    prob: Floats  # (outcomes,)
    reward: Floats  # (rows,) expected
    last_reward: Floats  # (M*S*A,) of the last step, with what comes after it
    stride: int  # row (t, m, s, a) is number t * stride + (m * S + s) * A + a
    alpha: Floats  # (T, S, K, M) values of the exits from each step on
    known: Floats  # (T, M, S) values of knowing the context
    endless: bool


class CandidateGraph(NamedTuple):
    """Growing arrays; the first `used[...]` entries of each are in use."""

    used: Ints  # (6,) N_NODES, N_OPTIONS, N_EDGES, N_ENTRIES, N_HEAP, WORK
    node: Ints  # (nodes, 7) step, state, first entry, number of them, exit, choice, last option
    value: Floats  # (nodes, 2) by the best choice; by the exit
    proposed: Ints  # (nodes, RULES) actions; -1: not asked yet
    followed: Ints  # (nodes,) the rules that were followed here, as bits
    context: Ints  # (entries,) of the beliefs
    weight: Floats  # (entries,)
    option: Ints  # (options, 5) node, action, first edge, number of edges, the node's option before
    gain: Floats  # (options,) expected reward
    child: Ints  # (edges,)
    prob: Floats  # (edges,) discounted
    key: Ints  # (edges,) symbol * S + next
    heap: Floats  # (places,) weight of what may be followed, the largest first
    heap_item: Ints  # (places,) node * RULES + rule
    table: Ints  # (power of two,) hash table of nodes; -1: empty


class ObservedOutcomes(NamedTuple):
    """Scratch: the outcomes of an action at a belief, by observation."""

    key: Ints  # (n,) of each observation
    first: Ints  # (n + 1,) its entries
    slot: Ints  # (power of two,) hash table of observations; -1: empty
    where: Ints  # (n,) place of each observation in it
    of: Ints  # (n,) the observation of each outcome, in the order of the rows
    context: Ints  # (n,) by observation
    mass: Floats  # (n,) probability of context and observation


@kernel
def row_reward(rows, t, m, s, action):
    """The expected reward of a row; at the last step with what comes after it."""
    row = (m * rows.S + s) * rows.A + action
    if not rows.endless and t + 1 == rows.known.shape[0]:
        return rows.last_reward[row]
    return rows.reward[t * rows.stride + row]


@kernel
def list_outcomes(rows, graph, n, action, found):
    """Fill `found` with the outcomes of an action at a node; the number of observations."""
    indptr, following, symbol, prob = rows.indptr, rows.next, rows.symbol, rows.prob
    key, first, slot, where, of = found.key, found.first, found.slot, found.where, found.of
    state, begin, size = graph.node[n, STATE], graph.node[n, FIRST], graph.node[n, CONTEXTS]
    base = graph.node[n, STEP] * rows.stride
    mask, count, total = slot.size - 1, 0, 0
    for e in range(begin, begin + size):
        row = base + (graph.context[e] * rows.S + state) * rows.A + action
        for i in range(indptr[row], indptr[row + 1]):
            if graph.weight[e] * prob[i] <= 0.0:
                continue
            wanted = symbol[i] * rows.S + following[i]
            place = (wanted * 0x9E3779B1 >> 7) & mask
            while slot[place] >= 0 and key[slot[place]] != wanted:
                place = (place + 1) & mask
            if slot[place] < 0:
                slot[place] = count
                where[count], key[count] = place, wanted
                first[count + 1] = 0
                count += 1
            of[total] = slot[place]
            first[slot[place] + 1] += 1
            total += 1
    first[0] = 0
    for k in range(count):
        first[k + 1] += first[k]
        slot[where[k]] = -1
    total = 0
    for e in range(begin, begin + size):
        row = base + (graph.context[e] * rows.S + state) * rows.A + action
        for i in range(indptr[row], indptr[row + 1]):
            if graph.weight[e] * prob[i] <= 0.0:
                continue
            k = of[total]
            found.context[first[k]] = graph.context[e]
            found.mass[first[k]] = graph.weight[e] * prob[i]
            first[k] += 1
            total += 1
    for k in range(count, 0, -1):
        first[k] = first[k - 1]
    first[0] = 0
    graph.used[WORK] += 1 + total * 4 // UNIT
    return count


@kernel
def best_exit(alpha, t, s, context, mass, begin, stop):
    """`(exit, value)`: the best Markov policy to follow at these weights of contexts."""
    best, top = 0, -np.inf
    for k in range(alpha.shape[2]):
        value = 0.0
        for i in range(begin, stop):
            value += mass[i] * alpha[t, s, k, context[i]]
        if value > top:
            best, top = k, value
    return best, top


@kernel
def expected_gain(rows, graph, n, action):
    """The expected reward of an action at a node."""
    state, begin, size = graph.node[n, STATE], graph.node[n, FIRST], graph.node[n, CONTEXTS]
    gain = 0.0
    for e in range(begin, begin + size):
        gain += graph.weight[e] * row_reward(
            rows, graph.node[n, STEP], graph.context[e], state, action
        )
    return gain


@kernel
def known_value(rows, t, m, s, action, after):
    """The value of an action in a context that is known; `after` is -1 at the last step."""
    row = t * rows.stride + (m * rows.S + s) * rows.A + action
    value = 0.0
    if after >= 0:
        for i in range(rows.indptr[row], rows.indptr[row + 1]):
            value += rows.prob[i] * rows.known[after, m, rows.next[i]]
    return row_reward(rows, t, m, s, action) + rows.discount * value


@kernel
def propose(rows, graph, n, found):
    """The actions of all rules at a node.

    Look-ahead: the best under the exits' values one step later. Inform: what makes the likeliest
    context as likely as possible, of equal ones the best if the context is told then; where nothing
    does, what is best in the likeliest context. Known: the best if the context is told then.
    """
    t, s = graph.node[n, STEP], graph.node[n, STATE]
    begin, size = graph.node[n, FIRST], graph.node[n, CONTEXTS]
    after = 0 if rows.endless else t + 1
    if not rows.endless and after == rows.known.shape[0]:
        after = -1
    likeliest = begin
    for e in range(begin, begin + size):
        if graph.weight[e] > graph.weight[likeliest]:
            likeliest = e
    best = np.zeros(4, np.int64)
    top = np.full(4, -np.inf)
    told = -np.inf  # of the informing action
    work = 0
    for a in range(rows.A):
        gain = expected_gain(rows, graph, n, a)
        informed, ahead, known = 0.0, gain, 0.0
        if after >= 0:
            count = list_outcomes(rows, graph, n, a, found)
            work += found.first[count] * (rows.alpha.shape[2] + 4)
            for k in range(count):
                largest = 0.0
                for i in range(found.first[k], found.first[k + 1]):
                    largest = max(largest, found.mass[i])
                informed += largest
                _, value = best_exit(
                    rows.alpha, after, found.key[k] % rows.S, found.context, found.mass,
                    found.first[k], found.first[k + 1],
                )  # fmt: skip
                ahead += rows.discount * value
        for e in range(begin, begin + size):
            value = known_value(rows, t, graph.context[e], s, a, after)
            known += graph.weight[e] * value
            if e == likeliest and value > top[3]:
                best[3], top[3] = a, value
        if ahead > top[LOOK_AHEAD]:
            best[LOOK_AHEAD], top[LOOK_AHEAD] = a, ahead
        if known > top[KNOWN]:
            best[KNOWN], top[KNOWN] = a, known
        if informed > top[INFORM] + 1e-12 or (informed > top[INFORM] - 1e-12 and known > told):
            best[INFORM], top[INFORM], told = a, max(informed, top[INFORM]), known
    if top[INFORM] <= graph.weight[likeliest] + 1e-12:
        best[INFORM] = best[3]
    for rule in range(RULES):
        graph.proposed[n, rule] = best[rule]
    graph.used[WORK] += work // UNIT


@kernel
def find_node(graph, step, state, context, weight, begin, stop):
    """`(slot, node)` of the hash table for a belief; node -1: none yet."""
    mask = graph.table.size - 1
    slot = step * 0x85EBCA6B + state * 0x9E3779B1
    for i in range(begin, stop):
        slot = (slot ^ (context[i] * 0x27D4EB2F + np.int64(weight[i] * 2.0**20 + 0.5))) * 0x9E3779B1
        slot ^= slot >> 15
    slot &= mask
    while True:
        n = graph.table[slot]
        if n < 0:
            return slot, -1
        if (
            graph.node[n, STEP] == step
            and graph.node[n, STATE] == state
            and graph.node[n, CONTEXTS] == stop - begin
        ):
            first, same = graph.node[n, FIRST], True
            for i in range(begin, stop):
                e = first + i - begin
                if graph.context[e] != context[i] or abs(graph.weight[e] - weight[i]) > SAME_WEIGHT:
                    same = False
                    break
            if same:
                return slot, n
        slot = (slot + 1) & mask


@kernel
def reach_node(rows, graph, step, state, context, mass, begin, stop):
    """The node of this step, state and belief, which is divided by its sum; made if it is new."""
    total = 0.0
    for i in range(begin, stop):
        total += mass[i]
    for i in range(begin, stop):
        mass[i] /= total
    slot, n = find_node(graph, step, state, context, mass, begin, stop)
    if n >= 0:
        return n
    used, node = graph.used, graph.node
    n = used[N_NODES]
    used[N_NODES] += 1
    graph.table[slot] = n
    node[n, STEP], node[n, STATE], node[n, FIRST] = step, state, used[N_ENTRIES]
    node[n, CONTEXTS], node[n, CHOICE], node[n, EXPANDED] = stop - begin, -1, -1
    for i in range(begin, stop):
        graph.context[used[N_ENTRIES]], graph.weight[used[N_ENTRIES]] = context[i], mass[i]
        used[N_ENTRIES] += 1
    k, value = best_exit(rows.alpha, step, state, context, mass, begin, stop)
    node[n, EXIT] = k
    graph.value[n, 0] = graph.value[n, 1] = value
    graph.followed[n] = 0
    for rule in range(RULES):
        graph.proposed[n, rule] = -1
    used[WORK] += 1 + (stop - begin) * rows.alpha.shape[2] // UNIT
    return n


@kernel
def enter_nodes(graph):
    """Enter all nodes into an empty hash table."""
    node = graph.node
    for n in range(graph.used[N_NODES]):
        first = node[n, FIRST]
        slot, _ = find_node(
            graph, node[n, STEP], node[n, STATE], graph.context, graph.weight, first,
            first + node[n, CONTEXTS],
        )  # fmt: skip
        graph.table[slot] = n


@kernel
def push(graph, weight, item):
    """Put an item into the heap."""
    heap, items = graph.heap, graph.heap_item
    i = graph.used[N_HEAP]
    graph.used[N_HEAP] += 1
    while i > 0 and heap[(i - 1) // 2] < weight:
        heap[i], items[i] = heap[(i - 1) // 2], items[(i - 1) // 2]
        i = (i - 1) // 2
    heap[i], items[i] = weight, item


@kernel
def pop(graph):
    """Take the item with the largest weight out of the heap: `(weight, item)`."""
    heap, items = graph.heap, graph.heap_item
    top, item = heap[0], items[0]
    graph.used[N_HEAP] -= 1
    size = graph.used[N_HEAP]
    weight, last = heap[size], items[size]
    i = 0
    while 2 * i + 1 < size:
        k = 2 * i + 1
        if k + 1 < size and heap[k + 1] > heap[k]:
            k += 1
        if heap[k] <= weight:
            break
        heap[i], items[i] = heap[k], items[k]
        i = k
    heap[i], items[i] = weight, last
    return top, item


@kernel
def plant(rows, graph, state, prob, first, context, weight, start):
    """Make the nodes of the first states; `start` gets them."""
    for i in range(state.size):
        n = reach_node(rows, graph, 0, state[i], context, weight, first[i], first[i + 1])
        start[i] = n
        for rule in range(RULES):
            push(graph, prob[i], n * RULES + rule)


@kernel
def expand(rows, graph, found, least, work_limit):
    """Follow the rules where that matters most, down to the weight `least`.

    Until the work is done (True) or there is no room or work left (False).
    """
    used, node = graph.used, graph.node
    steps = rows.known.shape[0]
    while used[N_HEAP] > 0:
        n_found = found.key.size
        if (
            used[WORK] >= work_limit
            or used[N_NODES] + n_found > node.shape[0]
            or 2 * (used[N_NODES] + n_found) > graph.table.size
            or used[N_ENTRIES] + n_found > graph.context.size
            or used[N_OPTIONS] >= graph.gain.size
            or used[N_EDGES] + n_found > graph.child.size
            or used[N_HEAP] + RULES * n_found > graph.heap.size
        ):
            return False
        weight, item = pop(graph)
        n, rule = item // RULES, item % RULES
        if weight < least:
            return True
        if graph.followed[n] & (1 << rule):
            continue
        graph.followed[n] |= 1 << rule
        if graph.proposed[n, rule] < 0:
            propose(rows, graph, n, found)
        a = graph.proposed[n, rule]
        o = node[n, EXPANDED]
        while o >= 0 and graph.option[o, ACTION] != a:
            o = graph.option[o, NEXT]
        if o < 0:
            o = used[N_OPTIONS]
            used[N_OPTIONS] += 1
            option = graph.option
            option[o, OWNER], option[o, ACTION] = n, a
            option[o, EDGE], option[o, EDGES], option[o, NEXT] = used[N_EDGES], 0, node[n, EXPANDED]
            node[n, EXPANDED] = o
            graph.gain[o] = expected_gain(rows, graph, n, a)
            after = 0 if rows.endless else node[n, STEP] + 1
            if rows.endless or after < steps:
                count = list_outcomes(rows, graph, n, a, found)
                option[o, EDGES] = count
                for k in range(count):
                    p = 0.0
                    for i in range(found.first[k], found.first[k + 1]):
                        p += found.mass[i]
                    e = used[N_EDGES]
                    used[N_EDGES] += 1
                    graph.prob[e], graph.key[e] = rows.discount * p, found.key[k]
                    graph.child[e] = reach_node(
                        rows, graph, after, found.key[k] % rows.S, found.context, found.mass,
                        found.first[k], found.first[k + 1],
                    )  # fmt: skip
        for e in range(graph.option[o, EDGE], graph.option[o, EDGE] + graph.option[o, EDGES]):
            k, follows = graph.child[e], weight * graph.prob[e]
            for other in range(RULES):
                heaviness = follows if other == rule else SWITCH * follows
                if heaviness >= least and not graph.followed[k] & (1 << other):
                    push(graph, heaviness, k * RULES + other)
    return True


@kernel
def back_up(graph, order, tolerance):
    """One pass over the nodes in this order; the largest rise of a value.

    Each node takes its best option if that is worth more than its exit, by `tolerance`.
    """
    node, option, value = graph.node, graph.option, graph.value
    risen = 0.0
    for n in order:
        best, top = -1, value[n, 1] + tolerance
        o = node[n, EXPANDED]
        while o >= 0:
            x = graph.gain[o]
            for e in range(option[o, EDGE], option[o, EDGE] + option[o, EDGES]):
                x += graph.prob[e] * value[graph.child[e], 0]
            if x > top:
                best, top = o, x
            o = option[o, NEXT]
        node[n, CHOICE] = best
        if best >= 0 and top > value[n, 0]:
            risen = max(risen, top - value[n, 0])
            value[n, 0] = top
    return risen


@kernel
def table_values(rows, action, k, alpha, m_first, m_stop):
    """Fill `alpha[:, :, k, m]` of some contexts with the values of a table `action (T, S)`.

    `alpha (T, S, K, M)`, last step first.
    """
    indptr, following, prob = rows.indptr, rows.next, rows.prob
    T, S = action.shape
    for t in range(T - 1, -1, -1):
        for m in range(m_first, m_stop):
            for s in range(S):
                row = t * rows.stride + (m * S + s) * rows.A + action[t, s]
                value = 0.0
                if t + 1 < T:
                    for i in range(indptr[row], indptr[row + 1]):
                        value += prob[i] * alpha[t + 1, following[i], k, m]
                alpha[t, s, k, m] = row_reward(rows, t, m, s, action[t, s]) + rows.discount * value


@kernel
def follow_exits(ptr, following, A, stride, action, endless, wanted, queue):
    """Mark what the exits lead to, in `wanted (T, S, K)`; `(nodes, edges)` of it.

    `ptr, following` list the observations of each row of all contexts; row `(t, s, a)` is number
    `t * stride + s * A + a`; `action
    (K, T, S)`; the last exit is not followed: its nodes are the default nodes. `queue` has room
    for all places of a step.
    """
    T, S, K = wanted.shape
    nodes, edges = 0, 0
    for t in range(T):
        n = 0
        for s in range(S):
            for k in range(K):
                if wanted[t, s, k]:
                    queue[n] = s * K + k
                    n += 1
        i = 0
        while i < n:
            s, k = queue[i] // K, queue[i] % K
            i += 1
            nodes += 1
            if not endless and t + 1 == T:
                continue
            after = t if endless else t + 1
            row = t * stride + s * A + action[k, t, s]
            edges += ptr[row + 1] - ptr[row]
            for o in range(ptr[row], ptr[row + 1]):
                if not wanted[after, following[o], k]:
                    wanted[after, following[o], k] = True
                    if endless:
                        queue[n] = following[o] * K + k
                        n += 1
    return nodes, edges
