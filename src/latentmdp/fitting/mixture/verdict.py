"""Whether a log shows as many kinds of episodes as a mixture was told to find.

Any log can be cut into `k` groups. Two questions tell whether the groups are in the data:

- *Does the mixture predict?* The log-likelihood of held-out episodes, less that of one context and
  that of `k - 1` contexts, episode by episode, with intervals. Both must lie above 0.
- *Is the grouping stable?* Mixtures of bootstrap samples of the episodes group all episodes again;
  the adjusted Rand index compares that with the grouping of the whole log (1: the same, 0: chance).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from latentmdp.csr import Floats, Ints
from latentmdp.fitting.mixture.expectation_maximisation import (
    EpisodeCounts,
    Mixture,
    fit_mixture,
    held_out_likelihoods,
    memberships,
)

LEVEL = 0.95
FOLDS = 5
STARTS = 2  # of EM for each fold: the clustering, and one at random
BOOTSTRAPS = 8
STABLE = 0.5  # adjusted Rand index below which a grouping is called unstable
PRIOR = 0.5
TOLERANCE = 1e-6  # of EM: verdicts need no more
MOST_EPISODES = 5_000  # of a log that are asked; more are drawn at random


@dataclass(frozen=True)
class MixtureVerdict:
    """What held-out episodes and bootstraps say about a mixture; `str()` is for people.

    Gains are log-likelihoods per held-out episode: mean and interval at 95%.
    """

    contexts: int
    gain: float  # over one context
    gain_lower: float
    gain_upper: float
    step_gain: float  # over one context less
    step_lower: float
    step_upper: float
    stability: float  # median adjusted Rand index over bootstraps
    sure: float  # mean probability of each episode's most likely context
    episodes: int  # that were asked

    @property
    def shown(self) -> bool:
        """Whether the mixture predicts held-out episodes better than fewer contexts do."""
        return self.gain_lower > 0.0 and self.step_lower > 0.0

    @property
    def stable(self) -> bool:
        """Whether bootstraps group the episodes alike."""
        return self.stability >= STABLE

    def __str__(self) -> str:
        k = self.contexts
        text = (
            f"These data show {k} kinds of episodes"
            if self.shown
            else f"These data do not show {k} kinds of episodes"
        )
        text += (
            f": on held-out episodes {k} contexts gain {self.gain:.3g} [{self.gain_lower:.3g}, "
            f"{self.gain_upper:.3g}] in log-likelihood per episode over one context"
        )
        if k > 2:
            text += (
                f" and {self.step_gain:.3g} [{self.step_lower:.3g}, {self.step_upper:.3g}] over "
                f"{k - 1}"
            )
        text += (
            f"; the grouping is {'stable' if self.stable else 'not stable'} over bootstraps "
            f"(adjusted Rand index {self.stability:.2f})"
        )
        if self.shown:
            text += f"; a guessed label is right in about {self.sure:.0%} of episodes, if so"
        else:
            text += "; do not take the guessed labels for facts"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**self.__dict__, "shown": self.shown, "stable": self.stable, "words": str(self)}


def mixture_verdict(
    data: EpisodeCounts, mixture: Mixture, seed: int = 0, labels: Ints | None = None
) -> MixtureVerdict | None:
    """The verdict on a mixture of this log; None where it has one context or too few episodes.

    `labels (E,)`: as in `fit_mixture`; episodes whose context is known are not asked.
    """
    k = mixture.contexts
    free = np.arange(data.counts.shape[0])
    if labels is not None:
        free = free[np.asarray(labels) < 0]
    rng = np.random.default_rng(np.random.SeedSequence([seed, k]))
    if len(free) > MOST_EPISODES:
        free = np.sort(rng.choice(free, MOST_EPISODES, replace=False))
    if k < 2 or len(free) < max(2 * FOLDS, 2 * k):
        return None
    asked = data._replace(counts=data.counts[free])
    by_number = {
        m: held_out_likelihoods(asked, m, FOLDS, seed, PRIOR, STARTS, TOLERANCE)
        for m in {1, k - 1, k}
    }
    guessed = mixture.membership[free].argmax(axis=1)
    indices = []
    for i in range(BOOTSTRAPS):
        rows = rng.integers(0, len(free), len(free))
        again = fit_mixture(
            asked._replace(counts=asked.counts[rows]), k, seed + i + 1, starts=1, prior=PRIOR,
            tolerance=TOLERANCE,
        )  # fmt: skip
        indices.append(adjusted_rand_index(guessed, memberships(asked, again).argmax(axis=1)))
    return MixtureVerdict(
        k, *_interval(by_number[k] - by_number[1]), *_interval(by_number[k] - by_number[k - 1]),
        float(np.median(indices)), float(mixture.membership[free].max(axis=1).mean()), len(free),
    )  # fmt: skip


def adjusted_rand_index(first: Ints, second: Ints) -> float:
    """How alike two groupings are: 1 if they are the same, 0 on average if they are unrelated.

    Hubert and Arabie (1985). Two groupings that each have one group, or only groups of one, agree.

    >>> import numpy as np
    >>> adjusted_rand_index(np.array([0, 0, 1, 1]), np.array([5, 5, 3, 3]))
    1.0
    """
    _, a = np.unique(first, return_inverse=True)
    _, b = np.unique(second, return_inverse=True)
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1.0)

    def pairs(counts: Floats) -> float:
        return float((counts * (counts - 1.0) / 2.0).sum())

    both, of_a, of_b = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    expected = of_a * of_b / max(pairs(np.array([len(a)])), 1.0)
    largest = (of_a + of_b) / 2.0
    return 1.0 if largest == expected else (both - expected) / (largest - expected)


def _interval(gains: Floats) -> tuple[float, float, float]:
    """Mean and normal interval of gains per episode."""
    mean = float(gains.mean())
    error = float(norm.ppf((1.0 + LEVEL) / 2.0)) * float(gains.std(ddof=1)) / len(gains) ** 0.5
    return mean, mean - error, mean + error
