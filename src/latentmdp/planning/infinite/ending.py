"""How long the end of a plan without a last step takes, and the time kept back for it.

The end is: write the controller, evaluate it, tidy it and, if few nodes are asked for, cut it down.
Controllers are written while the search runs, to measure how long that takes per node.
"""

from latentmdp.planning.budget import Budget
from latentmdp.planning.history.extraction import seconds_for_baselines
from latentmdp.planning.infinite.search import StationarySearch

EVALUATION_SECONDS = 4e-6  # per node and context, of writing and evaluating; until it is measured
MOST_TIDIED = 30_000  # nodes; larger controllers are handed out as they are
TIDYING = 9.0  # evaluations: as long as it takes to tidy a controller and evaluate it twice
TIDYING_SHARE = 0.2  # of the time limit: what is kept back for tidying, at most
VISITS = 8.0  # evaluations: as long as it takes to find values and visits for cutting
CUTTING_SECONDS = 1.0  # for cutting itself, or
CUTTING_SHARE = 0.25  # of the time limit, if that is less
FIRST_KEPT_BACK = 0.6  # of the time limit, at most, until the first measurement; then
MOST_KEPT_BACK = 0.8
GROWTH = 4  # a controller with so many times the nodes is measured again
MEASURING_SHARE = 0.1  # of the time so far: what measuring may take
FIRST_SHARE = 0.05  # of the time limit: what the first measurement may take, after twice as long


class Ending:
    """Measures the end of a plan and keeps time back for it."""

    def __init__(self, M: int, budget: Budget, cuts: bool) -> None:
        self.budget, self.cuts = budget, cuts
        self.per_node = EVALUATION_SECONDS * M  # seconds to write and evaluate
        self.measured = 0  # nodes that the last controller could have had
        self.share = 1.0  # of these, which it had
        self.last = 0.0  # seconds that it took
        self.longest_round = 0.0  # of the search, between two looks at the clock
        self.for_baselines = 0.0  # seconds to keep back for `safeguard.py`
        if budget.time_limit is not None and not cuts:
            self.for_baselines = seconds_for_baselines(budget.seconds, budget.time_limit)

    def seconds(self, nodes: int) -> float:
        """Of all that is to be done with a controller of at most so many nodes."""
        once, limit = self.per_node * nodes, self.budget.time_limit or 0.0
        total = 1.5 * once
        if self.share * nodes <= MOST_TIDIED:
            total += min((TIDYING - 1.5) * once, TIDYING_SHARE * limit)
        if self.cuts:
            total += VISITS * once + min(CUTTING_SECONDS, CUTTING_SHARE * limit)
        return total

    def measure(self, seconds: float, size: int, nodes: int) -> None:
        """A controller of `size` nodes, at most `nodes`, took so long to write and evaluate."""
        self.last, self.measured = seconds, max(nodes, 1)
        self.per_node, self.share = seconds / self.measured, size / self.measured

    def is_due(self, nodes: int) -> bool:
        """Whether to measure now."""
        limit, passed = self.budget.time_limit, self.budget.seconds
        if limit is None or nodes < GROWTH * self.measured:
            return False
        cost = self.per_node * nodes
        first = self.measured == 0 and passed >= 2.0 * FIRST_SHARE * limit
        return cost <= MEASURING_SHARE * passed or (first and cost <= FIRST_SHARE * limit)

    def reason(self, search: StationarySearch) -> str:
        """Why the search must stop, if it must: `Budget.reason` with time kept back."""
        limit = self.budget.time_limit
        if limit is not None:
            most = MOST_KEPT_BACK if self.measured else FIRST_KEPT_BACK
            last = self.longest_round + self.seconds(search.most_policy_nodes) + self.for_baselines
            self.budget.kept_back = min(last, most * limit)
        return self.budget.reason()
