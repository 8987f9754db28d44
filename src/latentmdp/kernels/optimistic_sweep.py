"""Policies under an optimistic model: evaluation, reach weights, sweeps, checked switches, kicks.

Written for layered graphs; the Markov class is the graph of default nodes alone
(`optimistic_arena.py`). A policy is an action per node, given by its offset in the arena's
integers. Values of set 0 belong to the policy in force, `g` is the derivative of the objective in
them.

Below the cap backups are convex and monotone, so a backward sweep by `g` never lowers the
objective; with the cap it may, so whatever a sweep proposes is kept only if exact evaluation
agrees.
"""

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.optimistic_backup import backup, push

TOLERANCE = 1e-12


@kernel
def objective(x, which):
    """Eq. (5): the mixture over contexts and first states."""
    total = 0.0
    for s in range(x.S):
        for m in range(x.M):
            w = x.P[x.root + m * x.S + s]
            if w > 0.0:
                total += w * x.F[x.alpha + (which * x.N + x.G[x.first + s]) * x.M + m]
    return total


@kernel
def evaluate_policy(x, policy, which):
    """Exact optimistic values of a policy, to set `which`; returns the objective. `O(N M b)`."""
    out = x.alpha + which * x.N * x.M
    for t in range(x.H - 1, -1, -1):
        for part in range(2):
            n0 = t * x.S if part == 0 else x.G[x.span + t]
            n1 = (t + 1) * x.S if part == 0 else x.G[x.span + t + 1]
            if n1 > n0:
                backup(x, n0, n1, x.every, policy, -1, 0, x.M, which, out)
    return objective(x, which)


@kernel
def context_known(x, m):
    """Optimistic dynamic programming in context `m` alone: value set 2 and `known_q`."""
    S, A, M, F = x.S, x.A, x.M, x.F
    known = x.alpha + 2 * x.N * M
    for t in range(x.H - 1, -1, -1):
        for a in range(A):
            backup(x, t * S, (t + 1) * S, x.every, 0, a, m, m + 1, 2, x.q)
            for n in range(t * S, (t + 1) * S):
                value = F[x.q + n * M + m]
                F[x.known_q + (n * A + a) * M + m] = value
                at = known + n * M + m
                F[at] = value if a == 0 else max(F[at], value)


@kernel
def root_bound(x):
    """Certified bound on the objective: from the second step on, the context is known."""
    total = 0.0
    for s in range(x.S):
        top = 0.0
        for a in range(x.A):
            value = 0.0
            for m in range(x.M):
                value += x.P[x.root + m * x.S + s] * x.F[x.known_q + (s * x.A + a) * x.M + m]
            top = max(top, value)
        total += top
    return total


@kernel
def bound_contexts(x, contexts):
    """`root_bound` after new dynamic programming in these contexts."""
    for m in contexts:
        context_known(x, m)
    return root_bound(x)


@kernel
def mark_live(x, policy):
    """Mark the nodes on which the objective can depend: reachable by rows that are not saturated.

    For intervals every default node counts, since any state can be given mass.
    """
    S, M, A, I, P, T, G = x.S, x.M, x.A, x.I, x.P, x.T, x.G  # noqa: E741
    for n in range(x.N):
        I[x.live + n] = x.interval and n < x.D
    for s in range(S):
        for m in range(M):
            if P[x.root + m * S + s] > 0.0:
                I[x.live + G[x.first + s]] = 1
    for t in range(x.H - 1):
        for part in range(2):
            n0 = t * S if part == 0 else G[x.span + t]
            n1 = (t + 1) * S if part == 0 else G[x.span + t + 1]
            for n in range(n0, n1):
                if I[x.live + n] == 0 or (x.interval and part == 0):
                    continue
                a = I[policy + n]
                for m in range(M):
                    row = (m * S + G[n]) * A + a
                    c = x.coef + 5 * row
                    if not x.interval and P[c] + P[c + 2] >= x.cap:
                        continue
                    for k in range(T[row], T[row + 1]):
                        if P[4 * k] > 0.0 or x.interval:
                            child = (t + 1) * S + T[x.next + k]
                            if part == 1:
                                child = G[x.succ + G[x.edge + (n - x.D) * A + a] + T[x.obs + k]]
                            I[x.live + child] = 1


