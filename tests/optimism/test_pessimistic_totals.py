"""Certified values where the total reward of an episode is known to lie in a range."""

import numpy as np
import pytest
from rare_worlds import World, chain, mortal

import latentmdp as lm

pytest.importorskip("latentmdp.fitting.deciding.total_range")


def dying(chance, H=12):
    """Each step may end: mostly well (pays 1), or badly (pays -1); nothing else is paid."""
    stay = 1 - 0.3
    P = np.zeros((1, 3, 1, 3))
    P[0, 0, 0] = [stay, 0.3 * (1 - chance), 0.3 * chance]
    P[0, 1, 0, 1] = P[0, 2, 0, 2] = 1.0
    R = np.zeros((1, 3, 1, 3))
    R[0, 0, 0] = [0.0, 1.0, -1.0]
    return chain(P, R, H=H)


def ended(world, seed):
    """A log in which episodes end in either of two states."""
    log = world.log(np.random.default_rng(seed))
    log["terminated"] = log["next_state"].isin(["s1", "s2"])
    over = log.groupby("episode")["terminated"].cumsum() - log["terminated"] > 0
    return log[~over]


def test_no_certificate_lies_below_what_a_total_can_be():
    """Also where steps may pay -1 each: 12 of them are not possible."""
    world = World("ends", dying(0.2), 30)
    log = ended(world, 0)
    scores = []
    for totals in (None, (-1.0, 1.0)):
        fit = lm.fit(log, horizon=12, total_range=totals)
        plan = fit.plan("pessimistic", "markov", draws=2, reward_range=(-1, 1))
        assert plan.status == "certified"
        scores.append(plan.score)
    assert scores[0] < -1.0 <= scores[1]


def test_a_range_of_totals_alone_is_enough_for_a_certificate():
    fit = lm.fit(ended(World("ends", dying(0.1), 3000), 0), horizon=12, total_range=(-1, 1))
    plan = fit.plan("pessimistic", "markov", draws=2)
    truth = lm.evaluate(dying(0.1), np.zeros((12, 3), dtype=int)).value
    assert (plan.status, plan.doubt) == ("certified", "")
    assert truth - 0.3 < plan.score < truth
    inferred = lm.fit(ended(World("ends", dying(0.1), 3000), 0), horizon=12)
    assert inferred.assumed.total_range is not None  # by the log, which proves nothing
    plan = inferred.plan("pessimistic", "markov", draws=2)
    assert plan.status == "not certified"
    low, high, _, _ = inferred.assumed.total_range
    assert f"only ends pay, total_range=({low:g}, {high:g}) (--total-range)" in plan.doubt


@pytest.mark.parametrize("given", [{}, {"reward_range": (-1, 1)}])
@pytest.mark.parametrize(("chance", "episodes"), [(0.02, 40), (0.2, 200)])
def test_bounds_hold_where_bad_ends_are_rare(chance, episodes, given):
    """At delta 0.1, 40 logs: more than 13 above would have a chance of 1e-4."""
    world = World("ends", dying(chance), episodes)
    truth = lm.evaluate(world.model, np.zeros((12, 3), dtype=int)).value
    above = 0
    for seed in range(40):
        fit = lm.fit(ended(world, seed), horizon=12, total_range=(-1, 1))
        above += fit.plan("pessimistic", "markov", draws=2, **given).score > truth + 1e-9
    assert above <= 13


def test_what_was_collected_before_counts_against_what_is_still_to_come():
    """Steps that pay: after much was collected a total of at least 0 says nothing.

    One of at least 4.5, where 5 can be collected, says much at the beginning and little later.
    """
    log = World("end", mortal(0.0), 50, ends=1).log(np.random.default_rng(0))
    scores = [lm.fit(log, total_range=totals).plan("pessimistic", "markov", draws=2,
                                                   reward_range=(0, 1)).score
              for totals in (None, (0.0, 5.0), (4.5, 5.0))]  # fmt: skip
    assert scores[0] == pytest.approx(scores[1], abs=1e-9)
    assert scores[0] < 4.5 <= scores[2] < 5.0
