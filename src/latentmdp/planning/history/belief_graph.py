"""Search over merged beliefs: nodes `(belief, state)` shared by all steps, expanded by layers.

Where observations leave most beliefs as they are, or lead back to earlier ones (mazes, sequential
tests), few beliefs matter. Expanding all of them is exact; expanding those with the largest
`reach x gap` is often enough.
"""

import numpy as np

from latentmdp.csr import Ints
from latentmdp.kernels.beliefs import N_BELIEFS, N_NODES, WORK_UNITS, ObservationModel
from latentmdp.kernels.planning.history_extract import reached_policy, write_graph_policy
from latentmdp.kernels.planning.history_frontier import score_frontier, tighten_frontier
from latentmdp.kernels.planning.history_graph import (
    FRONTIER,
    HOLD,
    Corners,
    bound_nodes,
    expand_beliefs,
    plant_graph,
)
from latentmdp.kernels.planning.history_grid import BeliefGrid
from latentmdp.kernels.planning.history_sweep import back_up_layers
from latentmdp.model.rows import Sizes
from latentmdp.planning.budget import Budget
from latentmdp.planning.history.belief_arrays import (
    empty_graph,
    enlarge_graph,
    first_room,
    more_room,
    total_bytes,
)
from latentmdp.planning.history.observations import Start
from latentmdp.planning.history.policy_parts import PolicyParts, PolicyTooLargeError
from latentmdp.planning.history.search import Allowed
from latentmdp.planning.settings import SETTINGS, PlanningSettings


