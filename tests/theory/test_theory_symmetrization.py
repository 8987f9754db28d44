"""Algorithm 4: stopping rules, and the identity it is for, in expectation and path by path."""

import numpy as np
import pytest

import latentmdp as lm
from latentmdp import LatentMDP, Learner, ModelError, evaluate
from latentmdp.builtin_domains.lower_bound import hard_instance
from latentmdp.theory.symmetrization import play_episode, symmetrize


@pytest.fixture(scope="module")
def instance():
    return hard_instance(2, 6, 2, eps=0.25, reward=1.0, seed=3)


def learner_for(model, seed=0, algorithm="mvp"):
    return Learner(
        model, algorithm, episodes=60, policy_class="markov", bonus_scale=0.01, seed=seed
    )


def test_stopping_rules(instance):
    model = instance.model()
    by_episodes = symmetrize(learner_for(model), model, 0, episodes=50, seed=1)
    assert by_episodes.episodes == 50 == len(by_episodes.contexts)
    assert by_episodes.interactions == (by_episodes.contexts == 0).sum()
    by_target = symmetrize(learner_for(model), model, 1, interactions=20, seed=1)
    assert by_target.interactions == 20 == (by_target.contexts == 1).sum()
    assert by_target.contexts[-1] == 1  # it stops with the last interaction
    assert by_target.regret == pytest.approx(by_target.losses.sum())
    assert (by_target.losses >= -1e-12).all()
    for wrong in ({}, {"episodes": 5, "interactions": 5}, {"episodes": 0}):
        with pytest.raises(ModelError):
            symmetrize(learner_for(model), model, 0, **wrong)
    with pytest.raises(ModelError, match="position"):
        symmetrize(learner_for(model), model, 2, episodes=5)
    skewed = model.replace(w=[0.25, 0.75])
    with pytest.raises(ModelError, match="equal weights"):
        symmetrize(learner_for(skewed), skewed, 0, episodes=5)


def test_positions_add_up_exactly_on_a_common_stream(instance):
    """The same stream drives all: what each position suffers is a part of what the LMDP does."""
    model = instance.model()
    values = [instance.optimal_value()] * 2
    for seed in range(3):
        parts = [symmetrize(learner_for(model), model, m, episodes=60, seed=seed) for m in range(2)]
        rng, learner, total = np.random.default_rng(seed), learner_for(model), 0.0
        for _ in range(60):
            m = int(rng.integers(model.M))
            total += values[m] - evaluate(model, learner.policy).contexts[m]
            play_episode(learner, model, m, rng)
        assert sum(part.regret for part in parts) == pytest.approx(total, abs=1e-10)
        assert (parts[0].contexts == parts[1].contexts).all()


@pytest.mark.slow
def test_identity_in_expectation(instance):
    """Regret of the LMDP = sum over positions of the simulators' regrets, each on its own stream.

    The two differ by a sum of mean 0; 60 runs, 4.5 standard errors: false alarm below 1e-4.
    """
    model, runs, K = instance.model(), 60, 30
    optimum = instance.optimal_value()
    differences = []
    for seed in range(runs):
        rng, learner, regret = np.random.default_rng(10_000 + seed), learner_for(model), 0.0
        for _ in range(K):
            regret += optimum - evaluate(model, learner.policy).value
            play_episode(learner, model, int(rng.integers(model.M)), rng)
        parts = (
            symmetrize(learner_for(model), model, m, episodes=K, seed=100_000 * (m + 1) + seed)
            for m in range(2)
        )
        differences.append(regret - sum(part.regret for part in parts))
    differences = np.array(differences)
    assert differences.std() > 0
    error = differences.std(ddof=1) / np.sqrt(runs)
    assert abs(differences.mean()) < 4.5 * error


def test_another_mdp_takes_the_place(instance):
    """An MDP with another secret at position 1; its own values count."""
    model = instance.model()
    other = hard_instance(2, 6, 2, eps=0.25, reward=1.0, secrets=[(0, 0), (0, 1)]).model()
    mdp = LatentMDP.from_arrays(other.P[1:], other.R[1:], [1.0], other.nu[1:], other.H)
    found = symmetrize(learner_for(model), model, 1, mdp=mdp, interactions=15, seed=0)
    again = symmetrize(learner_for(model), model, 1, interactions=15, seed=0)
    assert found.interactions == again.interactions == 15
    assert {round(x, 6) for x in found.losses} <= {0.0, 0.25}
    wrong = lm.make("hard:contexts=1,states=7")
    with pytest.raises(ModelError, match="must have"):
        symmetrize(learner_for(model), model, 1, mdp=wrong, interactions=15)
