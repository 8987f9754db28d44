"""Optimistic planning with memory: the Markov class on an augmented model.

A depth-first solve by belief (`graph.py`) makes the memory nodes that are needed and a good
policy on them, when visits have grown by 5%. Nodes that some policy gets to are planned with in
between, by the searches of the Markov class (`search.py`). The policy handed out is the part
that it can reach itself, and its value is exact, whatever the memory is.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import BonusConstants, Rule
from latentmdp.optimism.given import Given
from latentmdp.optimism.memory.graph import BeliefPolicy, MemoryGraph
from latentmdp.optimism.memory.observations import Observations
from latentmdp.optimism.memory.rule import drifted, likelihoods
from latentmdp.optimism.memory.search import MemorySearch
from latentmdp.optimism.nodes import MemoryPart, no_memory
from latentmdp.optimism.planner import OptimisticPlanner
from latentmdp.optimism.saved_state import memory_state
from latentmdp.optimism.settings import SEARCH, SearchEffort
from latentmdp.policy.graph import PolicyGraph


@dataclass
class HistoryResult:
    """One plan: the policy, its optimistic value, and a certified bound on the class's optimum."""

    policy: PolicyGraph
    value: float
    upper: float
    kept: bool  # the policy in force stays
    nodes: int  # of the memory


