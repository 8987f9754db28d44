"""Better policies under an optimistic model: reach, sweeps, checked switches, kicks.

Local search for the argmax of Eq. (5) that Algorithms 2 and 3 ask for. `reach` is the derivative of
the objective in the values of the policy that is improved. Below the cap backups are convex and
monotone, so a backward sweep by `reach` never lowers the objective; with the cap it may, so
whatever a sweep proposes is kept only if exact evaluation agrees.
"""

import numpy as np

from latentmdp.kernels.optimism.step import BACK_UP, PUSH, settle, visit_rows
from latentmdp.kernels.optimism.values import evaluate, objective
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
def sweep(search, policy, target, valuation):
    """Best action at every node by `reach`, backwards, with already updated later values.

    `current` holds the values of `policy`; the new policy goes to `target`, its values to
    `valuation`. Returns the number of switches. An action is skipped where even a known context
    could not make it win; incumbent actions are not backed up while no later value has changed.
    """
    rows, nodes, scratch, work = search.rows, search.nodes, search.scratch, search.work
    reach, backed_up, top, wanted = work.reach, work.backed_up, work.top, work.wanted
    known_action = search.known_action
    span, state, played = nodes.span, nodes.state, nodes.played
    before, after = search.current.value, valuation.value
    A, M = search.A, search.M
    switches, changed_later = 0, False
    for back in range(search.H):
        t = search.H - 1 - back
        begin, end = span[t], span[t + 1]
        changed = False
        for a in range(-1, A):  # -1: the incumbent actions
            some = a < 0
            for n in range(begin, end):
                want = played[n] and a < 0
                if a >= 0 and played[n] and policy[n] != a:
                    bound, s = 0.0, state[n]
                    for m in range(M):
                        bound += reach[n, m] * known_action[t, s, a, m]
                    want = bound > top[n] + TOLERANCE * (1.0 + top[n])
                    some = some or want
                wanted[n] = want
            if not some:
                continue
            if a >= 0 or changed_later:
                visit_rows(rows, nodes, begin, end, wanted, policy, a, 0, M, valuation, backed_up,
                           BACK_UP, 0.0, scratch)  # fmt: skip
            else:
                for n in range(begin, end):
                    for m in range(M):
                        backed_up[n, m] = before[n, m]
            for n in range(begin, end):
                if not wanted[n]:
                    continue
                value = 0.0
                for m in range(M):
                    value += reach[n, m] * backed_up[n, m]
                if a < 0 or value > top[n] + TOLERANCE * (1.0 + top[n]):
                    top[n] = value
                    target[n] = policy[n] if a < 0 else a
                    for m in range(M):
                        changed = changed or backed_up[n, m] != before[n, m]
                        after[n, m] = backed_up[n, m]
        for n in range(begin, end):
            if played[n] and target[n] != policy[n]:
                switches += 1
        settle(rows, nodes, t, 0, M, valuation)
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
    if sweep(search, policy, proposal, valuation) == 0:
        return -1.0
    return objective(search, valuation.value)


@kernel
def adopt_trial(search):
    """The values on trial become the current ones."""
    current, trial = search.current, search.trial
    for n in range(trial.value.shape[0]):
        for m in range(trial.value.shape[1]):
            current.value[n, m] = trial.value[n, m]
    H, M, S = trial.best.shape  # without confidence sets nothing is in order of values
    for t in range(H):
        for m in range(M):
            for i in range(S):
                current.by_value[t, m, i] = trial.by_value[t, m, i]
                current.rank[t, m, i] = trial.rank[t, m, i]
                current.best[t, m, i] = trial.best[t, m, i]
                current.total[t, m, i] = trial.total[t, m, i]
            current.total[t, m, S] = trial.total[t, m, S]


@kernel
def mark_live(search, policy):
    """Mark the nodes on which the objective can depend: reachable by rows that are not saturated.

    For confidence sets every default node counts, since any state can be given mass.
    """
    rows, nodes, live = search.rows, search.nodes, search.work.live
    S, A, M, span, first = search.S, search.A, search.M, nodes.span, nodes.first
    for t in range(search.H + 1):
        for n in range(span[t], span[t + 1]):
            live[n] = search.confidence_set and n < span[t] + S
    for s in range(S):
        for m in range(M):
            if search.root[m, s] > 0.0:
                live[first[s]] = True
    for t in range(search.H - 1):
        for n in range(span[t], span[t + 1]):
            if not live[n]:
                continue
            a, s = policy[n], nodes.state[n]
            for m in range(M):
                row = (m * S + s) * A + a
                if not search.confidence_set and rows.gain[row] + rows.c2[row] >= rows.cap:
                    continue
                for k in range(rows.start[row], rows.stop[row]):
                    if rows.p_hat[k] > 0.0 or search.confidence_set:
                        live[nodes.succ[nodes.edge[n, a] + rows.observation[k]]] = True


