"""Ascent in the variance of the total reward over Markov tables, one switch at a time.

For a switch at `(t, s)` the change of the mean and of the second moment is exact: forward moments
do not depend on later choices, backward moments do not depend on earlier ones.
"""

from latentmdp.kernels._cache import kernel


@kernel
def forward_moments(indptr, nxt, prob, reward, A, discount, start, table, g, collected):
    """`g (H, S, M)`: probability of `(t, s)` and `m`; `collected`: times the reward so far."""
    H, S, M = g.shape
    g[:] = 0.0
    collected[:] = 0.0
    for m in range(M):
        for s in range(S):
            g[0, s, m] = start[m, s]
    scale = 1.0
    for t in range(H - 1):
        for s in range(S):
            for m in range(M):
                if g[t, s, m] == 0.0:
                    continue
                row = (m * S + s) * A + table[t, s]
                for i in range(indptr[row], indptr[row + 1]):
                    p = prob[i] * g[t, s, m]
                    g[t + 1, nxt[i], m] += p
                    collected[t + 1, nxt[i], m] += (
                        prob[i] * collected[t, s, m] + p * scale * reward[i]
                    )
        scale *= discount


@kernel
def row_moments(indptr, nxt, prob, reward, discount, row, first, second, last):
    """First and second moment of the remaining reward after `row`."""
    mean, square = 0.0, 0.0
    for i in range(indptr[row], indptr[row + 1]):
        r = reward[i]
        a, b = 0.0, 0.0
        if not last:
            a, b = discount * first[nxt[i]], discount * discount * second[nxt[i]]
        mean += prob[i] * (r + a)
        square += prob[i] * (r * r + 2.0 * r * a + b)
    return mean, square


@kernel
def ascend(
    indptr, nxt, prob, reward, A, discount, start, table, tolerance, max_sweeps,
    g, collected, first, second,
):  # fmt: skip
    """Switch actions of `table (H, S)` while that raises the variance; returns the sweeps made.

    `g, collected (H, S, M)`, `first, second (H + 1, M, S)` are scratch.
    """
    H, S, M = g.shape
    for sweep in range(max_sweeps):
        forward_moments(indptr, nxt, prob, reward, A, discount, start, table, g, collected)
        first[H] = 0.0
        second[H] = 0.0
        for t in range(H - 1, -1, -1):
            for m in range(M):
                for s in range(S):
                    row = (m * S + s) * A + table[t, s]
                    x, y = row_moments(
                        indptr, nxt, prob, reward, discount, row, first[t + 1, m],
                        second[t + 1, m], t == H - 1,
                    )  # fmt: skip
                    first[t, m, s] = x
                    second[t, m, s] = y
        mean = 0.0
        for m in range(M):
            for s in range(S):
                mean += start[m, s] * first[0, m, s]
        changed = False
        scale = discount ** (H - 1)
        for t in range(H - 1, -1, -1):
            for s in range(S):
                reached = 0.0
                for m in range(M):
                    reached += g[t, s, m]
                old_mean, old_square = 0.0, 0.0
                for m in range(M):  # later switches have changed what follows: look again
                    row = (m * S + s) * A + table[t, s]
                    x, y = row_moments(
                        indptr, nxt, prob, reward, discount, row, first[t + 1, m],
                        second[t + 1, m], t == H - 1,
                    )  # fmt: skip
                    first[t, m, s] = x
                    second[t, m, s] = y
                    old_mean += g[t, s, m] * x
                    old_square += 2.0 * collected[t, s, m] * x + scale * g[t, s, m] * y
                if reached == 0.0:
                    continue
                best, choice, best_mean = tolerance, -1, 0.0
                for a in range(A):
                    if a == table[t, s]:
                        continue
                    new_mean, new_square = 0.0, 0.0
                    for m in range(M):
                        if g[t, s, m] > 0.0:
                            x, y = row_moments(
                                indptr, nxt, prob, reward, discount, (m * S + s) * A + a,
                                first[t + 1, m], second[t + 1, m], t == H - 1,
                            )  # fmt: skip
                            new_mean += g[t, s, m] * x
                            new_square += 2.0 * collected[t, s, m] * x + scale * g[t, s, m] * y
                    d_mean = scale * (new_mean - old_mean)
                    gain = scale * (new_square - old_square) - d_mean * (2.0 * mean + d_mean)
                    if gain > best:
                        best, choice, best_mean = gain, a, d_mean
                if choice >= 0:
                    changed = True
                    mean += best_mean
                    table[t, s] = choice
                    for m in range(M):
                        x, y = row_moments(
                            indptr, nxt, prob, reward, discount, (m * S + s) * A + choice,
                            first[t + 1, m], second[t + 1, m], t == H - 1,
                        )  # fmt: skip
                        first[t, m, s] = x
                        second[t, m, s] = y
            scale /= discount
        if not changed:
            return sweep + 1
    return max_sweeps
