"""`hard`: the lower bound's instances (Theorem 3), with their closed forms.

`hard_instance(...)` gives the structure (depths, leaves, secrets, eps, x) and the exact optimal
values and variances of both policy classes; `.model()` builds the latent MDP.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from typing import Any

import numpy as np

from latentmdp.builtin_domains.spec import (
    MAX_SEED,
    Domain,
    Key,
    generator,
    parse_spec,
    require_size,
)
from latentmdp.errors import ModelError
from latentmdp.model.horizons import MAX_HORIZON
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.policy_class import check_policy_class


@dataclass(frozen=True)
class HardInstance:
    """The structure of one hard instance and its closed forms. Zero-based everywhere.

    `secrets[m] = (leaf, action)` with leaf in 0..leaves-1, action in 0..actions-1;
    `orders[m]` is the permutation of encoding states that context m walks through.
    States: encoding 0..d1-1, tree d1..d1+2^d2-2 (leaves last), `good`, `terminal`, unused.
    """

    contexts: int
    states: int
    actions: int
    horizon: int
    d1: int
    d2: int
    eps: float
    x: float
    secrets: tuple[tuple[int, int], ...]
    orders: tuple[tuple[int, ...], ...]
    episodes: int | None = None

    @property
    def leaves(self) -> int:
        """L = 2^(d2-1)."""
        return 2 ** (self.d2 - 1)

    @property
    def choices(self) -> int:
        """C = L A, the number of (leaf, action) pairs."""
        return self.leaves * self.actions

    @property
    def tree_root(self) -> int:
        """The state s_1."""
        return self.d1

    @property
    def first_leaf(self) -> int:
        """The state s_(2^(d2-1)); the leaves are the `leaves` states from here."""
        return self.d1 + self.leaves - 1

    @property
    def good(self) -> int:
        """The state g, which pays x."""
        return self.d1 + 2**self.d2 - 1

    @property
    def terminal(self) -> int:
        """The absorbing state t."""
        return self.good + 1

    def fractions(self) -> np.ndarray:
        """f_c: the fraction of contexts whose secret is choice c = leaf * A + action, (C,)."""
        chosen = [leaf * self.actions + action for leaf, action in self.secrets]
        return np.bincount(chosen, minlength=self.choices) / self.contexts

    def optimal_value(self, policy_class: str = "history") -> float:
        """V*: x(1/2 + eps) with memory, x(1/2 + eps max_c f_c) without."""
        known = 1.0 if _is_history(policy_class) else float(self.fractions().max())
        return self.x * (0.5 + self.eps * known)

    def max_variance(self, policy_class: str = "history") -> float:
        """Var*: x^2/4 with memory, x^2 (1/4 - eps^2 min_c f_c^2) without."""
        least = 0.0 if _is_history(policy_class) else float(self.fractions().min())
        return self.x**2 * (0.25 - (self.eps * least) ** 2)

    def path(self, leaf: int) -> tuple[int, ...]:
        """The d2 - 1 actions that lead from the tree's root to this leaf."""
        bits = [(leaf >> i) & 1 for i in reversed(range(self.d2 - 1))]
        return tuple(1 - bit for bit in bits)  # action numbers are index + 1: parity flips

    def optimal_choice(self, context: int, step: int) -> int:
        """An optimal action at this step once the context is known (0 where all are equal)."""
        leaf, action = self.secrets[context]
        actions = (*self.path(leaf), action)
        return actions[step - self.d1] if 0 <= step - self.d1 < self.d2 else 0

    def model(self, observe_rewards: bool = True) -> LatentMDP:
        """The latent MDP. Cost: O(M S A)."""
        M, S, A, d1 = self.contexts, self.states, self.actions, self.d1
        orders = np.array(self.orders, dtype=np.int64).reshape(M, d1)
        secrets = np.array(self.secrets, dtype=np.int64).reshape(M, 2)

        target = np.tile(np.arange(S)[:, None], (M, 1, A))  # everything loops unless said
        for i in range(d1 - 1):
            target[np.arange(M), orders[:, i]] = orders[:, i + 1, None]
        target[np.arange(M), orders[:, -1]] = self.tree_root
        number = np.arange(1, A + 1)  # the paper numbers actions from 1
        for i in range(1, self.leaves):
            target[:, d1 + i - 1] = d1 + 2 * i + number % 2 - 1
        leaf_states = slice(self.first_leaf, self.first_leaf + self.leaves)
        target[:, leaf_states] = self.good
        target[:, self.good] = self.terminal

        to_target = np.ones((M, S, A))
        to_target[:, leaf_states] = 0.5
        to_target[np.arange(M), self.first_leaf + secrets[:, 0], secrets[:, 1]] += self.eps

        m, s, a = (grid.ravel() for grid in np.indices((M, S, A)))
        success = to_target.ravel()
        split = success < 1.0  # leaves: the rest goes to t
        context, state, action = (np.concatenate([v, v[split]]) for v in (m, s, a))
        nu = np.zeros((M, S))
        nu[np.arange(M), orders[:, 0]] = 1.0
        return LatentMDP.from_rows(
            context,
            state,
            action,
            np.concatenate([target.ravel(), np.full(split.sum(), self.terminal)]),
            np.concatenate([success, 1.0 - success[split]]),
            np.where(state == self.good, self.x, 0.0),
            np.full(M, 1.0 / M),
            nu,
            self.horizon,
            n_actions=A,
            observe_rewards=observe_rewards,
            state_names=self._state_names(),
            action_names=tuple(f"a{i}" for i in range(1, A + 1)),
            context_names=tuple(
                f"secret s{self.leaves + leaf} a{action + 1}" for leaf, action in self.secrets
            ),
        )

    def _state_names(self) -> tuple[str, ...]:
        tree = 2**self.d2 - 1
        unused = self.states - self.d1 - tree - 2
        return (
            *(f"e{i + 1}" for i in range(self.d1)),
            *(f"s{i + 1}" for i in range(tree)),
            "g",
            "t",
            *(f"unused{i + 1}" for i in range(unused)),
        )

    @classmethod
    def from_spec(cls, spec: str) -> "HardInstance":
        """The structure of a `hard:...` spec string."""
        domain, pairs = parse_spec(spec, {DOMAIN.name: DOMAIN})
        return hard_instance(**domain.complete(pairs))  # type: ignore[arg-type]


