"""One optimistic step: values of nodes from the values of their successors, and the derivative.

Two kernels, *bonus* (Eqs. 3 and 4) and *interval* (Eq. 2). Both are monotone in the next values
and, below the cap, convex. Each call handles a block of nodes of one step. Nothing is allocated;
`x` is the arena.

Callers use `backup` and `push`, which reach the model's kernel through its address: a compiled
function that includes these kernels would compile them again, and there are a dozen of them.
"""

import math
from functools import cache
from pathlib import Path

import numba
import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from latentmdp.kernels._cache import _cache_folder, helper
from latentmdp.kernels.optimistic_arena import ARENAS, HEADER, Arena


@helper
def sort_layer(x, which, t, m):
    """Put the default nodes' values at step `t` in descending order (set `which`, context `m`).

    Fast if the last order nearly holds; ties by state, so that the order has no memory.
    """
    M, S, F, I = x.M, x.S, x.F, x.I  # noqa: E741
    layer = (which * (x.H + 1) + t) * M + m
    values = x.alpha + (which * x.N + t * S) * M + m
    state, rank, best = x.by_value + layer * S, x.rank + layer * S, x.best + layer * S
    for i in range(S):
        s = I[state + i]
        value = F[values + s * M]
        j = i
        while j > 0 and (
            F[best + j - 1] < value or (F[best + j - 1] == value and I[state + j - 1] > s)
        ):
            F[best + j] = F[best + j - 1]
            I[state + j] = I[state + j - 1]
            j -= 1
        F[best + j] = value
        I[state + j] = s
    running = 0.0
    total = x.total + layer * (S + 1)
    for i in range(S):
        I[rank + I[state + i]] = i
        F[total + i] = running
        running += F[best + i]
    F[total + S] = running


@helper
def bonus_block(x, n0, n1, mask, policy, action, m0, m1, which, out):
    """`min(cap, r + p.v + max(c1 sqrt(Var(p, v)), c2) + c3)` for a block. Eqs. (3), (4).

    Nodes `n0 <= n < n1` with `I[mask + n]`, contexts `m0 <= m < m1`; `action` for all, or if it is
    -1 each node's own `I[policy + n]`; next values from set `which`. Results to `F[out + n*M + m]`.
    `O(b)` a row.
    """
    cap, M, S, A, D, v = x.cap, x.M, x.S, x.A, x.D, x.v
    T, P, G, F, I = x.T, x.P, x.G, x.F, x.I  # noqa: E741
    nxt, obs, coef, values = x.next, x.obs, x.coef, x.alpha + which * x.N * M
    for n in range(n0, n1):
        if I[mask + n] == 0:
            continue
        s = G[n]
        a = I[policy + n] if action < 0 else action
        default = n < D
        child0 = (G[x.step + n] + 1) * S if default else x.succ + G[x.edge + (n - D) * A + a]
        for m in range(m0, m1):
            row = (m * S + s) * A + a
            base, c2 = P[coef + 5 * row], P[coef + 5 * row + 2]
            at = out + n * M + m
            if base + c2 >= cap:  # saturated; also a row without visits (c2 = inf)
                F[at] = cap
                continue
            lo = T[row]
            b = T[row + 1] - lo
            mean = 0.0
            for i in range(b):
                k = lo + i
                child = child0 + T[nxt + k] if default else G[child0 + T[obs + k]]
                value = F[values + child * M + m]
                r = P[4 * k + 1]
                if r > 0.0:
                    value = min(r + value, cap)
                F[v + i] = value
                mean += P[4 * k] * value
            bonus = c2
            c1 = P[coef + 5 * row + 1]
            if c1 > 2.0 * c2:  # values lie in [0, 1]: a standard deviation is at most 1/2
                variance = 0.0
                for i in range(b):
                    variance += P[4 * (lo + i)] * (F[v + i] - mean) ** 2
                bonus = max(c2, c1 * math.sqrt(variance))
            F[at] = min(base + mean + bonus, cap)


