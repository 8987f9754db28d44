"""What the theorems draw beside regret: the upper bound, and the lower one where it holds."""

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.builtin_domains.lower_bound import encoding_length, hard_instance, tree_depth
from latentmdp.errors import ModelError
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.report.encode import rounded
from latentmdp.theory.auditing.exploration import exploring_from
from latentmdp.theory.auditing.optimistic_values import PAPER_ALGORITHMS
from latentmdp.theory.bounds import lower_bound, max_updates, upper_bound

if TYPE_CHECKING:
    from latentmdp.learning.run import Run

LARGEST_EVALUATION = 2**23  # nodes x contexts x states; it is done 40 times


def upper_limit(run: "Run", grid: np.ndarray) -> dict[str, Any] | None:
    """The theorem's bound after each number of episodes; None where it says nothing.

    `iota` is that of the planned number of episodes, as in the learner's bonuses; `Var*` is bounded
    by what any total in an interval can have, a quarter of its squared length.
    """
    spec, model = run.spec, run.model
    if spec.algorithm not in PAPER_ALGORITHMS or spec.bonus_scale < 1.0:
        return None
    variance = (model.max_return - model.min_return) ** 2 / 4.0
    bound = upper_bound(
        model.M, model.S, model.A, model.H, spec.episodes,
        Gamma=model.Gamma, variance=variance, delta=spec.delta,
    )  # fmt: skip
    curve = bound.main * np.sqrt(grid / spec.episodes) + bound.lower_order
    return {"curve": curve, "variance": variance, "iota": bound.iota}


def update_limit(run: "Run", grid: np.ndarray) -> list[float | None]:
    """`M S A (log2(H k) + 1)`: the most updates that doubling allows."""
    model = run.model
    return rounded([max_updates(model.M, model.S, model.A, model.H, int(k)) for k in grid])


def exploring_begins(run: "Run") -> float | None:
    """The episode from which bonuses no longer cover the run's last policy; None for large ones."""
    policy = run.policy
    if policy.N * run.model.M * run.model.S > LARGEST_EVALUATION:
        return None
    return exploring_from(run.model, policy, run.spec)


def lower_limit(run: "Run") -> dict[str, Any] | None:
    """Theorem 3 at the run's end, if the model is a hard instance tied to that many episodes."""
    instance = recognised(run.model)
    if instance is None or run.spec.policy_class != "history":
        return None
    model, episodes = run.model, run.episodes
    bound = lower_bound(model.M, model.S, model.A, episodes, x=instance.x)
    tied = math.isclose(instance.eps, bound.eps, rel_tol=1e-6)
    if not bound.applies or not tied:
        return None
    return {"episode": episodes, "value": float(f"{bound.value:.6g}")}


def recognised(model: LatentMDP) -> Any:
    """The hard instance that a model is, found by its names and proved by building it again."""
    if model.context_names is None or model.state_names is None or "g" not in model.state_names:
        return None
    found = [re.fullmatch(r"secret s(\d+) a(\d+)", name) for name in model.context_names]
    leaves = 2 ** (tree_depth(model.S, encoding_length(model.M)) - 1)
    secrets = [(int(x[1]) - leaves, int(x[2]) - 1) for x in found if x]
    if len(secrets) < model.M:
        return None
    try:
        instance = hard_instance(
            model.M, model.S, model.A, model.H, eps=float(model.prob[model.prob < 1].max()) - 0.5,
            reward=float(model.reward.max()), secrets=secrets,
        )  # fmt: skip
        again = instance.model(model.observe_rewards)
    except (ModelError, ValueError):
        return None
    same = np.array_equal(again.next, model.next) and np.allclose(
        again.prob, model.prob, atol=1e-12
    )
    return instance if same and np.allclose(again.reward, model.reward) else None
