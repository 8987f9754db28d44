"""Ascent in `Var^pi` (Definition 1) over Markov tables, one switch at a time: `Var*` from below.

It is the variance of the total reward: the second moment less the square of the mean.

For a switch at `(t, s)` the change of the mean and of the second moment is exact: forward moments
do not depend on later choices, backward moments do not depend on earlier ones. With the probability
`g` of being there in context `m`, the reward collected until then `C` (times `g`), and the moments
`x, y` of the discounted reward from there on, that context adds to an episode's moments
`discount^t g x` and `discount^t (2 C x + discount^t g y)`, and what was collected before.

Row `(m, s, a)` is number `(m * S + s) * A + a`.
"""

from latentmdp.runtime.kernel_cache import kernel


@kernel
def forward_moments(indptr, following, prob, reward, A, discount, start, table, reach, collected):
    """`reach (H, S, M)`: probability of `(t, s)` and `m`; `collected`: times the reward so far."""
    H, S, M = reach.shape
    reach[:] = 0.0
    collected[:] = 0.0
    for m in range(M):
        for s in range(S):
            reach[0, s, m] = start[m, s]
    scale = 1.0
    for t in range(H - 1):
        for s in range(S):
            for m in range(M):
                if reach[t, s, m] == 0.0:
                    continue
                row = (m * S + s) * A + table[t, s]
                for i in range(indptr[row], indptr[row + 1]):
                    p = prob[i] * reach[t, s, m]
                    reach[t + 1, following[i], m] += p
                    collected[t + 1, following[i], m] += (
                        prob[i] * collected[t, s, m] + p * scale * reward[i]
                    )
        scale *= discount


@kernel
def row_moments(row, indptr, following, prob, reward, discount, first, second, t, m):
    """First and second moment of the reward from `row` on, given those of step `t`."""
    mean, square = 0.0, 0.0
    for i in range(indptr[row], indptr[row + 1]):
        r = reward[i]
        later = discount * first[t, m, following[i]]
        later_square = discount * discount * second[t, m, following[i]]
        mean += prob[i] * (r + later)
        square += prob[i] * (r * r + 2.0 * r * later + later_square)
    return mean, square


@kernel
def raise_variance(rows, discount, start, table, tolerance, max_sweeps, moments):
    """Switch actions of `table (H, S)` while that raises the variance; returns the sweeps made.

    `start (M, S)`; `moments` is filled in.
    """
    reach, collected, first, second = moments
    indptr, following, prob, reward, A = rows.indptr, rows.next, rows.prob, rows.reward, rows.A
    H, S, M = reach.shape
    for sweep in range(max_sweeps):
        forward_moments(
            indptr, following, prob, reward, A, discount, start, table, reach, collected
        )
        first[H] = 0.0
        second[H] = 0.0
        for t in range(H - 1, -1, -1):
            for m in range(M):
                for s in range(S):
                    row = (m * S + s) * A + table[t, s]
                    first[t, m, s], second[t, m, s] = row_moments(
                        row, indptr, following, prob, reward, discount, first, second, t + 1, m
                    )
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
                    reached += reach[t, s, m]
                old_mean, old_square = 0.0, 0.0
                for m in range(M):  # later switches have changed what follows: look again
                    row = (m * S + s) * A + table[t, s]
                    x, y = row_moments(
                        row, indptr, following, prob, reward, discount, first, second, t + 1, m
                    )
                    first[t, m, s], second[t, m, s] = x, y
                    old_mean += reach[t, s, m] * x
                    old_square += 2.0 * collected[t, s, m] * x + scale * reach[t, s, m] * y
                if reached == 0.0:
                    continue
                best, choice, best_mean_gain = tolerance, -1, 0.0
                for a in range(A):
                    if a == table[t, s]:
                        continue
                    new_mean, new_square = 0.0, 0.0
                    for m in range(M):
                        if reach[t, s, m] > 0.0:
                            row = (m * S + s) * A + a
                            x, y = row_moments(
                                row, indptr, following, prob, reward, discount, first, second,
                                t + 1, m,
                            )  # fmt: skip
                            new_mean += reach[t, s, m] * x
                            new_square += 2.0 * collected[t, s, m] * x + scale * reach[t, s, m] * y
                    # Var = square - mean^2, and (mean + x)^2 - mean^2 = x (2 mean + x)
                    mean_gain = scale * (new_mean - old_mean)
                    gain = scale * (new_square - old_square) - mean_gain * (2.0 * mean + mean_gain)
                    if gain > best:
                        best, choice, best_mean_gain = gain, a, mean_gain
                if choice >= 0:
                    changed = True
                    mean += best_mean_gain
                    table[t, s] = choice
                    for m in range(M):
                        row = (m * S + s) * A + choice
                        first[t, m, s], second[t, m, s] = row_moments(
                            row, indptr, following, prob, reward, discount, first, second, t + 1, m
                        )
            scale /= discount
        if not changed:
            return sweep + 1
    return max_sweeps
