"""Exact evaluation of stationary policies where there is no last step: linear systems.

In context `m` the nodes of a stationary policy are a Markov chain `P_m`. Values solve
`(I - d P_m) alpha = r_m` for the discount `d`; the variance of the discounted total solves
`(I - d^2 P_m) v = what the outcome of this step decides`; the discounted numbers of visits solve
`(I - d P_m)^T g = start`. Up to `MOST_FACTORED` nodes the matrix is factored (SuperLU, one step of
refinement); beyond that it is solved one strong component at a time, by sweeps of Gauss and Seidel
until what is left, at most the last change times `d / (1 - d)`, is rounding error. A component that
needs many sweeps, as for discounts near 1, is solved by GMRES or by factors instead.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.graph import PolicyGraph
from latentmdp.policy.simplify import follow_edges

MOST_FACTORED = 1_000  # nodes; a full factor of so many takes 8 MB
ENOUGH = 2.0**-50  # a residual of so much, relative to the terms of a row, is rounding error
STALLED = 2.0**-44  # the same where further rounds do not help: rounding in sums of many terms
ROUNDS, STEPS = 20, 40  # of GMRES at most, and its steps in a round
SHRUNK = 1e-10  # of the residual: where a round ends
SLOWLY = 0.2  # times the last residual: where a round leaves more, factors are used


class Steps(NamedTuple):
    """One entry for each outcome of the row at each node in one context."""

    node: Ints  # ascending
    after: Ints  # the node that it leads to
    prob: Floats
    reward: Floats


def steps_of(model: LatentMDP, policy: PolicyGraph, m: int) -> Steps:
    """The chain of the policy's nodes in context `m`."""
    row = (m * model.S + policy.state) * model.A + policy.action
    length = model.indptr[row + 1] - model.indptr[row]
    node = np.repeat(np.arange(policy.N), length)
    i = np.arange(len(node)) - np.repeat(np.cumsum(length) - length, length)
    i += np.repeat(model.indptr[row], length)
    after = policy.successors(node, model.symbol[i], model.next[i])
    return Steps(node, after, model.prob[i], model.reward[i])


def discounted_values(
    model: LatentMDP, policy: PolicyGraph, variances: bool = True
) -> tuple[Floats, Floats]:
    """`alpha (N, M)` and the variances `(N, M)` of the discounted total from each node on."""
    alpha, variance = np.zeros((2, policy.N, model.M))
    d = model.discount
    for m in range(model.M):
        steps = steps_of(model, policy, m)
        earned = _add(steps, steps.prob * steps.reward, policy.N)
        alpha[:, m] = solve_chain(steps, d, earned)
        if variances:
            total = steps.reward + d * alpha[steps.after, m]
            off = total - alpha[steps.node, m]
            decided = _add(steps, steps.prob * off * off, policy.N)
            variance[:, m] = np.maximum(solve_chain(steps, d * d, decided), 0.0)
    return alpha, variance


def values_in_context(model: LatentMDP, policy: PolicyGraph, m: int) -> Floats:
    """`(N,)` values of the nodes in context `m` alone."""
    steps = steps_of(model, policy, m)
    return solve_chain(steps, model.discount, _add(steps, steps.prob * steps.reward, policy.N))


def discounted_reach(model: LatentMDP, policy: PolicyGraph) -> Floats:
    """`(N, M)` expected discounted number of visits to each node in each context, times `w`."""
    start = np.zeros((policy.N, model.M))
    np.add.at(start, policy.root, (model.w[:, None] * model.nu).T)
    reach = np.zeros_like(start)
    for m in range(model.M):
        steps = steps_of(model, policy, m)
        found = solve_chain(steps, model.discount, start[:, m], transposed=True)
        possible = start[:, m] > 0.0
        positive = steps.prob > 0.0
        follow_edges(possible, steps.node[positive], steps.after[positive])
        reach[possible, m] = np.maximum(found[possible], np.finfo(float).tiny)
    return reach


def solve_chain(steps: Steps, d: float, right: Floats, transposed: bool = False) -> Floats:
    """`x` with `(I - d P) x = right`, or `(I - d P)^T x = right`; exact up to rounding."""
    from scipy.sparse import csr_array

    from latentmdp.kernels.controller_sweeps import solve_in_order, strong_components

    N = len(right)
    P = csr_array((steps.prob, (steps.node, steps.after)), shape=(N, N))
    order, start = np.empty(N, dtype=np.int64), np.empty(N + 1, dtype=np.int64)
    components = strong_components(*_indices(P), order, start)
    label = np.empty(N, dtype=np.int64)
    label[order] = np.repeat(np.arange(components), np.diff(start[: components + 1]))
    if N <= MOST_FACTORED:
        return _solve_relative(P, d, label, np.zeros(N), right, transposed)
    by_row = csr_array(P.T) if transposed else P
    x, done = np.zeros(N), 0
    while True:
        done = solve_in_order(
            *_indices(by_row), by_row.data, d, right, order, start, components, transposed, done, x
        )
        if done == components:
            return x
        c = components - 1 - done if transposed else done
        nodes = np.sort(order[start[c] : start[c + 1]])
        inside = csr_array(P[nodes][:, nodes])
        x[nodes] = 0.0
        known = right[nodes] + d * (by_row[nodes] @ x)
        away = _sums_where(P[nodes], label[P[nodes].indices] != c)
        x[nodes] = _solve_relative(inside, d, np.zeros_like(nodes), away, known, transposed)
        done += 1


