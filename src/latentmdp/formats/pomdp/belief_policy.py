"""A policy graph for a rule that depends on the belief and not on the step, as alpha vectors do.

The graph grows step by step. Histories with the same belief share a node; when there are too
many beliefs, similar ones share a node too; likely and early beliefs are merged last. The
rule is applied to the exact belief of each node, given all histories that lead there. The result is
a policy with finite memory, close to the rule, which `evaluate` evaluates exactly.

For an infinite horizon the graph grows until the remaining discounted reward is negligible, or for
`MOST_STEPS` steps. Later histories lead back to the nodes of its last layer with the nearest
beliefs.
"""

import math
from collections.abc import Callable

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.belief import initial_belief
from latentmdp.policy.graph import PolicyGraph

Rule = Callable[[Ints, Floats], Ints]  # states (n,), beliefs (n, M): actions (n,), -1 for none

MOST_NODES = 200_000
MOST_NUMBERS = 1 << 24  # in the weights of one step
FINEST = 2.0**-40  # beliefs that are closer are the same
TAIL = 1e-9  # without a last step: the discount of the steps that the graph leaves out
MOST_STEPS = 2_000  # of the graph, without a last step

# How much coarser unlikely and late beliefs are. With 50,000 nodes for the published problem of
# docs/from_sarsop.md the policy loses 0.0024 with 0.0, 0.0017 with 0.25 and 0.0019 with 0.5.
WEIGHT_POWER = 0.25


