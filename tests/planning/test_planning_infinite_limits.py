"""Time limits without a last step: what the end of a plan needs is kept back, bounds hold."""

import math

import numpy as np
import pytest
from stationary_brute import endless

import latentmdp as lm
from latentmdp.planning.history.observations import observation_model
from latentmdp.planning.infinite import belief_grid as stationary_grid
from latentmdp.planning.infinite import ending, small_controller
from latentmdp.planning.infinite import planner as stationary
from latentmdp.planning.infinite.ending import Ending
from latentmdp.planning.infinite.planner import plan_stationary

LIMIT = 1.0


class Ticking(stationary.Budget):
    """A clock on which every look takes a hundredth of a second."""

    looks = 0

    def __init__(self, *limits):
        super().__init__(*limits)
        Ticking.made = self

    @property
    def seconds(self):
        self.looks += 1
        return 0.01 * self.looks


@pytest.fixture
def ticking(monkeypatch):
    monkeypatch.setattr(stationary, "Budget", Ticking)
    return Ticking


def bandit():
    model = lm.make("bandit:arms=4,contexts=4")
    return model.replace(discount=0.99, horizon=math.inf, max_return=None)


def check(model, found, most):
    assert most >= found.policy.N
    assert lm.evaluate(model, found.policy).value == pytest.approx(found.lower, rel=1e-12)
    assert found.lower <= found.upper
    assert found.unrestricted >= found.lower


@pytest.mark.parametrize("gap", [None, 0.01])
def test_cutting_keeps_the_time_limit(ticking, gap):
    """It once took up to a second more, here a hundred looks at the clock."""
    model = bandit()
    found = plan_stationary(model, gap=gap, time_limit=LIMIT, max_nodes=25)
    assert ticking.made.looks <= 100 * LIMIT + 25
    check(model, found, 25)


def test_without_time_for_visits_a_table_is_handed_out(monkeypatch, ticking):
    monkeypatch.setattr(stationary, "VISITS", 1e9)
    model = bandit()
    found = plan_stationary(model, gap=None, time_limit=LIMIT, max_nodes=25)
    check(model, found, 25)
    assert found.policy.N <= model.S


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 10, 30, 100])
def test_cutting_can_be_stopped_anywhere(steps):
    model, asked = bandit(), []
    large = plan_stationary(model, gap=0.01)
    assert large.policy.N > 100

    def in_time(seconds):
        asked.append(seconds)
        return len(asked) <= steps

    small = small_controller.small_controller(model, large.policy, 25, in_time)
    assert small.N <= 25
    assert lm.evaluate(model, small).value <= large.upper + 1e-9
    assert len(asked) <= steps + 10  # nothing is begun afterwards


@pytest.mark.parametrize("stop_at", [1, 2, 3, 5, 8, 13, 1000])
def test_bounds_hold_where_solving_single_contexts_is_stopped(stop_at):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        model = endless(rng, M=4, S=3, A=3, discounts=(0.9,), observe=True)
        optimum, looks = plan_stationary(model, gap=None), []

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
            best = plan_stationary(own, gap=None).lower
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
    monkeypatch.setattr(ending, "MEASURING_SHARE", math.inf)
    monkeypatch.setattr(ending, "GROWTH", 1.01)
    model, statuses, run = bandit(), [], stationary._run

    def watched(*arguments):
        statuses.append(run(*arguments))
        return statuses[-1]

    monkeypatch.setattr(stationary, "_run", watched)
    limits = {"gap": None, "work_limit": 100_000}
    a, b = (plan_stationary(model, time_limit=seconds, **limits) for seconds in (None, 1e6))
    assert statuses.count("measured") > 1
    assert (a.lower, a.upper, a.work, a.status) == (b.lower, b.upper, b.work, b.status)
    assert a.policy == b.policy


def test_the_end_is_measured_early_and_again():
    budget = Ticking(10.0, None)
    end = Ending(2, budget, cuts=False)
    assert not end.is_due(10_000)  # 0.08 s, as expected at first, is too much now
    budget.looks = 200
    assert end.is_due(10_000)
    end.measure(0.01, 5_000, 10_000)
    assert end.seconds(10_000) == pytest.approx(ending.TIDYING * 0.01)
    assert end.seconds(100_000) == pytest.approx(1.5 * 0.1)  # too large to be tidied
    assert not end.is_due(20_000)
    assert end.is_due(40_000)
    assert Ending(2, budget, cuts=True).seconds(1) > ending.CUTTING_SECONDS
