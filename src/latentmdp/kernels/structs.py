"""The structs that kernels take: one per idea, named tuples of arrays, the shape on each field.

Rows and outcomes are the model's: row `(m, s, a)` is number `(m * S + s) * A + a`, and its outcomes
are `indptr[row] .. indptr[row + 1]`. Kernels read the fields they need into local names first.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.experimental import structref

from latentmdp.csr import Floats, Ints
from latentmdp.runtime.kernel_cache import kernel

Indices = np.ndarray[Any, np.dtype[np.uint32]]  # Numba checks the sign of signed indices: slower
Bools = np.ndarray[Any, np.dtype[np.bool_]]

END = -1  # the cell after the last step
CELLS, EDGES, ROWS = 0, 1, 2  # entries of `Chain.size`
MEMORY_NODES, SUCCESSORS = 0, 1  # entries of `GrowingMemory.used`


class ModelRows(NamedTuple):
    """A known model, as simulators need it."""

    M: int
    S: int
    A: int
    H: int
    indptr: Ints  # (rows + 1,)
    next: Ints  # (outcomes,)
    symbol: Ints  # (outcomes,)
    prob: Floats  # (outcomes,)
    cumulative: Floats  # (outcomes,) probabilities summed within each row
    conditional: Floats  # (outcomes,) probability of an outcome, given none before it in its row
    expected_reward: Floats  # (rows,)
    start_context: Ints  # (starts,) the pairs (context, first state) that can occur
    start_state: Ints  # (starts,)
    start_prob: Floats  # (starts,)
    start_cumulative: Floats  # (starts,) as for outcomes
    start_conditional: Floats  # (starts,)


class PolicyNodes(NamedTuple):
    """The arrays of a `PolicyGraph`, in its order."""

    step: Ints  # (nodes,)
    state: Ints  # (nodes,)
    action: Ints  # (nodes,)
    indptr: Ints  # (nodes + 1,) successors, sorted by (symbol, next) inside a node
    symbol: Ints  # (successors,)
    next: Ints  # (successors,)
    node: Ints  # (successors,)
    root: Ints  # (S,)
    default: Ints  # (H, S)


class Chain(NamedTuple):
    """The Markov chain of a policy in a model: cells (node, context) in step order, and edges.

    The edges of cell `c` are `first[c] .. first[c + 1]`, one for each outcome of its row, in the
    row's order. Only cells of positive probability are listed; the start cells come first. Arrays
    are longer than what is in use (`size`).
    """

    size: Ints  # (3,) CELLS, EDGES and ROWS in use
    row: Ints  # (cells,) of the model
    node: Ints  # (cells,) of the policy
    reach: Floats  # (cells,) probability
    visits: Ints  # (cells,) in this phase
    first: Ints  # (cells + 1,)
    succ: Ints  # (edges,) the cell an edge leads to; END after the last step
    layer: Ints  # (H + 1,) the cells of step t are layer[t] .. layer[t + 1]
    active: Ints  # (rows,) the rows that are visited at all come first
    rate: Floats  # (rows,) expected visits per episode
    peak: Floats  # (rows,) largest probability of a visit at one step


class RowCounts(NamedTuple):
    """The arrays of `Counts`, laid out as the model's outcomes."""

    n: Ints  # (rows,) visits
    n_next: Ints  # (outcomes,)
    N: Ints  # (rows,) their snapshot
    N_next: Ints  # (outcomes,)


class Block(NamedTuple):
    """Episodes under one policy, by their counts."""

    arrivals: Ints  # (cells,) visits to each cell
    flow: Ints  # (edges,) of them, those that left along each edge


class Picked(NamedTuple):
    """Episodes picked out of a block."""

    place: Ints  # (most,) their places in the block, ascending
    order: Ints  # (most,) which of them is at that place
    cells: Ints  # (most, H) their paths
    outcomes: Ints  # (most, H)


class World(NamedTuple):
    """A simulated world: a model, the policy that is played, its chain, counts and buffers."""

    model: ModelRows
    policy: PolicyNodes
    cell_of: Ints  # (nodes, M) scratch of `build_chain`
    chain: Chain
    counts: RowCounts
    block: Block
    half: Block  # the first half of a block, cut off it
    gain: Ints  # (rows,) visits in a block
    picked: Picked
    path_cells: Ints  # (H,) the triggering episode
    path_outcomes: Ints  # (H,)
    changed: Ints  # (H,) rows with a new snapshot
    bitgen: int  # address of the random generator's C state, as `samplers` needs it
    scratch: Floats  # (SCRATCH,) of `samplers.binomial`


@structref.register
class _WorldType(types.StructRef):
    """The type of a packed world."""


class _PackedWorld(structref.StructRefProxy):
    """A world that kernels take by reference."""


structref.define_proxy(_PackedWorld, _WorldType, World._fields)


