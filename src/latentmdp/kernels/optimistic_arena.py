"""The arena: five flat arrays that hold a model, a graph, policies and values, and where in them.

Compiled code that takes dozens of arrays compiles for minutes and spends its time counting
references; five flat arrays do neither. Kernels take the whole arena as `x`: `x.F, x.I, x.P, x.G,
x.T` are the arrays, every other field is a size or an *offset*, the place where an array begins.
An array of shape `(N, M)` at `x.alpha` in `F` is read as `x.F[x.alpha + n*x.M + m]`.

    array  holds         at offset            shape
    T int  rows          0                    (rows+1,)   where the room of row (m*S + s)*A + a
                                                          begins: its slots are T[row]:T[stop+row]
                         stop                 (rows,)
                         next, obs            (slots,)    next state; number of the observation, -1
                                                          for one that the memory does not know
    P flt  coefficients  0                    (slots, 4)  p_hat, reward, lower, upper
                         coef                 (rows, 5)   reward + c3, c1, c2, unseen, budget
                         root                 (M, S)      probability of context and first state
    G int  graph         0, step              (N,)        state, step of a node
                         span                 (H+1,)      memory nodes of step t: span[t]:span[t+1]
                         first                (S,)        node of a first state
                         edge, succ           (memory nodes, A), (edges,)
    F flt  values        alpha                (3, N, M)   sets 0 (policy in force), 1 (on trial),
                                                          2 (context known; default nodes only)
                         g                    (N, M)      derivative of the objective in set 0
                         q, top               (N, M), (N+M,)       scratch of sweeps
                         known_q              (H, S, A, M)         actions, context known
                         best, total          (3, H+1, M, S), (3, H+1, M, S+1)   values of default
                                              nodes in descending order, their running sums
                         memo                 (MEMO, N, M)         values of remembered policies
                         v, share, weight, diff, tilted            scratch of one backup, kicks
    I int  policies      policy, candidate, proposal, kicked   (N,)   an action per node
                         live, every, used, wanted  (N,)  masks of nodes; `used` are all but states
                                                          at step 0 that are never the first one
                         active               (N, M)      whether a context can be at a node
                         by_value, rank       (3, H+1, M, S)       order of the default nodes
                         memo_policy          (MEMO, N)   remembered policies
                         dirty                (MEMO+1, rows)       rows changed since; the last
                                                          is for the values with context known
                         stale                (MEMO+1, M) whether a context has dirty rows
                         age                  (MEMO+1,)   when last used, 0 if never; the clock
                         pos, skip, sort, ranges          scratch of one backup

Nodes. The first `D = (H+1)*S` nodes are the *default* nodes, number `t*S + s`: the Markov policy,
and what follows an observation that a policy with memory does not expect. Those of step `H` are
worth 0. Memory nodes come after them, by step. The child of node `n` under slot `k` and action `a`
is the default node of `next[k]` at the next step if `n` is a default node or the memory does not
know the observation (`obs[k]` is -1), else `succ[edge[n - D, a] + obs[k]]`. A context is *active*
at a memory node if some path of slots leads it there; values of the other pairs are never used and
stay 0.

Python calls kernels with the arena's address alone (`x.here`); `arena_at` makes it `x` again.
"""

from typing import NamedTuple

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.kernels._cache import kernel
from latentmdp.kernels.flat import record_at, write_header

HEADER = 64  # the first integers of `I`, where kernels find all this (`flat.py`)
MEMO = 3  # policies whose values are remembered: the one in force and those that break ties


class Arena(NamedTuple):
    """Sizes, offsets and the five arrays; made by `make_arena`."""

    interval: int
    cap: float
    M: int
    S: int
    A: int
    H: int
    D: int  # default nodes
    N: int  # all nodes
    # T
    stop: int
    next: int
    obs: int
    # P
    coef: int
    root: int
    # G
    step: int
    span: int
    first: int
    edge: int
    succ: int
    # F; the values of set k start at alpha + k*N*M
    alpha: int
    g: int
    q: int
    top: int
    known_q: int
    best: int  # (3, H+1, M, S)
    total: int  # (3, H+1, M, S+1)
    memo: int
    v: int
    share: int
    weight: int
    diff: int
    tilted: int
    # I
    policy: int
    candidate: int
    proposal: int
    kicked: int
    live: int
    every: int
    used: int
    wanted: int
    active: int
    by_value: int  # (3, H+1, M, S) states in descending order of value
    rank: int  # (3, H+1, M, S)
    memo_policy: int
    dirty: int
    stale: int
    age: int
    pos: int
    skip: int
    sort: int
    ranges: int
    # how the model's kernel is called: addresses of its compiled functions and of the header
    values_at: int
    push_at: int
    here: int
    T: Ints
    P: Floats
    G: Ints
    F: Floats
    I: Ints  # noqa: E741


