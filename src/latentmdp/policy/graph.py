"""`PolicyGraph`: every deterministic policy, Markov or with memory, as one kind of graph.

A node is `(step, state, action)`; on an observation `(symbol, next)` the policy moves to the node's
successor for it, or, where there is none, to the default node of `(step + 1, next)`. So a policy
answers any observation, also one that its planning model gave probability zero, and a Markov
policy is a graph without successors: one default node per `(step, state)`.

A *stationary* policy does not count steps: all its nodes are at step 0, successors lead to any of
them, in circles too, and there is one default node per state. It is what models without a last step
are played with (`H` is `math.inf`); in a model with one it is played until then.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.csr import Ints
from latentmdp.errors import ModelError, TransferWarning
from latentmdp.model.availability import Mask
from latentmdp.model.horizons import WITHOUT_END, is_infinite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.belief import initial_belief, update_belief
from latentmdp.policy.checks import check_graph, check_range, check_shapes, indices
from latentmdp.policy.cursor import Cursor
from latentmdp.policy.dot import to_dot
from latentmdp.policy.frame import policy_frame
from latentmdp.policy.numbering import Numbering, in_numbers_of
from latentmdp.policy.simplify import merged, merged_stationary, pruned
from latentmdp.policy.stationary import for_horizon, stationary_table
from latentmdp.policy.time_augmented import from_time_augmented, is_for_time_augmented

if TYPE_CHECKING:
    import pandas as pd


class Problem(Protocol):
    """What a policy must fit: a model, or what a learner knows of one."""

    @property
    def H(self) -> int: ...
    @property
    def S(self) -> int: ...
    @property
    def A(self) -> int: ...
    @property
    def allowed(self) -> Mask | None: ...
    @property
    def substitute(self) -> Ints: ...


@dataclass(frozen=True, eq=False)
class PolicyGraph:
    """A deterministic policy as a frozen struct of arrays; see the module's docstring.

    >>> policy = PolicyGraph.from_table([[0, 1], [1, 1]])  # action by (step, state)
    >>> cursor = policy.cursor(1)
    >>> cursor.action, cursor.observe(0), cursor.observe(1)
    (1, 1, None)
    """

    step: Ints  # (N,) ascending
    state: Ints  # (N,)
    action: Ints  # (N,)
    indptr: Ints  # (N + 1,) CSR of successors
    symbol: Ints  # (E,) sorted by (symbol, next) inside a node
    next: Ints  # (E,)
    node: Ints  # (E,) the successor
    root: Ints  # (S,) node at step 0 by first state
    default: Ints  # (H, S) node by (step, state); (1, S) if stationary
    stationary: bool = False  # one rule for all steps: successors are at step 0 as well
    model: LatentMDP | None = field(default=None, compare=False)  # that it was made for, if known
    numbering: Numbering | None = field(default=None, compare=False)  # what its symbols stand for,
    # where they are a learner's numbers and not a model's

    @property
    def N(self) -> int:
        """Number of nodes."""
        return len(self.step)

    @property
    def H(self) -> int:
        """The horizon; `math.inf` of a stationary policy."""
        return WITHOUT_END if self.stationary else int(self.default.shape[0])

    @property
    def S(self) -> int:
        """Number of states."""
        return int(self.default.shape[1])

    @property
    def is_markov(self) -> bool:
        """Whether the action depends on step and state alone."""
        return len(self.node) == 0 and np.array_equal(self.root, self.default[0])

    @property
    def table(self) -> Ints:
        """`(H, S)` (stationary: `(1, S)`) actions of the default nodes; all of a Markov policy."""
        return self.action[self.default]

    # ------------------------------------------------------------------ building

    @classmethod
    def from_arrays(
        cls,
        step: ArrayLike,
        state: ArrayLike,
        action: ArrayLike,
        indptr: ArrayLike,
        symbol: ArrayLike,
        next: ArrayLike,
        node: ArrayLike,
        root: ArrayLike,
        default: ArrayLike,
        *,
        stationary: bool = False,
    ) -> "PolicyGraph":
        """From arrays with nodes and successors in any order; sorts and checks. `O(N + E)` logs."""
        parts = (step, state, action, indptr, symbol, next, node, root, default)
        a = {name: indices(name, part) for name, part in zip(POLICY_PARTS, parts, strict=True)}
        check_shapes(a)
        order = np.argsort(a["step"], kind="stable")
        new_id = np.empty_like(order)
        new_id[order] = np.arange(len(order))
        degree = np.diff(a["indptr"])
        owner = new_id[np.repeat(np.arange(len(order)), degree)]
        edges = np.lexsort((a["next"], a["symbol"], owner))
        sorted_indptr = np.zeros(len(order) + 1, dtype=np.int64)
        np.cumsum(degree[order], out=sorted_indptr[1:])
        for name in ("node", "root", "default"):
            check_range(name, a[name], len(order))
        graph = cls(
            a["step"][order],
            a["state"][order],
            a["action"][order],
            sorted_indptr,
            a["symbol"][edges],
            a["next"][edges],
            new_id[a["node"][edges]],
            new_id[a["root"]],
            new_id[a["default"]],
            bool(stationary),
        )
        check_graph(graph)
        return graph._freeze()

    @classmethod
    def from_table(cls, table: ArrayLike, stationary: bool = False) -> "PolicyGraph":
        """The Markov policy with actions `table (H, S)`; `(1, S)` or `(S,)` if stationary."""
        if stationary:
            return stationary_table(table)
        actions = indices("table", table)
        if actions.ndim != 2 or 0 in actions.shape:
            raise ModelError(f"table must have the shape (H, S); it is {actions.shape}")
        check_range("table", actions, None)
        actions.setflags(write=False)
        return cls._markov(actions.reshape(-1), *actions.shape)

    @classmethod
    def _markov(cls, actions: Ints, H: int, S: int) -> "PolicyGraph":
        """`from_table` of read-only actions `(H * S,)` that need no check."""
        policy = cls.__new__(cls)  # frozen classes are slow to make, and learners make many
        policy.__dict__.update(_markov_skeleton(H, S), action=actions)
        return policy

    @classmethod
    def from_belief(
        cls,
        model: LatentMDP,
        choose: Callable[[int, int, np.ndarray], int],
        digits: int = 12,
        max_nodes: int | None = None,
        time_limit: float | None = None,
    ) -> "PolicyGraph":
        """The policy that plays `choose(step, state, belief)`; beliefs equal to `digits` merge.

        Expands what is reachable under its own choices. Unexpected observations are answered by
        `choose` at the prior belief. Contexts that are possible stay so, however unlikely. Beliefs
        beyond `max_nodes` or `time_limit` (seconds) are answered like unexpected observations.
        """
        from latentmdp.policy.grow import expand  # which makes a PolicyGraph

        least = 10.0**-digits

        def follow(
            step: int, state: int, memory: tuple[float, ...], action: int, symbol: int, nxt: int
        ) -> tuple[float, ...] | None:
            belief = update_belief(
                model, np.array(memory), state, action, nxt, symbol=symbol, step=step
            )
            if belief is None:
                return None
            return tuple(np.where(belief > 0.0, np.maximum(np.round(belief, digits), least), 0.0))

        def start(state: int) -> tuple[float, ...]:
            belief = initial_belief(model, state)
            return tuple(model.w if belief is None else belief)

        return expand(
            model, start, follow, lambda t, s, memory: choose(t, s, np.array(memory)), max_nodes,
            time_limit,
        )  # fmt: skip

    @classmethod
    def from_tree(cls, model: LatentMDP, choose: Callable[[tuple[int, ...]], int]) -> "PolicyGraph":
        """The policy that plays `choose(history)`, one node per possible history.

        A history is `(s_0, a_0, symbol_0, s_1, a_1, symbol_1, ..., s_t)`. Histories that the model
        cannot produce continue at the default node, which plays `choose((s,))` at every step.
        """
        from latentmdp.policy.grow import expand  # which makes a PolicyGraph

        def follow(
            step: int, state: int, memory: tuple[int, ...], action: int, symbol: int, nxt: int
        ) -> tuple[int, ...]:
            return (*memory, action, symbol, nxt)

        return expand(model, lambda s: (s,), follow, lambda t, s, history: choose(history))

    # ------------------------------------------------------------------ running

    def for_model(self, model: LatentMDP) -> "PolicyGraph":
        """The same policy in the model's numbers, which knows it: cursors understand rewards."""
        return replace(fitted(model, self), model=model, numbering=None)

    def numbered_by(self, numbering: Numbering) -> "PolicyGraph":
        """The same policy, which says that its symbols are those of `numbering`."""
        return replace(self, model=None, numbering=numbering)

    def cursor(self, state: int, model: LatentMDP | None = None) -> Cursor:
        """A cursor at the root node of the first `state`.

        `model` (default: the policy's own) tells what rewards say, what can happen at all, and how
        to go on after another action than the policy's.
        """
        if not 0 <= state < self.S:
            raise ModelError(f"the first state must be from 0 to {self.S - 1}; it is {state}")
        if model is None:
            return Cursor(self, int(self.root[state]), self.model)
        return Cursor(fitted(model, self), int(self.root[state]), model)

    def step_after(self, step: Any) -> Any:
        """The step of the nodes that follow those of `step`: 0 again in a stationary policy."""
        return step if self.stationary else step + 1

    def ends_after(self, step: Any) -> Any:
        """Whether the nodes of `step` are the last ones."""
        return step == self.H - 1  # never where H is infinite

    def successors(self, node: ArrayLike, symbol: ArrayLike, next: ArrayLike) -> Ints:
        """The nodes after observing `(symbol, next)` at `node`, for arrays of one shape.

        Nodes of the last step have none and must not be asked.
        """
        node, symbol, next = np.asarray(node), np.asarray(symbol), np.asarray(next)
        result = self.default[self.step_after(self.step[node]), next]
        if len(self.node):
            width, keys = self._edge_keys
            wanted = (node * width + symbol) * self.S + next
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            found = (keys[place] == wanted) & (symbol < width)
            result = np.where(found, self.node[place], result)
        return result

    def successor(self, node: int, symbol: int, next: int) -> int:
        """`successors` for one observation, by a look at the node's own ones alone."""
        for e in range(self.indptr[node], self.indptr[node + 1]):
            if self.symbol[e] == symbol and self.next[e] == next:
                return int(self.node[e])
        return int(self.default[self.step_after(self.step[node]), next])

    @cached_property
    def _edge_keys(self) -> tuple[int, Ints]:
        """One more than the largest symbol, and one ascending number per edge."""
        width = int(self.symbol.max(initial=0)) + 1
        owner = np.repeat(np.arange(self.N), np.diff(self.indptr))
        return width, (owner * width + self.symbol) * self.S + self.next

    # ------------------------------------------------------------------ simplifying

    def prune(self, model: LatentMDP | None = None) -> "PolicyGraph":
        """Without successors that say what the default says, and without unreachable nodes.

        With a `model`, also without successors on observations that it gives probability zero.
        """
        return pruned(self, model)

    def merge(self) -> "PolicyGraph":
        """With equivalent nodes merged: same step, state, action and merged successors."""
        return merged_stationary(self) if self.stationary else merged(self)

    # ------------------------------------------------------------------ showing, saving

    def to_dot(self, model: LatentMDP | None = None, max_nodes: int = 200) -> str:
        """The part reachable from the roots as a Graphviz `digraph`, at most `max_nodes` of it.

        With a `model`: names from it, and every observation it can show; without: the successors.
        """
        return to_dot(self if model is None else fitted(model, self), model, max_nodes)

    def to_frame(self, model: LatentMDP | None = None, names: bool = True) -> "pd.DataFrame":
        """One row per node: `node, step, state, action`, in the order of the steps.

        With a `model` (default: the policy's own, if it knows one) also `reach`, the probability of
        being there, and `belief`, an array `(M,)` of what is known of the context there (None where
        it is never reached); with `names`, states and actions have the model's names. A Markov
        policy has one row per step and state.
        """
        model = self.model if model is None else model
        return policy_frame(self if model is None else fitted(model, self), model, names)

    def save(self, path: str | Path) -> None:
        """Write to `path` (.json or .npz), atomically."""
        from latentmdp.formats import save_policy  # which takes a PolicyGraph

        save_policy(self, path)

    @classmethod
    def load(cls, path: str | Path) -> "PolicyGraph":
        """Read what `save` wrote, or a Markov policy's CSV table."""
        from latentmdp.formats import load_policy  # which makes a PolicyGraph

        return load_policy(path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PolicyGraph):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name))
            for f in fields(self)
            if f.compare
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kind = "Markov" if self.is_markov else "with memory"
        kind += ", stationary" * self.stationary
        return f"PolicyGraph({kind}, N={self.N}, edges={len(self.node)}, H={self.H}, S={self.S})"

    def _freeze(self) -> "PolicyGraph":
        for name in POLICY_PARTS:
            getattr(self, name).flags.writeable = False
        return self


