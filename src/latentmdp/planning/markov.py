"""The best Markov policy of a known latent MDP, with bounds on *that class*.

From below: coordinate ascent from several starts, then kicks. From above: knowing the context, then
belief grids over groups of contexts, then branch and bound. Each stage runs only while the gap is
open; every bound holds wherever it stops. Work is counted in row backups.
"""

import math
from collections.abc import Iterator

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.evaluation import context_optimal, evaluate
from latentmdp.model import LatentMDP
from latentmdp.planning import baselines
from latentmdp.planning.belief_grid import n_vertices
from latentmdp.planning.budget import Budget
from latentmdp.planning.climber import Climber
from latentmdp.planning.found import Found
from latentmdp.planning.ledger import RATE, ROUNDING, Ledger, Progress, Stop
from latentmdp.planning.markov_exact import (
    BranchAndBound,
    GridBound,
    grid_bound,
    grid_bytes,
    grid_work,
    search_bytes,
)
from latentmdp.planning.markov_view import markov_view
from latentmdp.policy import PolicyGraph

METHODS = ("auto", "ascent", "branch", *baselines.TABLES)
QUANTUM = 10_000  # search nodes between looks at the clock
PATIENCE = 500_000  # nodes a level of the search may take, per minute of the time limit
LADDER = (100, 500, 2_000, 8_000)  # vertices per group and state of ever finer grids
MEMORY_WORK = 5_000_000  # units of the history planner that its bound may take
MEMORY_UNIT = 100  # row backups that take as long as one of them
KICKS = 20  # kicks without gain before giving up
BLUR, SHAKEN = 3.0, 0.1  # log-scale of the kicks' weights; share of places with random actions
FINAL_KICKS = 2_000_000  # last of all: this many over the row backups of a sweep, 20 to 200


def plan_markov(
    model: LatentMDP,
    *,
    gap: float | None = None,
    time_limit: float | None = None,
    work_limit: int | None = None,
    memory_limit: int | None = None,
    method: str = "auto",
    warm: Ints | None = None,
    progress: Progress | None = None,
    seed: int = 0,
) -> Found:
    """Plan over Markov policies until `upper - lower <= gap * |upper|` (None: until closed).

    `method`: `ascent` finds a policy and bounds it by knowing the context; `branch` and `auto` go
    on to belief grids and branch and bound; a baseline's name plays that baseline.
    `warm (H, S)` is a table of actions to start from.
    """
    if method not in METHODS:
        raise ModelError(
            f"method must be one of {', '.join(METHODS)} for Markov policies; it is {method!r}"
        )
    budget = Budget(time_limit, work_limit)
    with budget.catching_interrupts():
        return _Planner(model, gap or 0.0, budget, memory_limit, progress, seed).run(method, warm)


