"""Algorithm 4: a learner for latent MDPs turned into a learner for one MDP.

The MDP stands at one position of a latent MDP; episodes of the other contexts are simulated from a
given configuration. To the learner all positions look alike, so its regret is the sum of what it
suffers at each: that is how the lower bound for one MDP becomes one for `M` of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.evaluation.evaluate import context_optimal, evaluate
from latentmdp.model.latent_mdp import refuse_readings, refuse_steps

if TYPE_CHECKING:
    from latentmdp.learning.learner import Learner
    from latentmdp.model.latent_mdp import LatentMDP


@dataclass(frozen=True)
class Symmetrized:
    """What came of it.

    `regret` is the alternative regret `sum_k 1[m^k = m] (V*_m - V^k_m)`, exact in the values given
    the episodes played; `contexts (episodes,)` lists the `m^k`, `losses (interactions,)` its terms.
    """

    episodes: int
    interactions: int  # K_m, episodes at the position
    regret: float
    contexts: Ints
    losses: Floats


def symmetrize(
    learner: Learner,
    model: LatentMDP,
    position: int,
    *,
    mdp: LatentMDP | None = None,
    episodes: int | None = None,
    interactions: int | None = None,
    optimal: float | None = None,
    seed: int = 0,
) -> Symmetrized:
    """Let a fresh `learner` play `mdp` at `position`, the other contexts simulated from `model`.

    `mdp` has one context and the model's states, actions, horizon and rewards' symbols (default:
    the model's own context there). Stops after `episodes` in all, or after `interactions` with
    the MDP: exactly one is given. `optimal` is `V*_m`, default the best value of the MDP alone
    (right where the context shows itself, as on `hard`); elsewhere give the value there of the
    latent MDP's optimal policy. The learner is changed.
    """
    world = _placed(model, position, mdp)
    if (episodes is None) == (interactions is None):
        raise ModelError("give exactly one of episodes and interactions")
    limit = episodes if episodes is not None else interactions
    if limit is None or limit < 1:
        raise ModelError(
            f"the number of episodes or interactions must be at least 1; it is {limit}"
        )
    if optimal is None:
        values, _ = context_optimal(world)
        optimal = float(world.nu[position] @ values[0, position])
    rng = np.random.default_rng(seed)
    contexts: list[int] = []
    losses: list[float] = []
    value, valued_for = 0.0, None
    while True:
        m = int(rng.integers(world.M))  # Alg. 4, l. 4
        contexts.append(m)
        if m == position:  # l. 8, 9
            if valued_for is not learner.policy:
                valued_for = learner.policy
                value = float(evaluate(world, learner.policy).contexts[position])
            losses.append(optimal - value)
        play_episode(learner, world, m, rng)
        if len(contexts) == episodes or (m == position and len(losses) == interactions):  # l. 11
            break
    return Symmetrized(
        len(contexts), len(losses), float(np.sum(losses)), np.array(contexts), np.array(losses)
    )


def play_episode(
    learner: Learner, model: LatentMDP, context: int, rng: np.random.Generator
) -> float:
    """One episode of `context` with the learner, told the context afterwards; the total reward."""
    state = int(rng.choice(model.S, p=model.nu[context]))
    action: int | None = learner.begin(state)
    total = 0.0
    while action is not None:
        row = (context * model.S + state) * model.A + action
        lo, hi = model.indptr[row], model.indptr[row + 1]
        i = lo + min(int(np.searchsorted(np.cumsum(model.prob[lo:hi]), rng.random())), hi - lo - 1)
        state = int(model.next[i])
        total += float(model.reward[i])
        action = learner.step(float(model.reward[i]), state)
    learner.end(context)
    return total


def _placed(model: LatentMDP, position: int, mdp: LatentMDP | None) -> LatentMDP:
    """The latent MDP with `mdp` at the position."""
    refuse_steps(model, "the symmetrisation")
    refuse_readings(model, "the symmetrisation")
    if not 0 <= position < model.M:
        raise ModelError(f"position must be from 0 to {model.M - 1}; it is {position}")
    if not np.allclose(model.w, 1.0 / model.M):
        raise ModelError("the symmetrisation needs equal weights")
    if mdp is None:
        return model
    found, wanted = (mdp.M, mdp.S, mdp.A, mdp.H), (1, model.S, model.A, model.H)
    if found != wanted:
        raise ModelError(f"the MDP must have (M, S, A, H) = {wanted}; it has {found}")
    P, R, nu = np.array(model.P), np.array(model.R), np.array(model.nu)
    if np.shape(mdp.R)[1:] != R.shape[1:]:
        raise ModelError("the MDP's rewards must sit where the model's do, on rows or transitions")
    P[position], R[position], nu[position] = mdp.P[0], mdp.R[0], mdp.nu[0]
    return type(model).from_arrays(
        P, R, model.w, nu, model.H, observe_rewards=model.observe_rewards,
        max_return=model.return_limit,
    )  # fmt: skip