@helper
def bonus_push(x, n0, n1, policy, which, through_cap):
    """Add `g[n]` times the derivative of the bonus backup at `n` to the weights of its children.

    Never negative. At the cap the derivative is 0; kicks look through it with `through_cap * p`.
    """
    cap, M, S, A, D, v = x.cap, x.M, x.S, x.A, x.D, x.v
    T, P, G, F, I = x.T, x.P, x.G, x.F, x.I  # noqa: E741
    nxt, obs, coef, values, g = x.next, x.obs, x.coef, x.alpha + which * x.N * M, x.g
    for n in range(n0, n1):
        s = G[n]
        a = I[policy + n]
        default = n < D
        child0 = (G[x.step + n] + 1) * S if default else x.succ + G[x.edge + (n - D) * A + a]
        for m in range(M):
            weight = F[g + n * M + m]
            if weight <= 0.0:
                continue
            row = (m * S + s) * A + a
            base, c1, c2 = P[coef + 5 * row], P[coef + 5 * row + 1], P[coef + 5 * row + 2]
            if base + c2 >= cap and through_cap == 0.0:
                continue
            lo = T[row]
            b = T[row + 1] - lo
            mean = 0.0
            for i in range(b):
                k = lo + i
                child = child0 + T[nxt + k] if default else G[child0 + T[obs + k]]
                value = F[values + child * M + m]
                if P[4 * k + 1] > 0.0:
                    value = min(P[4 * k + 1] + value, cap)
                F[v + i] = value
                mean += P[4 * k] * value
            bonus, slope = c2, 0.0
            if c1 > 2.0 * c2:
                variance = 0.0
                for i in range(b):
                    variance += P[4 * (lo + i)] * (F[v + i] - mean) ** 2
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
                    child = child0 + T[nxt + k] if default else G[child0 + T[obs + k]]
                    tilt = max(1.0 + slope * (F[v + i] - mean), 0.0)
                    F[g + child * M + m] += weight * P[4 * k] * tilt


