"""Better policies under an optimistic model: reach weights, sweeps, checked switches, kicks.

`g` is the derivative of the objective in the values (set 0) of the policy in force. Below the cap
backups are convex and monotone, so a backward sweep by `g` never lowers the objective; with the cap
it may, so whatever a sweep proposes is kept only if exact evaluation agrees
(`optimistic_values.py`).
"""

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.optimistic_arena import arena_at, child_of
from latentmdp.kernels.optimistic_backup import backup, push
from latentmdp.kernels.optimistic_interval import copy_order
from latentmdp.kernels.optimistic_values import (
    evaluate_remembered,
    follow_switch,
    objective,
    remember,
)

TOLERANCE = 1e-12
SMALL = 1e-4  # of the gap to the bound: less gain is not worth another sweep


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
                    for k in range(T[row], T[x.stop + row]):
                        if P[4 * k] > 0.0 or x.interval:
                            first = 0 if part == 0 else x.succ + G[x.edge + (n - x.D) * A + a]
                            I[x.live + child_of(x, k, part == 0, first, (t + 1) * S)] = 1


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
def weigh_unreached(x):
    """Nodes on which the objective does not depend act as from the prior."""
    S, M, F = x.S, x.M, x.F
    prior = x.top + x.N
    for m in range(M):
        F[prior + m] = 0.0
        for s in range(S):
            F[prior + m] += x.P[x.root + m * S + s]
    for n in range(x.N):
        total = 0.0
        for m in range(M):
            total += F[x.g + n * M + m]
        if total == 0.0:
            for m in range(M):
                F[x.g + n * M + m] = F[prior + m] * x.I[x.active + n * M + m]


@kernel
def sweep(x, policy, which):
    """Best action at every weighted node, backwards, with already updated later values.

    Set 0 holds the policy's values. Rewrites the policy and its values (to set `which`); returns
    the number of switches. Actions are skipped when even a known context could not make them win;
    incumbent actions are not evaluated anew while no later value has moved.
    """
    S, A, M, F, I, G = x.S, x.A, x.M, x.F, x.I, x.G  # noqa: E741
    alpha = x.alpha + which * x.N * M
    switches, moved = 0, False
    for t in range(x.H - 1, -1, -1):
        now = False
        for part in range(2):
            n0 = t * S if part == 0 else G[x.span + t]
            n1 = (t + 1) * S if part == 0 else G[x.span + t + 1]
            for a in range(-1, A):  # -1: the incumbent actions
                some = a < 0
                for n in range(n0, n1):
                    wanted = a < 0 and I[x.used + n] != 0
                    if a >= 0 and I[policy + n] != a and I[x.used + n] != 0:
                        bound, top = 0.0, F[x.top + n]
                        at = ((t * S + G[n]) * A + a) * M
                        for m in range(M):
                            bound += F[x.g + n * M + m] * F[x.known_q + at + m]
                        wanted = bound > top + TOLERANCE * (1.0 + top)
                        some = some or wanted
                    I[x.wanted + n] = wanted
                if not some or n1 <= n0:
                    continue
                if a >= 0 or moved:
                    backup(x, n0, n1, x.wanted, policy, a, 0, M, which, x.q)
                else:
                    for i in range(n0 * M, n1 * M):
                        F[x.q + i] = F[x.alpha + i]
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
                            new = F[x.q + n * M + m]
                            now = now or new != F[x.alpha + n * M + m]
                            F[alpha + n * M + m] = new
            for n in range(n0, n1):
                if I[x.candidate + n] >= 0:
                    I[policy + n] = I[x.candidate + n]
                    switches += 1
        moved = now
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
        if I[x.live + n] == 0 or I[x.used + n] == 0 or x.G[x.step + n] >= x.H:
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
                follow_switch(x, policy, n)
                value = objective(x, 0)
    return value


@kernel
def sweep_from(x, policy, target, which, tilted, through_cap):
    """Reach weights of a policy with values in set 0, then a sweep from it to `target`.

    The target's values go to set `which`. Weights of first states are `tilted` or the model's own;
    with `through_cap < 0` the weights `g` are taken as they are. Returns the target's objective, or
    -1 if it is the same policy.
    """
    if through_cap >= 0.0:
        reach(x, policy, 0, x.tilted if tilted else x.root, tilted, through_cap)
        weigh_unreached(x)
    for n in range(x.N):
        x.I[target + n] = x.I[policy + n]
    return objective(x, which) if sweep(x, target, which) > 0 else -1.0


@kernel
def adopt_values(x):
    """Set 1 becomes set 0."""
    for i in range(x.N * x.M):
        x.F[x.alpha + i] = x.F[x.alpha + x.N * x.M + i]
    if x.interval:
        copy_order(x, 1, 0)


@kernel
def adopt(x, policy):
    """Take over the proposal, with its values in set 1; its objective."""
    for n in range(x.N):
        x.I[policy + n] = x.I[x.proposal + n]
    adopt_values(x)
    return objective(x, 0)


@kernel
def propose(here, policy, target, which, through_cap):
    """`sweep_from` by the model's own weights."""
    return sweep_from(arena_at(here), policy, target, which, False, through_cap)


@kernel
def improve(here, policy, top, sweeps, passes, every, gain, look):
    """Improve a policy in place: sweeps while they help, then checked passes until none does.

    Stops at the value `top`, after `sweeps` sweeps and passes in all, of which at most `passes` are
    checked (of `every` switch, if so), or when a step gains at most `gain` or (unless `every`)
    hardly any of what is left to `top`. With `look >= 0`, two sweeps under the tilted weights come
    first, with that factor on reach through the cap, whatever they do to the value: a kick. Returns
    the exact value, whose values are in set 0.
    """
    x = arena_at(here)
    start = value = evaluate_remembered(x, policy)
    if look >= 0.0:
        sweep_from(x, policy, policy, 0, True, look)
        sweep_from(x, policy, policy, 0, True, look)
        value = objective(x, 0)
    while sweeps > 0 and value < top:
        sweeps -= 1
        new = value
        proposed = sweep_from(x, policy, x.proposal, 1, False, 0.0)
        if proposed > value + TOLERANCE:
            new = adopt(x, policy)
        elif passes > 0 and (proposed >= 0.0 or every):
            passes -= 1
            mark_live(x, policy)
            new = checked_pass(x, policy, value, every)
        done = new <= value + (gain if every else max(gain, SMALL * (top - value)))
        value = new
        if done:
            break
    if value > start:
        remember(x, policy)
    return value
