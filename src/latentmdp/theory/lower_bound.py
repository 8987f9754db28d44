"""Theorem 3 played out: a learner against the secrets of the `hard` family, beside the bound.

The bound is on the *average* over secrets, for policies with memory. With `eps` tied to `K`, even a
player who never looks at a reward pays only `x eps K (1 - 1/C)`, within a factor 22.6 of the bound:
a slope of 1/2 in `K` on this family says nothing by itself, so `random` is shown beside.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.builtin_domains.lower_bound import HardInstance, hard_instance
from latentmdp.csr import Floats
from latentmdp.errors import ModelError
from latentmdp.learning.learn import learn
from latentmdp.runtime.calls import Call, Calls
from latentmdp.theory.bounds import LowerBound, lower_bound, upper_bound

if TYPE_CHECKING:
    from pathlib import Path

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
    rules = Rules(
        contexts, states, actions, episodes, algorithm, policy_class, variance, horizon, secrets,
        runs, delta, bonus_scale, seed,
    )  # fmt: skip
    return play_many([rules])[0]


@dataclass(frozen=True)
class Rules:
    """The arguments of `play_lower_bound`, checked."""

    contexts: int = 2
    states: int = 11
    actions: int = 2
    episodes: int = 10**6
    algorithm: str = "mvp"
    policy_class: str = "history"
    variance: float = 0.25
    horizon: int | None = None
    secrets: int = 16
    runs: int = 1
    delta: float = 0.1
    bonus_scale: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        self.bound()  # refuses what the theorem does not cover
        if self.secrets < 1 or self.runs < 1:
            raise ModelError(
                f"secrets and runs must be at least 1; they are {self.secrets} and {self.runs}"
            )

    def bound(self) -> LowerBound:
        """What the theorem says."""
        return lower_bound(
            self.contexts, self.states, self.actions, self.episodes, x=self.x,
            policy_class=self.policy_class,
        )  # fmt: skip

    @property
    def x(self) -> float:
        """The reward that gives the family this variance."""
        return 2.0 * math.sqrt(self.variance)

    def instance(self, secret: Secrets | None = None) -> HardInstance:
        """The family's instance with this secret."""
        return hard_instance(
            self.contexts, self.states, self.actions, horizon=self.horizon, variance=self.variance,
            episodes=self.episodes, secrets=secret,
        )  # fmt: skip

    def chosen(self) -> tuple[list[Secrets], bool]:
        """The secrets to play against, and whether these are all."""
        first = self.instance()
        if first.choices**self.contexts <= self.secrets:
            return all_secrets(self.contexts, first.leaves, self.actions), True
        rng = np.random.default_rng(self.seed)
        drawn = rng.integers(first.choices, size=(self.secrets, self.contexts))
        A = self.actions
        return [tuple((int(c) // A, int(c) % A) for c in row) for row in drawn], False

    def tasks(self) -> list[tuple[Rules, str, Secrets, int]]:
        """One per run: the learner's first, then those of `random`."""
        pairs = list(itertools.product(self.chosen()[0], range(self.runs)))
        return [
            (self, name, secret, self.seed + j + r)
            for name in (self.algorithm, "random")
            for j, (secret, r) in enumerate(pairs)
        ]

    def game(self, regrets: Floats) -> Game:
        """The game from the regrets of its tasks."""
        secrets, every = self.chosen()
        half = len(regrets) // 2
        first = self.instance(secrets[0])
        promise = upper_bound(
            self.contexts, self.states, self.actions, first.horizon, self.episodes, Gamma=2,
            variance=self.variance, delta=self.delta,
        )  # fmt: skip
        return Game(
            self.algorithm, first, self.episodes, regrets[:half], regrets[half:], len(secrets),
            every, self.bound(), promise.total,
        )  # fmt: skip


def _regret(rules: Rules, name: str, secret: Secrets, seed: int) -> float:
    instance = rules.instance(secret)
    value = instance.optimal_value("history")
    run = learn(
        instance.model(), name, rules.episodes, rules.policy_class, rules.delta, rules.bonus_scale,
        seed=seed, optimal=(value, value),
    )  # fmt: skip
    return run.regret


def _in_a_row(tasks: list[tuple[Rules, str, Secrets, int]]) -> Iterator[tuple[int, float]]:
    return ((number, _regret(*task)) for number, task in enumerate(tasks))


def _in_processes(
    tasks: list[tuple[Rules, str, Secrets, int]], jobs: int
) -> Iterator[tuple[int, float]]:
    calls = [Call(f"{__name__}:regret_of", (asdict(rules), *more)) for rules, *more in tasks]
    with Calls(jobs, calls) as work:
        yield from work.results()


def regret_of(rules: dict[str, Any], name: str, secret: list[list[int]], seed: int) -> float:
    """The regret of one run, from plain data, for a worker process."""
    return _regret(Rules(**rules), name, tuple((leaf, action) for leaf, action in secret), seed)


def play_many(
    games: Sequence[Rules], *, jobs: int = 1, say: Callable[[str], None] | None = None
) -> list[Game]:
    """Play several games, runs spread over `jobs` processes; `say` is told how far it is."""
    different = list(dict.fromkeys(games))
    tasks = [task for rules in different for task in rules.tasks()]
    found: dict[int, float] = {}
    for number, regret in _in_processes(tasks, jobs) if jobs > 1 else _in_a_row(tasks):
        found[number] = regret
        if say is not None:
            say(f"{len(found)} of {len(tasks)} runs played")
    left = iter([found[number] for number in range(len(tasks))])
    played = {
        rules: rules.game(np.array(list(itertools.islice(left, len(rules.tasks())))))
        for rules in different
    }
    return [played[rules] for rules in games]


def neighbours(rules: Rules, secrets: int = 3) -> dict[str, list[Rules]]:
    """The games of the figure: `K, M, S, A` varied one at a time, `secrets` at most for each."""
    rules = replace(rules, secrets=min(rules.secrets, secrets))
    K = rules.episodes
    sizes: dict[str, tuple[str, Iterable[int]]] = {
        "K": ("episodes", (max(K // 10, 1), K, 10 * K)),
        "M": ("contexts", {1, 2, 4, rules.contexts}),
        "S": ("states", {8, 11, 19, rules.states}),
        "A": ("actions", {2, 4, 8, rules.actions}),
    }
    return {
        name: [other for size in sorted(found) if (other := _with(rules, field, size))]
        for name, (field, found) in sizes.items()
    }


def _with(rules: Rules, field: str, size: int) -> Rules | None:
    changes: dict[str, Any] = {field: size}
    try:
        return replace(rules, **changes)
    except ModelError:  # as M <= floor(S/2)!
        return None


def figure(games: dict[str, list[Game]], path: str | Path) -> None:
    """One panel per varied size (`K`, `M`, `S`, `A`): regret, `random`, the bound; to a file."""
    import matplotlib  # loads slowly

    matplotlib.use("Agg", force=False)
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    fig, axes = plt.subplots(
        1, len(games), figsize=(3.1 * len(games), 3.4), layout="constrained", sharey=True,
        squeeze=False,
    )  # fmt: skip
    for ax, (name, played) in zip(axes[0], games.items(), strict=True):
        sizes = {
            "K": [g.episodes for g in played],
            "M": [g.instance.contexts for g in played],
            "S": [g.instance.states for g in played],
            "A": [g.instance.actions for g in played],
        }[name]
        ax.plot(
            sizes, [g.random.mean() for g in played], "s-", mfc="none", label="random", color="C1"
        )
        ax.errorbar(
            sizes, [g.mean for g in played], yerr=[np.nan_to_num(g.error) for g in played],
            fmt="o-", capsize=3, label=played[0].algorithm, color="C0",
        )  # fmt: skip
        bound = [g.bound.value if g.bound.applies else math.nan for g in played]
        ax.plot(sizes, bound, "k--", label="lower bound")
        ax.set(xscale="log", yscale="log", xlabel=name)
        if name != "K":  # few sizes: name each
            ax.set_xticks(sizes)
            ax.xaxis.set_major_formatter(ScalarFormatter())
            ax.xaxis.set_minor_formatter(NullFormatter())
            ax.minorticks_off()
        ax.grid(alpha=0.3)
    axes[0, 0].set_ylabel("regret")
    lines, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(lines, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    fig.savefig(path)
    plt.close(fig)
