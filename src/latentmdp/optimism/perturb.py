"""Random perturbations of a search, and when to try them."""

from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.optimism.settings import Effort, SearchSettings


class Backoff:
    """What keeps failing is tried less and less often."""

    def __init__(self) -> None:
        self.length, self.left = 0, 0  # turns from the last try to the next, and from now

    def turn(self) -> None:
        """One more turn has come."""
        self.left -= 1

    @property
    def due(self) -> bool:
        """Whether to try in this turn."""
        return self.left <= 0

    def tried(self, helped: bool, most: int, least: int = 0) -> None:
        """Next after `least` turns if it helped; else after twice as many as now, plus one.

        But after no more than `most`.
        """
        self.length = least if helped else min(2 * self.length + 1, most)
        self.left = self.length

    def state(self) -> list[int]:
        """Plain data."""
        return [self.length, self.left]

    def restore(self, state: Ints) -> None:
        """From `state()`."""
        self.length, self.left = (int(number) for number in state)


class Kicks(NamedTuple):
    """Some kicks. A tilt plans under other weights for two sweeps, a jolt switches actions."""

    tilt: Floats  # (tilts, M) factors on the contexts' weights
    through_cap: Floats  # (tilts,) factor on reach through the cap
    jolt: Ints  # (jolts, N) an action, or -1 where a node keeps its own


def draw_kicks(
    rng: np.random.Generator, effort: Effort, settings: SearchSettings, M: int, A: int, N: int
) -> Kicks:
    """As many kicks as the effort asks for."""
    tilt = np.exp(settings.tilt * rng.standard_normal((effort.tilts, M)))
    shares = np.array(settings.through_cap)
    through_cap = shares[rng.integers(0, len(shares), effort.tilts)]
    if effort.jolts == 0:
        return Kicks(tilt, through_cap, np.zeros((0, N), dtype=np.int64))
    hit = rng.random((effort.jolts, N)) < settings.jolted
    if effort.every:
        hit[::2] = True  # tiny: every other one starts anew
    return Kicks(tilt, through_cap, np.where(hit, rng.integers(0, A, (effort.jolts, N)), -1))
