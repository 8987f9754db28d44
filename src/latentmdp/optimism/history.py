"""Optimistic planning with memory: the Markov class on an augmented model.

A depth-first solve by belief (`growth.py`) makes the memory nodes that are needed and a good policy
on them, when visits have grown by 5%. Nodes that some policy gets to are planned with in between,
by the searches of the Markov class (`memory_search.py`). The policy handed out is the part that it
can reach itself, and its value is exact, whatever the memory is.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.optimism.checks import memory_state
from latentmdp.optimism.confidence import Rule, Setting
from latentmdp.optimism.growth import KINDS, Growth, Solved
from latentmdp.optimism.markov import EQUAL, Effort
from latentmdp.optimism.memory import Memory, Observations, drifted, likelihoods
from latentmdp.optimism.memory_search import MemorySearch
from latentmdp.optimism.model import Known
from latentmdp.optimism.ties import Planner
from latentmdp.policy import PolicyGraph

if TYPE_CHECKING:
    from latentmdp.counts import Counts

LOOK = 1.05  # visits must have grown by this factor before the memory is looked at again
RARE = 1e-7  # nodes that are less likely than this are not planned with
MOST = 8_000  # nodes are planned with; if more are likely, only the likelier ones


@dataclass
class HistoryResult:
    """One plan: the policy, its optimistic value, and a certified bound on the class's optimum."""

    policy: PolicyGraph
    value: float
    upper: float
    kept: bool  # the policy in force stays
    nodes: int  # of the memory


