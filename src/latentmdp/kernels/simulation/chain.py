"""The Markov chain of a policy graph in a model, which every simulation pass runs over."""

import math

import numpy as np

from latentmdp.kernels.structs import CELLS, EDGES, END, ROWS
from latentmdp.runtime.kernel_cache import kernel


@kernel
def find_successor(symbols, states, low, high, symbol, state):
    """The entry `low .. high` for an observation, by bisection; END where there is none."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if (symbols[middle], states[middle]) < (symbol, state):
            low = middle + 1
        else:
            high = middle
    if low < end and symbols[low] == symbol and states[low] == state:
        return low
    return END


# Cells are numbered as they are met, step by step, so that a cell comes before all that follow it:
# while cell c is looked at, its probability `reach[c]` is complete. `cell_of (nodes, M)` has the
# numbers given so far.
@kernel
def build_chain(world):
    """Fill the world's chain; returns the policy's exact value, or NaN if there is too little room.

    The value, `V^pi`, is the sum of expected visits times expected rewards (no discount). Cost:
    edges, times a search among a node's successors.
    """
    model, policy, chain, cell_of = world.model, world.policy, world.chain, world.cell_of
    S, A, H = model.S, model.A, model.H
    indptr, prob, symbol, next_state = model.indptr, model.prob, model.symbol, model.next
    row, node, reach, first, succ = chain.row, chain.node, chain.reach, chain.first, chain.succ
    rate, peak, active, layer = chain.rate, chain.peak, chain.active, chain.layer
    reward = model.expected_reward
    step, state, action, successors = policy.step, policy.state, policy.action, policy.indptr
    symbols, states, nodes, default = policy.symbol, policy.next, policy.node, policy.default
    mass = np.zeros(rate.size)  # probability of a visit to a row at the step of cell c
    cell_of[:] = END
    peak[:] = -1.0  # never visited
    cells, edges, rows, value = model.start_prob.size, 0, 0, 0.0
    if cells > row.size:
        return math.nan
    for c in range(cells):
        m, s = model.start_context[c], model.start_state[c]
        n = policy.root[s]
        row[c] = (m * S + s) * A + action[n]
        node[c] = n
        reach[c] = model.start_prob[c]
        cell_of[n, m] = c
    c = 0
    while c < cells:
        r, n = row[c], node[c]
        m, t = r // (S * A), step[n]
        outcomes = indptr[r + 1] - indptr[r]
        if edges + outcomes > succ.size or cells + outcomes > row.size:
            return math.nan
        # the first cell of a step: clear the masses of the step before
        if c == 0 or t != step[node[c - 1]]:
            for before in range(layer[t - 1] if t > 0 else c, c):
                mass[row[before]] = 0.0
            layer[t] = c
        # several nodes of a step can have one row: its peak is of their sum
        if peak[r] < 0.0:
            active[rows], rate[r] = r, 0.0
            rows += 1
        mass[r] += reach[c]
        rate[r] += reach[c]
        peak[r] = max(peak[r], mass[r])
        value += reach[c] * reward[r]
        # an edge for each outcome, to the policy's successor or to the next step's default node
        first[c] = edges
        begin, end = successors[n], successors[n + 1]
        for e in range(indptr[r], indptr[r + 1]):
            d = END
            if t < H - 1:
                to = default[t + 1, next_state[e]]
                if begin < end:
                    entry = find_successor(symbols, states, begin, end, symbol[e], next_state[e])
                    if entry != END:
                        to = nodes[entry]
                d = cell_of[to, m]
                if d == END:
                    d = cells
                    cells += 1
                    cell_of[to, m] = d
                    row[d] = (m * S + state[to]) * A + action[to]
                    node[d] = to
                    reach[d] = 0.0
                reach[d] += reach[c] * prob[e]
            succ[edges] = d
            edges += 1
        c += 1
    first[cells] = edges
    layer[H] = cells
    chain.visits[:cells] = 0
    chain.size[CELLS], chain.size[EDGES], chain.size[ROWS] = cells, edges, rows
    return value