@kernel
def _pack_world(world):
    return _PackedWorld(*world)


def pack_world(world: World) -> Any:
    """The same world for many calls: handing it to a kernel takes 0.5 microseconds, not 10."""
    return world if numba.config.DISABLE_JIT else _pack_world(world)  # type: ignore[attr-defined]


# ------------------------------------------------------------- optimistic planning


class ConfidenceRows(NamedTuple):
    """An optimistic model: row `(m, s, a)` has the slots `start[row] .. stop[row]`, one an outcome.

    Bonus models use `c1` and `c2`; confidence sets the boxes `lower, upper` and what a next state
    without a slot may get. The type of the rows says which: kernels are compiled for each.
    """

    cap: float  # values are clipped here
    direction: float  # of confidence sets: 1 the best distribution in them, -1 the worst
    start: Indices  # (rows + 1,) where the room of a row begins; not all of it need be in use
    stop: Indices  # (rows,)
    next: Indices  # (slots,)
    observation: Indices  # (slots,) its number among what can be seen after (s, a)
    count_slot: Ints  # (slots,) where the counts have this outcome; -1: nowhere
    p_hat: Floats  # (slots,)
    reward: Floats  # (slots,) on the transition; 0 where rewards sit on rows
    lower: Floats  # (slots,) the least probability in the confidence set
    upper: Floats  # (slots,)
    gain: Floats  # (rows,) reward + c3
    c1: Floats  # (rows,)
    c2: Floats  # (rows,)
    unseen: Floats  # (rows,) what each next state without a slot may get
    budget: Floats  # (rows,) how much mass may move in all


class Candidates(NamedTuple):
    """What rows may list (`outcomes.py`). Those of row `i` are `start[i] .. start[i + 1]`."""

    start: Ints  # (rows + 1,)
    next: Ints  # (slots,) ascending inside a row
    count_slot: Ints  # (slots,) where the counts have it, -1 if they have no slot
    reward: Floats  # (slots,) on the transition; 0 where rewards sit on rows
    group: Ints  # (slots,) candidates of one group are listed together
    shown: Bools  # (groups,) whether they are listed
    observation: Ints  # (slots,) its number among what can be seen after (s, a)


class BonusRows(ConfidenceRows):
    """Rows of Eqs. (3) and (4)."""


class BoxRows(ConfidenceRows):
    """Rows of Eq. (2)."""


class Nodes(NamedTuple):
    """The nodes on which a policy chooses actions, by step, and what follows them.

    The first `S` nodes of each step are its *default* nodes, one a state: the Markov policy, and
    what follows an observation that the memory does not expect. Memory nodes come after them. Every
    node has a successor for every observation. The nodes of step `H` are worth 0.
    """

    span: Indices  # (H + 2,) the nodes of step t are span[t] .. span[t + 1]
    state: Indices  # (N,)
    step: Indices  # (N,)
    edge: Indices  # (N, A) where the successors of an action begin
    succ: Indices  # (edges,) by number of the observation
    first: Indices  # (S,) the node of a first state
    played: Bools  # (N,) all but first states that no episode begins in
    possible: Bools  # (N, M) contexts that can be at a node; values of the others are 0


class Valuation(NamedTuple):
    """Values of nodes, and for confidence sets the default nodes of each step by value."""

    value: Floats  # (N, M)
    by_value: Indices  # (H + 1, M, S) states in descending order of their default node's score
    rank: Indices  # (H + 1, M, S) place of each state in that order
    best: Floats  # (H + 1, M, S) the scores in that order: values times `direction`
    total: Floats  # (H + 1, M, S + 1) their running sums


class RowScratch(NamedTuple):
    """Scratch arrays of one row; all but the first are for confidence sets."""

    after: Floats  # (S,) values after the outcomes; for confidence sets scores
    order: Indices  # (S,) slots by descending score
    place: Indices  # (S,) where a slot's score stands among the default nodes
    listed: Indices  # (S,) places of next states that have a slot, ascending
    weight: Floats  # (S,) probability of each slot in the extreme distribution
    by_place: Floats  # (S + 1,) differences of weights from one place to the next


class Workspace(NamedTuple):
    """Scratch arrays of a search."""

    reach: Floats  # (N, M) derivative of the objective in each value
    backed_up: Floats  # (N, M) results of a backup
    top: Floats  # (N,) best weighted value found at a node
    wanted: Bools  # (N,) the nodes that a backup is to look at
    touched: Bools  # (S * A,) states and actions with new coefficients in some context
    live: Bools  # (N,) the nodes on which the objective can depend
    proposal: Ints  # (N,) the policy of a sweep
    switched: Floats  # (M,) values of a node whose action is switched


