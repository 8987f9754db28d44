"""Ascent over small controllers: one node at a time, each change valued exactly before it is made.

With `G_m = (I - d P_m)^-1` over the nodes in context `m`, a change of node `n` alone moves the
value of the whole by `sum_m g_m(n) D_m / (G_m[n, n] - d P'_m[n] G_m[:, n])`: `g_m(n)` are the
discounted visits from the start, `D_m` is what the new choice is worth over the old one under the
present values (Sherman and Morrison). `G` is then updated in place.
"""

from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.runtime.kernel_cache import kernel


class SmallController(NamedTuple):
    """A controller of `n` nodes; `W` is the most observations of an action."""

    state: Ints  # (n,)
    action: Ints  # (n,)
    successor: Ints  # (n, W) by number among the observations of the action
    alive: Ints  # (n,) 0: removed
    root: Ints  # (starts,)
    inverse: Floats  # (M, n, n) the matrices G
    alpha: Floats  # (n, M) values
    reach: Floats  # (n, M) discounted visits, times the probability of the context


@kernel
def solve_all(model, c, S, begun):
    """Fill `inverse`, `alpha` and `reach` from the choices; `begun (n, M)` is where it starts.

    Gauss and Jordan without pivots: the diagonal dominates.
    """
    ptr, likelihood, reward, discount = model.ptr, model.likelihood, model.reward, model.discount
    inverse, alpha, reach = c.inverse, c.alpha, c.reach
    size, M = alpha.shape
    A = (ptr.size - 1) // S
    matrix = np.empty((size, size))
    for m in range(M):
        G = inverse[m]
        for i in range(size):
            for j in range(size):
                matrix[i, j] = 1.0 if i == j else 0.0
                G[i, j] = matrix[i, j]
        for i in range(size):
            sa = c.state[i] * A + c.action[i]
            for o in range(ptr[sa], ptr[sa + 1]):
                matrix[i, c.successor[i, o - ptr[sa]]] -= discount * likelihood[o, m]
        for k in range(size):
            pivot = 1.0 / matrix[k, k]
            for j in range(size):
                matrix[k, j] *= pivot
                G[k, j] *= pivot
            for i in range(size):
                factor = matrix[i, k]
                if i == k or factor == 0.0:
                    continue
                for j in range(size):
                    matrix[i, j] -= factor * matrix[k, j]
                    G[i, j] -= factor * G[k, j]
        for i in range(size):
            alpha[i, m], reach[i, m] = 0.0, 0.0
        for i in range(size):
            for j in range(size):
                sa = c.state[j] * A + c.action[j]
                alpha[i, m] += G[i, j] * reward[sa, m]
                reach[j, m] += begun[i, m] * G[i, j]


@kernel
def best_node(weight, y, state, alive, alpha, banned):
    """The node of state `y` that is worth most under `weight (M,)`; `banned` is not looked at."""
    best, top = -1, 0.0
    for k in range(state.size):
        if state[k] != y or alive[k] == 0 or k == banned:
            continue
        value = 0.0
        for m in range(weight.size):
            value += weight[m] * alpha[k, m]
        if best < 0 or value > top:
            best, top = k, value
    return best


@kernel
def weigh_contexts(reach, n, likelihood, o, weight):
    """Fill `weight (M,)`: how often each context comes to node `n` and then shows `o`.

    Where none does, how likely each one shows `o`.
    """
    total = 0.0
    for m in range(weight.size):
        weight[m] = reach[n, m] * likelihood[o, m]
        total += weight[m]
    if total <= 0.0:
        for m in range(weight.size):
            weight[m] = likelihood[o, m]


@kernel
def gain_of(model, c, n, sa, chosen):
    """By how much the controller's value rises if node `n` plays `sa` with `chosen` successors."""
    ptr, likelihood, reward, discount = model.ptr, model.likelihood, model.reward, model.discount
    inverse, alpha, reach = c.inverse, c.alpha, c.reach
    total = 0.0
    for m in range(alpha.shape[1]):
        if reach[n, m] == 0.0:
            continue
        rise, below = reward[sa, m] - alpha[n, m], inverse[m, n, n]
        for o in range(ptr[sa], ptr[sa + 1]):
            k = chosen[o - ptr[sa]]
            rise += discount * likelihood[o, m] * alpha[k, m]
            below -= discount * likelihood[o, m] * inverse[m, k, n]
        total += reach[n, m] * rise / below
    return total


@kernel
def change_node(model, c, n, sa, chosen, A, row):
    """Let node `n` play `sa` with `chosen` successors; updates all values. `row (n,)`: scratch."""
    ptr, likelihood, reward, discount = model.ptr, model.likelihood, model.reward, model.discount
    inverse, alpha, reach = c.inverse, c.alpha, c.reach
    size, M = alpha.shape
    for m in range(M):
        G = inverse[m]
        rise, below = reward[sa, m] - alpha[n, m], G[n, n]
        for j in range(size):  # row `n` of d (P' - P) G; that of d P G is G's own, less 1 at n
            row[j] = -G[n, j]
        row[n] += 1.0
        for o in range(ptr[sa], ptr[sa + 1]):
            k, p = chosen[o - ptr[sa]], discount * likelihood[o, m]
            if p == 0.0:
                continue
            rise += p * alpha[k, m]
            below -= p * G[k, n]
            for j in range(size):
                row[j] += p * G[k, j]
        visits = reach[n, m] / below
        for j in range(size):
            reach[j, m] += visits * row[j]
        for i in range(size):
            factor = G[i, n] / below
            if factor == 0.0:
                continue
            alpha[i, m] += factor * rise
            for j in range(size):
                G[i, j] += factor * row[j]
    c.action[n] = sa % A
    for i in range(ptr[sa + 1] - ptr[sa]):
        c.successor[n, i] = chosen[i]


