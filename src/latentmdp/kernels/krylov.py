"""Large sparse linear systems: GMRES, the same bits on every machine with any number of cores."""

import numpy as np

from latentmdp.runtime.kernel_cache import kernel


@kernel
def gmres_round(indptr, column, entry, right, steps, tolerance, x):
    """Fill `x (N,)` with an approximate solution of `matrix x = right`, by at most so many steps.

    Arnoldi's method with modified Gram-Schmidt and Givens rotations; it ends where the residual is
    `tolerance` times the norm of `right` or less.
    """
    N = right.size
    basis = np.empty((steps + 1, N))
    H, cosine, sine = np.zeros((steps + 1, steps)), np.zeros(steps), np.zeros(steps)
    g = np.zeros(steps + 1)
    x[:] = 0.0
    norm = np.sqrt(_product(right, right))
    if norm == 0.0:
        return
    g[0] = norm
    for n in range(N):
        basis[0, n] = right[n] / norm
    done = 0
    while done < steps:
        j = done
        old, new = basis[j], basis[j + 1]
        for n in range(N):
            total = 0.0
            for e in range(indptr[n], indptr[n + 1]):
                total += entry[e] * old[column[e]]
            new[n] = total
        for i in range(j + 1):
            H[i, j] = _product(basis[i], new)
            for n in range(N):
                new[n] -= H[i, j] * basis[i, n]
        length = np.sqrt(_product(new, new))
        for i in range(j):
            above, below = H[i, j], H[i + 1, j]
            H[i, j] = cosine[i] * above + sine[i] * below
            H[i + 1, j] = cosine[i] * below - sine[i] * above
        radius = np.hypot(H[j, j], length)
        if radius == 0.0:
            break
        cosine[j], sine[j] = H[j, j] / radius, length / radius
        H[j, j] = radius
        g[j + 1] = -sine[j] * g[j]
        g[j] *= cosine[j]
        done += 1
        if length == 0.0 or abs(g[done]) <= tolerance * norm:
            break
        for n in range(N):
            new[n] /= length
    for j in range(done - 1, -1, -1):
        for i in range(j + 1, done):
            g[j] -= H[j, i] * g[i]
        g[j] /= H[j, j]
        for n in range(N):
            x[n] += g[j] * basis[j, n]


@kernel
def _product(a, b):
    total = 0.0
    for n in range(a.size):
        total += a[n] * b[n]
    return total
