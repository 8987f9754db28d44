"""A run of a normalised model, read in the units of the rewards that people gave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from latentmdp.learning.run import Run
from latentmdp.model.units import USER

if TYPE_CHECKING:
    from pathlib import Path

    from latentmdp.learning.session import Observer, Session
    from latentmdp.policy.graph import PolicyGraph

DIFFERENCES = ("planner_gap",)
VALUES = ("value", "optimistic_value")


class RunInUserUnits(Run):
    """`run.in_user_units()`: the same numbers, tables and figures in a person's own units.

    Values are scaled and shifted; regret and gaps are differences and only scaled. Files and
    audits are of the run itself (`.run`), in the units in which it learns.
    """

    def __init__(self, run: Run) -> None:
        model = run.model
        table = dict(run.state["table"])
        table |= {name: model.in_user_units(table[name]) for name in VALUES}
        table |= {name: model.difference_in_user_units(table[name]) for name in DIFFERENCES}
        low, high = (model.in_user_units(x) for x in run.optimal)
        memory = None if run.history_value is None else model.in_user_units(run.history_value)
        super().__init__(
            model.denormalized(), run.state | {"table": table}, (low, high), run.seconds_optimal,
            memory,
        )  # fmt: skip
        self.run = run

    @property
    def units(self) -> str:
        """What numbers are in."""
        return USER if self.run.units else ""

    @property
    def in_model_units(self) -> Run:
        """The run in the units of its model, in which it learns."""
        return self.run

    @property
    def policy(self) -> PolicyGraph:
        """The policy in force at the end."""
        return self.run.policy.for_model(self.model)

    @property
    def final_value(self) -> float:
        """Exact value of `policy`."""
        return self.run.model.in_user_units(self.run.final_value)

    def in_user_units(self) -> RunInUserUnits:
        """Itself."""
        return self

    def session(self) -> Session:
        """A session that continues the run, in the units in which it learns."""
        return self.run.session()

    def more(self, episodes: int) -> Run:
        """A longer run, continued from the end of this one, in these units."""
        return self.run.more(episodes).in_user_units()

    def replay(self, observer: Observer) -> None:
        """Run again; phases are in the units in which it learns."""
        self.run.replay(observer)

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Write the run itself, in the units in which it goes on."""
        self.run.save(folder, overwrite)

    def checkpoint(self, folder: str | Path) -> Path:
        """Write what `load_run` needs of the run itself."""
        return self.run.checkpoint(folder)
