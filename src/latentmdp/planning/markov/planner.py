"""The best Markov policy of a known latent MDP, with bounds on *that class*.

From below: coordinate ascent from several starts, then kicks. From above: knowing the context, then
belief grids over groups of contexts, then branch and bound, which goes on until the gap is closed.
The stages take turns. What they do and in which order depends on the model, the method and the
memory limit alone; the gap, the clock, the work limit and Ctrl-C only decide when to stop. Every
bound holds wherever that is. Work is counted in row backups.
"""

import math
from collections.abc import Generator

import numpy as np

from latentmdp.csr import Ints
from latentmdp.errors import ModelError
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning import baselines
from latentmdp.planning.driver import value_of
from latentmdp.planning.history.belief_grid import n_vertices, next_resolution
from latentmdp.planning.history.planner import plan_history
from latentmdp.planning.limits import Limits
from latentmdp.planning.markov.ascent import PolicyRaiser
from latentmdp.planning.markov.bound_tracker import Stop
from latentmdp.planning.markov.exact import (
    BranchAndBound,
    GridBound,
    bound_bytes,
    bound_work,
    grid_bound,
    search_bytes,
)
from latentmdp.planning.markov.proof_levels import ProofLevels
from latentmdp.planning.markov.round_robin import RoundRobin, Stage
from latentmdp.planning.markov.view import PIECE
from latentmdp.planning.search_result import SearchResult
from latentmdp.planning.settings import SETTINGS, PlanningSettings
from latentmdp.policy.graph import PolicyGraph
from latentmdp.runtime.interrupts import interrupts_set

MARKOV_METHODS = ("auto", "ascent", "branch", *baselines.TABLES)


def plan_markov(
    model: LatentMDP,
    limits: Limits | None = None,
    settings: PlanningSettings = SETTINGS,
    *,
    method: str = "auto",
    warm: Ints | None = None,
    seed: int = 0,
) -> SearchResult:
    """Plan over Markov policies until `upper - lower <= gap * |upper|` (no gap: until closed).

    `method`: `branch` and `auto` work until the gap is closed or a limit is reached; `ascent` finds
    a policy, bounds it by knowing the context, and ends by itself; a baseline's name plays that
    baseline. `warm (H, S)` is a table of actions to start from. Limits hold for all of it, the
    policy's evaluation included.
    """
    if method not in MARKOV_METHODS:
        names = ", ".join(MARKOV_METHODS)
        raise ModelError(f"method must be one of {names} for Markov policies; it is {method!r}")
    limits = limits or Limits()
    budget = limits.budget()
    with interrupts_set(budget.interrupted):
        return _Planner(model, limits, budget, settings, seed).run(method, warm)


