"""`garnet`: random sparse models."""

import numpy as np

from latentmdp.builtin_domains.spec import MAX_SEED, Domain, Key, generator, require_size
from latentmdp.errors import ModelError
from latentmdp.model.horizons import MAX_HORIZON
from latentmdp.model.latent_mdp import LatentMDP


def build(
    states: int,
    actions: int,
    contexts: int,
    branching: int,
    horizon: int,
    seed: int,
    shared_support: bool,
    shared_rewards: bool,
    observe_rewards: bool = True,
) -> LatentMDP:
    """Random models: each row leads to `branching` random states with random probabilities, each
    `(state, action)` pays a random reward.

    Good for: problems without structure, where information is gradual and beliefs do not merge.
    With `shared_support=1` the contexts lead to the same states with other probabilities, with
    `shared_rewards=1` they pay the same (otherwise one observed reward reveals the context).
    Weights are random, episodes start in state 0. Rewards are uniform on [0, 1/horizon]: so
    totals are at most 1.
    """
    M, S, A, B = contexts, states, actions, branching
    if B > S:
        raise ModelError(f"garnet: branching must be at most states = {S}; it is {B}")
    require_size("garnet", M * S * A * B)
    rng = generator("garnet", seed)
    weight = rng.uniform(0.5, 1.5, size=M)
    supports = 1 if shared_support else M
    next_state = np.broadcast_to(
        _subsets(S, B, supports * S * A, rng).reshape(supports, S, A, B), (M, S, A, B)
    )
    prob = rng.exponential(size=(M, S, A, B)) + 1e-12  # Dirichlet(1, ..., 1) after division
    prob /= prob.sum(axis=-1, keepdims=True)
    payers = 1 if shared_rewards else M
    pay = np.broadcast_to(rng.random((payers, S, A)) / horizon, (M, S, A))

    m, s, a, _ = (grid.ravel() for grid in np.indices((M, S, A, B)))
    nu = np.zeros((M, S))
    nu[:, 0] = 1.0
    return LatentMDP.from_rows(
        m,
        s,
        a,
        next_state.ravel(),
        prob.ravel(),
        np.repeat(pay.ravel(), B),
        weight / weight.sum(),
        nu,
        horizon,
        n_actions=A,
        observe_rewards=observe_rewards,
        state_names=tuple(f"s{i}" for i in range(S)),
        action_names=tuple(f"a{i}" for i in range(A)),
        context_names=tuple(f"garnet {i}" for i in range(M)),
    )


def _subsets(n: int, size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` random subsets of 0..n-1, (count, size). Floyd's algorithm, all rows at once."""
    chosen = np.empty((count, size), dtype=np.int64)
    for i, last in enumerate(range(n - size, n)):
        draw = rng.integers(last + 1, size=count)
        taken = (chosen[:, :i] == draw[:, None]).any(axis=1)
        chosen[:, i] = np.where(taken, last, draw)
    return chosen


DOMAIN = Domain(
    "garnet",
    (
        Key("states", int, 20, 1, 1_000_000, "states"),
        Key("actions", int, 4, 1, 10_000, "actions"),
        Key("contexts", int, 5, 1, 100_000, "contexts"),
        Key("branching", int, lambda v: min(3, v["states"]), 1, 10_000,
            "next states of a row", "3 (or states, if fewer)"),
        Key("horizon", int, 20, 1, MAX_HORIZON, "steps of an episode"),
        Key("seed", int, 0, 0, MAX_SEED, "draws everything"),
        Key("shared_support", bool, False, 0, 1, "contexts lead to the same states"),
        Key("shared_rewards", bool, False, 0, 1, "contexts pay the same rewards"),
    ),
    build,
)  # fmt: skip