def policy_from_beliefs(
    model: LatentMDP, choose: Rule, most_nodes: int = MOST_NODES
) -> PolicyGraph:
    """The policy that plays `choose(states, beliefs)`, with about `most_nodes` nodes of memory.

    Observations that the model does not expect are answered by the rule at the prior belief (or by
    action 0).
    """
    S, H = model.S, _steps(model)
    first = (model.w[:, None] * model.nu).T  # (S, M)
    beliefs = [initial_belief(model, s) for s in range(S)]
    prior = np.array([model.w if belief is None else belief for belief in beliefs])
    default_action = np.maximum(choose(np.arange(S), prior), 0)
    observations = _Observations(model)
    state = np.flatnonzero(first.any(axis=1))
    weight = first[state]
    root = np.arange(S)
    root[state] = S + np.arange(len(state))
    steps, nodes, cell = [], 0, FINEST
    edges: list[tuple[Ints, ...]] = []
    for t in range(H):
        action = choose(state, weight / weight.sum(axis=1, keepdims=True))
        if (action < 0).any():
            s = int(state[np.argmax(action < 0)])
            name = s if model.state_names is None else repr(model.state_names[s])
            raise ModelError(
                f"the policy must have an action in state {name}, which can be reached"
            )
        steps.append((state, action))
        nodes += len(state)
        if t == H - 1 and not is_infinite(model.horizon):
            break
        owner, symbol, following, after = observations.of(state, action, weight)
        if t == H - 1:
            place = _nearest(state, weight, following, after)
            known = place >= 0  # else the default nodes answer
            edges.append(tuple(x[known] for x in (owner, symbol, following, place)))
            break
        share = max(4.0 / (H - t), 1.0 - model.discount**0.5)  # of the nodes that are left
        most = max(64, int(min(share, 1.0) * (most_nodes - nodes)))
        most = min(most, MOST_NUMBERS // (model.M * model.Gamma))
        cell = max(cell / 4, FINEST)
        place, cell = _merged(following, after, model.discount**t, cell, most)
        edges.append((owner, symbol, following, place))
        state = np.zeros(place.max() + 1, dtype=np.int64)
        state[place] = following
        weight = np.zeros((len(state), model.M))
        np.add.at(weight, place, after)
    return _graph(model, default_action, steps, edges, root)


class _Observations:
    """What can be seen after an action in a state, and how likely it is in each context."""

    def __init__(self, model: LatentMDP) -> None:
        self.model = model
        self.known: dict[int, tuple[Ints, Ints, Floats]] = {}

    def of(self, state: Ints, action: Ints, weight: Floats) -> tuple[Ints, Ints, Ints, Floats]:
        """`(node, symbol, next, weights (n, M))` of all that can follow, in this order."""
        pair = state * self.model.A + action
        parts = []
        for key in np.unique(pair):
            symbol, following, likelihood = self._pair(int(key))
            (nodes,) = np.nonzero(pair == key)
            after = weight[nodes][:, None, :] * likelihood
            node, k = np.nonzero(after.sum(axis=2) > 0.0)
            parts.append((nodes[node], symbol[k], following[k], after[node, k]))
        owner, symbol, following = (np.concatenate([part[i] for part in parts]) for i in range(3))
        after = np.concatenate([part[3] for part in parts])
        order = np.lexsort((following, symbol, owner))
        return owner[order], symbol[order], following[order], after[order]

    def _pair(self, key: int) -> tuple[Ints, Ints, Floats]:
        if key not in self.known:
            model = self.model
            rows = np.arange(model.M) * model.S * model.A + key
            length = model.indptr[rows + 1] - model.indptr[rows]
            context = np.repeat(np.arange(model.M), length)
            i = np.concatenate([np.arange(*model.indptr[row : row + 2]) for row in rows])
            seen, which = np.unique(model.symbol[i] * model.S + model.next[i], return_inverse=True)
            likelihood = np.zeros((len(seen), model.M))
            likelihood[which.reshape(-1), context] = model.prob[i]
            self.known[key] = seen // model.S, seen % model.S, likelihood
        return self.known[key]


def _merged(
    state: Ints, weight: Floats, discount: float, cell: float, most: int
) -> tuple[Ints, float]:
    """Which of at most `most` places each belief comes to, and how wide their cells are.

    A belief of probability `p` lies in a cell of width `cell / (discount * p)^WEIGHT_POWER`, a
    power of 2: what is lost by merging grows with the weight and the square of the width.
    """
    total = weight.sum(axis=1)
    belief = weight / total[:, None]
    importance = np.maximum(total * discount, 1e-300) ** -WEIGHT_POWER
    while True:
        level = np.minimum(np.floor(np.log2(cell * importance)), 0.0)
        grid = np.rint(belief / 2.0 ** level[:, None])
        keys = np.column_stack([state, level, grid]).astype(np.int64)
        places, place = np.unique(keys, axis=0, return_inverse=True)
        if len(places) <= most or (level == 0.0).all():
            return place.reshape(-1), cell
        cell *= 2.0


def _nearest(state: Ints, weight: Floats, following: Ints, after: Floats) -> Ints:
    """For each of the beliefs that follow, the one of the same state that is nearest; else -1."""
    from scipy.spatial import KDTree

    belief, wanted = (x / x.sum(axis=1, keepdims=True) for x in (weight, after))
    place = np.full(len(following), -1)
    for s in np.unique(following):
        here, asked = np.flatnonzero(state == s), following == s
        if len(here):
            place[asked] = here[KDTree(belief[here]).query(wanted[asked])[1]]
    return place


def _steps(model: LatentMDP) -> int:
    """The steps for which the graph keeps beliefs apart."""
    if not is_infinite(model.horizon):
        return model.H
    if model.discount <= TAIL:
        return 1
    return min(math.ceil(math.log(TAIL) / math.log(model.discount)), MOST_STEPS)


def _graph(
    model: LatentMDP,
    default_action: Ints,
    steps: list[tuple[Ints, Ints]],
    edges: list[tuple[Ints, ...]],
    root: Ints,
) -> PolicyGraph:
    """The graph; at each step the default nodes come first, then those with memory.

    Without a last step it is stationary, and has its default nodes once.
    """
    S, stationary = model.S, is_infinite(model.horizon)
    defaults = np.full(len(steps), S)  # at each step
    defaults[1:] = 0 if stationary else S
    sizes = defaults + np.array([len(state) for state, _ in steps])
    start = np.cumsum(sizes) - sizes
    first = start + defaults  # the first node with memory
    then = np.append(first[1:], first[-1])  # where successors are
    state = [np.append(np.arange(n), s) for n, (s, _) in zip(defaults, steps, strict=True)]
    action = [np.append(default_action[:n], a) for n, (_, a) in zip(defaults, steps, strict=True)]
    step = np.arange(len(steps)) * (not stationary)
    nothing = np.zeros(0, dtype=np.int64)
    owner = np.concatenate([nothing, *(first[t] + e[0] for t, e in enumerate(edges))])
    node = np.concatenate([nothing, *(then[t] + e[3] for t, e in enumerate(edges))])
    degree = np.bincount(owner, minlength=int(sizes.sum()))
    return PolicyGraph.from_arrays(
        np.repeat(step, sizes),
        np.concatenate(state),
        np.concatenate(action),
        np.concatenate([[0], np.cumsum(degree)]),
        np.concatenate([nothing, *(e[1] for e in edges)]),
        np.concatenate([nothing, *(e[2] for e in edges)]),
        node,
        root,
        start[defaults > 0, None] + np.arange(S),
        stationary=stationary,
    ).for_model(model)
