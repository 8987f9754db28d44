"""Certified values in worlds with something rare: they hold as often as they promise."""

import numpy as np
import pytest
from rare_worlds import WORLDS, World, hole, lottery, mortal, rare_contexts, rare_start
from scipy.stats import binom

import latentmdp as lm
from latentmdp.optimism.search import MarkovSearch

ALARM = 1e-4  # a test fails with at most this chance if the promise is kept


def most_above(logs, delta):
    """More bounds above the truth than this would have a chance of less than `ALARM`."""
    return int(binom.isf(ALARM, logs, delta))


def above(world, logs, delta):
    rng = np.random.default_rng(0)
    found = np.array([world.certified(rng, delta) for _ in range(logs)])
    return int((found[:, 0] > found[:, 1] + 1e-9).sum())


LIKELY_UNSEEN = (  # in each of them most logs show nothing of what is rare
    World("hole", hole(0.002), 50),
    World("hole, next state not logged", hole(0.004), 60, next_state=False),
    World("context", rare_contexts([0.003]), 150),
    World("first state", rare_start(0.004), 100),
    World("reward", lottery(0.003), 40, coins=True),
    World("hidden reward", lottery(0.003), 40, coins=True, fit={"observe_rewards": False}),
    World("reward, with memory", lottery(0.003, 2), 40, coins=True,
          plan={"policy_class": "history"}),
    World("end", mortal(0.002), 60, next_state=False, cut=0.05, ends=1),
)  # fmt: skip


@pytest.mark.parametrize("world", LIKELY_UNSEEN, ids=lambda world: world.name)
def test_bounds_count_with_what_no_log_has_shown(world):
    """At delta 0.1; where nothing else was thought of, more than half of 40 would be too high."""
    assert above(world, 40, 0.1) <= most_above(40, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.1, 0.3])
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_bounds_hold_in_500_logs(world, delta):
    assert above(world, 500, delta) <= most_above(500, delta)


def test_what_is_certified_grows_with_the_log():
    """The bound is of use: a tenth below the truth after 10,000 episodes without a hole."""
    world = World("no hole", hole(0.0), 10_000)
    bound, truth = world.certified(np.random.default_rng(0))
    assert 0.98 * truth < bound < truth
    few = World("no hole", hole(0.0), 100).certified(np.random.default_rng(0))[0]
    assert few < bound


def test_nothing_is_certified_where_nobody_said_what_can_be_paid():
    """Without `reward_range` the bound is computed, and called what it is, everywhere."""
    fit = lm.fit(World("hole", hole(0.05), 30).log(np.random.default_rng(0)))
    plan = fit.plan("pessimistic", "markov", draws=2)
    assert plan.status == "not certified"
    sentence = "Not certified: rewards were taken to lie between 0 and 1, as in the log"
    assert plan.doubt.startswith(sentence)
    assert sentence in str(plan)
    said = fit.plan("pessimistic", "markov", draws=2, reward_range=(0, 1))
    assert (said.status, said.doubt) == ("certified", "")
    assert "certified" not in str(said)
    assert said.score == plan.score
    lower = fit.plan("pessimistic", "markov", draws=2, reward_range=(-1, 1))
    assert lower.score < said.score


def test_fixed_rewards_are_a_promise_that_is_checked():
    log = World("reward", lottery(0.3), 20, coins=True).log(np.random.default_rng(0))
    with pytest.raises(lm.ModelError, match="with rewards='fixed' one"):
        lm.fit(log, rewards="fixed")
    with pytest.raises(lm.ModelError, match="rewards must be noisy or fixed; it is 'sure'"):
        lm.fit(log, rewards="sure")
    steady = log.assign(reward=1.0)
    plans = [lm.fit(steady, rewards=r).plan("pessimistic", "markov", draws=2, reward_range=(0, 1))
             for r in ("noisy", "fixed")]  # fmt: skip
    assert plans[0].score < plans[1].score
    models = [lm.fit(steady, rewards=r).model for r in ("noisy", "fixed")]
    assert np.array_equal(models[0].R, models[1].R)  # only certificates rest on it
    assert models[0].observe_rewards
    assert models[1].observe_rewards


@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_the_time_limit_ends_the_search(policy_class, monkeypatch):
    """After the limit a policy is polished once for each class, and nothing else is tried.

    Counted are the improvements that are tried, not seconds. The bound is a bound all the same.
    """
    world = World("garnet", lm.make("garnet:states=4,actions=3,contexts=3,horizon=4,seed=1"), 5000)
    fit = lm.fit(world.log(np.random.default_rng(0)))
    tried, improved = [0], MarkovSearch._improved

    def counting(self, *args):
        tried[0] += 1
        return improved(self, *args)

    monkeypatch.setattr(MarkovSearch, "_improved", counting)
    numbers, plans = [], []
    for limit in (1e-9, 60.0):
        tried[0] = 0
        plans.append(fit.plan("pessimistic", policy_class, time_limit=limit, draws=2,
                              reward_range=(0, 1)))  # fmt: skip
        numbers.append(tried[0])
    assert numbers[0] <= 2
    assert numbers[1] > 20
    assert plans[0].score <= plans[1].score
    assert plans[0].status == "certified"
    assert plans[0].score <= lm.evaluate(fit.model, plans[0].policy).value
