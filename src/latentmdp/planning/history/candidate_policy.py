"""A policy with memory from a few candidate actions at each belief, in little memory.

For plans that end before their search is done. `kernels/planning/candidates.py` has the graph:
rules propose actions (look-ahead on known values, the most informative action, the best action if
the context is told next), and at every node one may follow a Markov policy from then on: one that
is optimal in a context, or the best Markov policy known. What does not fit is cut there.
"""

from dataclasses import replace

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.evaluation.discounted import discounted_values
from latentmdp.kernels.planning.candidates import (
    CHOICE,
    EXIT,
    N_NODES,
    NODE_COLUMNS,
    OPTION_COLUMNS,
    RULES,
    STATE,
    STEP,
    WORK,
    CandidateGraph,
    CandidateRows,
    ObservedOutcomes,
    back_up,
    enter_nodes,
    expand,
    follow_exits,
    plant,
    table_values,
)
from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.baselines import context_values
from latentmdp.planning.budget import Budget
from latentmdp.planning.history.observations import (
    ObservationList,
    list_observations,
    listing_bytes,
    start_beliefs,
)
from latentmdp.planning.history.policy_parts import PolicyParts, PolicyTooLargeError
from latentmdp.planning.infinite.belief_grid import known_contexts
from latentmdp.planning.settings import SETTINGS, PlanningSettings
from latentmdp.policy.graph import PolicyGraph


class _Late(Exception):  # noqa: N818  (control flow, not an error)
    """Time or work is used up."""


