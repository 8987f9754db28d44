"""`rollout`: rows that the model and the policy can give, beliefs by Bayes' rule, the right law."""

import doctest
from collections import Counter

import brute
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats
from strategies import models, random_model, random_policy, seeds

import latentmdp as lm
from latentmdp.evaluation import rollout as trajectories

COLUMNS = ["episode", "step", "context", "state", "action", "reward", "next_state", "belief"]


def test_example_in_the_docstring():
    assert doctest.testmod(trajectories).failed == 0


@settings(deadline=None, max_examples=150)
@given(models(), seeds)
def test_every_row_follows_model_policy_and_bayes_rule(model, seed):
    rng = np.random.default_rng(seed)
    policy = random_policy(rng, model)
    table = lm.rollout(model, policy, episodes=4, seed=seed)
    assert list(table.columns) == COLUMNS
    assert len(table) == 4 * model.H
    for _, episode in table.groupby("episode"):
        assert list(episode.step) == list(range(model.H))
        assert episode.context.nunique() == 1
        m = int(episode.context.iloc[0])
        cursor = policy.cursor(int(episode.state.iloc[0]), model)
        belief = lm.initial_belief(model, int(episode.state.iloc[0]))
        before = None
        for row in episode.itertuples():
            assert before is None or row.state == before
            np.testing.assert_allclose(row.belief, belief, rtol=1e-9, atol=0.0)
            assert row.action == cursor.action
            outcomes = model.outcomes_to(np.array([m]), row.state, row.action, row.next_state)
            assert row.reward in model.reward[outcomes]
            cursor.observe(row.next_state, reward=row.reward)
            belief = lm.update_belief(
                model, belief, row.state, row.action, row.next_state, reward=row.reward
            )
            before = row.next_state


@pytest.mark.parametrize("seed", range(4))
def test_law_is_that_of_enumerated_histories(seed):
    """Chi-square at 1e-5 for each of four models: a false alarm in 25,000 runs."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, M=3, S=2, A=2, H=3)
    policy = random_policy(rng, model)
    expected = brute.returns(model, brute.follow(model, policy))
    n = 40_000
    table = lm.rollout(model, policy, episodes=n, seed=seed)
    gain = table.reward * model.discount**table.step
    total = gain.groupby(table.episode).sum().round(9)
    found = Counter(zip(table.context[:: model.H], total, strict=True))
    wanted = Counter()
    for (m, value), p in expected.items():
        wanted[m, round(value, 9)] += p * n
    assert set(found) <= set(wanted)
    cells = [(found[key], p) for key, p in wanted.items() if p >= 5]
    rest = n - sum(k for k, _ in cells), n - sum(p for _, p in cells)
    counts, means = np.array([*cells, rest]).T
    z = ((counts - means) ** 2 / np.maximum(means, 1.0)).sum()
    assert stats.chi2.sf(z, max(len(cells) - 1, 1)) > 1e-5


def test_mean_agrees_with_the_exact_value():
    model = lm.make("maze:size=3,goals=3,horizon=8,seed=1")
    plan = lm.plan(model)
    table = lm.rollout(model, plan, episodes=20_000, seed=3)
    ev = lm.evaluate(model, plan.policy)
    total = table.reward.groupby(table.episode).sum()
    assert abs(total.mean() - ev.value) < 5 * np.sqrt(ev.variance / 20_000)


def test_takes_plans_policies_and_tables_and_repeats():
    model = lm.make("maze:size=3,goals=3,horizon=8,seed=1")
    plan = lm.plan(model, "markov")
    tables = [
        lm.rollout(model, given, episodes=10, seed=7)
        for given in (plan, plan.policy, plan.policy.table, plan.policy.table.tolist())
    ]
    for table in tables[1:]:
        assert all(
            np.array_equal(a, b) for a, b in zip(table.belief, tables[0].belief, strict=True)
        )
        assert table.drop(columns="belief").equals(tables[0].drop(columns="belief"))
    longer = lm.rollout(model, plan, episodes=25, seed=7).drop(columns="belief")
    assert longer[: 10 * model.H].equals(tables[0].drop(columns="belief"))
    other = lm.rollout(model, plan, episodes=10, seed=8).drop(columns="belief")
    assert not other.equals(tables[0].drop(columns="belief"))
    still = lm.rollout(model, np.zeros(model.S, dtype=int), episodes=5)
    assert set(still.action) == {0}


def test_names_stand_for_numbers():
    model = lm.make("riverswim").replace(
        context_names=("calm", "rough") if lm.make("riverswim").M == 2 else None
    )
    policy = np.zeros((model.H, model.S), dtype=int)
    numbers = lm.rollout(model, policy, episodes=3)
    named = lm.rollout(model, policy, episodes=3, names=True)
    for column, names in (
        ("state", model.state_names), ("next_state", model.state_names),
        ("action", model.action_names), ("context", model.context_names),
    ):  # fmt: skip
        wanted = [names[i] if names else i for i in numbers[column]]
        assert list(named[column]) == wanted


def test_a_possible_context_is_never_lost_to_rounding():
    """Evidence of a million to one against a context, at each of 400 steps."""
    rare = 1e-6
    P = np.array(
        [[[[1 - rare, rare]], [[1 - rare, rare]]], [[[rare, 1 - rare]], [[rare, 1 - rare]]]]
    )
    model = lm.LatentMDP.from_arrays(P, np.zeros((2, 2, 1)), [0.5, 0.5], [[1, 0], [1, 0]], 400)
    table = lm.rollout(model, np.zeros(2, dtype=int), episodes=20)
    held = np.stack(table.belief)
    assert np.isfinite(held).all()
    assert (held > 0).all()
    np.testing.assert_allclose(held.sum(axis=1), 1.0, rtol=1e-12)


def test_refuses_what_makes_no_sense():
    model = lm.make("bandit:horizon=3")
    policy = np.zeros((3, model.S), dtype=int)
    for arguments, text in (
        ((model, policy, 0), "episodes must be a whole number of at least 1; it is 0"),
        ((model, policy, 2.5), "episodes must be a whole number"),
        ((model, policy, 1, -1), "seed must be a whole number of at least 0"),
        ((model, policy, 10**12), "GB as a table; ask for fewer"),
        (("bandit", policy), "rollout needs a LatentMDP; it was given a str"),
        ((model, policy[:2]), "the policy must be for H=3 steps"),
        ((model, policy + 99), "the policy's actions must be from 0 to"),
        ((model, policy - 1), r"table\[0, 0\] must be at least 0"),
        ((model, policy * 1.0), "a policy must be a Plan, a PolicyGraph or a table"),
        ((model, [[0], [0, 0]]), "a policy must be a Plan, .* found a list"),
        ((model, None), "found a NoneType"),
        ((model, "best"), "found a str"),
    ):
        with pytest.raises(lm.ModelError, match=text):
            lm.rollout(*arguments)
