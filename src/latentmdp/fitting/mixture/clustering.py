"""Groups of episodes that seem to follow the same dynamics: where EM for a mixture starts.

After Kausik, Tan and Tewari, Learning Mixtures of Markov Chains and MDPs (ICML 2023): each episode
is cut into two disjoint halves, whose noise is independent. The products of the halves' transition
frequencies, summed over episodes, have the span of the contexts' differences as their leading
subspace; noise cancels. Episodes are projected onto it and clustered by their distances there.

Where the paper takes one subspace for each (state, action) that both halves visit often, this takes
one for all of them together, as short episodes seldom visit a (state, action) twice: an episode is
the vector of `counts - visits * pooled frequency` of its outcomes, each divided by the square root
of the pooled frequency.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from latentmdp.csr import Floats, Ints

DENSE = 200  # outcomes up to which eigenvectors come from a dense matrix
ROUNDS = 50  # of k-means at most
SEEDS = 10  # starts of k-means


def clustered(
    halves: tuple[csr_array, csr_array], group: Ints, clusters: int, rng: np.random.Generator
) -> Ints:
    """`(E,)` a cluster for each episode. `halves`: counts `(E, J)` of the two halves.

    `group (J,)`: outcomes with one group are alternatives.
    """
    episodes, outcomes = halves[0].shape
    width = min(clusters, outcomes - 1, episodes - 1)
    if clusters == 1 or width < 1:
        return np.zeros(episodes, dtype=np.int64)
    points = _projected(halves, group, width, rng)
    return _k_means(points, clusters, rng)


def _projected(
    halves: tuple[csr_array, csr_array], group: Ints, width: int, rng: np.random.Generator
) -> Floats:
    """`(E, width)` episodes in the subspace that both halves agree on."""
    outcomes = len(group)
    total = np.asarray((halves[0] + halves[1]).sum(axis=0)).reshape(-1)
    visits = np.bincount(group, total)
    share = total / np.maximum(visits, 1.0)[group]
    weight = 1.0 / np.sqrt(np.where(share > 0.0, share, 1.0))
    member = csr_array((np.ones(outcomes), (np.arange(outcomes), group)))
    expected = csr_array((share * weight, (group, np.arange(outcomes))))  # (groups, J)
    scaled = [half @ diags_array(weight) for half in halves]
    seen = [half @ member for half in halves]  # (E, groups)

    def residual(i: int, x: Floats) -> Floats:
        found: Floats = scaled[i] @ x - seen[i] @ (expected @ x)
        return found

    def transposed(i: int, y: Floats) -> Floats:
        found: Floats = scaled[i].T @ y - expected.T @ (seen[i].T @ y)
        return found

    def product(x: Floats) -> Floats:  # symmetric: (R1' R2 + R2' R1) x
        return transposed(0, residual(1, x)) + transposed(1, residual(0, x))

    if outcomes <= DENSE:
        _, vectors = np.linalg.eigh(product(np.eye(outcomes)))
        basis = vectors[:, : -width - 1 : -1]
    else:
        basis = _leading(product, outcomes, width, rng)
    return residual(0, basis) + residual(1, basis)


def _leading(
    product: Callable[[Floats], Floats], size: int, width: int, rng: np.random.Generator
) -> Floats:
    """`(size, width)` eigenvectors of the largest eigenvalues, or random ones if none stand out."""
    start = rng.standard_normal(size)
    square = LinearOperator((size, size), matvec=product, dtype=np.float64)
    try:
        _, basis = eigsh(square, k=width, which="LA", v0=start, tol=1e-4, maxiter=1000)
    except ArpackError:  # the matrix is zero, or its leading eigenvalues are nearly equal
        basis = np.linalg.qr(rng.standard_normal((size, width)))[0]
    found: Floats = basis
    return found


def _k_means(points: Floats, clusters: int, rng: np.random.Generator) -> Ints:
    """Lloyd's algorithm from several k-means++ starts; the labels with the smallest spread."""
    best, best_spread = np.zeros(len(points), dtype=np.int64), np.inf
    for _ in range(SEEDS):
        centre = points[[rng.integers(len(points))]]
        for _ in range(clusters - 1):
            distance = _distances(points, centre).min(axis=1)
            total = distance.sum()
            pick = (
                int(np.searchsorted(np.cumsum(distance), rng.random() * total))
                if total > 0.0
                else int(rng.integers(len(points)))
            )
            centre = np.vstack([centre, points[min(pick, len(points) - 1)]])
        for _ in range(ROUNDS):
            label = _distances(points, centre).argmin(axis=1)
            count = np.bincount(label, minlength=clusters)
            sums = np.stack([np.bincount(label, column, clusters) for column in points.T], axis=1)
            moved = np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], centre)
            if np.allclose(moved, centre):
                break
            centre = moved
        distance = _distances(points, centre)
        spread = float(distance.min(axis=1).sum())
        if spread < best_spread:
            best, best_spread = distance.argmin(axis=1), spread
    return best


def _distances(points: Floats, centre: Floats) -> Floats:
    """`(E, k)` squared distances."""
    found: Floats = ((points[:, None] - centre[None]) ** 2).sum(axis=2)
    return found
