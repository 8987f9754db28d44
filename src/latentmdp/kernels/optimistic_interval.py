"""One optimistic step with a confidence set, Eq. (2): values of nodes, and the derivative.

The best distribution in a box moves mass from the lowest next values to the highest. Monotone in
the next values and, below the cap, convex. Each call handles a block of nodes of one step. Nothing
is allocated; `x` is the arena (`optimistic_arena.py`).
"""

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.optimistic_arena import child_of
from latentmdp.kernels.optimistic_narrow import narrow_push, narrow_values


@kernel
def sort_layer(x, which, t, m):
    """Put the default nodes' values at step `t` in descending order (set `which`, context `m`).

    Fast if the last order nearly holds; ties by state, so that the order has no memory.
    """
    M, S, F, I = x.M, x.S, x.F, x.I  # noqa: E741
    layer = (which * (x.H + 1) + t) * M + m
    values = x.alpha + (which * x.N + t * S) * M + m
    state, rank, best = x.by_value + layer * S, x.rank + layer * S, x.best + layer * S
    same = 0
    while same < S and F[best + same] == F[values + I[state + same] * M]:
        same += 1
    if same == S:
        return  # nothing has moved
    low = same
    for i in range(same, S):
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
        low = min(low, j)
    total = x.total + layer * (S + 1)
    running = F[total + low]
    for i in range(low, S):
        I[rank + I[state + i]] = i
        F[total + i] = running
        running += F[best + i]
    F[total + S] = running


@kernel
def copy_order(x, source, target):
    """One set takes over the other's order, with its values."""
    size = (x.H + 1) * x.M * x.S
    for i in range(size):
        x.F[x.best + target * size + i] = x.F[x.best + source * size + i]
        x.I[x.by_value + target * size + i] = x.I[x.by_value + source * size + i]
        x.I[x.rank + target * size + i] = x.I[x.rank + source * size + i]
    size += (x.H + 1) * x.M
    for i in range(size):
        x.F[x.total + target * size + i] = x.F[x.total + source * size + i]


