"""Time limits without a last step: what the end of a plan needs is kept back, bounds hold."""

import math
from dataclasses import replace

import numpy as np
import pytest
from clocks import Ticking, TickingLimits
from stationary_brute import endless

import latentmdp as lm
from latentmdp.planning.driver import Driver, TimeReserve, Written
from latentmdp.planning.history.observations import observation_model
from latentmdp.planning.infinite import belief_grid as stationary_grid
from latentmdp.planning.infinite.planner import plan_infinite
from latentmdp.planning.infinite.small_controller import small_controller
from latentmdp.planning.limits import Limits
from latentmdp.planning.settings import SETTINGS

LIMIT = 1.0


def bandit():
    model = lm.make("bandit:arms=4,contexts=4")
    return model.replace(discount=0.99, horizon=math.inf, max_return=None)


def check(model, found, most):
    assert most >= found.policy.N
    assert lm.evaluate(model, found.policy).value == pytest.approx(found.lower, rel=1e-12)
    assert found.lower <= found.upper
    assert found.unrestricted >= found.lower


@pytest.mark.parametrize("gap", [None, 0.01])
def test_cutting_keeps_the_time_limit(gap):
    """It once took up to a second more, here a hundred looks at the clock."""
    model = bandit()
    limits = TickingLimits(gap, time=LIMIT)
    found = plan_infinite(model, limits, max_nodes=25)
    assert limits.made[-1].looks <= 100 * LIMIT + 25
    check(model, found, 25)


def test_without_time_for_visits_a_table_is_handed_out():
    settings = replace(SETTINGS, visits=1e9)
    model = bandit()
    found = plan_infinite(model, TickingLimits(time=LIMIT), settings, max_nodes=5)
    check(model, found, 5)
    assert found.policy.N <= model.S


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 10, 30, 100])
def test_cutting_can_be_stopped_anywhere(steps):
    model, asked = bandit(), []
    large = plan_infinite(model, Limits(0.01))
    assert large.policy.N > 100

    def in_time(seconds):
        asked.append(seconds)
        return len(asked) <= steps

    small = small_controller(model, large.policy, 25, in_time)
    assert small.N <= 25
    assert lm.evaluate(model, small).value <= large.upper + 1e-9
    assert len(asked) <= steps + 10  # nothing is begun afterwards


@pytest.mark.parametrize("stop_at", [1, 2, 3, 5, 8, 13, 1000])
def test_bounds_hold_where_solving_single_contexts_is_stopped(stop_at):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        model = endless(rng, M=4, S=3, A=3, discounts=(0.9,), observe=True)
        optimum, looks = plan_infinite(model, Limits(None)), []

        def stop(looks=looks):
            looks.append(1)
            return len(looks) >= stop_at

        solved = stationary_grid.known_contexts(model, stop)
        corners, store = stationary_grid.corner_grid(model, observation_model(model), solved, stop)
        start = model.w[:, None] * model.nu
        known = corners.grid.upper[0][:, corners.grid.belief.argmax(axis=0)].T
        assert float((start * known).sum()) >= optimum.lower - 1e-12
        for m in range(model.M):  # each context's own bound
            own = model.replace(w=np.eye(model.M)[m])
            best = plan_infinite(own, Limits(None)).lower
            assert float(model.nu[m] @ known[m]) >= best - 1e-12
        for m in range(model.M):  # what is stored are values of the policies stored with them
            table = store.action[m * model.S : (m + 1) * model.S]
            ev = lm.evaluate(model, lm.PolicyGraph.from_table(table, stationary=True))
            np.testing.assert_allclose(store.alpha[m * model.S : (m + 1) * model.S], ev.alpha)


def test_told_to_stop_policies_are_not_evaluated_in_all_contexts(monkeypatch):
    """In Mastermind with many codes that took many times the limit."""
    model = endless(np.random.default_rng(0), M=6, S=3, A=3, discounts=(0.9,), observe=True)
    calls, values = [], stationary_grid.discounted_values

    def noted(*arguments, **options):
        calls.append(arguments)
        return values(*arguments, **options)

    monkeypatch.setattr(stationary_grid, "discounted_values", noted)
    solved = stationary_grid.known_contexts(model, lambda: True)
    stationary_grid.corner_grid(model, observation_model(model), solved, lambda: True)
    assert len(calls) == 1


def test_measuring_changes_no_plan(monkeypatch):
    settings = replace(SETTINGS, first_measured=0.0, measuring_share=math.inf, measured_growth=1.01)
    writes, write = [], Driver._write
    monkeypatch.setattr(Driver, "_write", lambda driver: writes.append(1) or write(driver))
    model = bandit()
    a, b = (
        plan_infinite(model, Limits(time=seconds, work=100_000), settings)
        for seconds in (None, 1e6)
    )
    assert len(writes) > 3
    assert (a.lower, a.upper, a.work, a.status) == (b.lower, b.upper, b.work, b.status)
    assert a.policy == b.policy


def test_the_end_is_measured_early_and_again():
    budget, nodes = Ticking(10.0, None), [10_000]
    tidy = 8.0  # times writing and evaluating
    reserve = TimeReserve(
        budget, SETTINGS, lambda: nodes[0], 8e-6, share=1.0, after=lambda once, size: tidy * once
    )
    assert not reserve.is_due()  # 0.08 s, as expected at first, is too much now
    budget.looks = 200
    assert reserve.is_due()
    reserve.measure(0.01, Written(None, 5_000))
    assert reserve.needed() == pytest.approx((SETTINGS.reserve_factor + tidy) * 0.01)
    nodes[0] = 100_000
    assert reserve.needed() == pytest.approx((SETTINGS.reserve_factor + tidy) * 0.1)
    assert not reserve.is_due()  # 0.04 s have passed since
    budget.looks += 10
    budget.work = 100
    assert reserve.is_due()
    reserve.measure(0.01, Written(None, 50_000))
    budget.looks += 10
    budget.work = 199
    assert not reserve.is_due()
    budget.work = 200
    assert reserve.is_due()
    reserve.longest_round, reserve.for_baselines = 0.5, 0.25
    assert reserve.needed() > 0.75
    assert reserve.reason() == ""
    budget.looks = 920  # 9.2 s of 10 s
    assert reserve.reason() == "time"
    assert not reserve.has_more()
