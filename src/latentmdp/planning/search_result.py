"""What a planner of either class reports: its bounds on the way, and its result."""

from collections.abc import Callable
from dataclasses import dataclass

from latentmdp.csr import Floats, Ints
from latentmdp.planning.budget import Budget
from latentmdp.policy.graph import PolicyGraph

Progress = Callable[[float, int, float, float], None]  # (seconds, work, lower, upper)

Moment = tuple[float, int, float, float]  # (seconds, work, lower, upper)


class BoundsLog:
    """The bounds as they moved, told to whoever wants to know; Ctrl-C meanwhile is a request."""

    def __init__(self, budget: Budget, progress: Progress | None) -> None:
        self.budget, self.progress = budget, progress
        self.history: list[Moment] = []

    def __call__(self, lower: float, upper: float) -> None:
        """Note both bounds, now."""
        self.history.append(self.tell(lower, upper))

    def tell(self, lower: float, upper: float) -> Moment:
        """Call `progress`, noting nothing: a planner that is busy says that it is alive."""
        moment = self.budget.seconds, self.budget.work, lower, upper
        if self.progress is not None:
            try:
                self.progress(*moment)
            except KeyboardInterrupt:
                self.budget.interrupted.set()
        return moment


@dataclass(frozen=True)
class SearchResult:
    """A policy, its exact value `lower`, and a bound `upper` on every policy of its class.

    `history` lists `(seconds, work, lower, upper)` as the bounds moved.
    """

    policy: PolicyGraph
    lower: float
    upper: float
    status: str  # optimal, gap, time, memory, interrupted, stalled
    method: str
    nodes: int
    work: int
    history: list[Moment]
    known: tuple[Ints, Floats] | None = None  # (M, S) actions and values of each context on its
    # own, where the plan without a last step had to find them
    unrestricted: float | None = None  # the value before a limit on nodes cut the policy down
    evaluation: float = 0.0  # seconds that an evaluation of `policy` took, where that was measured
