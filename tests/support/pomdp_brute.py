"""The oracle for POMDPs: plain Python that enumerates histories, from dense tables."""

import numpy as np


def tables(pomdp):
    """`T[a][s][next]`, `Z[a][next][label]` as nested lists, and `R(a, s, next, label)`."""
    S, A, L = pomdp.S, pomdp.A, len(pomdp.labels)
    T = [[[0.0] * S for _ in range(S)] for _ in range(A)]
    Z = [[[0.0] * L for _ in range(S)] for _ in range(A)]
    for matrix, dense in ((pomdp.T, T), (pomdp.Z, Z)):
        for row in range(A * S):
            for k in range(matrix.start[row], matrix.start[row + 1]):
                dense[row // S][row % S][matrix.column[k]] = float(matrix.value[k])

    def R(*place):
        return float(pomdp.reward(*(np.array([i]) for i in place))[0])

    return T, Z, R


def best_value(pomdp, horizon):
    """The optimum over all policies that see the first labels, then a label after each action."""
    T, Z, R = tables(pomdp)
    states = range(pomdp.S)

    def best(t, g):
        if t == horizon:
            return 0.0
        tops = []
        for a in range(pomdp.A):
            now, after = 0.0, {}
            for s in states:
                for following in states:
                    p = g[s] * T[a][s][following]
                    for label, q in enumerate(Z[a][following]):
                        if p * q > 0.0:
                            now += p * q * R(a, s, following, label)
                            weights = after.setdefault(label, [0.0] * pomdp.S)
                            weights[following] += p * q
            tops.append(now + pomdp.discount * sum(best(t + 1, h) for h in after.values()))
        return max(tops)

    looks = {int(label) for label in pomdp.first_label}
    return sum(
        best(0, [float(pomdp.start[s]) * (int(pomdp.first_label[s]) == look) for s in states])
        for look in looks
    )
