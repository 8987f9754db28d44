"""What a planner of either class reports: its bounds on the way, and its result."""

from collections.abc import Callable
from dataclasses import dataclass

from latentmdp.policy import PolicyGraph

Progress = Callable[[float, int, float, float], None]  # (seconds, work, lower, upper)


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
    history: list[tuple[float, int, float, float]]
    unrestricted: float | None = None  # the value before a limit on nodes cut the policy down
