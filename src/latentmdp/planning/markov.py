"""The best Markov policy of a known latent MDP, with bounds on *that class*.

From below: coordinate ascent from several starts, then kicks. From above: knowing the context, then
belief grids over groups of contexts, then branch and bound. The stages take turns. What they do and
in which order depends on the model, the method and the memory limit alone; the gap, the clock, the
work limit and Ctrl-C only decide when to stop. Every bound holds wherever that is. Work is counted
in row backups.
"""

import math
import time
from collections.abc import Generator, Iterator

import numpy as np

from latentmdp._interrupts import interrupts_set
from latentmdp.canonical import Floats, Ints, sum_tolerance
from latentmdp.errors import ModelError
from latentmdp.evaluation import evaluate
from latentmdp.model import LatentMDP
from latentmdp.planning import baselines
from latentmdp.planning.belief_grid import n_vertices
from latentmdp.planning.budget import Budget
from latentmdp.planning.climber import Climber
from latentmdp.planning.history import plan_history
from latentmdp.planning.ledger import ROUNDING, Ledger, Stop
from latentmdp.planning.markov_exact import (
    BranchAndBound,
    GridBound,
    bound_bytes,
    bound_work,
    grid_bound,
    search_bytes,
)
from latentmdp.planning.markov_view import PIECE, markov_view
from latentmdp.planning.search_result import Progress, SearchResult
from latentmdp.policy import PolicyGraph

MARKOV_METHODS = ("auto", "ascent", "branch", *baselines.TABLES)
MOST_NODES = 10_000  # of the search between two looks at the clock
LEVEL_NODES = 500_000  # that a level of the search may take, per minute of the time limit
GRID_VERTICES = (100, 500, 2_000, 8_000)  # per group and state, of ever finer grids
MEMORY_WORK = (50_000, 5_000_000)  # units of the history planner for its bound: at first, at most
MEMORY_UNIT = 100  # row backups that take as long as one of them
KICKS = 20  # kicks in a row that gain nothing before giving up
WEIGHT_BLUR = 3.0  # standard deviation of the logarithm of a kick's weights
SHAKEN_SHARE = 0.1  # of the places, which a kick gives random actions
MORE_KICKS = 2_000_000  # where the gap stays open: this many over a sweep's backups, 20 to 200
TURN_WORK = 1_000  # row backups that take as long as a turn of a stage
EVALUATION_FACTOR = 5  # the last evaluation takes at most so many times a valuation of a table

Stage = Iterator[None]  # works when asked for the next item


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
) -> SearchResult:
    """Plan over Markov policies until `upper - lower <= gap * |upper|` (None: until closed).

    `method`: `ascent` finds a policy and bounds it by knowing the context; `branch` and `auto` go
    on to belief grids and branch and bound; a baseline's name plays that baseline.
    `warm (H, S)` is a table of actions to start from. Limits hold for all of it, the policy's
    evaluation included.
    """
    if method not in MARKOV_METHODS:
        names = ", ".join(MARKOV_METHODS)
        raise ModelError(f"method must be one of {names} for Markov policies; it is {method!r}")
    budget = Budget(time_limit, work_limit)
    with interrupts_set(budget.interrupted):
        return _Planner(model, gap or 0.0, budget, memory_limit, progress, seed).run(method, warm)