class HistoryPlanner(Planner):
    """Plans with memory; nodes and policies are kept between plans."""

    Search = MemorySearch

    def __init__(
        self,
        known: Known,
        rule: Rule,
        setting: Setting,
        random: np.random.Generator,
        ties: str = "secondary",
    ) -> None:
        super().__init__(known, rule, setting, random, ties)
        self.markov = Planner(known, rule, setting, random, ties)  # the default nodes' policy
        self.growth: Growth | None = None
        self.kind = 0  # of memory: the first that fits
        self.memory: Memory | None = None  # what is planned with
        self.looked = 0  # visits when it was last looked at
        self.pending: set[int] = set()  # pairs `s*A + a` whose counts have changed since
        self.result: HistoryResult | None = None
        self.another = False  # the policy in force has become another graph in a new memory

    def replan(self, counts: "Counts", changed: Ints | None = None) -> HistoryResult:
        """The policy for these counts; only the snapshots of the rows `changed` differ."""
        self.table = self.markov.replan(counts, changed).table
        return super().replan(counts, changed)

    def _update(self, counts: "Counts", rows: Ints) -> None:
        """Models up to date, and the memory if it must be."""
        super()._update(counts, rows)
        for search in self.searches:
            search.table[:] = self.table
        self.pending.update((rows % (self.known.S * self.known.A)).tolist())
        visits = self.searches[0].visits
        few = visits < LOOK * self.looked and self.looked > 50 * self.known.H
        if self.growth is not None and few and not self.rule.random:
            return
        for i in range(len(self.searches)):
            self._catch_up(i)
        if self.growth is None or self._outdated(counts) or not self._solve(self.growth):
            self._grow(counts)
        self.looked = visits
        self.pending.clear()

    def expect(self, counts: "Counts") -> None:
        """As in the Markov class; the default nodes' planner too."""
        super().expect(counts)
        self.markov.expect(counts)

    # ---------------------------------------------------------------- memory

    def _outdated(self, counts: "Counts") -> bool:
        """Whether there are new observations, or likelihood ratios have drifted."""
        assert self.growth is not None
        pairs = np.array(sorted(self.pending), dtype=np.int64)
        seen, old = self.growth.seen, self.growth.likelihood
        if not np.array_equal(Observations.of(self.searches[0].model).codes, seen.codes):
            return True
        at = np.isin(seen.row, pairs)
        return drifted(likelihoods(self.known, counts, seen, pairs)[at], old[at])

    def _grow(self, counts: "Counts") -> None:
        """A graph from nothing, of the finest kind that fits."""
        seen = Observations.of(self.searches[0].model)
        every = np.arange(self.known.S * self.known.A)
        likelihood = likelihoods(self.known, counts, seen, every)
        self.memory = None
        while self.memory is None:
            if self.growth is None or not self.growth.serves(seen, KINDS[self.kind]):
                self.growth = Growth(self.known, seen, KINDS[self.kind])
            self.growth.start(likelihood)
            if not self._solve(self.growth):
                self.kind += 1

    def _solve(self, growth: Growth) -> bool:
        """Solve the models by belief; False if what they need does not fit and a coarser kind may.

        The model that breaks ties among the best of the second one is asked only if there are any.
        """
        found: list[Solved] = []
        for i, search in enumerate(self.searches):
            third = i == 2 and self.ties == "secondary"
            if third and found[1].value < self.searches[1].upper - EQUAL:
                break
            found.append(growth.solve(i, search))
            if not found[-1].fits and self.kind + 1 < len(KINDS):
                return False
        keep = self._needed(growth, found)
        old = self.memory
        same = old is not None and len(old.succ) == growth.used[1]  # nothing was expanded
        if old is None or not same or len(old.order) != keep.sum() or not keep[old.order].all():
            self._remember(growth.memory(keep))
        for search, solved in zip(self.searches, found, strict=False):
            search.consider(solved)
        return True

    def _needed(self, growth: Growth, found: list[Solved]) -> np.ndarray:
        """The nodes to plan with: those that new policies and those of the searches get to.

        Rare ones are left out, but not those of the policy in force: it must stay as it is.
        """
        if growth.kind.every:
            return np.ones(growth.nodes, dtype=bool)
        reach = np.max([growth.reach(solved.action, solved.where) for solved in found], axis=0)
        if self.memory is None:
            return _likely(reach)
        order, within = self.memory.order, np.zeros(growth.nodes, dtype=bool)
        action, within[order] = np.zeros(growth.nodes, dtype=np.int64), True
        for search in self.searches:
            action[order] = search.policy[growth.D :]
            reach = np.maximum(reach, growth.reach(action, within))
        action[order] = self.policy[growth.D :]
        return _likely(reach) | (growth.reach(action, within) > 0)

    def _remember(self, memory: Memory) -> None:
        """New arenas for this memory; policies of nodes that stay are carried over.

        A policy stays what it is, but where a node that is new to it leads to one that it has.
        """
        old, self.memory = self.memory, memory
        value = -1.0 if old is None else self._in_force()
        for search in self.searches:
            search.remember(memory, carry(search.policy, old, memory, self.known))
        if old is None:
            self.policy = self.searches[0].policy.copy()
        else:
            self.policy = carry(self.policy, old, memory, self.known)
        if abs(self._in_force() - value) > 1e-12:
            self.result, self.seen = None, 0  # the policy in force is gone: search
        elif self.result is not None:  # its graph is that in the present memory, also if resumed
            graph = self.searches[0].graph(self.policy)
            self.another = self.another or graph != self.result.policy
            self.result = replace(self.result, policy=graph)
        whole = self.growth is not None and self.growth.whole
        nodes = self.searches[0].arena.N
        self.effort = Effort.for_size(nodes, self.known.A, self.known.M, whole)

    def _answer(self, policy: Ints, value: float) -> HistoryResult:
        same = self.result is not None and np.array_equal(policy, self.policy)
        kept, self.another = same and not self.another, False
        if same and self.result is not None:
            graph = self.result.policy
        else:
            self.policy = policy.copy()
            graph = self.searches[0].graph(policy)
        assert self.memory is not None
        upper = self.searches[0].upper
        self.result = HistoryResult(graph, value, upper, kept, self.memory.N)
        return self.result

    # ---------------------------------------------------------------- plain data

    def state(self) -> dict[str, Any]:
        """What later answers depend on besides the counts, as plain data."""
        state = super().state() | {"markov": self.markov.state(), "looked": self.looked}
        state["pending"] = np.array(sorted(self.pending), dtype=np.int64)
        state["kind"], state["answered"] = self.kind, self.result is not None
        if self.growth is not None and self.memory is not None:
            state |= {"graph": self.growth.saved(), "nodes": self.memory.order}
        return state

    def restore(self, state: dict[str, Any], counts: "Counts") -> None:
        """Continue from `state()` to the same bits."""
        state = self._checked(state)
        self.markov.restore(state["markov"], counts)
        H, S = self.known.H, self.known.S
        self.table = self.markov.policy[: H * S].reshape(H, S)
        self.growth, self.memory, self.result = None, None, None
        self.kind, self.looked = int(state["kind"]), int(state["looked"])
        self.pending = set(np.asarray(state["pending"]).tolist())
        super().restore(state, counts)
        if state["answered"] and self.memory is not None:
            graph = self.searches[0].graph(self.policy)
            self.result = HistoryResult(graph, -1.0, -1.0, True, self.memory.N)

    def _checked(self, state: dict[str, Any]) -> dict[str, Any]:
        return memory_state(state, self.known, len(self._rules()), len(KINDS))

    def _restore_models(self, state: dict[str, Any]) -> None:
        seen = Observations.of_codes(self.known, np.array(state["graph"]["observations"]))
        self.growth = Growth(self.known, seen, KINDS[self.kind])
        self.growth.restore(state["graph"])
        keep = np.zeros(self.growth.nodes, dtype=bool)
        keep[state["nodes"]] = True
        self._remember(self.growth.memory(keep))
        super()._restore_models(state)


def _likely(reach: Floats) -> np.ndarray:
    """Nodes that are not rare; if there are too many, the limit is higher.

    Where it would leave none (a long path that is certain), the likeliest, first made first.
    """
    limit = RARE
    while np.count_nonzero(reach > limit) > MOST:
        limit *= 2.0
    if not (reach > limit).any():
        likeliest = np.argsort(-reach, kind="stable")[:MOST]
        return np.isin(np.arange(len(reach)), likeliest)
    return reach > limit


def carry(policy: Ints, old: Memory | None, new: Memory, known: Known) -> Ints:
    """The same policy on other nodes: those that are new act as without memory."""
    D = (known.H + 1) * known.S
    table = policy[: known.H * known.S].reshape(known.H, known.S)
    result = np.concatenate([policy[:D], table[new.step, new.state]])
    if old is not None:
        place = np.full(max(old.order.max(), new.order.max()) + 1, -1)
        place[new.order] = np.arange(D, D + new.N)
        stays = place[old.order] >= 0
        result[place[old.order][stays]] = policy[D:][stays]
    return result
