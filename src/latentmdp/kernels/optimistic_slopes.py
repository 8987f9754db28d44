"""What one optimistic step makes of a loss in the values after it: slopes and excesses.

For a row of context `m` let `T` be its backup before the cap, `U` the next values with the context
known, `alpha` those of any policy: `least <= alpha <= U`. Slopes `s_o >= 0` are such that

    T(U) - T(alpha) >= sum_o s_o (U_o - alpha_o)

whatever the policy; the *excess* `max(T(U) - cap, 0)` is what the cap swallows of that. The search
of `optimistic_bound.py` asks for them as it goes. Nothing is allocated.
"""

import math
from typing import NamedTuple

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.kernels._cache import kernel
from latentmdp.kernels.flat import record_at
from latentmdp.kernels.optimistic_arena import Arena
from latentmdp.kernels.optimistic_backup import backup


class Work(NamedTuple):
    """What a search needs of the arena, and room: two flat arrays and where in them parts begin.

    `K` is the most that can be told apart after a state and an action.
    """

    M: int
    S: int
    A: int
    H: int
    slots: int
    stop: int
    next: int
    obs: int
    coef: int
    known: int  # value set 2
    lowest: int  # value set 1
    known_q: int
    T: Ints
    P: Floats
    F: Floats
    W: Floats
    Z: Ints
    # W; records begin at 0: (budget, 2M+1) weights g, lower bound on D(g), loss of a policy
    slope: int  # (H, slots)
    excess: int  # (H*S, A, M), nan until a step and state have their slopes
    child: int  # (K, M) weights of what may be seen next
    loss: int  # (M,) of an action, then of what is best after it
    least: int  # (M,) the least of these
    theta: int  # (M,)
    off: int  # (M,) theta that is 0 wherever capped
    path: int  # (H, M) weights along a trial
    # Z; the number of records at 0
    head: int  # (H*S,) first record of a step and state, -1 for none
    link: int  # (budget,) the next one
    state: int  # (K,) next state of what may be seen
    vector: int  # (K,) where its least loss is, see `look`
    vain: int  # (H*S,) backups in a row that gained nothing there
    node: int  # (H,) steps and states along a trial


def make_work(x: Arena, slots: int, observation: Ints, budget: int) -> Work:
    """Room for `budget` backups in an arena's model, with these observations `(slots,)`."""
    K = int(observation.max(initial=0)) + 1
    T = x.T.copy()
    T[x.obs : x.obs + slots] = observation
    M, S, A, H = x.M, x.S, x.A, x.H
    real = (budget * (2 * M + 1), H * slots, H * S * A * M, K * M, M, M, M, M, H * M)
    whole = (1, H * S, budget, K, K, H * S, H)
    W, Z = np.empty(sum(real)), np.full(sum(whole), -1)
    at, Z_at = np.cumsum(real).tolist(), np.cumsum(whole).tolist()
    W[at[1] : at[2]], Z[0], Z[Z_at[4] : Z_at[5]] = np.nan, 0, 0
    return Work(
        M, S, A, H, slots, x.stop, x.next, x.obs, x.coef, x.alpha + 2 * x.N * M,
        x.alpha + x.N * M, x.known_q, T, x.P, x.F, W, Z, *at[:-1], *Z_at[:-1],
    )  # fmt: skip


work_at = record_at(Work)


@kernel
def least_values(x):
    """Value set 1: the least optimistic value of any policy in each context, `min_a T_m^a`."""
    S, M, F = x.S, x.M, x.F
    least = x.alpha + x.N * M
    for t in range(x.H - 1, -1, -1):
        for a in range(x.A):
            backup(x, t * S, (t + 1) * S, x.every, 0, a, 0, M, 1, x.q)
            for i in range(t * S * M, (t + 1) * S * M):
                if a == 0 or F[x.q + i] < F[least + i]:
                    F[least + i] = F[x.q + i]


