"""Kernels over policy graphs: alpha vectors, variances, reach weights.

Rows and successor lists are both sorted by `(symbol, next)`, so the successors of all outcomes of
a row are found in one merged pass (written out twice: as a function it is five times slower,
measured). Everything costs `O(nodes x contexts x branching)`.
"""

import numpy as np

from latentmdp.kernels._cache import kernel


@kernel
def alpha_vectors(
    indptr, nxt, symbol, prob, reward, A, discount,
    step, state, action, g_indptr, g_symbol, g_next, g_node, default,
    total, alpha, var,
):  # fmt: skip
    """Fill `alpha (N, M)` and `var (N, M)`, mean and variance of the remaining reward.

    `alpha_m(n) = sum p (r + discount alpha_m(n'))`; the variance adds what this step's outcome
    decides to what the successors carry (Definition 1). `total` is scratch of one row's length.
    """
    N, M = alpha.shape
    H, S = default.shape
    for n in range(N - 1, -1, -1):
        t, last = step[n], step[n] == H - 1
        fallback = default[t if last else t + 1]
        for m in range(M):
            row = (m * S + state[n]) * A + action[n]
            first, stop = indptr[row], indptr[row + 1]
            mean, here, carried = 0.0, 0.0, 0.0
            e, end = g_indptr[n], g_indptr[n + 1]
            for i in range(first, stop):
                total[i - first] = reward[i]
                if not last:
                    y, k = symbol[i], fallback[nxt[i]]
                    while e < end and (
                        g_symbol[e] < y or (g_symbol[e] == y and g_next[e] < nxt[i])
                    ):
                        e += 1
                    if e < end and g_symbol[e] == y and g_next[e] == nxt[i]:
                        k = g_node[e]
                    total[i - first] += discount * alpha[k, m]
                    carried += prob[i] * var[k, m]
            for i in range(first, stop):
                mean += prob[i] * total[i - first]
            for i in range(first, stop):
                d = total[i - first] - mean
                here += prob[i] * d * d
            alpha[n, m] = mean
            var[n, m] = here + discount * discount * carried


@kernel
def reach(
    indptr, nxt, symbol, prob, A,
    step, state, action, g_indptr, g_symbol, g_next, g_node, root, default, start, g,
):  # fmt: skip
    """Add up `g (N, M)`, the probability of context and node, from `start (M, S)`."""
    N, M = g.shape
    H, S = default.shape
    for m in range(M):
        for s in range(S):
            g[root[s], m] += start[m, s]
    for n in range(N):
        t = step[n]
        if t == H - 1:
            break
        for m in range(M):
            if g[n, m] == 0.0:
                continue
            row = (m * S + state[n]) * A + action[n]
            e, end = g_indptr[n], g_indptr[n + 1]
            for i in range(indptr[row], indptr[row + 1]):
                y, k = symbol[i], default[t + 1, nxt[i]]
                while e < end and (g_symbol[e] < y or (g_symbol[e] == y and g_next[e] < nxt[i])):
                    e += 1
                if e < end and g_symbol[e] == y and g_next[e] == nxt[i]:
                    k = g_node[e]
                g[k, m] += g[n, m] * prob[i]


@kernel
def backward_induction(indptr, nxt, prob, row_reward, A, discount, value, best):
    """Fill `value (H + 1, M, S)` and `best (H, M, S)`: each context solved as an MDP of its own."""
    H, M, S = best.shape
    one, two = np.uintp(1), np.uintp(2)
    for t in range(H - 1, -1, -1):
        for m in range(M):
            v = value[t + 1, m]
            for s in range(S):
                top, arg = 0.0, -1
                for a in range(A):
                    row = (m * S + s) * A + a
                    i, stop = np.uintp(indptr[row]), np.uintp(indptr[row + 1])
                    x, y = 0.0, 0.0  # two sums side by side and unsigned indices: twice as fast
                    while i + one < stop:
                        x += prob[i] * v[np.uintp(nxt[i])]
                        y += prob[i + one] * v[np.uintp(nxt[i + one])]
                        i += two
                    if i < stop:
                        x += prob[i] * v[np.uintp(nxt[i])]
                    x = row_reward[row] + discount * (x + y)
                    if arg < 0 or x > top:
                        top, arg = x, a
                value[t, m, s] = top
                best[t, m, s] = arg
