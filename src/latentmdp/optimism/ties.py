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

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.canonical import Ints
from latentmdp.errors import ModelError
from latentmdp.optimism.checks import planner_state
from latentmdp.optimism.confidence import ESTIMATE, SECONDARY, Rule, Setting
from latentmdp.optimism.markov import EQUAL, Effort, Kicks, MarkovSearch, Patience
from latentmdp.optimism.model import Known
from latentmdp.policy import PolicyGraph

if TYPE_CHECKING:
    from latentmdp.counts import Counts

LADDER = (0.001, 0.01, 0.1)
WEIGHTS = np.array([0.1, 1.0, 10.0, 1e2, 1e3, 1e4])  # of the primary, until it is an argmax
TIES = ("secondary", "ladder", "incumbent")
GAIN = 1e-3  # of secondary value: less is not worth mixing again at once
HOPE = 1000.0  # exploring must promise a thousandth of what it costs, by the estimate
LOSS = 0.01  # of estimated value: exploring that costs more is not kept unasked
REST = 7  # plans without a proposal of the tie rule, or with an old one of the estimate, at most
FRESH = 1.01  # an argmax in force is kept until visits have grown by this factor


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
    ) -> None:
        if ties not in TIES:
            raise ModelError(f"ties must be one of {', '.join(TIES)}; it is {ties!r}")
        self.known, self.rule, self.setting, self.ties = known, rule, setting, ties
        kick_stream, self.rule_stream = random.spawn(2)
        self.kicks = Kicks(kick_stream, known.M, known.A)
        self.effort = Effort.for_size(known.H * known.S, known.A, known.M)
        self.searches: list[Any] = []  # the primary model, then those that break ties
        self.late: list[list[Ints]] = []  # rows that a model has yet to catch up with
        self.policy = np.zeros(0, dtype=np.int64)  # in force: an action per node
        self.rung = 0  # of the ladder
        self.mixing, self.proposing = Patience(), Patience()
        self.estimating = Patience()  # where the estimate's policy matters little
        self.seen = 0  # visits at the last search

    # ---------------------------------------------------------------- planning

    def replan(self, counts: "Counts", changed: Ints | None = None) -> Any:
        """The policy for these counts; only the snapshots of the rows `changed` differ."""
        self._update(counts, np.arange(counts.rows) if changed is None else changed)
        first, top = self.searches[0], self.searches[0].upper - EQUAL
        visits, value = first.visits, self._in_force()
        if value >= top and visits < FRESH * self.seen and self.rung == 0:
            return self._answer(self.policy, value)
        self.seen = visits
        self.mixing.turn()
        self.proposing.turn()
        tied, reached = self._tied(top)
        if reached >= top:
            self.proposing.tried(True, REST)
            return self._answer(tied, reached)
        # the certified bound is out of their reach: search, from the best of all
        if max(reached, value) >= 0.0:
            first.policy[:] = tied if reached > value + EQUAL else self.policy
        best = first.improve(self.effort, self.kicks)
        if self.proposing.due:
            self.proposing.tried(reached > value + EQUAL or reached >= best - EQUAL, REST)
        if reached >= best - EQUAL:
            return self._answer(tied, reached)
        if self.mixing.due and self.ties == "secondary" and len(self.searches) > 1:
            return self._answer(*self._mixed(best, value))
        self.rung = len(self.searches) - 1 if self.ties == "ladder" else 0
        return self._answer(first.policy, best)

    def _in_force(self) -> float:
        """Optimistic value of the policy in force, -1 if there is none for these nodes."""
        first = self.searches[0]
        return first.evaluate(self.policy) if len(self.policy) == first.arena.N else -1.0

    def _tied(self, top: float) -> tuple[Ints, float]:
        """What the tie rule proposes, and its optimistic value."""
        if len(self.searches) == 1:
            return self.policy, -1.0
        if self.ties == "ladder":
            return self._by_ladder(top)
        if self.proposing.due or self.mixing.due:  # mixing needs the proposal
            return self._by_secondary(top)
        return self.policy, -1.0

    def _by_secondary(self, top: float) -> tuple[Ints, float]:
        """The policy best for one standard error; for the estimate, where that hopes for as much.

        Near the cap the second model prefers by 1e-5 what the estimate knows to be far worse.
        Exploring at a loss is looked at again at every plan: what it finds is to count at once.
        """
        first, second, third = self.searches[:3]
        self._catch_up(1)
        self._catch_up(2)
        value, other = second.improve(self.effort, self.kicks), second.evaluate(third.policy)
        if other > value + EQUAL:  # the search has missed it
            second.policy[:] = third.policy
            value = second.improve(self.effort, self.kicks)
        known = third.evaluate(second.policy)
        loss = third.evaluate(third.policy) - known
        self.estimating.turn()
        if self.estimating.due or (value - other <= 1.0 / HOPE and loss > LOSS):
            loss = third.improve(self.effort, self.kicks) - known
            self.estimating.tried(True, REST, least=REST)
            other = second.evaluate(third.policy)
        if value - other <= max(loss / HOPE, EQUAL):
            exploiting = first.evaluate(third.policy)
            if exploiting >= top:
                return third.policy, exploiting
        if loss > LOSS:
            self.seen = 0
        return second.policy, first.evaluate(second.policy)

    def _mixed(self, best: float, in_force: float) -> tuple[Ints, float]:
        """An argmax near the secondary's best policy: sweeps on `weight * primary + secondary`.

        The weight grows until the primary reaches `best`. Of that policy, the one in force and the
        search's own, those that reach `best` compete by their secondary value.
        """
        from latentmdp.kernels.optimistic_mix import mix

        first, second = self.searches[:2]
        x, y = first.arena, second.arena
        choices = [(first.policy, best)]
        if in_force >= best - EQUAL:
            choices.insert(0, (self.policy, in_force))  # wins ties
        worth = [second.evaluate(policy) for policy, _ in choices]
        before = len(worth)
        first.evaluate(second.policy)
        second.evaluate(second.policy)
        candidate = x.I[x.kicked : x.kicked + x.N]  # where it was evaluated
        y.I[y.kicked : y.kicked + y.N] = second.policy
        value = mix(x.here, y.here, x.kicked, WEIGHTS, best - EQUAL)
        if value >= best - EQUAL:
            choices.append((candidate.copy(), value))
            worth.append(second.evaluate(candidate))
        gain = worth[-1] - max(worth[:before]) if len(worth) > before else 0.0
        most = 3 if best >= first.upper - EQUAL else 255  # below the certified bound ties are rare
        self.mixing.tried(gain > GAIN, most)
        return choices[int(np.argmax(np.array(worth) > max(worth) - EQUAL))]

    def _by_ladder(self, top: float) -> tuple[Ints, float]:
        """The first policy of a model with a smaller bonus that is an argmax; else the best."""
        best, value = self.policy, -1.0
        for i in range(max(self.rung, 1), len(self.searches)):  # one below the last accepted
            self._catch_up(i)
            search = self.searches[i]
            search.improve(self.effort, self.kicks)
            self.rung = i - 1
            reached = self.searches[0].evaluate(search.policy)
            if reached > value + EQUAL:
                best, value = search.policy, reached
            if reached >= top:
                break
        return best, value

    def expect(self, counts: "Counts") -> None:
        """Other counts than those of the last plan come next: their layout may be another one."""
        old = self.counts
        same = np.array_equal(old.indptr, counts.indptr) and np.array_equal(old.next, counts.next)
        for search in self.searches:
            search.version = counts.version if same else -1

    # ---------------------------------------------------------------- models

    def _update(self, counts: "Counts", rows: Ints) -> None:
        """Models for these counts; those that break ties catch up when they are asked."""
        self.counts = counts
        if not self.searches:
            self._make(counts)
            return
        self.searches[0].update(counts, rows)
        for late in self.late[1:]:
            late.append(rows)

    def _rules(self) -> list[tuple[Rule, Setting]]:
        """The primary model's rule, then those of the models that break ties."""
        make = [(self.rule, self.setting)]
        if self.ties == "secondary" and not self.rule.random:  # a sample has no ties
            make += [(SECONDARY, self.setting), (ESTIMATE, self.setting)]
        elif self.ties == "ladder" and not self.rule.random:
            scale = self.setting.scale
            make += [(self.rule, replace(self.setting, scale=scale * f)) for f in LADDER]
        return make

    def _make(self, counts: "Counts") -> None:
        self.searches = [
            self.Search(self.known, rule, setting, counts, self.rule_stream)
            for rule, setting in self._rules()
        ]
        self.late = [[] for _ in self.searches]

    def _catch_up(self, i: int) -> None:
        late = self.late[i]
        if late:
            rows = late[0] if len(late) == 1 else np.concatenate(late)
            self.searches[i].update(self.counts, rows)
            late.clear()

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
            "patience": np.array([patience.state() for patience in self._patiences()]),
            "rung": self.rung,
            "seen": self.seen,
            "kicks": dict(self.kicks.stream().bit_generator.state),
            "rule": dict(self.rule_stream.bit_generator.state),
        }

    def _patiences(self) -> list[Patience]:
        kicking = [search.kicking for search in self.searches]
        return [self.mixing, self.proposing, self.estimating, *kicking]

    def restore(self, state: dict[str, Any], counts: "Counts") -> None:
        """Continue from `state()` to the same bits."""
        state = self._checked(state)
        self.counts = counts
        self._make(counts)
        self._restore_models(state)
        self.policy = state["policy"]
        self.policy.setflags(write=False)
        for patience, saved in zip(self._patiences(), state["patience"], strict=True):
            patience.restore(saved)
        self.rung, self.seen = int(state["rung"]), int(state["seen"])
        self.kicks.stream().bit_generator.state = state["kicks"]
        self.rule_stream.bit_generator.state = state["rule"]

    def _checked(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state, refused if kernels could not trust it."""
        return planner_state(state, self.known, len(self._rules()))

    def _restore_models(self, state: dict[str, Any]) -> None:
        for search, policy in zip(self.searches, state["policies"], strict=True):
            search.policy[:] = policy
