"""The best stationary Markov policy where there is no last step, with bounds on *that class*.

One action per state, for all steps and contexts. From below: ascent from several tables, one state
at a time, then kicks. From above: knowing the context; policies with memory (hidden rewards); and
branch and bound, where some states have their action fixed and the rest of each context is on its
own. Work is counted in row backups.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.evaluation.discounted import discounted_reach, discounted_values
from latentmdp.kernels.planning.infinite_markov import tighten_known
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.baselines import known_bound, row_values
from latentmdp.planning.budget import Budget
from latentmdp.planning.driver import value_of
from latentmdp.planning.infinite.belief_grid import known_contexts
from latentmdp.planning.infinite.planner import plan_infinite
from latentmdp.planning.limits import Limits
from latentmdp.planning.markov.bound_tracker import BoundTracker, Stop
from latentmdp.planning.search_result import SearchResult
from latentmdp.planning.settings import SETTINGS, PlanningSettings
from latentmdp.policy.graph import PolicyGraph
from latentmdp.runtime.interrupts import interrupts_set

INFINITE_MARKOV_METHODS = ("auto", "ascent", "branch")


def plan_infinite_markov(
    model: LatentMDP,
    limits: Limits | None = None,
    settings: PlanningSettings = SETTINGS,
    *,
    method: str = "auto",
    warm: Ints | None = None,
    seed: int = 0,
    known: tuple[Ints, Floats] | None = None,
) -> SearchResult:
    """Plan over stationary Markov policies until `upper - lower <= gap * |upper|`.

    `method`: `ascent` finds a policy and bounds it by knowing the context; `auto` and `branch` go
    on to branch and bound. `warm (S,)` is a table of actions to start from; `known`: what
    `known_contexts` found before.
    """
    if method not in INFINITE_MARKOV_METHODS:
        names = ", ".join(INFINITE_MARKOV_METHODS)
        raise ModelError(
            f"method must be one of {names} for Markov policies where the horizon is infinite; it "
            f"is {method!r}"
        )
    limits = limits or Limits()
    budget = limits.budget()
    with interrupts_set(budget.interrupted):
        planner = _Planner(model, limits, budget, settings, seed)
        planner.solved = known
        return planner.run(method, warm)


def at_least_markov(
    model: LatentMDP,
    small: SearchResult,
    seconds: float | None,
    seed: int,
    settings: PlanningSettings = SETTINGS,
) -> SearchResult:
    """A small controller, or a Markov policy if that is better: it has one node per state.

    Cutting down is a local search and may end below it. `seconds` are left of the time limit.
    """
    if small.unrestricted is None or small.lower >= small.unrestricted:
        return small  # nothing was lost
    if small.status == "interrupted" or seconds == 0.0:
        return small
    limits = Limits(time=seconds, work=settings.small_table_work)
    table = plan_infinite_markov(model, limits, settings, method="ascent", seed=seed)
    if table.lower <= small.lower:
        return small
    return replace(
        small, policy=table.policy, lower=table.lower, upper=max(small.upper, table.lower),
        unrestricted=max(small.unrestricted, table.lower),
    )  # fmt: skip


class _Planner(BoundTracker):
    """`table (S,)` is the policy worth `lower`."""

    solved: tuple[Ints, Floats] | None = None  # each context on its own: actions, values (M, S)

    def __init__(
        self,
        model: LatentMDP,
        limits: Limits,
        budget: Budget,
        settings: PlanningSettings,
        seed: int,
    ) -> None:
        scale = max(abs(model.min_return), abs(model.max_return), 1e-300)
        upper = model.max_return + 1e-12 * scale
        super().__init__(limits, budget, settings, upper, scale)
        self.model, self.backups = model, model.M * model.S * model.A
        self.table = model.row_reward.reshape(model.M, model.S, model.A).mean(axis=0).argmax(axis=1)
        self.random = np.random.default_rng(np.random.SeedSequence(seed))
        self.method, self.nodes = "ascent", model.S

    @property
    def safety(self) -> float:
        """Added to bounds for rounding."""
        return self.settings.infinite_markov_safety * self.scale

    def run(self, method: str, warm: Ints | None) -> SearchResult:
        try:
            for table in self.starts(warm):
                self.climb(table)
            self.kick()
            if method != "ascent":
                self.allow_memory()
                self.branch()
            status = self.shortage or "stalled"
        except Stop as stop:
            status = str(stop)
        policy = PolicyGraph.from_table(self.table, stationary=True)
        self.lower = value_of(self.model, policy)
        self.upper = max(self.upper, self.lower)
        self.record()
        return SearchResult(
            policy, self.lower, self.upper, status, self.method, self.nodes, self.budget.work,
            self.log.history, self.solved,
        )  # fmt: skip

    # ------------------------------------------------------------------ from below

    def starts(self, warm: Ints | None) -> Iterator[Ints]:
        """Tables to climb from; on the way, what knowing the context is worth."""
        if warm is not None:
            yield np.asarray(warm).copy()
        yield self.table.copy()
        if self.solved is None:
            action, values, work = known_contexts(self.model, self.budget.reason, self.settings)
            self.spend(work)
            self.solved = action, values
        action, self.known = self.solved
        self.raise_known()
        self.check()
        for k in np.argsort(-self.model.w, kind="stable")[:8]:
            yield action[k].copy()

    def raise_known(self) -> None:
        """Make `known` a bound from above, and bound the class by it."""
        model = self.model
        self.known = known_bound(model, self.known, self.safety)
        self.cut_upper(float((model.w[:, None] * model.nu * self.known).sum()))

    def climb(self, table: Ints) -> None:
        """Ascent: switch all states that gain, or as many of the best as raise the value."""
        value, alpha, reach = self.evaluate(table)
        self.raise_lower(value, table)
        while True:
            self.check()
            gain = np.einsum("ms,msa->sa", reach.T, row_values(self.model, alpha.T))
            gain -= gain[np.arange(self.model.S), table][:, None]
            best = gain.argmax(axis=1)
            rise = gain.max(axis=1)
            order = np.argsort(-rise, kind="stable")
            many = int((rise > 1e-12 * self.scale).sum())
            while many:
                trial = table.copy()
                trial[order[:many]] = best[order[:many]]
                found = self.evaluate(trial)
                if found[0] > value + 1e-13 * self.scale:
                    table, (value, alpha, reach) = trial, found
                    self.raise_lower(value, table)
                    break
                many //= 2
            if not many:
                return

    def evaluate(self, table: Ints) -> tuple[float, Floats, Floats]:
        """`(value, alpha (S, M), reach (S, M))` of a table."""
        model, policy = self.model, PolicyGraph.from_table(table, stationary=True)
        alpha, _ = discounted_values(model, policy, variances=False)
        self.spend(4 * self.backups)
        value = float((model.w[:, None] * model.nu * alpha.T).sum())
        return value, alpha, discounted_reach(model, policy)

    def kick(self) -> None:
        """Random actions in some states of the best table, then climb; until that gains nothing."""
        failures = 0
        while failures < self.settings.kicks:
            before, table = self.lower, self.table.copy()
            share = max(self.settings.shaken_share, 1.5 / self.model.S)
            hit = self.random.random(self.model.S) < share
            table[hit] = self.random.integers(0, self.model.A, int(hit.sum()))
            self.climb(table)
            failures = 0 if self.lower > before + 1e-9 * self.scale else failures + 1

    # ------------------------------------------------------------------ from above

    def allow_memory(self) -> None:
        """Bound the class by policies with memory that do not see rewards."""
        self.method += "+memory"
        left = self.budget.left
        limits = Limits(
            self.settings.memory_gap, None if left is None else max(0.5 * left, 1e-3),
            self.memory_units(self.settings.memory_work), max(self.memory // 2, 1),
            self.end_memory,
        )  # fmt: skip
        hidden = self.model.replace(observe_rewards=False)
        found = plan_infinite(hidden, limits, self.settings)
        self.spend(found.work * self.settings.memory_unit)
        self.cut_upper(found.upper)
        self.check()

    def branch(self) -> None:
        """Best first: the branch with the largest bound fixes the action of one more state."""
        self.method += "+branch"
        model = self.model
        start = model.w[:, None] * model.nu
        weight = self._weights()
        fixed = np.full(model.S, -1, dtype=np.int64)
        open_branches = [(-float((start * self.known).sum()), 0, fixed, self.known)]
        count = 0
        most = min(self.settings.most_open, self.memory // (2 * 8 * (self.known.size + model.S)))
        while open_branches:
            bound, _, fixed, value = heapq.heappop(open_branches)
            self.cut_upper(max(-bound, self.lower))
            self.check()
            if -bound <= self.lower + self.rounding:
                break
            q = row_values(self.model, value)
            lost = np.einsum("ms,msa->sa", weight, q.max(axis=2)[:, :, None] - q)
            table = np.where(fixed >= 0, fixed, lost.argmin(axis=1))
            free = np.where(fixed < 0, lost.min(axis=1), -1.0)
            s = int(np.argmax(free))
            if count < self.settings.branch_tries or free[s] <= 1e-13 * self.scale:
                self.climb(table)
            if free[s] < 0.0:
                continue  # all is fixed: its table was climbed from
            for a in range(model.A):
                child, values = fixed.copy(), value.copy()
                child[s] = a
                sweeps = tighten_known(
                    model.indptr, model.next, model.prob, model.row_reward, model.A,
                    model.discount, child, self.safety, self.settings.bound_sweeps,
                    1e-4 * max(self.upper - self.lower, 1e-12 * self.scale)
                    * (1.0 - model.discount), values,
                )  # fmt: skip
                self.spend(sweeps * self.backups)
                count += 1
                self.nodes += 1
                high = min(-bound, float((start * values).sum()))
                if high > self.lower + self.rounding:
                    heapq.heappush(open_branches, (-high, count, child, values))
            if len(open_branches) > most:
                self.shortage = "memory"
                return
        self.cut_upper(self.lower + self.rounding)
        self.check()

    def _weights(self) -> Floats:
        """`(M, S)` discounted visits where each context has its own best policy."""
        model = self.model
        weight = np.empty_like(self.known)
        best = row_values(self.model, self.known).argmax(axis=2)
        for m in range(model.M):
            policy = PolicyGraph.from_table(best[m], stationary=True)
            weight[m] = discounted_reach(model, policy)[:, m]
        assert math.isfinite(float(weight.sum()))
        return np.maximum(weight, 1e-12 * weight.max())
