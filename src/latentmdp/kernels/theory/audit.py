"""What the audit computes on a policy graph: optimistic alpha vectors by the paper's own equations,
and the sums of the proof from visit counts. Shares nothing with the learner's planning kernels.
"""

import math

from latentmdp.runtime.kernel_cache import kernel


@kernel
def successor(e, end, symbol, y, edge_symbol, edge_next, edge_node, fallback):
    """`(e', node)`: the successor for `(symbol, y)`, searched from entry `e` on."""
    while e < end and (edge_symbol[e] < symbol or (edge_symbol[e] == symbol and edge_next[e] < y)):
        e += 1
    if e < end and edge_symbol[e] == symbol and edge_next[e] == y:
        return e, edge_node[e]
    return e, fallback


@kernel
def bonus_alpha(
    indptr, following, symbol, p_hat, slot_reward, row_reward, c1, c2, c3, cap, A, policy, after,
    alpha,
):  # fmt: skip
    """Eqs. (3), (4): fill `alpha (N, M)`; `slot_reward` are rewards on transitions, else 0.

    `after` is scratch of one row's length.
    """
    step, state, action, default = policy.step, policy.state, policy.action, policy.default
    edge_ptr, edge_symbol = policy.indptr, policy.symbol
    edge_next, edge_node = policy.next, policy.node
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
            e, end = edge_ptr[n], edge_ptr[n + 1]
            mean = 0.0
            for i in range(first, last):
                value = slot_reward[i]
                if t < H - 1:
                    y = following[i]
                    e, k = successor(
                        e, end, symbol[i], y, edge_symbol, edge_next, edge_node, default[t + 1, y]
                    )
                    value += alpha[k, m]
                after[i - first] = min(value, cap)
                mean += p_hat[i] * after[i - first]
            variance = 0.0
            for i in range(first, last):
                variance += p_hat[i] * (after[i - first] - mean) ** 2
            bonus = max(c2[row], c1[row] * math.sqrt(variance))
            alpha[n, m] = min(base + mean + bonus, cap)


@kernel
def interval_alpha(
    indptr, following, p_hat, row_reward, row_symbol, on_next, next_reward, next_symbol,
    lower, upper, unseen, visited, budget, cap, A, policy, after, low, high, order, alpha,
):  # fmt: skip
    """Eq. (2) node by node: the best distribution in the box.

    `lower, upper` are per outcome, `unseen` per row for next states never seen; `budget` limits
    the mass that may move (1 for a box alone). `after, low, high, order (S,)` are scratch.
    """
    step, state, action, default = policy.step, policy.state, policy.action, policy.default
    edge_ptr, edge_symbol = policy.indptr, policy.symbol
    edge_next, edge_node = policy.next, policy.node
    N, M = alpha.shape
    H, S = default.shape
    for n in range(N - 1, -1, -1):
        t, s, a = step[n], state[n], action[n]
        for m in range(M):
            row = (m * S + s) * A + a
            if row_reward[row] >= cap:
                alpha[n, m] = cap
                continue
            for y in range(S):
                symbol = next_symbol[row, y] if on_next else row_symbol[row]
                value = next_reward[row, y] if on_next else 0.0
                if t < H - 1:
                    _, k = successor(
                        edge_ptr[n], edge_ptr[n + 1], symbol, y, edge_symbol, edge_next, edge_node,
                        default[t + 1, y],
                    )  # fmt: skip
                    value += alpha[k, m]
                after[y] = min(value, cap)
                low[y] = 0.0
                high[y] = unseen[row] if visited[row] else 1.0
            if visited[row]:
                for i in range(indptr[row], indptr[row + 1]):
                    y = following[i]
                    if p_hat[i] > 0.0:
                        low[y] = max(lower[i], 0.0)
                        high[y] = min(upper[i], 1.0)
            for y in range(S):  # next states by value, the best first
                i = y
                while i > 0 and after[order[i - 1]] < after[y]:
                    order[i] = order[i - 1]
                    i -= 1
                order[i] = y
            if visited[row] and budget[row] < 1.0:  # take from the lowest, at most the budget
                left = budget[row]
                for i in range(indptr[row], indptr[row + 1]):
                    low[following[i]] = p_hat[i]
                for j in range(S - 1, -1, -1):
                    take = min(low[order[j]], left)
                    low[order[j]] -= take
                    left -= take
            total, placed = 0.0, 0.0
            for y in range(S):
                placed += low[y]
                total += low[y] * after[y]
            mass = 1.0 - placed  # still to be given, to the best next states first
            for j in range(S):
                y = order[j]
                give = min(high[y] - low[y], mass)
                if give > 0.0:
                    total += give * after[y]
                    mass -= give
            alpha[n, m] = min(row_reward[row] + total, cap)


