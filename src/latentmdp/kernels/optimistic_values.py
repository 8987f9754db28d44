"""Values under an optimistic model: of a policy, and with the context known; what changed since.

Written for layered graphs; the Markov class is the graph of default nodes alone
(`optimistic_arena.py`). A policy is an action per node, given by its offset in the arena's
integers. Values of set 0 belong to the policy in force. Rows that have changed are *dirty* for
whatever was computed from them, and only what depends on dirty rows is computed again.
"""

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.optimistic_arena import MEMO
from latentmdp.kernels.optimistic_backup import backup
from latentmdp.kernels.optimistic_narrow import prepare_row


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
                backup(x, n0, n1, x.used, policy, -1, 0, x.M, which, out)
    return objective(x, which)


@kernel
def row_changed(x, row):
    """This row has new numbers: what is remembered must be brought up to date before use."""
    if x.interval:
        prepare_row(x, row)
    rows = x.M * x.S * x.A
    for k in range(MEMO + 1):
        x.I[x.dirty + k * rows + row] = 1
        x.I[x.stale + k * x.M + row // (x.S * x.A)] = 1


@kernel
def mark_clean(x, k, m):
    """What slot `k` remembers of context `m` is up to date."""
    pairs = x.S * x.A
    x.I[x.stale + k * x.M + m] = 0
    for i in range(pairs):
        x.I[x.dirty + (k * x.M + m) * pairs + i] = 0


@kernel
def update_step(x, policy, t, m):
    """Compute the values (set 0) of the `wanted` nodes of step `t` in context `m` anew.

    Returns whether any has moved.
    """
    S, M, F, I, G = x.S, x.M, x.F, x.I, x.G  # noqa: E741
    moved = False
    for part in range(2):
        n0 = t * S if part == 0 else G[x.span + t]
        n1 = (t + 1) * S if part == 0 else G[x.span + t + 1]
        some = False
        for n in range(n0, n1):
            some = some or I[x.wanted + n] != 0
        if not some:
            continue
        backup(x, n0, n1, x.wanted, policy, -1, m, m + 1, 0, x.q)
        for n in range(n0, n1):
            at = n * M + m
            if I[x.wanted + n] and F[x.q + at] != F[x.alpha + at]:
                F[x.alpha + at] = F[x.q + at]
                moved = True
    return moved


@kernel
def update_context(x, policy, k, m):
    """From the values (set 0) that slot `k` remembers to those of a policy, in context `m`.

    Backwards; while no later value has moved, only nodes are touched whose action is another one
    or whose row is dirty.
    """
    S, I, G = x.S, x.I, x.G  # noqa: E741
    dirty, old = x.dirty + (k * x.M + m) * S * x.A, x.memo_policy + k * x.N
    moved = False
    for t in range(x.H - 1, -1, -1):
        for part in range(2):
            n0 = t * S if part == 0 else G[x.span + t]
            n1 = (t + 1) * S if part == 0 else G[x.span + t + 1]
            for n in range(n0, n1):
                a = I[policy + n]
                hit = moved or I[old + n] != a or I[dirty + G[n] * x.A + a] != 0
                I[x.wanted + n] = hit and I[x.used + n] != 0
        moved = update_step(x, policy, t, m)


@kernel
def follow_switch(x, policy, node):
    """Bring the values (set 0) up to date with a switch of one node, to those in `F[top:top+M]`."""
    S, M, F, I, G = x.S, x.M, x.F, x.I, x.G  # noqa: E741
    for m in range(M):
        moved = F[x.top + m] != F[x.alpha + node * M + m]
        F[x.alpha + node * M + m] = F[x.top + m]
        t = G[x.step + node] - 1
        while moved and t >= 0:
            for part in range(2):
                n0 = t * S if part == 0 else G[x.span + t]
                n1 = (t + 1) * S if part == 0 else G[x.span + t + 1]
                for n in range(n0, n1):
                    I[x.wanted + n] = I[x.used + n]
            moved = update_step(x, policy, t, m)
            t -= 1


@kernel
def recall(x, policy):
    """The slot that remembers this policy's values, or -1."""
    for k in range(MEMO):
        if x.I[x.age + k] > 0:
            n, at = 0, x.memo_policy + k * x.N
            while n < x.N and x.I[at + n] == x.I[policy + n]:
                n += 1
            if n == x.N:
                return k
    return -1


@kernel
def nearest(x, policy):
    """The slot whose policy differs at the fewest nodes, or -1 if all are empty."""
    best, fewest = -1, x.N + 1
    for k in range(MEMO):
        if x.I[x.age + k] > 0:
            at, different = x.memo_policy + k * x.N, 0
            for n in range(x.N):
                different += x.I[at + n] != x.I[policy + n]
            if different < fewest:
                best, fewest = k, different
    return best


@kernel
def mark_used(x, k):
    """Slot `k` is the one used last."""
    x.I[x.age + MEMO] += 1
    x.I[x.age + k] = x.I[x.age + MEMO]


@kernel
def remember(x, policy):
    """Keep set 0 as the values of this policy, in the slot used longest ago if it has none."""
    k = recall(x, policy)
    if k < 0:
        k = 0
        for other in range(1, MEMO):
            if x.I[x.age + other] < x.I[x.age + k]:
                k = other
    for n in range(x.N):
        x.I[x.memo_policy + k * x.N + n] = x.I[policy + n]
    for i in range(x.N * x.M):
        x.F[x.memo + k * x.N * x.M + i] = x.F[x.alpha + i]
    for m in range(x.M):
        mark_clean(x, k, m)
    mark_used(x, k)


@kernel
def evaluate_remembered(x, policy):
    """Exact optimistic value of a policy; its values are in set 0.

    The last few policies are remembered: from the most similar one, only what differs is evaluated.
    """
    F, I, M = x.F, x.I, x.M  # noqa: E741
    k = recall(x, policy)
    known = k >= 0
    if not known:
        k = nearest(x, policy)
    if k < 0:
        evaluate_policy(x, policy, 0)
        remember(x, policy)
        return objective(x, 0)
    memo = x.memo + k * x.N * M
    for i in range(x.N * M):
        F[x.alpha + i] = F[memo + i]
    for m in range(M):
        if not known or I[x.stale + k * M + m]:
            update_context(x, policy, k, m)
            if known:
                for n in range(x.N):
                    F[memo + n * M + m] = F[x.alpha + n * M + m]
                mark_clean(x, k, m)
    if known:
        mark_used(x, k)
    else:
        remember(x, policy)
    return objective(x, 0)


@kernel
def context_known(x, m):
    """Optimistic dynamic programming in context `m` alone: value set 2 and `known_q`.

    Only rows that are dirty or follow a value that moved.
    """
    S, A, M, F, I = x.S, x.A, x.M, x.F, x.I  # noqa: E741
    known = x.alpha + 2 * x.N * M
    dirty = x.dirty + (MEMO * M + m) * S * A
    moved = False
    for t in range(x.H - 1, -1, -1):
        for a in range(A):
            some = moved
            for s in range(S):
                hit = moved or I[dirty + s * A + a] != 0
                some = some or hit
                I[x.wanted + t * S + s] = hit
            if not some:
                continue
            backup(x, t * S, (t + 1) * S, x.wanted, 0, a, m, m + 1, 2, x.q)
            for n in range(t * S, (t + 1) * S):
                if I[x.wanted + n]:
                    F[x.known_q + (n * A + a) * M + m] = F[x.q + n * M + m]
        moved = False
        for n in range(t * S, (t + 1) * S):
            value = F[x.known_q + n * A * M + m]
            for a in range(1, A):
                value = max(value, F[x.known_q + (n * A + a) * M + m])
            if value != F[known + n * M + m]:
                F[known + n * M + m] = value
                moved = True
    mark_clean(x, MEMO, m)


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