@helper
def interval_block(x, n0, n1, mask, policy, action, m0, m1, which, out, pushing, through_cap):
    """`min(cap, r + max over q of q.v)` for a block, or its derivative pushed along `g`. Eq. (2).

    A row's distributions `q`: slots in their boxes `[lower, upper]`, every next state without a
    slot at most `unseen`, at most `budget` of mass moved. States without a slot lead to default
    nodes, whose values are kept in order: the merge jumps over runs of them, so a row costs
    `O(b^2)` for sorting its `b` slots (`b` is small) and `O(b log S)` after that. Arguments as in
    `bonus_block`; when `pushing`, the weights of children get `g[n]` times the maximising `q`
    instead (0 at the cap, see `bonus_push`).
    """
    cap, M, S, A, D, g = x.cap, x.M, x.S, x.A, x.D, x.g
    T, P, G, F, I = x.T, x.P, x.G, x.F, x.I  # noqa: E741
    nxt, obs, coef, values = x.next, x.obs, x.coef, x.alpha + which * x.N * M
    v, q, share, diff = x.v, x.weight, x.share, x.diff
    pos, skip, sort, ranges = x.pos, x.skip, x.sort, x.ranges
    t1 = G[x.step + n0] + 1
    for m in range(m0, m1):
        sort_layer(x, which, t1, m)
        layer = (which * (x.H + 1) + t1) * M + m
        state, rank = x.by_value + layer * S, x.rank + layer * S
        best, total = x.best + layer * S, x.total + layer * (S + 1)
        for n in range(n0, n1):
            if I[mask + n] == 0:
                continue
            weight = F[g + n * M + m] if pushing else 0.0
            if pushing and weight <= 0.0:
                continue
            s = G[n]
            a = I[policy + n] if action < 0 else action
            default = n < D
            child0 = t1 * S if default else x.succ + G[x.edge + (n - D) * A + a]
            row = (m * S + s) * A + a
            base, unseen, left = P[coef + 5 * row], P[coef + 5 * row + 3], P[coef + 5 * row + 4]
            lo = T[row]
            b = T[row + 1] - lo
            # next values, places in the default order, and slots by descending value
            for i in range(b):
                k = lo + i
                normal = t1 * S + T[nxt + k]
                child = normal if default else G[child0 + T[obs + k]]
                value = F[values + child * M + m]
                r = I[rank + T[nxt + k]]
                j = i
                while j > 0 and I[skip + j - 1] > r:
                    I[skip + j] = I[skip + j - 1]
                    j -= 1
                I[skip + j] = r
                if P[4 * k + 1] > 0.0:
                    value = min(P[4 * k + 1] + value, cap)
                if child != normal or P[4 * k + 1] > 0.0:
                    low, high = 0, S
                    while low < high:
                        mid = (low + high) // 2
                        if F[best + mid] <= value:
                            high = mid
                        else:
                            low = mid + 1
                    r = low
                F[v + i], I[pos + i] = value, r
                j = i
                while j > 0:
                    k = I[sort + j - 1]
                    if F[v + k] > value or (F[v + k] == value and I[pos + k] <= r):
                        break
                    I[sort + j] = k
                    j -= 1
                I[sort + j] = i
            # take mass away, from the lowest value up, as far as boxes and budget allow
            mass, value, had = 0.0, 0.0, 0.0
            for j in range(b - 1, -1, -1):
                i = I[sort + j]
                k = 4 * (lo + i)
                take = min(P[k] - P[k + 2], left)
                had += P[k]
                left -= take
                mass += take
                F[q + i] = P[k] - take
                value += F[q + i] * F[v + i]
            if had == 0.0:
                mass = 1.0  # a row without visits: the whole simplex
            # give it to the highest values, slots and default states merged
            runs, j, place, z = 0, 0, 0, 0
            while mass > 0.0:
                while z < b and I[skip + z] == place:
                    place += 1
                    z += 1
                end = S
                if j < b:
                    end = min(end, I[pos + I[sort + j]])
                if z < b:
                    end = min(end, I[skip + z])
                if place < end and unseen > 0.0:
                    whole = int(min(mass / unseen, float(end - place)))
                    if whole > 0:
                        value += unseen * (F[total + place + whole] - F[total + place])
                        I[ranges + 2 * runs], I[ranges + 2 * runs + 1] = place, place + whole
                        F[share + runs] = unseen
                        runs += 1
                        mass -= whole * unseen
                        place += whole
                    if place < end:  # the mass ends inside this run
                        if mass > 0.0:
                            value += mass * F[best + place]
                            I[ranges + 2 * runs], I[ranges + 2 * runs + 1] = place, place + 1
                            F[share + runs] = mass
                            runs += 1
                        mass = 0.0
                    continue
                place = max(place, end)
                if j < b and I[pos + I[sort + j]] <= place:
                    i = I[sort + j]
                    give = min(P[4 * (lo + i) + 3] - F[q + i], mass)
                    if give > 0.0:
                        F[q + i] += give
                        value += give * F[v + i]
                        mass -= give
                    j += 1
                elif place >= S:
                    break  # rounding left a crumb of mass
            if not pushing:
                F[out + n * M + m] = min(base + value, cap)
                continue
            if base + value >= cap:
                weight *= through_cap
                if weight == 0.0:
                    continue
            for j in range(runs):
                F[diff + I[ranges + 2 * j]] += weight * F[share + j]
                F[diff + I[ranges + 2 * j + 1]] -= weight * F[share + j]
            for i in range(b):
                k = lo + i
                if P[4 * k + 1] == 0.0 or F[v + i] < cap:
                    child = child0 + T[nxt + k] if default else G[child0 + T[obs + k]]
                    F[g + child * M + m] += weight * F[q + i]
        if pushing:
            running = 0.0
            for i in range(S):
                running += F[diff + i]
                F[diff + i] = 0.0
                if running > 0.0:
                    F[g + (t1 * S + I[state + i]) * M + m] += running
            F[diff + S] = 0.0


# ------------------------------------------------------------- calls by address


@intrinsic
def _pointer(typing_context, address):
    """An integer as a pointer."""

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), codegen


@intrinsic
def _call_values(
    typing_context, address, here, n0, n1, mask, policy, action, m0, m1, which, out
):  # fmt: skip
    """Call the function at `address` with ten integers."""

    def codegen(context, builder, signature, args):
        function = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 10)
        builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 11), codegen


