"""Optimistic planning in the Markov class: the best table `(H, S)` for an optimistic model.

`MarkovPlanner` keeps everything between plans: coefficients are refreshed for changed rows only, the bound for
their contexts only, and the search starts from the policy in force.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.learning.counts import Counts
from latentmdp.optimism.confidence import Rule, Setting
from latentmdp.optimism.model import Known, OptimisticModel


class Effort(NamedTuple):
    """How hard to search. Kicks cost a few sweeps each; checked passes many on large models."""

    passes: int  # checked passes per polish
    every: bool  # try every switch, not only those the derivative likes
    tilts: int  # kicks by other weights
    jolts: int  # kicks by random actions

    @classmethod
    def for_size(cls, nodes: int, A: int, M: int) -> "Effort":
        """Everything on tiny models; two kicks with plain sweeps on large ones."""
        work = nodes * A * M
        if work <= 400:
            return cls(20, True, 10, 20)
        if work <= 3000:
            return cls(2, False, 4, 0)
        return cls(0, False, 2, 0)


@dataclass
class OptimisticResult:
    """One plan: the policy, its optimistic value, and a certified bound on the class's optimum."""

    table: Ints  # (H, S) actions of the default nodes; in the Markov class the whole policy
    optimistic_value: float
    upper: float
    kept: bool  # the policy in force stays


class Kicks:
    """Random perturbations, from a stream of their own (saved with the learner)."""

    def __init__(self, rng: np.random.Generator, M: int, A: int) -> None:
        self.rng, self.M, self.A = rng, M, A

    def draw(self, effort: Effort, nodes: int) -> tuple[Floats, Floats, Ints]:
        """`tilt (n, M)`, `look (n,)`, `jolt (k, nodes)` for the search kernel."""
        rng = self.rng
        tilt = np.exp(1.5 * rng.standard_normal((effort.tilts, self.M)))
        look = rng.choice(np.array([0.0, 0.3, 1.0]), effort.tilts)
        if effort.jolts == 0:
            return tilt, look, np.zeros((0, nodes), dtype=np.int64)
        hit = rng.random((effort.jolts, nodes)) < 0.4
        return tilt, look, np.where(hit, rng.integers(0, self.A, (effort.jolts, nodes)), -1)


class MarkovSearch:
    """An optimistic model in its arena, with the current best table. `O(H M S A)` memory."""

    def __init__(self, model: OptimisticModel) -> None:
        from latentmdp.kernels.optimistic_arena import make_arena

        known = model.known
        self.known = known
        sizes = (known.M, known.S, known.A, known.H)
        x = make_arena(model.kind == "interval", model.cap, sizes, len(model.next))
        rows, slots = len(model.coef), len(model.next)
        x.T[: rows + 1] = model.indptr
        x.T[x.next : x.next + slots] = model.next
        x.T[x.obs : x.obs + slots] = model.next
        x.P[x.root : x.root + known.M * known.S] = known.root.ravel()
        slot = x.P[: 4 * slots].reshape(slots, 4)
        coef = x.P[x.coef : x.coef + 5 * rows].reshape(rows, 5)
        slot[:], coef[:] = model.slot, model.coef
        # the model's arrays become views into the arena, so that refreshing it is enough
        self.model = OptimisticModel(
            model.kind, model.cap, known, model.indptr, model.next, model.symbol,
            model.count_slot, slot, coef,
        )  # fmt: skip
        self.arena = x
        self.table = x.I[x.policy : x.policy + known.H * known.S].reshape(known.H, known.S)
        self.upper = np.inf

    def bound(self, contexts: Ints | range | None = None) -> float:
        """Certified bound on the class's optimum; only these contexts are recomputed."""
        from latentmdp.kernels.optimistic_sweep import context_known, root_bound

        for m in range(self.known.M) if contexts is None else contexts:
            context_known(self.arena, m)
        self.upper = root_bound(self.arena)
        return self.upper

    def evaluate(self, table: Ints | None = None) -> float:
        """Exact optimistic value of a table (default: the current one)."""
        from latentmdp.kernels.optimistic_sweep import evaluate_policy

        x = self.arena
        if table is None:
            return evaluate_policy(x, x.policy, 0)
        x.I[x.kicked : x.kicked + table.size] = table.ravel()
        return evaluate_policy(x, x.kicked, 0)

    def search(self, effort: Effort, kicks: tuple[Floats, Floats, Ints]) -> float:
        """Improve the current table; returns its optimistic value. `bound` comes first."""
        from latentmdp.kernels.optimistic_sweep import search

        return search(self.arena, self.upper, effort.passes, effort.every, *kicks)


class MarkovPlanner:
    """Plans again and again as counts grow; see `plan.make_planner`."""

    def __init__(
        self, known: Known, rule: Rule, setting: Setting, seed: np.random.SeedSequence
    ) -> None:
        self.known, self.rule, self.setting = known, rule, setting
        kick_seed, rule_seed = seed.spawn(2)
        self.kicks = Kicks(np.random.default_rng(kick_seed), known.M, known.A)
        self.rng = np.random.default_rng(rule_seed)
        self.effort = Effort.for_size(known.H * known.S, known.A, known.M)
        self.found: MarkovSearch | None = None
        self.version = -1

    def prepare(self, counts: Counts, changed: Ints | None) -> MarkovSearch:
        """Coefficients and bound up to date; only `changed` rows if the layout is the same."""
        found = self.found
        if found is None or self.version != counts.version or changed is None:
            model = OptimisticModel.of(self.known, counts, self.rule, self.setting, self.rng)
            fresh = MarkovSearch(model)
            if found is not None:
                fresh.table[:] = found.table
            self.found, self.version = fresh, counts.version
            fresh.bound()
            return fresh
        if self.rule.random:
            changed = np.arange(counts.rows)
        found.model.refresh(counts, changed, self.rule, self.setting, self.rng)
        found.bound(np.unique(changed // (self.known.S * self.known.A)))
        return found

    def replan(self, counts: Counts, changed: Ints | None = None) -> OptimisticResult:
        """The best table found for these counts, starting from the last one."""
        found = self.prepare(counts, changed)
        before = found.table.copy()
        kicks = self.kicks.draw(self.effort, found.arena.N)
        value = found.search(self.effort, kicks)
        table = found.table.copy()
        return OptimisticResult(table, value, found.upper, bool((table == before).all()))
