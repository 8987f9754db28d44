"""A sweep for two optimistic models at once: the step between a policy and an argmax near it.

The tie rule wants a policy that is an argmax of the primary model and good for the secondary one.
Sweeps on `weight * primary + secondary` with a growing weight lead there from the secondary's best.
"""

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.optimistic_arena import arena_at
from latentmdp.kernels.optimistic_backup import backup
from latentmdp.kernels.optimistic_sweep import TOLERANCE, adopt_values, reach
from latentmdp.kernels.optimistic_values import objective


@kernel
def mixed_sweep(x, y, policy, weight):
    """One sweep on `weight * primary + secondary`; rewrites the policy in both arenas.

    Set 0 of both holds its values, set 1 those of the result. Returns the number of switches.
    """
    S, A, M, F, I, G = x.S, x.A, x.M, x.F, x.I, x.G  # noqa: E741
    reach(x, policy, 0, x.root, False, 0.0)
    reach(y, policy, 0, y.root, False, 0.0)
    switches, moved = 0, False
    for t in range(x.H - 1, -1, -1):
        before = switches
        for part in range(2):
            n0 = t * S if part == 0 else G[x.span + t]
            n1 = (t + 1) * S if part == 0 else G[x.span + t + 1]
            if n1 <= n0:
                continue
            for a in range(-1, A):  # -1: the incumbent actions, anew if a later one was switched
                for n in range(n0, n1):
                    wanted = I[x.used + n] != 0 and I[policy + n] != a
                    I[x.wanted + n] = y.I[y.wanted + n] = wanted
                if a >= 0 or moved:
                    backup(x, n0, n1, x.wanted, policy, a, 0, M, 1, x.q)
                    backup(y, n0, n1, y.wanted, policy, a, 0, M, 1, y.q)
                else:
                    for i in range(n0 * M, n1 * M):
                        F[x.q + i], y.F[y.q + i] = F[x.alpha + i], y.F[y.alpha + i]
                for n in range(n0, n1):
                    if I[x.wanted + n] == 0:
                        continue
                    value = 0.0
                    for i in range(n * M, (n + 1) * M):
                        value += weight * F[x.g + i] * F[x.q + i] + y.F[y.g + i] * y.F[y.q + i]
                    if a < 0 or value > F[x.top + n] + TOLERANCE * (1.0 + F[x.top + n]):
                        F[x.top + n] = value
                        I[x.candidate + n] = a
                        for i in range(n * M, (n + 1) * M):
                            F[x.alpha + x.N * M + i] = F[x.q + i]
                            y.F[y.alpha + x.N * M + i] = y.F[y.q + i]
            for n in range(n0, n1):
                if I[x.candidate + n] >= 0:
                    I[policy + n] = I[x.candidate + n]
                    y.I[policy + n] = I[x.candidate + n]
                    switches += 1
        moved = moved or switches > before
    return switches


@kernel
def mix(primary, secondary, policy, weights, enough):
    """Sweeps by growing weights until the policy's primary value, which is returned, is `enough`.

    Two sweeps a weight, unless the first one changes nothing. Arguments are two arenas of the same
    graph, by address, and the policy's offset in both; set 0 of both holds its values.
    """
    x, y = arena_at(primary), arena_at(secondary)
    value = objective(x, 0)
    for weight in weights:
        for _ in range(2):
            if mixed_sweep(x, y, policy, weight) == 0:
                break
            adopt_values(x)
            adopt_values(y)
        value = objective(x, 0)
        if value >= enough:
            break
    return value
