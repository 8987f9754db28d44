"""What a search over histories offers, and when it may stop."""

from dataclasses import dataclass
from typing import Protocol

from latentmdp.planning.budget import Budget
from latentmdp.planning.history.policy_parts import PolicyParts


@dataclass(frozen=True)
class Allowed:
    """The gap at which a search may stop: `max(relative * |upper|, absolute)`."""

    relative: float
    absolute: float

    def gap(self, upper: float) -> float:
        """As a difference of bounds."""
        return max(self.relative * abs(upper), self.absolute)


class Search(Protocol):
    """Anytime search; `bounds` on the optimum hold whenever `advance` returns."""

    @property
    def bounds(self) -> tuple[float, float]: ...
    @property
    def work(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def advance(self, quantum: int, allowed: Allowed, budget: Budget, memory: int) -> str:
        """Work `quantum` units or until closed: `closed`, `paused`, `memory` or `stalled`."""
        ...


class HistorySearch(Search, Protocol):
    """A search with a last step."""

    pending: int  # work of a piece that comes next and cannot be divided; 0: none

    @property
    def name(self) -> str: ...
    def add_policy(self, parts: PolicyParts, slack: float) -> None:
        """Add the nodes of a policy worth the lower bound, up to `slack`."""
        ...
