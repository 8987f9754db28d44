"""Policies of a step-dependent model and of its time-augmented one, back and forth.

In the time-augmented model `(step, state)` is the state `step * S + state`, and what is received
after the last step is part of the last step's rewards; so one observation may have other symbols
there. Both models list the same outcomes, which says what a symbol of one is in the other.
"""

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.csr import Ints
from latentmdp.model.latent_mdp import LatentMDP

if TYPE_CHECKING:
    from latentmdp.policy.graph import PolicyGraph


def is_for_time_augmented(model: LatentMDP, policy: "PolicyGraph") -> bool:
    """Whether a policy is for `model.time_augmented()` and not for the model itself."""
    if not model.changes_with_step:
        return False
    if policy.stationary or policy.H != model.H or policy.S != model.H * model.S:
        return False
    return model.H > 1 or policy.numbering is not None


def from_time_augmented(model: LatentMDP, policy: "PolicyGraph") -> "PolicyGraph":
    """The policy on `S` states of one on the `H*S` states of `model.time_augmented()`."""
    from latentmdp.policy.graph import fitted  # which imports this module

    S, H = model.S, model.H
    policy = fitted(model.time_augmented(), policy)
    nodes = kept_nodes(S, policy)
    owner = np.repeat(np.arange(policy.N), np.diff(policy.indptr))
    symbol = _translated(model, policy, owner, policy.state[owner] % S, policy.next % S, True)
    edges = nodes[owner] & (policy.next // S == policy.step[owner] + 1) & (symbol >= 0)
    new_id = np.cumsum(nodes) - 1
    indptr = np.zeros(int(nodes.sum()) + 1, dtype=np.int64)
    np.cumsum(np.bincount(owner[edges], minlength=policy.N)[nodes], out=indptr[1:])
    at = np.arange(H)
    return policy.from_arrays(
        policy.step[nodes], policy.state[nodes] % S, policy.action[nodes], indptr,
        symbol[edges], policy.next[edges] % S, new_id[policy.node[edges]],
        new_id[policy.root[:S]], new_id[policy.default.reshape(H, H, S)[at, at]],
    )  # fmt: skip


def kept_nodes(S: int, policy: "PolicyGraph") -> np.ndarray:
    """`(N,)` the nodes that `from_time_augmented` keeps: of states that can be at their step."""
    return policy.state // S == policy.step


def in_time_augmented(model: LatentMDP, policy: "PolicyGraph") -> "PolicyGraph":
    """The policy on the states of `model.time_augmented()`, with the same nodes in their order.

    Defaults and roots answer for states that cannot be there (layer `u` at step `t != u`) with the
    node of the same state at the right layer; such entries are never read.
    """
    S, H = model.S, model.H
    owner = np.repeat(np.arange(policy.N), np.diff(policy.indptr))
    symbol = _translated(model, policy, owner, policy.state[owner], policy.next, False)
    kept = symbol >= 0
    indptr = np.zeros(policy.N + 1, dtype=np.int64)
    np.cumsum(np.bincount(owner[kept], minlength=policy.N), out=indptr[1:])
    following = (policy.step[owner] + 1) * S + policy.next
    order = np.lexsort((following[kept], symbol[kept], owner[kept]))
    edge = np.flatnonzero(kept)[order]
    augmented = type(policy)(
        policy.step, policy.step * S + policy.state, policy.action, indptr, symbol[edge],
        following[edge], policy.node[edge], np.tile(policy.root, H),
        np.tile(policy.default, (1, H)),
    )  # fmt: skip
    return augmented._freeze()


def _translated(
    model: LatentMDP, policy: "PolicyGraph", owner: Ints, state: Ints, following: Ints, back: bool
) -> Ints:
    """`(E,)` symbols of a policy's successors in the other model; -1 where it has none.

    `state, following`: without the step. `back`: from the time-augmented model to the other one.
    """
    if len(policy.node) == 0:
        return policy.symbol
    place, nxt, own, augmented = _symbol_pairs(model)
    old, new = (augmented, own) if back else (own, augmented)
    width = 1 + max(int(old.max()), int(policy.symbol.max()))
    key = (place * model.S + nxt) * width + old
    key, first = np.unique(key, return_index=True)
    at = (policy.step[owner] * model.S + state) * model.A + policy.action[owner]
    wanted = (at * model.S + following) * width + policy.symbol
    found = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    return np.where(key[found] == wanted, new[first[found]], -1)


def _symbol_pairs(model: LatentMDP) -> tuple[Ints, Ints, Ints, Ints]:
    """Of each outcome before the last step `(place, next, symbol, symbol when time-augmented)`.

    `place` is `(step*S + state)*A + action`. Outcomes of one row and next state come in the same
    order in both models: by reading, then by reward.
    """
    S, A, H = model.S, model.A, model.H
    columns = []
    for rows, layers in ((model, 1), (model.time_augmented(), H)):
        row = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
        pair, action = np.divmod(row, A)
        place, state = np.divmod(pair, S)
        if layers > 1:  # rows by context, step, state
            context, step = np.divmod(place, H)
        else:
            step, context = np.divmod(place, rows.M)
        nxt, symbol = rows.next % S, rows.symbol
        entry = [step, context, state, action, nxt, rows.reading, rows.reward, symbol]
        if layers == 1 and rows.steps == 1:  # the same at every step
            step = np.repeat(np.arange(H), len(row))
            entry = [step, *(np.tile(x, H) for x in entry[1:])]
        order = np.lexsort(tuple(reversed(entry[:7])))
        columns.append([x[order] for x in entry])
    (step, _, state, action, nxt, _, _, own), other = columns
    before = step < H - 1
    place = (step * S + state) * A + action
    return place[before], nxt[before], own[before], other[-1][before]
