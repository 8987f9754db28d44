"""The two-sided belief grid: its vertices and cells, and the backups of both bounds.

Vertices are the beliefs `c / N` with whole numbers `c` that sum to `N` (Freudenthal triangulation).
A vertex is handled by its tail sums `x_k = c_k + ... + c_{M-1}`, `N >= x_1 >= ... >= x_{M-1} >= 0`;
its number is `sum_k C(x_k + M-1-k, M-k)`, so adding one to `x_k` moves it by a table entry.

The best value, Eq. (1), is convex in the belief. Above, it is interpolated between vertices; below,
it is at least the value of any policy, `sum_m b_m alpha_m`.
"""

from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.structs import Indices
from latentmdp.runtime.kernel_cache import kernel

SNAP = 1e-13  # beliefs this close to a face of the grid are put on it


class BeliefGrid(NamedTuple):
    """Both bounds at the vertices, for every step and state; `V` vertices, `J` observations.

    The cell of vertex `v` and observation `o` are the vertices around the belief that `v` becomes
    by `o`: those from `cell_ptr[v * J + o]` to before `cell_ptr[v * J + o + 1]`, at all steps.
    """

    N: int  # resolution
    rank: Ints  # (M, N + 2) table for numbering vertices
    belief: Floats  # (V, M)
    prob: Floats  # (V, J) probability of the observation at the vertex
    cell_ptr: Ints  # (V*J + 1,)
    cell_vertex: Indices  # (C,)
    cell_weight: Floats  # (C,)
    upper: Floats  # (H + 1, S, V)
    alpha: Floats  # (H + 1, S, V, M) the lower bounds: values of policies that start here
    action: Ints  # (H, S, V) what these policies play


@kernel
def list_vertices(N, rank, belief):
    """Fill `belief (V, M)` in the order of the vertices' numbers."""
    V, M = belief.shape
    for v in range(V):
        rest, above = v, N
        for k in range(1, M):
            x = above
            while rank[k, x] > rest:
                x -= 1
            rest -= rank[k, x]
            belief[v, k - 1] = (above - x) / N
            above = x
        belief[v, M - 1] = above / N


@kernel
def find_cell(mass, row, begin, end, total, N, rank, part, jump):
    """The cell around the belief `mass[row, begin:end] / total`: `(vertex, count)`.

    The tail sums of the belief times `N`, rounded down, give the first vertex; raising them by one,
    the one with the largest fractional part first, leads through the others. Fills `part` and
    `jump (M,)`; the vertices and their weights are then found as follows. (Arrays of vertices and
    weights would be simpler; branch and bound takes 1.15 times as long with them.)

        rest = 1.0
        for j in range(count):
            if rest > part[j]:
                ...  # `vertex` has the weight `rest - part[j]`
                rest = part[j]
            vertex += jump[j]

    Vertices of positive weight have at most the support of the belief.
    """
    tail, vertex, n = 0.0, 0, 0
    for k in range(end - begin - 1, 0, -1):
        tail += mass[row, begin + k] / total
        x = int(tail * N)
        fraction = tail * N - x
        if fraction > 1.0 - SNAP:
            x, fraction = x + 1, 0.0
        if x >= N:
            x, fraction = N, 0.0
        vertex += rank[k, x]
        if fraction > SNAP:  # insert, largest part first; among equals the smaller k first
            j = n
            while j > 0 and part[j - 1] <= fraction:
                part[j], jump[j] = part[j - 1], jump[j - 1]
                j -= 1
            part[j], jump[j] = fraction, rank[k, x + 1] - rank[k, x]
            n += 1
    part[n], jump[n] = 0.0, 0
    return vertex, n + 1


@kernel
def link_vertices(model, grid, first, stop):
    """Fill the probabilities and cells of all observations at the vertices `first` to `stop - 1`.

    The vertices before `first` must be linked already.
    """
    N, rank, belief, prob, likelihood = grid.N, grid.rank, grid.belief, grid.prob, model.likelihood
    cell_ptr, cell_vertex, cell_weight = grid.cell_ptr, grid.cell_vertex, grid.cell_weight
    J, M = likelihood.shape
    post, part, jump = np.empty((1, M)), np.empty(M), np.empty(M, np.int64)
    support = np.empty(M, np.int64)
    if first == 0:
        cell_ptr[0] = 0
    used = np.int64(cell_ptr[first * J])
    for v in range(first, stop):
        n_support = 0
        for m in range(M):
            post[0, m] = 0.0
            if belief[v, m] > 0.0:
                support[n_support] = m
                n_support += 1
        for o in range(J):
            total = 0.0  # Bayes' rule, as in `posterior`, where the vertex is not zero
            for i in range(n_support):
                m = support[i]
                post[0, m] = belief[v, m] * likelihood[o, m]
                total += post[0, m]
            prob[v, o] = total
            if total > 0.0:
                for i in range(n_support):
                    post[0, support[i]] /= total
                vertex, count = find_cell(post, 0, 0, M, 1.0, N, rank, part, jump)
                rest = 1.0
                for j in range(count):
                    if rest > part[j]:
                        cell_vertex[used], cell_weight[used] = vertex, rest - part[j]
                        used += 1
                        rest = part[j]
                    vertex += jump[j]
            cell_ptr[v * J + o + 1] = used


