"""`OptimisticPlanner`: the oracle of Algorithms 2 and 3, called again and again.

Among the policies whose optimistic value reaches the certified bound (or, where that is out of
reach, the best value found), it plays one that the tie rule prefers (`ties.py`).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from latentmdp.csr import Ints
from latentmdp.errors import ModelError
from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import ESTIMATE, SECONDARY, BonusConstants, Rule
from latentmdp.optimism.given import Given
from latentmdp.optimism.perturb import Backoff
from latentmdp.optimism.saved_state import planner_state
from latentmdp.optimism.search import MarkovSearch
from latentmdp.optimism.settings import SEARCH, SearchEffort
from latentmdp.optimism.substitutes import Substitutes
from latentmdp.optimism.ties import TIES, by_mixing, by_secondary
from latentmdp.policy.graph import PolicyGraph


@dataclass
class OptimisticResult:
    """One plan: the policy, its optimistic value, and a certified bound on the class's optimum."""

    actions: Ints  # of all nodes, step by step; read-only
    H: int
    S: int
    value: float
    upper: float
    kept: bool  # the policy in force stays

    @property
    def table(self) -> Ints:
        """The policy as a table `(H, S)`."""
        return self.actions[: self.H * self.S].reshape(self.H, self.S)

    @cached_property
    def policy(self) -> PolicyGraph:
        """The policy as a graph."""
        return PolicyGraph._markov(self.actions[: self.H * self.S], self.H, self.S)


