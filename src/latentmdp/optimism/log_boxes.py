"""Confidence boxes from a log that need not have shown everything that can happen.

The outcomes of one row are independent draws from a distribution whose support nobody knows. Three
bounds hold at once, after every number of draws, for every row (docs/pessimism.md has the proof):

- an outcome that was seen is not much rarer than it was in the log;
- nor much more common;
- all outcomes that were never seen, known or unknown, have together at most `unseen` mass.

None of them needs the number of possible outcomes.
"""

from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints


class LogBoxes(NamedTuple):
    """`lower, upper` of every outcome that was seen; `unseen` of all others together."""

    lower: Floats  # (outcomes,)
    upper: Floats  # (outcomes,)
    unseen: Floats  # (rows,)


def log_boxes(
    row: Ints, seen: Ints, rows: int, error: float, cut: Ints | None = None, scale: float = 1.0
) -> LogBoxes:
    """Boxes of each row, which fail with probability at most `error` whenever the log stops.

    `row (outcomes,)` and `seen (outcomes,)`: how often the outcomes of each row were seen, at least
    once each. After `n` draws `error / (n (n + 1))` may be spent, a third of it on each bound.
    `cut (rows,)`: further draws whose outcomes nobody knows. `scale` multiplies the distance from
    the estimate; below 1 nothing is promised.
    """
    known = np.bincount(row, seen, rows)
    cut = np.zeros(rows, dtype=np.int64) if cut is None else cut
    n = np.maximum(known + cut, 1.0)
    log_term = np.log(3.0 / error) + np.log(n) + np.log(n + 1.0)  # ln(1 / level), before shares
    count, draws, free = seen.astype(float), n[row], cut[row] / n[row]
    p_hat = count / draws
    # an outcome's share of the level is its share of the draws
    of_outcome = log_term[row] - np.log(p_hat)
    lower = least_share(count, draws, of_outcome)
    upper = largest_share(count + cut[row], draws, of_outcome)
    unseen = unseen_mass(row, seen, cut, log_term)
    least_unseen = cut / n
    return LogBoxes(
        np.maximum(p_hat - scale * (p_hat - lower), 0.0),
        np.minimum(p_hat + free + scale * np.maximum(upper - p_hat - free, 0.0), 1.0),
        np.minimum(least_unseen + scale * np.maximum(unseen - least_unseen, 0.0), 1.0),
    )


def least_share(count: Floats, draws: Floats, log_term: Floats) -> Floats:
    """Lower bound of the probability of an outcome that was seen `count` times in `draws` draws.

    Bernstein's inequality, without the draw by which the outcome became known.
    """
    rest = np.maximum(draws - 1.0, 1.0)
    share = (count - 1.0) / rest
    radius = np.sqrt(2.0 * share * log_term / rest) + log_term / (3.0 * rest)
    return np.maximum(share - radius, 0.0)


def largest_share(count: Floats, draws: Floats, log_term: Floats) -> Floats:
    """Upper bound of a probability: Chernoff's inequality for the lower tail, solved for it."""
    most = count + log_term + np.sqrt(log_term**2 + 2.0 * count * log_term)
    return np.minimum(most / draws, 1.0)


def unseen_mass(row: Ints, seen: Ints, cut: Ints, log_term: Floats) -> Floats:
    """`(rows,)` upper bounds of the probability of everything that a row has never shown.

    One draw of each of the `k` outcomes shows them all; the other `n - k` draws found nothing else,
    but for the `cut` ones. There are `C(n, k)` ways to choose `k` draws, and as many as the product
    of `seen` would have done as well. `log_term (rows,)` is `ln(1 / level)` of each row.
    """
    from scipy.special import gammaln  # SciPy loads slowly

    rows = len(log_term)
    kinds = np.bincount(row, minlength=rows).astype(float)
    n = np.bincount(row, seen, rows) + cut
    rest = n - kinds
    ways = gammaln(n + 1.0) - gammaln(kinds + 1.0) - gammaln(rest + 1.0)
    ways -= np.bincount(row, np.log(seen), rows)
    log_term = log_term + ways + np.log(kinds + 1.0) + np.log(np.maximum(kinds, 1.0))
    log_term = log_term + np.log(cut + 1.0) + np.log(cut + 2.0)
    rest = np.maximum(rest, 1e-300)
    with_cut = largest_share(cut.astype(float), rest, log_term)
    found = np.where(cut > 0, with_cut, -np.expm1(-log_term / rest))
    return np.where(kinds > 0, np.minimum(found, 1.0), 1.0)
