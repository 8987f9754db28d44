"""Optimistic planning with memory: the Markov class on an augmented model.

Memory nodes (`memory.py`) behave like observed states, so sweeps, checked switches and kicks are
those of the Markov class, on a larger graph. One sweep weighted by the nodes' beliefs makes a good
policy from nothing; sweeps weighted by the derivative improve it. The policy handed out is the part
that it can reach itself.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.canonical import Ints
from latentmdp.optimism.confidence import Rule, Setting
from latentmdp.optimism.markov import EQUAL, Effort, Kicks, MarkovSearch
from latentmdp.optimism.memory import SIDES, Memory, Observations, drifted, grow, likelihoods
from latentmdp.optimism.model import Known, OptimisticModel
from latentmdp.optimism.ties import Planner
from latentmdp.policy import PolicyGraph

if TYPE_CHECKING:
    from latentmdp.learning.counts import Counts

BELIEVE = 16  # searches between two sweeps by belief
REBUILD = 1.05  # visits must have grown by this factor before the memory is looked at again
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
        from latentmdp.kernels.memory import mark_active

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
        mark_active(x.here)
        self.memory, self.calls = memory, 0
        self.policy[D:] = self.table[memory.step, memory.state]

    def believe(self) -> float:
        """Best actions by belief, last step first; kept if better. Returns the value."""
        from latentmdp.kernels.memory import weigh_by_belief

        x, run = self.arena, self._kernels
        value = run.evaluate(x.here, x.policy)
        if value >= self.upper - EQUAL:
            return value
        weigh_by_belief(x.here, self.memory.belief)
        run.propose(x.here, x.policy, x.kicked, 0, -1.0)
        new = run.evaluate(x.here, x.kicked)
        if new > value:
            self.policy[:] = x.I[x.kicked : x.kicked + x.N]
        return max(new, value)

    def improve(self, effort: Effort, kicks: Kicks) -> float:
        """By belief when the memory is new and now and then; otherwise as in the Markov class."""
        self.calls += 1
        if self.calls % BELIEVE == 1 and self.believe() >= self.upper - EQUAL:
            return self.upper
        return super().improve(effort, kicks)

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
            x.here, x.kicked, seen.start, seen.next, seen.symbol, number, step,
            state, action, indptr, symbol, nxt, node,
        )  # fmt: skip
        default = number[: known.H * known.S].reshape(known.H, known.S)
        root = number[self.memory.first]
        return PolicyGraph(
            step[:n].copy(), state[:n].copy(), action[:n].copy(), indptr[: n + 1].copy(),
            symbol[:e].copy(), nxt[:e].copy(), node[:e].copy(), root, default,
        )  # fmt: skip


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
        self.memory: Memory | None = None
        self.looked = 0  # visits when it was last looked at
        self.pending: set[int] = set()  # pairs `s*A + a` whose counts have changed since
        self.result: HistoryResult | None = None

    def replan(self, counts: "Counts", changed: Ints | None = None) -> HistoryResult:
        """The policy for these counts; only the snapshots of the rows `changed` differ."""
        self.table = self.markov.replan(counts, changed).table
        return super().replan(counts, changed)

    def _update(self, counts: "Counts", rows: Ints) -> None:
        """Models up to date, and the memory if it must be."""
        visits = int(counts.n.sum())
        if self.searches and self.searches[0].version != counts.version:
            for search in self.searches:
                search.lay_out(counts, self.table)
            self.late = [set() for _ in self.searches]
            self.memory = None
        else:
            super()._update(counts, rows)
        if self.memory is None or self._outdated(counts, rows, visits):
            for i in range(len(self.searches)):
                self._catch_up(i)
            seen = Observations.of(self.searches[0].model)
            every = np.arange(self.known.S * self.known.A)
            likelihood = likelihoods(self.known, counts, seen, every)
            sides = SIDES if self.memory is None else _from(self.memory.side)
            self._remember(grow(self.known, seen, likelihood, sides))
            self.looked = visits
            self.pending.clear()
        for search in self.searches:
            search.table[:] = self.table

    def expect(self, counts: "Counts") -> None:
        """As in the Markov class; the default nodes' planner too."""
        super().expect(counts)
        self.markov.expect(counts)

    def _outdated(self, counts: "Counts", rows: Ints, visits: int) -> bool:
        """Whether likelihood ratios have drifted, asked only now and then."""
        assert self.memory is not None
        self.pending.update((rows % (self.known.S * self.known.A)).tolist())
        if visits < REBUILD * self.looked and self.looked > 50 * self.known.H:
            return False
        pairs = np.array(sorted(self.pending), dtype=np.int64)
        self.looked = visits
        self.pending.clear()
        seen, old = self.memory.observations, self.memory.likelihood
        at = np.isin(seen.row, pairs)
        return drifted(likelihoods(self.known, counts, seen, pairs)[at], old[at])

    def _remember(self, memory: Memory) -> None:
        self.memory, self.result = memory, None
        for search in self.searches:
            search.table = self.table
            search.remember(memory)
        nodes = self.searches[0].arena.N
        self.effort = Effort.for_size(nodes, self.known.A, self.known.M, memory.side == 0.0)
        self.policy = self.searches[0].policy.copy()

    def _answer(self, policy: Ints, value: float) -> HistoryResult:
        kept = self.result is not None and np.array_equal(policy, self.policy)
        if kept and self.result is not None:
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
        if self.memory is not None:
            state |= {"likelihood": self.memory.likelihood, "side": self.memory.side}
            state["calls"] = np.array([search.calls for search in self.searches])
            state["slots"] = len(self.searches[0].model.next)
        return state

    def restore(self, state: dict[str, Any], counts: "Counts") -> None:
        """Continue from `state()` to the same bits."""
        self.markov.restore(state["markov"], counts)
        H, S = self.known.H, self.known.S
        self.table = self.markov.policy[: H * S].reshape(H, S)
        self.memory, self.looked = None, int(state["looked"])
        self.pending = set(np.asarray(state["pending"]).tolist())
        super().restore(state, counts)

    def _restore_models(self, state: dict[str, Any]) -> None:
        if len(self.searches[0].model.next) != int(state["slots"]):
            for search in self.searches:  # the layout has grown: the next plan starts afresh
                search.version = -1
            return
        seen = Observations.of(self.searches[0].model)
        self._remember(grow(self.known, seen, state["likelihood"], (float(state["side"]),)))
        for search, calls in zip(self.searches, state["calls"], strict=True):
            search.calls = int(calls)
        super()._restore_models(state)


def _from(side: float) -> tuple[float, ...]:
    """The kinds of memory from this one on: what did not fit before is not tried again."""
    return SIDES[SIDES.index(side) :]
