"""Optimistic planning with memory: the Markov class on an augmented model.

Memory nodes (`memory.py`) behave like observed states, so sweeps, checked switches and kicks are those of the Markov
class, on a larger graph. One sweep weighted by the nodes' beliefs makes a good policy from nothing; sweeps weighted
by the derivative improve it. The policy handed out is the part that it can reach itself.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.canonical import Ints
from latentmdp.optimism.confidence import SECONDARY, Rule, Setting
from latentmdp.optimism.markov import Effort, Kicks, MarkovSearch
from latentmdp.optimism.memory import Memory, Observations, drifted, grow, likelihoods
from latentmdp.optimism.model import Known, OptimisticModel
from latentmdp.optimism.ties import EQUAL, MarkovPlanner
from latentmdp.policy import PolicyGraph

if TYPE_CHECKING:
    from latentmdp.learning.counts import Counts

FEW_STATES = 6  # up to here interval models get a slot, and so a memory, for every next state


class MemorySearch(MarkovSearch):
    """An optimistic model on the graph of default and memory nodes."""

    def lay_out(self, counts: "Counts", table: Ints) -> None:
        """The model alone; `remember` makes the arena."""
        every = self.rule.kind == "interval" and self.known.S <= FEW_STATES  # Eq. (2): the support
        self.model = OptimisticModel.of(
            self.known, counts, self.rule, self.setting, self.rng, every
        )
        self.version = counts.version
        self.table = table

    def remember(self, memory: Memory) -> None:
        """A new arena for this memory; actions of memory nodes start with their state's default."""
        known = self.known
        self.settle(self.model, self.table.copy(), memory.N, len(memory.succ))
        x, D = self.arena, self.arena.D
        x.T[x.obs : x.obs + len(self.model.next)] = memory.observations.of_slots(self.model)
        x.G[D : D + memory.N] = memory.state
        x.G[x.step + D : x.step + D + memory.N] = memory.step
        x.G[x.span : x.span + known.H + 1] = memory.span
        x.G[x.first : x.first + known.S] = memory.first
        x.G[x.edge : x.edge + memory.edge.size] = memory.edge.ravel()
        x.G[x.succ : x.succ + len(memory.succ)] = memory.succ
        self.memory = memory
        self.policy[D:] = self.table[memory.step, memory.state]

    def believe(self) -> float:
        """Best actions by belief, last step first; kept if better. Returns the value."""
        from latentmdp.kernels.memory import weigh_by_belief
        from latentmdp.kernels.optimistic_sweep import evaluate_policy, sweep

        x = self.arena
        value = float(evaluate_policy(x, x.policy, 0))
        if value >= self.upper - EQUAL:
            return value
        x.I[x.kicked : x.kicked + x.N] = self.policy
        weigh_by_belief(x, self.memory.belief)
        sweep(x, x.kicked, 0)
        new = float(evaluate_policy(x, x.kicked, 0))
        if new > value:
            self.policy[:] = x.I[x.kicked : x.kicked + x.N]
        return max(new, value)

    def graph(self, policy: Ints) -> PolicyGraph:
        """What a policy can reach, and the default nodes, as a policy graph."""
        from latentmdp.kernels.memory import extract

        x, seen, known = self.arena, self.memory.observations, self.known
        x.I[x.kicked : x.kicked + x.N] = policy
        n, e, integer = x.N, len(self.memory.succ), np.int64
        number, step, state, action = (np.empty(n, integer) for _ in range(4))
        indptr = np.empty(n + 1, integer)
        symbol, nxt, node = (np.empty(e, integer) for _ in range(3))
        n, e = extract(
            x, x.kicked, self.memory.belief, seen.start, seen.next, seen.symbol, number, step,
            state, action, indptr, symbol, nxt, node,
        )  # fmt: skip
        default = number[: known.H * known.S].reshape(known.H, known.S)
        parts = step[:n], state[:n], action[:n], indptr[: n + 1], symbol[:e], nxt[:e], node[:e]
        return PolicyGraph(*(part.copy() for part in parts), number[self.memory.first], default)


@dataclass
class HistoryResult:
    """One plan: the policy, its optimistic value, and a certified bound on the class's optimum."""

    policy: PolicyGraph
    value: float
    upper: float
    kept: bool
    nodes: int  # of the memory


