"""Does a log show as many kinds of episodes as it was cut into? And where EM starts."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import latentmdp as lm
from latentmdp.commands.cli import run
from latentmdp.errors import MixtureWarning
from latentmdp.fitting.mixture import clustering
from latentmdp.fitting.mixture.expectation_maximisation import (
    EpisodeCounts,
    fit_mixture,
    memberships,
)
from latentmdp.fitting.mixture.verdict import adjusted_rand_index, mixture_verdict


def mixed(apart, w, episodes, steps, seed, rows=2):
    """`(counts, contexts)`: in `rows` rows the first of two outcomes has 0.5 +- `apart` / 2."""
    rng = np.random.default_rng(seed)
    context = rng.choice(len(w), episodes, p=w)
    visits = rng.multinomial(steps, np.full(rows, 1.0 / rows), episodes)
    sign = np.where((context[:, None] + np.arange(rows)) % len(w) == 0, 1.0, -1.0)
    first = rng.binomial(visits, 0.5 + sign * apart / 2)
    counts = np.stack([first, visits - first], axis=2).reshape(episodes, 2 * rows)
    data = EpisodeCounts(csr_array(counts.astype(float)), np.repeat(np.arange(rows), 2))
    return data, context


def agreement(guessed, truth, k=2):
    return max((np.array(order)[guessed] == truth).mean() for order in
               itertools.permutations(range(k)))  # fmt: skip


def verdict_of(data, k=2, seed=0):
    return mixture_verdict(data, fit_mixture(data, k, seed, starts=4, prior=0.1), seed)


def test_the_adjusted_rand_index_counts_pairs():
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = rng.integers(0, 3, 12), rng.integers(0, 4, 12)
        pairs = list(itertools.combinations(range(12), 2))
        same_a = np.array([a[i] == a[j] for i, j in pairs])
        same_b = np.array([b[i] == b[j] for i, j in pairs])
        expected = same_a.sum() * same_b.sum() / len(pairs)
        largest = (same_a.sum() + same_b.sum()) / 2
        truth = ((same_a & same_b).sum() - expected) / (largest - expected)
        assert adjusted_rand_index(a, b) == pytest.approx(truth)
        assert adjusted_rand_index(a, a) == 1.0
    same = np.zeros(4, dtype=int)
    assert adjusted_rand_index(same, same) == 1.0


@pytest.mark.parametrize("dense", [0, clustering.DENSE])
def test_clusters_are_the_contexts_where_these_differ(monkeypatch, dense):
    """By a dense matrix and by its products with vectors."""
    monkeypatch.setattr(clustering, "DENSE", dense)
    for seed in range(5):
        data, context = mixed(0.8, [0.79, 0.21], 300, 12, seed, rows=4)
        found = fit_mixture(data, 2, seed, starts=1)
        assert agreement(found.membership.argmax(axis=1), context) > 0.97
        rng = np.random.default_rng(seed)
        half = data.counts.copy()
        half.data = rng.binomial(half.data.astype(int), 0.5).astype(float)
        label = clustering.clustered((half, csr_array(data.counts - half)), data.group, 2, rng)
        assert agreement(label, context) > 0.9


@pytest.mark.parametrize("size", [2, 300])
def test_episodes_that_show_nothing_can_be_clustered(size):
    nothing = csr_array(np.zeros((5, size)))
    label = clustering.clustered(
        (nothing, nothing), np.zeros(size, dtype=int), 2, np.random.default_rng(0)
    )
    assert label.shape == (5,)


def test_memberships_of_the_same_episodes_are_those_of_the_fit():
    data, _ = mixed(0.5, [0.6, 0.4], 100, 10, 0)
    found = fit_mixture(data, 2, starts=2, prior=0.1, tolerance=1e-14)
    assert memberships(data, found) == pytest.approx(found.membership, abs=1e-3)


def test_kinds_that_differ_are_shown_and_stable():
    for seed in range(5):
        found = verdict_of(mixed(0.8, [0.79, 0.21], 200, 12, seed)[0], seed=seed)
        assert found.shown
        assert found.stable
        assert str(found).startswith("These data show 2 kinds of episodes:")


def test_one_kind_is_seldom_taken_for_two():
    """The interval of a gain that is 0 or less lies above 0 in at most 2.5%: 3 of 30 with 4%."""
    shown = sum(verdict_of(mixed(0.0, [0.6, 0.4], 100, 12, s)[0], seed=s).shown for s in range(30))
    assert shown <= 2


def test_three_are_not_shown_where_there_are_two():
    found = verdict_of(mixed(0.8, [0.6, 0.4], 300, 12, 0)[0], k=3)
    assert found.gain_lower > 0.0
    assert found.step_lower < 0.0
    assert not found.shown
    assert "do not show 3 kinds of episodes" in str(found)
    assert "over 2;" in str(found)


def test_guesses_worse_than_all_the_same_come_with_a_no():
    """A rare context that differs in many rows seldom visited: EM groups by chance."""
    rng = np.random.default_rng(0)
    rows, episodes = 400, 400
    chance = rng.random((2, rows)) * 0.4 + 0.3
    context = rng.choice(2, episodes, p=[0.79, 0.21])
    seen = rng.integers(0, rows, (episodes, 6))
    outcome = rng.random((episodes, 6)) < chance[context[:, None], seen]
    columns = (2 * seen + outcome).reshape(-1)
    counts = csr_array((np.ones(len(columns)), (np.repeat(np.arange(episodes), 6), columns)),
                       shape=(episodes, 2 * rows))  # fmt: skip
    data = EpisodeCounts(counts, np.repeat(np.arange(rows), 2))
    found = fit_mixture(data, 2, starts=4, prior=0.1)
    assert agreement(found.membership.argmax(axis=1), context) < 0.75  # of 0.79 for all the same
    assert not mixture_verdict(data, found).shown


def test_a_verdict_needs_two_contexts_and_some_episodes():
    data, _ = mixed(0.5, [0.6, 0.4], 30, 5, 0)
    assert mixture_verdict(data, fit_mixture(data, 1)) is None
    few = data._replace(counts=data.counts[:6])
    assert mixture_verdict(few, fit_mixture(few, 2)) is None
    labels = np.zeros(30, dtype=int)
    assert mixture_verdict(data, fit_mixture(data, 2, labels=labels), labels=labels) is None


@pytest.fixture(scope="module")
def coin_log():
    """Episodes of one kind: coins."""
    rng = np.random.default_rng(1)
    states = rng.integers(0, 2, (60, 7))
    rows = [(e, int(x[t]), 0, 0.1 * int(x[t + 1]), int(x[t + 1]))
            for e, x in enumerate(states) for t in range(6)]  # fmt: skip
    return pd.DataFrame(rows, columns=["episode", "state", "action", "reward", "next_state"])


def test_the_no_stands_in_the_first_lines_everywhere(coin_log, tmp_path, capsys):
    no = "These data do not show 2 kinds of episodes"
    with pytest.warns(MixtureWarning, match=no):
        found = lm.fit(coin_log, context=None, contexts=2)
    assert no in repr(found)
    assert str(found.summary()).splitlines()[1].startswith(no)
    coin_log.to_csv(tmp_path / "log.csv", index=False)
    page = tmp_path / "page.html"
    words = ["fit", str(tmp_path / "log.csv"), "--contexts", "2", "--time-limit", "2"]
    assert run([*words, "--report", str(page)]) == 0
    first = capsys.readouterr().out.splitlines()[:4]  # with what to do, and a warning
    assert sum(line.startswith(no) for line in first) == 1
    text = page.read_text(encoding="utf-8")
    assert no in text[: text.index('class="cards"')]
    assert run([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["summary"]["verdict"].startswith(no)
