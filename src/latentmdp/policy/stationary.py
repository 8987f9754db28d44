"""Stationary policy graphs, whose successors may lead in circles; and their form for `H` steps."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from latentmdp.policy.graph import PolicyGraph

MOST_NODES = 5 * 10**7  # nodes and successors of a policy for a given horizon


def stationary_table(table: ArrayLike) -> "PolicyGraph":
    """The stationary Markov policy with actions `table`, `(1, S)` or `(S,)`."""
    from latentmdp.policy.graph import PolicyGraph  # which imports this module

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


def for_horizon(policy: "PolicyGraph", H: int) -> "PolicyGraph":
    """The same policy for exactly `H` steps: node `n` at step `t` is node `t * N + n`."""
    N, E = policy.N, len(policy.node)
    if H * (N + E) > MOST_NODES:
        raise ModelError(
            f"a stationary policy played for {H} steps must have at most {MOST_NODES} nodes and "
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
