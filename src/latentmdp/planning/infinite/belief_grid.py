"""Belief grids without a last step: both bounds at the vertices.

Above, a value is right wherever the sweeps stop: they begin above the fixed point, and where every
value falls by at least `x` in a sweep, all later sweeps together take off at least
`x * discount / (1 - discount)` more, which is taken off at once (MacQueen and Porteus). Below, each
vertex has a controller node, made from nodes that were there before, down to the corners: a
context's own optimal policy.
"""

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.evaluation.discounted import discounted_values, values_in_context
from latentmdp.kernels.beliefs import ObservationModel
from latentmdp.kernels.planning.history_grid import BeliefGrid
from latentmdp.kernels.planning.infinite_grid import (
    NO_ROOM,
    NodeStore,
    make_controller_nodes,
    sweep_upper,
    take_from_coarser,
)
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.budget import StopCheck
from latentmdp.planning.history.belief_grid import link_grid
from latentmdp.planning.settings import SETTINGS, PlanningSettings
from latentmdp.policy.graph import PolicyGraph

Solved = tuple[Ints, Floats, int]  # by `known_contexts`


def known_contexts(
    model: LatentMDP, stop: StopCheck, settings: PlanningSettings = SETTINGS
) -> Solved:
    """Each context as a problem of its own: `(actions (M, S), values (M, S), work)`.

    Policy iteration, likely contexts first. Told to stop, it has any policies with their exact
    values; contexts after the first that it did not come to have the largest total as their value.
    `known_bound` makes a bound of any values.
    """
    M, S, A = model.sizes
    action = model.row_reward.reshape(M, S, A).argmax(axis=2)
    values, work = np.empty((M, S)), 0
    order = np.argsort(-model.w, kind="stable")
    for m in order:
        if m != order[0] and stop():
            values[m] = model.max_return
            continue
        first, end = model.indptr[m * S * A], model.indptr[(m + 1) * S * A]
        ptr = model.indptr[m * S * A : (m + 1) * S * A] - first
        prob, following = model.prob[first:end], model.next[first:end]
        reward = model.row_reward[m * S * A : (m + 1) * S * A]
        for _ in range(settings.infinite_corner_rounds):
            policy = PolicyGraph.from_table(action[m], stationary=True)
            own = values_in_context(model, policy, m)
            work += 1 + len(model.next) // settings.infinite_work_share
            values[m] = own
            q = (reward + model.discount * np.add.reduceat(prob * own[following], ptr)).reshape(
                S, A
            )
            now = q[np.arange(S), action[m]]
            better = q.max(axis=1) > now + 1e-13 * np.abs(q).max()
            if not better.any() or stop():
                break
            action[m] = np.where(better, q.argmax(axis=1), action[m])
    return action, values, work


def values_elsewhere(model: LatentMDP, action: Ints, stop: StopCheck) -> Floats:
    """`(M, M, S)` values of each context's own policy in all contexts, likely contexts first.

    Told to stop, the other contexts get the policy of the likeliest, also in `action (M, S)`.
    """
    values = np.empty((model.M, model.M, model.S))
    order = np.argsort(-model.w, kind="stable")
    for m in order:
        if m != order[0] and stop():
            action[m], values[m] = action[order[0]], values[order[0]]
        else:
            policy = PolicyGraph.from_table(action[m], stationary=True)
            values[m] = discounted_values(model, policy, variances=False)[0].T
    return values


class InfiniteGrid:
    """A grid, the nodes in force at its vertices, and what its making cost."""

    def __init__(
        self, observations: ObservationModel, S: int, grid: BeliefGrid, settings: PlanningSettings
    ) -> None:
        self.observations, self.S, self.settings = observations, S, settings
        V = len(grid.belief)
        self.grid: BeliefGrid = grid._replace(action=np.zeros((1, S, V), dtype=np.int32))
        self.node_at: Ints = np.zeros((S, V), dtype=np.int64)
        self.work, self.sweeps = 0, 0

    def _spend(self) -> None:
        self.sweeps += 1
        V, J = len(self.grid.belief), len(self.observations.next)
        self.work += V * J // self.settings.infinite_work_share + 1

    def bound(self, start: Floats, tolerance: float, stop: StopCheck) -> None:
        """Sweep the upper values down from `start (S, V)`, which must bound the optimum.

        Ends where all later sweeps together would take off less than `tolerance`, or where a sweep
        takes off no more than rounding error.
        """
        discount = self.observations.discount
        further = discount / (1.0 - discount)
        slack = self.settings.infinite_safety * max(float(np.abs(start).max()), 1e-300)
        old, new = start.copy(), np.empty_like(start)
        for sweep in range(self.settings.infinite_sweeps):
            least, most = sweep_upper(self.observations, self.grid, old, new)
            self._spend()
            if least > 2.0 * slack:
                new -= further * (least - 2.0 * slack)
                most -= least
            np.minimum(old, new + slack, out=old)
            if further * most <= tolerance or most <= 2.0 * slack or (sweep % 8 == 7 and stop()):
                break
        self.grid.upper[0] = old

    def improve(self, store: NodeStore, least_gain: float, room: int, stop: StopCheck) -> NodeStore:
        """Make new nodes at the vertices until none gains `least_gain`; the store may be larger."""
        self.grid.alpha[0] = store.alpha[self.node_at]
        sweep = 0
        while sweep < self.settings.infinite_sweeps:
            made = make_controller_nodes(
                self.observations, self.grid, self.node_at, store, least_gain, sweep % 2 == 1
            )
            self._spend()
            if made == NO_ROOM:
                if 2 * len(store.state) > room:
                    break
                store = enlarged(store)
            else:
                sweep += 1
                if made == 0 or stop():
                    break
        return store


