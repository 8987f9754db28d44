"""A tighter bound on the optimistic optimum: what not knowing the context must cost.

`U_m(t, s)` and `Q_m(t, s, a)` are the optimistic values with the context known. A policy's values
`alpha` lie below `U`; its *loss* at a history `h` is `U - alpha(h)`. For weights `g >= 0` on
contexts let `D_h(g)` be the least `sum_m g_m loss_m(h)` of all policies: concave, homogeneous, and

    D_h(g) >= min_a  sum_m g_m (U_m - Q_m(a) - theta_m e_m(a)) + sum_o D_ho(theta_m s_mo(a) g_m)

over what is seen next, `o`, for any `theta` in `[0, 1]^M` (proved in docs/optimism.md): `s_mo` are
*slopes*, the least loss per loss at the next history, and `e_m >= 0` is how far a capped backup
exceeds the cap, the loss that it swallows (`theta = 1` unless capped). So `D` depends on `h` by its
step and state alone: a planning problem with known transitions `s`, costs instead of rewards, and
beliefs `g`. It is solved from both sides as such problems are, by trials from the root: where a
lower bound on `D` is known at a point `g'`, `D(g) >= D(c g') + D(g - c g') >= c D(g')` for the
largest `c` with `c g' <= g`; where the loss `lambda` of a policy is known, `D(g) <= lambda . g`.
Every point is kept as a record `(g, lower bound, lambda)` in the list of its step and state.

The lower side alone makes the bound `sum_s root_s . U - D_s(root_s)`, valid at every stop; the
upper side says where a trial should look, which `theta` to take, and when nothing is left to gain.
"""

import math

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.optimistic_arena import arena_at
from latentmdp.kernels.optimistic_slopes import least_values, prepare, work_at

CLOSED = 1e-11  # gaps below are not looked into
VAIN = 20  # trials in a row that gain nothing before the search ends


@kernel
def look(y, n, g):
    """Bounds on `D_n(g)`, and which loss vector has the upper one: a record, or `-1 - m`.

    To begin with, the policy that is best in context `m` loses nothing there and at most
    `U - least` in each other context.
    """
    M, F, W, Z = y.M, y.F, y.W, y.Z
    known, least = y.known + n * M, y.lowest + n * M
    low, high, top, which, some = 0.0, 0.0, -1.0, -1, 0
    for m in range(M):
        loss = W[g + m] * (F[known + m] - F[least + m])
        high += loss
        if W[g + m] > 0.0:
            some += 1
        if loss > top:
            top, which = loss, -1 - m
    if some < 2:
        return 0.0, 0.0, which
    high -= top
    i = Z[y.head + n]
    while i >= 0:
        at = i * (2 * M + 1)
        ratio, loss = math.inf, 0.0
        for m in range(M):
            loss += W[g + m] * W[at + M + 1 + m]
            if W[at + m] > 0.0 and W[g + m] < ratio * W[at + m]:
                ratio = W[g + m] / W[at + m]
        low = max(low, ratio * W[at + M])
        if loss < high:
            high, which = loss, i
        i = Z[y.link + i]
    return min(low, high), high, which


