"""Both searches side by side: one leads, the other gets a small share of the work and may overtake.

Which search suits a model shows best in how its gap falls. Both bounds of both searches are valid,
so the better ones of each side count. Decisions rest on work and bounds alone: equal work limits
give equal results.
"""

from typing import Any

import numpy as np

from latentmdp.kernels.beliefs import ObservationModel
from latentmdp.kernels.planning.history_grid import BeliefGrid
from latentmdp.planning.budget import Budget
from latentmdp.planning.history.belief_graph import GraphSearch
from latentmdp.planning.history.belief_tree import TreeSearch
from latentmdp.planning.history.observations import Start
from latentmdp.planning.history.policy_parts import PolicyParts
from latentmdp.planning.history.search import Allowed, HistorySearch
from latentmdp.planning.settings import SETTINGS, PlanningSettings


class Race:
    """A search made of two; the second one is made when its turn first comes."""

    pending = 0

    def __init__(
        self,
        observations: ObservationModel,
        start: Start,
        horizon: int,
        corners: BeliefGrid,
        settings: PlanningSettings = SETTINGS,
    ) -> None:
        self.model, self.corners = (observations, start, horizon, corners), corners
        self.settings = settings
        kinds: tuple[Any, Any] = TreeSearch, GraphSearch
        steps = min(horizon, settings.race_steps)
        if beliefs_come_back(observations, start, steps, int(corners.upper.shape[1])):
            kinds = GraphSearch, TreeSearch
        self.leader: HistorySearch = kinds[0](*self.model, settings)
        self.head_start = self.leader.work + max(
            settings.race_head_start, GraphSearch.first_work(corners)
        )
        self.other: HistorySearch | None = None
        self.other_kind = kinds[1]
        self.out_of_memory: list[HistorySearch] = []

    @property
    def searches(self) -> list[HistorySearch]:
        """Those that were made, the leader first."""
        return [self.leader] if self.other is None else [self.leader, self.other]

    @property
    def name(self) -> str:
        """The search that both bounds come from; or both, that of the policy first."""
        low, high = self._best()
        return low.name if low is high else f"{low.name}+{high.name}"

    @property
    def bounds(self) -> tuple[float, float]:
        """`(lower, upper)` on the optimum."""
        low, high = self._best()
        return low.bounds[0], high.bounds[1]

    @property
    def work(self) -> int:
        """Work units done so far."""
        return sum(search.work for search in self.searches)

    @property
    def nodes(self) -> int:
        """Nodes of both searches."""
        return sum(search.nodes for search in self.searches)

    @property
    def bytes(self) -> int:
        """Memory in use."""
        return sum(search.bytes for search in self.searches)

    def advance(self, quantum: int, allowed: Allowed, budget: Budget, memory: int) -> str:
        """Let the search whose turn it is work on; `closed`, `paused`, `memory` or `stalled`."""
        search = self._whose_turn(memory)
        if search is None:
            return "memory"
        if search.work < self.settings.race_first_look:
            quantum = min(quantum, self.settings.race_first_look)
        outcome = search.advance(quantum, allowed, budget, memory - self.bytes + search.bytes)
        if outcome == "memory":
            self.out_of_memory.append(search)
            return "paused"
        return outcome

    def add_policy(self, parts: PolicyParts, slack: float) -> None:
        """Add the nodes of the policy that attains the lower bound, up to `slack`."""
        self._best()[0].add_policy(parts, slack)

    def _best(self) -> tuple[HistorySearch, HistorySearch]:
        """The searches with the better lower and the better upper bound."""
        low = max(self.searches, key=lambda search: search.bounds[0])
        high = min(self.searches, key=lambda search: search.bounds[1])
        return low, high

    def _whose_turn(self, memory: int) -> HistorySearch | None:
        """The search to go on with, the second one made if it is its turn; None: no memory."""
        if self.leader in self.out_of_memory:
            other = self._second(memory)
            return None if other in self.out_of_memory else other
        if self.other is not None and self.other in self.out_of_memory:
            return self.leader
        if self.other is not None and self.other.work <= self.leader.work:
            (low, high), (other_low, other_high) = self.leader.bounds, self.other.bounds
            if other_high - other_low <= self.settings.race_overtakes * (high - low):
                self.leader, self.other = self.other, self.leader
        if self.other is None:
            done, piece = 0, self.other_kind.first_work(self.corners)
        else:
            done, piece = self.other.work, self.other.pending
        # work of what comes next and cannot be divided: `piece` of the other, `ahead` of the leader
        work, ahead = self.leader.work, self.leader.pending
        share = self.settings.race_other_share
        others_turn = (
            done + piece < self.settings.race_first_look
            or done + piece <= share * (work + done + piece)
            or (ahead > share * work and done + piece <= self.settings.race_catches_up * ahead)
        )
        if work < self.head_start or not others_turn:
            return self.leader
        return self._second(memory) or self.leader

    def _second(self, memory: int) -> HistorySearch | None:
        """The second search, made now if there is room for it and it was not yet."""
        if self.other is None:
            if self.bytes + self.other_kind.bytes_to_begin(*self.model) > memory:
                return None
            self.other = self.other_kind(*self.model, self.settings)
        return self.other


def beliefs_come_back(
    observations: ObservationModel, start: Start, steps: int, n_states: int
) -> bool:
    """Whether few beliefs are met at many steps, as in mazes: a good reason to begin with `layers`.

    Observations only rule contexts out (they are equally likely in all that can show them), and
    states are met at several steps.
    """
    likelihood = observations.likelihood
    least = np.where(likelihood > 0, likelihood, np.inf).min(axis=1)
    if (likelihood.max(axis=1) - least > 1e-12).any():
        return False
    source = np.repeat(np.arange(len(observations.reward)), np.diff(observations.ptr))
    source //= observations.A
    now, seen, met = np.zeros(n_states, dtype=bool), np.zeros(n_states, dtype=bool), 0
    now[start.state] = True
    for _ in range(steps):
        met += int(now.sum())
        seen |= now
        following = observations.next[now[source]]
        now = np.zeros(n_states, dtype=bool)
        now[following] = True
    return met > 2 * int(seen.sum())