def hard_instance(
    contexts: int = 2,
    states: int = 11,
    actions: int = 2,
    horizon: int | None = None,
    seed: int = 0,
    eps: float | None = None,
    reward: float | None = None,
    variance: float | None = None,
    episodes: int | None = None,
    secrets: Sequence[tuple[int, int]] | None = None,
) -> HardInstance:
    """The hard instance with these sizes, all conditions of Theorem 3 checked.

    Either `eps` and `reward` (default 0.1 and 1), or `variance` and `episodes` (default 0.25 and
    10^6), from which x = 2 sqrt(variance) and eps follow. Secrets are drawn from the seed unless
    given. The permutations are the first M in lexicographic order.
    """
    for name, value, least in (("states", states, 6), ("actions", actions, 2)):
        if value < least:
            raise ModelError(f"hard: {name} must be at least {least}; it is {value}")
    if contexts < 1:
        raise ModelError(f"hard: contexts must be at least 1; it is {contexts}")
    half = states // 2
    if half <= 20 and contexts > math.factorial(half):
        raise ModelError(
            f"hard: contexts must be at most floor(states/2)! = {math.factorial(half)}; "
            f"it is {contexts}"
        )
    d1 = encoding_length(contexts)
    d2 = tree_depth(states, d1)
    horizon = d1 + d2 + 1 if horizon is None else horizon
    if horizon < d1 + d2 + 1:
        raise ModelError(
            f"hard: horizon must be at least d1 + d2 + 1 = {d1 + d2 + 1} "
            f"(d1 = {d1} encoding steps, d2 = {d2} tree levels, the reward); it is {horizon}"
        )
    choices = 2 ** (d2 - 1) * actions
    require_size("hard", 2 * contexts * states * actions)
    eps, x = _gap_and_reward(contexts, choices, eps, reward, variance, episodes)
    if variance is not None or episodes is not None:
        episodes = 1_000_000 if episodes is None else episodes
    return HardInstance(
        contexts=contexts,
        states=states,
        actions=actions,
        horizon=horizon,
        d1=d1,
        d2=d2,
        eps=eps,
        x=x,
        secrets=_secrets(contexts, choices, actions, seed, secrets),
        orders=tuple(islice(permutations(range(d1)), contexts)),
        episodes=episodes,
    )


def encoding_length(contexts: int) -> int:
    """d1: the smallest integer >= 1 with d1! >= contexts (0! = 1 does not count)."""
    d1 = 1
    while math.factorial(d1) < contexts:
        d1 += 1
    return d1


def tree_depth(states: int, d1: int) -> int:
    """d2: 2^d2 - 1 <= states - d1 - 2 < 2^(d2+1) - 1."""
    return (states - d1 - 1).bit_length() - 1


def gap_from_episodes(contexts: int, choices: int, episodes: int) -> float:
    """eps = (1/(2 sqrt 2)) (1 - 1/C) sqrt(C/K') with K' = floor(K/(2M))."""
    k = episodes // (2 * contexts)
    return math.inf if k == 0 else (1 - 1 / choices) * math.sqrt(choices / k) / (2 * math.sqrt(2))


