"""`transfer`: a policy in another model with the same names of states and actions.

Models of one problem may number its states and actions differently: a fit has the states that its
log showed, the simulator has all of them; two parts of a log make different actions available.
Names say what is meant. Nodes with their actions and successors, and readings, are translated by
names, rewards that were seen by their values. What the policy does not say is filled in and listed:

- in states that it does not know, it plays the first available action;
- where its action does not exist or is unavailable, too, and forgets what it remembered;
- after observations that its own model cannot show, it goes on from the default node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Ints
from latentmdp.errors import ModelError
from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.belief import reach_weights
from latentmdp.policy.numbering import (
    from_model_to_model,
    reading_numbers,
    unknown_observations,
)

if TYPE_CHECKING:
    from latentmdp.policy.graph import PolicyGraph

SHOWN = 3  # names in a sentence


@dataclass(frozen=True)
class Transfer:
    """A policy in the numbers of another model, and what it does not say there.

    `filled`: what was filled in, in sentences. `steps`: the expected number of steps of an episode
    in which the policy plays an action that was filled in (without a last step: NaN).
    """

    policy: PolicyGraph
    filled: tuple[str, ...] = ()
    steps: float = 0.0

    def __str__(self) -> str:
        return "; ".join(self.filled) or "nothing had to be filled in"


def transfer(policy: Any, model: LatentMDP, source: LatentMDP | None = None) -> Transfer:
    """The same policy in `model`, by names; see the module. `O(nodes + edges)` logs.

    `source`: the model whose numbers the policy has (default: the one it was planned in). A model
    without names has its numbers as names; where two models have no name in common and equally many
    states (or actions), their order says which is which. A table of actions has no names and is
    taken as the model numbers it.
    """
    from latentmdp.policy.graph import PolicyGraph, as_policy

    graph = getattr(policy, "policy", policy)
    if not isinstance(graph, PolicyGraph):
        return Transfer(as_policy(model, graph).for_model(model))
    own: Any = graph.model if source is None else source
    for which, found in (("the policy's model", own), ("the new model", model)):
        if not isinstance(found, LatentMDP) or found.steps > 1:
            what = "step-dependent" if isinstance(found, LatentMDP) else f"a {type(found).__name__}"
            raise ModelError(
                f"transfer needs two models that do not change with the step; {which} is "
                + ("not known: give source=" if found is None else what)
            )
    if own is model:
        return Transfer(graph.for_model(model))
    graph = graph.for_model(own)
    if not graph.stationary and graph.H != model.H:
        raise ModelError(
            f"the policy must be for H={model.H} steps; it is for H={graph.H} "
            f"(plan with horizon={model.H})"
        )
    states = _matched("states", own.state_names, own.S, model.state_names, model.S)
    actions = _matched("actions", own.action_names, own.A, model.action_names, model.A)
    moved, missing, replaced = _renamed(graph, states, actions, model)
    if len(moved.node):
        unknown = unknown_observations(moved, own, model, states, actions)
        moved = from_model_to_model(moved, own, model, states, actions)
    else:
        unknown = 0
    reach = reach_weights(model, moved).sum(axis=1)
    reach = reach.reshape(-1, moved.N).sum(axis=0)  # a stationary policy is played step by step
    filled = []
    if missing.any():
        which_states = np.flatnonzero(states < 0)
        filled.append(
            f"{_counted(len(which_states), 'state')} unknown to the policy ("
            f"{_some(model.state_names, which_states)}): it plays the first available action there"
            + _spent(model, float(reach[missing].sum()))
        )
    if replaced.any():
        n = int(np.argmax(replaced))
        places = len(np.unique(moved.state[replaced]))
        filled.append(
            f"in {_counted(places, 'state')} the policy's action is not available ("
            f"{_some(model.state_names, np.unique(moved.state[replaced]))}): it plays the first "
            f"available one instead, {_name(model.action_names, int(moved.action[n]))} in "
            f"{_name(model.state_names, int(moved.state[n]))}"
            + _spent(model, float(reach[replaced].sum()))
        )
    if unknown:
        filled.append(
            f"{_counted(unknown, 'observation')} that the policy's model cannot show: it goes on "
            "there without what it remembered"
        )
    total = float("nan") if is_infinite(model.horizon) else float(reach[missing | replaced].sum())
    return Transfer(moved.for_model(model), tuple(filled), total)


def needs_transfer(policy: PolicyGraph, model: Any) -> bool:
    """Whether the policy is for other names than the model's, or plays what is unavailable there.

    Without a model of its own nothing is known about the names of its states and actions.
    """
    own = policy.model
    if own is model or not (isinstance(own, LatentMDP) and isinstance(model, LatentMDP)):
        return False
    if max(own.steps, model.steps) > 1:
        return False
    if policy.numbering is not None or policy.S != own.S:
        return False
    if (own.S, own.A) != (model.S, model.A):
        return True
    if model.allowed is not None and not model.allowed[policy.state, policy.action].all():
        return True
    if not np.array_equal(reading_numbers(own, model), np.arange(own.readings)):
        return True
    if own.state_names == model.state_names and own.action_names == model.action_names:
        return False
    return any(
        not np.array_equal(_matched(kind, old, size, new, size), np.arange(size))
        for kind, old, new, size in (
            ("states", own.state_names, model.state_names, own.S),
            ("actions", own.action_names, model.action_names, own.A),
        )
    )


def _matched(
    kind: str, old: Sequence[str] | None, n_old: int, new: Sequence[str] | None, n_new: int
) -> Ints:
    """`(n_new,)` the old number of each new one, -1 where there is none."""
    number = {str(name): i for i, name in enumerate(range(n_old) if old is None else old)}
    found = np.array([number.get(str(name), -1) for name in (new or range(n_new))])
    if (found >= 0).any():
        return found
    if n_old == n_new:
        return np.arange(n_new)
    raise ModelError(
        f"the policy's model and the new one must have names of {kind} in common; they have none "
        f"({n_old} and {n_new} {kind}, the first ones {_name(old, 0)} and {_name(new, 0)})"
    )


def _renamed(
    graph: PolicyGraph, states: Ints, actions: Ints, model: LatentMDP
) -> tuple[PolicyGraph, np.ndarray, np.ndarray]:
    """The graph in new numbers, rewards aside; which nodes are new, and which have a new action."""
    largest = max(int(actions.max()), int(graph.action.max()))
    state_of, action_of = _inverse(states, graph.S), _inverse(actions, largest + 1)
    first = np.zeros(model.S, dtype=np.int64)
    if model.allowed is not None:
        first = model.allowed.argmax(axis=1)
    kept = state_of[graph.state] >= 0
    number = np.cumsum(kept) - 1  # of the kept nodes
    step, state = graph.step[kept], state_of[graph.state[kept]]
    action = action_of[graph.action[kept]]
    available = action >= 0
    if model.allowed is not None:
        available &= model.allowed[state, action]
    action = np.where(available, action, first[state])
    layers, unknown = graph.default.shape[0], np.flatnonzero(states < 0)
    default = np.empty((layers, model.S), dtype=np.int64)
    known = np.flatnonzero(states >= 0)
    default[:, known] = number[graph.default[:, states[known]]]
    made = len(step) + np.arange(layers * len(unknown)).reshape(layers, len(unknown))
    default[:, unknown] = made
    root = default[0].copy()
    root[known] = number[graph.root[states[known]]]
    owner = np.repeat(np.arange(graph.N), np.diff(graph.indptr))
    edge = kept[owner] & (state_of[graph.next] >= 0)
    edge[edge] &= available[number[owner[edge]]]
    total = len(step) + made.size
    indptr = np.zeros(total + 1, dtype=np.int64)
    np.cumsum(np.bincount(number[owner[edge]], minlength=total), out=indptr[1:])
    moved = graph.from_arrays(
        np.append(step, np.repeat(np.arange(layers), len(unknown))),
        np.append(state, np.tile(unknown, layers)),
        np.append(action, np.tile(first[unknown], layers)),
        indptr, graph.symbol[edge], state_of[graph.next[edge]], number[graph.node[edge]], root,
        default, stationary=graph.stationary,
    )  # fmt: skip
    order = np.argsort(np.append(step, np.repeat(np.arange(layers), len(unknown))), kind="stable")
    missing = np.append(np.zeros(len(step), dtype=bool), np.ones(made.size, dtype=bool))
    replaced = np.append(~available, np.zeros(made.size, dtype=bool))
    return moved, missing[order], replaced[order]


def _inverse(numbers: Ints, size: int) -> Ints:
    """`(size,)` where each old number stands among the new ones, or -1."""
    found = np.full(size, -1)
    found[numbers[numbers >= 0]] = np.flatnonzero(numbers >= 0)
    return found


def _spent(model: LatentMDP, steps: float) -> str:
    return "" if is_infinite(model.horizon) else f" ({steps:.3g} steps of an episode)"


def _some(names: Sequence[str] | None, which: Ints) -> str:
    shown = ", ".join(_name(names, int(i)) for i in which[:SHOWN])
    return f"{shown}, ..." if len(which) > SHOWN else shown


def _name(names: Sequence[str] | None, i: int) -> str:
    return str(i) if names is None else repr(names[i])


def _counted(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"
