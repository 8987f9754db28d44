"""Which policies of a run the page gets, and in what form.

A run does not keep the policies of all its phases. Those of the chosen phases come from
`run.phases` (`learn(..., audit=True)`) or from playing the run again, which gives the same bits.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.model import LatentMDP
from latentmdp.policy import PolicyGraph
from latentmdp.report.encode import unit, whole
from latentmdp.report.optimistic import optimistic_actions

if TYPE_CHECKING:
    from latentmdp.learning.run import Run
    from latentmdp.learning.session import Phase

LARGE = 20_000  # nodes and successors; a larger policy keeps only what the true model can reach


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


def run_phases(run: "Run", count: int) -> list[dict[str, Any]]:
    """The chosen phases of a run for the explorer; `count` 0 or 1 is the last policy alone."""
    table = run.state["table"]
    if len(table["episode"]) == 0:
        return []
    wanted = choose_phases(table["episode"], table["value"], max(count, 1))
    if len(wanted) == 1 and run.phases is None:
        return [_last(run, len(table["episode"]))]
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
    return [found[i] for i in sorted(found)]


def phase_data(run: "Run", phase: "Phase", number: int) -> dict[str, Any]:
    """One phase: where it lies, its policy, what was known, what the learner hoped for."""
    policy = slim(run.model, phase.policy)
    data: dict[str, Any] = {
        "number": number,
        "episode": phase.episode,
        "length": phase.length,
        "value": phase.value,
        "optimistic": phase.optimistic_value,
        "policy": policy_data(policy),
        "visits": visit_powers(phase.counts.N),
    }
    hoped = optimistic_actions(run, phase.counts, policy)
    if hoped is not None:
        data["hoped"] = unit(hoped)
    return data


def _last(run: "Run", phases: int) -> dict[str, Any]:
    """The policy in force at the end: no need to play the run again."""
    learner = run.session().learner
    table = run.state["table"]
    policy = slim(run.model, learner.policy)
    data: dict[str, Any] = {
        "number": phases - 1,
        "episode": int(table["episode"][-1]),
        "length": int(table["length"][-1]),
        "value": run.final_value,
        "optimistic": learner.optimistic_value,
        "policy": policy_data(policy),
        "visits": visit_powers(learner.counts.N),
    }
    hoped = optimistic_actions(run, learner.counts, policy)
    if hoped is not None:
        data["hoped"] = unit(hoped)
    return data


def plan_phase(model: LatentMDP, policy: PolicyGraph, value: float) -> dict[str, Any]:
    """A planned policy as the only phase of an entry of its own."""
    return {"number": 0, "value": value, "policy": policy_data(slim(model, policy))}


def slim(model: LatentMDP, policy: PolicyGraph) -> PolicyGraph:
    """Pruned; a large policy with memory also of what the true model cannot show."""
    if policy.is_markov:
        return policy
    policy = policy.prune()
    if policy.N + len(policy.node) > LARGE:
        policy = policy.prune(model)
    if policy.N + len(policy.node) <= 10 * LARGE:
        policy = policy.merge()
    return policy


def policy_data(policy: PolicyGraph) -> dict[str, Any]:
    """The graph's arrays; a Markov policy's table alone."""
    if policy.is_markov:
        return {"table": whole(policy.table)}
    return {
        "step": whole(policy.step),
        "state": whole(policy.state),
        "action": whole(policy.action),
        "degree": whole(np.diff(policy.indptr)),
        "symbol": whole(policy.symbol),
        "next": whole(policy.next),
        "node": whole(policy.node),
        "root": whole(policy.root),
        "default": whole(policy.default),
    }


def visit_powers(snapshot: np.ndarray) -> str:
    """Snapshot counts are 0 or a power of two: 0, or 1 + the power, in a byte per row."""
    power = np.zeros(len(snapshot), dtype=np.int64)
    seen = snapshot > 0
    power[seen] = np.log2(snapshot[seen]).astype(np.int64) + 1
    return whole(power)
