"""Default nodes of plans with memory: a Markov policy for all contexts, never one context's."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import random_masked, random_model, seeds

import latentmdp as lm
from latentmdp.planning.budget import Budget
from latentmdp.planning.history.belief_free import default_table
from latentmdp.planning.infinite.belief_grid import known_contexts
from latentmdp.planning.settings import SETTINGS


def of_single_contexts(model):
    """What the policy that is optimal in one context is worth in all, for each."""
    _, actions = lm.context_optimal(model)
    likely = np.flatnonzero(model.w > 0)
    return [lm.evaluate(model, actions[:, m]).value for m in likely]


def check(model):
    plan = lm.plan(model, gap=0.05)
    by_default = lm.evaluate(model, plan.policy.table).value
    tolerance = 1e-8 * max(1.0, abs(by_default))
    assert by_default >= max(of_single_contexts(model)) - tolerance
    assert by_default <= plan.upper + tolerance
    return by_default


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_they_are_worth_at_least_the_policy_of_any_context(seed):
    check(random_model(np.random.default_rng(seed)))


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_with_masks_they_are_playable(seed):
    check(random_masked(np.random.default_rng(seed)))


@pytest.mark.parametrize(
    ("spec", "single", "at_least"),
    [
        ("troubleshoot:faults=4,tests=3,horizon=12", 0.45, 0.80),
        ("maze:size=5,goals=4,horizon=20,seed=0", 0.55, 0.99),
        ("garnet:contexts=5,states=20,actions=4,horizon=20", 0.65, 0.70),
    ],
)
def test_where_memory_matters_they_are_near_the_best_markov_policy(spec, single, at_least):
    model = lm.make(spec)
    plan = lm.plan(model, gap=0.01)
    assert max(of_single_contexts(model)) < single
    assert lm.evaluate(model, plan.policy.table).value > at_least
    again = lm.plan(model, gap=0.01)
    np.testing.assert_array_equal(plan.policy.table, again.policy.table)


@pytest.mark.parametrize("limit", [None, 20])
def test_equal_work_gives_equal_defaults(limit):
    model = lm.make("garnet:contexts=3,states=8,actions=3,horizon=8")
    found = [lm.plan(model, gap=None, work_limit=limit).policy for _ in range(2)]
    assert found[0] == found[1]


def test_one_context_needs_no_memory():
    model = random_model(np.random.default_rng(0), M=1, S=3, A=3, H=4)
    assert lm.plan(model, gap=None).policy.is_markov


def test_out_of_time_the_table_is_the_one_that_is_there():
    model = lm.make("maze:size=5,goals=4,horizon=20,seed=0")
    corner = lm.context_optimal(model)[1][:, 0].copy()
    late = Budget(1e-9, None)
    assert default_table(model, corner, late) is corner
    stopped = Budget(None, None)
    stopped.interrupted.set()
    assert default_table(model, corner, stopped) is corner
    found = default_table(model, corner, Budget(60.0, None))
    np.testing.assert_array_equal(found, default_table(model, corner, Budget(None, 1)))
    less = default_table(model, corner, Budget(None, None), replace(SETTINGS, default_sweeps=0))
    values = [lm.evaluate(model, table).value for table in (corner, less, found)]
    assert values == sorted(values)
    assert values[0] < values[2]


@given(seeds)
@settings(max_examples=15, deadline=None)
def test_without_a_last_step_too(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, discounted=False).replace(
        discount=0.8, horizon=math.inf, max_return=None
    )
    plan = lm.plan(model, gap=0.05, work_limit=20_000)
    by_default = lm.evaluate(model, plan.policy.table).value
    assert by_default <= plan.upper + 1e-9 * max(1.0, abs(plan.upper))
    actions, _, _ = known_contexts(model, lambda: False)
    alone = max(lm.evaluate(model, actions[m]).value for m in np.flatnonzero(model.w))
    assert by_default >= alone - 1e-8 * max(1.0, abs(alone))


@pytest.mark.parametrize(
    ("spec", "single", "at_least"),
    [
        ("troubleshoot:faults=4,tests=3,horizon=12", 0.33, 0.53),
        ("garnet:contexts=5,states=20,actions=4,horizon=20", 0.32, 0.33),
        ("maze:size=5,goals=4,horizon=20,seed=0", 0.24, 0.37),
    ],
)
def test_without_a_last_step_they_are_better_than_one_context(spec, single, at_least):
    model = lm.make(spec).replace(discount=0.9, horizon=math.inf, max_return=None)
    actions, _, _ = known_contexts(model, lambda: False)
    assert max(lm.evaluate(model, table).value for table in actions) < single
    plans = [lm.plan(model, gap=0.1, work_limit=10_000) for _ in range(2)]
    assert lm.evaluate(model, plans[0].policy.table).value > at_least
    assert plans[0].policy == plans[1].policy