@kernel
def try_switch(search, policy, node, value):
    """The objective if `node` had the values `work.switched`; all before it is evaluated exactly.

    Only live nodes are touched, and only contexts in which something changes. Uses `trial`.
    """
    rows, nodes, scratch, trial = search.rows, search.nodes, search.scratch, search.trial
    span, live, switched = nodes.span, search.work.live, search.work.switched
    current, tried = search.current.value, trial.value
    t = nodes.step[node]
    for m in range(search.M):
        if switched[m] == current[node, m]:
            continue
        for n in range(span[t], span[t + 1]):
            tried[n, m] = current[n, m]
        tried[node, m] = switched[m]
        settle(rows, nodes, t, m, m + 1, trial)
        changed = True
        for back in range(t):
            if not changed:
                break
            begin, end = span[t - 1 - back], span[t - back]
            for n in range(begin, end):
                tried[n, m] = current[n, m]
            visit_rows(rows, nodes, begin, end, live, policy, -1, m, m + 1, trial, tried, BACK_UP,
                       0.0, scratch)  # fmt: skip
            settle(rows, nodes, t - 1 - back, m, m + 1, trial)
            changed = False
            for n in range(begin, end):
                changed = changed or tried[n, m] != current[n, m]
        if changed:
            for s in range(search.S):
                n = nodes.first[s]
                value += search.root[m, s] * (tried[n, m] - current[n, m])
    return value


@kernel
def checked_pass(search, policy, value, every):
    """Try single switches, last nodes first; keep one only if the objective rises. Returns it.

    Tried: switches that look better by `reach`, and those better in some context and worse in none;
    with `every`, all that are better in some context.
    """
    rows, nodes, scratch, work = search.rows, search.nodes, search.scratch, search.work
    switched, reach, live, span = work.switched, work.reach, work.live, nodes.span
    valuation, current, A, M = search.current, search.current.value, search.A, search.M
    options = np.empty((A, *current.shape))  # values of all actions
    for back in range(search.H):
        t = search.H - 1 - back
        begin, end = span[t], span[t + 1]
        # switches at this step change no later value: back up all actions of its nodes at once
        for a in range(A):
            visit_rows(rows, nodes, begin, end, live, policy, a, 0, M, valuation, options[a],
                       BACK_UP, 0.0, scratch)  # fmt: skip
        for n in range(end - 1, begin - 1, -1):
            if not live[n] or not nodes.played[n]:
                continue
            for a in range(A):
                if a == policy[n]:
                    continue
                gain, better, worse = 0.0, False, False
                for m in range(M):
                    switched[m] = options[a, n, m]
                    gain += reach[n, m] * (switched[m] - current[n, m])
                    better = better or switched[m] > current[n, m]
                    worse = worse or switched[m] < current[n, m]
                if not better or not (every or gain > TOLERANCE or not worse):
                    continue
                if try_switch(search, policy, n, value) > value + TOLERANCE or not worse:
                    policy[n] = a
                    value = evaluate(search, policy, valuation)
    return value


@kernel
def evaluate_policy(search, policy, valued, stale):
    """Exact optimistic value of a policy, whose values are then `current`.

    Before, `current` holds those of the policy `valued (N,)`, but for the contexts `stale (M,)`,
    whose rows have changed since: if it is the same policy, only these are computed.
    """
    rows, nodes, scratch, span = search.rows, search.nodes, search.scratch, search.nodes.span
    current, values = search.current, search.current.value
    every = True
    for m in range(search.M):
        every = every and stale[m]
    for n in range(len(policy)):
        every = every or policy[n] != valued[n]
        valued[n] = policy[n]
    if every:
        stale[:] = False
        return evaluate(search, policy, current)
    for m in range(search.M):
        if not stale[m]:
            continue
        stale[m] = False
        for back in range(search.H):
            t = search.H - 1 - back
            visit_rows(rows, nodes, span[t], span[t + 1], nodes.played, policy, -1, m, m + 1,
                       current, values, BACK_UP, 0.0, scratch)  # fmt: skip
            settle(rows, nodes, t, m, m + 1, current)
    return objective(search, values)


@kernel
def kick(search, policy, root, through_cap):
    """Two sweeps under other weights, kept whatever they do to the objective; returns it."""
    for _ in range(2):
        if propose(search, policy, root, through_cap, search.current) >= 0.0:
            copy_policy(search.work.proposal, policy)
    return objective(search, search.current.value)


@kernel
def improve(search, policy, valued, stale, kicked, root, through_cap, goal, sweeps, passes, every,
            gain, gap_share):  # fmt: skip
    """Improve a policy in place: sweeps while they help, then checked passes until none does.

    `valued` and `stale` as in `evaluate_policy`; afterwards `current` holds the policy's values. If
    `kicked`, it is kicked first, with the weights `root` and `through_cap`. Stops at the value
    `goal`, after `sweeps` sweeps and passes in all, of which at most `passes` are checked (of
    `every` switch, if so), or when a step gains at most `gain` or (unless `every`) at most
    `gap_share` of what is left to `goal`. Returns the exact value.
    """
    value = evaluate_policy(search, policy, valued, stale)
    if kicked:
        value = kick(search, policy, root, through_cap)
    for _ in range(sweeps):
        if value >= goal:
            break
        new = value
        proposed = propose(search, policy, search.root, 0.0, search.trial)
        if proposed > value + TOLERANCE:
            copy_policy(search.work.proposal, policy)
            adopt_trial(search)
            new = proposed
        elif passes > 0 and (proposed >= 0.0 or every):
            passes -= 1
            mark_live(search, policy)
            new = checked_pass(search, policy, value, every)
        done = new <= value + (gain if every else max(gain, gap_share * (goal - value)))
        value = new
        if done:
            break
    copy_policy(policy, valued)
    return value
