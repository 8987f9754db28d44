"""Logs without contexts: guessed, named, counted; recovery where contexts are told apart."""

import itertools

import numpy as np
import pandas as pd
import pytest

import latentmdp as lm
from latentmdp.errors import ModelError
from latentmdp.fitting.mixture.unlabelled import MOST_REWARDS, episode_counts
from latentmdp.fitting.reading.episodes import ENDED, OPEN, Episodes


@pytest.fixture(scope="module")
def world():
    """Two contexts that differ clearly: in one action 0 leads up, in the other action 1."""
    P = np.zeros((2, 2, 2, 2))
    for m, a in itertools.product((0, 1), (0, 1)):
        up = 0.85 if a == m else 0.15
        P[m, :, a] = [1 - up, up]
    R = np.zeros((2, 2, 2))
    R[:, 1] = 0.1
    return lm.LatentMDP.from_arrays(P, R, [0.6, 0.4], [[1, 0], [1, 0]], 10)


@pytest.fixture(scope="module")
def log(world):
    table = np.tile([[0, 1], [1, 0]], (5, 1))
    return lm.rollout(world, table, episodes=600, seed=0).drop(columns="belief")


def distance(found, truth):
    """The largest difference of transitions under the best matching of contexts."""
    orders = itertools.permutations(range(truth.M))
    return min(abs(found.P[list(order)] - truth.P).max() for order in orders)


def test_contexts_are_recovered_where_they_differ(world, log):
    found = lm.fit(log.drop(columns="context"), context=None, contexts=2)
    assert found.names["contexts"] == ("type 1", "type 2")
    assert distance(found.model, world) < 0.1
    guessed = found.mixture.membership.argmax(axis=1)
    truth = log.groupby("episode")["context"].first().to_numpy()
    agree = (guessed == truth).mean()
    assert max(agree, 1 - agree) > 0.9
    assert any("nothing guarantees" in sentence for sentence in found.said)


@pytest.mark.filterwarnings("ignore::latentmdp.errors.MixtureWarning")  # of three contexts
def test_bic_prefers_the_true_number(log):
    bic = [
        lm.fit(log.drop(columns="context"), context=None, contexts=m).mixture.bic for m in (1, 2, 3)
    ]
    assert int(np.argmin(bic)) == 1


def test_some_labels_name_the_contexts(world, log):
    some = log.assign(kind=log["context"].map({0: "up", 1: "down"}).where(log["episode"] < 60))
    found = lm.fit(some.drop(columns="context"), context="kind", contexts=2)
    assert found.names["contexts"] == ("down", "up")
    order = [1, 0]  # context 0 is "up", which comes second
    assert abs(found.model.P[order] - world.P).max() < 0.1


def test_all_labels_give_the_labelled_fit(log):
    labelled = lm.fit(log)
    guessed = lm.fit(log, contexts=2)
    assert np.array_equal(labelled.model.P, guessed.model.P)


def test_counts_by_hand():
    """Episodes: 0 -a0-> 1, then open; 0 -a1-> 0 with reward 1, ended there for good."""
    part = Episodes(
        np.array([0, 2, 3]), np.array([0, 1]), np.array([-1, -1]), np.array([OPEN, ENDED]),
        np.array([0, 1, 0]), np.array([0, 0, 1]), np.array([0.0, 0.0, 1.0]),
        np.array([1, -1, -1]), np.zeros(3, dtype=int), {},
    )  # fmt: skip
    data = episode_counts([part], 2, 2)
    assert data.counts.toarray().tolist() == [[1, 1, 0], [1, 0, 1]]
    assert data.group.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("rewards", "outcomes"), [(MOST_REWARDS, MOST_REWARDS), (MOST_REWARDS + 1, 1)]
)
def test_many_different_rewards_are_noise(rewards, outcomes):
    n = rewards
    part = Episodes(
        np.arange(n + 1), np.arange(n), np.full(n, -1), np.full(n, OPEN), np.zeros(n, dtype=int),
        np.zeros(n, dtype=int), np.arange(n) / n, *np.zeros((2, n), dtype=int), {},
    )  # fmt: skip
    assert episode_counts([part], 1, 1).counts.shape[1] == 1 + outcomes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"context": None}, "their number must be given"),
        ({"context": None, "contexts": 0}, "contexts must be a whole number of at least 1"),
        ({"context": None, "contexts": 10**6}, "contexts must be at most 600"),
        ({"contexts": 1}, "contexts must be at least 2"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(log, arguments, words):
    with pytest.raises(ModelError, match=words):
        lm.fit(log, **arguments)


def test_an_empty_log_is_refused():
    empty = pd.DataFrame({"episode": [], "state": [], "action": [], "reward": []})
    with pytest.raises(ModelError, match="at least one episode"):
        lm.fit(empty, context=None, contexts=2)
