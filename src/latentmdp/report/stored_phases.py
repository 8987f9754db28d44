"""Phases that `save_phases` left in a run's folder, read back and checked against the run."""

import base64
import binascii
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.formats.schema import Table, fitting, number, whole
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.time_augmented import step_dependent
from latentmdp.policy.graph import POLICY_PARTS, PolicyGraph, check_fits
from latentmdp.report.encode import WIDTHS, pack_whole
from latentmdp.runtime.files import refusal
from latentmdp.runtime.strict_json import read_json

if TYPE_CHECKING:
    from latentmdp.learning.run import Run

EXPLORER_FILE = "explorer.json"
PLACE: Table = {  # where a phase lies in the run's table, and what the table says there
    "number": whole(below="phases"), "episode": whole(), "length": whole(), "value": number(),
    "optimistic": number(),
}  # fmt: skip
TABLE_COLUMNS = {name: name for name in ("episode", "length", "value")} | {
    "optimistic": "optimistic_value"
}


def load_phases(run: "Run", folder: Path) -> list[dict[str, Any]] | None:
    """What `save_phases` left for this very run; None if there is nothing or it is of another."""
    file = folder / EXPLORER_FILE
    if not file.is_file():
        return None
    found = read_json(file)
    if found.get("of") != identity(run):
        return None
    try:
        phases = found.get("phases")
        if not isinstance(phases, list) or not phases:
            raise ModelError("phases must be a list of them")
        kept = [_phase(run, phase, f"phases[{i}].") for i, phase in enumerate(phases)]
        if any(a["number"] >= b["number"] for a, b in pairwise(kept)):
            raise ModelError("phases must be in order, each of them once")
        return kept
    except ModelError as error:
        cure = "delete the file, and the report plays the run again"
        raise refusal(file, f"must be as save_phases wrote it; {error} ({cure})") from None


def identity(run: "Run") -> dict[str, Any]:
    """What tells this run, as far as it has got, from others."""
    table = run.state["table"]
    sums = [float(np.sum(table[name])) for name in ("length", "value", "updates")]
    return {**run.state["spec"], "episodes_played": run.episodes, "sums": sums}


def policy_data(policy: PolicyGraph) -> dict[str, Any]:
    """The graph's arrays; a Markov policy's table alone."""
    if policy.is_markov:
        return {"table": pack_whole(policy.table)}
    return {
        "step": pack_whole(policy.step),
        "state": pack_whole(policy.state),
        "action": pack_whole(policy.action),
        "degree": pack_whole(np.diff(policy.indptr)),
        "symbol": pack_whole(policy.symbol),
        "next": pack_whole(policy.next),
        "node": pack_whole(policy.node),
        "root": pack_whole(policy.root),
        "default": pack_whole(policy.default),
    }


def _phase(run: "Run", phase: Any, where: str) -> dict[str, Any]:
    model, table = run.model, run.state["table"]
    place = fitting(phase, PLACE, {"phases": len(table["episode"])}, where)
    for name, column in TABLE_COLUMNS.items():
        if place[name] != table[column][place["number"]]:
            raise ModelError(f"{where}{name} must be that of the run's table; it is {place[name]}")
    policy = _policy(step_dependent(model), phase.get("policy"), f"{where}policy")
    rows = model.M * model.S * model.A
    visits = _unpacked(phase.get("visits"), f"{where}visits")
    if visits.size != rows or visits.max() > 64:
        raise ModelError(f"{where}visits must be {rows} powers of two")
    checked = place | {"policy": policy_data(policy), "visits": phase["visits"]}
    if "hoped" in phase:
        size = policy.N * model.M * model.A
        if _unpacked(phase["hoped"], f"{where}hoped", "q16").size != size:
            raise ModelError(f"{where}hoped must be {size} numbers")
        checked["hoped"] = phase["hoped"]
    return checked


def _policy(model: LatentMDP, data: Any, where: str) -> PolicyGraph:
    """The policy of `policy_data`."""
    if not isinstance(data, dict):
        raise ModelError(f"{where} must be there")
    if "table" in data:
        actions = _unpacked(data["table"], f"{where}.table")
        if actions.size != model.H * model.S:
            raise ModelError(f"{where}.table must have {model.H * model.S} actions")
        policy = PolicyGraph.from_table(actions.reshape(model.H, model.S))
    else:
        names = [name for name in POLICY_PARTS if name != "indptr"]
        parts = {name: _unpacked(data.get(name), f"{where}.{name}") for name in names}
        degree = _unpacked(data.get("degree"), f"{where}.degree")
        parts["indptr"] = np.concatenate([[0], np.cumsum(degree)])
        if parts["default"].size != model.H * model.S:
            raise ModelError(f"{where}.default must have {model.H * model.S} nodes")
        parts["default"] = parts["default"].reshape(model.H, model.S)
        policy = PolicyGraph.from_arrays(*(parts[name] for name in POLICY_PARTS))
    check_fits(model, policy)
    return policy


def _unpacked(text: Any, where: str, *kinds: str) -> np.ndarray:
    """The numbers of `encode.pack_whole`, or of the kinds named."""
    kind, colon, packed = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not colon or kind not in (kinds or WIDTHS):
        raise ModelError(f"{where} must be packed numbers")
    try:
        raw = base64.b64decode(packed, validate=True)
        width = np.dtype(WIDTHS.get(kind, np.uint16)).newbyteorder("<")
        return np.frombuffer(raw, dtype=width).astype(np.int64)
    except (binascii.Error, ValueError):
        raise ModelError(f"{where} must be packed numbers") from None
