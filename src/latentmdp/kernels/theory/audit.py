"""What the audit computes on a policy graph: optimistic alpha vectors by the paper's own equations,
and the sums of the proof from visit counts. Shares nothing with the learner's planning kernels.

Row `(m, s, a)` is number `(m * S + s) * A + a`. Nodes are numbered by step, so that going through
them backwards meets every successor before the nodes that lead to it.
"""

import math

from latentmdp.runtime.kernel_cache import kernel

# entries of `sums` in `proof_sums`, over visits with t <= t0 ("inside") or with t < t0 ("before")
BELLMAN = 0  # alpha~ - P.alpha~, inside
BETA = 1  # X4: the bonus of the proof, inside
SPREAD_INSIDE, SPREAD_BEFORE = 2, 3  # V(P, alpha~)
VALUE_SPREAD, GAP_SPREAD = 4, 5  # steps of X5 and X6: V(P, alpha), V(P, alpha~ - alpha), before
MEAN_BEFORE, MEAN_INSIDE = 6, 7  # P.alpha~ without the reward
REWARD = 8  # expected reward, inside
INVERSE_VISITS = 9  # 1 / max(N, 1), inside
# entries of `worst`, about the Bellman error: the smallest `min(beta, 1) - error` where that is not
# trivial, the error there, and the largest error
MARGIN, ERROR_THERE, LARGEST_ERROR = 0, 1, 2


@kernel
def successor(e, end, symbol, y, edge_symbol, edge_next, edge_node, fallback):
    """`(e', node)`: the successor for `(symbol, y)`, searched from entry `e` on."""
    while e < end and (edge_symbol[e] < symbol or (edge_symbol[e] == symbol and edge_next[e] < y)):
        e += 1
    if e < end and edge_symbol[e] == symbol and edge_next[e] == y:
        return e, edge_node[e]
    return e, fallback


@kernel
def bonus_alpha(rows, terms, policy, after, alpha):
    """Eqs. (3), (4): fill `alpha (N, M)`, by `PricedRows` of estimates and `BonusTerms`.

    `after` is scratch of one row's length.
    """
    step, state, action, default = policy.step, policy.state, policy.action, policy.default
    edge_ptr, edge_symbol = policy.indptr, policy.symbol
    edge_next, edge_node = policy.next, policy.node
    indptr, following, symbol, p_hat = rows.indptr, rows.next, rows.symbol, rows.prob
    reward, row_reward, cap = rows.reward, terms.row_reward, terms.cap
    c1, c2, c3, A = terms.c1, terms.c2, terms.c3, rows.A
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
                value = reward[i]
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
def order_by_value(after, order):
    """Write the next states to `order`, the best first; ties by state."""
    for y in range(len(after)):
        i = y
        while i > 0 and after[order[i - 1]] < after[y]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = y


@kernel
def set_box(rows, terms, row, low, high):
    """The box of a row, `low <= P~ <= high` at every next state."""
    low[:] = 0.0
    high[:] = terms.unseen[row] if terms.visited[row] else 1.0
    if terms.visited[row]:
        for i in range(rows.indptr[row], rows.indptr[row + 1]):
            y = rows.next[i]
            if rows.prob[i] > 0.0:
                low[y] = max(terms.lower[i], 0.0)
                high[y] = min(terms.upper[i], 1.0)


@kernel
def take_budget(rows, row, budget, order, low):
    """Where less than all mass may move: `P_hat` less the budget, taken from the lowest values."""
    for i in range(rows.indptr[row], rows.indptr[row + 1]):
        low[rows.next[i]] = rows.prob[i]
    left = budget
    for j in range(len(order) - 1, -1, -1):
        take = min(low[order[j]], left)
        low[order[j]] -= take
        left -= take


@kernel
def best_in_box(after, order, low, high):
    """The largest `q.after` with `low <= q <= high`: what is not placed goes to the best."""
    total, placed = 0.0, 0.0
    for y in range(len(after)):
        placed += low[y]
        total += low[y] * after[y]
    mass = 1.0 - placed  # still to be given, to the best next states first
    for j in range(len(order)):
        y = order[j]
        give = min(high[y] - low[y], mass)
        if give > 0.0:
            total += give * after[y]
            mass -= give
    return total


