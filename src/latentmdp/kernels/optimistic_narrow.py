"""Confidence sets of *narrow* rows: at a default node, with one or two next states seen so far.

They are most rows of sparse models, and need no lists. A narrow row has no rewards on transitions,
and its slots give up the same mass whatever the values are, so that this is known beforehand.
`optimistic_interval.py` has the general case.
"""

from latentmdp.kernels._cache import kernel


@kernel
def prepare_row(x, row):
    """Tell narrow rows, and what they need at every backup; called when the numbers are new.

    In the place of `c2` is `spare`, the mass that the slots give up, or -1 for a row that is not
    narrow. With a single slot it fills up `full` states, in the place of `c1`; `spare` is the rest.
    """
    T, P = x.T, x.P
    c, lo, b = x.coef + 5 * row, T[row], T[x.stop + row] - T[row]
    narrow, had, spare = b == 1 or b == 2, 0.0, 0.0
    for k in range(lo, lo + b):
        had += P[4 * k]
        spare += P[4 * k] - P[4 * k + 2]
        narrow = narrow and P[4 * k + 1] == 0.0
    if had == 0.0:
        spare = 1.0  # without visits: the whole simplex
    elif spare > P[c + 4]:
        narrow = False
    unseen = P[c + 3]
    P[c + 1], P[c + 2] = 0.0, spare if narrow else -1.0
    if narrow and b == 1:
        if had > 0.0 and P[4 * lo + 3] < 1.0:
            P[c + 2] = -1.0
            return
        full = x.S if unseen * x.S <= spare else int(spare / unseen)
        P[c + 1], P[c + 2] = float(full), max(spare - unseen * full, 0.0)


@kernel
def narrow_values(x, n0, n1, mask, policy, action, m, which, out):
    """The values of narrow rows among these; returns how many others there are."""
    M, S, A, cap, nxt = x.M, x.S, x.A, x.cap, x.next
    T, P, F, I = x.T, x.P, x.F, x.I  # noqa: E741
    t = n0 // S
    layer = (which * (x.H + 1) + t + 1) * M + m
    rank, best, total = x.rank + layer * S, x.best + layer * S, x.total + layer * (S + 1)
    others, final = 0, t + 1 == x.H
    for n in range(n0, n1):
        if I[mask + n] == 0:
            continue
        a = I[policy + n] if action < 0 else action
        row = (m * S + n - t * S) * A + a
        c, lo = x.coef + 5 * row, T[row]
        spare, unseen = P[c + 2], P[c + 3]
        if spare < 0.0:
            others += 1
            continue
        if final:
            F[out + n * M + m] = min(P[c], cap)
            continue
        place = I[rank + T[nxt + lo]]
        if T[x.stop + row] == lo + 1:
            # `full` states above it get all they may have, one more the rest
            full = int(P[c + 1])
            end = min(place, full)
            part = spare if full < place else 0.0
            own = 1.0 - unseen * end - part
            value = unseen * F[total + end] + part * F[best + end] + own * F[best + place]
            F[out + n * M + m] = min(P[c] + value, cap)
            continue
        high, low, last = lo, lo + 1, I[rank + T[nxt + lo + 1]]
        if place > last:
            high, low, place, last = low, high, last, place
        own, own_low = P[4 * high + 2], P[4 * low + 2]
        value = own_low * F[best + last] + own * F[best + place]
        begin = 0
        for turn in range(3):
            # states without a slot up to the next slot, or to the end; then the slot
            if spare < unseen * (place - begin):
                end = begin + int(spare / unseen)
                part = spare - unseen * (end - begin)
                value += unseen * (F[total + end] - F[total + begin]) + part * F[best + end]
                break
            value += unseen * (F[total + place] - F[total + begin])
            spare -= unseen * (place - begin)
            if turn == 2:
                break
            give = min(P[4 * high + 3] - own, spare)
            value += give * F[best + place]
            spare -= give
            if spare <= 0.0:
                break
            begin = place + 1
            high, own, place = low, own_low, last
            last = S
        F[out + n * M + m] = min(P[c] + value, cap)
    return others


@kernel
def narrow_push(x, n0, n1, policy, m, which, through_cap):
    """Push along narrow rows; returns how many others there are with a weight."""
    M, S, A, cap, nxt, g, diff = x.M, x.S, x.A, x.cap, x.next, x.g, x.diff
    T, P, F, I = x.T, x.P, x.F, x.I  # noqa: E741
    t = n0 // S
    layer = (which * (x.H + 1) + t + 1) * M + m
    rank, values, child0 = x.rank + layer * S, x.alpha + which * x.N * M, (t + 1) * S
    others, first = 0, 0.0
    for n in range(n0, n1):
        weight = F[g + n * M + m]
        if weight <= 0.0:
            continue
        row = (m * S + n - t * S) * A + I[policy + n]
        c, lo = x.coef + 5 * row, T[row]
        spare, unseen = P[c + 2], P[c + 3]
        if spare < 0.0:
            others += 1
            continue
        if F[values + n * M + m] >= cap:
            weight *= through_cap
            if weight == 0.0:
                continue
        place = I[rank + T[nxt + lo]]
        if T[x.stop + row] == lo + 1:
            full = int(P[c + 1])
            end = min(place, full)
            part = spare if full < place else 0.0
            if place > 0:
                first += weight * unseen
                F[diff + end] += weight * (part - unseen)
                F[diff + end + 1] -= weight * part
            F[g + (child0 + T[nxt + lo]) * M + m] += weight * (1.0 - unseen * end - part)
            continue
        high, low, last = lo, lo + 1, I[rank + T[nxt + lo + 1]]
        if place > last:
            high, low, place, last = low, high, last, place
        F[g + (child0 + T[nxt + high]) * M + m] += weight * P[4 * high + 2]
        F[g + (child0 + T[nxt + low]) * M + m] += weight * P[4 * low + 2]
        begin = 0
        for turn in range(3):
            if place > begin:
                F[diff + begin] += weight * unseen
                if spare < unseen * (place - begin):
                    end = begin + int(spare / unseen)
                    part = spare - unseen * (end - begin)
                    F[diff + end] += weight * (part - unseen)
                    F[diff + end + 1] -= weight * part
                    break
                F[diff + place] -= weight * unseen
                spare -= unseen * (place - begin)
            if turn == 2:
                break
            give = min(P[4 * high + 3] - P[4 * high + 2], spare)
            F[g + (child0 + T[nxt + high]) * M + m] += weight * give
            spare -= give
            if spare <= 0.0:
                break
            begin = place + 1
            high, place = low, last
            last = S
    F[diff] += first
    return others
