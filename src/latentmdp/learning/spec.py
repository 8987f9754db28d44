"""`RunSpec`: the settings of a run of a learner, saved with it."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.optimism.confidence import RULES, BonusConstants
from latentmdp.optimism.ties import TIES
from latentmdp.policy.policy_class import check_policy_class

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.optimism.given import Given

SIMULATORS = ("counts", "episodes")  # by blocks of episodes; step by step
MOST_DRAWS = 10**5
"""Episodes of an algorithm that plans after every one: a minute or two on small models."""


@dataclass(frozen=True)
class RunSpec:
    """What was asked for, with exact types; with the model it determines a run to the bit.

    Bad values are refused in one sentence. Only `check_algorithm` looks whether the algorithm is
    registered: a saved run can be read without its rule.
    """

    algorithm: str = "mvp"
    episodes: int = 1  # the planned K of the logarithmic term; a run can be continued beyond it
    policy_class: str = "markov"
    delta: float = 0.1
    bonus_scale: float = 1.0  # 1 is the paper
    seed: int = 0
    simulator: str = "counts"
    ties: str = "secondary"  # which of several argmax policies is played

    def __post_init__(self) -> None:
        check_policy_class(self.policy_class)
        whole = isinstance(self.episodes, (int, np.integer)) or (
            isinstance(self.episodes, float) and self.episodes.is_integer()
        )
        if not whole or isinstance(self.episodes, bool) or not 1 <= self.episodes <= 2**53:
            raise ModelError(
                f"episodes must be a whole number from 1 to 2^53; it is {self.episodes!r}"
            )
        if not isinstance(self.seed, (int, np.integer)) or self.seed < 0:
            raise ModelError(f"seed must be a whole number of at least 0; it is {self.seed!r}")
        exact: dict[str, Any] = {"episodes": int(self.episodes), "seed": int(self.seed)}
        for name in ("delta", "bonus_scale"):
            try:
                exact[name] = float(getattr(self, name))
            except (TypeError, ValueError):
                raise ModelError(
                    f"{name} must be a number; it is {getattr(self, name)!r}"
                ) from None
        for name, value in exact.items():
            object.__setattr__(self, name, value)
        for name, known in (("simulator", SIMULATORS), ("ties", TIES)):
            if getattr(self, name) not in known:
                raise ModelError(
                    f"{name} must be one of {', '.join(known)}; it is {getattr(self, name)!r}"
                )

    def check_algorithm(self) -> None:
        """Refuse an algorithm that nobody has registered, and more episodes than it can play."""
        if self.algorithm not in algorithms():
            raise ModelError(
                f"algorithm must be one of {', '.join(algorithms())}; it is {self.algorithm!r}"
            )
        if self.every_episode and self.episodes > MOST_DRAWS:
            raise ModelError(
                f"{self.algorithm} plans after every episode, so episodes must be at most "
                f"{MOST_DRAWS}; it is {self.episodes} (psrl draws at doublings and takes any)"
            )

    def check_range(self) -> None:
        """Refuse a delta or a bonus scale that no model can be learned with."""
        BonusConstants(1, 1, 1, 1, self.episodes, self.delta, self.bonus_scale)

    @property
    def every_episode(self) -> bool:
        """Whether a new policy is made after every episode, and not only at doublings."""
        return self.algorithm in RULES and RULES[self.algorithm].every_episode

    def for_learner(self) -> dict[str, Any]:
        """What a learner takes of it, by name: the seed and the simulator belong to the run."""
        return {k: v for k, v in asdict(self).items() if k not in ("seed", "simulator")}

    def constants(self, sizes: LatentMDP | Given) -> BonusConstants:
        """What bonuses and radii depend on besides counts, for a problem of these sizes."""
        return BonusConstants(
            sizes.M, sizes.S, sizes.A, sizes.H, self.episodes, self.delta, self.bonus_scale
        )


def algorithms() -> list[str]:
    """The names that `learn` takes."""
    return sorted([*RULES, "oracle", "random"])


def __getattr__(name: str) -> Any:
    if name != "Spec":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("learning.spec.Spec is now called RunSpec", DeprecationWarning, stacklevel=2)
    return RunSpec
