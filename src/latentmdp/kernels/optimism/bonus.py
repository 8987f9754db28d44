"""One optimistic step with a bonus, Eqs. (3) and (4): values of nodes, and the derivative.

Monotone in the next values and, below the cap, convex. Each call handles nodes of one step.

Row `(m, s, a)` is number `(m * S + s) * A + a` and has the slots `start[row] .. stop[row]`. After
slot `k` comes the node `succ[edge + observation[k]]`, whose values are a row of `values (N, M)`.
"""

import math

from latentmdp.runtime.kernel_cache import kernel


@kernel
def visit_bonus_rows(rows, nodes, begin, end, wanted, policy, action, m0, m1, valuation, out,
                     pushing, through_cap, scratch):  # fmt: skip
    """`min(cap, r + p.v + max(c1 sqrt(Var(p, v)), c2) + c3)`, Eqs. (3), (4), or its derivative.

    For the `wanted` nodes `begin .. end` and contexts `m0 .. m1`; `action` for all nodes, or if it
    is -1 each node's own by `policy`; `v` are the successors' values in `valuation`.

    Unless `pushing`, the values go to `out`. When `pushing`, `out` is the reach: `out[n]` times the
    derivative at `n` is added to that of the successors. The derivative in the value after an
    outcome is `p (1 + c1 (v - mean) / deviation)` where that term is the larger one, else `p`;
    never negative. Where the value is capped it is 0; sweeps by perturbed weights look
    through the cap with `through_cap * p`.
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
            if pushing:
                if out[n, m] <= 0.0:
                    continue
            elif not possible[n, m]:
                out[n, m] = 0.0
                continue
            row = (m * S + s) * A + a
            base, c1, c2 = gain[row], c1s[row], c2s[row]
            if base + c2 >= cap:  # whatever comes; so is a row without visits (c2 = inf)
                if not pushing:
                    out[n, m] = cap
                    continue
                if through_cap == 0.0:
                    continue
            # the values v after the slots, and p.v; with rewards on transitions the total is capped
            # before it is averaged
            first, last = start[row], stop[row]
            mean = 0.0
            for k in range(first, last):
                value = values[succ[edge + observation[k]], m]
                if reward[k] > 0.0:
                    value = min(reward[k] + value, cap)
                after[k - first] = value
                mean += p_hat[k] * value
            # the bonus, max(c1 sqrt(Var(p, v)), c2)
            bonus, deviation = c2, 0.0
            # values in [0, cap] deviate by cap/2 at most, and not at all if one outcome is certain
            if c1 * cap > 2.0 * c2 and p_hat[first] < 1.0:
                variance = 0.0
                for k in range(first, last):
                    off = after[k - first] - mean
                    variance += p_hat[k] * off * off
                deviation = math.sqrt(variance)
                bonus = max(c2, c1 * deviation)
            if not pushing:
                out[n, m] = min(base + mean + bonus, cap)
                continue
            # the derivative: of the cap 0, of c1 sqrt(Var(p, v)) the slope, of p.v and c2 only p
            pushed, slope = out[n, m], 0.0
            if base + mean + bonus >= cap:
                pushed *= through_cap
                if pushed == 0.0:
                    continue
            elif c1 * deviation > c2:
                slope = c1 / deviation
            for k in range(first, last):
                if reward[k] == 0.0 or after[k - first] < cap:
                    factor = max(1.0 + slope * (after[k - first] - mean), 0.0)
                    out[succ[edge + observation[k]], m] += pushed * p_hat[k] * factor
