"""Simulate a policy graph in a known model: counts of whole blocks, or step by step; same law.

`Simulator` drives learning; `simulate_counts` and `simulate_episodes` are for people.
"""

from __future__ import annotations

import math
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.learning.counts import Counts
from latentmdp.policy import check_fits

if TYPE_CHECKING:
    from latentmdp.model import LatentMDP
    from latentmdp.policy import PolicyGraph

Array = np.ndarray[Any, np.dtype[Any]]

SIMULATORS = ("counts", "episodes")
MARGIN = 1.5  # standard deviations by which a block stays short of the expected trigger
PATIENCE = 2.0  # walk step by step as long as it costs about as much as a block
PICKED = 32  # episodes that may be picked out of a block one by one


class Simulator:
    """Episodes of one model under a policy that changes from time to time.

    `random` is the stream; its state and the counts are the whole state between phases.
    """

    def __init__(
        self,
        model: LatentMDP,
        random: np.random.Generator,
        kind: str = "counts",
        *,
        margin: float = MARGIN,
        patience: float = PATIENCE,
        picked: int = PICKED,
    ) -> None:
        if kind not in SIMULATORS:
            raise ModelError(f"simulator must be one of {', '.join(SIMULATORS)}; it is {kind!r}")
        from latentmdp.kernels import chain, count_simulation, step_simulation
        from latentmdp.kernels.flat import header_of
        from latentmdp.kernels.samplers import SCRATCH, address

        self._chains, self._blocks, self._steps = chain, count_simulation, step_simulation
        self.kind, self.margin, self.patience, self.picked = kind, margin, patience, picked
        self.random, self._bitgen, self._scratch = random, address(random), np.zeros(SCRATCH)
        self._room = self._scratch.ctypes.data
        self._model, self._law = prepare(model)
        self._model_header = header_of(self._model)
        self._model_at = self._model_header.ctypes.data
        self._cell_of = np.zeros(0, dtype=np.int64)
        self._skeleton: tuple[Array, ...] = ()  # of the policy that is played
        self._path = np.zeros((2, model.H), dtype=np.int64)
        self._changed = np.zeros(model.H, dtype=np.int64)
        self._allocate(1024, 4096)

    def _allocate(self, cells: int, edges: int) -> None:
        """Buffers for chains of this size; what they held is lost."""
        from latentmdp.kernels.flat import header_of

        rows, H = len(self._model.indptr) - 1, self._model.H

        def ints(*shape: int) -> Array:
            return np.zeros(shape, dtype=np.int64)

        self._chain = self._chains.Chain(
            cells, edges, ints(cells), ints(cells), np.zeros(cells), ints(cells + 1), ints(edges),
            np.zeros(rows), np.zeros(rows), ints(rows), ints(H + 1), ints(3), ints(cells),
            ints(rows), np.zeros(rows),
        )  # fmt: skip
        self._chain_header = header_of(self._chain)
        self._chain_at = self._chain_header.ctypes.data
        self._block = (
            ints(cells), ints(edges), ints(cells), ints(edges), ints(rows),
            ints(self.picked), ints(self.picked), ints(self.picked, H), ints(self.picked, H),
        )  # fmt: skip
        self._n_next: Array | None = None  # of the counts in the world

    def _world(self, counts: Counts) -> int:
        """Address of the world with these counts (laid out `for_model`)."""
        if counts.n_next is not self._n_next:
            from latentmdp.kernels.flat import header_of
            from latentmdp.kernels.world import World

            chain, start = self._chain, len(self._model.start_prob)
            self._n_next = counts.n_next
            parts: list[Any] = [self._model.H, start, self.picked, *self._law]
            parts += [chain.rate, chain.peak, self._model.indptr, chain.row, chain.first]
            parts += [chain.succ, chain.active, chain.layer, chain.size, *self._block]
            parts += [chain.visits, *self._path, counts.n, counts.n_next, counts.N, counts.N_next]
            parts += [self._changed]
            self._header = header_of(World(*parts))
            self._here = self._header.ctypes.data
        return self._here

    def play(self, policy: PolicyGraph) -> float:
        """Play this policy from now on; returns its exact value in the model."""
        kernels, graph = self._chains, self._graph_of(policy)
        while True:
            value = float(kernels.build_chain(self._model_at, graph, self._chain_at, self._cell_of))
            if not math.isnan(value):
                return value
            self._allocate(2 * self._chain.cells, 2 * self._chain.edges)

    def _graph_of(self, policy: PolicyGraph) -> int:
        """Address of the policy's arrays. All but the actions are the same for Markov policies."""
        skeleton = (
            policy.step, policy.state, policy.indptr, policy.symbol, policy.next, policy.node,
            policy.root, policy.default,
        )  # fmt: skip
        if len(skeleton) != len(self._skeleton) or not all(map(is_, skeleton, self._skeleton)):
            from latentmdp.kernels.flat import header_of

            arrays = [*map(np.ascontiguousarray, skeleton), policy.action.copy()]
            self._skeleton, self._graph = skeleton, self._chains.Graph(*arrays)
            self._graph_header = header_of(self._graph)
            self._graph_at = self._graph_header.ctypes.data
            cells = len(policy.step) * self._model.M
            if len(self._cell_of) < cells:
                self._cell_of = np.full(2 * cells, self._chains.END, dtype=np.int64)
        else:
            self._graph.action[:] = policy.action
        return self._graph_at

    def run(self, counts: Counts, episodes: int) -> tuple[int, bool]:
        """Simulate until a row's count becomes a power of two, at most `episodes`.

        Returns `(episodes simulated, triggered)`. The counts (laid out `for_model`) have all of
        them except a triggering one, which `replay` adds.
        """
        here = self._world(counts)
        if self.kind == "episodes":
            return self._steps.walk(here, self._bitgen, episodes)
        done, triggered, block = self._blocks.simulate_phase(
            here, self._bitgen, self._room, episodes, self.margin, self.patience
        )
        if block:
            done += self._blocks.find_crossing(here, self._bitgen, block)
        return done, triggered

    def replay(self, counts: Counts) -> Array:
        """Count the triggering episode in time order, with snapshots; the rows that changed."""
        return self._changed[: self._steps.replay(self._world(counts))].copy()

    def visits(self) -> tuple[Array, Array, Array]:
        """`(node, context, visits)` by cell, of this phase: the triggering episode is in it."""
        cells = self._chain.size[0]
        context = self._chain.row[:cells] // (self._model.S * self._model.A)
        return self._chain.node[:cells].copy(), context, self._chain.visits[:cells].copy()

    def path(self) -> tuple[Array, Array, Array]:
        """`(nodes, rows, outcomes)`, `(H,)` each, of the triggering episode."""
        cells, outcomes = self._path
        return self._chain.node[cells], self._chain.row[cells], outcomes.copy()


