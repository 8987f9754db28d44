"""Write the policy of a search within what is left of time and memory.

A policy may be many times larger than the search that proves its worth. So its size is known before
it is written: one that is too large is cut where it is hardly ever needed, or given up.
"""

from latentmdp.csr import Ints
from latentmdp.planning.driver import TimeReserve, Written
from latentmdp.planning.history.policy_parts import PolicyParts, PolicyTooLargeError
from latentmdp.planning.history.search import HistorySearch


class PolicyWriter:
    """Writes policies of a search; `table (H, S)` and `context` are those of `PolicyParts`."""

    def __init__(
        self,
        search: HistorySearch,
        table: Ints,
        context: int,
        contexts: int,
        reserve: TimeReserve,
        memory: int,
    ) -> None:
        self.search, self.table, self.context, self.contexts = search, table, context, contexts
        self.reserve, self.memory, self.any = reserve, memory, False

    def __call__(self, slack: float) -> Written:
        """A policy worth the lower bound less `slack`, if it fits."""
        budget, shortage = self.reserve.budget, ""
        began = budget.seconds
        nodes, edges, tight = self._room()
        parts = PolicyParts(self.table, self.context, nodes, edges, lambda: not budget.in_time(0.0))
        try:
            self.search.add_policy(parts, slack)
            small = sum(parts.added) <= self.reserve.small
            # what is left to do takes as long again: give up if that is too long
            if not small and not budget.in_time(budget.seconds - began):
                raise PolicyTooLargeError
            policy, shortage = parts.graph(), tight if parts.cut_short else ""
        except PolicyTooLargeError:
            policy, shortage = None, tight
            if not self.any:
                policy = PolicyParts(self.table, self.context).graph()
        self.any = True
        return Written(policy, sum(parts.added), shortage)

    def _room(self) -> tuple[float, float, str]:
        """Nodes, or else edges, that time and memory suffice for; and which of them is short."""
        budget, s = self.reserve.budget, self.reserve.settings
        free = max(0, self.memory - self.search.bytes)
        nodes = free / (s.policy_node_bytes + 16 * self.contexts)
        edges, tight = free / s.policy_edge_bytes, "memory"
        if budget.time_limit is not None:
            in_time = (budget.time_limit - budget.seconds) / self.reserve.unit_seconds
            if in_time < edges:
                nodes, edges, tight = min(nodes, in_time), in_time, "time"
        return max(s.small_policy, nodes), max(s.small_policy, edges), tight
