"""Models from the posterior: one Dirichlet draw per row, per context's first states, and of `w`.

The prior is that of the fit. With `prior=0` a row's draw has the outcomes that the row has shown
and no others; a row that was seen once is then not uncertain at all, and intervals are too short
where data are thin (docs/how_to_fit.md measures that). Steps at which an episode was cut off make
ends less likely, and nothing else more certain (`cut_steps.py`). Rows that were never seen stay as
assumed. Rewards that vary are drawn around their means with their standard errors, normally.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from latentmdp.csr import Floats
from latentmdp.model.horizons import checked_whole
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.totals import extreme_totals

if TYPE_CHECKING:
    from latentmdp.fitting.estimation.estimate import Estimate

TINY = 1e-290  # an outcome that is possible stays so


def draw_models(found: Estimate, n: int, seed: int = 0) -> Iterator[LatentMDP]:
    """`n` models, each with a random stream of its own: the first ones do not depend on `n`."""
    n, seed = checked_whole("n", n, 0), checked_whole("seed", seed, 0)
    streams = np.random.SeedSequence(seed)
    for _ in range(n):
        yield _draw(found, np.random.default_rng(streams.spawn(1)[0]))


def _draw(found: Estimate, random: np.random.Generator) -> LatentMDP:
    base = found.model
    gamma = np.maximum(random.standard_gamma(found.alpha), np.where(found.alpha > 0, TINY, 0.0))
    if (
        found.cut.steps.any()
    ):  # steps that went on, who knows where to: shares do not depend on them
        more = random.standard_gamma(found.cut.steps)
        gamma = gamma * found.cut.factor(found.row, found.next, gamma, more)
    total = np.bincount(found.row, gamma, base.M * base.S * base.A)
    drawn = gamma / np.where(total > 0, total, 1.0)[found.row]
    changes: dict[str, Floats | float] = {
        "prob": np.where(found.alpha > 0, drawn, found.prob)[found.place],
        "w": base.w if found.w_alpha is None else _dirichlet(found.w_alpha, random),
        "nu": base.nu if found.nu_alpha is None else _dirichlet(found.nu_alpha, random),
    }
    if found.error.any():
        noise = found.error * random.standard_normal(len(found.error))
        reward = (found.reward + noise)[found.place]
        rows = base.rows._replace(reward=reward)
        low, high = (
            float(sign * (sign * extreme_totals(
                base.sizes, rows, base.nu, base.horizon, base.discount, sign)).max())
            for sign in (-1, 1)
        )  # fmt: skip
        changes |= {"reward": reward, "min_return": low, "max_return": high}
    for value in changes.values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return base.with_fields(**changes)  # same rows, checked before


def _dirichlet(alpha: Floats, random: np.random.Generator) -> Floats:
    """Draws along the last axis; 0 where `alpha` is."""
    gamma = np.maximum(random.standard_gamma(alpha), np.where(alpha > 0, TINY, 0.0))
    return gamma / gamma.sum(axis=-1, keepdims=True)