@lru_cache(maxsize=16)
def _markov_skeleton(H: int, S: int) -> dict[str, Ints]:
    """All of a Markov policy's frozen arrays but its actions."""
    ids, empty = np.arange(H * S).reshape(H, S), np.zeros(0, dtype=np.int64)
    parts = {
        "step": np.repeat(np.arange(H), S), "state": np.tile(np.arange(S), H),
        "indptr": np.zeros(H * S + 1, dtype=np.int64), "symbol": empty, "next": empty,
        "node": empty, "root": ids[0].copy(), "default": ids,
    }  # fmt: skip
    for part in parts.values():
        part.flags.writeable = False
    return parts


POLICY_PARTS = tuple(field.name for field in fields(PolicyGraph))[:9]
"""The names of a policy's arrays, in the order of `PolicyGraph.from_arrays`."""


def check_fits(model: Problem, policy: PolicyGraph) -> None:
    """Refuse a policy whose horizon, states or actions are not the model's, or unavailable."""
    if not isinstance(policy, PolicyGraph):
        raise ModelError(f"a policy must be a PolicyGraph; found {type(policy).__name__}")
    if policy.stationary and policy.S == model.S:
        pass  # played for as many steps as there are
    elif is_infinite(model.H) and not policy.stationary:
        raise ModelError(
            "the policy must be stationary, as the model has no last step; it is for "
            f"H={policy.H} steps (plan(model) gives one, or model.replace(horizon={policy.H}))"
        )
    elif policy.H != model.H or policy.S != model.S:
        raise ModelError(
            f"the policy must be for H={model.H} steps and S={model.S} states; "
            f"it is for H={policy.H} and S={policy.S}"
        )
    if policy.action.max() >= model.A:
        raise ModelError(
            f"the policy's actions must be from 0 to {model.A - 1}; "
            f"node {int(np.argmax(policy.action))} plays {policy.action.max()}"
        )
    if model.allowed is not None:
        available = model.allowed[_places(model.allowed, policy)]
        if not available.all():
            n = int(np.argmin(available))
            raise ModelError(
                "the policy's actions must be available; "
                f"node {n} (step {policy.step[n]}, state {policy.state[n]}) plays action "
                f"{policy.action[n]}, which is unavailable there"
            )


