"""One optimistic step with a bonus, Eqs. (3) and (4): values of nodes, and the derivative.

Monotone in the next values and, below the cap, convex. Each call handles a block of nodes of one
step. Nothing is allocated; `x` is the arena (`optimistic_arena.py`).
"""

import math

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.optimistic_arena import child_of


@kernel
def bonus_block(x, n0, n1, mask, policy, action, m0, m1, which, out):
    """`min(cap, r + p.v + max(c1 sqrt(Var(p, v)), c2) + c3)` for a block. Eqs. (3), (4).

    Nodes `n0 <= n < n1` with `I[mask + n]`, contexts `m0 <= m < m1`; `action` for all, or if it is
    -1 each node's own `I[policy + n]`; next values from set `which`. Results to `F[out + n*M + m]`.
    `O(b)` a row.
    """
    cap, M, S, A, D, v = x.cap, x.M, x.S, x.A, x.D, x.v
    T, P, G, F, I = x.T, x.P, x.G, x.F, x.I  # noqa: E741
    coef, values = x.coef, x.alpha + which * x.N * M
    for n in range(n0, n1):
        if I[mask + n] == 0:
            continue
        s = G[n]
        a = I[policy + n] if action < 0 else action
        default = n < D
        later = (G[x.step + n] + 1) * S
        first = 0 if default else x.succ + G[x.edge + (n - D) * A + a]
        for m in range(m0, m1):
            row = (m * S + s) * A + a
            base, c2 = P[coef + 5 * row], P[coef + 5 * row + 2]
            at = out + n * M + m
            if not default and I[x.active + n * M + m] == 0:
                F[at] = 0.0
                continue
            if base + c2 >= cap:  # saturated; also a row without visits (c2 = inf)
                F[at] = cap
                continue
            lo = T[row]
            b = T[x.stop + row] - lo
            mean = 0.0
            for i in range(b):
                k = lo + i
                child = child_of(x, k, default, first, later)
                value = F[values + child * M + m]
                r = P[4 * k + 1]
                if r > 0.0:
                    value = min(r + value, cap)
                F[v + i] = value
                mean += P[4 * k] * value
            bonus = c2
            c1 = P[coef + 5 * row + 1]
            # values in [0, cap]: a deviation is at most cap/2, and 0 where one outcome is certain
            if c1 * cap > 2.0 * c2 and P[4 * lo] < 1.0:
                variance = 0.0
                for i in range(b):
                    off = F[v + i] - mean  # `**` would compile for longer
                    variance += P[4 * (lo + i)] * off * off
                bonus = max(c2, c1 * math.sqrt(variance))
            F[at] = min(base + mean + bonus, cap)


@kernel
def bonus_push(x, n0, n1, policy, which, through_cap):
    """Add `g[n]` times the derivative of the bonus backup at `n` to the weights of its children.

    Never negative. At the cap the derivative is 0; kicks look through it with `through_cap * p`.
    """
    cap, M, S, A, D, v = x.cap, x.M, x.S, x.A, x.D, x.v
    T, P, G, F, I = x.T, x.P, x.G, x.F, x.I  # noqa: E741
    coef, values, g = x.coef, x.alpha + which * x.N * M, x.g
    for n in range(n0, n1):
        s = G[n]
        a = I[policy + n]
        default = n < D
        later = (G[x.step + n] + 1) * S
        first = 0 if default else x.succ + G[x.edge + (n - D) * A + a]
        for m in range(M):
            weight = F[g + n * M + m]
            if weight <= 0.0:
                continue
            row = (m * S + s) * A + a
            base, c1, c2 = P[coef + 5 * row], P[coef + 5 * row + 1], P[coef + 5 * row + 2]
            if base + c2 >= cap and through_cap == 0.0:
                continue
            lo = T[row]
            b = T[x.stop + row] - lo
            mean = 0.0
            for i in range(b):
                k = lo + i
                child = child_of(x, k, default, first, later)
                value = F[values + child * M + m]
                if P[4 * k + 1] > 0.0:
                    value = min(P[4 * k + 1] + value, cap)
                F[v + i] = value
                mean += P[4 * k] * value
            bonus, slope = c2, 0.0
            if c1 * cap > 2.0 * c2 and P[4 * lo] < 1.0:
                variance = 0.0
                for i in range(b):
                    off = F[v + i] - mean  # `**` would compile for longer
                    variance += P[4 * (lo + i)] * off * off
                deviation = math.sqrt(variance)
                if c1 * deviation > c2:
                    bonus, slope = c1 * deviation, c1 / deviation
            if base + mean + bonus >= cap:
                weight *= through_cap
                slope = 0.0
                if weight == 0.0:
                    continue
            for i in range(b):
                k = lo + i
                if P[4 * k + 1] == 0.0 or F[v + i] < cap:
                    child = child_of(x, k, default, first, later)
                    tilt = max(1.0 + slope * (F[v + i] - mean), 0.0)
                    F[g + child * M + m] += weight * P[4 * k] * tilt
