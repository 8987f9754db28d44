"""Random perturbations of a search, and when to try them."""

from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.optimism.settings import Effort, SearchEffort


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


class Perturbations(NamedTuple):
    """Ways out of a local optimum, each tried once: other weights first, then random actions."""

    weights: Floats  # (perturb_weights, M) factors on the contexts' weights, for two sweeps
    through_cap: Floats  # (perturb_weights,) factor on reach through the cap
    actions: Ints  # (randomize_actions, N) an action, or -1 where a node keeps its own


def draw_perturbations(
    rng: np.random.Generator, effort: Effort, settings: SearchEffort, M: int, A: int, N: int
) -> Perturbations:
    """As many as the effort asks for."""
    normal = rng.standard_normal((effort.perturb_weights, M))
    weights = np.exp(settings.weight_spread * normal)
    shares = np.array(settings.through_cap)
    through_cap = shares[rng.integers(0, len(shares), effort.perturb_weights)]
    many = effort.randomize_actions
    if many == 0:
        return Perturbations(weights, through_cap, np.zeros((0, N), dtype=np.int64))
    hit = rng.random((many, N)) < settings.random_share
    if effort.every:
        hit[::2] = True  # tiny: every other one starts anew
    actions = np.where(hit, rng.integers(0, A, (many, N)), -1)
    return Perturbations(weights, through_cap, actions)
