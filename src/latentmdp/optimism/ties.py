"""`Planner`: the oracle of Algorithms 2 and 3, called again and again, with a rule for ties.

At the paper's constants almost everything is worth the cap for a long time, and every policy is an
argmax: the tie rule is the learner in practice. The rule here chooses *inside* the argmax set, so
the algorithms are followed to the letter: among the policies whose optimistic value reaches the
certified bound (or, where that is out of reach, the best value found), it plays one that exploits
what is known. `secondary`: the policy that is best for one standard error of optimism, or the one
that is best for the plain estimate where the first promises little more than that; if neither is an
argmax, sweeps on `weight * primary + secondary` with a growing weight look for one near them.
`ladder`: the first policy of the same algorithm with a smaller bonus that is still an argmax.
`incumbent`: the policy in force.
docs/optimism.md compares them.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from latentmdp.csr import Ints
from latentmdp.errors import ModelError
from latentmdp.kernels.optimism.mix import mix
from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import ESTIMATE, SECONDARY, Rule, Setting
from latentmdp.optimism.given import Known
from latentmdp.optimism.perturb import Backoff
from latentmdp.optimism.saved_state import planner_state
from latentmdp.optimism.search import MarkovSearch
from latentmdp.optimism.settings import SEARCH, SearchSettings
from latentmdp.optimism.substitutes import StandIns
from latentmdp.policy.graph import PolicyGraph

TIES = ("secondary", "ladder", "incumbent")


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


class Planner:
    """Keeps models, bounds and policies between plans; this one plans in the Markov class."""

    Search: Any = MarkovSearch

    def __init__(
        self,
        known: Known,
        rule: Rule,
        setting: Setting,
        random: np.random.Generator,
        ties: str = "secondary",
        settings: SearchSettings = SEARCH,
    ) -> None:
        if ties not in TIES:
            raise ModelError(f"ties must be one of {', '.join(TIES)}; it is {ties!r}")
        self.known, self.rule, self.setting, self.ties = known, rule, setting, ties
        self.stand_ins = None if known.allowed is None else StandIns(known)
        self.settings = settings
        self.kick_stream, self.rule_stream = random.spawn(2)
        self.effort = settings.effort(known.H * known.S, known.A, known.M)
        self.searches: list[Any] = []  # the primary model, then those that break ties
        self.pending_rows: list[list[Ints]] = []  # changed rows that a model has not seen yet
        self.policy = np.zeros(0, dtype=np.int64)  # in force: an action per node
        self.ladder_level = 0  # of the search whose policy is played
        self.mixing, self.proposing = Backoff(), Backoff()
        self.estimating = Backoff()  # where the estimate's policy matters little
        self.visits = 0  # in all
        self.visits_at_search = 0  # when there was last a search
        self.deadline = math.inf  # by `time.perf_counter`: no further kicks or kinds of memory

    # ---------------------------------------------------------------- planning

    def replan(self, counts: Counts, changed: Ints | None = None) -> Any:
        """The policy for these counts; only the snapshots of the rows `changed` differ.

        It may name an unavailable action, which then stands for the first available one.
        """
        changed = np.arange(counts.rows) if changed is None else changed
        if self.stand_ins is not None:
            counts, changed = self.stand_ins.of(counts), self.stand_ins.rows(changed)
        self.visits = int(counts.n.sum())
        self._update(counts, changed)
        settings, first = self.settings, self.searches[0]
        goal, value = first.upper - settings.equal, self._in_force()
        stale = self.visits >= settings.fresh * self.visits_at_search
        if value >= goal and not stale and self.ladder_level == 0:
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
        best = first.improve(self.effort, self.kick_stream, self.deadline)
        if self.proposing.due:
            useful = reached > value + settings.equal or reached >= best - settings.equal
            self.proposing.tried(useful, settings.proposal_rest)
        if reached >= best - settings.equal:
            return self._answer(tied, reached)
        if self.mixing.due and self.ties == "secondary" and len(self.searches) > 1:
            return self._answer(*self._mixed(best, value))
        self.ladder_level = len(self.searches) - 1 if self.ties == "ladder" else 0
        return self._answer(first.policy, best)

    def _in_force(self) -> float:
        """Optimistic value of the policy in force, -1 if there is none for these nodes."""
        first = self.searches[0]
        return first.evaluate(self.policy) if len(self.policy) == first.N else -1.0

    def _tied(self, goal: float) -> tuple[Ints, float]:
        """What the tie rule proposes, and its optimistic value."""
        if len(self.searches) == 1:
            return self.policy, -1.0
        if self.ties == "ladder":
            return self._by_ladder(goal)
        if self.proposing.due or self.mixing.due:  # mixing needs the proposal
            return self._by_secondary(goal)
        return self.policy, -1.0

    def _by_secondary(self, goal: float) -> tuple[Ints, float]:
        """The best policy for one standard error; that for the estimate, if it promises as much.

        For near the cap the second model prefers by 1e-5 what is far worse by the estimate. While
        exploring costs much by the estimate, every plan searches again, so that what was found
        counts at once.
        """
        first, second, third = self.searches[:3]
        settings, kicks = self.settings, self.kick_stream
        self._catch_up(1)
        self._catch_up(2)
        value, other = second.improve(self.effort, kicks), second.evaluate(third.policy)
        if other > value + settings.equal:  # the search has missed it
            second.policy[:] = third.policy
            value = second.improve(self.effort, kicks)
        known = third.evaluate(second.policy)
        loss = third.evaluate(third.policy) - known
        self.estimating.turn()
        doubtful = value - other <= settings.gain_per_loss and loss > settings.loss_not_kept
        if self.estimating.due or doubtful:
            loss = third.improve(self.effort, kicks) - known
            rest = settings.proposal_rest
            self.estimating.tried(True, rest, least=rest)
            other = second.evaluate(third.policy)
        if value - other <= max(loss * settings.gain_per_loss, settings.equal):
            exploiting = first.evaluate(third.policy)
            if exploiting >= goal:
                return third.policy, exploiting
        if loss > settings.loss_not_kept:
            self.visits_at_search = 0
        return second.policy, first.evaluate(second.policy)

    def _mixed(self, best: float, in_force: float) -> tuple[Ints, float]:
        """An argmax near the secondary's best policy: sweeps on `weight * primary + secondary`.

        The weight grows until the primary reaches `best`. Of that policy, the one in force and the
        search's own, those that reach `best` compete by their secondary value.
        """
        first, second = self.searches[:2]
        settings, enough = self.settings, best - self.settings.equal
        choices = [(first.policy, best)]
        if in_force >= enough:
            choices.insert(0, (self.policy, in_force))  # wins ties
        worth = [second.evaluate(policy) for policy, _ in choices]
        before = len(worth)
        first.evaluate(second.policy)
        second.evaluate(second.policy)
        mixed = second.policy.copy()
        weights = np.array(settings.mix_weights)
        value = mix(first.search, second.search, mixed, weights, enough)
        first.forget_values()
        second.forget_values()
        if value >= enough:
            choices.append((mixed, value))
            worth.append(second.evaluate(mixed))
        gain = worth[-1] - max(worth[:before]) if len(worth) > before else 0.0
        reached = best >= first.upper - settings.equal
        rest = settings.mix_rest if reached else settings.mix_rest_open
        self.mixing.tried(gain > settings.mix_gain, rest)
        return choices[int(np.argmax(np.array(worth) > max(worth) - settings.equal))]

    def _by_ladder(self, goal: float) -> tuple[Ints, float]:
        """The first policy of a model with a smaller bonus that is an argmax; else the best."""
        best, value = self.policy, -1.0
        for i in range(max(self.ladder_level, 1), len(self.searches)):  # one below the last one
            self._catch_up(i)
            search = self.searches[i]
            search.improve(self.effort, self.kick_stream)
            self.ladder_level = i - 1
            reached = self.searches[0].evaluate(search.policy)
            if reached > value + self.settings.equal:
                best, value = search.policy, reached
            if reached >= goal:
                break
        return best, value

    def expect(self, counts: Counts) -> None:
        """Other counts than those of the last plan come next: their layout may be another one."""
        old = self.counts
        if self.stand_ins is not None:
            counts = self.stand_ins.of(counts)
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

    def _rules(self) -> list[tuple[Rule, Setting]]:
        """The primary model's rule, then those of the models that break ties."""
        make = [(self.rule, self.setting)]
        if self.ties == "secondary" and not self.rule.random:  # a sample has no ties
            make += [(SECONDARY, self.setting), (ESTIMATE, self.setting)]
        elif self.ties == "ladder" and not self.rule.random:
            scales = [self.setting.scale * factor for factor in self.settings.ladder]
            make += [(self.rule, replace(self.setting, scale=scale)) for scale in scales]
        return make

    def _make(self, counts: Counts) -> None:
        self.searches = [
            self.Search(self.known, rule, setting, counts, self.rule_stream, self.settings)
            for rule, setting in self._rules()
        ]
        self.pending_rows = [[] for _ in self.searches]

    def _catch_up(self, i: int) -> None:
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
            "patience": np.array([backoff.state() for backoff in self._backoffs()]),
            "rung": self.ladder_level,
            "seen": self.visits_at_search,
            "kicks": dict(self.kick_stream.bit_generator.state),
            "rule": dict(self.rule_stream.bit_generator.state),
        }

    def _backoffs(self) -> list[Backoff]:
        kicking = [search.kicking for search in self.searches]
        return [self.mixing, self.proposing, self.estimating, *kicking]

    def restore(self, state: dict[str, Any], counts: Counts) -> None:
        """Continue from `state()` to the same bits."""
        state = self._checked(state)
        if self.stand_ins is not None:
            counts = self.stand_ins.of(counts)
        self.counts = counts
        self._make(counts)
        self._restore_models(state)
        self.policy = state["policy"]
        self.policy.setflags(write=False)
        for backoff, saved in zip(self._backoffs(), state["patience"], strict=True):
            backoff.restore(saved)
        self.ladder_level, self.visits_at_search = int(state["rung"]), int(state["seen"])
        self.kick_stream.bit_generator.state = state["kicks"]
        self.rule_stream.bit_generator.state = state["rule"]

    def _checked(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state, refused if kernels could not trust it."""
        return planner_state(state, self.known, len(self._rules()))

    def _restore_models(self, state: dict[str, Any]) -> None:
        for search, policy in zip(self.searches, state["policies"], strict=True):
            search.policy[:] = policy
