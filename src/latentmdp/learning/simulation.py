"""Simulate a policy graph in a known model: counts of whole blocks, or step by step; same law.

`Simulator` drives learning; `simulate_counts` and `simulate_episodes` are for people.
"""

from __future__ import annotations

import math
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from latentmdp.csr import Array
from latentmdp.kernels import structs
from latentmdp.kernels.samplers import SCRATCH, address
from latentmdp.kernels.simulation import steps as step_simulation
from latentmdp.kernels.simulation.chain import build_chain
from latentmdp.kernels.simulation.counts import simulate_block, simulate_phase
from latentmdp.model.counts import Counts
from latentmdp.model.horizons import needs_finite
from latentmdp.policy.graph import as_policy
from latentmdp.policy.time_augmented import in_time_augmented

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.policy.graph import PolicyGraph


MARGIN = 1.5  # standard deviations by which a block stays short of the expected trigger
STEPS_PER_EDGE = 2.0  # a block costs its edges: walk step by step if there are not many more steps
PICKED = 32  # episodes that may be picked out of a block one by one
EMPTY = np.zeros(0, dtype=np.int64)

_skeleton_of = attrgetter("step", "state", "indptr", "symbol", "next", "node", "root", "default")


def _ints(*shape: int) -> Array:
    return np.zeros(shape, dtype=np.int64)


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
        steps_per_edge: float = STEPS_PER_EDGE,
        picked: int = PICKED,
    ) -> None:
        needs_finite(model, "simulating whole episodes")
        self.kind, self.random = kind, random
        self.margin, self.steps_per_edge = margin, steps_per_edge
        self._skeleton: tuple[Array, ...] = (EMPTY,) * 8  # of the policy that is played
        rows, H = model.M * model.S * model.A, model.H
        self._set_world(
            structs.World(
                model_rows(model),
                structs.PolicyNodes(*self._skeleton, _ints(0, 0)),
                cell_of=_ints(0, 0),
                counts=structs.RowCounts(EMPTY, EMPTY, EMPTY, EMPTY),
                gain=_ints(rows),
                picked=structs.Picked(
                    _ints(picked), _ints(picked), _ints(picked, H), _ints(picked, H)
                ),
                path_cells=_ints(H),
                path_outcomes=_ints(H),
                changed=_ints(H),
                bitgen=address(random),
                scratch=np.zeros(SCRATCH),
                **self._room(1024, 4096, rows, H),
            )
        )

    def _room(self, cells: int, edges: int, rows: int, H: int) -> dict[str, Any]:
        """Parts of a world, with room for a chain of this size."""
        chain = structs.Chain(
            size=_ints(3), row=_ints(cells), node=_ints(cells), reach=np.zeros(cells),
            visits=_ints(cells), first=_ints(cells + 1), succ=_ints(edges), layer=_ints(H + 1),
            active=_ints(rows), rate=np.zeros(rows), peak=np.zeros(rows),
        )  # fmt: skip
        block, half = (structs.Block(_ints(cells), _ints(edges)) for _ in range(2))
        return {"chain": chain, "block": block, "half": half}

    def _set_world(self, world: structs.World) -> None:
        self.world, self._packed = world, structs.pack_world(world)

    def _world_with(self, counts: Counts) -> Any:
        """The world with these counts (laid out `for_model`), as kernels take it."""
        if counts.n_next is not self.world.counts.n_next:
            arrays = structs.RowCounts(counts.n, counts.n_next, counts.N, counts.N_next)
            self._set_world(self.world._replace(counts=arrays))
        return self._packed

    def play(self, policy: PolicyGraph) -> float:
        """Play this policy from now on; returns its exact value in the model."""
        self._set_policy(policy)
        while True:
            value = float(build_chain(self._packed))
            if not math.isnan(value):
                return value
            model, chain = self.world.model, self.world.chain
            room = self._room(2 * chain.row.size, 2 * chain.succ.size, chain.rate.size, model.H)
            self._set_world(self.world._replace(**room))

    def _set_policy(self, policy: PolicyGraph) -> None:
        """Copy a policy into the world; Markov policies share all arrays but their actions."""
        skeleton = _skeleton_of(policy)
        if all(map(is_, skeleton, self._skeleton)):
            self.world.policy.action[:] = policy.action
            return
        self._skeleton = skeleton
        fields = structs.PolicyNodes._fields
        arrays = (np.array(getattr(policy, name), order="C") for name in fields)
        nodes, cell_of = structs.PolicyNodes(*arrays), _ints(policy.N, self.world.model.M)
        self._set_world(self.world._replace(policy=nodes, cell_of=cell_of))

    def run(self, counts: Counts, episodes: int) -> tuple[int, bool]:
        """Simulate until a row's count becomes a power of two, at most `episodes`.

        Returns `(episodes simulated, triggered)`. The counts (laid out `for_model`) have all of
        them except a triggering one, which `replay` adds.
        """
        world = self._world_with(counts)
        if self.kind == "episodes":
            return step_simulation.walk(world, episodes)
        return simulate_phase(world, episodes, self.margin, self.steps_per_edge)

    def replay(self, counts: Counts) -> Array:
        """Count the triggering episode in time order, with snapshots; the rows that changed."""
        changed = step_simulation.replay(self._world_with(counts))
        return self.world.changed[:changed].copy()

    def run_block(self, counts: Counts, episodes: int) -> None:
        """Count `episodes` episodes at once, also where a count passes a power of two."""
        simulate_block(self._world_with(counts), episodes)

    def sample(self, episodes: int) -> tuple[Array, Array]:
        """`(rows, outcomes)`, `(episodes, H)` each, of whole trajectories; nothing is counted."""
        cells, outcomes = np.zeros((2, episodes, self.world.model.H), dtype=np.int64)
        step_simulation.sample_episodes(self._packed, cells, outcomes)
        return self.world.chain.row[cells], outcomes

    def visits(self) -> tuple[Array, Array, Array]:
        """`(node, context, visits)` by cell, of this phase: the triggering episode is in it."""
        chain = self.world.chain
        cells = chain.size[structs.CELLS]
        context = chain.row[:cells] // (self.world.model.S * self.world.model.A)
        return chain.node[:cells].copy(), context, chain.visits[:cells].copy()

    def path(self) -> tuple[Array, Array, Array]:
        """`(nodes, rows, outcomes)`, `(H,)` each, of the triggering episode."""
        chain, cells = self.world.chain, self.world.path_cells
        return chain.node[cells], chain.row[cells], self.world.path_outcomes.copy()


