"""Evaluation against the oracle that enumerates histories, and its invariances."""

import brute
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import models, models_and_policies, random_model, random_policy, seeds

import latentmdp as lm

CLOSE = {"rel": 1e-10, "abs": 1e-12}


@given(models_and_policies())
def test_value_variance_and_contexts_equal_the_oracle(pair):
    model, policy = pair
    ev = lm.evaluate(model, policy)
    distribution = brute.returns(model, brute.follow(model, policy))
    mean, variance = brute.mean_and_variance(distribution)
    assert ev.value == pytest.approx(mean, **CLOSE)
    assert ev.variance == pytest.approx(variance, rel=1e-9, abs=1e-9)
    for m in range(model.M):
        if model.w[m] > 1e-6:
            given_m = {k: p / model.w[m] for k, p in distribution.items() if k[0] == m}
            mean, variance = brute.mean_and_variance(given_m)
            assert ev.contexts[m] == pytest.approx(mean, **CLOSE)
            assert ev.context_variances[m] == pytest.approx(variance, rel=1e-9, abs=1e-9)


@given(models_and_policies())
def test_distribution_of_the_return_equals_the_oracle(pair):
    model, policy = pair
    totals, prob = lm.return_distribution(model, policy)
    assert prob.sum() == pytest.approx(1.0)
    assert (np.diff(totals) > 0).all()
    expected = brute.returns(model, brute.follow(model, policy))
    for x, p in zip(totals, prob, strict=True):
        near = sum(q for (_, y), q in expected.items() if abs(x - y) < 1e-11)
        assert p == pytest.approx(near, **CLOSE)
    ev = lm.evaluate(model, policy)
    assert prob @ totals == pytest.approx(ev.value, **CLOSE)
    assert prob @ (totals - ev.value) ** 2 == pytest.approx(ev.variance, rel=1e-9, abs=1e-11)


def test_distribution_refuses_to_grow_without_end():
    rng = np.random.default_rng(1)
    model = random_model(rng, 3, 3, 3, 3)
    with pytest.raises(lm.ModelError, match="max_atoms=0"):
        lm.return_distribution(model, random_policy(rng, model), max_atoms=0)


@given(models_and_policies())
def test_reach_weights_are_probabilities_of_context_and_node(pair):
    model, policy = pair
    g = lm.reach_weights(model, policy)
    ev = lm.evaluate(model, policy)
    for t in range(model.H):
        np.testing.assert_allclose(g[policy.step == t].sum(axis=0), model.w, atol=1e-12)
    # the value is what the reached nodes earn at once, discounted
    row = (np.arange(model.M) * model.S + policy.state[:, None]) * model.A + policy.action[:, None]
    earned = g * model.row_reward[row] * model.discount ** policy.step[:, None]
    assert earned.sum() == pytest.approx(ev.value, **CLOSE)


@given(models_and_policies(), st.data())
def test_permuting_contexts_states_and_actions_changes_nothing(pair, data):
    model, policy = pair
    p_m = np.array(data.draw(st.permutations(range(model.M))))
    p_s = np.array(data.draw(st.permutations(range(model.S))))
    p_a = np.array(data.draw(st.permutations(range(model.A))))
    P, R = model.P, model.R
    P2 = P[np.ix_(p_m, p_s, p_a, p_s)]
    R2 = R[np.ix_(p_m, p_s, p_a, p_s)] if R.ndim == 4 else R[np.ix_(p_m, p_s, p_a)]
    other = lm.LatentMDP.from_arrays(
        P2, R2, model.w[p_m], model.nu[np.ix_(p_m, p_s)], model.H,
        observe_rewards=model.observe_rewards, discount=model.discount, max_return=None,
    )  # fmt: skip
    back_s, back_a = np.argsort(p_s), np.argsort(p_a)
    moved = lm.PolicyGraph.from_arrays(
        policy.step, back_s[policy.state], back_a[policy.action], policy.indptr, policy.symbol,
        back_s[policy.next], policy.node, policy.root[p_s], policy.default[:, p_s],
    )  # fmt: skip
    assert lm.evaluate(other, moved).value == pytest.approx(
        lm.evaluate(model, policy).value, **CLOSE
    )


@given(models_and_policies())
def test_splitting_a_context_into_identical_halves_changes_nothing(pair):
    model, policy = pair
    order = [0, *range(model.M)]
    w = model.w[order] * np.array([0.5, 0.5, *[1.0] * (model.M - 1)])
    split = lm.LatentMDP.from_arrays(
        model.P[order], model.R[order], w, model.nu[order], model.H,
        observe_rewards=model.observe_rewards, discount=model.discount, max_return=None,
    )  # fmt: skip
    a, b = lm.evaluate(model, policy), lm.evaluate(split, policy)
    assert (b.value, b.variance) == pytest.approx((a.value, a.variance), **CLOSE)


@given(models(M=1))
def test_one_context_is_plain_backward_induction(model):
    values, actions = lm.context_optimal(model)
    policy = lm.PolicyGraph.from_table(actions[:, 0])
    assert lm.evaluate(model, policy).value == pytest.approx(
        brute.best_history_value(model), **CLOSE
    )
    assert (model.nu[0] * values[0, 0]).sum() == pytest.approx(
        brute.best_history_value(model), **CLOSE
    )


@given(models())
def test_knowing_the_context_is_at_least_as_good_as_anything(model):
    values, _ = lm.context_optimal(model)
    known = (model.w[:, None] * model.nu * values[0]).sum()
    assert known >= brute.best_history_value(model) - 1e-12


def check_monte_carlo(seed):
    """A mean of 2,000 episodes obeys Bernstein's inequality; false alarms: 1e-9 per example."""
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    policy = random_policy(rng, model)
    ev = lm.evaluate(model, policy)
    sample = []
    for _ in range(2000):
        m = rng.choice(model.M, p=model.w)
        s = int(rng.choice(model.S, p=model.nu[m]))
        cursor, total = policy.cursor(s, model), 0.0
        for t in range(model.H):
            row = (m * model.S + s) * model.A + cursor.action
            i = model.indptr[row] + rng.choice(
                model.indptr[row + 1] - model.indptr[row],
                p=model.prob[model.indptr[row] : model.indptr[row + 1]],
            )
            total += model.discount**t * model.reward[i]
            s = int(model.next[i])
            cursor.observe(s, reward=float(model.reward[i]))
        sample.append(total)
    log, n = np.log(2 / 1e-9), len(sample)
    span = model.max_return - model.min_return
    radius = np.sqrt(2 * max(ev.variance, 0.0) * log / n) + span * log / (3 * n) + 1e-12
    assert abs(np.mean(sample) - ev.value) <= radius


@settings(max_examples=3)
@given(seeds)
def test_monte_carlo_agrees(seed):
    check_monte_carlo(seed)


@pytest.mark.slow
@settings(max_examples=15)
@given(seeds)
def test_monte_carlo_agrees_on_more_models(seed):
    check_monte_carlo(seed)


def test_a_policy_for_another_model_is_refused():
    model = random_model(np.random.default_rng(0), 2, 2, 2, 3)
    with pytest.raises(lm.ModelError, match=r"must be for H=\d+ steps"):
        lm.evaluate(model, lm.PolicyGraph.from_table(np.zeros((9, model.S), dtype=int)))
    table = np.full((model.H, model.S), model.A)
    with pytest.raises(lm.ModelError, match="actions must be from 0 to"):
        lm.evaluate(model, lm.PolicyGraph.from_table(table))