def _offsets(sizes: dict[str, int]) -> tuple[dict[str, int], int]:
    at, where = 0, {}
    for name, size in sizes.items():
        where[name] = at
        at += size
    return where, at


def make_arena(
    interval: bool,
    cap: float,
    sizes: tuple[int, int, int, int],
    slots: int,
    memory: int = 0,
    edges: int = 0,
    graph: np.ndarray | None = None,
) -> Arena:
    """An arena for `(M, S, A, H)`, with room for `memory` nodes and `edges` children.

    A `graph` that is already filled in becomes its `G`.
    """
    M, S, A, H = sizes
    rows, D = M * S * A, (H + 1) * S
    N = D + memory
    layers = 3 * (H + 1) * M if interval else 0
    T, T_size = _offsets({"indptr": rows + 1, "stop": rows, "next": slots, "obs": slots})
    P, P_size = _offsets({"slot": 4 * slots, "coef": 5 * rows, "root": M * S})
    G, G_size = _offsets(
        {"state": N, "step": N, "span": H + 1, "first": S, "edge": memory * A, "succ": edges}
    )
    F, F_size = _offsets(
        {
            "alpha": 3 * N * M, "g": N * M, "q": N * M, "top": N + M, "known_q": H * S * A * M,
            "best": layers * S, "total": layers * (S + 1), "memo": MEMO * N * M, "v": S + 2,
            "share": 2 * S + 6, "weight": S + 2, "diff": S + 2, "tilted": M * S,
        }
    )  # fmt: skip
    I, I_size = _offsets(  # noqa: E741
        {
            "header": HEADER, "policy": N, "candidate": N, "proposal": N, "kicked": N, "live": N,
            "every": N, "used": N, "wanted": N, "active": N * M, "by_value": layers * S,
            "rank": layers * S, "memo_policy": MEMO * N, "dirty": (MEMO + 1) * rows,
            "stale": (MEMO + 1) * M, "age": MEMO + 1, "pos": S + 2, "skip": S + 2, "sort": S + 2,
            "ranges": 4 * S + 12,
        }
    )  # fmt: skip
    offsets = {**T, **P, **G, **F, **I}
    for name in ("indptr", "slot", "state", "header"):
        assert offsets.pop(name) == 0
    ints = [np.zeros(size, np.int64) for size in (T_size, I_size)]
    own = graph is None
    graph = np.zeros(G_size, np.int64) if graph is None else graph
    from latentmdp.kernels.optimistic_backup import addresses

    values_at, push_at = addresses(interval)
    x = Arena(
        interval=int(interval), cap=float(cap), M=M, S=S, A=A, H=H, D=D, N=N, **offsets,
        values_at=values_at, push_at=push_at, here=ints[1].ctypes.data,
        T=ints[0], P=np.zeros(P_size), G=graph, F=np.zeros(F_size), I=ints[1],
    )  # fmt: skip
    write_header(x, x.I[:HEADER])
    if own:
        nodes = np.arange(D)
        x.G[:D], x.G[x.step : x.step + D] = nodes % S, nodes // S
        x.G[x.span : x.span + H + 1] = D
        x.G[x.first : x.first + S] = np.arange(S)
    x.I[x.every : x.every + N] = x.I[x.used : x.used + N] = 1
    x.I[x.candidate : x.candidate + N] = -1
    x.I[x.active : x.active + N * M] = 1
    x.I[x.dirty : x.dirty + (MEMO + 1) * rows] = 1
    x.I[x.stale : x.stale + (MEMO + 1) * M] = 1
    for order in (x.by_value, x.rank):
        x.I[order : order + layers * S] = np.tile(np.arange(S), layers)
    return x


arena_at = record_at(Arena)


@kernel
def child_of(x, k, default, first, later):
    """The node after slot `k`; `first` is where the successors of a node's action begin.

    `later` is the first default node of the next step.
    """
    if default or x.T[x.obs + k] < 0:
        return later + x.T[x.next + k]
    return x.G[first + x.T[x.obs + k]]