class HistoryPlanner(OptimisticPlanner):
    """Plans with memory; nodes and policies are kept between plans."""

    Search = MemorySearch

    def __init__(
        self,
        known: Given,
        rule: Rule,
        constants: BonusConstants,
        random: np.random.Generator,
        ties: str = "secondary",
        settings: SearchEffort = SEARCH,
    ) -> None:
        super().__init__(known, rule, constants, random, ties, settings)
        self.markov = OptimisticPlanner(
            known, rule, constants, random, ties, settings
        )  # of default nodes
        self.graph: MemoryGraph | None = None
        self.kind = 0  # of memory: the first that fits
        self.memory: MemoryPart | None = None  # what is planned with
        self.visits_at_solve = 0  # visits when the models were last solved by belief
        self.changed_pairs: set[int] = set()  # `s*A + a` whose counts have changed since
        self.result: HistoryResult | None = None
        self.redrawn = False  # the policy in force has become another graph in a new memory

    def replan(self, counts: Counts, changed: Ints | None = None) -> HistoryResult:
        """The policy for these counts; only the snapshots of the rows `changed` differ."""
        self.markov.deadline = self.deadline
        self.table = self.markov.replan(counts, changed).table
        return super().replan(counts, changed)

    def _update(self, counts: Counts, rows: Ints) -> None:
        """Models up to date, and the memory if it must be."""
        super()._update(counts, rows)
        for search in self.searches:
            search.set_table(self.table)
        self.changed_pairs.update((rows % (self.known.S * self.known.A)).tolist())
        visits, settings = self.visits, self.settings
        early = self.visits_at_solve <= settings.look_always * self.known.H
        soon = visits < settings.look_again * self.visits_at_solve
        if self.graph is not None and soon and not early and not self.rule.random:
            return
        for i in range(len(self.searches)):
            self.catch_up(i)
        if self.graph is None or self._outdated(counts) or not self._solve(self.graph):
            self._grow(counts)
        self.visits_at_solve = visits
        self.changed_pairs.clear()

    def expect(self, counts: Counts) -> None:
        """As in the Markov class; the default nodes' planner too."""
        super().expect(counts)
        self.markov.expect(counts)

    # ---------------------------------------------------------------- memory

    def _outdated(self, counts: Counts) -> bool:
        """Whether there are new observations, or likelihood ratios have drifted."""
        assert self.graph is not None
        pairs = np.array(sorted(self.changed_pairs), dtype=np.int64)
        seen, old = self.graph.seen, self.graph.memory.likelihood
        if not np.array_equal(self.searches[0].model.shown().codes, seen.codes):
            return True
        at = np.isin(seen.row, pairs)
        new = likelihoods(self.known, counts, seen, pairs, self.settings.pool_limit)
        return drifted(new[at], old[at], self.settings.drift)

    def _grow(self, counts: Counts) -> None:
        """A graph from nothing, of the finest kind that fits."""
        known, kinds = self.known, self.settings.kinds
        seen = self.searches[0].model.shown()
        every = np.arange(known.S * known.A)
        likelihood = likelihoods(known, counts, seen, every, self.settings.pool_limit)
        self.memory = None
        while self.memory is None:
            if time.perf_counter() >= self.deadline:
                self.kind = len(kinds) - 1  # the coarsest
            if self.graph is None or not self.graph.serves(seen, kinds[self.kind]):
                self.graph = MemoryGraph(known, seen, kinds[self.kind], self.settings)
            self.graph.start(likelihood)
            if not self._solve(self.graph):
                self.kind += 1

    def _solve(self, graph: MemoryGraph) -> bool:
        """Solve the models by belief; False if what they need does not fit and a coarser kind may.

        The model that breaks ties among the best of the second one is asked only if there are any.
        """
        found: list[BeliefPolicy] = []
        for i, search in enumerate(self.searches):
            third = i == 2 and self.ties == "secondary"
            if third and found[1].value < self.searches[1].upper - self.settings.equal:
                break
            found.append(graph.solve(search))
            if not found[-1].fits and self.kind + 1 < len(self.settings.kinds):
                return False
        keep = self._needed(graph, found)
        old = self.memory
        same = old is not None and len(old.succ) == graph.successors  # nothing was expanded
        if old is None or not same or len(old.order) != keep.sum() or not keep[old.order].all():
            self._remember(graph.part(keep))
        for search, solved in zip(self.searches, found, strict=False):
            search.consider(solved)
        return True

    def _needed(self, graph: MemoryGraph, found: list[BeliefPolicy]) -> np.ndarray:
        """The nodes to plan with: those that new policies and those of the searches get to.

        Rare ones are left out, but not those of the policy in force: it must stay as it is.
        """
        if graph.kind.every:
            return np.ones(graph.count, dtype=bool)
        reach = np.max([graph.reach(solved.action, solved.is_solved) for solved in found], axis=0)
        if self.memory is None:
            return _likely(reach, self.settings)
        order, number = self.memory.order, self.memory.number
        within, action = np.zeros(graph.count, dtype=bool), np.zeros(graph.count, dtype=np.int64)
        within[order] = True
        for search in self.searches:
            action[order] = search.policy[number]
            reach = np.maximum(reach, graph.reach(action, within))
        action[order] = self.policy[number]
        return _likely(reach, self.settings) | (graph.reach(action, within) > 0)

    def _remember(self, memory: MemoryPart) -> None:
        """Searches on this memory; policies of nodes that stay are carried over.

        A policy stays what it is, but where a node that is new to it leads to one that it has.
        """
        old, self.memory = self.memory, memory
        value = -1.0 if old is None else self._in_force()
        for search in self.searches:
            kept = carry(search.policy, search.memory, memory, self.known, old is not None)
            search.remember(memory, kept)
        if old is None:
            self.policy = self.searches[0].policy.copy()
        else:
            self.policy = carry(self.policy, old, memory, self.known)
        if abs(self._in_force() - value) > self.settings.closed:
            self.result, self.visits_at_search = None, 0  # the policy in force is gone: search
        elif self.result is not None:  # its graph is that in the present memory, also if resumed
            graph = self.searches[0].graph(self.policy)
            self.redrawn = self.redrawn or graph != self.result.policy
            self.result = replace(self.result, policy=graph)
        whole = self.graph is not None and self.graph.whole
        N, known = self.searches[0].N, self.known
        self.effort = self.settings.effort(N, known.A, known.M, whole)

    def _answer(self, policy: Ints, value: float) -> HistoryResult:
        same = self.result is not None and np.array_equal(policy, self.policy)
        kept, self.redrawn = same and not self.redrawn, False
        if same and self.result is not None:
            graph = self.result.policy
        else:
            self.policy = policy.copy()
            graph = self.searches[0].graph(policy)
        assert self.memory is not None
        upper, nodes = self.searches[0].upper, len(self.memory.state)
        self.result = HistoryResult(graph, value, upper, kept, nodes)
        return self.result

    # ---------------------------------------------------------------- plain data

    def state(self) -> dict[str, Any]:
        """What later answers depend on besides the counts, as plain data."""
        state = super().state() | {"markov": self.markov.state()}
        state["visits_at_solve"] = self.visits_at_solve
        state["changed_pairs"] = np.array(sorted(self.changed_pairs), dtype=np.int64)
        state["kind"], state["has_result"] = self.kind, self.result is not None
        if self.graph is not None and self.memory is not None:
            state |= {"graph": self.graph.saved(), "nodes": self.memory.order}
        return state

    def restore(self, state: dict[str, Any], counts: Counts) -> None:
        """Continue from `state()` to the same bits."""
        state = self._checked(state)
        self.markov.restore(state["markov"], counts)
        self.table = self.markov.policy[: self.known.H * self.known.S]
        self.table = self.table.reshape(self.known.H, self.known.S)
        self.graph, self.memory, self.result = None, None, None
        self.kind, self.visits_at_solve = int(state["kind"]), int(state["visits_at_solve"])
        self.changed_pairs = set(np.asarray(state["changed_pairs"]).tolist())
        super().restore(state, counts)
        if state["has_result"] and self.memory is not None:
            graph = self.searches[0].graph(self.policy)
            self.result = HistoryResult(graph, -1.0, -1.0, True, len(self.memory.state))

    def _checked(self, state: dict[str, Any]) -> dict[str, Any]:
        return memory_state(state, self.known, len(self._rules()), len(self.settings.kinds))

    def _restore_models(self, state: dict[str, Any]) -> None:
        seen = Observations.of_codes(self.known, np.array(state["graph"]["observations"]))
        kind = self.settings.kinds[self.kind]
        self.graph = MemoryGraph(self.known, seen, kind, self.settings)
        self.graph.restore(state["graph"])
        keep = np.zeros(self.graph.count, dtype=bool)
        keep[state["nodes"]] = True
        self._remember(self.graph.part(keep))
        super()._restore_models(state)


