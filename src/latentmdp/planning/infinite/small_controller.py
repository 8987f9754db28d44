"""Controllers of few nodes: cut from a large one, then improved node by node.

The likeliest nodes of the large controller are kept and the others' visitors sent to the next best.
Then nodes are taken out, those first whose loss is least, and all that are left improved in turn;
each change is valued exactly. No proof of optimality: what is certain is the controller's own value
and so what it loses against the large one.
"""

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.evaluation.discounted import discounted_reach, discounted_values
from latentmdp.kernels.beliefs import ObservationModel
from latentmdp.kernels.planning.controller_ascent import (
    SmallController,
    ascend,
    removal_losses,
    remove_node,
    solve_all,
)
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.history.observations import Start, observation_model, start_beliefs
from latentmdp.planning.settings import SETTINGS, PlanningSettings
from latentmdp.policy.graph import PolicyGraph

InTime = Callable[[float], bool]  # whether there is time for a step of so many seconds


def check_max_nodes(max_nodes: Any, model: LatentMDP) -> int:
    """The number of nodes as a whole number that is large enough, or a sentence."""
    whole = isinstance(max_nodes, (int, np.integer)) and not isinstance(max_nodes, bool)
    if not whole or max_nodes < model.S:
        raise ModelError(
            f"max_nodes must be a whole number of at least {model.S}, one node for each state; it "
            f"is {max_nodes!r}"
        )
    return int(max_nodes)


def small_controller(
    model: LatentMDP,
    policy: PolicyGraph,
    max_nodes: int,
    in_time: InTime,
    settings: PlanningSettings = SETTINGS,
) -> PolicyGraph:
    """A controller of at most `max_nodes` nodes, the best one found; `policy` if it is that small.

    Where there is no time for more, the likeliest nodes are kept as they are.
    """
    if max_nodes >= policy.N:
        return policy
    large = _Large(model, policy)
    many = max_nodes > int((settings.small_most_solved / model.M) ** 0.5)  # to improve one by one
    if many or not in_time(0.0):
        return _Small(large, large.likeliest(max_nodes), settings, solved=False).graph()
    most = max(max_nodes, int((settings.small_most_dense / model.M) ** 0.5))
    best, best_value = None, -np.inf
    for surplus, factor in itertools.product(settings.small_surplus, settings.small_factors):
        target = int(surplus * max_nodes)  # merging may leave fewer
        size = min(factor * target, most, policy.N)
        if size < target or (best is not None and not in_time(0.0)):
            continue
        small = _Small(large, large.likeliest(size), settings)
        if not small.shrink(target, in_time):
            break
        graph = small.graph().prune(model).merge()
        if max_nodes >= graph.N and small.value > best_value:
            best, best_value = graph, small.value
    assert best is not None
    return best


class _Large:
    """The controller to cut from, with its values and visits."""

    def __init__(self, model: LatentMDP, policy: PolicyGraph) -> None:
        self.model, self.policy = model, policy
        self.observations: ObservationModel = observation_model(model)
        self.start: Start = start_beliefs(model)
        self.alpha = discounted_values(model, policy, variances=False)[0]
        self.reach = discounted_reach(model, policy)

    def likeliest(self, size: int) -> Ints:
        """So many nodes, by visits; at least one of each state."""
        visits, state = self.reach.sum(axis=1), self.policy.state
        order = np.argsort(-visits, kind="stable")
        _, first = np.unique(state[order], return_index=True)
        needed = order[first]
        rest = order[~np.isin(order, needed)]
        return np.sort(np.concatenate([needed, rest[: max(size - len(needed), 0)]]))