@kernel
def reach(x, policy, which, root, tilted, through_cap):
    """`g`: the derivative of the objective in every node's values, pushed forward step by step.

    `root` is the offset of the weights `(M, S)`, in `F` if `tilted`, else in `P`.
    """
    S, M, F = x.S, x.M, x.F
    for i in range(x.N * M):
        F[x.g + i] = 0.0
    for s in range(S):
        for m in range(M):
            w = F[root + m * S + s] if tilted else x.P[root + m * S + s]
            F[x.g + x.G[x.first + s] * M + m] += w
    for t in range(x.H - 1):
        for part in range(2):
            n0 = t * S if part == 0 else x.G[x.span + t]
            n1 = (t + 1) * S if part == 0 else x.G[x.span + t + 1]
            if n1 > n0:
                push(x, n0, n1, policy, which, through_cap)


@kernel
def sweep(x, policy, which):
    """Best action at every weighted node, backwards, with already updated later values.

    Rewrites the policy and its values (set `which`); returns the number of switches. Actions are
    skipped when even a known context could not make them win.
    """
    S, A, M, F, I, G = x.S, x.A, x.M, x.F, x.I, x.G  # noqa: E741
    alpha = x.alpha + which * x.N * M
    switches = 0
    for t in range(x.H - 1, -1, -1):
        for part in range(2):
            n0 = t * S if part == 0 else G[x.span + t]
            n1 = (t + 1) * S if part == 0 else G[x.span + t + 1]
            for a in range(-1, A):  # -1: the incumbent actions
                some = a < 0
                for n in range(n0, n1):
                    wanted = a < 0
                    if a >= 0 and I[policy + n] != a:
                        bound, top = 0.0, F[x.top + n]
                        at = ((t * S + G[n]) * A + a) * M
                        for m in range(M):
                            bound += F[x.g + n * M + m] * F[x.known_q + at + m]
                        wanted = bound > top + TOLERANCE * (1.0 + top)
                        some = some or wanted
                    I[x.wanted + n] = wanted
                if not some or n1 <= n0:
                    continue
                backup(x, n0, n1, x.wanted, policy, a, 0, M, which, x.q)
                for n in range(n0, n1):
                    if I[x.wanted + n] == 0:
                        continue
                    value = 0.0
                    for m in range(M):
                        value += F[x.g + n * M + m] * F[x.q + n * M + m]
                    top = F[x.top + n]
                    if a < 0 or value > top + TOLERANCE * (1.0 + top):
                        F[x.top + n] = value
                        I[x.candidate + n] = a
                        for m in range(M):
                            F[alpha + n * M + m] = F[x.q + n * M + m]
            for n in range(n0, n1):
                if I[x.candidate + n] >= 0:
                    I[policy + n] = I[x.candidate + n]
                    switches += 1
    return switches


@kernel
def try_switch(x, policy, node, value):
    """Objective if `node` had the values in `F[top:top+M]`; all above is re-evaluated exactly.

    Only live nodes and contexts whose values moved are touched. Uses value set 1.
    """
    S, M, F, G = x.S, x.M, x.F, x.G
    alpha, trial = x.alpha, x.alpha + x.N * M
    t = G[x.step + node]
    for m in range(M):
        new = F[x.top + m]
        if new == F[alpha + node * M + m]:
            continue
        for part in range(2):
            n0 = t * S if part == 0 else G[x.span + t]
            n1 = (t + 1) * S if part == 0 else G[x.span + t + 1]
            for n in range(n0, n1):
                F[trial + n * M + m] = F[alpha + n * M + m]
        F[trial + node * M + m] = new
        moved, u = True, t - 1
        while u >= 0 and moved:
            moved = False
            for part in range(2):
                n0 = u * S if part == 0 else G[x.span + u]
                n1 = (u + 1) * S if part == 0 else G[x.span + u + 1]
                if n1 <= n0:
                    continue
                for n in range(n0, n1):
                    F[trial + n * M + m] = F[alpha + n * M + m]
                backup(x, n0, n1, x.live, policy, -1, m, m + 1, 1, trial)
                for n in range(n0, n1):
                    if F[trial + n * M + m] != F[alpha + n * M + m]:
                        moved = True
            u -= 1
        if moved:
            for s in range(S):
                at = G[x.first + s] * M + m
                value += x.P[x.root + m * S + s] * (F[trial + at] - F[alpha + at])
    return value


