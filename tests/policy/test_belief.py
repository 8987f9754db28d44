"""Beliefs follow Bayes' rule over the histories that the oracle enumerates."""

import brute
import numpy as np
import pytest
from hypothesis import given
from strategies import models_and_policies

import latentmdp as lm


@given(models_and_policies())
def test_beliefs_are_posteriors(pair):
    model, policy = pair
    d = brute.Dense(model)
    choose = brute.follow(model, policy)
    joint = {}

    def walk(m, t, history, prob):
        joint.setdefault(history, np.zeros(d.M))[m] += prob
        if t < d.H:
            a = choose(history) if t < d.H else None
            for p, _, seen, nxt in d.outcomes(m, history[-1], a):
                walk(m, t + 1, (*history, a, seen, nxt), prob * p)

    for m in range(d.M):
        for s in range(d.S):
            if d.w[m] * d.nu[m][s] > 0:
                walk(m, 0, (s,), d.w[m] * d.nu[m][s])
    for history, weight in joint.items():
        belief = lm.initial_belief(model, history[0])
        for i in range(0, len(history) - 3, 3):
            s, a, seen, nxt = history[i : i + 4]
            by_reward = lm.update_belief(model, belief, s, a, nxt, reward=seen)
            belief = lm.update_belief(model, belief, s, a, nxt, symbol=d.symbol(s, a, seen, nxt))
            np.testing.assert_array_equal(by_reward, belief)
        np.testing.assert_allclose(belief, weight / weight.sum(), atol=1e-12)


def test_impossible_observations_have_no_belief():
    model = lm.make("maze:size=3,goals=2,horizon=4,seed=0")
    start = int(np.argmax(model.nu[0]))
    belief = lm.initial_belief(model, start)
    assert belief is not None
    assert lm.initial_belief(model, model.S - 1) is None
    assert lm.update_belief(model, belief, start, 0, start, reward=0.123) is None
    with pytest.raises(lm.ModelError, match="rewards are observed"):
        lm.update_belief(model, belief, start, 0, start)
