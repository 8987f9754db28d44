"""`MemorySearch`: an optimistic model on the graph of default and memory nodes.

Memory nodes behave like observed states, so sweeps, checked switches and kicks are those of the
Markov class, on a larger graph.
"""

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.canonical import Ints
from latentmdp.optimism.growth import Solved
from latentmdp.optimism.markov import MarkovSearch
from latentmdp.optimism.memory import Memory
from latentmdp.optimism.model import OptimisticModel
from latentmdp.policy import PolicyGraph

if TYPE_CHECKING:
    from latentmdp.learning.counts import Counts

FEW_STATES = 6  # up to here interval models get a slot, and so a memory, for every next state


class MemorySearch(MarkovSearch):
    """An optimistic model on the graph of default and memory nodes."""

    def lay_out(self, counts: "Counts", table: Ints) -> None:
        """The model without memory; `remember` adds that."""
        every = self.rule.kind == "interval" and self.known.S <= FEW_STATES  # Eq. (2): the support
        model = OptimisticModel.of(self.known, counts, self.rule, self.setting, self.rng, every)
        self.begin(model, counts, table)

    def remember(self, memory: Memory, policy: Ints) -> None:
        """A new arena for this memory, with this policy."""
        from latentmdp.kernels.memory import mark_active

        known, D = self.known, self.arena.D
        self.settle(self.model, self.table.copy(), memory.N, len(memory.succ))
        x = self.arena
        x.T[x.obs :] = memory.observations.of_slots(self.model)
        x.G[D : D + memory.N] = memory.state
        x.G[x.step + D : x.step + D + memory.N] = memory.step
        x.G[x.span : x.span + known.H + 1] = memory.span
        x.G[x.first : x.first + known.S] = memory.first
        x.G[x.edge : x.edge + memory.edge.size] = memory.edge.ravel()
        x.G[x.succ :] = memory.succ
        mark_active(x.here)
        self.memory = memory
        self.policy[:] = policy

    def consider(self, solved: Solved) -> None:
        """The policy by belief, where there is one; kept if it is better."""
        order, other = self.memory.order, self.policy.copy()
        where = solved.where[order]
        other[self.arena.D :][where] = solved.action[order][where]
        if self.evaluate(other) > self.evaluate(self.policy):
            self.policy[:] = other

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