@kernel
def checked_pass(x, policy, value, every):
    """Try single switches, last nodes first; keep one only if the objective rises. Returns it.

    Tried: switches that look better by `g`, and those better in some context and worse in none;
    with `every`, all that are better in some context.
    """
    M, F, I = x.M, x.F, x.I  # noqa: E741
    for back in range(x.N):
        n = x.N - 1 - back
        if I[x.live + n] == 0 or x.G[x.step + n] >= x.H:
            continue
        for a in range(x.A):
            if a == I[policy + n]:
                continue
            backup(x, n, n + 1, x.every, policy, a, 0, M, 0, x.q)
            gain, better, worse = 0.0, False, False
            for m in range(M):
                new, old = F[x.q + n * M + m], F[x.alpha + n * M + m]
                F[x.top + m] = new
                gain += F[x.g + n * M + m] * (new - old)
                better = better or new > old
                worse = worse or new < old
            if not better or not (every or gain > TOLERANCE or not worse):
                continue
            if try_switch(x, policy, n, value) > value + TOLERANCE or not worse:
                I[policy + n] = a
                value = evaluate_policy(x, policy, 0)
    return value


@kernel
def polish(x, policy, value, passes, every, sweeps, gain):
    """Sweeps while they help, then checked passes until none does. Returns the objective.

    Value set 0 holds the policy's values, before and after. At most `sweeps` sweeps and `passes`
    checked passes; to help is to gain more than `gain`.
    """
    I = x.I  # noqa: E741
    while True:
        sweeps -= 1
        reach(x, policy, 0, x.root, False, 0.0)
        for n in range(x.N):
            I[x.proposal + n] = I[policy + n]
        switches = sweep(x, x.proposal, 1)
        new = value
        if switches > 0 and objective(x, 1) > value + TOLERANCE:
            for n in range(x.N):
                I[policy + n] = I[x.proposal + n]
            new = evaluate_policy(x, policy, 0)
        elif passes > 0 and (switches > 0 or every):
            passes -= 1
            mark_live(x, policy)
            new = checked_pass(x, policy, value, every)
        if new <= value + gain or sweeps <= 0:
            return new
        value = new


@kernel
def search(x, upper, passes, every, sweeps, gain, tilt, look, jolt):
    """Improve the arena's policy until nothing helps or `upper` is reached. Returns the objective.

    Kicks: `tilt (n, M)` multiplies the weights of the contexts and `look (n,)` is the factor on
    reach through the cap, for two sweeps; `jolt (k, N)` holds an action where a node is to be
    disturbed and -1 elsewhere. Each is polished under the true weights and kept if better. The rest
    as in `polish`.
    """
    F, I = x.F, x.I  # noqa: E741
    value = evaluate_policy(x, x.policy, 0)
    if value < upper - TOLERANCE:
        value = polish(x, x.policy, value, passes, every, sweeps, gain)
    kicked = False
    for kick in range(len(look) + len(jolt)):
        if value >= upper - TOLERANCE:
            break
        kicked = True
        for n in range(x.N):
            I[x.kicked + n] = I[x.policy + n]
        if kick < len(look):
            for m in range(x.M):
                for s in range(x.S):
                    at = m * x.S + s
                    F[x.tilted + at] = x.P[x.root + at] * tilt[kick, m]
            for _ in range(2):
                evaluate_policy(x, x.kicked, 0)
                reach(x, x.kicked, 0, x.tilted, True, look[kick])
                sweep(x, x.kicked, 0)
        else:
            for n in range(x.N):
                if jolt[kick - len(look), n] >= 0:
                    I[x.kicked + n] = jolt[kick - len(look), n]
        new = evaluate_policy(x, x.kicked, 0)
        new = polish(x, x.kicked, new, passes, every, sweeps, gain)
        if new > value + TOLERANCE:
            value = new
            for n in range(x.N):
                I[x.policy + n] = I[x.kicked + n]
    if kicked:
        value = evaluate_policy(x, x.policy, 0)
    return value
