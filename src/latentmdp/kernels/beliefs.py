"""Beliefs over contexts: Bayes' rule, and when two beliefs count as one.

Beliefs are rows of a table `(n, M)`. Helpers take the table and the number of a row: to make a view
of the row for each call would cost more than what they do.
"""

from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.structs import Indices
from latentmdp.runtime.kernel_cache import kernel

SAME_BELIEF = 2.0**-40  # probabilities this close are equal
LOW_BITS, FACTOR = np.uint64(0xFFFFFFFF), np.uint64(0x9E3779B1)  # of the hash
NONE = 2**32 - 1  # no node, no edge, no belief: indices are unsigned

# Entries of `used`: what is in use of a growing tree or graph of beliefs. Inner nodes are those
# that were expanded; a unit of work is about 250 ns; beliefs and sweeps are those of a graph.
N_NODES, N_EDGES, N_INNER, WORK_UNITS, N_BELIEFS, N_SWEEPS = 0, 1, 2, 3, 4, 5


class ObservationModel(NamedTuple):
    """Observations of all contexts side by side; `J` in all, those of one row contiguous.

    Row `(t, s, a)` is number `t * stride + s * A + a`; `stride` is 0 where rows are the same at
    every step, else `S * A`.
    """

    A: int
    stride: int
    ptr: Indices  # (rows + 1,) observations of a row are ptr[row] ... ptr[row + 1]
    next: Indices  # (J,)
    symbol: Ints  # (J,) sorted by (symbol, next) inside a row
    likelihood: Floats  # (J, M) probability of the observation in each context
    reward: Floats  # (rows, M) expected reward
    last_reward: Floats  # (S*A, M) of the last step, with what comes after it
    terminal: Floats  # (S, M) what comes after the last step
    discount: float


@kernel
def posterior(belief, i, likelihood, o, post):
    """Bayes' rule: put belief `i` after observation `o` into `post (1, M)`; how likely that is.

    `b_m(h a r s') ~ b_m(h) P_m(s'|s,a) 1[r = R_m(s,a)]`, where `likelihood (J, M)` has the product
    of the last two. If the observation is impossible, the answer is 0, and so is all of `post`.
    """
    total = 0.0
    for m in range(belief.shape[1]):
        post[0, m] = belief[i, m] * likelihood[o, m]
        total += post[0, m]
    if total > 0.0:
        for m in range(belief.shape[1]):
            post[0, m] /= total
    return total


@kernel
def hash_belief(seed, belief, i):
    """A hash that agrees for beliefs that round to the same multiple of `SAME_BELIEF`.

    Each number is mixed in by a product of 32-bit factors, whose halves are then combined.
    """
    h = np.uint64(seed) & LOW_BITS
    for m in range(belief.shape[1]):
        b = belief[i, m]
        rounded = np.uint64(np.int64(b / SAME_BELIEF + 0.5)) + np.uint64(b > 0.0)
        h = (h ^ (rounded & LOW_BITS)) * FACTOR + (rounded >> np.uint64(32))
        h = (h >> np.uint64(32)) ^ (h & LOW_BITS)
    return h


@kernel
def same_belief(belief, i, other, j):
    """Whether belief `i` and `other[j]` are equal up to rounding and have the same support."""
    for m in range(belief.shape[1]):
        b, c = belief[i, m], other[j, m]
        if abs(b - c) > SAME_BELIEF or (b > 0.0) != (c > 0.0):
            return False
    return True
