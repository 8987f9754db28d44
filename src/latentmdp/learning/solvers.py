"""What Algorithm 1 calls on line 18: `Solver()`, by name, as one small protocol.

The optimistic ones (`bernstein`, `mvp`, and every rule registered in `latentmdp.optimism`) come
from there; `random` and `oracle` need no optimism and are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.formats.schema import STREAM, fitting
from latentmdp.learning.state import State, generator_state, restore_generator
from latentmdp.policy import PolicyGraph

if TYPE_CHECKING:
    from latentmdp.counts import Counts
    from latentmdp.optimism.known import Known

Array = np.ndarray[Any, np.dtype[Any]]
POLICY_CLASSES = ("markov", "history")
MOST_DRAWS = 10**5
"""Episodes of an algorithm that plans after every one: a minute or two on small models."""
TIES = ("secondary", "ladder", "incumbent")  # which of several argmax policies is played


class Answer(NamedTuple):
    """A solver's policy, its optimistic value, and a bound on the best one of the class."""

    policy: PolicyGraph
    value: float
    upper: float
    kept: bool = False  # the same policy as at the last call


class Solver(Protocol):
    """`Solver()` of Algorithm 1. Its state is plain data, so that a learner can be resumed."""

    def replan(self, counts: Counts, changed: Array) -> Answer:
        """A policy for the snapshot, of which the rows `changed` are new."""

    def state(self) -> State:
        """Everything that later answers depend on, besides the counts."""

    def restore(self, state: State, counts: Counts) -> None:
        """Continue from `state()` to the same bits."""


@dataclass
class RandomSolver:
    """A deterministic policy drawn anew at each update, uniformly among the Markov ones."""

    known: Known
    random: np.random.Generator

    def replan(self, counts: Counts, changed: Array) -> Answer:
        """Any policy; nothing is claimed about its value but that totals are at most 1."""
        table = self.random.integers(self.known.A, size=(self.known.H, self.known.S))
        return Answer(PolicyGraph.from_table(table), 1.0, 1.0)

    def state(self) -> State:
        """The stream."""
        return {"random": generator_state(self.random)}

    def restore(self, state: State, counts: Counts) -> None:
        """Continue the stream."""
        found = fitting(state, {"random": STREAM}, {}, "solver.")
        self.random = restore_generator(found["random"])


@dataclass
class OracleSolver:
    """The best known policy of the class in the true model, from the first episode on."""

    answer: Answer

    def replan(self, counts: Counts, changed: Array) -> Answer:
        """Always the same."""
        return self.answer

    def state(self) -> State:
        """Nothing: the policy is in the learner."""
        return {}

    def restore(self, state: State, counts: Counts) -> None:
        """Nothing to do."""


@dataclass(frozen=True)
class Choice:
    """Which solver, as the user said it; recorded in every result."""

    algorithm: str = "mvp"
    episodes: int = 1
    policy_class: str = "markov"
    delta: float = 0.1
    bonus_scale: float = 1.0
    ties: str = "secondary"

    def __post_init__(self) -> None:
        if self.policy_class not in POLICY_CLASSES:
            raise ModelError(
                f"policy_class must be one of {', '.join(POLICY_CLASSES)}; "
                f"it is {self.policy_class!r}"
            )
        whole = isinstance(self.episodes, (int, np.integer)) or (
            isinstance(self.episodes, float) and self.episodes.is_integer()
        )
        if not whole or isinstance(self.episodes, bool) or not 1 <= self.episodes <= 2**53:
            raise ModelError(
                f"episodes must be a whole number from 1 to 2^53; it is {self.episodes!r}"
            )
        object.__setattr__(self, "episodes", int(self.episodes))
        for name in ("delta", "bonus_scale"):
            try:
                object.__setattr__(self, name, float(getattr(self, name)))
            except (TypeError, ValueError):
                raise ModelError(
                    f"{name} must be a number; it is {getattr(self, name)!r}"
                ) from None
        if self.ties not in TIES:
            raise ModelError(f"ties must be one of {', '.join(TIES)}; it is {self.ties!r}")
        if self.algorithm not in algorithms():
            raise ModelError(
                f"algorithm must be one of {', '.join(algorithms())}; it is {self.algorithm!r}"
            )
        if self.every_episode and self.episodes > MOST_DRAWS:
            raise ModelError(
                f"{self.algorithm} plans after every episode, so episodes must be at most "
                f"{MOST_DRAWS}; it is {self.episodes} (psrl draws at doublings and takes any)"
            )

    @property
    def every_episode(self) -> bool:
        """Whether a new policy is made after every episode, and not only at doublings."""
        from latentmdp.optimism.confidence import RULES

        return self.algorithm in RULES and RULES[self.algorithm].every_episode


def algorithms() -> list[str]:
    """The names that `learn` takes."""
    from latentmdp.optimism.confidence import RULES

    return sorted([*RULES, "oracle", "random"])


# bytes, measured: per (step, state, context) of a solver; per (context, state, action, next state)
# of rewards on transitions, of psrl's samples, of comparing contexts for a memory
CELL, REWARD, SAMPLE, COMPARISON = 600, 17, 160, 60


def check_affordable(choice: Choice, M: int, S: int, A: int, H: int, on_next: bool) -> None:
    """Refuse, before any work, what takes more than half of this machine's memory.

    `on_next`: whether rewards depend on the next state (or are to be estimated).
    """
    from latentmdp.formats.files import memory_budget
    from latentmdp.optimism.confidence import RULES

    rule = RULES.get(choice.algorithm)
    each = REWARD * on_next
    if rule is not None:
        each += SAMPLE * rule.every_next + COMPARISON * (choice.policy_class == "history")
    needed = (CELL * (H + 1) * S * M if rule is not None else 0) + each * M * S * A * S
    room = 2 * memory_budget()
    if needed > room:
        why = "a number for every (context, state, action, next state)" if each else "its solver"
        raise ModelError(
            f"{choice.algorithm} in the {choice.policy_class} class must fit into {room / 1e9:.3g} "
            f"GB, half of this machine's memory; with {M} contexts, {S} states, {A} actions and "
            f"{H} steps it takes about {needed / 1e9:.3g} GB, most of it for {why}"
        )


def make_solver(
    choice: Choice, known: Known, random: np.random.Generator, oracle: Answer | None = None
) -> Solver:
    """The solver that was chosen; `oracle` is what the algorithm of that name answers."""
    from latentmdp.optimism.confidence import Setting, rule_named

    setting = Setting(
        known.M, known.S, known.A, known.H, choice.episodes, choice.delta, choice.bonus_scale
    )
    if choice.algorithm == "random":
        return RandomSolver(known, random)
    if choice.algorithm == "oracle":
        if oracle is None:
            raise ModelError("the oracle must be given a policy; learn() plans one")
        return OracleSolver(oracle)
    from latentmdp.optimism import make_planner

    rule = rule_named(choice.algorithm)
    return make_planner(known, rule, setting, choice.policy_class, random, choice.ties)
