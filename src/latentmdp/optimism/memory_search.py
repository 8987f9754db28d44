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
    from latentmdp.counts import Counts

FEW_STATES = 12  # up to here a confidence set lists every next state, also what nobody has seen


class MemorySearch(MarkovSearch):
    """An optimistic model on the graph of default and memory nodes.

    A confidence set gives mass to next states that a context has never shown (Eq. 2). Where another
    context has shown the same observation, a policy has a successor for it, and the context must go
    there as well: a policy does not know the context. So contexts list what any of them has shown.
    Up to `FEW_STATES` states they list everything, and the memory answers it; with more states,
    what none has shown leads to the default nodes in every context.
    """

    memory: Memory | None = None

    def lay_out(self, counts: "Counts", table: Ints) -> None:
        """A model for the counts' layout, on the memory that there is."""
        interval, few = self.rule.kind == "interval", self.known.S <= FEW_STATES
        model = OptimisticModel.of(
            self.known, counts, self.rule, self.setting, self.rng, interval and few, interval
        )
        policy = None if self.memory is None else self.policy.copy()
        self.begin(model, counts, table)
        if self.memory is not None and policy is not None:
            self.remember(self.memory, policy)

    def begin(self, model: OptimisticModel, counts: "Counts", table: Ints) -> None:
        """As in the Markov class; the counts are needed again for a new memory."""
        self.counts = counts
        super().begin(model, counts, table)

    def list_outcomes(self, counts: "Counts", changed: Ints) -> Ints:
        """As in the Markov class; contexts may now be at nodes where they could not be before."""
        self.counts = counts
        rows, longer = self.model.list_outcomes(counts, changed)
        if longer and self.memory is not None:
            self._mark_active()
        return rows

    def remember(self, memory: Memory, policy: Ints) -> None:
        """A new arena for this memory, with this policy."""
        known, D = self.known, self.arena.D
        self.settle(self.model, self.table.copy(), memory.N, len(memory.succ))
        x = self.arena
        self.model.observe(self.counts, memory.observations.of_candidates(self.model))
        x.G[D : D + memory.N] = memory.state
        x.G[x.step + D : x.step + D + memory.N] = memory.step
        x.G[x.span : x.span + known.H + 1] = memory.span
        x.G[x.first : x.first + known.S] = memory.first
        x.G[x.edge : x.edge + memory.edge.size] = memory.edge.ravel()
        x.G[x.succ :] = memory.succ
        self.memory = memory
        self.policy[:] = policy
        self._mark_active()

    def _mark_active(self) -> None:
        """Mark where contexts can be; values of remembered policies are not valid any more."""
        from latentmdp.kernels.memory import mark_active
        from latentmdp.kernels.optimistic_arena import MEMO

        x = self.arena
        mark_active(x.here)
        x.I[x.age : x.age + MEMO] = 0

    def consider(self, solved: Solved) -> None:
        """The policy by belief, where there is one; kept if it is better."""
        assert self.memory is not None
        order, other = self.memory.order, self.policy.copy()
        where = solved.where[order]
        other[self.arena.D :][where] = solved.action[order][where]
        if self.evaluate(other) > self.evaluate(self.policy):
            self.policy[:] = other

    def graph(self, policy: Ints) -> PolicyGraph:
        """What a policy can reach, and the default nodes, as a policy graph."""
        from latentmdp.kernels.memory import extract

        assert self.memory is not None
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
