"""Depth-first AND/OR solve by belief: memory nodes are made only where an action could win.

A first answer to the argmax of Algorithms 2 and 3 over histories, which sweeps then improve.

A node is `(step, state, belief)`. Its actions are tried in the order of their context-known bound
`sum_m b_m Q_m(t, s, a)` until the next bound cannot win; the nodes that may follow an action are
made when it is first tried. A node is solved once. An action that is not expanded leads to default
nodes, where a policy goes on without memory; if that already reaches the bound, as behind saturated
rows, it stays so.

The graph is shared by all models that plan through it. The first `H * observations` successors are
the default nodes' own, a block a step: an action whose `edge` lies there has not been expanded.
"""

import numpy as np

from latentmdp.kernels.optimism.step import BACK_UP, visit_rows
from latentmdp.kernels.optimism.sweep import TOLERANCE
from latentmdp.kernels.optimism.values import evaluate, objective
from latentmdp.kernels.structs import MEMORY_NODES, SUCCESSORS
from latentmdp.runtime.kernel_cache import kernel


@kernel
def find_node(table, key, i):
    """The node with the key of node `i` in an open hash table; that is `i` itself if it is new."""
    h = np.uint64(1)
    for part in key[i]:
        h = (h ^ np.uint64(part)) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
    at = np.int64(h % np.uint64(len(table)))
    while table[at] >= 0:
        same = True
        for j in range(key.shape[1]):
            same = same and key[table[at], j] == key[i, j]
        if same:
            return table[at]
        at = at + 1 if at + 1 < len(table) else 0
    table[at] = i
    return i


@kernel
def set_key(key, belief, i, state, step, side):
    """Beliefs are one if they agree to `side` and in which entries are 0."""
    M = belief.shape[1]
    key[i, M], key[i, M + 1] = state, step
    for m in range(M):
        b = belief[i, m]
        key[i, m] = 0 if b == 0.0 else 1 + np.int64(b / side + 0.5)


@kernel
def fill_table(memory, state, step, side):
    """Keys and hash table of the nodes that are there, with these states and steps."""
    memory.table[:] = -1
    for i in range(len(state)):
        set_key(memory.key, memory.belief, i, state[i], step[i], side)
        find_node(memory.table, memory.key, i)


@kernel
def expand(search, memory, n, a, arrival, least, side):
    """Make the nodes that may follow `(n, a)`; what is reached with less than `least` is left out.

    Returns whether there was room.
    """
    nodes, A, M, D = search.nodes, search.A, search.M, search.nodes.span[search.H + 1]
    start, belief, used = memory.start, memory.belief, memory.used
    i, s, t = n - D, nodes.state[n], nodes.step[n]
    first, last = start[s * A + a], start[s * A + a + 1]
    too_many_nodes = used[MEMORY_NODES] + last - first > len(belief)
    if too_many_nodes or used[SUCCESSORS] + last - first > len(nodes.succ):
        return False
    nodes.edge[n, a] = used[SUCCESSORS]
    for o in range(first, last):
        new, total = used[MEMORY_NODES], 0.0
        for m in range(M):
            belief[new, m] = belief[i, m] * memory.likelihood[o, m]
            total += belief[new, m]
        likely = arrival * total >= least
        if total <= 0.0:  # unexpected: keep the belief, as far as the symbol allows
            for m in range(M):
                belief[new, m] = belief[i, m] if memory.consistent[o, m] else 0.0
                total += belief[new, m]
        child = (t + 1) * search.S + memory.next[o]
        if likely and total > 0.0:
            for m in range(M):
                belief[new, m] /= total
            found = new
            if side > 0.0:
                set_key(memory.key, belief, new, memory.next[o], t + 1, side)
                found = find_node(memory.table, memory.key, new)
            if found == new:
                nodes.state[D + new], nodes.step[D + new] = memory.next[o], t + 1
                for b in range(A):
                    block = start[memory.next[o] * A + b]
                    nodes.edge[D + new, b] = (t + 1) * len(memory.next) + block
                mark_possible(search, memory, D + new)
                used[MEMORY_NODES] += 1
            child = D + found
        nodes.succ[used[SUCCESSORS]] = child
        used[SUCCESSORS] += 1
    return True


@kernel
def mark_possible(search, memory, n):
    """Contexts that the memory excludes need no values; confidence sets may give them mass."""
    i = n - search.nodes.span[search.H + 1]
    for m in range(search.M):
        possible = memory.belief[i, m] > 0.0 or search.confidence_set
        search.nodes.possible[n, m] = possible


