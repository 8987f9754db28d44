"""Markov policies from below: coordinate ascent from several tables, then kicks."""

import math
import time
from collections.abc import Iterator

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.rows import sum_tolerance
from latentmdp.planning import baselines
from latentmdp.planning.budget import Budget
from latentmdp.planning.limits import Limits
from latentmdp.planning.markov.bound_tracker import BoundTracker, Stop
from latentmdp.planning.markov.coordinate_ascent import CoordinateAscent
from latentmdp.planning.markov.round_robin import Stage
from latentmdp.planning.markov.view import markov_view
from latentmdp.planning.settings import PlanningSettings


class PolicyRaiser(BoundTracker):
    """The bounds of a Markov plan, and the stages that find better policies."""

    known: Floats  # (H + 1, M, S) values of knowing the context
    known_action: Ints  # (H, M, S)
    ascent: CoordinateAscent

    def __init__(
        self,
        model: LatentMDP,
        limits: Limits,
        budget: Budget,
        settings: PlanningSettings,
        seed: int,
    ) -> None:
        self.model, self.view = model, markov_view(model)
        upper = model.max_return + sum_tolerance(model.H) * max(1.0, abs(model.max_return))
        scale = max(abs(model.min_return), abs(model.max_return))
        super().__init__(limits, budget, settings, upper, scale)
        first_choice = self.view.choice[self.view.choice_ptr[:-1]].astype(np.int64)
        self.table = np.empty((model.H, model.S), dtype=np.int64)
        self.table[:] = first_choice.reshape(self.view.steps, model.S)
        self.random = np.random.default_rng(np.random.SeedSequence(seed))
        self.nodes = model.H * model.S

    def begin(self, baseline: str, warm: Ints | None) -> None:
        """Both bounds for the first time: knowing the context, and a baseline."""
        if self.lacks(8 * self.nodes * (6 * self.view.M + 12)):
            self.begin_lean(baseline, warm)
            raise Stop("memory")
        self.known, self.known_action = baselines.context_values(self.model, self.check_clock)
        self.upper = float((self.view.start * self.known[0]).sum())
        self.scale = max(float(np.abs(self.known).max()), 1e-300)
        self.spend(self.view.backups)
        baselines.TABLES[baseline](self.model, self.table, self.check_clock)
        self.ascent = CoordinateAscent(self.view)
        begun = time.perf_counter()
        self.value_table(self.table.copy())
        seconds = time.perf_counter() - begun
        self.budget.kept_back = self.settings.evaluation_factor * seconds
        self.spend(self.view.backups)
        if warm is not None:
            self.value_table(warm)

    def begin_lean(self, baseline: str, warm: Ints | None) -> None:
        """Both bounds with values for a few steps at a time: what there is memory for."""
        known, context_table = baselines.context_start(self.model, self.check_clock)
        self.upper = float((self.view.start * known).sum())
        self.spend(self.view.backups)
        table = np.zeros_like(self.table)
        baselines.TABLES[baseline](self.model, table, self.check_clock)
        self.spend(self.view.backups)
        for candidate in (context_table, table, *([] if warm is None else [warm])):
            value = baselines.table_value_lean(self.model, candidate, self.check_clock)
            self.raise_lower(value, candidate)

    def value_table(self, table: Ints) -> None:
        """Keep the table if it is better than the best so far."""
        for value in self.ascent.value(table):
            if not math.isnan(value):
                self.raise_lower(value, table)
            self.check_clock()

    def check_clock(self) -> None:
        """Stop if the budget is used up."""
        if reason := self.budget.reason():
            raise Stop(reason)

    def climb_from_starts(self, warm: Ints | None) -> Stage:
        """Climb from the baselines' tables and those of single contexts."""
        for table in self._starts(warm):
            yield from self.climb(table)

    def climb(self, table: Ints, start: Floats | None = None, sweeps: int = 200) -> Stage:
        """Coordinate ascent in place."""
        at = self.view.start if start is None else start
        for value, swept in self.ascent.climb(table, at, sweeps):
            self.spend(swept * self.view.backups)
            if swept and start is None:
                self.raise_lower(value, table)
            yield

    def kick(self, most_failures: int) -> Stage:
        """Perturb the best policy and climb again, until so many kicks in a row gained nothing.

        More than a millionth is a gain. The kicks are, alternately, two sweeps with the contexts'
        weights blurred (which finds other routes), and random actions in a tenth of the places
        (which mends the route).
        """
        failures = 0
        while failures < most_failures:
            before, table = self.lower, self.table.copy()
            if failures % 2 == 0:
                yield from self._blur(table)
            else:
                self._shake(table, self.settings.shaken_share)
            yield from self.climb(table)
            failures = 0 if self.lower - before > 1e-6 * self.scale else failures + 1

    def restart(self) -> Stage:
        """One kick and one climb from random actions everywhere, which may find any policy."""
        table = self.table.copy()
        yield from self._blur(table)
        yield from self.climb(table)
        self._shake(table, 1.0)
        yield from self.climb(table)

    def _starts(self, warm: Ints | None) -> Iterator[Ints]:
        """Tables to climb from."""
        if warm is not None:
            yield warm.copy()
        yield self.table.copy()
        for name in ("mean", "qmdp"):
            table = np.zeros_like(self.table)
            baselines.TABLES[name](self.model, table, self.check_clock)
            yield table
        for m in np.argsort(-self.view.w, kind="stable")[:6]:
            yield self.known_action[:, m].copy()

    def _blur(self, table: Ints) -> Stage:
        """Two sweeps under other weights of the contexts."""
        normal = self.random.standard_normal((self.view.M, 1))
        blur = np.exp(self.settings.weight_blur * normal)
        yield from self.climb(table, self.view.start * blur, 2)

    def _shake(self, table: Ints, share: float) -> None:
        """Random actions in a share of the places."""
        hit = self.random.random(table.shape) < share
        first, width = self.view.choice_ptr[:-1], np.diff(self.view.choice_ptr)
        steps = self.view.steps
        pick = self.random.integers(0, width.reshape(steps, -1), table.shape)
        table[hit] = self.view.choice[first.reshape(steps, -1) + pick][hit]
