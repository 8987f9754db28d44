"""An upper bound on what any policy earns, on a grid of beliefs, for groups of contexts.

The contexts are split into groups of at most `K`; whoever is told the group earns more, so the sum
over groups of a bound for each is a bound for all. Inside a group the value with memory and
hidden rewards (it bounds Markov policies) is convex in the belief: interpolating between the
vertices of a Freudenthal triangulation of the simplex with resolution `N` only raises it. With
`K = 1` or `N = 1` this is the value of knowing the context.
Vertices and cells are those of `history_grid`.
"""

import numpy as np

from latentmdp.kernels.planning.history_grid import find_cell
from latentmdp.runtime.kernel_cache import kernel


@kernel
def bound_at(mass, s, group_ptr, N, rank, table, t, part, jump):
    """`U_t(s, mass[s])`: the bound at step `t` and state `s`; contexts in group order.

    `table (G, H, S, V)`; `part, jump (K,)` are scratch.
    """
    bound = 0.0
    for g in range(group_ptr.size - 1):
        begin, end = group_ptr[g], group_ptr[g + 1]
        total = 0.0
        for j in range(begin, end):
            total += mass[s, j]
        if total > 0.0:
            vertex, count = find_cell(mass, s, begin, end, total, N, rank, part, jump)
            rest, value = 1.0, 0.0
            for j in range(count):
                if rest > part[j]:
                    value += (rest - part[j]) * table[g, t, s, vertex]
                    rest = part[j]
                vertex += jump[j]
            bound += total * value
    return bound


@kernel
def first_bounds(start, group_ptr, N, rank, table, part, jump, first):
    """Fill `first (S,)` with the bound at the first step; `start (S, M)`, contexts by group."""
    for s in range(first.size):
        first[s] = bound_at(start, s, group_ptr, N, rank, table, 0, part, jump)


@kernel
def place_of_choice(choice_ptr, c):
    """The place at which choice `c` is: the last one that begins at or before it."""
    low, high = 0, choice_ptr.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if choice_ptr[middle] <= c:
            low = middle
        else:
            high = middle
    return low


@kernel
def vertex_rows(
    view, points, contexts, N, rank, arriving, touched, marked, part, jump,
    first, stop, ptr, index, weight,
):  # fmt: skip
    """Where the vertices lead, as sparse rows: those of the moves from `first` to before `stop`.

    Row `u * V + v` of move `u` and vertex `v` leads with `weight` to `index` = next * V + vertex.
    With empty `index` only `ptr` is filled (count first, then fill). `arriving (S, K)`, `touched
    (S,)`, `marked (S,)`, all False, and `part, jump (K,)` are scratch.
    """
    indptr, following, prob = view.indptr, view.next, view.prob
    choice_ptr, choice, S, A = view.choice_ptr, view.choice, view.S, view.A
    V, K = points.shape[0], contexts.size
    fill, at = index.size > 0, 0
    for u in range(first, stop):
        c = view.first_choice[u]
        place = place_of_choice(choice_ptr, c)
        t, s = place // S, place % S
        for v in range(V):
            n = 0
            for k in range(K):  # where the contexts of the vertex go
                if points[v, k] > 0.0:
                    row = t * view.stride + (contexts[k] * S + s) * A + choice[c]
                    for i in range(indptr[row], indptr[row + 1]):
                        y = following[i]
                        if not marked[y]:
                            marked[y] = True
                            touched[n] = y
                            n += 1
                            for j in range(K):
                                arriving[y, j] = 0.0
                        arriving[y, k] += points[v, k] * prob[i]
            for i in range(n):
                y = touched[i]
                marked[y] = False
                total = 0.0
                for k in range(K):
                    total += arriving[y, k]
                if total <= 0.0:  # the product was too small for a float
                    continue
                vertex, count = find_cell(arriving, y, 0, K, total, N, rank, part, jump)
                rest = 1.0
                for j in range(count):
                    if rest > part[j]:
                        if fill:
                            index[at] = y * V + vertex
                            weight[at] = total * (rest - part[j])
                        at += 1
                        rest = part[j]
                    vertex += jump[j]
            ptr[u * V + v + 1] = at


@kernel
def vertex_rewards(view, points, contexts, reward):
    """Fill `reward (C, V)`, the expected rewards of the choices at the vertices."""
    choice_ptr, choice, row_reward = view.choice_ptr, view.choice, view.row_reward
    S, A = view.S, view.A
    V, K = points.shape[0], contexts.size
    for place in range(choice_ptr.size - 1):
        t, s = place // S, place % S
        for c in range(choice_ptr[place], choice_ptr[place + 1]):
            for v in range(V):
                expected = 0.0
                for k in range(K):
                    if points[v, k] > 0.0:
                        row = t * view.stride + (contexts[k] * S + s) * A + choice[c]
                        expected += points[v, k] * row_reward[row]
                reward[c, v] = expected


@kernel
def solve_vertices(view, ptr, index, weight, reward, end, upper, first, stop):
    """Fill the steps from `first` to before `stop` of `upper (H, S, V)`, the last one first.

    `end (S, V)` is what comes after the last step.
    """
    choice_ptr, moves, discount = view.choice_ptr, view.moves, view.discount
    H, S, V = upper.shape
    for t in range(stop - 1, first - 1, -1):
        after = end.reshape(S * V)
        if t < H - 1:
            after = upper[t + 1].reshape(S * V)
        for s in range(S):
            place = t * view.places + s
            for c in range(choice_ptr[place], choice_ptr[place + 1]):
                begin = np.int64(moves[c]) * V
                for v in range(V):
                    expected = 0.0
                    for i in range(ptr[begin + v], ptr[begin + v + 1]):
                        expected += weight[i] * after[index[i]]
                    value = reward[c, v] + discount * expected
                    if c == choice_ptr[place] or value > upper[t, s, v]:
                        upper[t, s, v] = value
