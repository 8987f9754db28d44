"""Theorem 3 played out: a learner against the secrets of the `hard` family, beside the bound.

The bound is on the *average* over secrets, for policies with memory. With `eps` tied to `K`, even a
player who never looks at a reward pays only `x eps K (1 - 1/C)`, within a factor 22.6 of the bound:
a slope of 1/2 in `K` on this family says nothing by itself, so `random` is shown beside.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.canonical import Floats
from latentmdp.errors import ModelError
from latentmdp.theory.bounds import LowerBound, lower_bound, upper_bound

if TYPE_CHECKING:
    from pathlib import Path

    from latentmdp.domains.lower_bound import HardInstance

Secrets = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Game:
    """A learner's regret on instances of the family, and what the theorems say of it."""

    algorithm: str
    instance: HardInstance  # the first one; the others differ in their secrets
    episodes: int
    regrets: Floats  # (games,) one per secret and seed
    random: Floats  # (games,) of the player `random`
    n_secrets: int
    all_secrets: bool
    bound: LowerBound
    upper: float  # the upper bound's value, at these sizes

    @property
    def mean(self) -> float:
        """Average regret over secrets and seeds."""
        return float(self.regrets.mean())

    @property
    def error(self) -> float:
        """Standard error of the mean; nan for a single game."""
        n = len(self.regrets)
        return float(self.regrets.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan

    @property
    def blind(self) -> float:
        """What a player who never looks pays on average: `x eps K (1 - 1/C)`."""
        i = self.instance
        return i.x * i.eps * self.episodes * (1.0 - 1.0 / i.choices)

    @property
    def averaged(self) -> str:
        """What the mean is over."""
        kind = "all" if self.all_secrets else "randomly chosen"
        per = len(self.regrets) // self.n_secrets
        return f"{self.n_secrets} {kind} secrets, {per} run{'s' * (per > 1)} each"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        i = self.instance
        return {
            "algorithm": self.algorithm, "contexts": i.contexts, "states": i.states,
            "actions": i.actions, "horizon": i.horizon, "episodes": self.episodes, "x": i.x,
            "eps": i.eps, "choices": i.choices, "lower_bound": self.bound.value,
            "applies": self.bound.applies, "failed": list(self.bound.failed),
            "regret": self.mean, "standard_error": self.error,
            "random": float(self.random.mean()), "blind": self.blind, "upper_bound": self.upper,
            "averaged": self.averaged,
        }  # fmt: skip

    def __str__(self) -> str:
        i = self.instance
        ratio = self.mean / self.bound.value
        lines = [
            f"hard family: {i.contexts} contexts, {i.states} states, {i.actions} actions, horizon "
            f"{i.horizon}; x = {i.x:g}, eps = {i.eps:.4g}, {i.choices} choices, "
            f"{self.episodes} episodes",
            f"lower bound   {self.bound.value:12.6g}   " + str(self.bound),
            f"{self.algorithm:<13} {self.mean:12.6g}   +- {self.error:.3g} ({self.averaged}); "
            f"{ratio:.3g} times the bound",
            f"random        {float(self.random.mean()):12.6g}   a blind player pays "
            f"{self.blind:.6g} on average",
            f"upper bound   {self.upper:12.6g}   with probability 1 - 9 delta",
        ]
        if ratio < 1.0:
            lines.append(
                f"BELOW the bound by {self.bound.value - self.mean:.6g}: "
                + (
                    f"the bound is on the average over all secrets, this is over {self.averaged}"
                    if self.bound.applies
                    else "its conditions do not hold here"
                )
            )
        return "\n".join(lines)


def all_secrets(contexts: int, leaves: int, actions: int) -> list[Secrets]:
    """Every assignment of a (leaf, action) to each context, `C^M` of them."""
    choices = list(itertools.product(range(leaves), range(actions)))
    return list(itertools.product(choices, repeat=contexts))


def play_lower_bound(
    contexts: int = 2,
    states: int = 11,
    actions: int = 2,
    episodes: int = 10**6,
    algorithm: str = "mvp",
    *,
    policy_class: str = "history",
    variance: float = 0.25,
    horizon: int | None = None,
    secrets: int = 16,
    runs: int = 1,
    delta: float = 0.1,
    bonus_scale: float = 1.0,
    seed: int = 0,
) -> Game:
    """Play `algorithm` and `random` against secrets of the family with `eps` tied to `episodes`.

    All `C^M` secrets if they are at most `secrets`, else that many, drawn; `runs` runs each. The
    bound is for the history class; another is refused.
    """
    from latentmdp.domains.lower_bound import hard_instance
    from latentmdp.learning.learn import learn

    x = 2.0 * math.sqrt(variance)
    bound = lower_bound(contexts, states, actions, episodes, x=x, policy_class=policy_class)
    if secrets < 1 or runs < 1:
        raise ModelError(f"secrets and runs must be at least 1; they are {secrets} and {runs}")
    sizes: dict[str, Any] = {
        "contexts": contexts, "states": states, "actions": actions, "horizon": horizon,
        "variance": variance, "episodes": episodes,
    }  # fmt: skip
    first = hard_instance(**sizes)
    count = first.choices**contexts
    rng = np.random.default_rng(seed)
    chosen: list[Secrets]
    if count <= secrets:
        chosen = all_secrets(contexts, first.leaves, actions)
    else:
        drawn = rng.integers(first.choices, size=(secrets, contexts))
        chosen = [tuple((int(c) // actions, int(c) % actions) for c in row) for row in drawn]
    regrets: dict[str, list[float]] = {algorithm: [], "random": []}
    for name, found in regrets.items():
        for j, (secret, r) in enumerate(itertools.product(chosen, range(runs))):
            instance = hard_instance(**sizes, secrets=secret)
            value = instance.optimal_value("history")
            run = learn(
                instance.model(), name, episodes, policy_class, delta, bonus_scale,
                seed=seed + j + r, optimal=(value, value),
            )  # fmt: skip
            found.append(run.regret)
    promise = upper_bound(
        contexts, states, actions, first.horizon, episodes, Gamma=2, variance=x * x / 4.0,
        delta=delta,
    )  # fmt: skip
    return Game(
        algorithm, hard_instance(**sizes, secrets=chosen[0]), episodes,
        np.array(regrets[algorithm]), np.array(regrets["random"]), len(chosen), count <= secrets,
        bound, promise.total,
    )  # fmt: skip


def figure(games: dict[str, list[Game]], path: str | Path) -> None:
    """One panel per varied size (`K`, `M`, `S`, `A`): regret, `random`, both bounds; to a file."""
    import matplotlib

    matplotlib.use("Agg", force=False)
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, len(games), figsize=(4 * len(games), 3.6), layout="constrained")
    for ax, (name, played) in zip(np.atleast_1d(axes), games.items(), strict=True):
        sizes = {
            "K": [g.episodes for g in played],
            "M": [g.instance.contexts for g in played],
            "S": [g.instance.states for g in played],
            "A": [g.instance.actions for g in played],
        }[name]
        mean, error = [g.mean for g in played], [g.error for g in played]
        ax.errorbar(sizes, mean, yerr=error, marker="o", label=played[0].algorithm)
        ax.plot(sizes, [g.random.mean() for g in played], marker=".", label="random")
        ax.plot(sizes, [g.bound.value for g in played], "k--", label="lower bound")
        ax.set(xscale="log", yscale="log", xlabel=name, ylabel="regret")
    np.atleast_1d(axes)[0].legend()
    fig.savefig(path)
    plt.close(fig)