class _Planner(PolicyRaiser):
    method = "ascent"
    turns: RoundRobin
    bound: GridBound | None = None  # the best one so far

    # ------------------------------------------------------------------ the plan

    def run(self, method: str, warm: Ints | None) -> SearchResult:
        baseline = method if method in baselines.TABLES else "wsu"
        self.turns = RoundRobin(self.budget, self.settings)
        try:
            self.begin(baseline, warm)
            if method in baselines.TABLES:
                self.method = method
            elif method == "ascent":
                self.turns.add(self.raise_policy(warm, self.settings.kicks))
            else:
                least = self.settings.kicks
                kicks = int(
                    np.clip(self.settings.more_kicks / self.view.backups, least, 10 * least)
                )
                self.turns.add(self.raise_policy(warm, kicks))
                self.turns.add(self.refine_grids())
            self.check()
            while len(self.turns):
                self.turns.take_one()
                self.check()
            status = self.shortage or "stalled"
        except Stop as stop:
            status = str(stop)
        policy = PolicyGraph.from_table(self.table)
        self.lower = value_of(self.model, policy)
        self.upper = max(self.upper, self.lower)
        self.record()
        return SearchResult(
            policy, self.lower, self.upper, status, self.method, self.nodes, self.budget.work,
            self.log.history,
        )  # fmt: skip

    def raise_policy(self, warm: Ints | None, kicks: int) -> Stage:
        """Climb from several tables, then kick the best."""
        yield from self.climb_from_starts(warm)
        yield from self.kick(kicks)
        self.turns.add(self.keep_restarting(), self.settings.restart_price)

    def keep_restarting(self) -> Stage:
        """Look for better policies as long as another stage works on the proof."""
        while len(self.turns) > 1:
            yield from self.restart()

    # ------------------------------------------------------------------ from above

    def refine_grids(self) -> Stage:
        """Ever finer belief grids while they pay; then the search begins with the best."""
        contexts = int((self.view.w > 0).sum())
        sizes = sorted({min(k, contexts) for k in (2, 3, 4, 5, 8, contexts)})
        vertices = self.settings.grid_vertices
        for limit in vertices:
            before = self.upper
            for K in sizes if self.bound is None else [self.bound.K]:
                yield from self.try_grid(K, finest(K, limit))
            open_gap = before - self.lower
            gain = (before - self.upper) / open_gap if open_gap > 0 else 0.0
            if self.bound is None or (limit > vertices[0] and gain < 0.1):
                break
        if self.bound is None or len(self.bound.group_ptr) > 2:
            self.turns.add(self.allow_memory())
        if self.bound is not None and not self.lacks(search_bytes(self.view)):
            self.shortage = ""
            self.turns.add(self.branch(self.bound))
            if contexts > 1:
                self.turns.add(self.refine_further(self.bound), self.settings.refine_price)

    def refine_further(self, bound: GridBound) -> Stage:
        """Finer grids beside the search, which goes on with the best at its next level."""
        while self.nodes < self.settings.short_search:
            yield
        N, gain = bound.N, math.inf
        while gain > self.settings.finer_gain * (self.upper - self.lower):
            N = next_resolution(bound.K, N, self.settings.grid_refinement)
            before = self.upper
            if not (yield from self.try_grid(bound.K, N, bound.table.nbytes)):
                self.shortage = ""  # the search itself has the memory that it needs
                return
            bound, gain = self.bound or bound, before - self.upper

    def try_grid(self, K: int, N: int, held: int = 0) -> Generator[None, None, bool]:
        """Build a grid for groups of `K` contexts with resolution `N`; keep the best.

        False where `N` is 0, or no memory is left for it beside the `held` bytes.
        """
        groups = -(-int((self.view.w > 0).sum()) // K)
        if N == 0 or self.lacks(held + bound_bytes(self.view, groups, K, N)):
            return False
        bound = yield from self.build_grid(K, N, groups)
        if self.bound is None:
            self.method = "ascent+grid"
        if self.bound is None or bound.root < self.bound.root:
            self.bound = bound
        self.cut_upper(bound.root)
        return True

    def build_grid(self, K: int, N: int, groups: int) -> Generator[None, None, GridBound]:
        """A grid bound; its work is spent little by little."""
        work, spent = bound_work(self.view, groups, K, N), 0
        for bound in grid_bound(self.view, self.known, K, N):
            if bound is None:
                piece = min(PIECE, work - spent)
                spent += piece
                self.spend(piece)
                yield
        self.spend(work - spent)
        assert bound is not None
        return bound

    def allow_memory(self) -> Stage:
        """Bound Markov policies by policies with memory, where contexts are too many for one grid.

        Rewards are hidden: a Markov policy does not look at them, and the bound is the lower. Goes
        on with ever more work until the best policy with memory is known.
        """
        limit, gap = self.settings.memory_work, self.settings.memory_gap
        self.method += "+memory"
        while True:
            left = self.budget.left
            limits = Limits(
                gap, None if left is None else max(left, 1e-3), self.memory_units(limit),
                max(self.memory // 2, 1), self.end_memory,
            )  # fmt: skip
            hidden = self.model.replace(observe_rewards=False)
            found = plan_history(hidden, limits, self.settings)
            self.spend(found.work * self.settings.memory_unit)
            self.cut_upper(found.upper)
            yield
            if found.status == "time":
                limit *= 10
            elif found.status == "gap":
                gap /= 100
            else:
                return

    def branch(self, bound: GridBound) -> Stage:
        """Prove ever smaller upper bounds, level by level, until the gap is closed."""
        self.method += "+branch"
        search = BranchAndBound(self.view, bound, self.rounding)
        levels = ProofLevels(self.upper - self.lower, search.slack, self.settings)
        while True:
            if self.bound is not None and self.bound is not bound:
                bound = self.bound
                search = BranchAndBound(self.view, bound, search.slack)
            lower = self.lower
            threshold = levels.threshold(lower, self.upper)
            nodes = yield from self.prove(search, threshold, levels.limit)
            levels.settle(nodes)
            if nodes is not None and threshold == lower == self.lower:
                raise Stop("optimal")  # no policy is better by more than rounding errors

    def prove(
        self, search: BranchAndBound, threshold: float, most: float
    ) -> Generator[None, None, float | None]:
        """Search for policies above `threshold`; the nodes it took, None if it gave up."""
        search.restart(threshold)
        begun = search.nodes
        node_work = 50 * self.view.M * len(self.view.choice) // (len(self.view.choice_ptr) - 1)
        quantum = PIECE // (node_work + self.view.S * self.view.M) * 10
        quantum = max(1, min(self.settings.search_nodes, quantum))
        finished = False
        while not finished:
            before = search.nodes
            search.threshold = max(search.threshold, self.lower)
            finished = search.advance(quantum)
            self.nodes += search.nodes - before
            self.spend((search.nodes - before) * node_work)
            if finished:
                self.cut_upper(max(search.threshold, self.lower) + search.slack)
            if search.policy is not None:
                table, search.policy = search.policy, None
                self.value_table(table)
                yield from self.climb(table)
            if not finished and search.nodes - begun > most:
                return None
            self.log.tell(self.lower, self.upper)
            yield
        return float(search.nodes - begun)


def finest(K: int, limit: int) -> int:
    """The finest resolution with at most `limit` vertices (1 is knowing the context: not worth it).

    0 where there is none.
    """
    if K == 1:
        return 1
    N = 1
    while n_vertices(K, N + 1) <= limit:
        N += 1
    return N if N > 1 else 0
