"""Mixtures of MDPs by EM: monotone, at a maximum, equal to brute force on tiny logs."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from latentmdp.errors import ModelError
from latentmdp.fitting.mixture.expectation_maximisation import (
    UNKNOWN,
    EpisodeCounts,
    fit_mixture,
    held_out_likelihood,
)


@st.composite
def logs(draw: st.DrawFn) -> EpisodeCounts:
    """Few episodes over one to three groups of two or three outcomes."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    group = np.repeat(np.arange(len(sizes)), sizes)
    episodes = draw(st.integers(1, 6))
    cells = st.lists(st.integers(0, 4), min_size=len(group), max_size=len(group))
    table = np.array([draw(cells) for _ in range(episodes)])
    return EpisodeCounts(csr_array(table), group)


def slow_likelihood(data: EpisodeCounts, w: np.ndarray, theta: np.ndarray) -> float:
    """The definition, by loops and without logarithms inside."""
    total = 0.0
    for row in data.counts.toarray():
        total += np.log(
            sum(
                w[m] * np.prod([theta[m, j] ** n for j, n in enumerate(row)]) for m in range(len(w))
            )
        )
    return total


@given(logs(), st.integers(1, 3), st.sampled_from([0.0, 0.5]), st.integers(0, 100))
@settings(deadline=None)
def test_probabilities_sum_to_one_and_the_likelihood_is_the_definition(data, contexts, prior, seed):
    contexts = min(contexts, data.counts.shape[0])
    found = fit_mixture(data, contexts, seed, starts=2, prior=prior)
    for m in range(contexts):
        np.testing.assert_allclose(np.bincount(data.group, found.theta[m]), 1.0)
    np.testing.assert_allclose(found.w.sum(), 1.0)
    np.testing.assert_allclose(found.membership.sum(axis=1), 1.0)
    np.testing.assert_allclose(
        found.log_likelihood, slow_likelihood(data, found.w, found.theta), atol=1e-9
    )
    rises = np.diff(found.objective)
    assert (rises >= -1e-9 * (1 + np.abs(found.objective[-1]))).all()


def test_one_context_is_the_table_of_shares():
    data = EpisodeCounts(csr_array([[1, 0, 2, 1], [0, 1, 1, 0]]), np.array([0, 0, 1, 1]))
    found = fit_mixture(data, 1)
    np.testing.assert_allclose(found.theta, [[0.5, 0.5, 0.75, 0.25]])
    assert found.parameters == 2


def test_two_coins_reach_the_best_of_a_fine_grid():
    """Brute force over weight and both coins; EM is at least as good as every point of the grid."""
    heads = np.array([5, 4, 5, 1, 0, 1, 2])
    data = EpisodeCounts(csr_array(np.column_stack([heads, 5 - heads])), np.zeros(2, dtype=int))
    found = fit_mixture(data, 2, starts=10, tolerance=1e-12)
    steps = np.linspace(0.0, 1.0, 26)
    best = max(
        sum(
            np.log(w * p**h * (1 - p) ** (5 - h) + (1 - w) * q**h * (1 - q) ** (5 - h) + 1e-300)
            for h in heads
        )
        for w, p, q in itertools.product(steps, steps, steps)
    )
    assert best - 1e-9 <= found.log_likelihood <= best + 0.05


def test_all_labels_known_give_shares_by_context():
    data = EpisodeCounts(csr_array([[3, 1], [1, 3], [2, 2]]), np.zeros(2, dtype=int))
    found = fit_mixture(data, 2, labels=np.array([1, 0, 1]))
    np.testing.assert_allclose(found.theta, [[0.25, 0.75], [0.625, 0.375]])
    np.testing.assert_allclose(found.w, [1 / 3, 2 / 3])
    np.testing.assert_allclose(found.membership, [[0, 1], [1, 0], [0, 1]])


def test_some_labels_name_the_contexts():
    rng = np.random.default_rng(0)
    context = np.arange(300) % 2
    heads = rng.binomial(8, np.where(context == 1, 0.8, 0.3))
    data = EpisodeCounts(csr_array(np.column_stack([heads, 8 - heads])), np.zeros(2, dtype=int))
    labels = np.where(np.arange(300) < 30, context, UNKNOWN)
    found = fit_mixture(data, 2, labels=labels)
    assert abs(found.theta[1, 0] - 0.8) < 0.05
    assert abs(found.theta[0, 0] - 0.3) < 0.05
    assert (found.membership[:30].argmax(axis=1) == context[:30]).all()


def test_the_number_of_contexts_is_found_by_bic_and_on_held_out_episodes():
    rng = np.random.default_rng(1)
    context = rng.integers(2, size=400)
    heads = rng.binomial(10, np.where(context == 1, 0.85, 0.2))
    data = EpisodeCounts(csr_array(np.column_stack([heads, 10 - heads])), np.zeros(2, dtype=int))
    bic = [fit_mixture(data, m, starts=4).bic for m in (1, 2, 3)]
    assert int(np.argmin(bic)) == 1
    held_out = [held_out_likelihood(data, m, starts=4) for m in (1, 2, 3)]
    assert held_out[1] > held_out[0] + 0.1
    assert held_out[1] > held_out[2] - 0.05


def test_memberships_are_bayes_rule():
    counts = np.array([[2, 1], [0, 3], [5, 1]])
    found = fit_mixture(EpisodeCounts(csr_array(counts), np.zeros(2, dtype=int)), 2, prior=0.5)
    joint = found.w * (found.theta[None] ** counts[:, None]).prod(axis=2)
    np.testing.assert_allclose(found.membership, joint / joint.sum(axis=1, keepdims=True))


def test_the_same_seed_gives_the_same_bits():
    data = EpisodeCounts(csr_array([[2, 1], [0, 3], [3, 0]]), np.zeros(2, dtype=int))
    one, two = fit_mixture(data, 2, seed=3), fit_mixture(data, 2, seed=3)
    assert np.array_equal(one.theta, two.theta)
    assert one.objective == two.objective


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"contexts": 0}, "contexts must be from 1"),
        ({"contexts": 4}, "contexts must be from 1 to the number of episodes, 3"),
        ({"starts": 0}, "starts must be at least 1"),
        ({"prior": -1.0}, "prior must be finite"),
        ({"labels": np.array([0, 5, -1])}, "labels must be 3 contexts"),
        ({"labels": np.array([0])}, "labels must be 3 contexts"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(change, words):
    data = EpisodeCounts(csr_array([[2, 1], [0, 3], [3, 0]]), np.zeros(2, dtype=int))
    with pytest.raises(ModelError, match=words):
        fit_mixture(data, **{"contexts": 2, **change})