@kernel
def bonus_slopes(y, cap, n, a, m):
    """Slopes of a bonus row at default node `n`: the least of its derivative.

    That is `p`, or `p (1 + c1 (v - mean) / sd)` where `c1 sd > c2`, for values `v` between the
    least and `U` (`min(r + v, cap)` where rewards sit on transitions). Outcomes at the cap: 0.
    """
    S, A, M, T, P, F, W = y.S, y.A, y.M, y.T, y.P, y.F, y.W
    row, later = (m * S + n % S) * A + a, (n // S + 1) * S
    slope = y.slope + (n // S) * y.slots
    c1, c2 = P[y.coef + 5 * row + 1], P[y.coef + 5 * row + 2]
    least, known = y.lowest + m, y.known + m
    mean, square, top, bottom = 0.0, 0.0, 0.0, cap
    for k in range(T[row], T[y.stop + row]):
        child = (later + T[y.next + k]) * M
        high = min(P[4 * k + 1] + F[known + child], cap)
        mean += P[4 * k] * high
        top, bottom = max(top, high), min(bottom, P[4 * k + 1] + F[least + child])
    for k in range(T[row], T[y.stop + row]):
        off = min(P[4 * k + 1] + F[known + (later + T[y.next + k]) * M], cap) - mean
        square += P[4 * k] * off * off
    over, most = 0.0, 0.0
    if F[y.known_q + (n * A + a) * M + m] >= cap:
        over = P[y.coef + 5 * row] + mean + max(c1 * math.sqrt(square), c2) - cap
    for k in range(T[row], T[y.stop + row]):
        child = (later + T[y.next + k]) * M
        p, r, s = P[4 * k], P[4 * k + 1], 0.0
        high, low = r + F[known + child], r + F[least + child]
        if p > 0.0 and (r == 0.0 or high <= cap):
            fall = 0.0
            if c1 * (top - bottom) > 2.0 * c2:  # else the deviation never exceeds c2
                below = max(mean - p * high - (1.0 - p) * low, 0.0)  # mean - v, at most
                fall = c1 * math.sqrt((1.0 - p) / p)  # c1 (mean - v) / sd, at most
                if c1 * c1 * below < fall * c2:  # and 1 / sd < c1 / c2
                    fall = c1 * c1 * below / c2
            s = p * max(1.0 - fall, 0.0)
        W[slope + k] = s
        most += s * (high - low)
    W[y.excess + (n * A + a) * M + m] = max(over, 0.0)
    if over >= most:  # the cap swallows whatever is lost
        W[y.excess + (n * A + a) * M + m] = 0.0
        for k in range(T[row], T[y.stop + row]):
            W[slope + k] = 0.0


@kernel
def interval_slopes(x, y, n, a):
    """Slopes of interval rows at `n`: chords, from one next value at its best to its least.

    The loss `T(U) - T(U - d)` is concave in each `d_o`, so above its chord; and jointly it is at
    least the sum of its parts, since the support function of boxes and budgets is submodular.
    """
    S, A, M, T, P, F, W = x.S, x.A, x.M, x.T, x.P, x.F, y.W
    slope = y.slope + (n // S) * y.slots
    least, known, value = x.alpha + x.N * M, x.alpha + 2 * x.N * M, x.known_q + (n * A + a) * M
    for m in range(M):
        W[y.excess + (n * A + a) * M + m] = 0.0
    for nxt in range(S):
        found = False
        for m in range(M):
            row = (m * S + n % S) * A + a
            for k in range(T[row], T[x.stop + row]):
                found = found or T[x.next + k] == nxt
        if not found:
            continue
        child = ((n // S + 1) * S + nxt) * M
        for m in range(M):
            F[x.top + m], F[known + child + m] = F[known + child + m], F[least + child + m]
        backup(x, n, n + 1, x.every, 0, a, 0, M, 2, x.q)
        for m in range(M):
            F[known + child + m] = F[x.top + m]
            fall = F[x.top + m] - F[least + child + m]
            row = (m * S + n % S) * A + a
            for k in range(T[row], T[x.stop + row]):
                if T[x.next + k] == nxt:
                    r, s = P[4 * k + 1], 0.0
                    if fall > 1e-9 and F[value + m] < x.cap and r + F[x.top + m] <= x.cap:
                        s = max(F[value + m] - F[x.q + n * M + m], 0.0) / fall
                    W[slope + k] = s


@kernel
def prepare(x, y, n):
    """Slopes and excesses of all actions at `n`, once."""
    if math.isnan(y.W[y.excess + n * y.A * y.M]):
        for a in range(y.A):
            if x.interval:
                interval_slopes(x, y, n, a)
            else:
                for m in range(y.M):
                    bonus_slopes(y, x.cap, n, a, m)
