"""Bounds on stationary Markov policies: each context on its own, with some actions fixed."""

from latentmdp.runtime.kernel_cache import kernel


@kernel
def tighten_known(
    indptr, following, prob, row_reward, A, discount, fixed, slack, most_sweeps, tolerance, value
):  # fmt: skip
    """Lower `value (M, S)`, which must bound the values from above, by sweeps in place.

    In state `s` only the action `fixed[s]` may be played, all if it is -1. Bounds hold wherever the
    sweeps stop: at a change of less than `tolerance`, or after `most_sweeps`. Returns the sweeps.
    """
    M, S = value.shape
    for sweep in range(most_sweeps):
        change = 0.0
        for m in range(M):
            for s in range(S):
                first, end = 0, A
                if fixed[s] >= 0:
                    first, end = fixed[s], fixed[s] + 1
                best = 0.0
                for a in range(first, end):
                    row = (m * S + s) * A + a
                    total = 0.0
                    for i in range(indptr[row], indptr[row + 1]):
                        total += prob[i] * value[m, following[i]]
                    total = row_reward[row] + discount * total
                    if a == first or total > best:
                        best = total
                best += slack
                if best < value[m, s]:
                    change = max(change, value[m, s] - best)
                    value[m, s] = best
        if change <= tolerance:
            return sweep + 1
    return most_sweeps