@kernel
def best_successor(v, o, y, belief, likelihood, cell_ptr, cell_vertex, alpha):
    """`(vertex, value)`: the best policy after `o`, which leads to state `y`, at vertex `v`.

    `alpha (S, V, M)` are the policies of the next step; the value is what it adds to that of `v`.
    Looks only at the vertices around the successor belief. An observation that is impossible at `v`
    keeps the vertex: the policy must answer it, since other contexts may show it.
    """
    J, M = likelihood.shape
    begin, end = cell_ptr[v * J + o], cell_ptr[v * J + o + 1]
    best, top = v, 0.0
    for e in range(begin, end):
        u = cell_vertex[e]
        value = 0.0
        for m in range(M):
            value += belief[v, m] * likelihood[o, m] * alpha[y, u, m]
        if value > top or e == begin:
            best, top = u, value
    return best, top


@kernel
def back_up_step(model, grid, t, first, stop):
    """Both bounds at step `t` from those of step `t + 1`.

    Of the points `(state, vertex)`, those with numbers `state * V + vertex` from `first` to before
    `stop`.
    """
    ptr, following, likelihood, reward = model.ptr, model.next, model.likelihood, model.reward
    belief, prob, discount = grid.belief, grid.prob, model.discount
    cell_ptr, cell_vertex, cell_weight = grid.cell_ptr, grid.cell_vertex, grid.cell_weight
    upper, alpha, action = grid.upper[t], grid.alpha[t], grid.action[t]
    upper_after, alpha_after = grid.upper[t + 1], grid.alpha[t + 1]
    _, V, M = alpha.shape
    J, A, base = likelihood.shape[0], model.A, t * model.stride
    expected, high, chosen = np.empty(A), np.empty(A), np.empty(J, np.int64)
    for point in range(first, stop):
        s, v = point // V, point % V
        row = base + s * A  # of action 0
        top = 0  # the action with the largest upper bound
        for a in range(A):  # above: interpolate the value after each observation
            total = 0.0
            for m in range(M):
                total += belief[v, m] * reward[row + a, m]
            expected[a] = total
            for o in range(ptr[row + a], ptr[row + a + 1]):
                value = 0.0
                for e in range(cell_ptr[v * J + o], cell_ptr[v * J + o + 1]):
                    value += cell_weight[e] * upper_after[following[o], cell_vertex[e]]
                total += discount * prob[v, o] * value
            high[a] = total
            if total > high[top]:
                top = a
        upper[s, v] = high[top]
        act, low = -1, 0.0
        for i in range(-1, A):  # below: the best policy after each observation
            a = top if i < 0 else i
            if i >= 0 and (a == top or high[a] <= low):
                continue  # no action is worth more than its upper bound
            total = expected[a]
            for o in range(ptr[row + a], ptr[row + a + 1]):
                chosen[o], value = best_successor(
                    v, o, following[o], belief, likelihood, cell_ptr, cell_vertex, alpha_after
                )
                total += discount * value
            if i < 0 or total > low:
                act, low = a, total
        action[s, v] = act
        for m in range(M):
            alpha[s, v, m] = reward[row + act, m]
        for o in range(ptr[row + act], ptr[row + act + 1]):
            for m in range(M):
                after = alpha_after[following[o], chosen[o], m]
                alpha[s, v, m] += discount * likelihood[o, m] * after


@kernel
def follow_policies(model, grid, fixed, wanted, count):
    """Mark in `wanted (H, S, V)` all points the policies of the marked ones lead to.

    Puts the numbers of nodes and of successors into `count`. Points of vertex `fixed` are not
    counted: its policy is a Markov table that is part of every policy graph (the default nodes).
    """
    ptr, following, likelihood, belief = model.ptr, model.next, model.likelihood, grid.belief
    cell_ptr, cell_vertex, action = grid.cell_ptr, grid.cell_vertex, grid.action
    H, S, V = wanted.shape
    A = model.A
    for t in range(H):
        alpha = grid.alpha[t + 1]
        for s in range(S):
            for v in range(V):
                if wanted[t, s, v] and v != fixed:
                    count[0] += 1
                    if t + 1 < H:
                        sa = t * model.stride + s * A + action[t, s, v]
                        for o in range(ptr[sa], ptr[sa + 1]):
                            y = following[o]
                            u, _ = best_successor(
                                v, o, y, belief, likelihood, cell_ptr, cell_vertex, alpha
                            )
                            wanted[t + 1, y, u] = 1
                            count[1] += 1


@kernel
def write_policies(
    model, grid, fixed, wanted, step, state, action, degree, symbol, following, target
):
    """Write the marked points as nodes; `target` is the successor's place in `wanted`, flat."""
    ptr, likelihood, belief = model.ptr, model.likelihood, grid.belief
    cell_ptr, cell_vertex = grid.cell_ptr, grid.cell_vertex
    H, S, V = wanted.shape
    A = model.A
    n = e = 0
    for t in range(H):
        alpha = grid.alpha[t + 1]
        for s in range(S):
            for v in range(V):
                if wanted[t, s, v] and v != fixed:
                    step[n], state[n], action[n] = t, s, grid.action[t, s, v]
                    degree[n] = 0
                    if t + 1 < H:
                        sa = t * model.stride + s * A + action[n]
                        degree[n] = ptr[sa + 1] - ptr[sa]
                        for o in range(ptr[sa], ptr[sa + 1]):
                            y = model.next[o]
                            u, _ = best_successor(
                                v, o, y, belief, likelihood, cell_ptr, cell_vertex, alpha
                            )
                            symbol[e], following[e] = model.symbol[o], y
                            target[e] = ((t + 1) * S + y) * V + u
                            e += 1
                    n += 1
