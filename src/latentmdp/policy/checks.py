"""What the arrays of a policy graph must be: checked before anything reads them."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.csr import Ints
from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from latentmdp.policy.graph import PolicyGraph


def indices(name: str, value: ArrayLike) -> Ints:
    """The value as an array of whole numbers of its own."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu" and array.size:
        raise ModelError(f"{name} must hold whole numbers; its type is {array.dtype}")
    return np.array(array, dtype=np.int64, order="C")


def check_shapes(a: dict[str, Ints]) -> None:
    """Refuse arrays, by their names in `PolicyGraph`, whose lengths do not go together."""
    if a["default"].ndim != 2 or 0 in a["default"].shape:
        raise ModelError(f"default must have the shape (H, S); it is {a['default'].shape}")
    n, e = len(np.atleast_1d(a["step"])), len(np.atleast_1d(a["node"]))
    shapes = {"step": (n,), "state": (n,), "action": (n,), "indptr": (n + 1,)}
    shapes |= {"symbol": (e,), "next": (e,), "node": (e,), "root": (a["default"].shape[1],)}
    for name, shape in shapes.items():
        if a[name].shape != shape:
            raise ModelError(f"{name} must have the shape {shape}; it is {a[name].shape}")
    p = a["indptr"]
    if p[0] != 0 or p[-1] != e or (np.diff(p) < 0).any():
        raise ModelError(f"indptr must rise from 0 to {e}, the number of successors")


def check_range(name: str, array: Ints, below: int | None) -> None:
    """Refuse an entry that is negative, or not below a limit."""
    bad = (array < 0) if below is None else (array < 0) | (array >= below)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        most = "" if below is None else f" and at most {below - 1}"
        raise ModelError(f"{name}{list(where)} must be at least 0{most}; it is {array[where]}")


def check_graph(policy: "PolicyGraph") -> None:
    """Refuse steps, states and successors that do not go together."""
    H, S = policy.default.shape
    if policy.stationary and H != 1:
        raise ModelError(
            f"default must have the shape (1, S) in a stationary policy; it is ({H}, {S})"
        )
    for name in ("step", "state", "action", "symbol", "next"):
        limit = {"step": H, "state": S, "next": S}.get(name)
        check_range(name, getattr(policy, name), limit)
    step, state, root, default = policy.step, policy.state, policy.root, policy.default
    owner = np.repeat(np.arange(policy.N), np.diff(policy.indptr))
    _check_places("root", root, step[root], 0)
    _check_places("root", root, state[root], np.arange(S))
    _check_places("default", default, step[default], np.arange(H)[:, None])
    _check_places("default", default, state[default], np.arange(S))
    after = policy.step_after(step[owner])
    _check_places("successor", policy.node, step[policy.node], after)
    _check_places("successor", policy.node, state[policy.node], policy.next)
    same = (np.diff(owner) == 0) & (np.diff(policy.symbol) == 0) & (np.diff(policy.next) == 0)
    if same.any():
        n = int(owner[np.argmax(same)])
        raise ModelError(f"node {n} must have one successor per (symbol, next); it has two")


def _check_places(name: str, nodes: Ints, found: Ints, wanted: Any) -> None:
    bad = found != wanted
    if bad.any():
        where = np.argwhere(bad)[0]
        raise ModelError(
            f"{name} {[int(i) for i in where]} must lead to a node of its own step and state; "
            f"it leads to node {nodes[tuple(where)]}"
        )