class GraphSearch:
    """The search `layers`; see `HistorySearch`."""

    name = "layers"
    pending = 0

    def __init__(
        self,
        observations: ObservationModel,
        start: Start,
        horizon: int,
        corners: BeliefGrid,
        settings: PlanningSettings = SETTINGS,
    ) -> None:
        self.observations, self.start, self.horizon = observations, start, horizon
        self.corners, self.by_step = corners, _by_step(corners)
        self.settings = settings
        self.round, self.cut = 0, settings.layers_first_cut
        self.order: Ints = np.zeros(0, dtype=np.int64)  # the expanded beliefs
        S = int(corners.upper.shape[1])
        A = observations.A
        self.graph = empty_graph(observations, len(start.state), S, A, horizon)
        self.start_node = np.empty(len(start.state), dtype=np.int64)
        plant_graph(self.graph, start.state, start.belief, self.start_node)
        bound_nodes(self.graph, self.by_step, 0, 0.0)
        self.graph.used[WORK_UNITS] += self.first_work(corners)

    @staticmethod
    def first_work(corners: BeliefGrid) -> int:
        """Work of making one."""
        return int(corners.alpha.size) // 24

    @staticmethod
    def bytes_to_begin(
        observations: ObservationModel, start: Start, horizon: int, corners: BeliefGrid
    ) -> int:
        """Memory that a new one needs."""
        (J, M), S = observations.likelihood.shape, int(corners.upper.shape[1])
        sizes = Sizes(M, S, observations.A)
        return first_bytes(sizes, J, horizon, len(start.state))

    # ------------------------------------------------------------------ state

    @property
    def bounds(self) -> tuple[float, float]:
        """`(lower, upper)` on the optimum."""
        low, high = self.start.prob @ self.graph.bound[self.start_node, self.horizon]
        return float(low), float(high)

    @property
    def work(self) -> int:
        """Work units done so far."""
        return int(self.graph.used[WORK_UNITS])

    @property
    def nodes(self) -> int:
        """Nodes of the graph."""
        return int(self.graph.used[N_NODES])

    @property
    def bytes(self) -> int:
        """Memory in use."""
        return total_bytes(self.graph) + total_bytes(self.by_step)

    # ------------------------------------------------------------------ searching

    def advance(self, quantum: int, allowed: Allowed, budget: Budget, memory: int) -> str:
        """Rounds for `quantum` units or until closed; `closed`, `paused`, `memory`, `stalled`."""
        stop = self.work + quantum
        while True:
            low, high = self.bounds
            if high - low <= allowed.gap(high):
                return "closed"
            if self.work >= stop:
                return "paused"
            outcome = self._round(allowed.gap(high), budget, memory)
            if outcome:
                return outcome

    def _round(self, allowed: float, budget: Budget, memory: int) -> str:
        """Choose, expand and back up; why the search must pause or end, if it must."""
        self.round += 1
        drift = self.settings.layers_drift * allowed / self.horizon
        notice = self.settings.layers_notice * allowed
        chosen = self._choose()
        if len(chosen) == 0:
            if self.cut > 0.0:  # the rest of the frontier is reached with less than `cut`
                self.cut = self.cut / 100 if self.cut > 1e-14 else 0.0
                return ""
            # The best actions under upper bounds reach no frontier with a gap. Another action may
            # become the best one as long as any bound moves; if none does, the search is done.
            self._back_up(True, drift, 0.0, budget)
            moved = (self.graph.changed[: self.nodes] == self.round).any()
            return "" if moved or budget.reason() else "stalled"
        outcome = self._expand(chosen, drift, budget, memory)
        if outcome:
            return outcome
        self._tighten(drift, notice, budget)
        self._sort()
        self._back_up(False, drift, notice, budget)
        return ""

    def _tighten(self, drift: float, notice: float, budget: Budget) -> None:
        """Better upper bounds at the frontier; stops on the way, bounds valid, when time is up."""
        begin, end = 0, int(self.graph.used[N_BELIEFS])
        while begin < end and not (begin and budget.reason()):
            begin = tighten_frontier(
                self.graph, self.by_step, self.order, begin, self.round, drift, notice,
                self.work + self.settings.layers_pass_work,
            )  # fmt: skip

    def _back_up(self, everything: bool, drift: float, notice: float, budget: Budget) -> None:
        """A pass over the layers; stops on the way, bounds valid, when time is up."""
        place, step = 0, 0
        while place < len(self.order) and not ((place or step) and budget.reason()):
            place, step = back_up_layers(
                self.graph, self.order, place, step, self.round, everything, drift, notice,
                self.work + self.settings.layers_pass_work,
            )  # fmt: skip

    def _choose(self) -> Ints:
        """Frontier beliefs with the largest `reach x gap`, in turns by upper and lower policy."""
        graph = self.graph
        graph.passed_to[:] = 0
        scores = []
        for side in (0, 1):
            score_frontier(graph, side, self.start_node, self.start.prob, self.cut)
            scores.append(graph.score[: graph.used[N_BELIEFS]].copy())
        score = scores[0] if self.round % 2 == 0 and scores[0].any() else scores[1]
        candidates = np.flatnonzero(score > 0)
        n = max(2, int(self.settings.layers_batch * len(self.order)))
        return candidates[np.argsort(-score[candidates], kind="stable")[:n]]

    def _expand(self, chosen: Ints, drift: float, budget: Budget, memory: int) -> str:
        """Expand the chosen beliefs; `memory` or `paused` where that ends it."""
        new = self.graph.swept[chosen] == FRONTIER
        done = 0
        while done < len(chosen):
            begin, nodes = done, self.nodes
            done = expand_beliefs(
                self.graph,
                self.observations,
                chosen,
                begin,
                self.round,
                self.work + self.settings.layers_pass_work,
            )
            bound_nodes(self.graph, self.by_step, nodes, drift)
            self.order = np.append(self.order, chosen[begin:done][new[begin:done]])
            if done == begin and not self._grow(memory):
                return "memory"
            if budget.reason():
                return "paused"
        return ""

    def _sort(self) -> None:
        """Order the expanded beliefs: smaller supports first, equal ones together."""
        members = np.packbits(self.graph.belief[self.order] > 0, axis=1)
        size = self.graph.support[self.order].astype(np.int64)
        self.order = self.order[np.lexsort((*members.T, size))]

    def _grow(self, memory: int) -> bool:
        """More room for everything; False: there is no memory for it."""
        graph, by_step = self.graph, total_bytes(self.by_step)
        room = more_room(graph, len(self.observations.next), self.settings.room_growth)
        if room is None:
            return False
        M, S, A = graph.belief.shape[1], graph.node_of.shape[1], graph.gain.shape[1]
        size = by_step + room.bytes(M, S, A, self.horizon)
        if max(2 * self.bytes, size + 8 * self.horizon * room.nodes) > memory:
            return False  # numbering the policy's points takes memory too
        self.graph = enlarge_graph(graph, room)
        return True

    # ------------------------------------------------------------------ the policy

    def add_policy(self, parts: PolicyParts, slack: float) -> None:
        """Add the nodes of a policy worth the lower bound, up to `slack`.

        Where it does not fit, one that is cut at ever likelier places.
        """
        cut, none = 1e-7, np.zeros(0, dtype=np.int64)
        refused = (-1, -1)  # size of the last one that did not fit
        at = np.empty((self.horizon, self.nodes), dtype=np.int64)
        while True:
            n, edges, lost = reached_policy(
                self.graph, self.by_step, self.start_node, self.start.prob, cut, at, none, none
            )
            wanted = lost <= slack or cut == 0.0 or parts.cut_short
            if parts.fits(n, edges) and not wanted:
                cut = cut / 100 if cut > 1e-14 else 0.0
                continue
            before = parts.count, parts.added
            try:
                if (n, edges) == refused:  # nothing was cut
                    raise PolicyTooLargeError
                self._add_points(parts, cut, at, n, edges)
                return
            except PolicyTooLargeError:
                parts.count, parts.added = before
                parts.cut_short, refused = True, (n, edges)
                cut = 100 * cut if cut > 0.0 else 1e-14
                if cut > 1.0 or parts.is_late():
                    raise

    def _add_points(self, parts: PolicyParts, cut: float, at: Ints, n: int, edges: int) -> None:
        """Add the `n` points with `edges` that a policy cut at `cut` reaches."""
        number, graph = parts.reserve(n, edges), self.graph
        step, node = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        reached_policy(graph, self.by_step, self.start_node, self.start.prob, cut, at, step, node)
        action, degree = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        symbol, following, target, vertex = (np.empty(edges, dtype=np.int64) for _ in range(4))
        used = write_graph_policy(
            graph, self.observations, self.by_step, at, step, node, action, degree, symbol,
            following, target, vertex,
        )  # fmt: skip
        symbol, following = symbol[:used], following[:used]
        target, vertex = target[:used], vertex[:used]
        leaf = target < 0
        after = np.repeat(step, degree) + 1
        target = np.where(leaf, 0, number[target]) if n else target
        # first states that are not inner nodes start with a corner policy themselves
        first = at[0, self.start_node]
        at_corner = first < 0
        b = self.start.belief[at_corner]
        value = np.einsum("nm,nkm->nk", b, self.corners.alpha[0, self.start.state[at_corner]])
        corner = np.argmax(np.where(b > 0, value, -np.inf), axis=1)
        found = parts.add_grid(
            self.observations,
            self.corners,
            np.concatenate([after[leaf], np.zeros_like(corner)]),
            np.concatenate([following[leaf], self.start.state[at_corner]]),
            np.concatenate([vertex[leaf], corner]),
            0,
        )
        target[leaf] = found[: int(leaf.sum())]
        parts.root[self.start.state[at_corner]] = found[int(leaf.sum()) :]
        parts.root[self.start.state[~at_corner]] = number[first[~at_corner]] if n else 0
        parts.fill(number, step, graph.state[node], action, degree, symbol, following, target)


def first_bytes(sizes: Sizes, J: int, horizon: int, starts: int) -> int:
    """Memory of a new search, with `J` observations and so many first states."""
    M, S, A = sizes
    by_step = 8 * S * M * ((horizon + 1) * (M + 1) + (horizon // HOLD + 1) * M)
    return by_step + first_room(J, S, starts).bytes(M, S, A, horizon)


def _by_step(grid: BeliefGrid) -> Corners:
    """The corners' values as the kernels read them."""
    T, S, M = grid.upper.shape
    alpha = np.ascontiguousarray(grid.alpha.transpose(1, 2, 3, 0))
    return Corners(
        known=np.ascontiguousarray(grid.upper.transpose(1, 2, 0)),
        alpha=alpha.reshape(S * M, M, T),
        held=np.ascontiguousarray(grid.alpha[::HOLD].transpose(1, 0, 2, 3)),
    )
