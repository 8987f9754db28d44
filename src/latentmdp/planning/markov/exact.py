"""Certificates for the Markov class: the grouped belief-grid bound, and branch and bound over it.

`grid_bound` gives an upper bound at every step, state and belief (see `kernels.markov_grid`);
`BranchAndBound` proves that no Markov policy is worth more than a threshold, or finds one.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.planning.history_grid import list_vertices
from latentmdp.kernels.planning.markov_grid import (
    first_bounds,
    solve_vertices,
    vertex_rewards,
    vertex_rows,
)
from latentmdp.kernels.planning.markov_search import (
    BoundedModel,
    DecisionStack,
    SearchScratch,
    search_policies,
)
from latentmdp.kernels.planning.markov_sweep import MarkovView
from latentmdp.kernels.structs import Indices
from latentmdp.planning.history.belief_grid import n_vertices, rank_table
from latentmdp.planning.markov.view import PIECE, step_spans


class GridBound(NamedTuple):
    """`U_t(s, belief)` for groups of at most `K` contexts on grids of resolution `N`."""

    order: Indices  # (m,) contexts of positive weight, group by group
    group_ptr: Indices  # (G + 1,)
    K: int
    N: int
    rank: Ints  # (K, N + 2) for numbering vertices
    table: Floats  # (G, H, S, V)
    first: Floats  # (S,) at the first step, by state
    root: float  # their sum: the bound on the whole problem


def bound_work(view: MarkovView, groups: int, K: int, N: int) -> int:
    """Row backups (about) to build a grid bound."""
    choices = len(view.choice) // view.steps
    return groups * n_vertices(K, N) * choices * view.H * min(K, 4)


def bound_bytes(view: MarkovView, groups: int, K: int, N: int) -> int:
    """Memory (about) of a grid bound: its table, and the sparse rows of one group."""
    spread = (len(view.next) // max(1, len(view.row_reward)) + 1) * min(K, 4)
    rows = n_vertices(K, N) * len(view.choice)
    return 8 * groups * view.H * view.S * n_vertices(K, N) + 16 * rows * spread * min(K, 4)


def spread_contexts(view: MarkovView, values: Floats, groups: int) -> tuple[Indices, Indices]:
    """`(order, group_ptr)`: contexts that want different actions go into one group.

    Being told the group is worth little if all its members are in conflict. Contexts are sorted
    along the direction in which their preferences (values of knowing the context, per row of the
    first step) differ most; then group `g` of `G` gets the places `g, g + G, g + 2 G, ...`.
    """
    contexts = np.flatnonzero(view.w > 0)
    if groups == 1:
        return contexts.astype(np.uint32), np.array([0, len(contexts)], dtype=np.uint32)
    later = values[min(1, view.H - 1)]  # (M, S)
    M, S, A = view.M, view.S, view.A
    rows = M * S * A
    context = np.repeat(np.arange(rows) // (S * A), np.diff(view.indptr[: rows + 1]))
    used = len(context)
    q = view.row_reward[:rows] + view.discount * np.add.reduceat(
        view.prob[:used] * later[context, view.next[:used]], view.indptr[:rows]
    )
    advantage = q.reshape(M, S, A) - q.reshape(M, S, A).max(axis=2, keepdims=True)
    x = advantage.reshape(M, -1)[contexts]
    x = x - x.mean(axis=0)
    _, direction = np.linalg.eigh(x @ x.T)  # Gram matrix: the scores along the main direction
    ranked = contexts[np.argsort(direction[:, -1], kind="stable")]
    parts = [ranked[g::groups] for g in range(groups)]
    ptr = np.cumsum([0, *(len(part) for part in parts)])
    return np.concatenate(parts).astype(np.uint32), ptr.astype(np.uint32)


def grid_bound(view: MarkovView, values: Floats, K: int, N: int) -> Iterator[GridBound | None]:
    """Build the bound: yields None after each piece of work, at last the bound itself.

    `values (H + 1, M, S)`, those of knowing the context, decide which contexts share a group.
    """
    contexts = int((view.w > 0).sum())
    groups = -(-contexts // K)
    order, group_ptr = spread_contexts(view, values, groups)
    K = int(np.diff(group_ptr).max())
    rank = rank_table(K, N)
    points = np.empty((n_vertices(K, N), K))
    list_vertices(N, rank, points)
    V, S, C, U = len(points), view.S, len(view.choice), len(view.first_choice)
    table = np.empty((groups, view.H, S, V))
    part, jump = np.empty(K), np.empty(K, dtype=np.int64)
    scratch = (
        np.empty((S, K)), np.empty(S, dtype=np.uint32), np.zeros(S, dtype=bool), part, jump,
    )  # fmt: skip
    reward, ptr = np.empty((C, V)), np.zeros(U * V + 1, dtype=np.int64)
    spread = len(view.next) // (view.steps * S * view.A) + 1  # outcomes of a vertex's row, about
    together = max(1, PIECE // (V * spread))  # moves in one piece of work
    for g in range(groups):
        members = order[group_ptr[g] : group_ptr[g + 1]]
        index, mass = np.empty(0, dtype=np.int64), np.empty(0)
        for _ in range(2):  # count, then fill
            at = 0
            for lo in range(0, U, together):
                hi = min(lo + together, U)
                vertex_rows(
                    view, points, members, N, rank, *scratch, lo, hi, ptr, index[at:], mass[at:]
                )
                ptr[lo * V + 1 : hi * V + 1] += at
                at = int(ptr[hi * V])
                yield None
            index, mass = (index, mass) if len(index) else _outcome_arrays(at)
        vertex_rewards(view, points, members, reward)
        end = np.ascontiguousarray((points[:, : len(members)] @ view.terminal[members]).T)
        for first, stop in reversed(step_spans(view.H, C * V * spread // view.steps)):
            solve_vertices(view, ptr, index, mass, reward, end, table[g], first, stop)
            yield None
    start = np.ascontiguousarray(view.start[order].T)  # (S, m)
    at_first = np.empty(S)
    first_bounds(start, group_ptr, N, rank, table, part, jump, at_first)
    yield GridBound(order, group_ptr, K, N, rank, table, at_first, float(at_first.sum()))


def _outcome_arrays(n: int) -> tuple[Ints, Floats]:
    return np.empty(n, dtype=np.int64), np.empty(n)


class BranchAndBound:
    """Forward search over Markov policies with a grid bound; pauses and goes on.

    After `restart(threshold)`, call `advance` until it returns True: then no policy is worth more
    than `threshold` (which rose if a better one was found, now in `policy`) plus rounding error.
    """

    def __init__(self, view: MarkovView, bound: GridBound, slack: float) -> None:
        H, S, m, K = view.H, view.S, len(bound.order), bound.K
        B = int(np.diff(view.choice_ptr).max())
        L = _log_length(view)
        self.slack = slack
        self.threshold = 0.0
        self.nodes = 0
        self.policy: Ints | None = None
        self._found = np.zeros((H, S), dtype=np.int64)
        self._model = BoundedModel(
            view, bound.order, bound.group_ptr, bound.N, bound.rank, bound.table
        )
        self._scratch = SearchScratch(
            np.empty((S, m)), np.empty(S, dtype=np.uint32), np.zeros(S, dtype=bool), np.empty(K),
            np.empty(K, dtype=np.int64),
        )  # fmt: skip
        self._stack = DecisionStack(
            place=np.zeros(3, dtype=np.int64),
            mass=np.zeros((H + 1, S, m)),
            later=np.zeros((H + 1, S)),
            state=np.zeros((H, S), dtype=np.uint32),
            n_states=np.zeros(H, dtype=np.uint32),
            undecided=np.zeros((H, S + 1)),
            earned=np.zeros((H + 1, S + 1)),
            choice=np.zeros((H, S, B), dtype=np.uint32),
            bound=np.zeros((H, S, B)),
            tried=np.zeros((H, S), dtype=np.uint32),
            width=np.zeros((H, S), dtype=np.uint32),
            log_ptr=np.zeros((H, S + 1), dtype=np.uint32),
            log_state=np.zeros(L, dtype=np.uint32),
            log_later=np.zeros(L),
            log_mass=np.zeros((L, m)),
            policy=np.zeros((H, S), dtype=np.uint32),
        )
        self._stack.mass[0] = view.start[bound.order].T
        self._first = bound.first
        self._stack.policy[:] = view.choice[view.choice_ptr[:-1]].reshape(view.steps, S)

    def restart(self, threshold: float) -> None:
        """Begin to look for policies worth more than `threshold`."""
        self.threshold = threshold
        self.policy = None
        self._stack.place[:] = 0, 0, 1
        self._stack.earned[0, 0] = 0.0
        self._stack.later[0] = self._first

    def advance(self, max_nodes: int) -> bool:
        """Expand up to `max_nodes`; whether the search is finished."""
        before = self.threshold
        finished, nodes, self.threshold = search_policies(
            self._model, self._stack, self._scratch, self.threshold, self.slack, self._found,
            max_nodes,
        )  # fmt: skip
        self.nodes += nodes
        if self.threshold > before:
            self.policy = self._found.copy()
        return bool(finished)


def search_bytes(view: MarkovView) -> int:
    """Memory (about) of a branch and bound's stack."""
    return 8 * (_log_length(view) + view.H * view.S) * (view.M + 2)


def _log_length(view: MarkovView) -> int:
    """Most next states that the decisions of all steps together can touch."""
    S, A = view.S, view.A
    row = np.arange(len(view.row_reward))
    place = row // (view.M * S * A) * (S * A) + row % (S * A)
    pairs = np.unique(np.repeat(place, np.diff(view.indptr)) * S + view.next) // S
    touched = np.bincount(pairs, minlength=view.steps * S * A).reshape(-1, A)
    return view.H * int(touched.max(axis=1).sum()) // view.steps
