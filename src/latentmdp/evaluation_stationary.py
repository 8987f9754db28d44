"""Exact evaluation of stationary policies where there is no last step: linear systems.

In context `m` the nodes of a stationary policy are a Markov chain `P_m`. Values solve
`(I - d P_m) alpha = r_m` for the discount `d`; the variance of the discounted total solves
`(I - d^2 P_m) v = what the outcome of this step decides`; the discounted numbers of visits solve
`(I - d P_m)^T g = start`. Each matrix has a dominant diagonal: up to `MOST_FACTORED` nodes it is
factored (SuperLU, one step of refinement); beyond that it is solved one strong component at a time,
by sweeps of Gauss and Seidel until what is left, at most the last change times `d / (1 - d)`, is
rounding error.
"""

from typing import Any, NamedTuple

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.model import LatentMDP
from latentmdp.policy import PolicyGraph
from latentmdp.policy_simplify import follow_edges

MOST_FACTORED = 1_000  # nodes; a full factor of so many takes 8 MB


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
    from scipy.sparse import csc_array, csr_array, eye_array

    N = len(right)
    if N <= MOST_FACTORED:
        from scipy.sparse.linalg import splu

        places = (steps.after, steps.node) if transposed else (steps.node, steps.after)
        matrix = csc_array(eye_array(N) - d * csc_array((steps.prob, places), shape=(N, N)))
        matrix.indices = matrix.indices.astype(np.int32)
        matrix.indptr = matrix.indptr.astype(np.int32)
        factor = splu(matrix)
        x: Any = factor.solve(right)
        return x + factor.solve(right - matrix @ x)
    from latentmdp.kernels.controller_sweeps import solve_in_order, strong_components

    P = csr_array((steps.prob, (steps.node, steps.after)), shape=(N, N))
    order, start = np.empty(N, dtype=np.int64), np.empty(N + 1, dtype=np.int64)
    components = strong_components(*_indices(P), order, start)
    by_row = csr_array(P.T) if transposed else P
    x = np.zeros(N)
    solve_in_order(
        *_indices(by_row), by_row.data, d, right, order, start, components, transposed, x
    )
    return x


def _indices(matrix: Any) -> tuple[Ints, Ints]:
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)


def _add(steps: Steps, values: Floats, N: int) -> Floats:
    return np.bincount(steps.node, values, minlength=N).astype(np.float64, copy=False)
