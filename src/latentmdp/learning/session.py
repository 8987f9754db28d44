"""A learner and a simulated world, advanced phase by phase: what `learn` and its checkpoints run.

A phase is a stretch of episodes under one policy; it ends with the episode that triggers an update.
Within it nothing is sampled that can be computed: the policy's value in the true model is exact.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from latentmdp.csr import Array
from latentmdp.learning.learner import Learner
from latentmdp.learning.saved.checks import checked_run
from latentmdp.learning.saved.state import State, generator_state, restore_generator
from latentmdp.learning.simulation import Simulator
from latentmdp.learning.spec import RunSpec
from latentmdp.model.counts import Counts
from latentmdp.optimism.settings import SEARCH, SearchEffort

if TYPE_CHECKING:
    from latentmdp.learning.solvers import Answer
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.policy.graph import PolicyGraph


COLUMNS = ("episode", "length", "value", "optimistic_value", "planner_gap", "updates", "kept")
WHOLE_COLUMNS = ("episode", "length", "updates", "kept")
EPISODES_PER_CALL = 10**6  # of the step simulator, so that it can be interrupted


@dataclass(frozen=True)
class Phase:
    """One finished phase, before its last episode is counted; for observers such as an audit.

    `counts.N, N_next` are the snapshot in force during the phase; `counts` is the session's own and
    goes on changing (`kept` copies it).
    """

    episode: int  # the first one, from 1
    length: int
    value: float  # of the policy in the true model
    optimistic_value: float
    upper: float
    triggered: bool  # False for the last phase of a run, and where a policy is drawn every episode
    policy: PolicyGraph
    counts: Counts
    visits: tuple[Array, Array, Array]  # (node, context, visits) of all its episodes, by cell
    path: tuple[Array, Array, Array] | None  # (nodes, rows, outcomes) of the triggering episode

    def kept(self) -> Phase:
        """A copy that stays valid."""
        return replace(self, counts=self.counts.copy())


Observer = Callable[[Phase], None]


class Session:
    """A run under way; `next_phase` until `done == spec.episodes`. Its state is plain data."""

    def __init__(
        self,
        model: LatentMDP,
        spec: RunSpec,
        oracle: Answer | None = None,
        settings: SearchEffort = SEARCH,
    ) -> None:
        simulation, solver = np.random.SeedSequence(spec.seed).spawn(2)
        started = time.perf_counter()
        counts = Counts.for_model(model)
        learner = Learner(
            model, **spec.for_learner(), seed=solver, counts=counts, oracle=oracle,
            settings=settings,
        )  # fmt: skip
        self.seconds = {"planning": time.perf_counter() - started, "simulation": 0.0}
        self._set_up(model, spec, learner, np.random.default_rng(simulation))
        self.rows: list[tuple[float, ...]] = []  # of the table: `COLUMNS` by phase
        self.targets = [spec.episodes]  # where the run is to stop; `extend` adds one
        self.done, self.pending = 0, 0  # episodes of finished phases; of one that was stopped
        self.stayed = False  # whether the last update left the policy in force

    @property
    def target(self) -> int:
        """Episodes to play in all."""
        return self.targets[-1]

    def extend(self, episodes: int) -> None:
        """Ask for this many more episodes."""
        target = self.target + int(episodes)
        replace(self.spec, episodes=target).check_algorithm()  # refuses too many
        self.targets.append(target)

    def _set_up(
        self, model: LatentMDP, spec: RunSpec, learner: Learner, random: np.random.Generator
    ) -> None:
        self.model, self.spec, self.learner = model, spec, learner
        self.simulator = Simulator(model, random, spec.simulator)
        self.value = self.simulator.play(learner.policy)

    def next_phase(
        self, observer: Observer | None = None, stop: Callable[[], object] | None = None
    ) -> None:
        """Simulate until the next update (or the last episode), then let the learner update.

        `stop` is asked now and then in a long phase of the step simulator; where it says so, the
        phase is left unfinished, to be continued by the next call.
        """
        learner, clock = self.learner, time.perf_counter
        first, length, triggered = self.done + 1, self.pending, False
        started = clock()
        left = self.target - self.done - length
        every_episode = self.spec.every_episode
        left = min(left, 1) if every_episode else left
        while left > 0 and not triggered:
            if stop is not None and stop():
                self.pending = length
                self.seconds["simulation"] += clock() - started
                return
            budget = left if self.spec.simulator == "counts" else min(left, EPISODES_PER_CALL)
            k, triggered = self.simulator.run(learner.counts, budget)
            assert 0 < k <= budget, f"the simulator must play 1 to {budget} episodes, not {k}"
            length += k
            left -= k
        assert triggered or first > 1, "the very first episode is a first visit: an update"
        self.done, self.pending = self.done + length, 0
        self._record(first, length, triggered or every_episode)
        if observer is not None:
            observer(self._phase(first, length, triggered))
        if not triggered and not every_episode:
            self.seconds["simulation"] += clock() - started
            return
        changed = np.zeros(0, dtype=np.int64)
        if triggered:
            changed = self.simulator.replay(learner.counts)  # Alg. 1, l. 11 to 16
        learner.episode = self.done + 1
        planning = clock()
        self.stayed = learner.update(changed)  # l. 18
        planned = clock()
        if not self.stayed or not triggered:
            self.value = self.simulator.play(learner.policy)
        self.seconds["planning"] += planned - planning
        self.seconds["simulation"] += clock() - planned + planning - started

    def _record(self, first: int, length: int, updated: bool) -> None:
        learner = self.learner
        gap = learner.upper - learner.optimistic_value
        updates, kept = learner.updates + updated, int(self.stayed)
        self.rows.append((first, length, self.value, learner.optimistic_value, gap, updates, kept))

    def _phase(self, first: int, length: int, triggered: bool) -> Phase:
        learner, simulator = self.learner, self.simulator
        return Phase(
            first, length, self.value, learner.optimistic_value, learner.upper, triggered,
            learner.policy, learner.counts, simulator.visits(),
            simulator.path() if triggered else None,
        )  # fmt: skip

    # ------------------------------------------------------------------ plain data

    def table(self) -> dict[str, Array]:
        """The columns so far, as arrays `(phases,)`."""
        kinds = {name: np.int64 if name in WHOLE_COLUMNS else np.float64 for name in COLUMNS}
        return {
            name: np.array([row[i] for row in self.rows], dtype=kind)
            for i, (name, kind) in enumerate(kinds.items())
        }

    def state(self) -> State:
        """Everything that the future and the table depend on."""
        return {
            "kind": "run",
            "spec": asdict(self.spec),
            "learner": self.learner.state(),
            "simulation": generator_state(self.simulator.random),
            "table": self.table(),
            "targets": list(self.targets),
            "done": self.done,
            "pending": self.pending,
            "stayed": self.stayed,
            "seconds": dict(self.seconds),
        }

    @classmethod
    def from_state(cls, model: LatentMDP, state: State) -> Session:
        """Inverse of `state`: continues to the same bits. What a run cannot hold is refused."""
        state = checked_run(state, model)
        self = cls.__new__(cls)
        learner = Learner.from_state(state["learner"])
        self._set_up(
            model, RunSpec(**state["spec"]), learner, restore_generator(state["simulation"])
        )
        columns = (state["table"][name].tolist() for name in COLUMNS)
        self.rows = list(zip(*columns, strict=True))
        self.targets, self.done = list(state["targets"]), state["done"]
        self.pending, self.stayed = state["pending"], state["stayed"]
        self.seconds = dict(state["seconds"])
        return self
