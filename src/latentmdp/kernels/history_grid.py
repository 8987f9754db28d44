"""Kernels of the two-sided belief grid: cells, backups, bounds at any belief, chosen successors.

Vertices are the beliefs `c / N` with whole numbers `c` that sum to `N` (Freudenthal triangulation).
A vertex is handled by its tail sums `x_k = c_k + ... + c_{M-1}`, `N >= x_1 >= ... >= x_{M-1} >= 0`;
its number is `sum_k C(x_k + M-1-k, M-k)`, so adding one to `x_k` moves it by a table entry.
"""

from typing import Any, NamedTuple

import numpy as np

from latentmdp.kernels._cache import kernel

SNAP = 1e-13  # beliefs this close to a face of the grid are put on it


class Grid(NamedTuple):
    """Both bounds at the vertices, for every step and state; `V` vertices, `J` observations."""

    N: int  # resolution
    rank: Any  # (M, N + 2) table for numbering vertices
    belief: Any  # (V, M)
    prob: Any  # (V, J) probability of the observation at the vertex
    cell_ptr: Any  # (V*J + 1,) the vertices around each successor belief
    cell_vertex: Any  # (C,)
    cell_weight: Any  # (C,)
    upper: Any  # (H + 1, S, V)
    alpha: Any  # (H + 1, S, V, M) the lower bounds: values of policies that start here
    action: Any  # (H, S, V) what these policies play


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
def locate(b, N, rank, whole, part, order, vertex, weight):
    """The vertices around `b` and their weights, into `vertex, weight`; returns their number.

    `whole, part, order` are scratch of length `M`. Vertices have at most the support of `b`.
    """
    M = b.size
    total, number, n = 0.0, 0, 0
    for k in range(M - 1, 0, -1):
        total += b[k]
        x = total * N
        i = int(x)
        f = x - i
        if f > 1.0 - SNAP:
            i, f = i + 1, 0.0
        if i >= N:
            i, f = N, 0.0
        whole[k] = i
        number += rank[k, i]
        if f > SNAP:  # insert, largest part first; among equals the smaller k first
            part[k] = f
            j = n
            while j > 0 and part[order[j - 1]] <= f:
                order[j] = order[j - 1]
                j -= 1
            order[j] = k
            n += 1
    count = 0
    left = 1.0
    for j in range(n):
        k = order[j]
        if left > part[k]:
            vertex[count] = number
            weight[count] = left - part[k]
            count += 1
            left = part[k]
        number += rank[k, whole[k] + 1] - rank[k, whole[k]]
    vertex[count] = number
    weight[count] = left
    return count + 1


@kernel
def posterior(b, like, post):
    """Fill `post` with the belief after an observation; returns its probability under `b`."""
    p = 0.0
    for m in range(b.size):
        post[m] = b[m] * like[m]
        p += post[m]
    if p > 0.0:
        for m in range(b.size):
            post[m] /= p
    return p


@kernel
def link_vertices(joint, N, rank, belief, prob, cell_ptr, cell_vertex, cell_weight):
    """Fill the probabilities and cells of all successors of all vertices. Same for all steps."""
    V, M = belief.shape
    J = joint.next.size
    post, part, weight = np.empty(M), np.empty(M), np.empty(M)
    whole, order = np.empty(M, np.int64), np.empty(M, np.int64)
    vertex = np.empty(M, np.int64)
    used = 0
    cell_ptr[0] = 0
    for v in range(V):
        for o in range(J):
            p = posterior(belief[v], joint.like[o], post)
            prob[v, o] = p
            if p > 0.0:
                n = locate(post, N, rank, whole, part, order, vertex, weight)
                for j in range(n):
                    cell_vertex[used] = vertex[j]
                    cell_weight[used] = weight[j]
                    used += 1
            cell_ptr[v * J + o + 1] = used


@kernel
def successor_vertex(joint, grid, t, v, o):
    """`(vertex, value)`: the best policy after `o`, and what it adds to the value at `v`.

    Looks only at the vertices around the successor belief. An observation that is impossible at
    `v` keeps the vertex: the policy must answer it, since other contexts may show it.
    """
    J, M = joint.like.shape
    begin, end = grid.cell_ptr[v * J + o], grid.cell_ptr[v * J + o + 1]
    best, top = v, 0.0
    belief, like = grid.belief[v], joint.like[o]
    after = grid.alpha[t + 1, joint.next[o]]
    for e in range(begin, end):
        u = grid.cell_vertex[e]
        x = 0.0
        for m in range(M):
            x += belief[m] * like[m] * after[u, m]
        if x > top or e == begin:
            best, top = u, x
    return best, top


