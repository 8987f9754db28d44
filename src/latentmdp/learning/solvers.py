"""What Algorithm 1 calls on line 18: `Solver()`, by name, as one small protocol.

The optimistic ones (`bernstein`, `mvp`, and every rule registered in `latentmdp.optimism`) come
from there; `random` and `oracle` need no optimism and are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from latentmdp.csr import Array
from latentmdp.errors import ModelError
from latentmdp.formats.schema import STREAM, fitting
from latentmdp.learning.saved.state import State, generator_state, restore_generator
from latentmdp.optimism import make_planner
from latentmdp.optimism.confidence import RULES
from latentmdp.optimism.settings import SEARCH, SearchEffort
from latentmdp.policy.graph import PolicyGraph
from latentmdp.runtime.files import memory_budget

if TYPE_CHECKING:
    from latentmdp.learning.spec import RunSpec
    from latentmdp.model.counts import Counts
    from latentmdp.optimism.given import Given


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

    known: Given
    random: np.random.Generator

    def replan(self, counts: Counts, changed: Array) -> Answer:
        """Any policy; nothing is claimed about its value but that totals are at most 1."""
        shape = (self.known.H, self.known.S)
        if self.known.allowed is None:
            table = self.random.integers(self.known.A, size=shape)
        else:  # the available actions of a state come first in this order
            order = np.argsort(~self.known.allowed, axis=1, kind="stable")
            number = self.random.integers(self.known.allowed.sum(axis=1), size=shape)
            table = order[np.arange(self.known.S), number]
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


# memory, measured; all but the first per (context, state, action, next state)
SOLVER_BYTES = 600  # per (step, state, context)
REWARD_BYTES = 17  # where rewards are on transitions
SAMPLE_BYTES = 160  # of psrl
SUCCESSOR_BYTES = 12  # per (step, state, action, next state) of the graph that is planned on
COMPARISON_BYTES = 60  # of contexts, for a policy with memory


def check_affordable(spec: RunSpec, M: int, S: int, A: int, H: int, on_next: bool) -> None:
    """Refuse, before any work, what takes more than half of this machine's memory.

    `on_next`: whether rewards depend on the next state (or are to be estimated).
    """
    rule = RULES.get(spec.algorithm)
    each: float = REWARD_BYTES * on_next
    if rule is not None:
        each += SAMPLE_BYTES * rule.every_next + COMPARISON_BYTES * (spec.policy_class == "history")
        each += SUCCESSOR_BYTES * (rule.every_next or on_next) * (H + 1) / M
    needed = (SOLVER_BYTES * (H + 1) * S * M if rule is not None else 0) + each * M * S * A * S
    room = 2 * memory_budget()
    if needed > room:
        why = "a number for every (context, state, action, next state)" if each else "its solver"
        raise ModelError(
            f"{spec.algorithm} in the {spec.policy_class} class must fit into {room / 1e9:.3g} "
            f"GB, half of this machine's memory; with {M} contexts, {S} states, {A} actions and "
            f"{H} steps it takes about {needed / 1e9:.3g} GB, most of it for {why}"
        )


def make_solver(
    spec: RunSpec,
    known: Given,
    random: np.random.Generator,
    oracle: Answer | None = None,
    settings: SearchEffort = SEARCH,
) -> Solver:
    """The solver that was asked for; `oracle` is what the algorithm of that name answers."""
    spec.check_algorithm()
    constants = spec.constants(known)
    if spec.algorithm == "random":
        return RandomSolver(known, random)
    if spec.algorithm == "oracle":
        if oracle is None:
            raise ModelError("the oracle must be given a policy; learn() plans one")
        return OracleSolver(oracle)
    rule = RULES[spec.algorithm]
    return make_planner(known, rule, constants, spec.policy_class, random, spec.ties, settings)
