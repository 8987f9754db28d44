"""Comparisons of learners: paired, corrected, right by hand, and honest where there is nothing."""

import itertools

import numpy as np
import pandas as pd
import pytest

from latentmdp.errors import ModelError
from latentmdp.experiments.compare import (
    compare,
    compare_all,
    holm,
    performance_profile,
    with_learners,
)


def table(seeds=20, shift=1.0, models=("maze", "garnet"), names=("mvp", "bernstein"), noise=0.3):
    rng = np.random.default_rng(0)
    rows = []
    for model, seed in itertools.product(models, range(seeds)):
        base = rng.normal(10.0)
        rows += [
            {"model": model, "policy_class": "markov", "algorithm": name, "seed": seed,
             "regret": base + i * shift + rng.normal(0.0, noise)}
            for i, name in enumerate(names)
        ]  # fmt: skip
    return pd.DataFrame(rows)


def test_pairing_finds_what_the_spread_over_seeds_hides():
    found = compare(table(), "mvp", "bernstein").table
    assert list(found.model) == ["maze", "garnet"]
    assert (found.difference < 0).all()
    assert (found.upper < 0).all()
    assert (found.wins >= 19).all()
    assert (found.p_corrected < 0.01).all()
    assert found.improvement.between(0.5, 1.0).all()


def test_by_hand():
    rows = [("a", 0, 1.0), ("a", 1, 2.0), ("b", 0, 2.0), ("b", 1, 2.0), ("b", 2, 0.0)]
    data = pd.DataFrame(rows, columns=["algorithm", "seed", "regret"]).assign(model="m")
    row = compare(data, "a", "b").table.iloc[0]
    assert (row.seeds, row.wins, row.ties) == (2, 1, 1)
    assert row.difference == pytest.approx(-0.5)
    assert row.improvement == pytest.approx((1 + 1 + 0.5 + 0.5) / 4)


def test_the_sentences_say_who_beats_whom():
    text = str(compare(table(), "mvp", "bernstein"))
    assert "mvp beats bernstein on" in text
    assert "of 20 seeds" in text
    assert "a clear difference" in text
    same = table(shift=0.0)
    assert "no clear difference" in str(compare(same, "mvp", "bernstein"))


def test_equal_runs_have_no_difference():
    data = table(shift=0.0, noise=0.0)
    row = compare(data, "mvp", "bernstein").table.iloc[0]
    assert (row.lower, row.upper, row.p, row.wins) == (0.0, 0.0, 1.0, 0)


def test_holm_by_hand_and_against_its_definition():
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03])), [0.03, 0.06, 0.06])
    np.testing.assert_allclose(holm(np.array([0.01]), comparisons=6), [0.06])


@pytest.mark.slow
def test_false_claims_stay_rare_over_many_pairs():
    """No learner differs; at level 0.95 at most 5% of studies may claim anything.

    200 studies of 6 pairs: more than 20 with a claim has a probability below 0.2%.
    """
    rng = np.random.default_rng(1)
    claims = 0
    for _ in range(200):
        data = pd.DataFrame(
            {"model": "m", "algorithm": list("abcd") * 12, "seed": np.repeat(np.arange(12), 4),
             "regret": rng.normal(size=48)}
        )  # fmt: skip
        found = compare_all(data)
        assert len(found) == 6
        claims += any((c.table.p_corrected <= 0.05).any() for c in found)
    assert claims <= 20


def test_profiles_by_hand():
    rows = [("a", "x", 0, 1.0), ("b", "x", 0, 2.0), ("a", "y", 0, 4.0), ("b", "y", 0, 1.0)]
    data = pd.DataFrame(rows, columns=["algorithm", "model", "seed", "regret"])
    found = performance_profile(data, points=3)  # factors 1, 2, 4
    a, b = (found[found.learner == name].share.tolist() for name in "ab")
    assert a == [0.5, 0.5, 1.0]
    assert b == [0.5, 1.0, 1.0]


def test_profiles_count_missing_runs_as_lost_and_zero_as_best():
    rows = [("a", "x", 0, 0.0), ("b", "x", 0, 1.0), ("a", "y", 0, 1.0)]
    data = pd.DataFrame(rows, columns=["algorithm", "model", "seed", "regret"])
    found = performance_profile(data)
    assert found[found.learner == "a"].share.min() == 1.0
    assert found[found.learner == "b"].share.max() == 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: compare(table(), "mvp", "nobody"), "'nobody' must be a value of learner"),
        (lambda: compare(table(), "mvp", "bernstein", metric="x"), "must have the column 'x'"),
        (lambda: compare(table(), "mvp", "bernstein", level=1.0), "level must lie"),
        (lambda: compare(pd.concat([table()] * 2), "mvp", "bernstein"), "one run per seed"),
        (lambda: performance_profile(table().assign(regret=-1.0)), "at least 0 for a profile"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, words):
    with pytest.raises(ModelError, match=words):
        call()


def test_no_common_seed_is_refused():
    data = table(seeds=2)
    data = data[(data.algorithm == "mvp") ^ (data.seed == 1)]
    with pytest.raises(ModelError, match="the same seeds"):
        compare(data, "mvp", "bernstein")


def test_variants_of_an_algorithm_are_learners_of_their_own():
    one, two = table(seeds=5).assign(bonus_scale=1.0), table(seeds=5).assign(bonus_scale=0.01)
    two = two[two.algorithm == "mvp"]
    named = with_learners(pd.concat([one, two]))
    assert set(named.learner) == {"mvp bonus_scale=1", "mvp bonus_scale=0.01", "bernstein"}
    row = compare(named, "mvp bonus_scale=1", "mvp bonus_scale=0.01").table.iloc[0]
    assert (row.difference, row.ties) == (0.0, 5)


def test_swept_keys_make_groups():
    short, long = (table(seeds=3, models=("maze",)) for _ in range(2))
    both = pd.concat([short.assign(H=4), long.assign(H=8)])
    both = both[["model", "H", "algorithm", "policy_class", "seed", "regret"]]
    found = compare(both, "mvp", "bernstein")
    assert found.table.H.tolist() == [4, 8]
    assert "maze, H 8, markov:" in str(found)
