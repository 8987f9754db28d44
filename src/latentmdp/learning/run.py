"""`Run`: the result of learning; one row per phase, regret with its bracket, saved as a folder.

The regret curve is piecewise linear: within a phase every episode loses the same. Values of
policies, and so differences of regret, are exact; its level is known up to the optimum's gap.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Array
from latentmdp.errors import ModelError
from latentmdp.learning.regret import RegretBracket, open_gap
from latentmdp.learning.saved.folder import make_folder, read_run, refuse_other, write_run
from latentmdp.learning.saved.state import State, refusing_misfits
from latentmdp.learning.session import Observer, Session
from latentmdp.learning.solvers import Answer
from latentmdp.learning.spec import RunSpec
from latentmdp.optimism.settings import SearchEffort
from latentmdp.runtime.files import as_path, shown, writer_of
from latentmdp.runtime.strict_json import json_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from latentmdp.learning.units import RunInUserUnits
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.policy.graph import PolicyGraph


class Run:
    """The result of `learn`.

    `optimal` brackets the optimum of the policy class, `(lower, upper)`; `regret` is measured
    against the best known value: the bracket's lower end, or a phase's own policy if it is better.
    `regret_bounds` also has the other end, and `regret_bracket.text()` says both in words.
    `history_value`: what a policy with memory is worth, where one is known that is worth more than
    any policy of the class.
    """

    def __init__(
        self,
        model: LatentMDP,
        state: State,
        optimal: tuple[float, float],
        seconds_optimal: float,
        history_value: float | None = None,
    ) -> None:
        self.model, self.optimal = model, (float(optimal[0]), float(optimal[1]))
        self.state = state
        self.seconds_optimal = seconds_optimal
        self.history_value = history_value
        self.phases: list[Any] | None = None  # kept by `learn(..., audit=True)`
        self._file: Path | None = None  # where it was read from, for refusals

    def __getstate__(self) -> dict[str, Any]:
        """All but the session, which holds addresses and is made again from the state."""
        return {name: value for name, value in self.__dict__.items() if name != "_session"}

    # ------------------------------------------------------------------ numbers

    @property
    def units(self) -> str:
        """What numbers are in: `normalised units`, or nothing where rewards are as given."""
        return self.model.units

    @property
    def in_model_units(self) -> Run:
        """The run in the units of its model, in which it learns."""
        return self

    @property
    def itself(self) -> Run:
        """The old name of `in_model_units`."""
        warnings.warn("run.itself is now run.in_model_units", DeprecationWarning, stacklevel=2)
        return self.in_model_units

    @property
    def folder(self) -> Path | None:
        """Where it was loaded from, if it was."""
        return None if self._file is None else self._file.parent

    def in_user_units(self) -> RunInUserUnits:
        """The run for reading in the units of the rewards before `normalized()`."""
        from latentmdp.learning.units import RunInUserUnits  # which is a Run itself

        return RunInUserUnits(self)

    @property
    def spec(self) -> RunSpec:
        """What was asked for."""
        return RunSpec(**self.state["spec"])

    @property
    def settings(self) -> dict[str, Any]:
        """How hard its solver searched: the numbers of `SearchEffort`."""
        return dict(self.state["learner"]["settings"])

    @property
    def episodes(self) -> int:
        """Episodes played so far."""
        return int(self.state["done"])

    @property
    def complete(self) -> bool:
        """Whether all episodes asked for have been played (False after an interrupt)."""
        return self.episodes == int(self.state["targets"][-1])

    @property
    def updates(self) -> int:
        """Policy updates so far: episodes that triggered."""
        return int(self.state["learner"]["updates"])

    @property
    def kept(self) -> int:
        """Updates after which the policy in force stayed, being the solver's answer again."""
        return int(self.state["learner"]["kept"])

    @property
    def policy(self) -> PolicyGraph:
        """The policy in force at the end."""
        return self._session.learner.policy.for_model(self.model)

    @property
    def final_value(self) -> float:
        """Exact value of `policy` in the model."""
        return self._session.value

    @property
    def best_value(self) -> float:
        """The best value of the class that is known: what regret is measured against."""
        return max(self.optimal[0], float(self.state["table"]["value"].max(initial=-np.inf)))

    @property
    def open_gap(self) -> float:
        """By how much the optimum may exceed `best_value`; 0 where it is closed."""
        return open_gap(self.best_value, self.optimal[1], self.largest_value)

    @property
    def largest_value(self) -> float:
        """The largest total of an episode, without its sign: what rounding is relative to."""
        return max(abs(self.model.min_return), abs(self.model.max_return))

    @property
    def regret(self) -> float:
        """`sum_k (V* - V^{pi_k})` against `best_value`: the lower end of `regret_bounds`."""
        return self.regret_bounds[0]

    @property
    def regret_bounds(self) -> tuple[float, float]:
        """The bracket: regret against `best_value`, and against the optimum's upper bound."""
        return self._regret(self.best_value), self._regret(max(self.optimal[1], self.best_value))

    @property
    def regret_bracket(self) -> RegretBracket:
        """The bracket for people: its ends are equal where the optimum is closed."""
        regret = self.regret
        return RegretBracket(regret, regret + self.open_gap * self.episodes)

    @property
    def notes(self) -> list[str]:
        """What to know when reading the regret, a sentence each; empty where all is closed."""
        found = []
        if self.regret_bracket.wide:
            found.append(
                "The bracket of the regret is wider than a tenth of it: the optimum is only known "
                f"to lie between {self.best_value:.6g} and {self.best_value + self.open_gap:.6g} "
                "(optimal= takes a plan with a smaller gap)."
            )
        if self.history_value is not None:
            found.append(
                f"With memory, at least {self.history_value:.6g} can be reached "
                '(policy_class="history", --class history).'
            )
        return found

    def _regret(self, optimum: float) -> float:
        table = self.state["table"]
        return float(np.sum(table["length"] * (optimum - table["value"])))

    @property
    def seconds_planning(self) -> float:
        """Time in the solver."""
        return float(self.state["seconds"]["planning"])

    @property
    def seconds_simulation(self) -> float:
        """Time in the simulator, exact evaluation of every phase's policy included."""
        return float(self.state["seconds"]["simulation"])

    @property
    def seconds(self) -> float:
        """Time of learning; finding the optimum to compare with is timed apart."""
        return self.seconds_planning + self.seconds_simulation

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per phase.

        `episode` (the first, from 1), `length`, `value` (exact), `optimistic_value`, `planner_gap`,
        `updates` (cumulative, at the phase's end), `kept` (1 if the phase goes on with the policy
        of the one before it, which the update between them found to be its answer again), and
        `regret`, `regret_upper` (both ends of the bracket, cumulative, at the phase's end).
        """
        import pandas as pd  # loads slowly

        table = dict(self.state["table"])
        best, upper = self.best_value, max(self.optimal[1], self.best_value)
        table["regret"] = np.cumsum(table["length"] * (best - table["value"]))
        table["regret_upper"] = np.cumsum(table["length"] * (upper - table["value"]))
        return pd.DataFrame(table)

    def regret_at(self, episodes: Any) -> Array:
        """Cumulative regret after each of these numbers of episodes, against `best_value`."""
        table = self.state["table"]
        ends = np.concatenate([[0], np.cumsum(table["length"])])
        loss = np.cumsum(table["length"] * (self.best_value - table["value"]))
        return np.interp(episodes, ends, np.concatenate([[0.0], loss]))

    def regret_bounds_at(self, episodes: Any) -> tuple[Array, Array]:
        """The bracket of cumulative regret after each of these numbers of episodes."""
        lower = self.regret_at(episodes)
        return lower, lower + self.open_gap * np.asarray(episodes, dtype=np.float64)

    def summary(self) -> dict[str, Any]:
        """The run in one dictionary: what the command line prints."""
        return {
            "episodes": self.episodes,
            "updates": self.updates,
            "kept": self.kept,
            "regret": self.regret,
            "regret_lower": self.regret,
            "regret_upper": self.regret_bounds[1],
            "optimal_lower": self.optimal[0],
            "optimal_upper": self.optimal[1],
            "history_value": self.history_value,
            "final_value": self.final_value,
            "bonus_scale": self.spec.bonus_scale,
            "units": self.units,
            "complete": self.complete,
            "seconds_planning": self.seconds_planning,
            "seconds_simulation": self.seconds_simulation,
            "seconds_optimal": self.seconds_optimal,
        }

    def _repr_html_(self) -> str:
        """For notebooks, in a person's own units: the result, and regret with its bracket."""
        from latentmdp.tables import notebook

        if self.model.units:
            return self.in_user_units()._repr_html_()
        spec = self.spec
        facts = (
            ("algorithm", spec.algorithm), ("class", spec.policy_class),
            ("episodes", self.episodes), ("updates", self.updates),
            ("regret", self.regret_bracket.text()),
            ("optimum", f"{self.optimal[0]:.6g} to {self.optimal[1]:.6g}"),
            ("final value", self.final_value), ("bonus_scale", spec.bonus_scale),
            ("units", self.units or "as given"),
        )  # fmt: skip
        places = np.linspace(0.0, self.episodes, 200)
        low, high = self.regret_bounds_at(places)
        band = (low.tolist(), high.tolist()) if self.open_gap else None
        line = (notebook.BLUE, low.tolist())
        picture = notebook.curves(places.tolist(), [line], "regret, episodes", band)
        notes = "".join(f"<div>{notebook.text(note)}</div>" for note in self.notes)
        return notebook.page("Run", notebook.facts(facts), notes, picture)

    def __repr__(self) -> str:
        spec = self.spec
        in_units = f" in {self.units}" if self.units else ""
        if self.regret_bracket.wide:
            best, upper = self.best_value, self.best_value + self.open_gap
            in_units += f" (wide: the optimum is between {best:.6g} and {upper:.6g})"
        return (
            f"Run({spec.algorithm}, {spec.policy_class}, {self.episodes} episodes, "
            f"{self.updates} updates, regret {self.regret_bracket.text()}{in_units}, bonus_scale "
            f"{spec.bonus_scale:g})"
        )

    # ------------------------------------------------------------------ going on

    @cached_property
    def _session(self) -> Session:
        """A session at the run's end, for reading: if it went on, it would not fit the state."""
        return self.session()

    def session(self) -> Session:
        """A session that continues from here."""
        with refusing_misfits(self._file, "run"):
            return Session.from_state(self.model, self.state)

    def more(self, episodes: int) -> Run:
        """A longer run, continued from the end of this one, which stays as it is.

        The logarithmic term keeps the number of episodes that was planned first: the theorem's
        promise is for those.
        """
        if episodes < 1:
            raise ModelError(f"episodes must be at least 1; it is {episodes!r}")
        session = self.session()
        session.extend(episodes)
        while session.done < session.target:
            session.next_phase()
        return Run(
            self.model, session.state(), self.optimal, self.seconds_optimal, self.history_value
        )

    def replay(self, observer: Observer) -> None:
        """Run again from the recorded spec, to the same bits, showing each phase to `observer`.

        Refused where the bits are not the same, as with runs of another version of the package.
        """
        oracle = Answer(self.policy, *self.optimal)
        settings = SearchEffort.from_record(self.settings)
        session = Session(self.model, self.spec, oracle, settings)
        for target in self.state["targets"]:
            session.targets.append(target)
            while session.done < min(target, self.episodes):
                session.next_phase(observer)
        self._check_replayed(session.table())

    def _check_replayed(self, again: dict[str, Array]) -> None:
        recorded = self.state["table"]
        for name, column in again.items():
            same = column[: len(recorded[name])] == recorded[name][: len(column)]
            if len(column) != len(recorded[name]) or not same.all():
                phase = int(np.argmin(same)) if not same.all() else len(same)
                raise ModelError(
                    "a run must repeat to the bit to be looked at again; this one was recorded by "
                    f"another version of latentmdp (or elsewhere) and has another {name} from "
                    f"phase {phase} on; learn it again"
                )

    # ------------------------------------------------------------------ files, figures

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Write `model.npz`, `run.npz` (everything), and for people `run.json`, `table.csv`.

        All of them or none. A folder that holds another run, or more of this one, is left as it is
        unless `overwrite` says otherwise.
        """
        place = make_folder(folder)
        if not overwrite:
            refuse_other(place, self.model, self.state["spec"], self.state)
        words = json_text({**self.state["spec"], **self.summary()}).encode()
        write_run(
            place,
            self.model,
            self._whole_state(),
            {
                "table.csv": lambda file: self.table.to_csv(file, index=False),
                "run.json": writer_of(words),
            },
        )

    def checkpoint(self, folder: str | Path) -> Path:
        """Write what `load_run` needs into the run's own folder, whatever that holds.

        Also if the process is killed, a whole checkpoint is there.
        """
        place = make_folder(folder)
        write_run(place, self.model, self._whole_state())
        return place

    def _whole_state(self) -> State:
        known = {} if self.history_value is None else {"history_value": self.history_value}
        return self.state | known | {
            "optimal": list(self.optimal), "seconds_optimal": self.seconds_optimal,
            "model": self.model.digest,
        }  # fmt: skip

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Cumulative regret against episodes, both logarithmic; a band where `V*` is bracketed."""
        import matplotlib.pyplot as plt  # loads slowly

        if ax is None:
            ax = plt.subplots(layout="constrained")[1]
        ends = np.cumsum(self.state["table"]["length"])
        low, high = self.regret_bounds_at(ends)
        style = {"label": f"{self.spec.algorithm}, {self.spec.policy_class}"} | style
        (line,) = ax.plot(ends, low, **style)
        if self.open_gap:
            ax.fill_between(ends, low, high, alpha=0.2, color=line.get_color(), lw=0)
        label = f"regret ({self.units})" if self.units else "regret"
        ax.set(xscale="log", yscale="log", xlabel="episodes", ylabel=label)
        ax.legend()
        return ax


def load_run(folder: str | Path) -> Run:
    """A saved run, complete or interrupted."""
    place = as_path(folder)
    if not (place / "run.npz").exists():
        raise ModelError(f"{shown(place)} must be a run's folder; it has no run.npz")
    model, state, more = read_run(place)
    optimal, known = tuple(more["optimal"].tolist()), more.get("history_value")
    run = Run(model, state, optimal, more["seconds_optimal"], known)
    run._file = place / "run.npz"
    return run
