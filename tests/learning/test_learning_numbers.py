"""Rewards on transitions: a learner that does not know which transitions can happen, and a model.

A policy with memory looks at the number of a reward. The learner numbers the rewards of all
transitions, or those that it has seen; the model numbers those that can happen.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import models

import latentmdp as lm
from latentmdp.evaluation.evaluate import return_distribution
from latentmdp.learning.knowledge import known_from, nothing_known
from latentmdp.learning.learner import Learner
from latentmdp.learning.simulation import simulate_counts
from latentmdp.model.counts import Counts
from latentmdp.optimism.given import Given
from latentmdp.policy.belief import reach_weights


def sparse_model(rng, S):
    """`(model, R)`: rows lead to one to three states; `R` also has rewards that are never paid."""
    M, A, H = int(rng.integers(2, 4)), 2, int(rng.integers(2, 4))
    P = np.zeros((M, S, A, S))
    for row in np.ndindex(M, S, A):
        to = rng.choice(S, size=min(S, int(rng.integers(1, 4))), replace=False)
        P[row][to] = rng.dirichlet(np.ones(len(to)))
    R = rng.integers(0, 4, P.shape) / (3 * H)
    nu = np.zeros((M, S))
    nu[:, rng.integers(S)] = 1.0
    return lm.LatentMDP.from_arrays(P, R, rng.dirichlet(np.full(M, 3.0)), nu, H), R


def dense(model):
    """`P` and `R`, both `(M, S, A, S)`."""
    R = model.R
    return model.P, R if R.ndim == 4 else np.repeat(R[..., None], model.S, axis=3)


def play(learner, model, rng, episodes=1):
    P, R = dense(model)
    for _ in range(episodes):
        m = int(rng.choice(model.M, p=model.w))
        state = int(rng.choice(model.S, p=model.nu[m]))
        action = learner.begin(state)
        while action is not None:
            before, state = state, int(rng.choice(model.S, p=P[m, state, action]))
            action = learner.step(float(R[m, before, action, state]), state)
        learner.end(m)


def earned(model, actions):
    """Value of a policy, by walking all histories; `actions(first, [(reward, next), ...])`."""
    P, R = dense(model)

    def walk(m, first, seen, state):
        if len(seen) == model.H:
            return 0.0
        a = actions(first, seen)
        return sum(
            P[m, state, a, x]
            * (R[m, state, a, x] + walk(m, first, [*seen, (float(R[m, state, a, x]), int(x))], x))
            for x in np.flatnonzero(P[m, state, a])
        )

    return sum(
        model.w[m] * model.nu[m, s] * walk(m, int(s), [], s)
        for m in range(model.M)
        for s in np.flatnonzero(model.nu[m])
    )


def value_of_play(learner, model):
    """What the learner's next episode is worth: its own `begin`, `step`, `cancel` are asked."""

    def actions(first, seen):
        action = learner.begin(first)
        for reward, state in seen:
            action = learner.step(reward, state)
        learner.cancel()
        return action

    return earned(model, actions)


def value_of_cursor(policy, model):
    """The same for a cursor that knows the model."""

    def actions(first, seen):
        cursor = policy.cursor(first, model)
        for reward, state in seen:
            cursor.observe(state, reward=reward)
        return cursor.action

    return earned(model, actions)


def learner_of(model, R, given, algorithm, policy_class="history", counts=None):
    """A learner that was told a model, its `R`, an `R` that says more, or nothing."""
    w, nu, H = model.w, model.nu, model.H
    known = {
        "model": lambda: model,
        "its R": lambda: known_from(model.R, w, nu, H),
        "another R": lambda: known_from(R, w, nu, H),
        "nothing": lambda: nothing_known(model.M, model.S, model.A, H),
    }[given]()
    return Learner(
        known, algorithm, episodes=1000, policy_class=policy_class, bonus_scale=0.01,
        estimate=("w", "nu", "R") if given == "nothing" else (), counts=counts,
    )  # fmt: skip


GIVEN = ("model", "its R", "another R", "nothing")
# models of 2 to 8 states, one of each size; and others
SEEDS = pytest.mark.parametrize(
    "seeds", [range(7), pytest.param(range(7, 14), marks=pytest.mark.slow)], ids=["some", "more"]
)