class OptimisticPlanner:
    """Keeps models, bounds and policies between plans; this one plans in the Markov class."""

    Search: Any = MarkovSearch

    def __init__(
        self,
        known: Given,
        rule: Rule,
        constants: BonusConstants,
        random: np.random.Generator,
        ties: str = "secondary",
        settings: SearchEffort = SEARCH,
    ) -> None:
        if ties not in TIES:
            raise ModelError(f"ties must be one of {', '.join(TIES)}; it is {ties!r}")
        self.known, self.rule, self.constants, self.ties = known, rule, constants, ties
        self.substitutes = None if known.allowed is None else Substitutes(known)
        self.settings = settings
        self.perturb_stream, self.rule_stream = random.spawn(2)
        self.effort = settings.effort(known.H * known.S, known.A, known.M)
        self.searches: list[Any] = []  # the primary model, then those that break ties
        self.pending_rows: list[list[Ints]] = []  # changed rows that a model has not seen yet
        self.policy = np.zeros(0, dtype=np.int64)  # in force: an action per node
        self.mixing, self.proposing = Backoff(), Backoff()
        self.estimating = Backoff()  # where the estimate's policy matters little
        self.visits = 0  # in all
        self.visits_at_search = 0  # when there was last a search
        self.deadline = (
            math.inf
        )  # by `time.perf_counter`: no further perturbations or kinds of memory

    # ---------------------------------------------------------------- planning

    def replan(self, counts: Counts, changed: Ints | None = None) -> Any:
        """The policy for these counts; only the snapshots of the rows `changed` differ.

        It may name an unavailable action, which then stands for the first available one.
        """
        changed = np.arange(counts.rows) if changed is None else changed
        if self.substitutes is not None:
            counts, changed = self.substitutes.of(counts), self.substitutes.rows(changed)
        self.visits = int(counts.n.sum())
        self._update(counts, changed)
        settings, first = self.settings, self.searches[0]
        goal, value = first.upper - settings.equal, self._in_force()
        stale = self.visits >= settings.fresh * self.visits_at_search
        if value >= goal and not stale:
            return self._answer(self.policy, value)
        self.visits_at_search = self.visits
        self.mixing.turn()
        self.proposing.turn()
        tied, reached = self._tied(goal)
        if reached >= goal:
            self.proposing.tried(True, settings.proposal_rest)
            return self._answer(tied, reached)
        # the certified bound is out of their reach: search, from the best of all
        if max(reached, value) >= 0.0:
            first.policy[:] = tied if reached > value + settings.equal else self.policy
        best = first.improve(self.effort, self.perturb_stream, self.deadline)
        if self.proposing.due:
            useful = reached > value + settings.equal or reached >= best - settings.equal
            self.proposing.tried(useful, settings.proposal_rest)
        if reached >= best - settings.equal:
            return self._answer(tied, reached)
        if self.mixing.due and self.ties == "secondary" and len(self.searches) > 1:
            return self._answer(*by_mixing(self, best, value))
        return self._answer(first.policy, best)

    def _in_force(self) -> float:
        """Optimistic value of the policy in force, -1 if there is none for these nodes."""
        first = self.searches[0]
        return first.evaluate(self.policy) if len(self.policy) == first.N else -1.0

    def _tied(self, goal: float) -> tuple[Ints, float]:
        """What the tie rule proposes, and its optimistic value."""
        if len(self.searches) == 1:
            return self.policy, -1.0
        if self.proposing.due or self.mixing.due:  # mixing needs the proposal
            return by_secondary(self, goal)
        return self.policy, -1.0

    def expect(self, counts: Counts) -> None:
        """Other counts than those of the last plan come next: their layout may be another one."""
        old = self.counts
        if self.substitutes is not None:
            counts = self.substitutes.of(counts)
        same = np.array_equal(old.indptr, counts.indptr) and np.array_equal(old.next, counts.next)
        for search in self.searches:
            search.version = counts.version if same else -1

    # ---------------------------------------------------------------- models

    def _update(self, counts: Counts, rows: Ints) -> None:
        """Models for these counts; those that break ties catch up when they are asked."""
        self.counts = counts
        if not self.searches:
            self._make(counts)
            return
        self.searches[0].update(counts, rows)
        for pending in self.pending_rows[1:]:
            pending.append(rows)

    def _rules(self) -> list[tuple[Rule, BonusConstants]]:
        """The primary model's rule, then those of the models that break ties."""
        make = [(self.rule, self.constants)]
        if self.ties == "secondary" and not self.rule.random:  # a sample has no ties
            make += [(SECONDARY, self.constants), (ESTIMATE, self.constants)]
        return make

    def _make(self, counts: Counts) -> None:
        self.searches = [
            self.Search(self.known, rule, constants, counts, self.rule_stream, self.settings)
            for rule, constants in self._rules()
        ]
        self.pending_rows = [[] for _ in self.searches]

    def catch_up(self, i: int) -> None:
        """Give a model that breaks ties the rows that have changed since it was last asked."""
        pending = self.pending_rows[i]
        if pending:
            rows = pending[0] if len(pending) == 1 else np.concatenate(pending)
            self.searches[i].update(self.counts, rows)
            pending.clear()

    def _answer(self, policy: Ints, value: float) -> Any:
        kept = policy is self.policy or policy.tobytes() == self.policy.tobytes()
        if not kept:
            self.policy = policy.copy()
            self.policy.setflags(write=False)  # results share it
        H, S, upper = self.known.H, self.known.S, self.searches[0].upper
        return OptimisticResult(self.policy, H, S, value, upper, kept)

    # ---------------------------------------------------------------- plain data

    def state(self) -> dict[str, Any]:
        """What later answers depend on besides the counts, as plain data."""
        return {
            "policy": self.policy,
            "policies": np.array([search.policy for search in self.searches]),
            "backoffs": np.array([backoff.state() for backoff in self._backoffs()]),
            "visits_at_search": self.visits_at_search,
            "perturb_stream": dict(self.perturb_stream.bit_generator.state),
            "rule_stream": dict(self.rule_stream.bit_generator.state),
        }

    def _backoffs(self) -> list[Backoff]:
        perturbing = [search.perturbing for search in self.searches]
        return [self.mixing, self.proposing, self.estimating, *perturbing]

    def restore(self, state: dict[str, Any], counts: Counts) -> None:
        """Continue from `state()` to the same bits."""
        state = self._checked(state)
        if self.substitutes is not None:
            counts = self.substitutes.of(counts)
        self.counts = counts
        self._make(counts)
        self._restore_models(state)
        self.policy = state["policy"]
        self.policy.setflags(write=False)
        for backoff, saved in zip(self._backoffs(), state["backoffs"], strict=True):
            backoff.restore(saved)
        self.visits_at_search = int(state["visits_at_search"])
        self.perturb_stream.bit_generator.state = state["perturb_stream"]
        self.rule_stream.bit_generator.state = state["rule_stream"]

    def _checked(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state, refused if kernels could not trust it."""
        return planner_state(state, self.known, len(self._rules()))

    def _restore_models(self, state: dict[str, Any]) -> None:
        for search, policy in zip(self.searches, state["policies"], strict=True):
            search.policy[:] = policy