@kernel
def interval_alpha(rows, terms, policy, scratch, alpha):
    """Eq. (2) node by node: fill `alpha (N, M)`, by `PricedRows` of estimates and `BoxTerms`."""
    step, state, action, default = policy.step, policy.state, policy.action, policy.default
    edge_ptr, edge_symbol = policy.indptr, policy.symbol
    edge_next, edge_node = policy.next, policy.node
    after, low, high, order = scratch.after, scratch.low, scratch.high, scratch.order
    on_next, cap, A = terms.on_next, terms.cap, rows.A
    N, M = alpha.shape
    H, S = default.shape
    for n in range(N - 1, -1, -1):
        t, s, a = step[n], state[n], action[n]
        for m in range(M):
            row = (m * S + s) * A + a
            if terms.row_reward[row] >= cap:
                alpha[n, m] = cap
                continue
            for y in range(S):
                value = terms.next_reward[row, y] if on_next else 0.0
                if t < H - 1:
                    symbol = terms.next_symbol[row, y] if on_next else terms.row_symbol[row]
                    _, k = successor(
                        edge_ptr[n], edge_ptr[n + 1], symbol, y, edge_symbol, edge_next, edge_node,
                        default[t + 1, y],
                    )  # fmt: skip
                    value += alpha[k, m]
                after[y] = min(value, cap)
            order_by_value(after, order)
            set_box(rows, terms, row, low, high)
            if terms.visited[row] and terms.budget[row] < 1.0:
                take_budget(rows, row, terms.budget[row], order, low)
            total = best_in_box(after, order, low, high)
            alpha[n, m] = min(terms.row_reward[row] + total, cap)


@kernel
def proof_sums(rows, proof, policy, alpha, opt, visits, after, sums, worst):
    """Add the proof's sums over visits to `sums (10,)`; `worst (3,)` is for the Bellman row.

    The entries are named at the top of this file. `rows` are the true model's; `alpha, opt (N, M)`
    the true values of the policy and the optimistic ones, alpha~. `after (2, b)` is scratch.
    """
    step, state, action, default = policy.step, policy.state, policy.action, policy.default
    edge_ptr, edge_symbol = policy.indptr, policy.symbol
    edge_next, edge_node = policy.next, policy.node
    indptr, following, symbol, A = rows.indptr, rows.next, rows.symbol, rows.A
    prob, reward, inside, before = rows.prob, rows.reward, visits.inside, visits.before
    Gamma, iota, snapshot, value, value_opt = proof.Gamma, proof.iota, proof.N, after[0], after[1]
    N, M = alpha.shape
    H, S = default.shape
    for n in range(N):
        t, s, a = step[n], state[n], action[n]
        for m in range(M):
            if inside[n, m] == 0.0:
                continue
            row = (m * S + s) * A + a
            first, last = indptr[row], indptr[row + 1]
            # means and variances under P of what follows, by both alpha vectors
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
            # the Bellman error is at most beta, the bonus of the proof
            many = max(snapshot[row], 1)
            beta = 7.0 * math.sqrt(Gamma * var_opt * iota / many) + 30.0 * S * iota / many
            error = opt[n, m] - mean_opt
            margin = min(beta, 1.0) - error
            worst[LARGEST_ERROR] = max(worst[LARGEST_ERROR], error)
            if (beta < 1.0 or error > 1.0) and margin < worst[MARGIN]:
                worst[MARGIN], worst[ERROR_THERE] = margin, error
            c, b = inside[n, m], before[n, m]
            sums[BELLMAN] += c * error
            sums[BETA] += c * beta
            sums[SPREAD_INSIDE] += c * var_opt
            sums[SPREAD_BEFORE] += b * var_opt
            sums[VALUE_SPREAD] += b * var
            sums[GAP_SPREAD] += b * var_gap
            sums[MEAN_BEFORE] += b * (mean_opt - mean_r)
            sums[MEAN_INSIDE] += c * (mean_opt - mean_r)
            sums[REWARD] += c * mean_r
            sums[INVERSE_VISITS] += c / many
