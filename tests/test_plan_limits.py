"""Limits of `plan`: odd sizes, tiny limits, and limits that hold for all of the work."""

import numpy as np
import pytest

from latentmdp import LatentMDP, evaluate, make, plan

HISTORY = ("auto", "exact", "layers", "grid")
MARKOV = ("auto", "ascent", "branch", "wsu", "mean", "qmdp")


def arms(M, A, best, H=1):
    """One state; each context pays for an action of its own, `best` pays most on average."""
    R = np.zeros((M, 1, A))
    R[np.arange(M), 0, np.arange(M)] = 0.6 / H
    R[:, 0, best] = 0.5 / H
    return LatentMDP.from_arrays(
        np.ones((M, 1, A, 1)), R, np.full(M, 1 / M), np.ones((M, 1)), H, observe_rewards=False
    )


@pytest.mark.parametrize("method", HISTORY)
@pytest.mark.parametrize("M", [1, 2, 3, 5])
def test_one_state_and_one_step(M, method):
    for limit in (None, 60.0, 1e-3):
        found = plan(arms(M, 6, 5), method=method, gap=None, time_limit=limit)
        assert found.lower <= found.upper
        if limit != 1e-3:
            assert found.status == "optimal"


@pytest.mark.parametrize("limit", [5e-324, 1e-300, 1e-12, 1e-6, 1e-4, 1e-3, 0.01])
@pytest.mark.parametrize("policy_class", ["history", "markov"])
def test_tiny_time_limits_give_plans(policy_class, limit):
    for spec in ("garnet", "maze:size=3,goals=2,horizon=6"):
        model = make(spec)
        for method in HISTORY if policy_class == "history" else MARKOV:
            found = plan(model, policy_class, method=method, time_limit=limit, gap=None)
            assert found.lower == pytest.approx(evaluate(model, found.policy).value, abs=1e-12)
            assert found.lower <= found.upper


@pytest.mark.parametrize("A", [32_767, 32_769, 40_000])
def test_many_actions(A):
    model = arms(3, A, A - 1, H=2)
    for policy_class, methods in (("history", ("layers", "grid")), ("markov", ("auto",))):
        for method in methods:
            found = plan(model, policy_class, method=method, gap=1e-6, time_limit=20)
            assert found.status in ("gap", "optimal")
            assert found.lower == pytest.approx(0.5)
            assert found.policy.action[found.policy.root[0]] == A - 1