def enlarged(store: NodeStore) -> NodeStore:
    """With twice the room."""
    parts = [np.concatenate([part, np.zeros_like(part)]) for part in store[1:]]
    return NodeStore(store.used, *parts)


def corner_grid(
    model: LatentMDP,
    observations: ObservationModel,
    solved: Solved,
    stop: StopCheck,
    settings: PlanningSettings = SETTINGS,
) -> tuple[InfiniteGrid, NodeStore] | None:
    """The coarsest grid: each context's own optimal policy in all contexts, and its value above.

    `solved` is of `known_contexts`, whose actions may change. The corner of context `m` in state
    `s` is node `m * S + s` of the store. None if `stop()` says so while a large grid is made.
    """
    M, S, A = model.sizes
    action, known, work = solved
    grid = link_grid(observations, 0, S, 1, stop, settings)
    if grid is None:
        return None
    values = values_elsewhere(model, action, stop)
    made = InfiniteGrid(observations, S, grid, settings)
    made.work = work
    width = int(np.diff(observations.ptr).max())
    room = max(settings.first_room, 2 * M * S)
    store = NodeStore(
        np.array([M * S]), np.zeros(room, dtype=np.int64), np.zeros(room, dtype=np.int64),
        np.zeros((room, width), dtype=np.int64), np.zeros((room, M)),
    )  # fmt: skip
    store.state[: M * S] = np.tile(np.arange(S), M)
    store.action[: M * S] = action.reshape(-1)
    store.alpha[: M * S] = values.transpose(0, 2, 1).reshape(M * S, M)
    ptr = observations.ptr.astype(np.int64)
    for m in range(M):
        mine = np.arange(m * S, (m + 1) * S)
        sa = np.arange(S) * A + store.action[mine]
        degree = ptr[sa + 1] - ptr[sa]
        i = np.arange(degree.sum()) - np.repeat(np.cumsum(degree) - degree, degree)
        after = observations.next[i + np.repeat(ptr[sa], degree)].astype(np.int64)
        store.successor[np.repeat(mine, degree), i] = m * S + after
    context = made.grid.belief.argmax(axis=1)  # of each vertex
    made.node_at[:] = context[None, :] * S + np.arange(S)[:, None]
    made.grid.alpha[0] = store.alpha[made.node_at]
    own = np.ascontiguousarray(known[context].T)  # (S, V)
    above = np.empty_like(own)
    sweep_upper(observations, made.grid, own, above)
    scale = max(float(np.abs(own).max()), 1e-300)
    # a context that is known stays known: backed up, no value of it rises above `own + excess`
    excess = np.maximum((above - own).max(axis=0), 0.0) + settings.infinite_safety * scale
    made.grid.upper[0] = own + excess / (1.0 - observations.discount)
    return made, store


def finer_grid(
    observations: ObservationModel,
    coarser: InfiniteGrid,
    N: int,
    tolerance: float,
    stop: StopCheck,
) -> InfiniteGrid | None:
    """The grid of resolution `N` with upper values, and nodes of a coarser one in force.

    None if `stop()` says so while a large grid is made.
    """
    grid = link_grid(observations, 0, coarser.S, N, stop, coarser.settings)
    if grid is None:
        return None
    made = InfiniteGrid(observations, coarser.S, grid, coarser.settings)
    start = np.empty_like(made.grid.upper[0])
    take_from_coarser(made.grid, coarser.grid, coarser.node_at, start, made.node_at)
    made.bound(start, tolerance, stop)
    return made