class HistoryPlanner:
    """Plans again and again as counts grow; nodes and policies are kept in between."""

    def __init__(
        self,
        known: Known,
        rule: Rule,
        setting: Setting,
        random: np.random.Generator,
        ties: str = "secondary",
    ) -> None:
        self.known, self.rule, self.setting, self.ties = known, rule, setting, ties
        self.markov = MarkovPlanner(known, rule, setting, random, ties)
        kick_stream, self.rule_stream = random.spawn(2)
        self.kicks = Kicks(kick_stream, known.M, known.A)
        self.searches: list[MemorySearch] = []
        self.memory: Memory | None = None
        self.built = 0  # visits when the memory was built
        self.seen = 0  # visits at the last search
        self.patience, self.wait = 0, 0
        self.result: HistoryResult | None = None
        self.in_force = np.zeros(0, dtype=np.int64)

    # ---------------------------------------------------------------- planning

    def replan(self, counts: "Counts", changed: Ints | None = None) -> HistoryResult:
        """The policy for these counts; only the snapshots of the rows `changed` differ."""
        markov = self.markov.replan(counts, changed)
        fresh = self._update(counts, changed, markov.table)
        first, *rungs = self.searches
        top = first.upper - EQUAL
        visits = int(counts.n.sum())
        value = -1.0 if fresh else first.evaluate(self.in_force)
        if not fresh and value >= top and visits < 1.01 * self.seen:
            return self._answer(self.in_force, value)
        self.seen = visits
        best = self.in_force
        for search in (*rungs, first):
            search.table[:] = markov.table
        for rung in rungs:
            rung.believe()
            rung.search(self.calm, self.no_kicks)
            if (reached := first.evaluate(rung.policy)) >= top:
                return self._answer(rung.policy, reached)
            if reached > value + EQUAL:
                best, value = rung.policy.copy(), reached
        if value >= 0.0:
            first.policy[:] = best
        return self._answer(first.policy, self._search(first))

    def _search(self, first: MemorySearch) -> float:
        value = first.believe()
        if value < first.upper - EQUAL:
            value = first.search(self.calm, self.no_kicks)
        self.wait -= 1
        if value >= first.upper - EQUAL or (self.wait > 0 and not self.effort.every):
            return value
        better = first.search(self.effort, self.kicks.draw(self.effort, first.arena.N))
        self.patience = 1 if better > value + EQUAL else min(2 * self.patience + 1, 31)
        self.wait = self.patience
        return better

    def _update(self, counts: "Counts", changed: Ints | None, table: Ints) -> bool:
        """Models up to date, memory too if it must; whether the memory is a new one."""
        visits = int(counts.n.sum())
        rows = np.arange(counts.rows) if changed is None else changed
        if not self.searches:
            make = [self.rule]
            if self.ties == "secondary" and not self.rule.random:
                make.append(SECONDARY)
            self.searches = [
                MemorySearch(self.known, rule, self.setting, counts, self.rule_stream)
                for rule in make
            ]
        elif self.searches[0].version != counts.version:
            for search in self.searches:
                search.lay_out(counts, table)
            self.memory = None
        else:
            for search in self.searches:
                search.update(counts, rows)
        if self.memory is not None:
            if visits < 1.05 * self.built and visits > 50 * self.known.H:
                return False
            pairs = np.unique(rows % (self.known.S * self.known.A))
            seen, old = self.memory.observations, self.memory.likelihood
            at = np.isin(seen.row, pairs)
            if not drifted(likelihoods(self.known, counts, seen, pairs)[at], old[at]):
                return False
        self._build(counts, visits)
        return True

    def _build(self, counts: "Counts", visits: int) -> None:
        seen = Observations.of(self.searches[0].model)
        every = np.arange(self.known.S * self.known.A)
        self._remember(grow(self.known, seen, likelihoods(self.known, counts, seen, every)))
        self.built = visits

    def _remember(self, memory: Memory) -> None:
        self.memory = memory
        for search in self.searches:
            search.remember(memory)
        nodes = self.searches[0].arena.N
        self.effort = Effort.for_size(nodes, self.known.A, self.known.M, memory.side == 0.0)
        self.calm = self.effort.without_kicks()
        self.no_kicks = self.kicks.draw(self.calm, nodes)
        self.in_force = self.searches[0].policy.copy()

    def _answer(self, policy: Ints, value: float) -> HistoryResult:
        kept = self.result is not None and np.array_equal(policy, self.in_force)
        upper = self.searches[0].upper
        if kept and self.result is not None:
            graph = self.result.policy
        else:
            self.in_force = policy.copy()
            graph = self.searches[0].graph(policy)
        assert self.memory is not None
        self.result = HistoryResult(graph, value, upper, kept, self.memory.N)
        return self.result

    # ---------------------------------------------------------------- plain data

    def state(self) -> dict[str, Any]:
        """What later answers depend on besides the counts, as plain data."""
        state = {
            "markov": self.markov.state(),
            "built": self.built,
            "seen": self.seen,
            "patience": self.patience,
            "wait": self.wait,
            "kicks": dict(self.kicks.rng.bit_generator.state),
            "rule": dict(self.rule_stream.bit_generator.state),
            "in_force": self.in_force,
        }
        if self.memory is not None:
            state["likelihood"] = self.memory.likelihood
            state["side"] = self.memory.side
            state["policies"] = np.array([search.policy for search in self.searches])
        return state

    def restore(self, state: dict[str, Any], counts: "Counts") -> None:
        """Continue from `state()` to the same bits."""
        self.markov.restore(state["markov"], counts)
        self.searches, self.memory, self.result = [], None, None
        if "likelihood" in state:
            self._update(counts, None, self.markov.table)
            seen = Observations.of(self.searches[0].model)
            self._remember(grow(self.known, seen, state["likelihood"], (float(state["side"]),)))
            for search, policy in zip(self.searches, state["policies"], strict=True):
                search.policy[:] = policy
            self.in_force = np.array(state["in_force"], dtype=np.int64)
        for name in ("built", "seen", "patience", "wait"):
            setattr(self, name, int(state[name]))
        self.kicks.rng.bit_generator.state = state["kicks"]
        self.rule_stream.bit_generator.state = state["rule"]