@kernel
def fan_out(y, n, a, g, theta):
    """Weights of what may be seen after `a`: `child[o, m] = theta_m s_mo g_m`. Returns how many."""
    M, S, T, W, seen = y.M, y.S, y.T, y.W, 0
    if n // S + 1 == y.H:
        return 0
    slope = y.slope + (n // S) * y.slots
    for m in range(M):
        row = (m * S + n % S) * y.A + a
        for k in range(T[row], T[y.stop + row]):
            o = T[y.obs + k]
            while seen <= o:
                for i in range(M):
                    W[y.child + seen * M + i] = 0.0
                y.Z[y.state + seen] = 0
                seen += 1
            W[y.child + o * M + m] = W[theta + m] * W[g + m] * W[slope + k]
            y.Z[y.state + o] = T[y.next + k]
    return seen


@kernel
def weigh(y, n, a, g, theta):
    """What the right side of the recursion adds to the loss at once, from both sides."""
    M, W, Z, low, high = y.M, y.W, y.Z, 0.0, 0.0
    for m in range(M):
        swallowed = W[theta + m] * W[g + m] * W[y.excess + (n * y.A + a) * M + m]
        low -= swallowed
        high -= swallowed
    for o in range(fan_out(y, n, a, g, theta)):
        after = (n // y.S + 1) * y.S + Z[y.state + o]
        lo, hi, Z[y.vector + o] = look(y, after, y.child + o * M)
        low += lo
        high += hi
    return low, high


@kernel
def lose(y, n, a):
    """The loss of `a` at `n`, then of the policies whose losses `vector` has."""
    M, S, T, F, W = y.M, y.S, y.T, y.F, y.W
    slope = y.slope + (n // S) * y.slots
    known, least = y.known, y.lowest
    for m in range(M):
        row, after = (m * S + n % S) * y.A + a, 0.0
        if n // S + 1 < y.H:
            for k in range(T[row], T[y.stop + row]):
                which = y.Z[y.vector + T[y.obs + k]]
                at = ((n // S + 1) * S + T[y.next + k]) * M + m
                if which >= 0:
                    after += W[slope + k] * W[(which + 1) * (2 * M + 1) - M + m]
                elif which != -1 - m:
                    after += W[slope + k] * (F[known + at] - F[least + at])
        at = (n * y.A + a) * M + m
        here = F[known + n * M + m] - F[y.known_q + at]
        W[y.loss + m] = here + max(after - W[y.excess + at], 0.0)


@kernel
def judge(y, n, a, g):
    """A lower bound on the loss of `a` at `n` after the loss at once; the upper one is in `loss`.

    `theta` is 0 in all capped contexts, or found one by one from 1, 1/2, 0 as the upper side has
    it; the latter stays.
    """
    M, W, capped = y.M, y.W, False
    theta, off = y.theta, y.off
    for m in range(M):
        W[theta + m], W[off + m] = 1.0, 1.0
        if W[g + m] > 0.0 and W[y.excess + (n * y.A + a) * M + m] > 0.0:
            capped, W[off + m] = True, 0.0
    best, most = weigh(y, n, a, g, theta)
    lose(y, n, a)
    if capped:
        best = max(best, weigh(y, n, a, g, off)[0])
        for m in range(M):
            if W[off + m] == 0.0:
                keep = 1.0
                for half in range(2):
                    W[theta + m] = 0.5 * half
                    low, high = weigh(y, n, a, g, theta)
                    best = max(best, low)
                    if high > most:
                        most, keep = high, 0.5 * half
                W[theta + m] = keep
    return best


@kernel
def back_up(y, n, g):
    """A record for `D_n(g)` from those one step later, if it says anything new: the second answer.

    The first is the action with the least lower bound.
    """
    M, A, F, W, Z = y.M, y.A, y.F, y.W, y.Z
    low, high, action = math.inf, math.inf, 0
    for a in range(A):
        below = 0.0
        for m in range(M):
            here = F[y.known + n * M + m] - F[y.known_q + (n * A + a) * M + m]
            below += W[g + m] * here
        if below >= high:
            continue  # no better from either side
        below += judge(y, n, a, g)
        above = 0.0
        for m in range(M):
            above += W[g + m] * W[y.loss + m]
        if above < high:
            high = above
            for m in range(M):
                W[y.least + m] = W[y.loss + m]
        if below < low:
            low, action = below, a
    old_low, old_high, _ = look(y, n, g)
    new = low > old_low + CLOSED or high < old_high - CLOSED
    if new:
        i, same = Z[y.head + n], False
        while i >= 0 and not same:  # a trial often begins like an earlier one
            same = True
            for m in range(M):
                same = same and W[i * (2 * M + 1) + m] == W[g + m]
            if not same:
                i = Z[y.link + i]
        if not same:
            i = Z[0]
            Z[0] += 1
            Z[y.link + i], Z[y.head + n] = Z[y.head + n], i
        at = i * (2 * M + 1)
        W[at + M] = max(low, old_low)
        for m in range(M):
            W[at + m] = W[g + m]
            if not same or high < old_high:
                W[at + M + 1 + m] = W[y.least + m]
    return action, new


@kernel
def open_gap(y, n, g):
    """How wide the bounds on `D_n(g)` are apart; where backups have been in vain, less."""
    low, high, _ = look(y, n, g)
    return (high - low) / (1.0 + y.Z[y.vain + n]) if high - low > CLOSED else 0.0


@kernel
def tighten(here, work_here, budget, goal):
    """The bound after `budget` backups, or sooner if it reaches `goal` or nothing is gained.

    Expects the values with context known (set 2, `known_q`) and the observations of the slots;
    overwrites value set 1.
    """
    x, y = arena_at(here), work_at(work_here)
    M, S, W, Z = x.M, x.S, y.W, y.Z
    done, vain = 0, 0
    least_values(x)
    while True:
        total, gap, first = 0.0, 0.0, -1
        for s in range(S):
            for m in range(M):
                W[y.path + m] = x.P[x.root + m * S + s]
                total += W[y.path + m] * y.F[y.known + s * M + m]
            total -= look(y, s, y.path)[0]
            wide = open_gap(y, s, y.path)
            if wide > gap:
                gap, first = wide, s
        if first < 0 or total <= goal or done >= budget or vain >= VAIN:
            return total
        # a trial: by the most promising actions to where the gaps are widest, and back
        for m in range(M):
            W[y.path + m] = x.P[x.root + m * S + first]
        Z[y.node] = first
        t, down = 0, True
        vain += 1
        while t >= 0 and done < budget:
            n, g = Z[y.node + t], y.path + t * M
            prepare(x, y, n)
            action, new = back_up(y, n, g)
            done += 1
            Z[y.vain + n] = 0 if new else Z[y.vain + n] + 1
            vain = 0 if new else vain
            widest, gap = -1, 0.0
            if down:
                judge(y, n, action, g)
                for o in range(fan_out(y, n, action, g, y.theta)):
                    wide = open_gap(y, (t + 1) * S + Z[y.state + o], y.child + o * M)
                    if wide > gap:
                        gap, widest = wide, o
            down = widest >= 0
            if down:
                t += 1
                Z[y.node + t] = t * S + Z[y.state + widest]
                for m in range(M):
                    W[y.path + t * M + m] = W[y.child + widest * M + m]
            else:
                t -= 1
