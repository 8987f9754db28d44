"""Which policies of a run the page gets, and in what form.

A run does not keep the policies of all its phases. Those of the chosen phases come, in this order,
from `run.phases` (`learn(..., audit=True)`), from a file that `save_phases` left in the run's
folder, or from playing the run again, which gives the same bits.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.time_augmented import step_dependent
from latentmdp.policy.graph import PolicyGraph, fitted
from latentmdp.policy.time_augmented import kept_nodes
from latentmdp.report.encode import pack_unit, pack_whole
from latentmdp.report.optimistic import optimistic_actions
from latentmdp.report.stored_phases import EXPLORER_FILE, identity, load_phases, policy_data
from latentmdp.runtime.strict_json import write_json

if TYPE_CHECKING:
    from latentmdp.learning.run import Run
    from latentmdp.learning.session import Phase
    from latentmdp.model.counts import Counts

PER_DECADE = 8  # phases that a collector keeps for each factor of ten in episodes
LARGE_POLICY = 20_000  # nodes and successors; a larger one keeps what the true model can reach


def choose_phases(episode: np.ndarray, value: np.ndarray, count: int) -> list[int]:
    """At most `count` phases: first, last, and between them evenly in log(episode) and in value.

    >>> choose_phases(np.array([1, 2, 3, 5, 9, 100]), np.zeros(6), 3)
    [0, 4, 5]
    """
    last = len(episode) - 1
    if last < count:
        return list(range(last + 1))
    if count == 1:
        return [last]
    time = np.log(episode) / max(np.log(episode[-1]), 1e-300)
    change = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(value)))])
    place = time + change / max(change[-1], 1e-300)
    wanted = np.linspace(0.0, place[-1], count)
    chosen = {0, last, *np.searchsorted(place, wanted[1:-1]).tolist()}
    while len(chosen) < count:  # fill the widest gaps in time
        kept = sorted(chosen)
        gaps = [(time[b] - time[a], a, b) for a, b in pairwise(kept) if b > a + 1]
        _, a, b = max(gaps)
        middle = a + 1 + int(np.searchsorted(time[a + 1 : b], (time[a] + time[b]) / 2))
        chosen.add(min(middle, b - 1))
    return sorted(chosen)


def run_phases(run: "Run", count: int, folder: Path | None = None) -> list[dict[str, Any]]:
    """The chosen phases of a run for the explorer; `count` 0 or 1 is the last policy alone."""
    table = run.state["table"]
    if len(table["episode"]) == 0:
        return []
    ahead = [policy_ahead(run)] if policy_ahead_exists(run) else []
    played = max(count - len(ahead), 0)
    if played == 0 and ahead:
        return ahead
    if count <= 1 and run.phases is None:
        return [_in_force(run, len(table["episode"]) - 1)]
    stored = load_phases(run, folder) if run.phases is None and folder is not None else None
    if stored is not None:
        return [*_some(stored, max(played, 1)), *ahead]
    wanted = choose_phases(table["episode"], table["value"], max(played, 1))
    found: dict[int, dict[str, Any]] = {}
    number = 0

    def keep(phase: "Phase") -> None:
        nonlocal number
        if number in wanted:
            found[number] = phase_data(run, phase, number)
        number += 1

    if run.phases is not None:
        for phase in run.phases:
            keep(phase)
    else:
        run.replay(keep)
    return [*(found[i] for i in sorted(found)), *ahead]


def policy_ahead_exists(run: "Run") -> bool:
    """Whether the last episode brought an update: then the policy in force was never played."""
    return run.updates == len(run.state["table"]["episode"])


def policy_ahead(run: "Run") -> dict[str, Any]:
    """The policy that the next episode would be played with, as a phase of length 0."""
    ahead = _in_force(run, len(run.state["table"]["episode"]))
    return ahead | {"episode": run.episodes + 1, "length": 0}


class Collector:
    """An observer of a run under way: keeps some phases in each decade of episodes, and the last.

    `session.next_phase(collector)` or `run.replay(collector)`; then `save_phases(run, folder,
    collector.phases)` for `write_report`.
    """

    def __init__(self) -> None:
        self._kept: list[Phase] = []
        self._last: Phase | None = None
        self._next = 1.0

    def __call__(self, phase: "Phase") -> None:
        """Look at a finished phase."""
        kept = phase.kept()
        if phase.episode >= self._next:
            self._kept.append(kept)
            self._next = max(phase.episode, self._next) * 10 ** (1 / PER_DECADE)
            self._last = None
        else:
            self._last = kept

    @property
    def phases(self) -> "list[Phase]":
        """What was kept, in order."""
        return self._kept if self._last is None else [*self._kept, self._last]


def save_phases(
    run: "Run", folder: str | Path, phases: "Sequence[Phase] | None" = None, count: int = 24
) -> Path:
    """Leave phases for the explorer in a run's folder, so that a report need not rerun it.

    `phases` are a collector's; without them `run.phases`, or a rerun.
    """
    if phases is None:
        data = [phase for phase in run_phases(run, count + 1) if phase["length"] > 0]
    else:
        first = run.state["table"]["episode"]
        numbers = np.searchsorted(first, [phase.episode for phase in phases]).tolist()
        pairs = [(phase, n) for phase, n in zip(phases, numbers, strict=True)]
        chosen = choose_phases(
            np.array([p.episode for p in phases]), np.array([p.value for p in phases]), count
        )
        data = [phase_data(run, *pairs[i]) for i in chosen]
    path = Path(folder) / EXPLORER_FILE
    write_json(path, {"format": "latentmdp explorer", "of": identity(run), "phases": data})
    return path


def _some(phases: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    episode, value = (np.array([phase[key] for phase in phases]) for key in ("episode", "value"))
    return [phases[i] for i in choose_phases(episode, value, count)]


def phase_data(run: "Run", phase: "Phase", number: int) -> dict[str, Any]:
    """One phase: where it lies, its policy, what was known, what the learner hoped for."""
    place = {
        "number": number,
        "episode": phase.episode,
        "length": phase.length,
        "value": phase.value,
        "optimistic": phase.optimistic_value,
    }
    return place | _known(run, phase.policy, phase.counts)


def _in_force(run: "Run", number: int) -> dict[str, Any]:
    """The policy in force at the end: no need to play the run again."""
    learner = run.session().learner
    table = run.state["table"]
    place = {
        "number": number,
        "episode": int(table["episode"][-1]),
        "length": int(table["length"][-1]),
        "value": run.final_value,
        "optimistic": learner.optimistic_value,
    }
    return place | _known(run, learner.policy, learner.counts)


def _known(run: "Run", policy: PolicyGraph, counts: "Counts") -> dict[str, Any]:
    """A policy, and what was known and hoped for when it was chosen."""
    policy, seen = slim(run.model, policy), step_dependent(run.model)
    hoped = optimistic_actions(run, counts, policy)
    if seen is not run.model:
        hoped = None if hoped is None else hoped[kept_nodes(seen.S, policy)]
        policy = fitted(seen, policy)
    data = {"policy": policy_data(policy), "visits": visit_powers(counts.N)}
    return data if hoped is None else data | {"hoped": pack_unit(hoped)}


def plan_phase(model: LatentMDP, policy: PolicyGraph, value: float) -> dict[str, Any]:
    """A planned policy as the only phase of an entry of its own."""
    policy = fitted(step_dependent(model), slim(model, policy))
    return {"number": 0, "value": value, "policy": policy_data(policy)}


def slim(model: LatentMDP, policy: PolicyGraph) -> PolicyGraph:
    """Pruned; a large policy with memory also of what the true model cannot show."""
    if policy.is_markov:
        return policy
    policy = policy.prune()
    if policy.N + len(policy.node) > LARGE_POLICY:
        policy = policy.prune(model)
    if policy.N + len(policy.node) <= 10 * LARGE_POLICY:
        policy = policy.merge()
    return policy


def visit_powers(snapshot: np.ndarray) -> str:
    """Snapshot counts are 0 or a power of two: 0, or 1 + the power, in a byte per row."""
    power = np.zeros(len(snapshot), dtype=np.int64)
    seen = snapshot > 0
    power[seen] = np.log2(snapshot[seen]).astype(np.int64) + 1
    return pack_whole(power)
