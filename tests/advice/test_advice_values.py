"""Bounds on Q-values at a belief, against a recursion over histories and over policies."""

import brute
import numpy as np
import pytest
from hypothesis import given, settings
from q_twin import best_node, expand, optimal_from, optimal_q
from strategies import models_and_policies, random_masked, random_model, random_policy, seeds

import latentmdp as lm
from latentmdp.advice import BeliefValues, q_values, values


def some_belief(rng, M):
    g = rng.random(M) * (rng.random(M) < 0.7)
    return g / g.sum() if g.sum() > 0 else np.full(M, 1.0 / M)


def check(model, policy, seed, exactly=False):
    rng = np.random.default_rng(seed)
    d, alpha = brute.Dense(model), lm.evaluate(model, policy).alpha
    bounds = BeliefValues(model, policy)
    t, s = int(rng.integers(model.H)), int(rng.integers(model.S))
    g = some_belief(rng, model.M)
    found = bounds.q(t, s, g)
    assert best_node(policy, alpha, t, s, g) - 1e-9 <= bounds.lower(t, s, g)
    assert bounds.lower(t, s, g) <= optimal_from(d, t, s, g.tolist()) + 1e-9
    for a in range(model.A):
        if a not in d.actions(s):
            assert np.isnan(found[a]).all()
            continue
        right = optimal_q(d, t, s, a, g.tolist())
        now, after = expand(d, s, a, g)
        ahead = now
        if t + 1 < d.H:
            ahead += d.discount * sum(
                best_node(policy, alpha, t + 1, y, h) for (_, y), h in after.items()
            )
        assert found[a, 0] >= ahead - 1e-9
        assert not exactly or found[a, 0] <= ahead + 1e-9
        assert found[a, 0] <= right + 1e-9
        assert right <= found[a, 1] + 1e-9
        assert found[a, 0] <= found[a, 1]
    assert np.nanmax(found[:, 0]) >= bounds.lower(t, s, g) - 1e-12


@given(models_and_policies(), seeds)
@settings(max_examples=60, deadline=None)
def test_bounds_enclose_the_value_of_each_action(pair, seed):
    check(*pair, seed)


@given(models_and_policies(), seeds)
@settings(max_examples=20, deadline=None)
def test_without_memory_for_each_contexts_policy_the_nodes_alone_count(pair, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "MOST_OWN_BYTES", 0)
        check(*pair, seed, exactly=True)


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_unavailable_actions_have_no_value(seed):
    rng = np.random.default_rng(seed)
    model = random_masked(rng)
    check(model, lm.PolicyGraph.from_table(model.substitute[:, 0][None].repeat(model.H, 0)), seed)


@given(seeds)
@settings(max_examples=8, deadline=None)
def test_without_a_last_step_the_bounds_are_those_of_a_long_horizon(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, M=2, S=2, A=2, discounted=False).replace(
        discount=0.3, horizon=np.inf, max_return=None
    )
    plan = lm.plan(model, gap=0.01, work_limit=20_000)
    g = some_belief(rng, model.M)
    found = q_values(model, plan, 0, 0, g)
    steps = 6
    cut = brute.Dense(model.replace(horizon=steps, max_return=None))
    tail = 0.3**steps * np.abs(model.reward).max() / 0.7
    for a in range(model.A):
        right = optimal_q(cut, 0, 0, a, g.tolist())
        assert found[a, 0] <= right + tail + 1e-9
        assert right - tail - 1e-9 <= found[a, 1]


def test_a_step_dependent_model_has_its_own_steps():
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.ones(2), (3, 2, 2, 2))
    R = rng.random((3, 2, 2, 2))
    model = lm.LatentMDP.from_arrays(P, R, [0.4, 0.6], [[1, 0]] * 2, 3, max_return=None)
    policy = lm.plan(model, gap=None).policy
    alone = [
        lm.LatentMDP.from_arrays(P[t], R[t], [0.4, 0.6], [[1, 0]] * 2, 1, max_return=None)
        for t in range(3)
    ]

    def best(t, s, g):
        if t == 3:
            return 0.0
        return max(q(t, s, a, g) for a in range(2))

    def q(t, s, a, g):
        now, after = expand(brute.Dense(alone[t]), s, a, g)
        return now + sum(best(t + 1, y, h) for (_, y), h in after.items())

    for t in range(3):
        g = some_belief(rng, 2)
        found = q_values(model, policy, t, 1, g)
        for a in range(2):
            assert found[a, 0] <= q(t, 1, a, g.tolist()) + 1e-9 <= found[a, 1] + 2e-9


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ((5, 0, [0.5, 0.5]), "the step must be a whole number from 0 to 2; it is 5"),
        ((0, -1, [0.5, 0.5]), "the state must be a whole number from 0 to"),
        ((0, 0, [0.5]), r"one per context; its shape is \(1,\)"),
        ((0, 0, [0.5, 0.6]), "the belief must sum to 1; it sums to 1.1"),
        ((0, 0, [1.5, -0.5]), "at least 0 that are not all 0"),
        ((0, 0, "ab"), "must hold 2 numbers"),
    ],
)
def test_places_and_beliefs_are_checked(place, message):
    model = lm.make("bandit:arms=2,contexts=2,horizon=3,seed=0")
    policy = np.zeros((3, model.S), dtype=int)
    with pytest.raises(lm.ModelError, match=message):
        q_values(model, policy, *place)


def test_many_nodes_at_a_place_are_all_looked_at():
    model = lm.make("troubleshoot:faults=2,tests=2,horizon=4")
    policy = random_policy(np.random.default_rng(1), model)
    check(model, policy, 3)
