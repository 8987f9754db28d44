"""What a saved learner or run must hold, entry by entry, and how its entries must go together.

The checksum in a file shows that nothing was damaged, not that we have written it: anyone can
compute it. The solver checks its own part when it is restored (`optimism/saved_state.py`).
"""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.formats.schema import (
    LARGEST_WHOLE,
    STREAM,
    TEXT,
    NamedSizes,
    Table,
    fitting,
    number,
    refuse_where,
    truth,
    whole,
)
from latentmdp.learning.knowledge import ESTIMABLE
from latentmdp.learning.spec import RunSpec
from latentmdp.model.availability import checked_mask
from latentmdp.optimism.given import Given
from latentmdp.optimism.settings import SearchEffort
from latentmdp.policy.graph import POLICY_PARTS

if TYPE_CHECKING:
    from latentmdp.learning.saved.state import State
    from latentmdp.model.latent_mdp import LatentMDP

TOTAL = 1.0 + 1e-6  # of an episode, rounding included

CHOICE: Table = {
    "algorithm": TEXT, "episodes": whole(low=1, high=2**53), "policy_class": TEXT,
    "delta": number(), "bonus_scale": number(), "ties": TEXT,
}  # fmt: skip

KNOWN: Table = {
    "M": whole(low=1), "S": whole(low=1), "A": whole(low=1), "H": whole(low=1),
    "w": number("M", low=0.0, high=TOTAL), "nu": number("M", "S", low=0.0, high=TOTAL),
    # totals are at most 1 where episodes can lead; rewards elsewhere may be larger
    "row_reward": number("rows", low=0.0), "row_symbol": whole("rows", below="M"),
    "next_reward": number("rows", "S", low=0.0, optional=True),
    "next_symbol": whole("rows", "S", below="M", optional=True),
    "allowed": truth("S", "A", optional=True),
}  # fmt: skip

COUNTS: Table = {
    "shape": whole(3), "indptr": whole("row ends", high=LARGEST_WHOLE),
    "next": whole("slots", below="S"),
    "n": whole("rows"), "n_next": whole("slots"), "N": whole("rows"), "N_next": whole("slots"),
}  # fmt: skip

POLICY: Table = {  # what else must hold, `PolicyGraph.from_arrays` checks
    **{name: whole("nodes") for name in ("step", "state", "action")}, "indptr": whole("node ends"),
    "symbol": whole("successors", below="M"), "next": whole("successors"),
    "node": whole("successors"),
    "root": whole("S"), "default": whole("H", "S"),
}  # fmt: skip

LEARNER: Table = {
    "choice": CHOICE, "random": STREAM, "episode": whole(low=1, high=LARGEST_WHOLE),
    "updates": whole(high=LARGEST_WHOLE), "kept": whole(high=LARGEST_WHOLE),
    "optimistic_value": number(), "upper": number(),
    "at": whole(below="S", optional=True), "node": whole(below="nodes", optional=True),
}  # fmt: skip

RUN: Table = {
    "simulation": STREAM, "targets": whole("targets", low=1, high=LARGEST_WHOLE),
    "done": whole(high=LARGEST_WHOLE), "pending": whole(high=LARGEST_WHOLE), "stayed": truth(),
    "seconds": {"planning": number(low=0.0), "simulation": number(low=0.0)},
    "spec": {**CHOICE, "seed": whole(), "simulator": TEXT},
    "table": {
        "episode": whole("phases", low=1), "length": whole("phases", low=1),
        "value": number("phases", low=0.0, high=TOTAL),
        "optimistic_value": number("phases"), "planner_gap": number("phases"),
        "updates": whole("phases"), "kept": whole("phases", below=2),
    },
}  # fmt: skip

FOLDER: Table = {
    "optimal": number(2), "seconds_optimal": number(low=0.0), "model": TEXT,
    "history_value": number(optional=True),
}  # fmt: skip


# ---------------------------------------------------------------------- learners