def playable(model: Problem, policy: PolicyGraph) -> PolicyGraph:
    """The policy with the first available action of the state in place of unavailable ones.

    Their rows are the same, so it has the same value to the bit, and the same successors.
    """
    if model.allowed is None:
        return policy
    action = model.substitute[_places(model.allowed, policy)]
    if np.array_equal(action, policy.action):
        return policy
    action.flags.writeable = False
    return replace(policy, action=action)


def _places(allowed: Mask, policy: PolicyGraph) -> tuple[Ints, ...]:
    """Where the nodes of a policy stand in a table `(S, A)`, or `(H, S, A)` by step."""
    place = policy.state, policy.action
    return place if allowed.ndim == 2 else (policy.step, *place)


def fitted(model: LatentMDP, policy: PolicyGraph) -> PolicyGraph:
    """The policy with the model's numbers for rewards, and the same nodes; checked to fit.

    A policy for `model.time_augmented()` is turned into one for the model's own states.

    A stationary policy in a model with a last step is written out step by step: its node `n` at
    step `t` is node `t * N + n`.
    """
    if isinstance(policy, PolicyGraph):
        if is_for_time_augmented(model, policy):
            policy = from_time_augmented(model, policy)
        elif policy.stationary and policy.S == model.S and model.steps > 1:
            policy = for_horizon(policy, model.H)  # before its actions are checked, step by step
    check_fits(model, policy)
    if policy.numbering is not None:
        policy = in_numbers_of(policy, policy.numbering, model)
    if policy.stationary and not is_infinite(model.horizon):
        return for_horizon(policy, model.H)
    return policy