@kernel
def value_of(search, memory, policy, n, a):
    """Value of an action by belief, with the successors it has; by context in `backed_up`."""
    work, i = search.work, n - search.nodes.span[search.H + 1]
    visit_rows(
        search.rows, search.nodes, n, n + 1, work.wanted, policy, a, 0, search.M, search.trial,
        work.backed_up, BACK_UP, 0.0, search.scratch,
    )  # fmt: skip
    value = 0.0
    for m in range(search.M):
        value += memory.belief[i, m] * work.backed_up[n, m]
    return value


@kernel
def keep_best(search, policy, n, a, value):
    """The action becomes the node's own if none before it was as good."""
    top = search.work.top
    if value > top[n] + TOLERANCE * (1.0 + top[n]):
        top[n], policy[n] = value, a
        for m in range(search.M):
            search.trial.value[n, m] = search.work.backed_up[n, m]


@kernel
def open_node(search, memory, stack, n, t, every):
    """Start a node at level `t` of the stack: the bounds of its actions, none tried."""
    i, s = n - search.nodes.span[search.H + 1], search.nodes.state[n]
    stack.node[t], stack.action[t], stack.child[t] = n, -1, 0
    search.work.top[n] = -1.0
    for a in range(search.A):
        stack.bound[t, a] = np.inf if every else 0.0
        for m in range(search.M):
            stack.bound[t, a] += memory.belief[i, m] * search.known_action[t, s, a, m]


@kernel
def solve(search, memory, stack, policy, side, least, every):
    """Best policy by belief from all first states, into `policy (D + room,)`.

    Beliefs are one node if they agree to `side`, never if it is 0. With `every`, all actions are
    tried everywhere. `memory.solved` is False and becomes True. Returns whether all fitted, the
    number of actions tried, and the objective.
    """
    nodes, start, A, H = search.nodes, memory.start, search.A, search.H
    D, expanded = nodes.span[H + 1], H * len(memory.next)  # where expanded actions' edges begin
    search.work.wanted[:] = True
    for i in range(memory.used[MEMORY_NODES]):
        mark_possible(search, memory, D + i)
    evaluate(search, policy, search.trial)  # of the default nodes
    fits, tried = True, 0
    for s in range(search.S):
        if nodes.first[s] < D:
            continue
        t = 0
        stack.arrival[0] = 0.0
        for m in range(search.M):
            stack.arrival[0] += search.root[m, s]
        open_node(search, memory, stack, nodes.first[s], 0, every)
        while t >= 0:
            n, a = stack.node[t], stack.action[t]
            # The next action, if one could win; its successors are made where they can matter.
            if a < 0:
                a = 0
                for other in range(1, A):
                    if stack.bound[t, other] > stack.bound[t, a]:
                        a = other
                top = search.work.top[n]
                if stack.bound[t, a] <= top + TOLERANCE * (1.0 + top):
                    memory.solved[n - D] = True
                    t -= 1
                    continue
                tried += 1
                stack.action[t], stack.child[t] = a, 0
                if t + 1 < H and nodes.edge[n, a] < expanded:
                    value = value_of(search, memory, policy, n, a)
                    if value < stack.bound[t, a] - TOLERANCE:
                        fits = expand(search, memory, n, a, stack.arrival[t], least, side) and fits
            # Its first child that is not solved: solve it, one level down.
            row, edge = nodes.state[n] * A + a, nodes.edge[n, a]
            width = 0 if edge < expanded else start[row + 1] - start[row]
            child = n
            while stack.child[t] < width:
                child = np.int64(nodes.succ[edge + stack.child[t]])
                if child >= D and not memory.solved[child - D]:
                    break
                stack.child[t] += 1
            if stack.child[t] < width:
                total = 0.0
                for m in range(search.M):
                    likelihood = memory.likelihood[start[row] + stack.child[t], m]
                    total += memory.belief[n - D, m] * likelihood
                stack.arrival[t + 1] = stack.arrival[t] * total
                t += 1
                open_node(search, memory, stack, child, t, every)
                continue
            # All are solved: the action's value is known, and it is not tried again.
            keep_best(search, policy, n, a, value_of(search, memory, policy, n, a))
            stack.action[t], stack.bound[t, a] = -1, -1.0
    return fits, tried, objective(search, search.trial.value)


@kernel
def push_reach(nodes, memory, D, order, action, within, reach):
    """Probability `(nodes,)` of getting to memory nodes under a policy; see `MemoryGraph.reach`.

    `reach` holds that of first states; `order` is by step.
    """
    start, M, A = memory.start, memory.belief.shape[1], nodes.edge.shape[1]
    for i in order:
        row = nodes.state[D + i] * A + action[i]
        if reach[i] == 0.0:
            continue
        for o in range(start[row], start[row + 1]):
            child = np.int64(nodes.succ[nodes.edge[D + i, action[i]] + o - start[row]]) - D
            if child >= 0 and within[child]:
                for m in range(M):
                    reach[child] += reach[i] * memory.belief[i, m] * memory.likelihood[o, m]