@kernel
def wide_rows(x, n0, n1, mask, policy, action, m, which, out, pushing, through_cap):
    """`min(cap, r + max over q of q.v)` for a block, or its derivative pushed along `g`. Eq. (2).

    A row's distributions `q`: slots in their boxes `[lower, upper]`, every next state without a
    slot at most `unseen`, at most `budget` of mass moved. States without a slot lead to default
    nodes, whose values are kept in order: the merge jumps over runs of them, so a row costs
    `O(b^2)` for sorting its `b` slots (`b` is small) and `O(b log S)` after that. Arguments as in
    `bonus_block`, for one context; when `pushing`, the weights of children get `g[n]` times the
    maximising `q` instead (0 at the cap, see `bonus_push`). Narrow rows are left out.
    """
    cap, M, S, A, D, g = x.cap, x.M, x.S, x.A, x.D, x.g
    T, P, G, F, I = x.T, x.P, x.G, x.F, x.I  # noqa: E741
    nxt, coef, values = x.next, x.coef, x.alpha + which * x.N * M
    v, q, share, diff = x.v, x.weight, x.share, x.diff
    pos, skip, sort, ranges = x.pos, x.skip, x.sort, x.ranges
    t1 = G[x.step + n0] + 1
    default = n0 < D
    layer = (which * (x.H + 1) + t1) * M + m
    rank, best, total = x.rank + layer * S, x.best + layer * S, x.total + layer * (S + 1)
    for n in range(n0, n1):
        if I[mask + n] == 0:
            continue
        a = I[policy + n] if action < 0 else action
        row = (m * S + G[n]) * A + a
        c = coef + 5 * row
        if default and P[c + 2] >= 0.0:
            continue
        if I[x.active + n * M + m] == 0:
            if not pushing:
                F[out + n * M + m] = 0.0
            continue
        weight = F[g + n * M + m] if pushing else 0.0
        if pushing and weight <= 0.0:
            continue
        first = 0 if default else x.succ + G[x.edge + (n - D) * A + a]
        base, unseen, left = P[c], P[c + 3], P[c + 4]
        lo = T[row]
        b = T[x.stop + row] - lo
        # next values, places in the default order, and slots by descending value
        plain = default
        for i in range(b):
            k = lo + i
            r = I[rank + T[nxt + k]]
            j = i
            while j > 0 and I[skip + j - 1] > r:
                I[skip + j] = I[skip + j - 1]
                I[sort + j] = I[sort + j - 1]
                j -= 1
            I[skip + j], I[sort + j], I[pos + i] = r, i, r
            F[v + i] = F[best + r]
            plain = plain and P[4 * k + 1] == 0.0
        if not plain:
            for i in range(b):
                k = lo + i
                normal = t1 * S + T[nxt + k]
                child = child_of(x, k, default, first, t1 * S)
                value, r = F[values + child * M + m], I[pos + i]
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
        runs, place, z, j = 0, 0, 0, 0
        while mass > 0.0 and j <= b:
            end = I[pos + I[sort + j]] if j < b else S
            while place < end and mass > 0.0:  # states without a slot, above slot j
                stop = min(end, I[skip + z]) if z < b else end
                if stop > place and unseen > 0.0:
                    room = unseen * (stop - place)
                    I[ranges + 2 * runs], F[share + runs] = place, unseen
                    if mass >= room:
                        value += unseen * (F[total + stop] - F[total + place])
                        mass -= room
                    else:  # the mass ends inside this run
                        stop = place + int(mass / unseen)
                        value += unseen * (F[total + stop] - F[total + place])
                        mass -= unseen * (stop - place)
                        I[ranges + 2 * runs + 1] = stop
                        runs += 1
                        value += mass * F[best + stop]
                        I[ranges + 2 * runs], F[share + runs] = stop, mass
                        stop += 1
                        mass = 0.0
                    I[ranges + 2 * runs + 1] = stop
                    runs += 1
                place = stop
                if z < b and place == I[skip + z]:
                    place += 1
                    z += 1
            if j < b:
                i = I[sort + j]
                give = min(P[4 * (lo + i) + 3] - F[q + i], mass)
                if give > 0.0:
                    F[q + i] += give
                    value += give * F[v + i]
                    mass -= give
            j += 1
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
                child = child_of(x, k, default, first, t1 * S)
                F[g + child * M + m] += weight * F[q + i]


@kernel
def spread(x, t1, m, which):
    """Give the default nodes of step `t1` what their places in the order have got."""
    S, M, F = x.S, x.M, x.F
    layer = (which * (x.H + 1) + t1) * M + m
    state, running = x.by_value + layer * S, 0.0
    for i in range(S):
        running += F[x.diff + i]
        F[x.diff + i] = 0.0
        if running > 0.0:
            F[x.g + (t1 * S + x.I[state + i]) * M + m] += running
    F[x.diff + S] = 0.0


@kernel
def interval_values(x, n0, n1, mask, policy, action, m0, m1, which, out):
    """Optimistic values of a block of nodes; arguments as in `bonus_block`."""
    t1 = x.G[x.step + n0] + 1
    for m in range(m0, m1):
        sort_layer(x, which, t1, m)
        if n0 >= x.D or narrow_values(x, n0, n1, mask, policy, action, m, which, out) > 0:
            wide_rows(x, n0, n1, mask, policy, action, m, which, out, False, 0.0)


@kernel
def interval_push(x, n0, n1, policy, which, through_cap):
    """Add `g[n]` times the maximising distribution at `n` to the weights of its children."""
    t1 = x.G[x.step + n0] + 1
    for m in range(x.M):
        sort_layer(x, which, t1, m)
        if n0 >= x.D or narrow_push(x, n0, n1, policy, m, which, through_cap) > 0:
            wide_rows(x, n0, n1, x.every, policy, -1, m, which, 0, True, through_cap)
        spread(x, t1, m, which)