class _Small:
    """Some nodes of a large controller that lead to one another alone."""

    def __init__(
        self, large: _Large, kept: Ints, settings: PlanningSettings, solved: bool = True
    ) -> None:
        self.large, self.observations, self.start = large, large.observations, large.start
        self.model, self.settings = large.model, settings
        policy, M, n = large.policy, self.model.M, len(kept)
        self.weight = self.start.prob[:, None] * self.start.belief  # (starts, M)
        state, action = policy.state[kept], policy.action[kept]
        place = np.full(policy.N, -1, dtype=np.int64)
        place[kept] = np.arange(n)
        near = [np.flatnonzero(state == s) for s in range(self.model.S)]
        root = np.empty(len(self.start.state), dtype=np.int64)
        for i, first in enumerate(self.start.state):
            root[i] = place[policy.root[first]]
            if root[i] < 0:
                values = large.alpha[kept[near[first]]] @ self.weight[i]
                root[i] = near[first][np.argmax(values)]
        size = n if solved else 0
        self.c = SmallController(
            state, action.copy(), self._successors(kept, place, near),
            np.ones(n, dtype=np.int64), root, np.empty((M, size, size)),
            large.alpha[kept], large.reach[kept],
        )  # fmt: skip
        if solved:
            self.refresh()

    def _successors(self, kept: Ints, place: Ints, near: list[Ints]) -> Ints:
        """`(n, W)`; who led to a node that is gone goes to the best that is left."""
        large, observations = self.large, self.observations
        policy, ptr = large.policy, observations.ptr.astype(np.int64)
        sa = policy.state[kept] * self.model.A + policy.action[kept]
        degree = ptr[sa + 1] - ptr[sa]
        owner = np.repeat(np.arange(len(kept)), degree)
        column = np.arange(len(owner)) - np.repeat(np.cumsum(degree) - degree, degree)
        o = column + np.repeat(ptr[sa], degree)
        following = observations.next[o].astype(np.int64)
        to = place[policy.successors(kept[owner], observations.symbol[o], following)]
        for e in np.flatnonzero(to < 0):
            likelihood = observations.likelihood[o[e]]
            weight = large.reach[kept[owner[e]]] * likelihood
            weight = weight if weight.any() else likelihood
            some = near[following[e]]
            to[e] = some[np.argmax(large.alpha[kept[some]] @ weight)]
        successor = np.zeros((len(kept), int(np.diff(ptr).max())), dtype=np.int64)
        successor[owner, column] = to
        return successor

    def refresh(self) -> None:
        """Leave out what was removed and solve anew: updates add up rounding errors."""
        c = self.c
        live = np.flatnonzero(c.alive)
        n, M = len(live), self.model.M
        if n < len(c.alive):
            place = np.zeros(len(c.alive), dtype=np.int64)
            place[live] = np.arange(n)
            c = self.c = SmallController(
                c.state[live], c.action[live], place[c.successor[live]],
                np.ones(n, dtype=np.int64), place[c.root], np.empty((M, n, n)), np.empty((n, M)),
                np.empty((n, M)),
            )  # fmt: skip
        begun = np.zeros((n, M))
        np.add.at(begun, c.root, self.weight)
        solve_all(self.observations, c, self.model.S, begun)
        np.maximum(c.reach, 0.0, out=c.reach)

    @property
    def value(self) -> float:
        """Of the controller."""
        return float((self.c.alpha[self.c.root] * self.weight).sum())

    def improve(self, sweeps: int) -> None:
        tolerance = self.settings.small_gain * max(abs(self.value), 1e-300)
        if ascend(self.observations, self.c, self.model.S, tolerance, sweeps):
            self.refresh()

    def shrink(self, max_nodes: int, in_time: InTime) -> bool:
        """Take out nodes until so many are left, and improve them; False: no time for it."""
        batch = max(1, (int(self.c.alive.sum()) - max_nodes) // self.settings.small_batches)
        if in_time(0.0):
            self.improve(3)
        longest = 0.0
        while (excess := int(self.c.alive.sum()) - max_nodes) > 0:
            if not in_time(longest):
                return False
            begun = time.perf_counter()
            loss: Floats = np.empty(len(self.c.state))
            for _ in range(min(batch, excess)):
                removal_losses(self.observations, self.c, self.model.S, self.weight, loss)
                gone = int(np.argmin(loss))
                remove_node(self.observations, self.c, self.model.S, self.weight, gone)
            self.refresh()
            self.improve(1)
            longest = max(longest, time.perf_counter() - begun)
        longest = 0.0
        while in_time(longest):
            begun, before = time.perf_counter(), self.value
            self.improve(self.settings.small_sweeps // 10)
            if self.value <= before + self.settings.small_gain * abs(before):
                break
            longest = max(longest, time.perf_counter() - begun)
        return True

    def graph(self) -> PolicyGraph:
        """As a policy; the default node of a state is its likeliest."""
        c, ptr = self.c, self.observations.ptr.astype(np.int64)
        live = np.flatnonzero(c.alive)
        place = np.full(len(c.alive), -1, dtype=np.int64)
        place[live] = np.arange(len(live))
        state, sa = c.state[live], c.state[live] * self.model.A + c.action[live]
        degree = ptr[sa + 1] - ptr[sa]
        o = np.arange(degree.sum()) - np.repeat(np.cumsum(degree) - degree, degree)
        node = place[c.successor[np.repeat(live, degree), o]]
        o += np.repeat(ptr[sa], degree)
        visits = c.reach[live].sum(axis=1)
        default = np.array(
            [np.argmax(np.where(state == s, visits, -1.0)) for s in range(self.model.S)]
        )
        root = default.copy()
        root[self.start.state] = place[c.root]
        return PolicyGraph.from_arrays(
            np.zeros(len(live), dtype=np.int64), state, c.action[live],
            np.concatenate([[0], np.cumsum(degree)]), self.observations.symbol[o],
            self.observations.next[o].astype(np.int64), node, root, default[None], stationary=True,
        )  # fmt: skip
