"""What the audit computes on a policy graph: optimistic alpha vectors by the paper's own equations,
and the sums of the proof from visit counts. Shares nothing with the learner's planning kernels.
"""

import math

from latentmdp.kernels._cache import kernel


@kernel
def successor(e, end, symbol, nxt, g_symbol, g_next, g_node, fallback):
    """`(e', node)`: the successor for `(symbol, nxt)`, searched from entry `e` on."""
    while e < end and (g_symbol[e] < symbol or (g_symbol[e] == symbol and g_next[e] < nxt)):
        e += 1
    if e < end and g_symbol[e] == symbol and g_next[e] == nxt:
        return e, g_node[e]
    return e, fallback


@kernel
def bonus_alpha(
    indptr, nxt, symbol, p_hat, slot_reward, row_reward, c1, c2, c3, cap, A,
    step, state, action, g_indptr, g_symbol, g_next, g_node, default, v, alpha,
):  # fmt: skip
    """Eqs. (3), (4): fill `alpha (N, M)`; `slot_reward` are rewards on transitions, else 0."""
    N, M = alpha.shape
    H, S = default.shape
    for n in range(N - 1, -1, -1):
        t, s, a = step[n], state[n], action[n]
        for m in range(M):
            row = (m * S + s) * A + a
            first, last = indptr[row], indptr[row + 1]
            base = row_reward[row] + c3[row]
            if base + c2[row] >= cap:  # also rows without visits, c2 = inf
                alpha[n, m] = cap
                continue
            e, end = g_indptr[n], g_indptr[n + 1]
            mean = 0.0
            for i in range(first, last):
                x = slot_reward[i]
                if t < H - 1:
                    e, k = successor(
                        e, end, symbol[i], nxt[i], g_symbol, g_next, g_node, default[t + 1, nxt[i]]
                    )
                    x += alpha[k, m]
                v[i - first] = min(x, cap)
                mean += p_hat[i] * v[i - first]
            var = 0.0
            for i in range(first, last):
                var += p_hat[i] * (v[i - first] - mean) ** 2
            bonus = max(c2[row], c1[row] * math.sqrt(var))
            alpha[n, m] = min(base + mean + bonus, cap)


@kernel
def interval_alpha(
    indptr, nxt, p_hat, row_reward, row_symbol, on_next, next_reward, next_symbol, lower, upper,
    unseen, visited, budget, cap, A,
    step, state, action, g_indptr, g_symbol, g_next, g_node, default, v, low, high, order, alpha,
):  # fmt: skip
    """Eq. (2) node by node: the best distribution in the box. `v, low, high, order (S,)` scratch.

    `lower, upper` are per outcome, `unseen` per row for next states never seen; `budget` limits
    the mass that may move (1 for a box alone).
    """
    N, M = alpha.shape
    H, S = default.shape
    for n in range(N - 1, -1, -1):
        t, s, a = step[n], state[n], action[n]
        for m in range(M):
            row = (m * S + s) * A + a
            if row_reward[row] >= cap:
                alpha[n, m] = cap
                continue
            for x in range(S):
                sym = next_symbol[row, x] if on_next else row_symbol[row]
                value = next_reward[row, x] if on_next else 0.0
                if t < H - 1:
                    _, k = successor(
                        g_indptr[n], g_indptr[n + 1], sym, x, g_symbol, g_next, g_node,
                        default[t + 1, x],
                    )  # fmt: skip
                    value += alpha[k, m]
                v[x] = min(value, cap)
                low[x] = 0.0
                high[x] = unseen[row] if visited[row] else 1.0
            mass, seen = 1.0, 0.0
            if visited[row]:
                for i in range(indptr[row], indptr[row + 1]):
                    x = nxt[i]
                    if p_hat[i] > 0.0:
                        low[x] = max(lower[i], 0.0)
                        high[x] = min(upper[i], 1.0)
            for j in range(S):  # descending by value
                i = j
                while i > 0 and v[order[i - 1]] < v[j]:
                    order[i] = order[i - 1]
                    i -= 1
                order[i] = j
            if visited[row] and budget[row] < 1.0:  # take from the lowest, at most the budget
                left = budget[row]
                for i in range(indptr[row], indptr[row + 1]):
                    low[nxt[i]] = p_hat[i]
                for j in range(S - 1, -1, -1):
                    take = min(low[order[j]], left)
                    low[order[j]] -= take
                    left -= take
            total = 0.0
            for x in range(S):
                seen += low[x]
                total += low[x] * v[x]
            mass -= seen
            for j in range(S):
                x = order[j]
                give = min(high[x] - low[x], mass)
                if give > 0.0:
                    total += give * v[x]
                    mass -= give
            alpha[n, m] = min(row_reward[row] + total, cap)


@kernel
def proof_sums(
    indptr, nxt, symbol, prob, reward, A, Gamma, iota, snapshot,
    step, state, action, g_indptr, g_symbol, g_next, g_node, default,
    alpha, opt, inside, before, x, y, sums, worst,
):  # fmt: skip
    """Add the proof's sums over visits to `sums (10,)`; `worst (3,)` is for the Bellman row.

    `inside, before (N, M)`: visits with `t <= t0` and with `t < t0`. Sums: 0 bellman, 1 X4,
    2 V(P, alpha~) inside, 3 the same before, 4 X5's and 5 X6's steps, 6 P·alpha~ before,
    7 P·alpha~ inside, 8 expected reward inside, 9 sum of 1/max(N, 1). `x, y` are scratch.
    `worst`: the smallest `min(beta, 1) - error` where that is not trivial, the error there, and
    the largest error.
    """
    N, M = alpha.shape
    H, S = default.shape
    for n in range(N):
        t, s, a = step[n], state[n], action[n]
        for m in range(M):
            if inside[n, m] == 0.0:
                continue
            row = (m * S + s) * A + a
            first, last = indptr[row], indptr[row + 1]
            e, end = g_indptr[n], g_indptr[n + 1]
            mean_x, mean_y, mean_r = 0.0, 0.0, 0.0
            for i in range(first, last):
                x[i - first], y[i - first] = reward[i], reward[i]
                if t < H - 1:
                    e, k = successor(
                        e, end, symbol[i], nxt[i], g_symbol, g_next, g_node, default[t + 1, nxt[i]]
                    )
                    x[i - first] += opt[k, m]
                    y[i - first] += alpha[k, m]
                mean_x += prob[i] * x[i - first]
                mean_y += prob[i] * y[i - first]
                mean_r += prob[i] * reward[i]
            var_x, var_y, var_z = 0.0, 0.0, 0.0
            for i in range(first, last):
                dx, dy = x[i - first] - mean_x, y[i - first] - mean_y
                var_x += prob[i] * dx * dx
                var_y += prob[i] * dy * dy
                var_z += prob[i] * (dx - dy) * (dx - dy)
            visits = max(snapshot[row], 1)
            beta = 7.0 * math.sqrt(Gamma * var_x * iota / visits) + 30.0 * S * iota / visits
            error = opt[n, m] - mean_x
            margin = min(beta, 1.0) - error
            worst[2] = max(worst[2], error)
            if (beta < 1.0 or error > 1.0) and margin < worst[0]:
                worst[0], worst[1] = margin, error
            c, b = inside[n, m], before[n, m]
            sums[0] += c * error
            sums[1] += c * beta
            sums[2] += c * var_x
            sums[3] += b * var_x
            sums[4] += b * var_y
            sums[5] += b * var_z
            sums[6] += b * (mean_x - mean_r)
            sums[7] += c * (mean_x - mean_r)
            sums[8] += c * mean_r
            sums[9] += c / visits
