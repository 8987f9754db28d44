"""`Numbering`: which number a policy has for a reward, where that is not a model's own number.

A policy graph sees a reward as a number, its symbol. A model numbers the rewards that it can pay; a
learner numbers those that it knows, among them rewards of transitions that never happen, or those
that it has seen so far. The reward itself is what both have in common: by it a learner's policy is
put into the numbers of a model.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.rows import reward_tolerance

if TYPE_CHECKING:
    from latentmdp.policy.graph import PolicyGraph


@dataclass(frozen=True, eq=False)
class Numbering:
    """The contexts' rewards at every place and their numbers.

    Both have the shape `(M, S*A, S)`, or `(M, S*A, 1)` where the next state does not matter.
    `complete` says that there are no other rewards; without it an unknown one has no number.
    """

    rewards: Floats
    symbols: Ints
    scale: float  # the largest reward, for the tolerance
    complete: bool = True

    def of_outcomes(self, model: LatentMDP) -> Ints:
        """The number `(nnz,)` that this numbering has for each outcome of a model, or -1."""
        pair, next = _pair(model), model.next
        at = (slice(None), pair, next if self.rewards.shape[2] > 1 else 0)
        rewards, symbols = self.rewards[at], self.symbols[at]  # (M, nnz)
        distance = np.abs(rewards - model.reward)
        nearest, outcome = distance.argmin(axis=0), np.arange(len(next))
        equal = distance[nearest, outcome] <= reward_tolerance(rewards.max(axis=0), self.scale)
        return np.where(equal, symbols[nearest, outcome], -1)


def in_numbers_of(policy: "PolicyGraph", numbering: Numbering, model: LatentMDP) -> "PolicyGraph":
    """The same policy with the model's numbers; its nodes stay where they are.

    Successors on rewards that the model never pays are left out.
    """
    own = numbering.of_outcomes(model)
    if numbering.complete and (own < 0).any():
        i = int(np.argmax(own < 0))
        state, action = divmod(int(_pair(model)[i]), model.A)
        raise ModelError(
            "the policy must be for the rewards of the model; it knows no reward of "
            f"{model.reward[i]:.6g} for (state {state}, action {action}, next {model.next[i]})"
        )
    if np.array_equal(own, model.symbol):
        return policy
    meanings = np.stack([_pair(model), model.next, model.symbol, own], axis=1)
    return _renumbered(policy, model, _checked(meanings, model))


def _checked(meanings: Ints, model: LatentMDP) -> Ints:
    """The different meanings that have a number of the policy (see `_renumbered`)."""
    meanings = np.unique(meanings, axis=0)
    same = (np.diff(meanings[:, :3], axis=0) == 0).all(axis=1)
    if same.any():
        state, action = divmod(int(meanings[np.argmax(same), 0]), model.A)
        raise ModelError(
            "the policy must not see rewards that the model hides; it tells some of (state "
            f"{state}, action {action}) apart, and the model does not"
        )
    return meanings[meanings[:, 3] >= 0]


def from_model_to_model(
    policy: "PolicyGraph",
    old: LatentMDP,
    new: LatentMDP,
    states: Ints | None = None,
    actions: Ints | None = None,
) -> "PolicyGraph":
    """A policy with the reward numbers of `old` in those of `new`: equal rewards are the same.

    Successors on rewards that only one of them pays are left out. `states (new.S,)` and
    `actions (new.A,)`: which number the policy's states and actions, those of `new`, have in `old`
    (default: the same). `O(n log n)` for `n` outcomes of both.
    """
    return _renumbered(policy, new, _checked(_meanings(policy, old, new, states, actions), new))


def unknown_observations(
    policy: "PolicyGraph", old: LatentMDP, new: LatentMDP, states: Ints, actions: Ints
) -> int:
    """How many observations of `new`, where the policy has successors, `old` cannot show."""
    return int((_meanings(policy, old, new, states, actions, only_next=False)[:, 3] < 0).sum())


def _meanings(
    policy: "PolicyGraph",
    old: LatentMDP,
    new: LatentMDP,
    states: Ints | None,
    actions: Ints | None,
    only_next: bool = True,
) -> Ints:
    """`(n, 4)` for `_renumbered`, where the policy has successors on that next state, or on any."""
    states = np.arange(new.S) if states is None else states
    actions = np.arange(new.A) if actions is None else actions
    owner = np.repeat(np.arange(policy.N), np.diff(policy.indptr))
    wanted = policy.state[owner] * new.A + policy.action[owner]
    pair = _pair(new)
    place = pair * new.S + new.next
    if only_next:
        asked = np.isin(place, wanted * new.S + policy.next)
    else:
        asked = np.isin(pair, wanted)
    seen = np.stack([pair, new.next, new.symbol, new.reward], axis=1)[asked]
    distinct = np.unique(seen, axis=0)
    places = distinct[:, :3].astype(np.int64)
    pair, following, symbol = places.T
    found = symbols_of(
        old, states[pair // new.A], actions[pair % new.A], states[following],
        reading_numbers(old, new)[symbol % new.readings], distinct[:, 3],
    )  # fmt: skip
    return np.column_stack([places, found])


def symbols_of(
    model: LatentMDP, state: Ints, action: Ints, next: Ints, reading: Ints, reward: Floats
) -> Ints:
    """`(n,)` what `model.symbol_of` gives for each of these; -1 too where one of them is -1."""

    def coded(s: Ints, a: Ints, n: Ints, read: Ints) -> Ints:
        return ((s * model.A + a) * model.S + n) * model.readings + read

    own = coded(*np.divmod(_pair(model), model.A), model.next, model.reading)
    known = np.minimum(np.minimum(state, action), np.minimum(next, reading)) >= 0
    asked = np.where(known, coded(state, action, next, reading), -1)
    if not model.observe_rewards:
        return np.where(np.isin(asked, own), reading, -1)
    places, place = np.unique(own, return_inverse=True)
    largest = np.zeros(len(places))
    np.maximum.at(largest, place.reshape(-1), np.abs(model.reward))
    # the model's outcomes and what is asked, by place and reward: the neighbours are nearest
    n = len(own)
    order = np.lexsort((np.append(model.reward, reward), np.append(own, asked)))
    rank = np.arange(len(order))
    before = np.maximum.accumulate(np.where(order < n, rank, -1))
    after = np.minimum.accumulate(np.where(order < n, rank, len(order))[::-1])[::-1]
    at = rank[order >= n]
    query = order[at] - n
    found, nearest = np.full(len(asked), -1), np.full(len(asked), np.inf)
    for side in (before, after):
        inside = (side[at] >= 0) & (side[at] < len(order))
        outcome = order[np.where(inside, side[at], 0)]
        same = inside & (own[np.minimum(outcome, n - 1)] == asked[query])
        distance = np.where(same, np.abs(model.reward[outcome % n] - reward[query]), np.inf)
        closer = distance < nearest[query]
        found[query[closer]] = model.symbol[outcome[closer]]
        nearest[query[closer]] = distance[closer]
    where = np.minimum(np.searchsorted(places, asked), len(places) - 1)
    equal = nearest <= reward_tolerance(largest[where], model.largest_reward)
    return np.where(equal, found, -1)


def reading_numbers(old: LatentMDP, new: LatentMDP) -> Ints:
    """`(new.readings,)` the number in `old` of each reading of `new`, -1 where there is none.

    By name; where no name is common, by order.
    """
    names, wanted = (
        [str(name) for name in model.reading_names or range(model.readings)] for model in (old, new)
    )
    number = {name: i for i, name in enumerate(names)}
    found = np.array([number.get(name, -1) for name in wanted])
    order = np.arange(new.readings)
    return found if (found >= 0).any() else np.where(order < old.readings, order, -1)


def _renumbered(policy: "PolicyGraph", model: LatentMDP, meanings: Ints) -> "PolicyGraph":
    """`meanings (n, 4)`: state and action, next state, the model's number, the policy's number."""
    width = 1 + max(int(meanings[:, 3].max(initial=0)), int(policy.symbol.max(initial=0)))
    pair, next, new, old = meanings.T
    code = (pair * model.S + next) * width + old
    order = np.argsort(code, kind="stable")
    owner = np.repeat(np.arange(policy.N), np.diff(policy.indptr))
    place = policy.state[owner] * model.A + policy.action[owner]
    wanted = (place * model.S + policy.next) * width + policy.symbol
    first, end = (np.searchsorted(code[order], wanted, side=side) for side in ("left", "right"))
    edge = np.repeat(np.arange(len(wanted)), end - first)
    rank = np.arange(len(edge)) - np.repeat(np.cumsum(end - first) - (end - first), end - first)
    indptr = np.zeros(policy.N + 1, dtype=np.int64)
    np.cumsum(np.bincount(owner[edge], minlength=policy.N), out=indptr[1:])
    return policy.from_arrays(
        policy.step, policy.state, policy.action, indptr, new[order[first[edge] + rank]],
        policy.next[edge], policy.node[edge], policy.root, policy.default,
        stationary=policy.stationary,
    )  # fmt: skip


def _pair(model: LatentMDP) -> Ints:
    """`s*A + a` of each outcome."""
    rows = np.arange(model.M * model.S * model.A) % (model.S * model.A)
    return np.repeat(rows, np.diff(model.indptr))
