"""Gauss and Seidel's sweeps for the values of many nodes that follow one another in circles."""

from latentmdp.kernels._cache import kernel

ROUNDING = 2.0**-52
SURELY_ENOUGH = 40.0  # times 1 / (1 - discount): then even the slowest chain is down to rounding


@kernel
def sweep_chain(indptr, column, entry, discount, right, x, forward):
    """Solve `x = right + discount * (matrix x)` in place, row by row, until rounding error is left.

    Each sweep shrinks the largest error by the discount at least, so what is left after a change of
    `c` is at most `c * discount / (1 - discount)`. Nodes mostly lead to later ones: values are
    swept from the last to the first, visits (`forward`) from the first to the last. Returns the
    sweeps made.
    """
    N = right.size
    most = int(SURELY_ENOUGH / (1.0 - discount)) + 10
    for sweep in range(most):
        change, largest = 0.0, 0.0
        for k in range(N):
            n = k if forward else N - 1 - k
            total, own = 0.0, 0.0
            for i in range(indptr[n], indptr[n + 1]):
                if column[i] == n:
                    own += entry[i]
                else:
                    total += entry[i] * x[column[i]]
            value = (right[n] + discount * total) / (1.0 - discount * own)
            change = max(change, abs(value - x[n]))
            largest = max(largest, abs(value))
            x[n] = value
        if change <= ROUNDING * largest * (1.0 - discount) or change == 0.0:
            return sweep + 1
        if change <= 4.0 * ROUNDING * largest and sweep * (1.0 - discount) > SURELY_ENOUGH / 2:
            return sweep + 1  # the changes are rounding error themselves
    return most
