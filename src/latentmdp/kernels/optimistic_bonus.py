"""One optimistic step with a bonus, Eqs. (3) and (4): values of nodes, and the derivative.

Monotone in the next values and, below the cap, convex. Each call handles nodes of one step.
"""

import math

from latentmdp.kernels._cache import kernel


@kernel
def bonus_backup(
    rows, nodes, begin, end, wanted, policy, action, m0, m1, valuation, out, scratch
):  # fmt: skip
    """`out = min(cap, r + p.v + max(c1 sqrt(Var(p, v)), c2) + c3)`. Eqs. (3), (4).

    For the `wanted` nodes `begin .. end` and contexts `m0 .. m1`; `action` for all nodes, or if it
    is -1 each node's own by `policy`; `v` are the successors' values in `valuation`.
    """
    values, after = valuation.value, scratch.after
    start, stop, observation = rows.start, rows.stop, rows.observation
    p_hat, reward, gain, c1s, c2s = rows.p_hat, rows.reward, rows.gain, rows.c1, rows.c2
    state, edges, succ, possible = nodes.state, nodes.edge, nodes.succ, nodes.possible
    S, A, cap = len(nodes.first), edges.shape[1], rows.cap
    for n in range(begin, end):
        if not wanted[n]:
            continue
        a = policy[n] if action < 0 else action
        s, edge = state[n], edges[n, a]
        for m in range(m0, m1):
            if not possible[n, m]:
                out[n, m] = 0.0
                continue
            row = (m * S + s) * A + a
            base, c2 = gain[row], c2s[row]
            if base + c2 >= cap:  # whatever comes; so is a row without visits (c2 = inf)
                out[n, m] = cap
                continue
            first, last = start[row], stop[row]
            mean = 0.0
            for k in range(first, last):
                value = values[succ[edge + observation[k]], m]
                if reward[k] > 0.0:
                    value = min(reward[k] + value, cap)
                after[k - first] = value
                mean += p_hat[k] * value
            bonus, c1 = c2, c1s[row]
            # values in [0, cap] deviate by cap/2 at most, and not at all if one outcome is certain
            if c1 * cap > 2.0 * c2 and p_hat[first] < 1.0:
                variance = 0.0
                for k in range(first, last):
                    off = after[k - first] - mean
                    variance += p_hat[k] * off * off
                bonus = max(c2, c1 * math.sqrt(variance))
            out[n, m] = min(base + mean + bonus, cap)


@kernel
def bonus_push(rows, nodes, begin, end, policy, valuation, reach, through_cap, scratch):
    """Add `reach[n]` times the derivative of the backup at `n` to the reach of its successors.

    The derivative in the value after an outcome is `p (1 + c1 (v - mean) / deviation)` where that
    term is the larger one, else `p`; never negative. Where the value is capped it is 0; kicks look
    through the cap with `through_cap * p`.
    """
    values, after = valuation.value, scratch.after
    start, stop, observation = rows.start, rows.stop, rows.observation
    p_hat, reward, gain, c1s, c2s = rows.p_hat, rows.reward, rows.gain, rows.c1, rows.c2
    state, edges, succ = nodes.state, nodes.edge, nodes.succ
    S, A, M, cap = len(nodes.first), edges.shape[1], reach.shape[1], rows.cap
    for n in range(begin, end):
        a = policy[n]
        s, edge = state[n], edges[n, a]
        for m in range(M):
            weight = reach[n, m]
            if weight <= 0.0:
                continue
            row = (m * S + s) * A + a
            base, c1, c2 = gain[row], c1s[row], c2s[row]
            if base + c2 >= cap and through_cap == 0.0:
                continue
            first, last = start[row], stop[row]
            mean = 0.0
            for k in range(first, last):
                value = values[succ[edge + observation[k]], m]
                if reward[k] > 0.0:
                    value = min(reward[k] + value, cap)
                after[k - first] = value
                mean += p_hat[k] * value
            bonus, slope = c2, 0.0
            if c1 * cap > 2.0 * c2 and p_hat[first] < 1.0:
                variance = 0.0
                for k in range(first, last):
                    off = after[k - first] - mean
                    variance += p_hat[k] * off * off
                deviation = math.sqrt(variance)
                if c1 * deviation > c2:
                    bonus, slope = c1 * deviation, c1 / deviation
            if base + mean + bonus >= cap:
                weight *= through_cap
                slope = 0.0
                if weight == 0.0:
                    continue
            for k in range(first, last):
                if reward[k] == 0.0 or after[k - first] < cap:
                    tilt = max(1.0 + slope * (after[k - first] - mean), 0.0)
                    reach[succ[edge + observation[k]], m] += weight * p_hat[k] * tilt
