"""The arena: five flat arrays and the offsets of everything in them.

Compiled code that takes dozens of arrays compiles for minutes and spends its time counting
references; five flat arrays do neither. Kernels take the whole arena as `x` and read, say,
`x.F[x.alpha + n*x.M + m]`.

    T  int    model: indptr, next, obs               (layout of the rows)
    P  float  model: slot (4 per slot: p_hat, reward, lower, upper),
                     coef (5 per row: reward + c3, c1, c2, unseen, budget), root (M, S)
    G  int    graph: state, step (N,), span (H+1,), first (S,), edge (memory nodes, A), succ
    F  float  values and scratch
    I  int    policies, masks, orders and scratch

Values come in three sets, number 0 (the policy in force), 1 (on trial), 2 (context known; default
nodes only); each has its own order of the default nodes' values, which interval models need.

Nodes. The first `D = (H+1)*S` nodes are the *default* nodes, number `t*S + s`: the Markov policy,
and what follows an observation that a policy with memory does not expect. Those of step `H` are
worth 0. Memory nodes come after them, by step: `span[t]:span[t+1]`. The child of node `n` under
slot `k` and action `a` is the default node of `next[k]` at the next step if `n` is a default node,
else `succ[edge[n - D, a] + obs[k]]`.
"""

from typing import NamedTuple

import numpy as np

ARENAS: dict[int, "Arena"] = {}  # by address; used without compilation only
HEADER = 64  # the first integers of `I` repeat the sizes, offsets and addresses, for indirect calls


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
    wanted: int
    by_value: int  # (3, H+1, M, S) states in descending order of value
    rank: int  # (3, H+1, M, S)
    pos: int
    skip: int
    sort: int
    ranges: int
    # how the model's kernel is called: addresses of its compiled functions and of the header
    values_at: int
    push_at: int
    here: int
    T: np.ndarray
    P: np.ndarray
    G: np.ndarray
    F: np.ndarray
    I: np.ndarray  # noqa: E741


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
) -> Arena:
    """An arena for `(M, S, A, H)`, with room for `memory` nodes and `edges` children."""
    M, S, A, H = sizes
    rows, D = M * S * A, (H + 1) * S
    N = D + memory
    layers = 3 * (H + 1) * M if interval else 0
    T, T_size = _offsets({"indptr": rows + 1, "next": slots, "obs": slots})
    P, P_size = _offsets({"slot": 4 * slots, "coef": 5 * rows, "root": M * S, "cap": 1})
    del P["cap"]
    G, G_size = _offsets(
        {"state": N, "step": N, "span": H + 1, "first": S, "edge": memory * A, "succ": edges}
    )
    F, F_size = _offsets(
        {
            "alpha": 3 * N * M, "g": N * M, "q": N * M, "top": N + M, "known_q": H * S * A * M,
            "best": layers * S, "total": layers * (S + 1), "v": S + 2, "share": 2 * S + 6,
            "weight": S + 2, "diff": S + 2, "tilted": M * S,
        }
    )  # fmt: skip
    I, I_size = _offsets(  # noqa: E741
        {
            "header": HEADER, "policy": N, "candidate": N, "proposal": N, "kicked": N, "live": N,
            "every": N, "wanted": N, "by_value": layers * S, "rank": layers * S, "pos": S + 2,
            "skip": S + 2, "sort": S + 2, "ranges": 4 * S + 12,
        }
    )  # fmt: skip
    offsets = {**T, **P, **G, **F, **I}
    for name in ("indptr", "slot", "state", "header"):
        assert offsets.pop(name) == 0
    ints = [np.zeros(size, np.int64) for size in (T_size, G_size, I_size)]
    from latentmdp.kernels.optimistic_backup import addresses

    values_at, push_at = addresses(interval)
    x = Arena(
        interval=int(interval), cap=float(cap), M=M, S=S, A=A, H=H, D=D, N=N, **offsets,
        values_at=values_at, push_at=push_at, here=ints[2].ctypes.data,
        T=ints[0], P=np.zeros(P_size), G=ints[1], F=np.zeros(F_size), I=ints[2],
    )  # fmt: skip
    x.P[-1] = cap
    head = [x.interval, 0, *x[2:-5]]
    head += [value for array in x[-5:] for value in (array.ctypes.data, array.size)]
    assert len(head) <= HEADER
    if values_at == 0:
        ARENAS[x.here] = x
    x.I[: len(head)] = head
    nodes = np.arange(D)
    x.G[:D], x.G[x.step : x.step + D] = nodes % S, nodes // S
    x.G[x.span : x.span + H + 1] = D
    x.G[x.first : x.first + S] = np.arange(S)
    x.I[x.every : x.every + N] = 1
    x.I[x.by_value : x.by_value + layers * S] = np.tile(np.arange(S), layers)
    return x
