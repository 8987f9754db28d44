"""Stationary policy graphs, whose successors may lead in circles: made, merged, unrolled."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.canonical import Ints
from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from latentmdp.policy import PolicyGraph

MOST_UNROLLED = 5 * 10**7  # nodes and successors of an unrolled policy


def stationary_table(table: ArrayLike) -> "PolicyGraph":
    """The stationary Markov policy with actions `table`, `(1, S)` or `(S,)`."""
    from latentmdp.policy import PolicyGraph  # which imports this module

    actions = np.atleast_2d(np.asarray(table))
    if actions.ndim != 2 or actions.shape[0] != 1 or actions.size == 0:
        raise ModelError(
            f"the table of a stationary policy must have the shape (1, S); it is {np.shape(table)}"
        )
    S = actions.shape[1]
    ids, none = np.arange(S), np.zeros(0, dtype=np.int64)
    return PolicyGraph.from_arrays(
        np.zeros(S, dtype=np.int64), ids, actions[0], np.zeros(S + 1, dtype=np.int64),
        none, none, none, ids, ids[None],
        stationary=True,
    )  # fmt: skip


def follow_edges(reached: np.ndarray, owner: Ints, node: Ints) -> None:
    """Mark in `reached (N,)` all nodes to which edges from marked ones lead, also by detours."""
    while True:
        new = node[reached[owner]]
        new = new[~reached[new]]
        if len(new) == 0:
            return
        reached[new] = True


def merge_stationary(policy: "PolicyGraph") -> "PolicyGraph":
    """With equivalent nodes merged.

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
    representative = first[kind]
    kept = representative == np.arange(policy.N)
    keep = kept[owner] & (kind[policy.node] != kind[policy.default[0, policy.next]])
    return policy._select(kept, keep, owner, representative).prune()


def _numbered(values: Ints) -> tuple[Ints, int]:
    """The values as numbers from 0 to before their count, equal ones by one number."""
    found, number = np.unique(values, return_inverse=True)
    return number.reshape(-1), len(found)


def unrolled(policy: "PolicyGraph", H: int) -> "PolicyGraph":
    """The same policy for exactly `H` steps: node `n` at step `t` is node `t * N + n`."""
    N, E = policy.N, len(policy.node)
    if H * (N + E) > MOST_UNROLLED:
        raise ModelError(
            f"a stationary policy played for {H} steps must have at most {MOST_UNROLLED} nodes and "
            f"successors in all; it would have {H * (N + E)}"
        )
    first = np.arange(H)[:, None] * N
    degree = np.tile(np.diff(policy.indptr), H)
    degree[(H - 1) * N :] = 0  # nothing follows the last step
    indptr = np.zeros(H * N + 1, dtype=np.int64)
    np.cumsum(degree, out=indptr[1:])
    return type(policy)(
        np.repeat(np.arange(H), N),
        np.tile(policy.state, H),
        np.tile(policy.action, H),
        indptr,
        np.tile(policy.symbol, H - 1),
        np.tile(policy.next, H - 1),
        (policy.node + first[1:]).reshape(-1),
        policy.root.copy(),
        policy.default[0] + first,
    )._freeze()