class Search(NamedTuple):
    """One optimistic model on one graph: what the searching kernels work on."""

    confidence_set: bool  # the rows are `BoxRows`
    M: int
    S: int
    A: int
    H: int
    candidates: Candidates
    rows: ConfidenceRows
    nodes: Nodes
    root: Floats  # (M, S) probability of context and first state
    prior: Floats  # (M,) of contexts
    current: Valuation  # of the policy that is improved
    valued: Ints  # (N,) the policy whose values `current` holds, but for the contexts `stale`
    stale: Bools  # (M,) contexts whose rows have changed since
    trial: Valuation  # of the policy on trial
    known: Valuation  # with the context known; default nodes only
    known_action: Floats  # (H, S, A, M) of actions, with the context known
    work: Workspace
    scratch: RowScratch


class GrowingMemory(NamedTuple):
    """Memory nodes in the order in which they were made; node `D + i` of `Nodes` has entry `i`.

    `D` is the number of default nodes, which come first. Observations after `(s, a)` are
    `start[s * A + a] .. start[s * A + a + 1]`, sorted by `(symbol, next)`.
    """

    start: Ints  # (S * A + 1,)
    next: Ints  # (observations,)
    likelihood: Floats  # (observations, M)
    consistent: Bools  # (observations, M) contexts that keep their belief if it is unexpected
    used: Ints  # (2,) MEMORY_NODES and SUCCESSORS in use
    belief: Floats  # (room, M)
    key: Ints  # (room, M + 2) belief by cells, state and step; what makes two nodes one
    table: Ints  # (2 room + 1,) hash table of the keys, -1: empty
    solved: Bools  # (room,)


class DepthStack(NamedTuple):
    """The path of a depth-first solve, one entry a step."""

    node: Ints  # (H,)
    action: Ints  # (H,) the one that is tried, -1: none yet
    child: Ints  # (H,) number of the observation whose successor is looked at
    bound: Floats  # (H, A) of actions not yet tried; -1: tried
    arrival: Floats  # (H,) probability of getting there


@structref.register
class _SearchType(types.StructRef):
    """The type of a packed search."""


class _PackedSearch(structref.StructRefProxy):
    """A search that kernels take by reference."""


structref.define_proxy(_PackedSearch, _SearchType, Search._fields)


@kernel
def _pack_search(search):
    return _PackedSearch(*search)


def pack_search(search: Search) -> Any:
    """The same search for many calls, as in `pack_world`."""
    return search if numba.config.DISABLE_JIT else _pack_search(search)  # type: ignore[attr-defined]


# ------------------------------------------------------------- theory


class PricedRows(NamedTuple):
    """Rows with a probability and a reward for each outcome: true ones or estimates."""

    A: int
    indptr: Ints  # (rows + 1,)
    next: Ints  # (outcomes,)
    symbol: Ints  # (outcomes,)
    prob: Floats  # (outcomes,)
    reward: Floats  # (outcomes,) on the transition; 0 where rewards are given by row


class BonusTerms(NamedTuple):
    """What Eqs. (3), (4) need of each row besides `P_hat`, for the audit."""

    cap: float
    row_reward: Floats  # (rows,) 0 where rewards sit on transitions
    c1: Floats  # (rows,) of the standard deviation
    c2: Floats  # (rows,) what the bonus is at least
    c3: Floats  # (rows,) added


class BoxTerms(NamedTuple):
    """What Eq. (2) needs of each row besides `P_hat`, for the audit."""

    cap: float
    on_next: bool  # rewards and symbols are those by next state
    row_reward: Floats  # (rows,)
    row_symbol: Ints  # (rows,)
    next_reward: Floats  # (rows, S), or (1, 1) and not used
    next_symbol: Ints  # (rows, S), or (1, 1) and not used
    lower: Floats  # (outcomes,)
    upper: Floats  # (outcomes,)
    unseen: Floats  # (rows,) what each next state never seen may get
    budget: Floats  # (rows,) mass that may move; 1 for a box alone
    visited: Bools  # (rows,)


class BoxScratch(NamedTuple):
    """Scratch arrays of one row of `BoxTerms`."""

    after: Floats  # (S,) values after the next states
    low: Floats  # (S,) the box
    high: Floats  # (S,)
    order: Ints  # (S,) next states, the best first


class ProofTerms(NamedTuple):
    """What the bonus of the proof, beta, depends on besides values."""

    Gamma: int
    iota: float
    N: Ints  # (rows,) visits in the snapshot


class PhaseVisits(NamedTuple):
    """Visits of a phase by node and context, in its last episode up to the trigger's step `t0`."""

    inside: Floats  # (N, M) with t <= t0
    before: Floats  # (N, M) with t < t0


class Moments(NamedTuple):
    """Moments of the total reward under a Markov table; from `(t, s)` on they are discounted."""

    reach: Floats  # (H, S, M) probability of step, state and context
    collected: Floats  # (H, S, M) times the reward collected so far
    first: Floats  # (H + 1, M, S) mean of the reward from there on
    second: Floats  # (H + 1, M, S) mean of its square
