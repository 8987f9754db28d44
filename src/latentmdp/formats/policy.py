"""Policies in files: JSON and npz hold any graph, CSV (`step, state, action`) a Markov policy.

A stationary policy has the value `stationary`; in CSV it has no column `step`.
"""

from typing import Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.formats.archive import read_npz, write_npz
from latentmdp.formats.json import as_lists
from latentmdp.formats.schema import Fields
from latentmdp.formats.tables import CsvTable
from latentmdp.policy.graph import POLICY_PARTS, PolicyGraph
from latentmdp.runtime.files import PathLike, write_atomically, writer_of
from latentmdp.runtime.strict_json import read_json, write_json

POLICY_FORMAT = "latentmdp policy"
COPIES = 6  # a table becomes nodes, steps, states, successors and numbers; checks take a few more
LARGEST_NUMBER = 2**31  # no policy that fits into memory has larger ones


def policy_document(policy: PolicyGraph) -> dict[str, Any]:
    """The named values of a policy: a plain `table (H, S)` if that is enough, else the graph."""
    document: dict[str, Any] = {"format": POLICY_FORMAT}
    if policy.stationary:
        document["stationary"] = True
    if policy.is_markov and policy == PolicyGraph.from_table(policy.table, policy.stationary):
        return document | {"table": policy.table}
    return document | {name: getattr(policy, name) for name in POLICY_PARTS}


def document_policy(values: dict[str, Any]) -> PolicyGraph:
    """The policy that a document describes, checked."""
    fields = Fields(values, ("format", "table", "stationary", *POLICY_PARTS))
    if "P" in fields or "prob" in fields:
        raise ModelError("holds a model; a policy was asked for")
    if "format" in fields and fields.text("format") != POLICY_FORMAT:
        raise ModelError(f"holds {fields.text('format')[:80]!r}; a policy was asked for")
    stationary = "stationary" in fields and fields.truth("stationary")
    if "table" in fields:
        return PolicyGraph.from_table(_small(fields, "table"), stationary)
    parts = [_small(fields, name) for name in POLICY_PARTS]
    policy = PolicyGraph.from_arrays(*parts, stationary=stationary)
    if policy.N * policy.S * (1 + int(policy.symbol.max(initial=0))) >= 2**62:
        raise ModelError(f"symbol must be small numbers; found {policy.symbol.max()}")
    return policy


def _small(fields: Fields, name: str) -> np.ndarray:
    values = fields.wholes(name)
    if (values >= LARGEST_NUMBER).any():
        raise ModelError(f"{name} must stay below 2^31; found {values.max()}")
    return values


def load_policy_npz(path: PathLike) -> PolicyGraph:
    """A policy from npz."""
    return document_policy(read_npz(path, COPIES))


def save_policy_npz(policy: PolicyGraph, path: PathLike) -> None:
    """A policy to npz, compressed; 32 bits are enough for every number."""
    document = policy_document(policy)
    arrays = {key: x for key, x in document.items() if key not in ("format", "stationary")}
    small = {key: value.astype(np.int32) for key, value in arrays.items()}
    write_npz(path, document | small, level=1, copies=COPIES)


def load_policy_json(path: PathLike) -> PolicyGraph:
    """A policy from JSON."""
    return document_policy(read_json(path))


def save_policy_json(policy: PolicyGraph, path: PathLike) -> None:
    """A policy to JSON."""
    write_json(path, as_lists(policy_document(policy)))


def load_policy_csv(path: PathLike) -> PolicyGraph:
    """A Markov policy from columns `step, state, action`, one line for each step and state.

    Without a column `step` it is stationary.
    """
    table = CsvTable(path, {name: name for name in ("step", "state", "action")}, ("step",))
    state, action = (table.wholes(name, below=LARGEST_NUMBER) for name in ("state", "action"))
    step = table.wholes("step", below=LARGEST_NUMBER) if "step" in table else np.zeros_like(state)
    H, S, lines = 1 + int(step.max()), 1 + int(state.max()), len(state)
    if lines != H * S or len(np.unique(step * S + state)) != lines:
        raise ModelError(
            f"each step and state must have one line, {H} x {S} by the largest numbers found; "
            f"there are {lines} lines"
        )
    actions = np.empty((H, S), dtype=np.int64)
    actions[step, state] = action
    return PolicyGraph.from_table(actions, stationary="step" not in table)


def save_policy_csv(policy: PolicyGraph, path: PathLike) -> None:
    """A Markov policy as a table; one with memory is refused."""
    if not policy.is_markov:
        raise ModelError("CSV holds Markov policies only, this one has memory; use .json or .npz")
    steps = not policy.stationary
    lines = ["step," * steps + "state,action\n"]
    for (t, s), a in np.ndenumerate(policy.table):
        lines.append(f"{t}," * steps + f"{s},{a}\n")
    text = "".join(lines).encode("ascii")
    write_atomically(path, writer_of(text))
