"""A run of a normalised model, read in the units of the rewards that people gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from latentmdp.errors import ModelError
from latentmdp.learning.run import Run

if TYPE_CHECKING:
    from pathlib import Path

    from latentmdp.learning.session import Observer, Session
    from latentmdp.policy import PolicyGraph

DIFFERENCES = ("planner_gap",)
VALUES = ("value", "optimistic_value")


class RunInUserUnits(Run):
    """`run.in_user_units()`: the same numbers, tables and figures in a person's own units.

    Values are scaled and shifted; regret and gaps are differences and only scaled. It is for
    reading: the run itself is what goes on, is saved and is audited.
    """

    def __init__(self, run: Run) -> None:
        model = run.model
        table = dict(run.state["table"])
        table |= {name: model.in_user_units(table[name]) for name in VALUES}
        table |= {name: model.difference_in_user_units(table[name]) for name in DIFFERENCES}
        low, high = (model.in_user_units(x) for x in run.optimal)
        super().__init__(
            model.denormalized(), run.state | {"table": table}, (low, high), run.seconds_optimal
        )
        self.run = run

    @property
    def units(self) -> str:
        """What numbers are in."""
        return "user units" if self.run.units else ""

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
        """Not here: learning needs the normalised model."""
        self._refuse("session")

    def more(self, episodes: int) -> Run:
        """Not here."""
        self._refuse("more")

    def replay(self, observer: Observer) -> None:
        """Not here."""
        self._refuse("replay")

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Not here: a run is saved in the units in which it goes on."""
        self._refuse("save")

    def checkpoint(self, folder: str | Path) -> Path:
        """Not here either."""
        self._refuse("checkpoint")

    def _refuse(self, what: str) -> NoReturn:
        raise ModelError(f"{what} needs the run itself; this is its reading in user units (.run)")
