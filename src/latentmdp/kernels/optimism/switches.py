"""Checked switches: single actions changed one at a time, kept if the objective rises.

They find what sweeps miss where the cap or a confidence set makes `reach` a poor guide. Each costs
an evaluation of everything before the node, so only small graphs can afford them.
"""

import numpy as np

from latentmdp.kernels.optimism.step import BACK_UP, settle, visit_rows
from latentmdp.kernels.optimism.sweep import TOLERANCE
from latentmdp.kernels.optimism.values import evaluate
from latentmdp.runtime.kernel_cache import kernel


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
