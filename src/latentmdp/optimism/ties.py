"""`MarkovPlanner`: the oracle of Algorithms 2 and 3 in the Markov class, with a rule for ties.

At the paper's constants almost everything is worth the cap for a long time, and every policy is an argmax: the
tie rule is the learner in practice. The rule here chooses *inside* the certified argmax set, so the algorithms
are followed to the letter. Among the policies whose optimistic value reaches the certified bound (or, where that
is out of reach, the best value found) it wants one that exploits what is known: a second policy is kept, always
improved for a *secondary* optimistic model with one standard error, and played if it qualifies. If it does not,
it is pulled towards the primary objective by `lambda * primary + secondary`, with `lambda` growing.

`ladder` is the other rule that was tried (primary models with smaller bonuses, in turn); `incumbent` keeps the
policy in force. docs/optimism.md has the comparison.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.canonical import Ints
from latentmdp.errors import ModelError
from latentmdp.optimism.confidence import SECONDARY, Rule, Setting
from latentmdp.optimism.markov import Effort, Kicks, MarkovSearch
from latentmdp.optimism.model import Known
from latentmdp.policy import PolicyGraph

if TYPE_CHECKING:
    from latentmdp.learning.counts import Counts

EQUAL = 1e-9  # optimistic values this close are ties
LADDER = (0.001, 0.01, 0.1)
TIES = ("secondary", "ladder", "incumbent")


@dataclass
class OptimisticResult:
    """One plan: the policy, its optimistic value, and a certified bound on the class's optimum."""

    table: Ints  # (H, S)
    value: float
    upper: float
    kept: bool  # the policy in force stays

    @cached_property
    def policy(self) -> PolicyGraph:
        """The policy as a graph."""
        return PolicyGraph.from_table(self.table)


class MarkovPlanner:
    """Plans again and again as counts grow; keeps models, bounds and policies in between."""

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
        self.calm = self.effort.without_kicks()
        self.no_kicks = self.kicks.draw(self.calm, (known.H + 1) * known.S)
        self.patience, self.wait = 0, 0  # kicks that fail are tried less often
        self.primary: MarkovSearch | None = None
        self.rungs: list[MarkovSearch] = []  # models in which ties are broken
        self.rung = 0
        self.table = np.zeros((known.H, known.S), dtype=np.int64)
        self.seen = 0  # visits at the last search

    # ---------------------------------------------------------------- planning

    def replan(self, counts: "Counts", changed: Ints | None = None) -> OptimisticResult:
        """The policy for these counts; only the snapshots of the rows `changed` differ."""
        first = self._update(counts, changed)
        visits = int(counts.n.sum())
        value = first.evaluate(self.table)
        top = first.upper - EQUAL
        if value >= top and visits < 1.01 * self.seen and self.rung == 0:
            return OptimisticResult(self.table, value, first.upper, True)
        self.seen = visits
        best = self.table
        for i, rung in enumerate(self.rungs):
            if i + 1 < self.rung:
                continue  # start one rung below the last accepted one
            rung.search(self.calm, self.no_kicks)
            self.rung = i
            if (reached := first.evaluate(rung.table)) >= top:
                return self._answer(rung.table, reached)
            if reached > value + EQUAL:
                best, value = rung.table.copy(), reached
        first.table[:] = best  # start from the best known, which may be the policy in force
        value = self._search(first)
        if self.rungs and self.ties == "secondary":
            tied = self._pulled(value)
            if tied is not None:
                return self._answer(tied, first.evaluate(tied))
        self.rung = len(self.rungs)
        return self._answer(first.table, value)

    def _search(self, first: MarkovSearch) -> float:
        """Sweeps, then kicks; on large models the longer they have failed the fewer."""
        value = first.search(self.calm, self.no_kicks)
        if value >= first.upper - EQUAL:
            return value
        self.wait -= 1
        if self.wait > 0 and not self.effort.every:
            return value
        better = first.search(self.effort, self.kicks.draw(self.effort, first.arena.N))
        self.patience = 1 if better > value + EQUAL else min(2 * self.patience + 1, 31)
        self.wait = self.patience
        return better

    def _pulled(self, value: float) -> Ints | None:
        """A policy as good as `value` that is good for the secondary model too, if one is found."""
        first, second = self.primary, self.rungs[0]
        assert first is not None
        if first.evaluate(second.table) >= value - EQUAL:
            return second.table
        return None

    def _update(self, counts: "Counts", changed: Ints | None) -> MarkovSearch:
        if self.primary is None:
            make = [(self.rule, self.setting)]
            if self.ties == "secondary":
                make.append((SECONDARY, self.setting))
            elif self.ties == "ladder":
                scale = self.setting.scale
                make += [(self.rule, replace(self.setting, scale=scale * f)) for f in LADDER]
            if self.rule.random:
                del make[1:]  # a sample has no ties
            first, *self.rungs = [
                MarkovSearch(self.known, rule, setting, counts, self.rule_stream)
                for rule, setting in make
            ]
            self.primary = first
            return first
        rows = np.arange(counts.rows) if changed is None else changed
        for search in (self.primary, *self.rungs):
            search.update(counts, rows)
        return self.primary

    def _answer(self, table: Ints, value: float) -> OptimisticResult:
        kept = bool((table == self.table).all())
        if not kept:
            self.table = table.copy()
        assert self.primary is not None
        return OptimisticResult(self.table, value, self.primary.upper, kept)

    # ---------------------------------------------------------------- plain data

    def state(self) -> dict[str, Any]:
        """What later answers depend on besides the counts, as plain data."""
        searches = [] if self.primary is None else [self.primary, *self.rungs]
        return {
            "table": self.table,
            "tables": np.array([search.table for search in searches]),
            "rung": self.rung,
            "seen": self.seen,
            "patience": self.patience,
            "wait": self.wait,
            "kicks": dict(self.kicks.rng.bit_generator.state),
            "rule": dict(self.rule_stream.bit_generator.state),
            "samples": np.array([s.model.slot for s in searches if s.rule.random]),
        }

    def restore(self, state: dict[str, Any], counts: "Counts") -> None:
        """Continue from `state()` to the same bits."""
        self.primary, self.rungs = None, []
        self.table = np.array(state["table"], dtype=np.int64)
        if len(state["tables"]):
            self._update(counts, None)
            assert self.primary is not None
            for search, table in zip((self.primary, *self.rungs), state["tables"], strict=True):
                search.table[:] = table
        self.rung, self.seen = int(state["rung"]), int(state["seen"])
        self.patience, self.wait = int(state["patience"]), int(state["wait"])
        self.kicks.rng.bit_generator.state = state["kicks"]
        self.rule_stream.bit_generator.state = state["rule"]