def prepare(model: LatentMDP) -> tuple[Any, tuple[Array, ...]]:
    """The model's arrays as kernels want them: `chain.Model`, and the law of a `World`."""
    from latentmdp.kernels.chain import Model

    weight = model.w[:, None] * model.nu
    context, state = np.nonzero(weight)
    start = weight[context, state]
    rows = Model(
        model.M, model.S, model.A, model.H, len(start), model.indptr, model.next, model.symbol,
        model.prob, np.array(model.row_reward), context.copy(), state.copy(), start,
    )  # fmt: skip
    whole = np.array([0, len(start)])
    return rows, (*_within(model.indptr, model.prob), *_within(whole, start))


def _within(indptr: Array, prob: Array) -> tuple[Array, Array]:
    """Within each row: sums up to an entry, and its share of what is left from it on."""
    length = np.diff(indptr)
    up, down = prob.copy(), prob.copy()
    for j in range(1, int(length.max())):
        i = indptr[:-1][length > j] + j
        up[i] += up[i - 1]
        i = indptr[1:][length > j] - 1 - j
        down[i] += down[i + 1]
    return up, prob / down


class Episodes(NamedTuple):
    """Trajectories of `K` episodes."""

    contexts: Array  # (K,)
    states: Array  # (K, H + 1)
    actions: Array  # (K, H)
    rewards: Array  # (K, H)


def simulate_episodes(
    model: LatentMDP, policy: PolicyGraph, episodes: int, seed: int = 0
) -> Episodes:
    """Sample whole trajectories, with the context that the agent learns in hindsight."""
    check_fits(model, policy)
    simulator = Simulator(model, np.random.default_rng(seed))
    simulator.play(policy)
    rows, outcomes = np.zeros((2, episodes, model.H), dtype=np.int64)
    here = simulator._world(Counts.for_model(model))
    simulator._steps.sample_episodes(here, simulator._bitgen, episodes, rows, outcomes)
    contexts, first = rows[:, 0] // (model.S * model.A), rows[:, :1] // model.A % model.S
    states = np.concatenate([first, model.next[outcomes]], axis=1)
    return Episodes(contexts, states, rows % model.A, model.reward[outcomes])


def simulate_counts(model: LatentMDP, policy: PolicyGraph, episodes: int, seed: int = 0) -> Counts:
    """The transition counts of `episodes` episodes under one policy, drawn at once.

    Exact in law; the cost does not depend on `episodes`.
    """
    check_fits(model, policy)
    simulator = Simulator(model, np.random.default_rng(seed))
    simulator.play(policy)
    counts = Counts.for_model(model)
    here = simulator._world(counts)
    simulator._blocks.simulate_block(here, simulator._bitgen, simulator._room, episodes)
    counts.snapshot_all()
    return counts
