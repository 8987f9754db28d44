"""Values under an optimistic model: one step of either kind, a policy's values, the bound.

Written for graphs of nodes by step (`structs.Nodes`); the Markov class is the graph of default
nodes alone. A policy is an action per node.
"""

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.optimistic_bonus import bonus_backup, bonus_push
from latentmdp.kernels.optimistic_interval import interval_backup, interval_push


@kernel
def backup(search, begin, end, wanted, policy, action, m0, m1, valuation, out):
    """Optimistic values of the nodes `begin .. end` of one step; arguments as in `bonus_backup`."""
    rows, work = search.rows, search.work
    if rows.confidence_set:
        interval_backup(
            rows, search.nodes, begin, end, wanted, policy, action, m0, m1, valuation, out,
            work.slot_value, work.box,
        )  # fmt: skip
    else:
        bonus_backup(
            rows, search.nodes, begin, end, wanted, policy, action, m0, m1, valuation.value, out,
            work.slot_value,
        )  # fmt: skip


@kernel
def push(search, begin, end, policy, valuation, through_cap):
    """Push the reach of the nodes `begin .. end` of one step to their successors."""
    rows, work = search.rows, search.work
    if rows.confidence_set:
        interval_push(
            rows, search.nodes, begin, end, policy, valuation, work.reach, through_cap,
            work.slot_value, work.box,
        )  # fmt: skip
    else:
        bonus_push(
            rows, search.nodes, begin, end, policy, valuation.value, work.reach, through_cap,
            work.slot_value,
        )  # fmt: skip


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
    span, played = search.nodes.span, search.nodes.played
    for back in range(search.H):
        t = search.H - 1 - back
        backup(search, span[t], span[t + 1], played, policy, -1, 0, search.M, valuation,
               valuation.value)  # fmt: skip
    return objective(search, valuation.value)


@kernel
def know_context(search, m):
    """Optimistic dynamic programming in context `m` alone: `known` and `known_action`."""
    S, A, span = search.S, search.A, search.nodes.span
    known, known_action = search.known.value, search.known_action
    work = search.work
    wanted, out, nobody = work.wanted, work.backed_up, work.proposal
    for back in range(search.H):
        t = search.H - 1 - back
        begin = span[t]
        for n in range(begin, begin + S):
            wanted[n] = True
        for a in range(A):
            backup(search, begin, begin + S, wanted, nobody, a, m, m + 1, search.known, out)
            for s in range(S):
                value = out[begin + s, m]
                known_action[t, s, a, m] = value
        for s in range(S):
            value = known_action[t, s, 0, m]
            for a in range(1, A):
                value = max(value, known_action[t, s, a, m])
            known[begin + s, m] = value


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