def as_policy(model: LatentMDP, given: Any, what: str = "a policy") -> PolicyGraph:
    """What a person has as a policy for the model: a plan's, a graph, or a table of actions.

    A table has the shape `(H, S)`, or `(S,)` for the same actions at every step. A graph that was
    made for a model with other names, or other available actions, is transferred by names
    (`policy/transfer.py`), with a warning where something had to be filled in.
    """
    policy = getattr(given, "policy", given)
    if isinstance(policy, PolicyGraph):
        from latentmdp.policy.transfer import needs_transfer, transfer  # which makes a PolicyGraph

        if needs_transfer(policy, model):
            found = transfer(policy, model)
            if found.filled:
                warnings.warn(str(found), TransferWarning, stacklevel=3)
            return found.policy
        return fitted(model, policy)
    try:
        actions = np.asarray(policy)
    except ValueError:  # lists of unequal lengths
        actions = np.zeros(0, dtype=object)
    if actions.ndim not in (1, 2) or actions.dtype.kind not in "iu":
        raise ModelError(
            f"{what} must be a Plan, a PolicyGraph or a table of whole numbers, the actions, of "
            f"the shape ({model.H}, {model.S}) or ({model.S},); found {_kind(policy, actions)}"
        )
    if is_infinite(model.horizon):
        return fitted(model, stationary_table(actions))
    if actions.ndim == 1:
        actions = np.tile(actions, (model.H, 1))
    return fitted(model, PolicyGraph.from_table(actions))


def _kind(given: Any, array: np.ndarray) -> str:
    """What was given in place of a table."""
    if isinstance(given, (list, tuple, np.ndarray)) and array.dtype.kind != "O":
        return f"an array of the shape {array.shape} and the type {array.dtype}"
    return f"a {type(given).__name__}"