@kernel
def proof_sums(
    indptr, following, symbol, prob, reward, A, Gamma, iota, snapshot, policy,
    alpha, opt, inside, before, value_opt, value, sums, worst,
):  # fmt: skip
    """Add the proof's sums over visits to `sums (10,)`; `worst (3,)` is for the Bellman row.

    `inside, before (N, M)`: visits with `t <= t0` and with `t < t0`. Sums: 0 bellman, 1 X4,
    2 V(P, alpha~) inside, 3 the same before, 4 X5's and 5 X6's steps, 6 P·alpha~ before,
    7 P·alpha~ inside, 8 expected reward inside, 9 sum of 1/max(N, 1). `worst`: the smallest
    `min(beta, 1) - error` where that is not trivial, the error there, and the largest error.
    `value_opt, value` are scratch.
    """
    step, state, action, default = policy.step, policy.state, policy.action, policy.default
    edge_ptr, edge_symbol = policy.indptr, policy.symbol
    edge_next, edge_node = policy.next, policy.node
    N, M = alpha.shape
    H, S = default.shape
    for n in range(N):
        t, s, a = step[n], state[n], action[n]
        for m in range(M):
            if inside[n, m] == 0.0:
                continue
            row = (m * S + s) * A + a
            first, last = indptr[row], indptr[row + 1]
            e, end = edge_ptr[n], edge_ptr[n + 1]
            mean_opt, mean, mean_r = 0.0, 0.0, 0.0
            for i in range(first, last):
                value_opt[i - first], value[i - first] = reward[i], reward[i]
                if t < H - 1:
                    e, k = successor(
                        e, end, symbol[i], following[i], edge_symbol, edge_next, edge_node,
                        default[t + 1, following[i]],
                    )  # fmt: skip
                    value_opt[i - first] += opt[k, m]
                    value[i - first] += alpha[k, m]
                mean_opt += prob[i] * value_opt[i - first]
                mean += prob[i] * value[i - first]
                mean_r += prob[i] * reward[i]
            var_opt, var, var_gap = 0.0, 0.0, 0.0
            for i in range(first, last):
                off_opt, off = value_opt[i - first] - mean_opt, value[i - first] - mean
                var_opt += prob[i] * off_opt * off_opt
                var += prob[i] * off * off
                var_gap += prob[i] * (off_opt - off) * (off_opt - off)
            visits = max(snapshot[row], 1)
            beta = 7.0 * math.sqrt(Gamma * var_opt * iota / visits) + 30.0 * S * iota / visits
            error = opt[n, m] - mean_opt
            margin = min(beta, 1.0) - error
            worst[2] = max(worst[2], error)
            if (beta < 1.0 or error > 1.0) and margin < worst[0]:
                worst[0], worst[1] = margin, error
            c, b = inside[n, m], before[n, m]
            sums[0] += c * error
            sums[1] += c * beta
            sums[2] += c * var_opt
            sums[3] += b * var_opt
            sums[4] += b * var
            sums[5] += b * var_gap
            sums[6] += b * (mean_opt - mean_r)
            sums[7] += c * (mean_opt - mean_r)
            sums[8] += c * mean_r
            sums[9] += c / visits