@kernel
def ascend(model, c, S, tolerance, most_sweeps):
    """Improve nodes one by one while that gains more than `tolerance`; how many were changed."""
    ptr, following, likelihood = model.ptr, model.next, model.likelihood
    state, alive, alpha, reach = c.state, c.alive, c.alpha, c.reach
    size, M = alpha.shape
    A, W = (ptr.size - 1) // S, c.successor.shape[1]
    weight, row = np.empty(M), np.empty(size)
    chosen, best_chosen = np.empty(W, np.int64), np.empty(W, np.int64)
    changed = 0
    for _ in range(most_sweeps):
        before = changed
        for n in range(size):
            if alive[n] == 0:
                continue
            total = 0.0
            for m in range(M):
                total += reach[n, m]
            if total <= 0.0:
                continue
            best_sa, top = -1, tolerance
            for a in range(A):
                sa = state[n] * A + a
                for o in range(ptr[sa], ptr[sa + 1]):
                    weigh_contexts(reach, n, likelihood, o, weight)
                    chosen[o - ptr[sa]] = best_node(weight, following[o], state, alive, alpha, -1)
                gain = gain_of(model, c, n, sa, chosen)
                if gain > top:
                    best_sa, top = sa, gain
                    for i in range(W):
                        best_chosen[i] = chosen[i]
            if best_sa < 0:  # perhaps one successor alone is better
                sa = state[n] * A + c.action[n]
                for o in range(ptr[sa], ptr[sa + 1]):
                    for i in range(W):
                        chosen[i] = c.successor[n, i]
                    weigh_contexts(reach, n, likelihood, o, weight)
                    k = best_node(weight, following[o], state, alive, alpha, -1)
                    if k == chosen[o - ptr[sa]]:
                        continue
                    chosen[o - ptr[sa]] = k
                    gain = gain_of(model, c, n, sa, chosen)
                    if gain > top:
                        best_sa, top = sa, gain
                        for i in range(W):
                            best_chosen[i] = chosen[i]
            if best_sa >= 0:
                change_node(model, c, n, best_sa, best_chosen, A, row)
                changed += 1
        if changed == before:
            break
    return changed


@kernel
def removal_losses(model, c, S, start, loss):
    """Fill `loss (n,)`: about what removing each node costs; infinite for the last of a state.

    Each way to the node then leads to the next best one. `start (starts, M)` are the probabilities
    of context and first state.
    """
    ptr, following, likelihood, discount = model.ptr, model.next, model.likelihood, model.discount
    state, alive, alpha, reach = c.state, c.alive, c.alpha, c.reach
    size, M = alpha.shape
    A = (ptr.size - 1) // S
    weight, count = np.empty(M), np.zeros(S, np.int64)
    for n in range(size):
        count[state[n]] += alive[n]
    for n in range(size):
        loss[n] = 0.0 if alive[n] == 1 and count[state[n]] > 1 else np.inf
    for n in range(size):
        if alive[n] == 0:
            continue
        sa = state[n] * A + c.action[n]
        for o in range(ptr[sa], ptr[sa + 1]):
            k = c.successor[n, o - ptr[sa]]
            if loss[k] == np.inf:
                continue
            for m in range(M):
                weight[m] = discount * reach[n, m] * likelihood[o, m]
            other = best_node(weight, following[o], state, alive, alpha, k)
            for m in range(M):
                loss[k] += weight[m] * (alpha[k, m] - alpha[other, m])
    for i in range(c.root.size):
        k = c.root[i]
        if loss[k] < np.inf:
            other = best_node(start[i], state[k], state, alive, alpha, k)
            for m in range(M):
                loss[k] += start[i, m] * (alpha[k, m] - alpha[other, m])


@kernel
def remove_node(model, c, S, start, gone):
    """Lead all ways to the node `gone` to the next best ones and take it out."""
    ptr, following, likelihood = model.ptr, model.next, model.likelihood
    state, alive, alpha, reach = c.state, c.alive, c.alpha, c.reach
    size, M = alpha.shape
    A, W = (ptr.size - 1) // S, c.successor.shape[1]
    weight, row, chosen = np.empty(M), np.empty(size), np.empty(W, np.int64)
    alive[gone] = 0
    for n in range(size):
        if alive[n] == 0:
            continue
        sa = state[n] * A + c.action[n]
        leads = False
        for o in range(ptr[sa], ptr[sa + 1]):
            k = c.successor[n, o - ptr[sa]]
            if k == gone:
                leads = True
                weigh_contexts(reach, n, likelihood, o, weight)
                k = best_node(weight, following[o], state, alive, alpha, gone)
            chosen[o - ptr[sa]] = k
        if leads:
            change_node(model, c, n, sa, chosen, A, row)
    for i in range(c.root.size):
        if c.root[i] == gone:
            c.root[i] = best_node(start[i], state[gone], state, alive, alpha, gone)
