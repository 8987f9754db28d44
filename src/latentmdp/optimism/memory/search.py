"""`MemorySearch`: an optimistic model on the graph of default and memory nodes.

Memory nodes behave like observed states, so sweeps, checked switches and perturbations are
those of the Markov class, on a larger graph.
"""

import numpy as np

from latentmdp.csr import Ints
from latentmdp.kernels.optimism.memory import extract, mark_possible_contexts
from latentmdp.kernels.structs import PolicyNodes
from latentmdp.model.counts import Counts
from latentmdp.optimism.memory.graph import BeliefPolicy
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.nodes import MemoryPart, make_nodes
from latentmdp.optimism.search import MarkovSearch
from latentmdp.policy.graph import PolicyGraph


class MemorySearch(MarkovSearch):
    """An optimistic model on the graph of default and memory nodes.

    A confidence set gives mass to next states that a context has never shown (Eq. 2). Where another
    context has shown the same observation, a policy has a successor for it, and the context must go
    there as well: a policy does not know the context. So contexts list what any of them has shown.
    Up to `few_states` states they list everything, and the memory answers it; with more states,
    what none has shown leads to the default nodes in every context.
    """

    memory: MemoryPart | None = None

    def lay_out(self, counts: Counts, table: Ints) -> None:
        """A model for the counts' layout, on the memory that there is."""
        shared, few = self.rule.kind == "interval", self.settings.few_states
        every_next = shared and few >= self.known.S
        model = ConfidenceModel.of(
            self.known, counts, self.rule, self.constants, self.rng, every_next, shared
        )
        policy = None if self.memory is None else self.policy
        self.begin(model, counts, table)
        if self.memory is not None and policy is not None:
            self.remember(self.memory, policy)

    def rows_are_longer(self) -> None:
        """Contexts may now be at nodes where they could not be before."""
        if self.memory is not None:
            mark_possible_contexts(self.search)
            self.forget_values()

    def remember(self, memory: MemoryPart, policy: Ints) -> None:
        """Plan on the graph with this memory, from this policy."""
        self.memory = memory
        self.place(make_nodes(self.known, self.model.observations, memory))
        self.policy[:] = policy
        mark_possible_contexts(self.search)

    def consider(self, solved: BeliefPolicy) -> None:
        """The policy by belief, where there is one; kept if it is better."""
        assert self.memory is not None
        order, other = self.memory.order, self.policy.copy()
        is_solved = solved.is_solved[order]
        other[self.memory.number[is_solved]] = solved.action[order][is_solved]
        if self.evaluate(other) > self.evaluate(self.policy):
            self.policy[:] = other

    def graph(self, policy: Ints) -> PolicyGraph:
        """What a policy can reach, and the default nodes, as a policy graph."""
        assert self.memory is not None
        seen, N, edges = self.model.observations, self.N, len(self.nodes.succ)
        whole = np.int64
        number, step, state, action = (np.empty(N, whole) for _ in range(4))
        symbol, nxt, node = (np.empty(edges, whole) for _ in range(3))
        graph = PolicyNodes(
            step, state, action, np.empty(N + 1, whole), symbol, nxt, node, number, number
        )  # the last two are filled in below
        n, e = extract(
            self.nodes, np.array(policy), seen.start, seen.next, seen.symbol, number, graph
        )
        return PolicyGraph(
            step[:n].copy(), state[:n].copy(), action[:n].copy(), graph.indptr[: n + 1].copy(),
            symbol[:e].copy(), nxt[:e].copy(), node[:e].copy(), number[self.memory.first],
            number[self.default],
        )  # fmt: skip
