"""The rest of an episode as a problem of its own: planned again where the policy was left."""

from typing import NamedTuple

import numpy as np

from latentmdp.advice.values import BeliefValues
from latentmdp.csr import Floats
from latentmdp.evaluation.alpha_vectors import AlphaVectors
from latentmdp.model.latent_mdp import LatentMDP, replaced
from latentmdp.planning.plan import Plan, plan_whole


class Origin(NamedTuple):
    """Where the rest of an episode begins."""

    step: int
    state: int
    belief: Floats


class Detour(NamedTuple):
    """A plan for the rest of an episode; its step 0 is the step of `origin`."""

    origin: Origin
    model: LatentMDP
    plan: Plan

    def value(self, node: int, belief: Floats) -> float:
        """What the plan earns from a node on."""
        return float(AlphaVectors(self.model, self.plan.policy).alpha[node] @ belief)


def rest_of_episode(model: LatentMDP, origin: Origin) -> LatentMDP:
    """The model from a step, state and belief on."""
    first = np.zeros((model.M, model.S))
    first[:, origin.state] = 1.0
    return replaced(model.from_step(origin.step), w=origin.belief / origin.belief.sum(), nu=first)


def plan_rest(
    values: BeliefValues, origin: Origin, time_limit: float | None, work_limit: int
) -> Detour:
    """Plan the rest of an episode, to the end or to a limit."""
    model = rest_of_episode(values.model, origin)
    found = plan_whole(model, "history", gap=None, time_limit=time_limit, work_limit=work_limit)
    return Detour(origin, model, found)