class CandidatePolicy:
    """Makes the policy; `table (T, S)` is the Markov policy to improve on, `T = 1` if endless."""

    def __init__(
        self,
        model: LatentMDP,
        table: Ints,
        budget: Budget,
        memory: int,
        work: int,
        known: tuple[Ints, Floats] | None = None,
        settings: PlanningSettings = SETTINGS,
    ) -> None:
        self.settings = settings
        self.model, self.table, self.budget = model, table, budget
        self.endless = is_infinite(model.horizon)
        self.memory, self.work_limit, self.solved = memory, work, known
        self.spent = 0  # of the work: for the values of exits
        widths = np.diff(model.indptr).reshape(model.steps, model.M, -1).sum(axis=1)
        self.widest = int(widths.max())  # outcomes of an action, over all contexts

    def policy(self) -> PolicyGraph | None:
        """None without the memory, time or work for one that remembers anything."""
        if listing_bytes(self.model) > self.memory:
            return None
        self.listed = list_observations(self.model)
        most = self._most_exits(len(self.listed.key))
        for exits in (most, 0) if most > 0 else (most,):
            try:
                return self._made(exits) if exits >= 0 else None
            except PolicyTooLargeError:  # contexts' own policies have too many nodes
                continue
            except _Late:
                break
        return None

    def _made(self, exits: int) -> PolicyGraph:
        """The policy with so many contexts' own policies as exits."""
        rows = self._rows(exits)
        self.budget.kept_back = self.settings.candidate_writing * (self.budget.time_limit or 0.0)
        graph, start = self._grown(rows)
        self.budget.kept_back = 0.0
        return self._extracted(rows, graph, start)

    # ------------------------------------------------------------------ values

    def _most_exits(self, J: int) -> int:
        """Contexts whose own policies fit into memory as exits; -1: nothing fits."""
        model, T = self.model, len(self.table)
        M, S = model.M, model.S
        s = self.settings
        first = int(np.count_nonzero(model.nu.any(axis=0))) + 4 * self.widest + s.first_room
        if s.candidate_node_bytes * first > s.candidate_graph * self.memory:
            return -1
        free = s.candidate_tables * self.memory - 32 * J - 40 * M * S
        free -= 16 * (T + 1) * M * S  # knowing the context
        per_exit = T * S * (8 * M + 24)
        return min(M, int(free // per_exit) - 1)

    @property
    def _chain_work(self) -> int:
        """Work of evaluating a table without a last step in one context."""
        s, model = self.settings, self.model
        outcomes = len(model.next) // (model.M * s.candidate_outcomes_per_unit)
        return s.candidate_chain_work + outcomes

    def _look(self) -> None:
        """Stop if time is up."""
        if self.budget.reason():
            raise _Late

    def _rows(self, most: int) -> CandidateRows:
        model = self.model
        M, S, A = model.sizes
        if self.endless:
            if self.solved is None:
                self.solved = known_contexts(model, self.budget.reason, self.settings)[:2]
            best, known = (part[None] for part in self.solved)
        else:
            known, best = context_values(model, self._look)
            known = known[: model.H]
        self._look()
        order = np.argsort(-model.w, kind="stable")[:most]
        order = order[model.w[order] > 0]
        tables = np.concatenate([best[:, order].swapaxes(0, 1), self.table[None]])
        del best
        alpha = np.empty((len(self.table), S, len(tables), M))
        rows = CandidateRows(
            S, A, model.discount, model.indptr, model.next, model.symbol, model.prob,
            model.row_reward, np.ascontiguousarray(model.last_row_reward), model.stride, alpha,
            np.ascontiguousarray(known), self.endless,
        )  # fmt: skip
        seconds, share = self.budget.left, self.settings.candidate_exits_time
        begun, kept = self.budget.seconds, list[int]()
        for k in (len(tables) - 1, *range(len(tables) - 1)):  # the base comes first
            late = seconds is not None and self.budget.seconds - begun > share * seconds
            if kept and (late or self.spent >= self.work_limit):
                break
            self._evaluate(rows, tables[k], k)
            kept.append(k)
        kept = sorted(kept)
        if len(kept) < len(tables):
            alpha, tables = np.ascontiguousarray(alpha[:, :, kept]), tables[kept]
        self.tables = np.ascontiguousarray(tables)
        return rows._replace(alpha=alpha)

    def _evaluate(self, rows: CandidateRows, table: Ints, k: int) -> None:
        """The values of a table in all contexts, as exit `k`."""
        model, alpha = self.model, rows.alpha
        if self.endless:
            self.spent += model.M * self._chain_work
            policy = PolicyGraph.from_table(table[0], stationary=True)
            alpha[0, :, k] = discounted_values(model, policy, variances=False)[0]
            return
        s, size = self.settings, len(table) * len(model.next) // model.steps
        self.spent += size // (model.A * s.candidate_outcomes_per_unit) + 1
        length = max(1, 10 * s.candidate_piece * model.M // max(size, 1))
        for m in range(0, model.M, length):
            table_values(rows, table, k, alpha, m, min(m + length, model.M))
            self._look()

    # ------------------------------------------------------------------ the graph

    def _grown(self, rows: CandidateRows) -> tuple[CandidateGraph, Ints]:
        """The graph with values backed up, and the nodes of the first states."""
        start = start_beliefs(self.model)
        n, entries = len(start.state), int(np.count_nonzero(start.belief))
        graph = _empty_graph(
            n, max(entries, 4 * self.widest), self.widest, self.settings.first_room
        )
        _, context = np.nonzero(start.belief)
        first = np.append(0, np.cumsum(np.count_nonzero(start.belief, axis=1)))
        at = np.empty(n, dtype=np.int64)
        weight = start.belief[start.belief > 0]
        plant(rows, graph, start.state, start.prob, first, context, weight, at)
        found, done = _outcomes(self.widest), False
        room = self.settings.candidate_graph * self.memory
        while not done and not self.budget.reason():
            work = int(graph.used[WORK])
            if work >= self.work_limit:
                break
            stop = min(work + self.settings.candidate_piece, self.work_limit)
            done = expand(rows, graph, found, self.settings.candidate_least_weight, stop)
            if not done and graph.used[WORK] < stop:
                if 2 * _bytes(graph) > room:
                    break
                graph = _enlarged(graph)
        self._back_up(rows, graph)
        return graph, at

    def _back_up(self, rows: CandidateRows, graph: CandidateGraph) -> None:
        """The nodes' values and choices. Values rise, so it may stop after any pass."""
        used = int(graph.used[N_NODES])
        order = np.argsort(-graph.node[:used, STEP], kind="stable")
        if self.endless:
            order = order[::-1].copy()
        tolerance = 1e-12 * max(float(np.abs(rows.alpha).max()), 1e-300)
        for _ in range(self.settings.candidate_sweeps if self.endless else 1):
            if back_up(graph, order, tolerance) <= tolerance or self.budget.reason():
                break

    # ------------------------------------------------------------------ the policy

    def _extracted(self, rows: CandidateRows, graph: CandidateGraph, start: Ints) -> PolicyGraph:
        """The nodes that the choices lead to, exits included."""
        T, S = self.table.shape
        K = len(self.tables) - 1  # without the base, whose nodes are the default nodes
        chosen, (owner, edge) = _reached(graph, start)
        number = np.full(int(graph.used[N_NODES]), -1, dtype=np.int64)
        inner = chosen[graph.node[chosen, CHOICE] >= 0]
        leaf = chosen[graph.node[chosen, CHOICE] < 0]
        step, state, exit_ = (graph.node[leaf, column] for column in (STEP, STATE, EXIT))
        wanted = np.zeros((T, S, max(K, 1)), dtype=np.bool_)
        mine = exit_ < K
        wanted[step[mine], state[mine], exit_[mine]] = True
        self._look()
        parts = PolicyParts(self.table, -1, *self._room())
        place = np.full((T, S, K + 1), -1, dtype=np.int64)
        place[:, :, K] = parts.default
        if mine.any():
            self._add_exits(parts, self.listed, wanted, place)
        number[leaf] = place[step, state, exit_]
        number[inner] = parts.reserve(len(inner), len(edge))
        key, target = graph.key[edge], number[graph.child[edge]]
        order = np.lexsort((key, owner))
        option = graph.node[inner, CHOICE]
        degree = np.bincount(np.searchsorted(inner, owner), minlength=len(inner))
        parts.fill(
            number[inner], graph.node[inner, STEP], graph.node[inner, STATE],
            graph.option[option, 1], degree, key[order] // S, key[order] % S, target[order],
        )  # fmt: skip
        parts.root[graph.node[start, STATE]] = number[start]
        policy = parts.graph()
        return replace(policy, stationary=True) if self.endless else policy

    def _add_exits(
        self, parts: PolicyParts, seen: ObservationList, wanted: np.ndarray, place: Ints
    ) -> None:
        """Add the nodes of contexts' own policies that are wanted, and all that they lead to."""
        T, S, K = wanted.shape
        tables = self.tables[:K]
        queue = np.empty(S * K, dtype=np.int64)
        A, stride = self.model.A, self.model.stride // self.model.M
        n, edges = follow_exits(seen.ptr, seen.next, A, stride, tables, self.endless, wanted, queue)
        number = parts.reserve(n, edges)
        step, state, k = np.nonzero(wanted)
        place[step, state, k] = number
        action = tables[k, step, state]
        row = step * stride + state * A + action
        degree = seen.ptr[row + 1] - seen.ptr[row]
        if not self.endless:
            degree[step == T - 1] = 0
        owner = np.repeat(np.arange(n), degree)
        i = np.arange(len(owner)) - np.repeat(np.cumsum(degree) - degree, degree)
        i += seen.ptr[row][owner]
        after = step[owner] if self.endless else step[owner] + 1
        target = place[after, seen.next[i], k[owner]]
        parts.fill(number, step, state, action, degree, seen.symbol[i], seen.next[i], target)

    def _room(self) -> tuple[float, float]:
        """Nodes, or else edges, that memory suffices for."""
        s = self.settings
        free = (1.0 - s.candidate_tables - s.candidate_graph) * self.memory
        return free / (s.policy_node_bytes + 16 * self.model.M), free / s.policy_edge_bytes


def _reached(graph: CandidateGraph, start: Ints) -> tuple[Ints, tuple[Ints, Ints]]:
    """Nodes that the choices lead to, ascending; and `(node, edge)` of the edges on the way."""
    seen = np.zeros(int(graph.used[N_NODES]), dtype=np.bool_)
    owners, edges = [], []
    new = np.unique(start)
    while len(new):
        seen[new] = True
        option = graph.node[new, CHOICE]
        inner = new[option >= 0]
        option = option[option >= 0]
        first, degree = graph.option[option, 2], graph.option[option, 3]
        owner = np.repeat(inner, degree)
        i = np.arange(len(owner)) - np.repeat(np.cumsum(degree) - degree, degree)
        edge = np.repeat(first, degree) + i
        owners.append(owner)
        edges.append(edge)
        after = graph.child[edge]
        new = np.unique(after[~seen[after]])
    return np.flatnonzero(seen), (np.concatenate(owners), np.concatenate(edges))


def _outcomes(widest: int) -> ObservedOutcomes:
    n, slots = widest + 1, 2 << int(widest).bit_length()
    ints = [np.zeros(n, dtype=np.int64) for _ in range(5)]
    return ObservedOutcomes(
        key=ints[0], first=np.zeros(n + 1, dtype=np.int64),
        slot=np.full(slots, -1, dtype=np.int64), where=ints[1], of=ints[2], context=ints[3],
        mass=np.zeros(n),
    )  # fmt: skip


def _empty_graph(starts: int, entries: int, widest: int, room: int) -> CandidateGraph:
    """A graph with room for its first states and a few expansions."""
    n = starts + 2 * widest + room
    wide = entries + 2 * widest + room
    ints = dict.fromkeys(("context", "child", "key"), wide)
    arrays = {name: np.zeros(size, dtype=np.int64) for name, size in ints.items()}
    heap = RULES * (starts + 2 * wide)
    return CandidateGraph(
        used=np.zeros(6, dtype=np.int64), node=np.zeros((n, NODE_COLUMNS), dtype=np.int64),
        value=np.zeros((n, 2)), proposed=np.zeros((n, RULES), dtype=np.int64),
        followed=np.zeros(n, dtype=np.int64), weight=np.zeros(wide),
        option=np.zeros((n, OPTION_COLUMNS), dtype=np.int64), gain=np.zeros(n),
        prob=np.zeros(wide), heap=np.zeros(heap), heap_item=np.zeros(heap, dtype=np.int64),
        table=np.full(4 << n.bit_length(), -1, dtype=np.int64), **arrays,
    )  # fmt: skip


def _bytes(graph: CandidateGraph) -> int:
    return sum(array.nbytes for array in graph)


def _enlarged(graph: CandidateGraph) -> CandidateGraph:
    """With twice the room for everything."""
    larger = {
        name: np.concatenate([array, np.zeros_like(array)])
        for name, array in graph._asdict().items()
        if name not in ("used", "table")
    }
    graph = graph._replace(table=np.full(2 * len(graph.table), -1, dtype=np.int64), **larger)
    enter_nodes(graph)
    return graph
