"""Importance weights on replayed logs: against loops, and unbiased by enumeration of all logs."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import random_model

import latentmdp as lm
from latentmdp.fitting.off_policy import estimators as est
from latentmdp.fitting.off_policy.estimators import LoggedSteps


def slow_scores(method, episodes, policy, model, discount, value):
    """`episodes`: lists of (state, action, symbol, next, reward, behaviour); one loop each."""
    weights, scores = [], []
    for steps in episodes:
        cursor = policy.cursor(steps[0][0], model)
        ratio, total, gained, corrected, on = 1.0, 0.0, 0.0, 0.0, True
        for t, (_state, action, symbol, nxt, reward, behaviour) in enumerate(steps):
            before = ratio
            if on:
                guess = value(cursor.node)
                on = action == cursor.action
            ratio = ratio / behaviour if on else 0.0
            total += discount**t * reward
            gained += ratio * discount**t * reward
            corrected += discount**t * ((before - ratio) * guess + ratio * reward)
            if on:
                cursor.observe(nxt, symbol=symbol)
        weights.append(ratio)
        scores.append(
            {"is": ratio * total, "wis": ratio * total, "pdis": gained, "dr": corrected}[method]
        )
    return np.array(weights), np.array(scores)


def all_episodes(model, behaviour):
    """Every episode with its probability when actions come from `behaviour (S, A)`."""

    def go(context, state, steps, chance):
        if len(steps) == model.H:
            yield chance, steps
            return
        for action in range(model.A):
            row = (context * model.S + state) * model.A + action
            for i in range(model.indptr[row], model.indptr[row + 1]):
                step = (
                    state, action, int(model.symbol[i]), int(model.next[i]),
                    float(model.reward[i]), behaviour[state, action],
                )  # fmt: skip
                p = chance * behaviour[state, action] * model.prob[i]
                yield from go(context, step[3], [*steps, step], p)

    for context, state in itertools.product(range(model.M), range(model.S)):
        chance = model.w[context] * model.nu[context, state]
        if chance > 0.0:
            for p, steps in go(context, state, [], chance):
                yield p, context, steps


def logged(episodes):
    columns = [np.array(x) for x in zip(*itertools.chain(*episodes), strict=True)]
    state, action, symbol, nxt, reward, behaviour = columns
    first = np.concatenate([[0], np.cumsum([len(e) for e in episodes])])
    return LoggedSteps(first, state, action, symbol, nxt, reward.astype(float), behaviour)


@given(st.integers(0, 10**6))
@settings(deadline=None, max_examples=40)
def test_scores_equal_loops_and_average_to_the_value(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, M=2, S=2, A=2, H=3)
    behaviour = rng.dirichlet(np.full(model.A, 5.0), size=model.S)
    policy = lm.plan(model, gap=None, time_limit=10).policy
    found = list(all_episodes(model, behaviour))
    chance = np.array([p for p, _, _ in found])
    context = np.array([m for _, m, _ in found])
    episodes = [steps for _, _, steps in found]
    steps = logged(episodes)
    replayed = est.replay(steps, policy)
    guesses = rng.normal(size=policy.N)  # dr is right whatever the guess
    value = np.where(replayed.node >= 0, guesses[replayed.node], 0.0)
    truth = lm.evaluate(model, policy).value
    for method in ("is", "pdis", "dr", "wis"):
        scores = est.episode_scores(method, steps, replayed, model.discount, value)
        weight, score = slow_scores(
            method, episodes, policy, model, model.discount, lambda n: guesses[n]
        )
        np.testing.assert_allclose(scores.weight, weight, atol=1e-9)
        np.testing.assert_allclose(scores.score, score, atol=1e-9)
        np.testing.assert_allclose(chance @ scores.score, truth, atol=1e-9)
    np.testing.assert_allclose(chance @ weight, 1.0)
    alpha = lm.evaluate(model, policy).alpha  # the right guess in the right context
    exact = np.where(replayed.node >= 0, alpha[replayed.node, context[steps.episode]], 0.0)
    scores = est.episode_scores("dr", steps, replayed, model.discount, exact)
    np.testing.assert_allclose(chance @ scores.score, truth, atol=1e-9)


def test_effective_episodes_and_estimates_by_hand():
    assert est.effective_episodes(np.array([2.0, 2.0, 0.0])) == pytest.approx(2.0)
    assert est.effective_episodes(np.zeros(3)) == 0.0
    scores = est.Scores(np.array([2.0, 0.0]), np.array([1.0, 0.0]))
    assert est.estimate("is", scores) == 0.5
    assert est.estimate("wis", scores) == 0.5
    nothing = est.Scores(np.zeros(2), np.zeros(2))
    assert np.isnan(est.estimate("wis", nothing))


@pytest.mark.parametrize("method", ["is", "wis", "dr"])
@pytest.mark.parametrize("episodes", [50, est.JACKKNIFE_EPISODES + 1])
def test_intervals_cover_the_estimate_and_shrink(method, episodes):
    rng = np.random.default_rng(0)
    scores = est.Scores(rng.exponential(size=episodes), rng.exponential(size=episodes))
    low, high = est.bootstrap_interval(method, scores, 0.95, np.random.default_rng(1))
    assert low < est.estimate(method, scores) < high
    narrow = est.bootstrap_interval(method, scores, 0.5, np.random.default_rng(1))
    assert low < narrow[0] < narrow[1] < high


@pytest.mark.parametrize("noise", [0.0, 1e-17])
def test_no_spread_but_rounding_gives_the_estimate_itself(noise):
    scores = est.Scores(np.ones(4), 0.25 + noise * np.arange(4))
    low, high = est.bootstrap_interval("is", scores, 0.95, np.random.default_rng(0))
    assert low == high == pytest.approx(0.25)