def _likely(reach: Floats, settings: SearchEffort) -> np.ndarray:
    """Nodes that are not rare; if there are too many, the limit is higher.

    Where it would leave none (a long path that is certain), the likeliest, first made first.
    """
    limit, most = settings.rare, settings.planned_nodes
    while np.count_nonzero(reach > limit) > most:
        limit *= 2.0
    if not (reach > limit).any():
        likeliest = np.argsort(-reach, kind="stable")[:most]
        return np.isin(np.arange(len(reach)), likeliest)
    return reach > limit


def carry(
    policy: Ints, old: MemoryPart | None, new: MemoryPart, known: Given, same_graph: bool = True
) -> Ints:
    """The same policy on other nodes: those that are new act as without memory.

    Numbers of nodes in the memory graph mean something only in the `same_graph`.
    """
    states = np.arange(known.S)
    before = (no_memory(known) if old is None else old.span)[: known.H + 1, None] + states
    default = policy[before]  # (H + 1, S)
    result = np.empty(new.span[-1], dtype=np.int64)
    result[new.span[: known.H + 1, None] + states] = default
    result[new.number] = default[new.step, new.state]
    if old is not None and same_graph:
        place = np.full(max(old.order.max(), new.order.max()) + 1, -1)
        place[new.order] = new.number
        stays = place[old.order] >= 0
        result[place[old.order][stays]] = policy[old.number[stays]]
    return result
