"""What a planner of either class gives back to `plan`."""

from dataclasses import dataclass

from latentmdp.policy import PolicyGraph


@dataclass(frozen=True)
class Found:
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
