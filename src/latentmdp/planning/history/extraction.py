"""From a search to a policy with its exact value, within what is left of time and memory.

A policy may be many times larger than the search that proves its worth. So its size is known before
it is written: one that is too large is cut where it is hardly ever needed, or the last one that was
written is handed out. While the search runs, the time for this is kept back.
"""

import time

import numpy as np

from latentmdp.csr import Ints
from latentmdp.evaluation.evaluate import evaluate
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.budget import Budget
from latentmdp.planning.history.policy_parts import PolicyParts, PolicyTooLargeError
from latentmdp.planning.history.search import HistorySearch
from latentmdp.policy.graph import PolicyGraph

FIRST_WRITE = 0.05  # share of the time limit after which policies are written while the search runs
REST_FACTOR = 10  # between two policies the search works so many times as long as writing one
RESERVE_FACTOR = 1.5  # kept back: this many times what writing the policy is expected to take
MAX_RESERVE = 0.5  # ... but no more than this share of the time limit
POLICY_NODE_BYTES, POLICY_EDGE_BYTES = 160, 140  # while it is written; 16 per node and context
SMALL_POLICY = 20_000  # nodes and edges of a policy that is always written: it takes no time
BASELINE_SHARE = 0.1  # of the time limit: what is kept back for `safeguard.py`, at most; for
BASELINE_SECONDS, BASELINE_FACTOR = 0.2, 10.0  # this, and so many times solving each context
UNIT_SECONDS = 3e-7  # per node or edge, until a policy was written; 1e-7 to 3.6e-7 were measured
LEAST_UNIT = 2e-7  # ... and at least: large policies take longer per node than middling ones


def seconds_for_baselines(solving: float, time_limit: float) -> float:
    """Time to keep back for `safeguard.py`, where solving each context took `solving` seconds."""
    return min(BASELINE_SECONDS + BASELINE_FACTOR * solving, BASELINE_SHARE * time_limit)


class PolicyMaker:
    """Writes the policy of a search; keeps the best so far."""

    def __init__(
        self, model: LatentMDP, table: Ints, context: int, budget: Budget, memory: int
    ) -> None:
        self.model, self.table, self.context = model, table, context
        self.budget, self.memory = budget, memory
        self.policy: PolicyGraph | None = None
        self.lower = -np.inf
        self.shortage = ""  # of time or memory: the policy is not the search's own
        self.for_baselines = 0.0  # seconds to keep back for them
        if budget.time_limit is not None:  # so far each context was solved
            self.for_baselines = seconds_for_baselines(budget.seconds, budget.time_limit)
        self.unit_seconds = UNIT_SECONDS  # measured later
        self.large = memory // 8  # a search of so many bytes has its policy written
        self.seconds, self.ended = 0.0, 0.0  # what the last one took; when it was written
        self.size, self.bytes, self.work = 0, 0, 0  # nodes and edges of it; of the search then

    def watch(self, search: HistorySearch) -> None:
        """Keep time back for the policy; now and then write one, to know how long it takes.

        And while there is memory for it.
        """
        budget, (low, high) = self.budget, search.bounds
        if search.bytes > self.large:
            self.write(search, 0.01 * (high - low))
            self.large = 2 * search.bytes
        if budget.time_limit is None or budget.seconds < FIRST_WRITE * budget.time_limit:
            return
        rested = budget.seconds - self.ended > REST_FACTOR * self.seconds
        if rested and search.work >= 2 * self.work and not budget.reason():
            self.write(search, 0.01 * (high - low))
        expected = self.unit_seconds * self.size * search.bytes / max(self.bytes, 1)
        kept_back = self.for_baselines + RESERVE_FACTOR * expected
        budget.kept_back = min(kept_back, MAX_RESERVE * budget.time_limit)

    def write(self, search: HistorySearch, slack: float) -> tuple[PolicyGraph, float]:
        """The best policy so far and its value, after one worth the lower bound less `slack`."""
        begun = time.perf_counter()
        in_time = self.budget.in_time
        parts = PolicyParts(self.table, self.context, *self._room(search), lambda: not in_time(0.0))
        try:
            search.add_policy(parts, slack)
            # what is left to do takes as long again: give up if that is too long
            if sum(parts.added) > SMALL_POLICY and not in_time(time.perf_counter() - begun):
                raise PolicyTooLargeError
            self._keep(parts)
        except PolicyTooLargeError:
            parts.cut_short = True
            if self.policy is None:
                self._keep(PolicyParts(self.table, self.context))
        self.shortage = self._tight if parts.cut_short else ""
        self.seconds = time.perf_counter() - begun
        size = sum(parts.added)
        self.size = max(self.size, size)
        if size > SMALL_POLICY:
            self.unit_seconds = max(LEAST_UNIT, self.seconds / size)
        self.bytes, self.work, self.ended = search.bytes, search.work, self.budget.seconds
        assert self.policy is not None
        return self.policy, self.lower

    def _keep(self, parts: PolicyParts) -> None:
        """Keep the policy if it is the best so far, or was not cut to fit.

        One that was not cut replaces even a better one: which policies were written before it
        depends on the clock, and equal work must give equal plans.
        """
        policy = parts.graph()
        lower = evaluate(self.model, policy).value
        if lower > self.lower or not parts.cut_short:
            self.policy, self.lower = policy, lower

    def _room(self, search: HistorySearch) -> tuple[float, float]:
        """Nodes, or else edges, that time and memory suffice for."""
        free = max(0, self.memory - search.bytes)
        most = free / (POLICY_NODE_BYTES + 16 * self.model.M), free / POLICY_EDGE_BYTES
        self._tight = "memory"
        if self.budget.time_limit is not None:
            in_time = (self.budget.time_limit - self.budget.seconds) / self.unit_seconds
            if in_time < most[1]:
                most, self._tight = (min(most[0], in_time), in_time), "time"
        return max(SMALL_POLICY, most[0]), max(SMALL_POLICY, most[1])
