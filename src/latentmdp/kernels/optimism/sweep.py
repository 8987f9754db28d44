"""Sweeps: the best action at every node by `reach`, backwards.

`reach` is the derivative of the objective in the values of the policy that is improved. Below the
cap backups are convex and monotone, so a backward sweep by `reach` never lowers the objective; with
the cap it may, so whatever a sweep proposes is kept only if exact evaluation agrees
(`improve.py`).

A sweep goes through steps from the last to the first, and at each step through the actions, for all
nodes of the step at once.
"""

from latentmdp.kernels.optimism.step import BACK_UP, PUSH, settle, visit_rows
from latentmdp.kernels.optimism.values import objective
from latentmdp.runtime.kernel_cache import kernel

TOLERANCE = 1e-12  # values that differ by less, in relation to 1 + the value, are equal


@kernel
def copy_policy(source, target):
    """`target[:] = source`; slices take Numba far longer to compile."""
    for n in range(len(source)):
        target[n] = source[n]


@kernel
def fill_reach(search, policy, root, through_cap):
    """`reach`: the derivative of the objective in every value, pushed forward step by step.

    `root (M, S)` are the weights of contexts and first states; `through_cap` is that of
    `visit_bonus_rows`.
    """
    rows, nodes, scratch, reach = search.rows, search.nodes, search.scratch, search.work.reach
    current, first, span, played = search.current, nodes.first, nodes.span, nodes.played
    for n in range(reach.shape[0]):
        for m in range(reach.shape[1]):
            reach[n, m] = 0.0
    for s in range(search.S):
        for m in range(search.M):
            reach[first[s], m] += root[m, s]
    for t in range(search.H - 1):
        visit_rows(rows, nodes, span[t], span[t + 1], played, policy, -1, 0, search.M, current,
                   reach, PUSH, through_cap, scratch)  # fmt: skip


@kernel
def weigh_unreached(search):
    """Nodes on which the objective does not depend act as from the prior."""
    reach, possible, prior = search.work.reach, search.nodes.possible, search.prior
    N, M = reach.shape
    for n in range(N):
        total = 0.0
        for m in range(M):
            total += reach[n, m]
        if total == 0.0:
            for m in range(M):
                reach[n, m] = prior[m] if possible[n, m] else 0.0


@kernel
def sweep(search, policy, target, valuation, weight, other):
    """Best action at every node by `reach`, backwards, with already updated later values.

    `current` holds the values of `policy`; `target` is a copy of it and becomes the new policy, its
    values go to `valuation`. With an `other` search, on the same graph, the sweep is on
    `weight * search + other`, and the values in the other one go to its `trial`. Returns the number
    of switches.

    An action is skipped where even a known context could not make it win; a policy's own actions
    are not backed up while no later value has changed.
    """
    rows, nodes, scratch, work = search.rows, search.nodes, search.scratch, search.work
    reach, backed_up, top, wanted = work.reach, work.backed_up, work.top, work.wanted
    span, state, played, known_action = nodes.span, nodes.state, nodes.played, search.known_action
    before, after = search.current.value, valuation.value
    if other is not None:  # Numba leaves out these lines where there is none
        other_reach, other_known = other.work.reach, other.known_action
        other_backed_up = other.work.backed_up
        other_before, other_after = other.current.value, other.trial.value
    A, M = search.A, search.M
    switches, changed_later = 0, False
    for back in range(search.H):
        t = search.H - 1 - back
        begin, end = span[t], span[t + 1]
        changed = False
        for a in range(-1, A):  # -1: the policy's own actions, which set `top`
            # which nodes need this action's value
            some = a < 0
            for n in range(begin, end):
                want = played[n] and policy[n] != a
                if a >= 0 and want:
                    bound, s = 0.0, state[n]
                    for m in range(M):
                        term = weight * reach[n, m] * known_action[t, s, a, m]
                        if other is not None:
                            term += other_reach[n, m] * other_known[t, s, a, m]
                        bound += term
                    want = bound > top[n] + TOLERANCE * (1.0 + top[n])
                    some = some or want
                wanted[n] = want
            if not some:
                continue
            # its values, by those of later nodes under the new policy
            if a >= 0 or changed_later:
                visit_rows(rows, nodes, begin, end, wanted, policy, a, 0, M, valuation,
                           backed_up, BACK_UP, 0.0, scratch)  # fmt: skip
                if other is not None:
                    visit_rows(other.rows, other.nodes, begin, end, wanted, policy, a, 0, M,
                               other.trial, other_backed_up, BACK_UP, 0.0,
                               other.scratch)  # fmt: skip
            else:
                for n in range(begin, end):
                    for m in range(M):
                        backed_up[n, m] = before[n, m]
                        if other is not None:
                            other_backed_up[n, m] = other_before[n, m]
            # keep it where no action before it was as good
            for n in range(begin, end):
                if not wanted[n]:
                    continue
                value = 0.0
                for m in range(M):
                    term = weight * reach[n, m] * backed_up[n, m]
                    if other is not None:
                        term += other_reach[n, m] * other_backed_up[n, m]
                    value += term
                if a < 0 or value > top[n] + TOLERANCE * (1.0 + top[n]):
                    top[n] = value
                    target[n] = policy[n] if a < 0 else a
                    for m in range(M):
                        changed = changed or backed_up[n, m] != before[n, m]
                        after[n, m] = backed_up[n, m]
                        if other is not None:
                            changed = changed or other_backed_up[n, m] != other_before[n, m]
                            other_after[n, m] = other_backed_up[n, m]
        for n in range(begin, end):
            if target[n] != policy[n]:
                switches += 1
        settle(rows, nodes, t, 0, M, valuation)
        if other is not None:
            settle(other.rows, other.nodes, t, 0, M, other.trial)
        changed_later = changed
    return switches


@kernel
def propose(search, policy, root, through_cap, valuation):
    """Sweep once from a policy whose values are `current`; the result is `work.proposal`.

    Returns its objective, or -1 if it is the same policy. Its values go to `valuation`.
    """
    proposal = search.work.proposal
    fill_reach(search, policy, root, through_cap)
    weigh_unreached(search)
    copy_policy(policy, proposal)
    if sweep(search, policy, proposal, valuation, 1.0, None) == 0:
        return -1.0
    return objective(search, valuation.value)
