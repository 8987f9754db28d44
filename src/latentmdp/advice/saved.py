"""The state of an adviser as plain data: what it must hold."""

import hashlib
from collections.abc import Mapping
from typing import Any

from latentmdp.advice.values import checked_belief
from latentmdp.errors import ModelError
from latentmdp.formats.schema import LARGEST_WHOLE, TEXT, Table, fitting, number, truth, whole
from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.graph import POLICY_PARTS, PolicyGraph

ORIGIN: Table = {
    "step": whole(high="last step"), "state": whole(below="S"),
    "belief": number("M", low=0.0, high=1.0 + 1e-6),
}  # fmt: skip

STATE: Table = {
    "step": whole(high="H"), "state": whole(below="S"),
    "belief": number("M", low=0.0, high=1.0 + 1e-6),
    "action": whole(below="A", optional=True), "node": whole(optional=True),
    "upper": number(optional=True), "time_limit": number(low=0.0, optional=True),
    "work_limit": whole(low=1), "accept_unexpected": truth(), "made_for": TEXT,
}  # fmt: skip


def checked_state(model: LatentMDP, state: Any) -> dict[str, Any]:
    """An adviser's state that can be trusted, with None for what is not in it."""
    infinite = is_infinite(model.horizon)
    last = LARGEST_WHOLE if infinite else int(model.horizon)
    sizes = {"M": model.M, "S": model.S, "A": model.A, "H": last}
    found: dict[str, Any] = dict.fromkeys(STATE)
    found |= fitting(state, STATE, sizes, "state.")
    found["belief"] = checked_belief(found["belief"], model.M)
    over = found["step"] == last and not infinite
    if over != (found["action"] is None):
        raise ModelError("state.action must be there exactly where the episode is not over")
    found["planned_at"] = None
    if state.get("planned_at") is not None:
        sizes |= {"last step": found["step"], "S": model.S}
        origin = fitting(state["planned_at"], ORIGIN, sizes, "state.planned_at.")
        belief = checked_belief(origin["belief"], model.M)
        found["planned_at"] = origin["step"], origin["state"], belief
    return found


def digest_of(model: LatentMDP, policy: PolicyGraph) -> str:
    """Of a model and a policy: a state is of no use with others."""
    found = hashlib.sha256(model.digest.encode())
    for name in POLICY_PARTS:
        found.update(getattr(policy, name).tobytes())
    return found.hexdigest()[:16]


def without_none(state: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that are there."""
    return {name: value for name, value in state.items() if value is not None}