def _gap_and_reward(
    contexts: int,
    choices: int,
    eps: float | None,
    reward: float | None,
    variance: float | None,
    episodes: int | None,
) -> tuple[float, float]:
    if variance is None and episodes is None:
        eps = 0.1 if eps is None else eps
        x = 1.0 if reward is None else reward
        if not 0 < x <= 1:
            raise ModelError(f"hard: reward must be above 0 and at most 1; it is {x:g}")
        if not 0 < eps <= 0.25:
            raise ModelError(f"hard: eps must be above 0 and at most 0.25; it is {eps:g}")
        return float(eps), float(x)
    if eps is not None or reward is not None:
        raise ModelError(
            "hard: give either eps and reward, or variance and episodes; found keys of both"
        )
    variance = 0.25 if variance is None else variance
    episodes = 1_000_000 if episodes is None else episodes
    if not 0 < variance <= 0.25:
        raise ModelError(f"hard: variance must be above 0 and at most 0.25; it is {variance:g}")
    eps = gap_from_episodes(contexts, choices, episodes)
    if eps > 0.25:
        least = 2 * contexts * math.ceil(2 * choices * (1 - 1 / choices) ** 2)
        raise ModelError(
            f"hard: episodes must be at least {least} so that eps <= 0.25; it is {episodes}"
        )
    return eps, 2 * math.sqrt(variance)


def _secrets(
    contexts: int,
    choices: int,
    actions: int,
    seed: int,
    given: Sequence[tuple[int, int]] | None,
) -> tuple[tuple[int, int], ...]:
    if given is None:
        drawn = generator("hard", seed).integers(choices, size=contexts)
        return tuple((int(c) // actions, int(c) % actions) for c in drawn)
    if len(given) != contexts:
        raise ModelError(
            f"hard: secrets must be one (leaf, action) per context, {contexts} in all; "
            f"there are {len(given)}"
        )
    leaves = choices // actions
    for m, (leaf, action) in enumerate(given):
        if not (0 <= leaf < leaves and 0 <= action < actions):
            raise ModelError(
                f"hard: secrets[{m}] must be a leaf below {leaves} and an action below {actions}; "
                f"it is {(leaf, action)}"
            )
    return tuple((int(leaf), int(action)) for leaf, action in given)


def _is_history(policy_class: str) -> bool:
    check_policy_class(policy_class)
    return policy_class == "history"


def build(observe_rewards: bool = True, **values: object) -> LatentMDP:
    """The paper's lower bound: a code of the context, then a tree with one slightly better leaf
    and action per context.

    Good for: testing learners against the theorem, since V* and Var* are known in closed form
    (`HardInstance`). The first steps show the context to whoever remembers them, so the history
    class decides as if it knew; a Markov policy cannot. The only reward is x <= 1 at `g`, which
    leads to the absorbing `t`: so totals are at most 1. Give eps and reward, or variance and
    episodes.
    """
    return hard_instance(**values).model(observe_rewards)  # type: ignore[arg-type]


def _default_horizon(values: Mapping[str, Any]) -> int:
    d1 = encoding_length(values["contexts"])
    return d1 + max(tree_depth(values["states"], d1), 1) + 1


def _unless(value: float, *others: str) -> Callable[[Mapping[str, Any]], float | None]:
    """A default that gives way when a key of the other pair is there."""
    return lambda values: None if any(values.get(key) is not None for key in others) else value


def _if(value: float, *others: str) -> Callable[[Mapping[str, Any]], float | None]:
    """A default that applies when the other key of its pair is there."""
    return lambda values: value if any(values.get(key) is not None for key in others) else None


DOMAIN = Domain(
    "hard",
    (
        Key("contexts", int, 2, 1, 1_000_000, "contexts, at most floor(states/2)!"),
        Key("states", int, 11, 6, 1_000_000, "states"),
        Key("actions", int, 2, 2, 10_000, "actions"),
        Key("horizon", int, _default_horizon, 1, MAX_HORIZON,
            "steps of an episode, at least d1 + d2 + 1", "d1 + d2 + 1"),
        Key("seed", int, 0, 0, MAX_SEED, "draws the secrets"),
        Key("eps", float, _unless(0.1, "variance", "episodes"), 0, 0.25,
            "advantage of the secret choice", "0.1"),
        Key("reward", float, _unless(1.0, "variance", "episodes"), 0, 1, "the reward x", "1"),
        Key("variance", float, _if(0.25, "episodes"), 0, 0.25,
            "Var*, instead of reward: x = 2 sqrt(variance)", "0.25"),
        Key("episodes", int, _if(1_000_000, "variance"), 1, 10**18,
            "K, instead of eps, which follows from it", "1e6"),
    ),
    build,
)  # fmt: skip