@intrinsic
def _call_push(typing_context, address, here, n0, n1, policy, which, through_cap):
    """Call the function at `address` with five integers and a float."""

    def codegen(context, builder, signature, args):
        kinds = [ir.IntType(64)] * 5 + [ir.DoubleType()]
        function = ir.FunctionType(ir.VoidType(), kinds)
        builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6, types.float64), codegen


@helper
def arena_at(here):
    """The arena whose header lies at this address."""
    h = carray(_pointer(here), HEADER, np.int64)
    T = carray(_pointer(h[45]), h[46], np.int64)
    P = carray(_pointer(h[47]), h[48], np.float64)
    G = carray(_pointer(h[49]), h[50], np.int64)
    F = carray(_pointer(h[51]), h[52], np.float64)
    I = carray(_pointer(h[53]), h[54], np.int64)  # noqa: E741
    return Arena(
        h[0], P[-1], h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10], h[11], h[12],
        h[13], h[14], h[15], h[16], h[17], h[18], h[19], h[20], h[21], h[22], h[23], h[24],
        h[25], h[26], h[27], h[28], h[29], h[30], h[31], h[32], h[33], h[34], h[35], h[36],
        h[37], h[38], h[39], h[40], h[41], h[42], h[43], h[44], T, P, G, F, I,
    )  # fmt: skip


def _bonus_values(here, n0, n1, mask, policy, action, m0, m1, which, out):
    bonus_block(arena_at(here), n0, n1, mask, policy, action, m0, m1, which, out)


def _bonus_push(here, n0, n1, policy, which, through_cap):
    bonus_push(arena_at(here), n0, n1, policy, which, through_cap)


def _interval_values(here, n0, n1, mask, policy, action, m0, m1, which, out):
    x = arena_at(here)
    interval_block(x, n0, n1, mask, policy, action, m0, m1, which, out, False, 0.0)


def _interval_push(here, n0, n1, policy, which, through_cap):
    x = arena_at(here)
    interval_block(x, n0, n1, x.every, policy, -1, 0, x.M, which, 0, True, through_cap)


def cached_cfunc(signature, function):
    """Compile a function with a C signature, in the cache folder of this file."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _cache_folder(Path(__file__))
    try:
        return numba.cfunc(signature, cache=True)(function)
    finally:
        numba.config.CACHE_DIR = before


@cache
def compiled(interval):
    """The values and the push of a kind of model, compiled at first use; kept for ever."""
    integers = types.int64
    pair = (_interval_values, _interval_push) if interval else (_bonus_values, _bonus_push)
    kinds = types.void(*[integers] * 10), types.void(*[integers] * 5, types.float64)
    return [cached_cfunc(kind, function) for kind, function in zip(kinds, pair, strict=True)]


def addresses(interval):
    """Where they lie; nowhere in plain Python."""
    if numba.config.DISABLE_JIT:
        return 0, 0
    values, push = compiled(interval)
    return values.address, push.address


def _plain_backup(x, n0, n1, mask, policy, action, m0, m1, which, out):
    if x.interval:
        interval_block(x, n0, n1, mask, policy, action, m0, m1, which, out, False, 0.0)
    else:
        bonus_block(x, n0, n1, mask, policy, action, m0, m1, which, out)


def _plain_push(x, n0, n1, policy, which, through_cap):
    if x.interval:
        interval_block(x, n0, n1, x.every, policy, -1, 0, x.M, which, 0, True, through_cap)
    else:
        bonus_push(x, n0, n1, policy, which, through_cap)


@helper
def backup(x, n0, n1, mask, policy, action, m0, m1, which, out):
    """Optimistic values of a block of nodes of one step; arguments as in `bonus_block`."""
    _call_values(x.values_at, x.here, n0, n1, mask, policy, action, m0, m1, which, out)


@helper
def push(x, n0, n1, policy, which, through_cap):
    """Push the weights `g` of a block of nodes of one step to their children."""
    _call_push(x.push_at, x.here, n0, n1, policy, which, through_cap)


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    backup, push, arena_at = _plain_backup, _plain_push, ARENAS.__getitem__
