"""The slow twin of Q-values at a belief: a recursion over histories, and over a policy's nodes."""

import numpy as np


def optimal_from(d, t, s, g):
    """The largest value from weights `g` of the contexts on, with memory; by recursion."""
    if t == d.H:
        return 0.0
    return max(optimal_q(d, t, s, a, g) for a in d.actions(s))


def expand(d, s, a, g):
    """`(reward, {(seen, next): weights})` of an action at the weights `g`."""
    now, after = 0.0, {}
    for m in range(d.M):
        if g[m] > 0:
            for p, r, seen, nxt in d.outcomes(m, s, a):
                now += g[m] * p * r
                weights = after.setdefault((seen, nxt), [0.0] * d.M)
                weights[m] += g[m] * p
    return now, after


def optimal_q(d, t, s, a, g):
    now, after = expand(d, s, a, g)
    return now + d.discount * sum(optimal_from(d, t + 1, y, h) for (_, y), h in after.items())


def best_node(policy, alpha, t, s, g):
    """The largest value of a node of the policy at a step and state, by its alpha vectors."""
    at = [n for n in range(policy.N) if policy.step[n] == t and policy.state[n] == s]
    return max(float(np.dot(alpha[n], g)) for n in at)
