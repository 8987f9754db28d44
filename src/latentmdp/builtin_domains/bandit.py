"""`bandit`: a latent bandit."""

import numpy as np

from latentmdp.builtin_domains.spec import MAX_SEED, Domain, Key, generator, require_size
from latentmdp.model.horizons import MAX_HORIZON
from latentmdp.model.latent_mdp import LatentMDP


def build(
    arms: int, contexts: int, horizon: int, seed: int, observe_rewards: bool = True
) -> LatentMDP:
    """A latent bandit: arms win with probabilities that depend on the hidden context.

    Good for: the smallest problem in which acting must also find out, with nothing to navigate.
    The state says whether the last pull won; a win is paid on the following step, because the
    paper's rewards are fixed by state and action: of `horizon` pulls the last one is not paid.
    Winning probabilities are uniform on [0.05, 0.95]. A win
    pays 1/(horizon - 1): so totals are at most 1.
    """
    M, A, start, lost, won = contexts, arms, 0, 1, 2
    require_size("bandit", M * 3 * A * 2)
    win = generator("bandit", seed).uniform(0.05, 0.95, size=(M, A))
    m, s, a = (grid.ravel() for grid in np.indices((M, 3, A)))
    prize = 1.0 / (horizon - 1)
    nu = np.zeros((M, 3))
    nu[:, start] = 1.0
    return LatentMDP.from_rows(
        np.concatenate([m, m]),
        np.concatenate([s, s]),
        np.concatenate([a, a]),
        np.concatenate([np.full(m.size, lost), np.full(m.size, won)]),
        np.concatenate([1.0 - win[m, a], win[m, a]]),
        np.where(np.concatenate([s, s]) == won, prize, 0.0),
        np.full(M, 1.0 / M),
        nu,
        horizon,
        n_actions=A,
        observe_rewards=observe_rewards,
        state_names=("start", "lost", "won"),
        action_names=tuple(f"arm {i + 1}" for i in range(A)),
        context_names=tuple(
            f"best arm {int(best) + 1} of context {i}" for i, best in enumerate(win.argmax(axis=1))
        ),
    )


DOMAIN = Domain(
    "bandit",
    (
        Key("arms", int, 4, 1, 100_000, "arms"),
        Key("contexts", int, 3, 1, 100_000, "contexts"),
        Key("horizon", int, 20, 2, MAX_HORIZON, "steps of an episode: one more than paid pulls"),
        Key("seed", int, 0, 0, MAX_SEED, "draws the winning probabilities"),
    ),
    build,
)