class _Planner(Ledger):
    known: Floats  # (H + 1, M, S) values of knowing the context
    known_action: Ints  # (H, M, S)
    climber: Climber

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
        upper = model.max_return + sum_tolerance(model.H) * max(1.0, abs(model.max_return))
        scale = max(abs(model.min_return), abs(model.max_return))
        super().__init__(gap, budget, memory_limit or 2**31, progress, upper, scale)
        first_choice = self.view.choice[self.view.choice_ptr[:-1]].astype(np.int64)
        self.table = np.tile(first_choice, (model.H, 1))
        self.random = np.random.default_rng(np.random.SeedSequence(seed))
        self.nodes = model.H * model.S
        self.method = "ascent"
        self.stages: list[Stage] = []
        self.search_is_slow = False  # a level took more nodes than the time limit suggests

    # ------------------------------------------------------------------ the plan

    def run(self, method: str, warm: Ints | None) -> SearchResult:
        baseline = method if method in baselines.TABLES else "wsu"
        try:
            self.begin(baseline, warm)
            if method in baselines.TABLES:
                self.method = method
                self.check()
            elif method == "ascent":
                self.take_turns([self.raise_policy(warm, KICKS)])
            else:
                kicks = int(np.clip(MORE_KICKS / self.view.backups, KICKS, 10 * KICKS))
                self.take_turns([self.raise_policy(warm, kicks), self.refine_grids()])
            status = self.shortage or "stalled"
        except Stop as stop:
            status = str(stop)
        policy = PolicyGraph.from_table(self.table)
        self.lower = evaluate(self.model, policy).value
        self.upper = max(self.upper, self.lower)
        self.record()
        return SearchResult(
            policy, self.lower, self.upper, status, self.method, self.nodes, self.budget.work,
            self.history,
        )  # fmt: skip

    def begin(self, baseline: str, warm: Ints | None) -> None:
        """Both bounds for the first time: knowing the context, and a baseline."""
        if self.lacks(8 * self.nodes * (6 * self.view.M + 12)):
            raise Stop("memory")
        self.known, self.known_action = baselines.context_values(self.model, self.check_clock)
        self.upper = float((self.view.start * self.known[0]).sum())
        self.scale = max(float(np.abs(self.known).max()), 1e-300)
        self.spend(self.view.backups)
        baselines.TABLES[baseline](self.model, self.table, self.check_clock)
        self.climber = Climber(self.view)
        begun = time.perf_counter()
        self.value_table(self.table.copy())
        self.budget.kept_back = EVALUATION_FACTOR * (time.perf_counter() - begun)
        self.spend(self.view.backups)
        if warm is not None:
            self.value_table(warm)

    def value_table(self, table: Ints) -> None:
        for value in self.climber.value(table):
            if not math.isnan(value):
                self.raise_lower(value, table)
            self.check_clock()

    def check_clock(self) -> None:
        """Stop if the budget is used up."""
        if reason := self.budget.reason():
            raise Stop(reason)

    def take_turns(self, stages: list[Stage]) -> None:
        """Let the stages work, each as much as the others; new ones may join on the way."""
        spent = [0] * len(stages)
        self.stages = stages
        while stages:
            self.check()
            if len(stages) == 1 and self.search_is_slow:
                return
            i = int(np.argmin(spent))
            before = self.budget.work
            try:
                next(stages[i])
                spent[i] += self.budget.work - before + TURN_WORK
            except StopIteration:
                del stages[i], spent[i]
            spent += [min(spent, default=0)] * (len(stages) - len(spent))

    def starts(self, warm: Ints | None) -> Iterator[Ints]:
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

    # ------------------------------------------------------------------ from below

    def raise_policy(self, warm: Ints | None, kicks: int) -> Stage:
        """Climb from several tables, then kick the best."""
        for table in self.starts(warm):
            yield from self.climb(table)
        yield from self.kick(kicks)

    def climb(self, table: Ints, start: Floats | None = None, sweeps: int = 200) -> Stage:
        """Coordinate ascent in place."""
        at = self.view.start if start is None else start
        for value, swept in self.climber.climb(table, at, sweeps):
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
                blur = np.exp(WEIGHT_BLUR * self.random.standard_normal((self.view.M, 1)))
                yield from self.climb(table, self.view.start * blur, 2)
            else:
                hit = self.random.random(table.shape) < SHAKEN_SHARE
                width = np.diff(self.view.choice_ptr)
                pick = self.random.integers(0, width, table.shape)
                table[hit] = self.view.choice[self.view.choice_ptr[:-1] + pick][hit]
            yield from self.climb(table)
            failures = 0 if self.lower - before > 1e-6 * self.scale else failures + 1

    # ------------------------------------------------------------------ from above

    def refine_grids(self) -> Stage:
        """Ever finer belief grids while they pay; the best is handed to the search."""
        contexts = int((self.view.w > 0).sum())
        sizes = sorted({min(k, contexts) for k in (2, 3, 4, 5, 8, contexts)})
        best: GridBound | None = None
        for limit in GRID_VERTICES:
            before = self.upper
            for K in sizes if best is None else [best.K]:
                N = finest(K, limit)
                groups = -(-contexts // K)
                if N == 0 or self.lacks(bound_bytes(self.view, groups, K, N)):
                    continue
                bound = yield from self.build_grid(K, N, groups)
                if best is None or bound.root < best.root:
                    best, self.method = bound, "ascent+grid"
                self.cut_upper(bound.root)
            open_gap = before - self.lower
            gain = (before - self.upper) / open_gap if open_gap > 0 else 0.0
            if best is None or (limit > GRID_VERTICES[0] and gain < 0.1):
                break
        if best is None or len(best.group_ptr) > 2:
            self.stages.append(self.allow_memory())
        if best is not None and not self.lacks(search_bytes(self.view)):
            self.shortage = ""
            self.stages.append(self.branch(best))

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

        Rewards are hidden: a Markov policy does not look at them, and the bound is the lower.
        """
        limit, most = MEMORY_WORK
        self.method += "+memory"

        def watch(seconds: float, work: int, lower: float, upper: float) -> None:
            if self.budget.interrupted.is_set() or upper <= self.goal():
                raise KeyboardInterrupt

        while True:
            allowed, left = limit, self.budget.left
            if self.budget.work_limit is not None:
                rest = (self.budget.work_limit - self.budget.work) // MEMORY_UNIT + 1
                allowed = min(limit, rest)
            found = plan_history(
                self.model.replace(observe_rewards=False),
                gap=1e-3,
                time_limit=None if left is None else max(left, 1e-3),
                work_limit=allowed,
                memory_limit=self.memory // 2,
                progress=watch,
            )
            self.spend(found.work * MEMORY_UNIT)
            self.cut_upper(found.upper)
            yield
            if found.status != "time" or limit >= most:
                return
            limit = min(10 * limit, most)

    def branch(self, bound: GridBound) -> Stage:
        """Prove ever smaller upper bounds, level by level.

        Each level costs several times the last, so that the last decides. Ends where a small step
        takes far more nodes than the level before.
        """
        self.method += "+branch"
        search = BranchAndBound(self.view, bound, ROUNDING * self.scale)
        open_gap = self.upper - self.lower
        step = max(0.02 * open_gap, 16 * search.slack)
        finest_step = max(0.001 * open_gap, 4 * search.slack)
        last, before, may_jump = 0.0, 0.0, True
        while step >= finest_step:
            # A level that takes far longer than the last is too ambitious: try a smaller step.
            limit, threshold = max(20_000.0, 20 * last), max(self.lower, self.upper - step)
            steps = (self.upper - self.lower) / step
            jump = (
                may_jump
                and before >= 1_000
                and math.log(last) + steps * math.log(last / before) < math.log(LEVEL_NODES)
            )
            if jump:  # at this rate of growth the last level can be afforded at once
                limit, threshold = LEVEL_NODES, self.lower
            nodes = yield from self.prove(search, threshold, limit)
            if jump:
                may_jump = False
            elif nodes is None:
                step /= 4
            else:
                last, before = nodes, last
                if nodes < 1_000:
                    step *= 2
                elif nodes > LEVEL_NODES / 8:
                    step /= 2

    def prove(
        self, search: BranchAndBound, threshold: float, most: float
    ) -> Generator[None, None, float | None]:
        """Search for policies above `threshold`; the nodes it took, None if it gave up."""
        search.restart(threshold)
        begun = search.nodes
        node_work = 50 * self.view.M * len(self.view.choice) // self.view.S
        quantum = max(1, min(MOST_NODES, PIECE // (node_work + self.view.S * self.view.M) * 10))
        minutes = math.inf if self.budget.time_limit is None else self.budget.time_limit / 60
        finished = False
        while not finished:
            before = search.nodes
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
            self.search_is_slow = search.nodes - begun > LEVEL_NODES * max(1.0, minutes)
            if self.progress is not None:
                self.progress(self.budget.seconds, self.budget.work, self.lower, self.upper)
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
