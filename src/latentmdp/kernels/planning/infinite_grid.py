"""Belief grids without a last step: upper values by sweeps, and controller nodes for the vertices.

The arrays are those of `history_grid.BeliefGrid` with one step. Above: the value of a Markov
decision process on the vertices. Below: a node is made from nodes that were there before and never
changes again, so its values in all contexts are known at once and stay.
"""

from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.planning.history_grid import best_successor, find_cell
from latentmdp.runtime.kernel_cache import kernel

NO_ROOM = -1  # instead of the number of nodes that were made


class NodeStore(NamedTuple):
    """Controller nodes in the order of their making; `W` is the most observations of an action."""

    used: Ints  # (1,) nodes in use
    state: Ints  # (room,)
    action: Ints  # (room,)
    successor: Ints  # (room, W) by number among the observations of the action
    alpha: Floats  # (room, M) values in all contexts


@kernel
def sweep_upper(model, grid, old, new):
    """Back up the upper values `old (S, V)` into `new`; the least and largest decrease."""
    ptr, following, reward, discount = model.ptr, model.next, model.reward, model.discount
    belief, prob = grid.belief, grid.prob
    cell_ptr, cell_vertex, cell_weight = grid.cell_ptr, grid.cell_vertex, grid.cell_weight
    S, V = old.shape
    M, J, A = belief.shape[1], model.likelihood.shape[0], (ptr.size - 1) // S
    least, most = np.inf, -np.inf
    for s in range(S):
        for v in range(V):
            best = -np.inf
            for a in range(A):
                total = 0.0
                for m in range(M):
                    total += belief[v, m] * reward[s * A + a, m]
                for o in range(ptr[s * A + a], ptr[s * A + a + 1]):
                    value = 0.0
                    for e in range(cell_ptr[v * J + o], cell_ptr[v * J + o + 1]):
                        value += cell_weight[e] * old[following[o], cell_vertex[e]]
                    total += discount * prob[v, o] * value
                best = max(best, total)
            new[s, v] = best
            least = min(least, old[s, v] - best)
            most = max(most, old[s, v] - best)
    return least, most


@kernel
def make_controller_nodes(model, grid, node_at, store, least_gain, backward):
    """Make a new node at each `(state, vertex)` where that gains at least `least_gain`.

    `node_at (S, V)` is the node in force and `grid.alpha` its values. Successors are the nodes in
    force at the vertices around the belief after each observation. Returns how many were made, or
    `NO_ROOM`.
    """
    ptr, following, likelihood, reward = model.ptr, model.next, model.likelihood, model.reward
    belief, discount = grid.belief, model.discount
    cell_ptr, cell_vertex, alpha = grid.cell_ptr, grid.cell_vertex, grid.alpha[0]
    S, V, M = alpha.shape
    J, A = likelihood.shape[0], (ptr.size - 1) // S
    chosen, made = np.empty(J, np.int64), 0
    for i in range(S * V):
        place = S * V - 1 - i if backward else i
        v, s = place // S, place % S
        now = 0.0
        for m in range(M):
            now += belief[v, m] * alpha[s, v, m]
        best, top = -1, now + least_gain
        for a in range(A):
            total = 0.0
            for m in range(M):
                total += belief[v, m] * reward[s * A + a, m]
            for o in range(ptr[s * A + a], ptr[s * A + a + 1]):
                chosen[o], value = best_successor(
                    v, o, following[o], belief, likelihood, cell_ptr, cell_vertex, alpha
                )
                total += discount * value
            if total > top:
                best, top = a, total
        if best < 0:
            continue
        n = store.used[0]
        if n == store.state.size:
            return NO_ROOM
        store.used[0] = n + 1
        made += 1
        sa = s * A + best
        store.state[n], store.action[n] = s, best
        for m in range(M):
            store.alpha[n, m] = reward[sa, m]
        for o in range(ptr[sa], ptr[sa + 1]):
            k = node_at[following[o], chosen[o]]
            store.successor[n, o - ptr[sa]] = k
            for m in range(M):
                store.alpha[n, m] += discount * likelihood[o, m] * store.alpha[k, m]
        node_at[s, v] = n
        for m in range(M):
            alpha[s, v, m] = store.alpha[n, m]
    return made


@kernel
def take_from_coarser(grid, coarser, coarser_node, upper, node_at):
    """Fill `upper (S, V)` and `node_at (S, V)` by a coarser grid with its nodes in force."""
    belief = grid.belief
    S, V = node_at.shape
    M = belief.shape[1]
    part, jump = np.empty(M), np.empty(M, np.int64)
    N, rank = coarser.N, coarser.rank
    for v in range(V):
        first, count = find_cell(belief, v, 0, M, 1.0, N, rank, part, jump)
        for s in range(S):
            k, rest, high, low, best = first, 1.0, 0.0, 0.0, -1
            for j in range(count):
                if rest > part[j]:
                    high += (rest - part[j]) * coarser.upper[0, s, k]
                    value = 0.0
                    for m in range(M):
                        value += belief[v, m] * coarser.alpha[0, s, k, m]
                    if best < 0 or value > low:
                        low, best = value, k
                    rest = part[j]
                k += jump[j]
            upper[s, v] = high
            node_at[s, v] = coarser_node[s, best]