@pytest.mark.parametrize("policy_class", ["markov", "history"])
@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
@pytest.mark.parametrize("given", GIVEN)
@SEEDS
def test_what_a_learner_plays_is_worth_what_evaluate_says(seeds, given, algorithm, policy_class):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        model, R = sparse_model(rng, 2 + seed % 7)
        learner = learner_of(model, R, given, algorithm, policy_class)
        for episodes in (4, 21):
            play(learner, model, rng, episodes)
            found = lm.evaluate(model, learner.policy)
            assert found.value == pytest.approx(value_of_play(learner, model), abs=1e-12), seed


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein", "psrl"])
@SEEDS
def test_which_transitions_can_happen_is_not_known(seeds, algorithm):
    """A learner that is told the model plays as one that is told its `R`: to the bit.

    The first also stores its visits along the model, as `learn` does, the second as they come.
    """
    for seed in seeds:
        rng = np.random.default_rng(seed)
        model, R = sparse_model(rng, 2 + seed % 7)
        one = learner_of(model, R, "model", algorithm, counts=Counts.for_model(model))
        two = learner_of(model, R, "its R", algorithm)
        for k in range(12):
            for learner in (one, two):
                play(learner, model, np.random.default_rng([seed, k]))
            assert one.policy == two.policy
            assert (one.optimistic_value, one.upper) == (two.optimistic_value, two.upper)


@given(models(on_transitions=True, negative=False, discounted=False))
def test_model_and_learner_have_the_same_numbers(model):
    known = Given.of(model)
    if not model.rewards_on_transitions:
        assert known.next_symbol is None
        return
    row = np.repeat(np.arange(model.M * model.S * model.A), np.diff(model.indptr))
    assert np.array_equal(known.next_symbol[row, model.next], model.symbol)
    told = known_from(model.R, model.w, model.nu, model.H, model.observe_rewards)
    assert np.array_equal(told.next_symbol, known.next_symbol)
    assert np.array_equal(told.next_reward, known.next_reward)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(["its R", "another R", "nothing"]))
def test_a_learners_policy_is_read_by_its_rewards_everywhere(seed, given):
    rng = np.random.default_rng(seed)
    model, R = sparse_model(rng, int(rng.integers(2, 9)))
    learner = learner_of(model, R, given, "mvp")
    play(learner, model, rng, 12)
    value, policy = value_of_play(learner, model), learner.policy
    own = policy.for_model(model)
    assert own.model is model
    for same in (policy, own, policy.merge(), policy.prune(model)):
        assert lm.evaluate(model, same).value == pytest.approx(value, abs=1e-12)
        total, probability = return_distribution(model, same)
        assert total @ probability == pytest.approx(value, abs=1e-12)
    if given != "nothing":  # a reward that was never seen says nothing to the learner
        assert value_of_cursor(policy, model) == pytest.approx(value, abs=1e-12)
    assert np.array_equal(reach_weights(model, policy), reach_weights(model, own))
    counts, again = (simulate_counts(model, same, 100, seed=1).n for same in (policy, own))
    assert np.array_equal(counts, again)
    assert policy.to_dot(model) == own.to_dot(model)


@pytest.mark.parametrize("given", GIVEN)
def test_a_loaded_learner_still_knows_its_numbers(given, tmp_path):
    for seed in range(7):
        rng = np.random.default_rng(seed)
        model, R = sparse_model(rng, 2 + seed)
        learner = learner_of(model, R, given, "mvp")
        play(learner, model, rng, 20)
        learner.save(tmp_path / "learner.npz")
        again = Learner.load(tmp_path / "learner.npz")
        value = lm.evaluate(model, learner.policy).value
        assert lm.evaluate(model, again.policy).value == value
        assert value_of_play(again, model) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(("algorithm", "seeds"), [("mvp", (0, 41, 63)), ("bernstein", (1, 41, 93))])
def test_a_policy_stays_as_it_is_until_the_next_update(algorithm, seeds):
    """Also where rewards are estimated, and one seen for the first time changes the numbers.

    With most of these seeds that once happened between two updates.
    """
    kept = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        model, R = sparse_model(rng, 2 + seed % 7)
        learner = learner_of(model, R, "nothing", algorithm)
        for _ in range(20):
            updates, value = learner.updates, value_of_play(learner, model)
            play(learner, model, rng)
            if learner.updates == updates:
                assert value_of_play(learner, model) == pytest.approx(value, abs=1e-12)
                kept += 1
    assert kept > 3


def policy_that_looks(model, R):
    for seed in range(50):
        learner = learner_of(model, R, "another R", "mvp")
        play(learner, model, np.random.default_rng(seed), 20)
        if len(learner.policy.node):
            return learner.policy
    raise AssertionError("no learner came to look at rewards")


def test_a_model_that_pays_or_shows_something_else_is_refused():
    model, R = sparse_model(np.random.default_rng(2), 4)
    policy = policy_that_looks(model, R)
    twice = lm.LatentMDP.from_arrays(model.P, 0.5 * R, model.w, model.nu, model.H)
    with pytest.raises(lm.ModelError, match=r"for the rewards of the model; it knows no reward of"):
        lm.evaluate(twice, policy)
    hidden = model.replace(observe_rewards=False)
    with pytest.raises(lm.ModelError, match="must not see rewards that the model hides"):
        lm.evaluate(hidden, policy)
