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
def forward_moments(rows, discount, start, table, reach, collected):
    """`reach (H, S, M)`: probability of `(t, s)` and `m`; `collected`: times the reward so far."""
    indptr, following, prob, reward, A = rows.indptr, rows.next, rows.prob, rows.reward, rows.A
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
def row_moments(rows, row, discount, first, second):
    """First and second moment of the reward from `row` on, given those `(S,)` of the next step."""
    following, prob, reward = rows.next, rows.prob, rows.reward
    mean, square = 0.0, 0.0
    for i in range(rows.indptr[row], rows.indptr[row + 1]):
        r = reward[i]
        later = discount * first[following[i]]
        later_square = discount * discount * second[following[i]]
        mean += prob[i] * (r + later)
        square += prob[i] * (r * r + 2.0 * r * later + later_square)
    return mean, square


@kernel
def backward_moments(rows, discount, table, t, s, first, second):
    """Moments of the reward from `(t, s)` on in every context, by those of step `t + 1`."""
    M, S = first.shape[1:]
    for m in range(M):
        row = (m * S + s) * rows.A + table[t, s]
        first[t, m, s], second[t, m, s] = row_moments(
            rows, row, discount, first[t + 1, m], second[t + 1, m]
        )


@kernel
def add_moments(x, y, reach, collected, scale, mean, square):
    """Add what one context contributes from `(t, s)` on; see the module. The mean is unscaled."""
    mean += reach * x
    square += 2.0 * collected * x + scale * reach * y
    return mean, square


@kernel
def best_switch(rows, discount, moments, table, t, s, scale, mean, tolerance):
    """The switch at `(t, s)` that raises the variance most: `(action, change of the mean)`.

    The action is -1 where none raises it by more than `tolerance`. `mean` is that of an episode.
    """
    reach, collected = moments.reach[t, s], moments.collected[t, s]
    first, second = moments.first, moments.second
    M, S = first.shape[1:]
    old_mean, old_square = 0.0, 0.0
    for m in range(M):
        old_mean, old_square = add_moments(
            first[t, m, s], second[t, m, s], reach[m], collected[m], scale, old_mean, old_square
        )
    best, choice, best_mean_gain = tolerance, -1, 0.0
    for a in range(rows.A):
        if a == table[t, s]:
            continue
        new_mean, new_square = 0.0, 0.0
        for m in range(M):
            if reach[m] > 0.0:
                row = (m * S + s) * rows.A + a
                x, y = row_moments(rows, row, discount, first[t + 1, m], second[t + 1, m])
                new_mean, new_square = add_moments(
                    x, y, reach[m], collected[m], scale, new_mean, new_square
                )
        # Var = square - mean^2, and (mean + gain)^2 - mean^2 = gain (2 mean + gain)
        mean_gain = scale * (new_mean - old_mean)
        gain = scale * (new_square - old_square) - mean_gain * (2.0 * mean + mean_gain)
        if gain > best:
            best, choice, best_mean_gain = gain, a, mean_gain
    return choice, best_mean_gain


@kernel
def raise_variance(rows, discount, start, table, tolerance, max_sweeps, moments):
    """Switch actions of `table (H, S)` while that raises the variance; returns the sweeps made.

    `start (M, S)`; `moments` is filled in.
    """
    reach, collected, first, second = moments
    H, S, M = reach.shape
    for sweep in range(max_sweeps):
        forward_moments(rows, discount, start, table, reach, collected)
        first[H] = 0.0
        second[H] = 0.0
        for t in range(H - 1, -1, -1):
            for s in range(S):
                backward_moments(rows, discount, table, t, s, first, second)
        mean = 0.0
        for m in range(M):
            for s in range(S):
                mean += start[m, s] * first[0, m, s]
        changed = False
        scale = discount ** (H - 1)
        for t in range(H - 1, -1, -1):
            for s in range(S):
                # later switches have changed what follows: look again
                backward_moments(rows, discount, table, t, s, first, second)
                reached = 0.0
                for m in range(M):
                    reached += reach[t, s, m]
                if reached == 0.0:
                    continue
                choice, mean_gain = best_switch(
                    rows, discount, moments, table, t, s, scale, mean, tolerance
                )
                if choice >= 0:
                    changed = True
                    mean += mean_gain
                    table[t, s] = choice
                    backward_moments(rows, discount, table, t, s, first, second)
            scale /= discount
        if not changed:
            return sweep + 1
    return max_sweeps