def checked_learner(state: Any, where: str = "") -> State:
    """A learner's state that can be trusted, but for its solver's."""
    if not isinstance(state, dict) or not isinstance(state.get("knowledge"), dict):
        raise ModelError(f"'{where}knowledge' must be there; it is missing")
    SearchEffort.from_record(state.get("settings"))  # refuses what is none
    known, sizes = _known(state["knowledge"].get("known"), f"{where}knowledge.known.")
    estimate, seen = _estimated(state["knowledge"], known)
    sizes["seen"], sizes["seen S"] = seen
    found = fitting(
        state,
        {
            "counts": COUNTS,
            "policy": POLICY,
            "knowledge": {"starts": whole("M", "S"), "seen": truth("seen", "seen S")},
            "solver": {},
            **LEARNER,
        },
        sizes,
        where,
    )
    found["knowledge"] |= {"known": known, "estimate": estimate}
    check_counts(found["counts"], known)
    if found["kept"] > found["updates"]:
        raise ModelError(f"{where}kept must be at most updates; it is {found['kept']}")
    begun = found["episode"] - 1 if estimate else 0
    if int(found["knowledge"]["starts"].sum(dtype=object)) != begun:
        raise ModelError(f"knowledge.starts must sum to {begun}, the episodes seen; it does not")
    if "path" in state:
        found["path"] = _path(state["path"], found, known)
    return found | {name: state.get(name) for name in ("kind", "solver", "settings")}


def _known(state: Any, where: str) -> tuple[dict[str, Any], NamedSizes]:
    """What is taken as known, and the sizes that everything else must have."""
    names = ("M", "S", "A", "H")
    sizes: NamedSizes = fitting(state, {name: KNOWN[name] for name in names}, {}, where)
    sizes["rows"] = sizes["M"] * sizes["S"] * sizes["A"]
    sizes["row ends"] = sizes["rows"] + 1
    known = fitting(state, KNOWN, sizes, where)
    for name in ("w", "nu"):
        total = np.abs(known[name].sum(axis=-1) - 1.0)
        refuse_where(np.atleast_1d(total > 1e-6), where + name, "must sum to 1")
    if ("next_reward" in known) != ("next_symbol" in known):
        raise ModelError(f"{where}next_reward and next_symbol must be there together")
    checked_mask(known.get("allowed"), known["S"], known["A"])
    return known, sizes


def _estimated(state: dict[str, Any], known: dict[str, Any]) -> tuple[list[str], tuple[int, int]]:
    """The names of what is estimated, and the shape of the record of rewards seen."""
    names = state.get("estimate")
    if not isinstance(names, list) or names != [name for name in ESTIMABLE if name in names]:
        raise ModelError(f"knowledge.estimate must name some of {', '.join(ESTIMABLE)}, in order")
    if "R" not in names:
        return names, (0, 0)
    return names, known.get("next_reward", known["row_reward"][:, None]).shape


def check_counts(counts: dict[str, np.ndarray], known: dict[str, Any]) -> None:
    """Rows in order, each next state once, and sums that agree; no more snapshot than visits."""
    start, nxt = counts["indptr"], counts["next"]
    if counts["shape"].tolist() != [known["M"], known["S"], known["A"]]:
        raise ModelError("counts.shape must be that of knowledge.known; it is not")
    if start[0] != 0 or start[-1] != len(nxt) or (np.diff(start) < 0).any():
        raise ModelError(f"counts.indptr must rise from 0 to {len(nxt)}")
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    if len(np.unique(row * known["S"] + nxt)) < len(nxt):
        raise ModelError("counts.next must have each next state once in a row; one is there twice")
    for name in ("n", "N"):
        whole_sum = np.zeros_like(counts[name])
        np.add.at(whole_sum, row, counts[f"{name}_next"])
        rough = np.bincount(row, counts[f"{name}_next"], minlength=len(whole_sum))  # no overflow
        wrong = (whole_sum != counts[name]) | (rough > 1.01 * LARGEST_WHOLE)
        refuse_where(wrong, f"counts.{name}", f"must be the sum of its {name}_next")
    refuse_where(counts["N_next"] > counts["n_next"], "counts.N_next", "must be at most n_next")


def _path(path: Any, learner: dict[str, Any], known: dict[str, Any]) -> list[Any]:
    """The steps of the episode under way; the policy must be where they lead."""
    S, A, H = (known[name] for name in ("S", "A", "H"))
    table: Table = {
        "state": whole(below=S), "action": whole(below=A), "reward": number(low=0.0, high=TOTAL),
        "next": whole(below=S),
    }  # fmt: skip
    if not isinstance(path, list) or len(path) > H or "at" not in learner or "node" not in learner:
        raise ModelError(f"path must have at most {H} steps, and at and node must go with it")
    steps: list[Any] = []
    for i, step in enumerate(path):
        if not isinstance(step, (list, tuple)) or len(step) != 4:
            raise ModelError(f"path[{i}] must be state, action, reward and next state")
        taken = fitting(dict(zip(table, step, strict=True)), table, {}, f"path[{i}].")
        steps.append(tuple(taken.values()))
    places = [step[0] for step in steps] + [learner["at"]]
    if any(step[3] != after for step, after in zip(steps, places[1:], strict=True)):
        raise ModelError("path must go on where the step before has led; it does not")
    policy, node = learner["policy"], learner["node"]
    step = min(len(steps), H - 1)
    if policy["step"][node] != step or policy["state"][node] != places[step]:
        raise ModelError(f"node must be one of step {step} and state {places[step]}; it is not")
    return steps


