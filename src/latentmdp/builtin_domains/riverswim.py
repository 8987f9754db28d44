"""`riverswim`: a river whose current is unknown."""

import numpy as np

from latentmdp.builtin_domains.spec import MAX_SEED, Domain, Key, generator, require_size
from latentmdp.model.horizons import MAX_HORIZON
from latentmdp.model.labels import Layout
from latentmdp.model.latent_mdp import LatentMDP

ACTIONS = ("left", "right")
_BACK = 0.05
_SMALL = 0.3


def build(
    states: int, contexts: int, horizon: int, seed: int, observe_rewards: bool = True
) -> LatentMDP:
    """A row of states along a river; swimming right against a current of unknown strength earns
    much at the far end, resting at the left bank earns little.

    Good for: deep exploration, and a decision that depends on the context: in a strong current
    the far end is out of reach and resting is best. `right` advances with the context's
    probability (spread over 0.1 to 0.9, moved by the seed), drifts back with probability 0.05,
    else stays; `left` always moves left. `left` in the first state pays 0.3/horizon, `right` in
    the last 1/horizon, in every context: each step pays at most 1/horizon, so totals are at
    most 1.
    """
    M, S, A = contexts, states, 2
    require_size("riverswim", M * S * A * 3)
    advance = (np.arange(M) + generator("riverswim", seed).random(M)) / M * 0.8 + 0.1

    P = np.zeros((M, S, A, 3))  # one step left, stay, one step right
    P[:, 1:, 0, 0] = 1.0
    P[:, 0, 0, 1] = 1.0
    P[:, :, 1, 0] = _BACK
    P[:, :, 1, 2] = advance[:, None]
    P[:, :, 1, 1] = 1.0 - _BACK - advance[:, None]
    P[:, 0, 1, 1] += P[:, 0, 1, 0]  # the banks: what would leave the river stays
    P[:, 0, 1, 0] = 0.0
    P[:, -1, 1, 1] += P[:, -1, 1, 2]
    P[:, -1, 1, 2] = 0.0

    m, s, a, move = np.nonzero(P)
    pays = np.zeros((S, A))
    pays[0, 0] = _SMALL / horizon
    pays[-1, 1] = 1.0 / horizon
    nu = np.zeros((M, S))
    nu[:, 0] = 1.0
    return LatentMDP.from_rows(
        m,
        s,
        a,
        s + move - 1,
        P[m, s, a, move],
        pays[s, a],
        np.full(M, 1.0 / M),
        nu,
        horizon,
        n_actions=A,
        observe_rewards=observe_rewards,
        state_names=("left bank", *(f"x{i}" for i in range(1, S - 1)), "right bank"),
        action_names=ACTIONS,
        context_names=tuple(f"advance {p:.2f}" for p in advance),
        layout=Layout(
            shape=(1, S),
            positions=tuple((0, i) for i in range(S)),
            marks=tuple((S - 1,) for _ in range(M)),
        ),
    )


DOMAIN = Domain(
    "riverswim",
    (
        Key("states", int, 6, 2, 100_000, "places along the river"),
        Key("contexts", int, 3, 1, 100_000, "strengths of the current"),
        Key("horizon", int, 20, 1, MAX_HORIZON, "steps of an episode"),
        Key("seed", int, 0, 0, MAX_SEED, "draws the strengths"),
    ),
    build,
)
