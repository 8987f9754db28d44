"""Stages of a plan that take turns, each with as much work as the others."""

from collections.abc import Iterator
from dataclasses import dataclass

from latentmdp.planning.budget import Budget
from latentmdp.planning.settings import PlanningSettings

Stage = Iterator[None]  # works a little each time the next item is asked for


@dataclass(eq=False)
class _Entry:
    stage: Stage
    price: int
    spent: int


class RoundRobin:
    """The stages that still work; new ones may join on the way.

    A stage with price `p` gets one part of the work where others get `p`.
    """

    def __init__(self, budget: Budget, settings: PlanningSettings) -> None:
        self.budget, self.turn_work = budget, settings.turn_work
        self._entries: list[_Entry] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, stage: Stage, price: int = 1) -> None:
        """Let a stage join, as if it had worked as much as the one that worked least."""
        spent = min((entry.spent for entry in self._entries), default=0)
        self._entries.append(_Entry(stage, price, spent))

    def take_one(self) -> None:
        """Let the stage work whose turn it is; drop it if it has ended."""
        entry = min(self._entries, key=lambda entry: entry.spent)
        before = self.budget.work
        try:
            next(entry.stage)
        except StopIteration:
            self._entries.remove(entry)
        entry.spent += entry.price * (self.budget.work - before + self.turn_work)
