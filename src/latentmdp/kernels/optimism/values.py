"""Values under an optimistic model: those of a policy, those of a known context, the bound.

Written for graphs of nodes by step (`structs.Nodes`); the Markov class is the graph of default
nodes alone. A policy is an action per node.
"""

from latentmdp.kernels.optimism.step import BACK_UP, settle, visit_rows
from latentmdp.runtime.kernel_cache import kernel


@kernel
def objective(search, values):
    """Eq. (5): the mixture over contexts and first states."""
    root, first = search.root, search.nodes.first
    total = 0.0
    for s in range(search.S):
        for m in range(search.M):
            if root[m, s] > 0.0:
                total += root[m, s] * values[first[s], m]
    return total


@kernel
def evaluate(search, policy, valuation):
    """Exact optimistic values of a policy; returns the objective. `O(N M b)`."""
    rows, nodes, scratch, M, H = search.rows, search.nodes, search.scratch, search.M, search.H
    span, played, values = nodes.span, nodes.played, valuation.value
    for back in range(H):
        t = H - 1 - back
        visit_rows(rows, nodes, span[t], span[t + 1], played, policy, -1, 0, M, valuation, values,
                   BACK_UP, 0.0, scratch)  # fmt: skip
        settle(rows, nodes, t, 0, M, valuation)
    return objective(search, values)


@kernel
def know_context(search, m, changed):
    """Optimistic dynamic programming in context `m` alone: `known` and `known_action`.

    Of this context only the rows `changed` have other coefficients than at the last call; while no
    later value has changed, only these are computed.
    """
    rows, nodes, scratch, work = search.rows, search.nodes, search.scratch, search.work
    S, A, H, span, known = search.S, search.A, search.H, nodes.span, search.known
    wanted, out, any_policy = work.wanted, work.backed_up, work.proposal
    known_action, touched = search.known_action, work.touched
    touched[:] = False
    for row in changed:
        if row // (S * A) == m:
            touched[row % (S * A)] = True
    changed_later = False
    for back in range(H):
        t = H - 1 - back
        begin, some = span[t], False
        for a in range(A):
            for s in range(S):
                wanted[begin + s] = changed_later or touched[s * A + a]
                some = some or wanted[begin + s]
            if not some:
                continue
            visit_rows(rows, nodes, begin, begin + S, wanted, any_policy, a, m, m + 1, known, out,
                       BACK_UP, 0.0, scratch)  # fmt: skip
            for s in range(S):
                if wanted[begin + s]:
                    known_action[t, s, a, m] = out[begin + s, m]
        changed_later = False
        for s in range(S):
            best = known_action[t, s, 0, m]
            for a in range(1, A):
                best = max(best, known_action[t, s, a, m])
            changed_later = changed_later or best != known.value[begin + s, m]
            known.value[begin + s, m] = best
        if changed_later:
            settle(rows, nodes, t, m, m + 1, known)


@kernel
def root_bound(search):
    """Certified bound on the objective: from the second step on, the context is known."""
    root, known_action = search.root, search.known_action
    total = 0.0
    for s in range(search.S):
        top = 0.0
        for a in range(search.A):
            value = 0.0
            for m in range(search.M):
                value += root[m, s] * known_action[0, s, a, m]
            top = max(top, value)
        total += top
    return total