@kernel
def upper_value(joint, grid, t, v, sa):
    """Upper bound on the value of `(s, a)` at vertex `v`, by interpolation at the successors."""
    J, M = joint.like.shape
    u = 0.0
    for m in range(M):
        u += grid.belief[v, m] * joint.reward[sa, m]
    for o in range(joint.ptr[sa], joint.ptr[sa + 1]):
        x = 0.0
        for e in range(grid.cell_ptr[v * J + o], grid.cell_ptr[v * J + o + 1]):
            x += grid.cell_weight[e] * grid.upper[t + 1, joint.next[o], grid.cell_vertex[e]]
        u += joint.discount * grid.prob[v, o] * x
    return u


@kernel
def lower_value(joint, grid, t, v, sa):
    """Lower bound on the value of `(s, a)` at vertex `v`, by policies at the successors."""
    x = 0.0
    for m in range(joint.like.shape[1]):
        x += grid.belief[v, m] * joint.reward[sa, m]
    for o in range(joint.ptr[sa], joint.ptr[sa + 1]):
        if grid.prob[v, o] > 0.0:
            x += joint.discount * successor_vertex(joint, grid, t, v, o)[1]
    return x


@kernel
def backup_step(joint, grid, t):
    """Both bounds of all `(state, vertex)` at step `t` from those of step `t + 1`."""
    _, S, V, M = grid.alpha.shape
    A = (joint.ptr.size - 1) // S
    upper = np.empty(A)
    for s in range(S):
        for v in range(V):
            first = 0
            for a in range(A):
                upper[a] = upper_value(joint, grid, t, v, s * A + a)
                if upper[a] > upper[first]:
                    first = a
            grid.upper[t, s, v] = upper[first]
            # the lower bound of an action is at most its upper bound: most need not be computed
            act, low = first, lower_value(joint, grid, t, v, s * A + first)
            for a in range(A):
                if a != first and upper[a] > low:
                    x = lower_value(joint, grid, t, v, s * A + a)
                    if x > low:
                        act, low = a, x
            grid.action[t, s, v] = act
            sa = s * A + act
            alpha = grid.alpha[t, s, v]
            for m in range(M):
                alpha[m] = joint.reward[sa, m]
            for o in range(joint.ptr[sa], joint.ptr[sa + 1]):
                u = successor_vertex(joint, grid, t, v, o)[0]
                after = grid.alpha[t + 1, joint.next[o], u]
                for m in range(M):
                    alpha[m] += joint.discount * joint.like[o, m] * after[m]


@kernel
def grid_bounds(grid, t, s, b, whole, part, order, vertex, weight):
    """`(lower, upper, vertex)` at step `t`, state `s` and any belief `b`."""
    n = locate(b, grid.N, grid.rank, whole, part, order, vertex, weight)
    upper, lower, best = 0.0, 0.0, -1
    for j in range(n):
        v = vertex[j]
        upper += weight[j] * grid.upper[t, s, v]
        x = 0.0
        for m in range(b.size):
            x += b[m] * grid.alpha[t, s, v, m]
        if best < 0 or x > lower:
            lower, best = x, v
    return lower, upper, best


@kernel
def follow_policies(joint, grid, fixed, wanted, count):
    """Mark in `wanted (H, S, V)` all points the policies of the marked ones lead to.

    Points of the vertex `fixed` answer for themselves (it is a Markov policy). Puts the numbers of
    nodes and of successors into `count`.
    """
    H, S, V = wanted.shape
    A = (joint.ptr.size - 1) // S
    for t in range(H):
        for s in range(S):
            for v in range(V):
                if wanted[t, s, v] and v != fixed:
                    count[0] += 1
                    if t + 1 < H:
                        sa = s * A + grid.action[t, s, v]
                        for o in range(joint.ptr[sa], joint.ptr[sa + 1]):
                            wanted[
                                t + 1,
                                joint.next[o],
                                successor_vertex(joint, grid, t, v, o)[0],
                            ] = 1
                            count[1] += 1


@kernel
def write_policies(joint, grid, fixed, wanted, step, state, action, degree, symbol, nxt, target):
    """Write the marked points as nodes; `target` is the successor's place in `wanted`, flat."""
    H, S, V = wanted.shape
    A = (joint.ptr.size - 1) // S
    n = e = 0
    for t in range(H):
        for s in range(S):
            for v in range(V):
                if wanted[t, s, v] and v != fixed:
                    step[n], state[n], action[n] = t, s, grid.action[t, s, v]
                    degree[n] = 0
                    if t + 1 < H:
                        sa = s * A + action[n]
                        degree[n] = joint.ptr[sa + 1] - joint.ptr[sa]
                        for o in range(joint.ptr[sa], joint.ptr[sa + 1]):
                            u = successor_vertex(joint, grid, t, v, o)[0]
                            symbol[e], nxt[e] = joint.symbol[o], joint.next[o]
                            target[e] = ((t + 1) * S + joint.next[o]) * V + u
                            e += 1
                    n += 1
