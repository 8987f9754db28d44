"""Kernels over policy graphs: alpha vectors, variances, reach weights.

Rows and successor lists are both sorted by `(symbol, next)`, so the successors of all outcomes of
a row are found in one merged pass. Everything costs `O(nodes x contexts x branching)`.
"""

import numpy as np

from latentmdp.kernels._cache import kernel


@kernel
def expectation(first, end, prob, nxt, v):
    """`sum prob v[nxt]` over a row; four sums side by side, unsigned indices: twice as fast."""
    i, n, one, four = np.uintp(first), np.uintp(end), np.uintp(1), np.uintp(4)
    x0 = x1 = x2 = x3 = 0.0
    while i + four <= n:
        x0 += prob[i] * v[np.uintp(nxt[i])]
        x1 += prob[i + one] * v[np.uintp(nxt[i + one])]
        x2 += prob[i + one + one] * v[np.uintp(nxt[i + one + one])]
        x3 += prob[i + four - one] * v[np.uintp(nxt[i + four - one])]
        i += four
    while i < n:
        x0 += prob[i] * v[np.uintp(nxt[i])]
        i += one
    return (x0 + x1) + (x2 + x3)


@kernel
def successor(e, end, symbol, nxt, g_symbol, g_next, g_node, fallback):
    """`(e', node)`: the successor for `(symbol, nxt)`, searched from entry `e` on."""
    while e < end and (g_symbol[e] < symbol or (g_symbol[e] == symbol and g_next[e] < nxt)):
        e += 1
    if e < end and g_symbol[e] == symbol and g_next[e] == nxt:
        return e, g_node[e]
    return e, fallback


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
        t, s, a = step[n], state[n], action[n]
        last = t == H - 1
        for m in range(M):
            row = (m * S + s) * A + a
            first = indptr[row]
            e, end = g_indptr[n], g_indptr[n + 1]
            mean, carried = 0.0, 0.0
            for i in range(first, indptr[row + 1]):
                x = reward[i]
                if not last:
                    e, k = successor(
                        e, end, symbol[i], nxt[i], g_symbol, g_next, g_node, default[t + 1, nxt[i]]
                    )
                    x += discount * alpha[k, m]
                    carried += prob[i] * var[k, m]
                total[i - first] = x
                mean += prob[i] * x
            here = 0.0
            for i in range(first, indptr[row + 1]):
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
                e, k = successor(
                    e, end, symbol[i], nxt[i], g_symbol, g_next, g_node, default[t + 1, nxt[i]]
                )
                g[k, m] += g[n, m] * prob[i]


@kernel
def backward_induction(indptr, nxt, prob, row_reward, A, discount, value, best):
    """Fill `value (H + 1, M, S)` and `best (H, M, S)`: each context solved as an MDP of its own."""
    H, M, S = best.shape
    for t in range(H - 1, -1, -1):
        for m in range(M):
            v = value[t + 1, m]
            for s in range(S):
                top, arg = 0.0, -1
                for a in range(A):
                    row = (m * S + s) * A + a
                    x = row_reward[row] + discount * expectation(
                        indptr[row], indptr[row + 1], prob, nxt, v
                    )
                    if arg < 0 or x > top:
                        top, arg = x, a
                value[t, m, s] = top
                best[t, m, s] = arg
