"""Assemble a policy graph from parts: a default Markov policy, grid policies, searched nodes."""

from math import inf

import numpy as np

from latentmdp.csr import Ints
from latentmdp.kernels.beliefs import ObservationModel
from latentmdp.kernels.planning.history_grid import BeliefGrid, follow_policies, write_policies
from latentmdp.planning.budget import StopCheck
from latentmdp.policy.graph import PolicyGraph


class PolicyTooLargeError(Exception):
    """The policy has more nodes and edges than there is time or memory for."""


class PolicyParts:
    """Nodes in any order; the first `H*S` are the default nodes, playing `table (H, S)`.

    Where that is the policy of a vertex of the coarsest grid, `fixed` says of which (else -1).
    `n` nodes and `e` edges may be added while `n / most_nodes + e / most_edges <= 1`; `cut_short`
    says that a policy was cut to fit. `is_late()` says that there is no time to try another cut.
    """

    def __init__(
        self,
        table: Ints,
        fixed: int,
        most_nodes: float = inf,
        most_edges: float = inf,
        is_late: StopCheck = bool,
    ) -> None:
        H, S = table.shape
        self.H, self.S, self.fixed = H, S, fixed
        self.most_nodes, self.most_edges, self.is_late = most_nodes, most_edges, is_late
        self.added = (0, 0)  # nodes and edges
        self.cut_short = False
        self.default = np.arange(H * S).reshape(H, S)
        self.root = self.default[0].copy()
        self.count = H * S
        none = np.zeros(0, dtype=np.int64)
        zeros = np.zeros(H * S, dtype=np.int64)
        step, state = np.repeat(np.arange(H), S), np.tile(np.arange(S), H)
        self.blocks: list[tuple[np.ndarray, ...]] = [
            (self.default.reshape(-1), step, state, table.reshape(-1), zeros, none, none, none)
        ]

    def fits(self, n: int, edges: int) -> bool:
        """Whether there is room for so many more nodes and edges."""
        n, edges = n + self.added[0], edges + self.added[1]
        return n / self.most_nodes + edges / self.most_edges <= 1.0

    def reserve(self, n: int, edges: int) -> Ints:
        """Numbers for `n` new nodes with so many edges, to be filled later."""
        if not self.fits(n, edges):
            raise PolicyTooLargeError
        self.added = (self.added[0] + n, self.added[1] + edges)
        self.count += n
        return np.arange(self.count - n, self.count)

    def fill(self, *block: np.ndarray) -> None:
        """Node numbers, step, state, action, degree; symbol, next, target of the successors."""
        self.blocks.append(block)

    def add_grid(
        self,
        observations: ObservationModel,
        grid: BeliefGrid,
        step: np.ndarray,
        state: np.ndarray,
        vertex: np.ndarray,
        level: int,
    ) -> Ints:
        """Node numbers of the grid's policies at the given points; adds what they lead to."""
        if len(step) == 0:
            return np.zeros(0, dtype=np.int64)
        H, S, V = grid.action.shape
        fixed = self.fixed if level == 0 else -1
        wanted = np.zeros((H, S, V), dtype=np.uint8)
        wanted[step, state, vertex] = 1
        count = np.zeros(2, dtype=np.int64)
        follow_policies(observations, grid, fixed, wanted, count)
        n, edges = int(count[0]), int(count[1])
        new = self.reserve(n, edges)
        nodes = [np.empty(n, dtype=np.int64) for _ in range(4)]
        links = [np.empty(edges, dtype=np.int64) for _ in range(3)]
        write_policies(observations, grid, fixed, wanted, *nodes, *links)
        number = np.full((H, S, V), -1, dtype=np.int64)
        if fixed >= 0:
            number[:, :, fixed] = self.default
            wanted[:, :, fixed] = 0
        number[wanted > 0] = new
        self.fill(new, *nodes, *links[:2], number.reshape(-1)[links[2]])
        return number[step, state, vertex]

    def graph(self) -> PolicyGraph:
        """The policy graph, nodes sorted by step. `O(nodes log nodes + successors)`."""
        number, step, state, action, degree, symbol, nxt, target = (
            np.concatenate([block[i] for block in self.blocks]) for i in range(8)
        )
        order = np.argsort(step, kind="stable")
        new = np.empty(self.count, dtype=np.int64)
        new[number[order]] = np.arange(self.count)
        first = np.cumsum(degree) - degree
        degree = degree[order]
        indptr = np.zeros(self.count + 1, dtype=np.int64)
        np.cumsum(degree, out=indptr[1:])
        edge = np.repeat(first[order] - indptr[:-1], degree) + np.arange(indptr[-1])
        symbol, nxt, target = symbol[edge], nxt[edge], new[target[edge]]
        return PolicyGraph(
            step[order].astype(np.int64), state[order].astype(np.int64), action[order], indptr,
            symbol, nxt, target, new[self.root], new[self.default],
        )._freeze()  # fmt: skip