def _solve_relative(
    P: Any, d: float, label: Ints, away: Floats, right: Floats, transposed: bool
) -> Floats:
    """The solution with one unknown per strong component for its level, the rest relative to it.

    `I - d P` is almost singular where `d` is almost 1: in a component that is never left all values
    may rise together. With `x[n] = y[n] + level / scale`, and `y = 0` at the first node of each
    component, the coefficients of a level are `1 - d + d * (probability to leave)`, without
    cancellation, and the system is as well conditioned as the chain mixes. `away (N,)` are the
    probabilities to go where `P` does not lead.
    """
    from scipy.sparse import csc_array

    N = len(right)
    _, first, label = np.unique(label, return_index=True, return_inverse=True)
    entries = P.tocoo()
    row, column, prob = entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data
    leaves = label[row] != label[column]
    falls = 1.0 - d + d * (away + np.bincount(row[leaves], prob[leaves], minlength=N))
    scale = np.zeros(len(first))
    np.maximum.at(scale, label, falls)
    relative = column != first[label[column]]
    others = np.delete(np.arange(N), first)
    level = first[label]
    matrix = csc_array(
        (
            np.concatenate([
                np.ones(len(others)), -d * prob[relative],
                falls / scale[label], -d * prob[leaves] / scale[label[column[leaves]]],
            ]),
            (
                np.concatenate([others, row[relative], np.arange(N), row[leaves]]),
                np.concatenate([others, column[relative], level, level[column[leaves]]]),
            ),
        ),
        shape=(N, N),
    )  # fmt: skip
    if transposed:
        turned = right.copy()
        turned[first] = np.bincount(label, right, minlength=len(first)) / scale
        return _solve(csc_array(matrix.T), turned, int(first[0]))
    y = _solve(matrix, right, int(first[0]))
    raised = (y[first] / scale)[label]
    y[first] = 0.0
    return y + raised


def _solve(matrix: Any, right: Floats, border: int) -> Floats:
    """Factor small matrices; large ones only where GMRES does not converge.

    Chains that GMRES is slow for mix slowly: they have narrow passages, and factors with few
    entries. What stays of a large matrix without row and column `border` is a dominant diagonal.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import splu

    from latentmdp.kernels.krylov import gmres_round

    matrix.sum_duplicates()
    matrix.indices = matrix.indices.astype(np.int32)
    matrix.indptr = matrix.indptr.astype(np.int32)
    N = len(right)
    solve: Callable[[Floats], Any]
    if N <= MOST_FACTORED:
        solve = splu(matrix).solve
    else:
        rows = csr_array(matrix)
        size, x, found, least = abs(rows), np.zeros(N), np.empty(N), np.inf
        for _ in range(ROUNDS):
            left = right - rows @ x
            error = np.abs(left).max() / (size @ np.abs(x) + np.abs(right)).max()
            slow = error > SLOWLY * least
            if error <= ENOUGH or (slow and error <= STALLED):
                return x
            if slow:
                break
            least = error
            gmres_round(*_indices(rows), rows.data, left, STEPS, SHRUNK, found)
            x += found
        solve = _bordered(matrix, border)
    y: Floats = solve(right)
    return y + solve(right - matrix @ y)


def _bordered(matrix: Any, border: int) -> Callable[[Floats], Floats]:
    """Solves with `matrix` by factors without row and column `border`, which may be dense."""
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    rest = np.delete(np.arange(matrix.shape[0]), border)
    rows = matrix[rest]
    column = rows[:, [border]].toarray().ravel()
    row = matrix[[border]].toarray().ravel()
    factor = splu(
        csc_array(rows[:, rest]), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )  # fmt: skip
    by_border: Floats = factor.solve(column)
    pivot = row[border] - row[rest] @ by_border

    def solve(right: Floats) -> Floats:
        inner = factor.solve(right[rest])
        x = np.empty_like(right)
        x[border] = (right[border] - row[rest] @ inner) / pivot
        x[rest] = inner - by_border * x[border]
        return x

    return solve


def _sums_where(matrix: Any, chosen: Any) -> Floats:
    """`(rows,)` sums of the chosen entries."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    sums = np.bincount(row[chosen], matrix.data[chosen], minlength=matrix.shape[0])
    return sums.astype(np.float64, copy=False)


def _indices(matrix: Any) -> tuple[Ints, Ints]:
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)


def _add(steps: Steps, values: Floats, N: int) -> Floats:
    return np.bincount(steps.node, values, minlength=N).astype(np.float64, copy=False)
