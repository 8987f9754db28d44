"""`deterministic`: one deterministic MDP."""

import numpy as np

from latentmdp.builtin_domains.spec import MAX_SEED, Domain, Key, generator, require_size
from latentmdp.model.horizons import MAX_HORIZON
from latentmdp.model.latent_mdp import LatentMDP


def build(
    states: int, actions: int, horizon: int, seed: int, observe_rewards: bool = True
) -> LatentMDP:
    """One context, random deterministic moves and rewards: every policy has variance 0.

    Good for: the theorem's constant-regret case, `Var* = 0`. Action 0 moves along a random cycle
    through all states, so every state can be reached; the others move anywhere. Rewards are
    uniform on [0, 1/horizon]: so totals are at most 1.
    """
    S, A = states, actions
    require_size("deterministic", S * A)
    rng = generator("deterministic", seed)
    target = rng.integers(S, size=(S, A))
    order = rng.permutation(S)
    target[order, 0] = np.roll(order, -1)
    reward = rng.random((S, A)) / horizon
    s, a = (grid.ravel() for grid in np.indices((S, A)))
    nu = np.zeros((1, S))
    nu[0, 0] = 1.0
    return LatentMDP.from_rows(
        np.zeros(S * A, dtype=np.int64),
        s,
        a,
        target.ravel(),
        np.ones(S * A),
        reward.ravel(),
        np.ones(1),
        nu,
        horizon,
        n_actions=A,
        observe_rewards=observe_rewards,
        state_names=tuple(f"s{i}" for i in range(S)),
        action_names=tuple(f"a{i}" for i in range(A)),
        context_names=("the only one",),
    )


DOMAIN = Domain(
    "deterministic",
    (
        Key("states", int, 10, 1, 1_000_000, "states"),
        Key("actions", int, 2, 1, 100_000, "actions"),
        Key("horizon", int, 10, 1, MAX_HORIZON, "steps of an episode"),
        Key("seed", int, 0, 0, MAX_SEED, "draws moves and rewards"),
    ),
    build,
)
