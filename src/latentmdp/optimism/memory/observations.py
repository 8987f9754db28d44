"""What an agent can see after `(s, a)`: `(symbol, next)`, numbered."""

from dataclasses import dataclass

import numpy as np

from latentmdp.csr import Ints
from latentmdp.optimism.given import Given


@dataclass(frozen=True)
class Observations:
    """Row `s*A + a` has the observations `start[row] .. start[row + 1]`, by symbol, then next."""

    known: Given
    codes: Ints  # (observations,) ascending numbers of (s*A + a, symbol, next)
    start: Ints  # (S*A + 1,)
    symbol: Ints  # (observations,)
    next: Ints  # (observations,)

    @classmethod
    def of_codes(cls, known: Given, codes: Ints) -> "Observations":
        """From ascending `codes`; there are at most `M` symbols."""
        start = np.searchsorted(codes, np.arange(known.S * known.A + 1) * known.M * known.S)
        return cls(known, codes, start, codes // known.S % known.M, codes % known.S)

    @classmethod
    def of(cls, known: Given, row: Ints, next: Ints) -> "Observations":
        """What these outcomes of rows show, each once. `O(outcomes log outcomes)`."""
        return cls.of_codes(known, np.unique(outcome_codes(known, row, next)))

    def number(self, row: Ints, next: Ints) -> Ints:
        """Number of what these outcomes show among the observations after their `(s, a)`."""
        place = self.find(outcome_codes(self.known, row, next))
        assert (place >= 0).all(), "every outcome must be an observation"
        return place - self.start[row % (self.known.S * self.known.A)]

    def find(self, codes: Ints) -> Ints:
        """Where these codes are among all observations; -1 where they are not."""
        if not len(self.codes):
            return np.full(len(codes), -1)
        place = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[place] == codes, place, -1)

    @property
    def row(self) -> Ints:
        """`s*A + a` of each observation."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


def outcome_codes(known: Given, row: Ints, next: Ints) -> Ints:
    """`(s*A + a, symbol, next)` of outcomes, as one number each."""
    return ((row % (known.S * known.A)) * known.M + known.symbols(row, next)) * known.S + next
