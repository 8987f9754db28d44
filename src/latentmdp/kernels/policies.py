"""Kernels over policy graphs: alpha vectors, variances, reach weights; and each context by itself.

Rows and successor lists are both sorted by `(symbol, next)`, so the successors of all outcomes of
a row are found in one merged pass. Everything costs `O(nodes x contexts x branching)`.

Row `(t, m, s, a)` is number `t * stride + (m * S + s) * A + a`; `stride` is 0 where the rows are
the same at every step.
"""

from operator import attrgetter
from typing import Any

import numpy as np

from latentmdp.kernels.structs import PolicyNodes
from latentmdp.runtime.kernel_cache import kernel

_arrays_of = attrgetter(*PolicyNodes._fields)


def policy_nodes(policy: Any) -> PolicyNodes:
    """The arrays of a `PolicyGraph`, as kernels take them."""
    return PolicyNodes(*_arrays_of(policy))


@kernel
def skip_to_successor(e, end, symbol, y, edge_symbol, edge_next):
    """The first of the successors from `e` on, up to `end`, that is not before `(symbol, y)`."""
    while e < end and (edge_symbol[e] < symbol or (edge_symbol[e] == symbol and edge_next[e] < y)):
        e += 1
    return e


@kernel
def alpha_vectors(
    indptr, following, symbol, prob, reward, A, stride, discount, terminal, policy, first_node,
    end_node, total, alpha, variance,
):  # fmt: skip
    """Fill `alpha (N, M)` and `variance (N, M)` of some nodes: of the remaining reward.

    The nodes after them must be filled before.

    `alpha_m(n) = sum p (r + discount alpha_m(n'))`; the variance adds what this step's outcome
    decides to what the successors carry (Definition 1). After the last step comes `terminal
    (M, S)`. `total` is scratch of one row's length.
    """
    step, state, action, default = policy.step, policy.state, policy.action, policy.default
    edge_ptr, edge_symbol, edge_next = policy.indptr, policy.symbol, policy.next
    M = alpha.shape[1]
    H, S = default.shape
    for n in range(end_node - 1, first_node - 1, -1):
        t, last = step[n], step[n] == H - 1
        for m in range(M):
            row = t * stride + (m * S + state[n]) * A + action[n]
            first, stop = indptr[row], indptr[row + 1]
            mean, decided, carried = 0.0, 0.0, 0.0
            e, end = edge_ptr[n], edge_ptr[n + 1]
            for i in range(first, stop):
                total[i - first] = reward[i]
                y = following[i]
                if last:
                    total[i - first] += discount * terminal[m, y]
                else:
                    e = skip_to_successor(e, end, symbol[i], y, edge_symbol, edge_next)
                    known = e < end and edge_symbol[e] == symbol[i] and edge_next[e] == y
                    k = policy.node[e] if known else default[t + 1, y]
                    total[i - first] += discount * alpha[k, m]
                    carried += prob[i] * variance[k, m]
            for i in range(first, stop):
                mean += prob[i] * total[i - first]
            for i in range(first, stop):
                off = total[i - first] - mean
                decided += prob[i] * off * off
            alpha[n, m] = mean
            variance[n, m] = decided + discount * discount * carried


@kernel
def reach_nodes(indptr, following, symbol, prob, A, stride, policy, first_node, end_node, reach):
    """Pass `reach (N, M)`, the probability of context and node, on from some nodes.

    The nodes before them must have done so; those of the first step have the initial ones.
    """
    step, state, action, default = policy.step, policy.state, policy.action, policy.default
    edge_ptr, edge_symbol, edge_next = policy.indptr, policy.symbol, policy.next
    M = reach.shape[1]
    H, S = default.shape
    for n in range(first_node, end_node):
        t = step[n]
        if t == H - 1:
            break
        for m in range(M):
            if reach[n, m] == 0.0:
                continue
            row = t * stride + (m * S + state[n]) * A + action[n]
            e, end = edge_ptr[n], edge_ptr[n + 1]
            for i in range(indptr[row], indptr[row + 1]):
                y = following[i]
                e = skip_to_successor(e, end, symbol[i], y, edge_symbol, edge_next)
                known = e < end and edge_symbol[e] == symbol[i] and edge_next[e] == y
                k = policy.node[e] if known else default[t + 1, y]
                reach[k, m] += reach[n, m] * prob[i]


@kernel
def backward_induction(
    indptr, following, prob, row_reward, A, stride, discount, begin, value, best
):  # fmt: skip
    """Fill `value (H + 1, M, S)` and `best (H, M, S)`: each context solved as an MDP of its own.

    For the `H` steps from `begin` on; `value[H]` is what comes after them.
    """
    H, M, S = best.shape
    one, two = np.uintp(1), np.uintp(2)
    for t in range(H - 1, -1, -1):
        for m in range(M):
            after = value[t + 1, m]
            for s in range(S):
                top, arg = 0.0, -1
                for a in range(A):
                    row = (begin + t) * stride + (m * S + s) * A + a
                    i, stop = np.uintp(indptr[row]), np.uintp(indptr[row + 1])
                    x, y = 0.0, 0.0  # two sums side by side and unsigned indices: twice as fast
                    while i + one < stop:
                        x += prob[i] * after[np.uintp(following[i])]
                        y += prob[i + one] * after[np.uintp(following[i + one])]
                        i += two
                    if i < stop:
                        x += prob[i] * after[np.uintp(following[i])]
                    x = row_reward[row] + discount * (x + y)
                    if arg < 0 or x > top:
                        top, arg = x, a
                value[t, m, s] = top
                best[t, m, s] = arg