# ---------------------------------------------------------------------- runs


def checked_run(state: Any, model: LatentMDP) -> State:
    """A run's state that can be trusted, but for its solver's; it is a run of this model."""
    found = fitting(state, {**RUN, "learner": {}}, {})
    learner = found["learner"] = checked_learner(state["learner"], "learner.")
    found["targets"] = found["targets"].tolist()
    if RunSpec(**found["spec"]).for_learner() != learner["choice"]:
        raise ModelError("spec must be what the learner's choice is; it is not")
    _check_same_model(learner, model)
    _check_table(found)
    _check_snapshots(learner["counts"], (found["done"] + found["pending"]) * model.H)
    return found | {"kind": state.get("kind")}


def checked_folder(state: State) -> dict[str, Any]:
    """What a run's file holds besides its state."""
    found = fitting(state, FOLDER, {})
    if found["optimal"][0] > found["optimal"][1]:
        raise ModelError("optimal must be (lower, upper) with lower <= upper; it is not")
    return found


def _check_same_model(learner: State, model: LatentMDP) -> None:
    """The learner knows this model and counts its outcomes: the simulator writes them by place."""
    known, counts = Given.of(model), learner["counts"]
    saved = learner["knowledge"]["known"]
    for name in (field.name for field in fields(Given)):
        if not np.array_equal(getattr(known, name), saved.get(name), equal_nan=False):
            raise ModelError(f"learner.knowledge.known.{name} must be the model's; it is not")
    for name in ("indptr", "next"):
        if not np.array_equal(counts[name], getattr(model, name)):
            raise ModelError(f"learner.counts.{name} must be laid out as the model; it is not")


def _check_table(run: dict[str, Any]) -> None:
    """Phases follow one another, and all of them are the episodes that were played."""
    table, targets = run["table"], run["targets"]
    length, played = table["length"], run["done"] + run["pending"]
    if not targets or any(b <= a for a, b in pairwise(targets)):
        raise ModelError("targets must rise; they do not")
    if targets[-1] * len(run["learner"]["policy"]["default"]) >= LARGEST_WHOLE:
        raise ModelError("targets times the horizon must stay below 2^62; they do not")
    if played > targets[-1]:
        raise ModelError(f"done and pending must be at most {targets[-1]}; they are {played}")
    if run["pending"] and (run["spec"]["simulator"] != "episodes" or run["done"] == 0):
        raise ModelError("pending must be 0: only the step simulator stops, after a first update")
    if (length > played).any() or int(length.sum()) != run["done"]:
        raise ModelError(f"table.length must sum to done, {run['done']}; it does not")
    first = 1 + np.cumsum(length) - length
    refuse_where(table["episode"] != first, "table.episode", "must be the phase's first")
    updates = run["learner"]["updates"]
    if updates > len(length):
        raise ModelError(f"learner.updates must be at most {len(length)}, one for each phase")
    if (np.diff(table["updates"]) < 0).any() or int(table["updates"].max(initial=0)) > updates:
        raise ModelError(f"table.updates must rise to at most {updates}; it does not")
    if run["learner"]["episode"] > run["done"] + 1:
        raise ModelError(f"learner.episode must be at most {run['done'] + 1}; it is larger")


def _check_snapshots(counts: dict[str, np.ndarray], steps: int) -> None:
    """Alg. 1: the snapshot of a row is taken whenever its visits are a power of two."""
    n, N = counts["n"], counts["N"]
    largest = np.where(n > 0, 2 ** np.floor(np.log2(np.maximum(n, 1))), 0)
    refuse_where(largest != N, "learner.counts.N", "must be the largest power of two up to n")
    if int(n.sum(dtype=object)) != steps:
        raise ModelError(f"learner.counts.n must sum to {steps}, the steps played; it does not")


assert tuple(POLICY) == POLICY_PARTS
