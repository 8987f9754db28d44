"""Policies of a step-dependent model and of its time-augmented one, back and forth.

`unfold` keeps the nodes and their order, so that alpha vectors and reach weights of the
time-augmented model are those of the person's own policy, node by node. Its `default` and `root`
answer for states that cannot be there (layer `u` at step `t`, `u != t`) with the node of the same
state at the right layer; such entries are never read.
"""

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.model.timed import TimedLatentMDP

if TYPE_CHECKING:
    from latentmdp.policy.graph import PolicyGraph


def fold(model: TimedLatentMDP, policy: "PolicyGraph") -> "PolicyGraph":
    """The policy on `S` states of one on the `H*S` states of `model.unrolled`."""
    S, H = model.S, model.H
    nodes = kept_nodes(model, policy)
    owner = np.repeat(np.arange(policy.N), np.diff(policy.indptr))
    edges = nodes[owner] & (policy.next // S == policy.step[owner] + 1)
    new_id = np.cumsum(nodes) - 1
    indptr = np.zeros(int(nodes.sum()) + 1, dtype=np.int64)
    np.cumsum(np.bincount(owner[edges], minlength=policy.N)[nodes], out=indptr[1:])
    at = np.arange(H)
    return policy.from_arrays(
        policy.step[nodes], policy.state[nodes] % S, policy.action[nodes], indptr,
        policy.symbol[edges], policy.next[edges] % S, new_id[policy.node[edges]],
        new_id[policy.root[:S]], new_id[policy.default.reshape(H, H, S)[at, at]],
    )  # fmt: skip


def kept_nodes(model: TimedLatentMDP, policy: "PolicyGraph") -> np.ndarray:
    """`(N,)` the nodes that `fold` keeps: of states that can be there at their step."""
    return policy.state // model.S == policy.step


def unfold(model: TimedLatentMDP, policy: "PolicyGraph") -> "PolicyGraph":
    """The policy on the states of `model.unrolled`, with the same nodes; see the module."""
    S, H = model.S, model.H
    owner = np.repeat(policy.step, np.diff(policy.indptr))
    unfolded = type(policy)(
        policy.step, policy.step * S + policy.state, policy.action, policy.indptr, policy.symbol,
        (owner + 1) * S + policy.next, policy.node, np.tile(policy.root, H),
        np.tile(policy.default, (1, H)),
    )  # fmt: skip
    return unfolded._freeze()
