"""Smaller policy graphs that play the same: without what is never reached, equal nodes merged."""

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from latentmdp.csr import Ints
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.belief import reach_weights

if TYPE_CHECKING:
    from latentmdp.policy.graph import PolicyGraph


def pruned(policy: "PolicyGraph", model: LatentMDP | None = None) -> "PolicyGraph":
    """Without successors that say what the default says, and without unreachable nodes.

    With a `model`, also without successors on observations that it gives probability zero.
    """
    if model is not None and (
        policy.numbering is not None or (policy.stationary and model.steps > 1)
    ):
        return pruned(policy.for_model(model), model)
    owner = np.repeat(np.arange(policy.N), np.diff(policy.indptr))
    keep = policy.node != policy.default[policy.step_after(policy.step[owner]), policy.next]
    if model is not None:
        keep &= _possible(policy, model, owner)
    reached = np.zeros(policy.N, dtype=bool)
    reached[policy.root] = True
    reached[policy.default] = True
    if policy.stationary:
        follow_edges(reached, owner[keep], policy.node[keep])
    for t in range(0 if policy.stationary else policy.H - 1):
        lo, hi = np.searchsorted(policy.step, (t, t + 1))
        e = np.arange(policy.indptr[lo], policy.indptr[hi])
        e = e[keep[e] & reached[owner[e]]]
        reached[policy.node[e]] = True
    keep &= reached[owner]
    return _selected(policy, reached, keep, owner, np.arange(policy.N))


def follow_edges(reached: np.ndarray, owner: Ints, node: Ints) -> None:
    """Mark in `reached (N,)` all nodes to which edges from marked ones lead, also by detours."""
    while True:
        new = node[reached[owner]]
        new = new[~reached[new]]
        if len(new) == 0:
            return
        reached[new] = True


def _possible(policy: "PolicyGraph", model: LatentMDP, owner: Ints) -> np.ndarray:
    """`(E,)` whether some context that can be at the owner can show the observation."""
    g = reach_weights(model, policy)
    possible = np.zeros(len(policy.node), dtype=bool)
    for m in range(model.M):
        row = model.row(policy.step, m, policy.state, policy.action)
        length = model.indptr[row + 1] - model.indptr[row]
        width = int(max(model.symbol.max(), policy.symbol.max(initial=0))) + 1
        at = np.repeat(np.arange(policy.N), length)
        i = np.arange(len(at)) - np.repeat(np.cumsum(length) - length, length)
        i += np.repeat(model.indptr[row], length)
        seen = (at * width + model.symbol[i]) * policy.S + model.next[i]
        shown = (owner * width + policy.symbol) * policy.S + policy.next
        possible |= np.isin(shown, seen[g[at, m] > 0])
    return possible


def merged(policy: "PolicyGraph") -> "PolicyGraph":
    """With nodes of the same step, state, action and merged successors merged, last step first."""
    kind = np.arange(policy.N)  # the representative of each node
    for t in range(policy.H - 1, -1, -1):
        lo, hi = np.searchsorted(policy.step, (t, t + 1))
        first: dict[Hashable, int] = {}
        after = kind[policy.default[t + 1]] if t + 1 < policy.H else None
        for n in range(lo, hi):
            edges: Hashable = ()
            i, j = policy.indptr[n], policy.indptr[n + 1]
            if j > i and after is not None:
                to = kind[policy.node[i:j]]
                differs = to != after[policy.next[i:j]]
                parts = (policy.symbol[i:j], policy.next[i:j], to)
                edges = tuple(x[differs].tobytes() for x in parts) if differs.any() else ()
            kind[n] = first.setdefault((policy.state[n], policy.action[n], edges), n)
    return _by_kind(policy, kind)


def merged_stationary(policy: "PolicyGraph") -> "PolicyGraph":
    """With equivalent nodes of a stationary policy merged.

    Nodes are equivalent unless their states, their actions or the classes of their successors
    differ: classes are split until none splits any more.
    """
    owner = np.repeat(np.arange(policy.N), np.diff(policy.indptr))
    pair = policy.state * (1 + int(policy.action.max())) + policy.action
    observation = policy.symbol * policy.S + policy.next
    kind, classes = _numbered(pair)
    while True:
        (e,) = np.nonzero(kind[policy.node] != kind[policy.default[0, policy.next]])
        edge, _ = _numbered(observation[e] * classes + kind[policy.node[e]])
        count = np.bincount(owner[e], minlength=policy.N)
        first = np.cumsum(count) - count
        finer = kind
        for j in range(int(count.max(initial=0))):  # the classes by their j-th successor
            code = np.zeros(policy.N, dtype=np.int64)
            code[count > j] = 1 + edge[first[count > j] + j]
            finer, found = _numbered(finer * (len(e) + 1) + code)
        if int(count.max(initial=0)) == 0 or found == classes:
            break
        kind, classes = finer, found
    first = np.full(classes, policy.N)
    np.minimum.at(first, kind, np.arange(policy.N))
    return _by_kind(policy, first[kind])


def _numbered(values: Ints) -> tuple[Ints, int]:
    """The values as numbers from 0 to before their count, equal ones by one number."""
    found, number = np.unique(values, return_inverse=True)
    return number.reshape(-1), len(found)


def _by_kind(policy: "PolicyGraph", kind: Ints) -> "PolicyGraph":
    """The graph of representatives, `kind (N,)`, pruned."""
    owner = np.repeat(np.arange(policy.N), np.diff(policy.indptr))
    default = policy.default[policy.step_after(policy.step[owner]), policy.next]
    kept = kind == np.arange(policy.N)
    keep = kept[owner] & (kind[policy.node] != kind[default])
    return pruned(_selected(policy, kept, keep, owner, kind))


def _selected(
    policy: "PolicyGraph", nodes: np.ndarray, edges: np.ndarray, owner: Ints, kind: Ints
) -> "PolicyGraph":
    """The graph on the chosen nodes and edges, every node replaced by its kind."""
    new_id = np.cumsum(nodes) - 1
    degree = np.bincount(owner[edges], minlength=policy.N)[nodes]
    indptr = np.zeros(len(degree) + 1, dtype=np.int64)
    np.cumsum(degree, out=indptr[1:])
    graph = type(policy)(
        policy.step[nodes],
        policy.state[nodes],
        policy.action[nodes],
        indptr,
        policy.symbol[edges],
        policy.next[edges],
        new_id[kind[policy.node[edges]]],
        new_id[kind[policy.root]],
        new_id[kind[policy.default]],
        policy.stationary,
    )._freeze()
    return replace(graph, model=policy.model, numbering=policy.numbering)
