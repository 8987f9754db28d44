"""The chain of a policy graph in a model: cells (node, context), in step order.

Every simulation pass runs over this compact form. Cell `c` is at model row `row[c]`; its outcomes
are edges `first[c] .. first[c+1]`, in the order of the model's row, and lead to the cells `succ`
(`END` after the last step). Only cells of positive probability are listed; the first ones are the
start cells, one per pair (context, first state).
"""

import math
from typing import NamedTuple

from latentmdp.canonical import Floats, Ints
from latentmdp.kernels._cache import helper, kernel
from latentmdp.kernels.flat import record_at

END = -1


class Model(NamedTuple):
    """A model's rows, and its pairs (context, first state) that can occur."""

    M: int
    S: int
    A: int
    H: int
    starts: int  # Q, such pairs
    indptr: Ints  # (rows + 1,)
    next: Ints  # (nnz,)
    symbol: Ints
    prob: Floats
    row_reward: Floats  # (rows,) expected reward
    start_context: Ints  # (Q,)
    start_state: Ints
    start_prob: Floats


class Graph(NamedTuple):
    """The arrays of a `PolicyGraph`."""

    step: Ints
    state: Ints
    indptr: Ints
    symbol: Ints
    next: Ints
    node: Ints
    root: Ints
    default: Ints  # (H, S)
    action: Ints


class Chain(NamedTuple):
    """Buffers that `build_chain` fills; see the module."""

    cells: int  # C, room for them
    edges: int  # E
    row: Ints  # (C,)
    node: Ints  # (C,) of the policy graph
    reach: Floats  # (C,) probability
    first: Ints  # (C + 1,)
    succ: Ints  # (E,)
    rate: Floats  # (rows,) expected visits per episode
    peak: Floats  # (rows,) largest probability of a visit at one step
    active: Ints  # (rows,) the rows with any visits come first
    layer: Ints  # (H + 1,) the cells of step t are layer[t] .. layer[t+1]
    size: Ints  # (3,) cells, edges, active rows
    visits: Ints  # (C,) for those who count them; 0 at first
    at_step: Ints  # (rows,) scratch: the last step at which a row was visited
    mass: Floats  # (rows,) scratch: how likely


model_at, graph_at, chain_at = record_at(Model), record_at(Graph), record_at(Chain)


@helper
def successor(graph, S, node, symbol, nxt):
    """The node after `node` on the observation (symbol, nxt): its CSR entry, else the default."""
    low, high = graph.indptr[node], graph.indptr[node + 1]
    while low < high:
        middle = (low + high) // 2
        seen = graph.symbol[middle]
        if seen < symbol or (seen == symbol and graph.next[middle] < nxt):
            low = middle + 1
        else:
            high = middle
    if low < graph.indptr[node + 1] and graph.symbol[low] == symbol and graph.next[low] == nxt:
        return graph.node[low]
    return graph.default[(graph.step[node] + 1) * S + nxt]


@kernel
def build_chain(model_here, graph_here, chain_here, cell_of):
    """Fill a chain and return the policy's exact value, or NaN if there is too little room.

    `cell_of (N * M,)` is scratch, all END, and left so. The value is the sum of expected visits
    times expected rewards (no discount). Cost: edges, times a search among a node's successors.
    """
    model, graph, chain = model_at(model_here), graph_at(graph_here), chain_at(chain_here)
    M, S, A, H = model.M, model.S, model.A, model.H
    row, succ, node, reach = chain.row, chain.succ, chain.node, chain.reach
    at_step, mass = chain.at_step, chain.mass
    for r in range(M * S * A):
        at_step[r] = -1
        chain.rate[r] = 0.0
        chain.peak[r] = 0.0
    cells, edges, rows, value = 0, 0, 0, 0.0
    fits = model.starts <= chain.cells
    if fits:
        for q in range(model.starts):
            m, s = model.start_context[q], model.start_state[q]
            n = graph.root[s]
            row[cells] = (m * S + s) * A + graph.action[n]
            node[cells] = n
            reach[cells] = model.start_prob[q]
            cell_of[n * M + m] = cells
            cells += 1
    c = 0
    while fits and c < cells:
        r, n = row[c], node[c]
        m, t = r // (S * A), graph.step[n]
        if c == 0 or t != graph.step[node[c - 1]]:
            chain.layer[t] = c
        if at_step[r] == -1:
            chain.active[rows] = r
            rows += 1
        if at_step[r] != t:
            at_step[r], mass[r] = t, 0.0
        mass[r] += reach[c]
        chain.rate[r] += reach[c]
        chain.peak[r] = max(chain.peak[r], mass[r])
        value += reach[c] * model.row_reward[r]
        chain.first[c] = edges
        if edges + model.indptr[r + 1] - model.indptr[r] > chain.edges:
            fits = False
            break
        for e in range(model.indptr[r], model.indptr[r + 1]):
            d = END
            if t < H - 1:
                to = graph.default[(t + 1) * S + model.next[e]]
                if graph.indptr[n] < graph.indptr[n + 1]:
                    to = successor(graph, S, n, model.symbol[e], model.next[e])
                d = cell_of[to * M + m]
                if d == END:
                    if cells == chain.cells:
                        fits = False
                        break
                    d = cells
                    cells += 1
                    cell_of[to * M + m] = d
                    row[d] = (m * S + graph.state[to]) * A + graph.action[to]
                    node[d] = to
                    reach[d] = 0.0
                reach[d] += reach[c] * model.prob[e]
            succ[edges] = d
            edges += 1
        c += 1
    for d in range(cells):
        cell_of[node[d] * M + row[d] // (S * A)] = END
    if not fits:
        return math.nan
    for c in range(cells):
        chain.visits[c] = 0
    chain.first[cells] = edges
    chain.layer[H] = cells
    chain.size[0], chain.size[1], chain.size[2] = cells, edges, rows
    return value