def model_rows(model: LatentMDP) -> structs.ModelRows:
    """The model as kernels take it: copies, since read-only arrays would be compiled once more."""
    weight = model.w[:, None] * model.nu
    context, state = np.nonzero(weight)
    start = weight[context, state]
    cumulative, conditional = _within(model.indptr, model.prob)
    start_cumulative, start_conditional = _within(np.array([0, len(start)]), start)
    return structs.ModelRows(
        model.M, model.S, model.A, model.H,
        np.array(model.indptr), np.array(model.next), np.array(model.symbol), np.array(model.prob),
        cumulative, conditional, np.array(model.row_reward),
        context.copy(), state.copy(), start, start_cumulative, start_conditional,
    )  # fmt: skip


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
    S = model.S
    model, policy = _as_simulated(model, policy)
    simulator = Simulator(model, np.random.default_rng(seed))
    simulator.play(policy)
    rows, outcomes = simulator.sample(episodes)
    contexts, first = rows[:, 0] // (model.S * model.A), rows[:, :1] // model.A % model.S
    states = np.concatenate([first, model.next[outcomes]], axis=1) % S
    return Episodes(contexts, states, rows % model.A, model.reward[outcomes])


def _as_simulated(model: LatentMDP, policy: PolicyGraph) -> tuple[LatentMDP, PolicyGraph]:
    """The model with the step in its state where it depends on the step, and the policy there."""
    policy = as_policy(model, policy)
    if not model.changes_with_step:
        return model, policy
    return model.time_augmented(), in_time_augmented(model, policy)


def simulate_counts(model: LatentMDP, policy: PolicyGraph, episodes: int, seed: int = 0) -> Counts:
    """The transition counts of `episodes` episodes under one policy, drawn at once.

    Exact in law; the cost does not depend on `episodes`. Of a step-dependent model, those of its
    time-augmented one. With several rewards per next state they are counted apart, by outcome.
    """
    model, policy = _as_simulated(model, policy)
    simulator = Simulator(model, np.random.default_rng(seed))
    simulator.play(policy)
    counts = Counts.for_model(model)
    simulator.run_block(counts, episodes)
    counts.snapshot_all()
    return counts