class _Planner(Ledger):
    def __init__(
        self,
        model: LatentMDP,
        gap: float,
        budget: Budget,
        memory_limit: int | None,
        progress: Progress | None,
        seed: int,
    ) -> None:
        self.model, self.view = model, markov_view(model)
        self.known, self.known_action = context_optimal(model)
        upper = float((self.view.start * self.known[0]).sum())
        scale = max(float(np.abs(self.known).max()), 1e-300)
        super().__init__(gap, budget, memory_limit or 2**31, progress, upper, scale)
        self.spend(self.view.backups)
        self.climber = Climber(self.view)
        self.random = np.random.default_rng(np.random.SeedSequence(seed))
        self.nodes = model.H * model.S
        self.method = "ascent"

    # ------------------------------------------------------------------ the plan

    def run(self, method: str, warm: Ints | None) -> Found:
        self.table = baselines.table(method if method in baselines.TABLES else "wsu", self.model)
        self.raise_lower(self.climber.value(self.table), self.table)
        self.spend(self.view.backups)
        if warm is not None:
            self.raise_lower(self.climber.value(warm), warm)
        try:
            if method in baselines.TABLES:
                self.method = method
                self.check()
                raise Stop("stalled")
            for table in self.starts(warm):
                self.climb(table)
            if method == "ascent":
                self.kick(KICKS)
            else:
                bound = self.refine_grids()
                self.kick(KICKS, share=0.3)
                if bound is None or len(bound.group_ptr) > 2:
                    self.allow_memory()
                if bound is not None:
                    self.branch(bound)
                self.kick(int(np.clip(FINAL_KICKS / self.view.backups, KICKS, 10 * KICKS)))
            status = self.shortage or "stalled"
        except Stop as stop:
            status = str(stop)
        policy = PolicyGraph.from_table(self.table)
        self.lower = evaluate(self.model, policy).value
        self.upper = max(self.upper, self.lower)
        self.record()
        return Found(
            policy, self.lower, self.upper, status, self.method, self.nodes, self.budget.work,
            self.history,
        )  # fmt: skip

    def starts(self, warm: Ints | None) -> Iterator[Ints]:
        """Tables to climb from."""
        if warm is not None:
            yield warm.copy()
        yield self.table.copy()
        yield baselines.table("mean", self.model)
        yield baselines.table("qmdp", self.model)
        for m in np.argsort(-self.view.w, kind="stable")[:6]:
            yield self.known_action[:, m].copy()

    # ------------------------------------------------------------------ from below

    def climb(self, table: Ints, start: Floats | None = None, sweeps: int = 200) -> bool:
        """Coordinate ascent in place; whether it found the best policy so far."""
        self.check()
        if self.budget.work_limit is not None:
            left = self.budget.work_limit - self.budget.work
            sweeps = max(1, min(sweeps, left // self.view.backups))
        value, done = self.climber.climb(table, self.view.start if start is None else start, sweeps)
        self.spend(done * self.view.backups)
        return start is None and self.raise_lower(value, table)

    def kick(self, patience: int, share: float = 1.0) -> None:
        """Perturb the best policy and climb again, until `patience` kicks in a row gained nothing.

        Spends at most that share of the budget (more than a millionth is a gain). The kicks are,
        alternately, two sweeps with the contexts' weights blurred (which finds other routes), and
        random actions in a tenth of the places (which mends the route).
        """
        since = 0
        while since < patience and self.budget.used < share:
            before, table = self.lower, self.table.copy()
            if since % 2 == 0:
                blur = np.exp(BLUR * self.random.standard_normal((self.view.M, 1)))
                self.climb(table, self.view.start * blur, 2)
            else:
                hit = self.random.random(table.shape) < SHAKEN
                width = np.diff(self.view.choice_ptr)
                pick = self.random.integers(0, width, table.shape)
                table[hit] = self.view.choice[self.view.choice_ptr[:-1] + pick][hit]
            self.climb(table)
            since = 0 if self.lower - before > 1e-6 * self.scale else since + 1

    # ------------------------------------------------------------------ from above

    def refine_grids(self) -> GridBound | None:
        """Ever finer belief grids while they pay; the best is handed to the search."""
        contexts = int((self.view.w > 0).sum())
        sizes = sorted({min(k, contexts) for k in (2, 3, 4, 5, 8, contexts)})
        best: GridBound | None = None
        for limit in LADDER:
            before = self.upper
            for K in sizes if best is None else [best.K]:
                N = finest(K, limit)
                groups = -(-contexts // K)
                work = grid_work(self.view, groups, K, N)
                if N == 0:
                    continue
                if self.lacks(work, grid_bytes(self.view, groups, K, N)):
                    continue
                self.check()
                bound = grid_bound(self.view, self.known, K, N)
                self.spend(work)
                if best is None or bound.root < best.root:
                    best, self.method = bound, "ascent+grid"
                self.cut_upper(bound.root)
            self.check()
            gain = (before - self.upper) / (before - self.lower)
            if best is None or (limit > LADDER[0] and gain < 0.1):
                break
        return best

    def allow_memory(self) -> None:
        """Bound Markov policies by policies with memory, where contexts are too many for one grid.

        Rewards are hidden: a Markov policy does not look at them, and the bound is the lower.
        """
        from latentmdp.planning.history import plan_history

        self.check()
        limit, time_limit = MEMORY_WORK, self.budget.time_limit
        if time_limit is not None:  # a quarter of it, in units of work: the plan repeats exactly
            limit = min(limit, int(0.25 * time_limit * RATE / MEMORY_UNIT) + 1)
            time_limit = max(time_limit - self.budget.seconds, 1e-3)
        if self.budget.work_limit is not None:
            limit = min(limit, (self.budget.work_limit - self.budget.work) // MEMORY_UNIT + 1)

        def watch(seconds: float, work: int, lower: float, upper: float) -> None:
            if self.budget.interrupted.is_set():
                raise KeyboardInterrupt

        found = plan_history(
            self.model.replace(observe_rewards=False),
            gap=max(self.gap / 4, 1e-3),
            time_limit=time_limit,
            work_limit=limit,
            memory_limit=self.memory // 2,
            progress=watch,
        )
        self.spend(found.work * MEMORY_UNIT)
        self.method += "+memory"
        self.cut_upper(found.upper)

    def branch(self, bound: GridBound) -> None:
        """Prove ever smaller upper bounds, level by level, down to the goal.

        Each level costs several times the last, so that the last decides. Stalls where a small
        step takes more nodes than a level may.
        """
        if self.lacks(0, search_bytes(self.view)):
            return
        self.shortage = ""
        self.check()
        self.method += "+branch"
        search = BranchAndBound(self.view, bound, ROUNDING * self.scale)
        minutes = math.inf if self.budget.time_limit is None else self.budget.time_limit / 60
        most = PATIENCE * max(1.0, minutes)
        open_gap = self.upper - self.lower
        step = max(0.02 * open_gap, 16 * search.slack)
        finest_step = max(0.001 * open_gap, 4 * search.slack)
        last, before, may_jump = 0.0, 0.0, True
        while step >= finest_step:
            self.check()
            floor = max(self.lower, self.goal() - 2 * search.slack)
            # A level that takes far longer than the last is too ambitious: try a smaller step.
            limit, threshold = min(most, max(20_000.0, 20 * last)), max(floor, self.upper - step)
            steps = (self.upper - floor) / step
            jump = (
                may_jump
                and before >= 1_000
                and math.log(last) + steps * math.log(last / before) < math.log(most)
            )
            if jump:  # at this rate of growth the last level can be afforded at once
                limit, threshold = most, floor
            nodes = self.prove(search, threshold, limit)
            if jump:
                may_jump = False
            elif nodes is None:
                if limit == most:
                    return
                step /= 4
            else:
                last, before = nodes, last
                if nodes < 1_000:
                    step *= 2
                elif nodes > most / 8:
                    step /= 2

    def prove(self, search: BranchAndBound, threshold: float, most: float) -> float | None:
        """Search for policies above `threshold`; the nodes it took, None if it gave up."""
        search.restart(threshold)
        begun = search.nodes
        node_work = 50 * self.view.M * len(self.view.choice) // self.view.S
        finished = False
        while not finished:
            quantum = QUANTUM
            if self.budget.work_limit is not None:
                left = (self.budget.work_limit - self.budget.work) // node_work + 1
                quantum = max(1, min(quantum, left))
            before = search.nodes
            finished = search.advance(quantum)
            self.nodes += search.nodes - before
            self.spend((search.nodes - before) * node_work)
            if finished:
                self.cut_upper(max(search.threshold, self.lower) + search.slack)
            if search.policy is not None:
                table, search.policy = search.policy, None
                self.raise_lower(self.climber.value(table), table)
                self.climb(table)
            if not finished and search.nodes - begun > most:
                return None
            if self.progress is not None:
                self.progress(self.budget.seconds, self.budget.work, self.lower, self.upper)
            self.check()
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
