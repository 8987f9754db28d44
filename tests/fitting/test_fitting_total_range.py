"""The range of an episode's total reward: given, or found where only ends pay."""

import numpy as np
import pandas as pd
import pytest
from clinic import clinic
from logs import roll

import latentmdp as lm


@pytest.fixture(scope="module")
def small():
    return clinic(signs=2, treatments=1, horizon=6)


def fitted(place, patients=60, **options):
    return lm.fit(place.log(patients, 0), horizon=place.model.H, known=place.known(), **options)


def test_an_end_pays_once_is_found_and_said(small):
    fit = fitted(small)
    assert fit.assumed.total_range[:3] == (-1.0, 1.0, True)
    assert any("only steps into an end were paid" in line for line in fit.said)
    assert "only steps into an end were paid" in str(fit.summary())


@pytest.mark.parametrize("unseen", ["self", "uniform"])
def test_no_value_and_no_interval_leaves_the_range(small, unseen):
    """Rows never seen used to pay the least reward at every step: totals down to -H."""
    fit = fitted(small, 12, unseen=unseen)
    assert len(fit.estimate.unseen)
    rng = np.random.default_rng(0)
    for _ in range(10):
        worth = fit.evaluate(rng.integers(0, 2, (6, fit.model.S)), draws=40)
        for x in (worth.value, worth.lower, worth.upper, worth.worst, worth.best,
                  worth.contexts, worth.context_lower, worth.context_upper):  # fmt: skip
            assert (np.asarray(x) >= -1.0).all()
            assert (np.asarray(x) <= 1.0).all()
    assert fit.model.min_return >= -1.0
    assert fit.model.max_return <= 1.0


def test_a_row_never_seen_pays_at_most_one_end():
    """From a known start to a row never seen, after which an end pays -1 or 1 and no more."""
    rows = [(e, 0, "m", "a", "go", 0.0, "b", False) for e in range(4)]
    rows += [(e, 1, "m", "b", "go", [1.0, -1.0][e % 2], ["well", "dead"][e % 2], True)
             for e in range(4)]  # fmt: skip
    names = ["episode", "step", "context", "state", "action", "reward", "next_state", "terminated"]
    log = pd.DataFrame(rows, columns=names)
    fit = lm.fit(log, horizon=5, known={"actions": ["go", "try"]})
    worth = fit.evaluate(np.ones((5, fit.model.S), dtype=int), draws=20)  # never seen anywhere
    assert (worth.lower, worth.upper) == (-1.0, 1.0)


def test_rewards_on_the_way_give_no_range(small):
    log = small.log(60, 0)
    assert lm.fit(log.assign(reward=log["reward"] - 0.01)).assumed.total_range is None
    cut = log[log["next_state"] < small.model.S - 2]  # nobody was seen to end
    assert lm.fit(cut).assumed.total_range is None


def test_a_range_that_is_given_clips_and_must_hold_the_log():
    model = lm.make("garnet:states=4,actions=2,contexts=2,horizon=4,seed=0")
    log = roll(model, 40, np.random.default_rng(0))
    totals = log.groupby("episode")["reward"].sum()
    fit = lm.fit(log, total_range=(totals.min(), totals.max()))
    worth = fit.plan("mean", "markov", time_limit=5, draws=50).worth
    assert worth.upper <= totals.max()
    assert worth.lower >= totals.min()
    for bad in ((totals.min() + 0.01, 9.0), (-9.0, totals.max() - 0.01)):
        with pytest.raises(lm.ModelError, match="total_range must hold the total reward of every"):
            lm.fit(log, total_range=bad)
    for bad in ((2.0, 1.0), (1.0,), "x", (0.0, np.nan)):
        with pytest.raises(lm.ModelError, match="total_range"):
            lm.fit(log, total_range=bad)


def test_halves_have_the_range_of_the_whole_log(small):
    fit = fitted(small, 40, holdout=0.5)
    assert fit.assumed.total_range == fit.held_out.assumed.total_range
