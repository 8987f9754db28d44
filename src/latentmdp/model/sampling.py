"""Draw contexts, first states and outcomes of sparse rows from uniform numbers."""

import numpy as np

from latentmdp.model.latent_mdp import LatentMDP


class Sampler:
    """Cumulative tables of a model, searched by bisection. Cost of a draw: O(log Gamma).

    All methods take uniform numbers in [0, 1) of shape (n,) and give integers of shape (n,).
    """

    def __init__(self, model: LatentMDP) -> None:
        self.row = model.row
        self.first, self.last = model.indptr[:-1], model.indptr[1:] - 1
        self.cumulative = row_cumulative(model.indptr, model.prob)
        self.rounds = int(model.branching - 1).bit_length()
        self.contexts = _ending_above_one(np.cumsum(model.w))
        m, s = np.nonzero(model.nu)
        self.start_state = s
        self.start_first = np.searchsorted(m, np.arange(model.M + 1))
        self.start_cumulative = row_cumulative(self.start_first, model.nu[m, s])
        self.start_rounds = int(np.diff(self.start_first).max() - 1).bit_length()

    def context(self, u: np.ndarray) -> np.ndarray:
        """Contexts m ~ w."""
        return np.searchsorted(self.contexts, u, side="right")

    def start(self, context: np.ndarray, u: np.ndarray) -> np.ndarray:
        """First states s ~ nu[context]."""
        low, high = self.start_first[context], self.start_first[context + 1] - 1
        return self.start_state[_bisect(self.start_cumulative, low, high, u, self.start_rounds)]

    def outcome(
        self,
        context: np.ndarray,
        state: np.ndarray,
        action: np.ndarray,
        u: np.ndarray,
        step: np.ndarray | int = 0,
    ) -> np.ndarray:
        """Positions in `model.next`, `.symbol`, `.reward` of what happens next."""
        row = self.row(step, context, state, action)
        return _bisect(self.cumulative, self.first[row], self.last[row], u, self.rounds)


def row_cumulative(indptr: np.ndarray, prob: np.ndarray) -> np.ndarray:
    """Running sums inside each row, (nnz,); the last of a row is infinite: it takes the rest.

    Summed row by row, not over the whole array, so that nothing is lost in long models.
    """
    cumulative = np.empty_like(prob)
    at, stop = indptr[:-1].copy(), indptr[1:]
    running = np.zeros(len(at))
    while at.size:
        running = running + prob[at]
        cumulative[at] = running
        at = at + 1
        more = at < stop
        at, stop, running = at[more], stop[more], running[more]
    cumulative[indptr[1:] - 1] = np.inf
    return cumulative


def _bisect(
    cumulative: np.ndarray, low: np.ndarray, high: np.ndarray, u: np.ndarray, rounds: int
) -> np.ndarray:
    """The first position in low..high whose cumulative sum exceeds u."""
    for _ in range(rounds):
        middle = (low + high) >> 1
        right = u >= cumulative[middle]
        low = np.where(right, middle + 1, low)
        high = np.where(right, high, middle)
    return low


def _ending_above_one(cumulative: np.ndarray) -> np.ndarray:
    cumulative[-1] = np.inf
    return cumulative
