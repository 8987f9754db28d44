"""Planning without a last step: bounds, controllers, small controllers, Markov policies, limits."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from clocks import TickingLimits
from stationary_brute import best_small_controller, bounds_by_steps, endless

import latentmdp as lm
from latentmdp.planning.infinite.markov import plan_infinite_markov
from latentmdp.planning.infinite.planner import plan_infinite
from latentmdp.planning.infinite.small_controller import small_controller
from latentmdp.planning.limits import Limits
from latentmdp.planning.plan import plan_within
from latentmdp.planning.settings import SETTINGS
from latentmdp.policy.graph import PolicyGraph

GARNET = "garnet:contexts=3,states=4,actions=2,branching=2,shared_support=1,seed={}"


def garnet(seed, discount=0.9):
    """Evidence comes gradually here."""
    model = lm.make(GARNET.format(seed), observe_rewards=False)
    return model.replace(discount=discount, horizon=math.inf, max_return=None)


def scale_of(model):
    return max(abs(model.min_return), abs(model.max_return), 1e-300)


def check(model, plan):
    """The policy's own value is `lower`, and bounds are in order."""
    rounding = 1e-11 * scale_of(model)
    assert plan.policy.stationary
    assert lm.evaluate(model, plan.policy).value == pytest.approx(plan.lower, abs=rounding)
    assert plan.lower <= plan.upper + rounding


def test_bounds_agree_with_those_of_some_steps_and_their_tail():
    rng = np.random.default_rng(0)
    for i in range(60):
        model = endless(rng, M=3, S=2, A=2, discounts=(0.2, 0.4))
        low, high = bounds_by_steps(model, 4)
        plan = lm.plan(model, gap=1e-6, time_limit=None, work_limit=20_000)
        check(model, plan)
        rounding = 1e-11 * scale_of(model)
        assert plan.lower <= high + rounding, i
        assert plan.upper >= low - rounding, i
        if plan.status in ("optimal", "gap"):
            assert plan.upper >= low - rounding
            assert plan.lower >= low - 1e-6 * abs(plan.upper) - rounding


def test_bounds_agree_with_those_of_a_long_horizon():
    for seed in range(4):
        model = garnet(seed)
        plan = lm.plan(model, gap=1e-3)
        check(model, plan)
        long = lm.plan(model, horizon=120, gap=1e-3)
        tail = 0.9**120 * model.max_return
        assert plan.status in ("gap", "optimal")
        assert plan.lower <= long.upper + tail
        assert long.lower <= plan.upper


def test_upper_holds_for_all_small_controllers():
    """Brute force: no controller with two nodes per state is better than the upper bound."""
    rng = np.random.default_rng(1)
    found = 0
    while found < 12:
        model = endless(rng, M=2, S=1, A=2, observe=True, on_transitions=False)
        if model.M < 2 or model.A < 2:
            continue
        found += 1
        best = best_small_controller(model, 2)
        plan = lm.plan(model, gap=None, time_limit=None, work_limit=50_000)
        rounding = 1e-10 * scale_of(model)
        assert plan.upper >= best - rounding
        assert plan.lower >= best - 1e-6 * scale_of(model)


def test_small_controllers_are_among_the_best():
    """Cutting down is a heuristic: here it finds what brute force over all controllers finds."""
    model = garnet(0).replace(nu=np.tile([1.0, 0, 0, 0], (3, 1)))
    two = lm.make("garnet:contexts=2,states=2,actions=2,branching=2,shared_support=1,seed=3")
    two = two.replace(discount=0.9, horizon=math.inf, observe_rewards=False, max_return=None)
    best = best_small_controller(two, 2)
    plan = lm.plan(two, gap=1e-4, max_nodes=4)
    assert plan.policy.N <= 4
    assert plan.lower <= best + 1e-12
    assert plan.lower >= 0.995 * best
    whole = lm.plan(model, gap=1e-4)
    last = -math.inf
    for most in (4, 8, 30):
        plan = lm.plan(model, gap=1e-4, max_nodes=most)
        check(model, plan)
        assert most >= plan.policy.N
        assert plan.loss == pytest.approx(whole.lower - plan.lower, abs=1e-9)
        assert plan.lower >= last - 1e-9  # here; there is no promise
        last = plan.lower


def test_cutting_costs_nothing_where_it_finds_more_than_the_search_had():
    """A search that is stopped at once has a poor controller; the small one may be better."""
    better = 0
    for seed in range(30):
        plan = plan_infinite(garnet(seed), Limits(1e-6, work=1), max_nodes=8)
        assert plan.unrestricted >= plan.lower
        better += plan.unrestricted == plan.lower
        check(garnet(seed), plan)
    assert better  # else this would look at nothing


def test_small_controllers_are_at_least_as_good_as_markov_policies():
    """The latter have one node per state; cutting down alone ends below one here."""
    model = endless(np.random.default_rng(338), M=3, S=3, A=3, discounts=(0.8,), observe=True)
    markov = lm.plan(model, "markov", gap=None)
    cut = plan_infinite(model, Limits(1e-3), max_nodes=model.S)
    assert cut.lower < 1.02 * markov.lower  # costs; else this would look at nothing
    plan = lm.plan(model, gap=1e-3, max_nodes=model.S)
    check(model, plan)
    assert model.S >= plan.policy.N
    assert plan.lower == pytest.approx(markov.lower)
    assert plan.loss == pytest.approx(cut.unrestricted - plan.lower)


def test_a_warm_start_that_is_small_enough_is_not_fallen_behind():
    settings = replace(SETTINGS, small_table_work=1)
    model = endless(np.random.default_rng(338), M=3, S=3, A=3, discounts=(0.8,), observe=True)
    markov = lm.plan(model, "markov", gap=None)
    plan = plan_within(
        model, "history", Limits(1e-3), settings, warm=markov.policy, max_nodes=model.S
    )
    check(model, plan)
    assert plan.lower >= markov.lower
    large = lm.plan(model, gap=1e-3)
    assert large.policy.N > model.S
    again = lm.plan(model, gap=1e-3, max_nodes=model.S, warm=large)
    assert model.S >= again.policy.N


def test_controllers_too_large_to_be_improved_are_cut():
    model = garnet(0)
    policy = lm.plan(model, gap=1e-4).policy
    best = lm.evaluate(model, policy).value
    assert policy.N > 30
    values = []
    for most in (0, SETTINGS.small_most_solved):
        settings = replace(SETTINGS, small_most_solved=most)
        small = small_controller(model, policy, 30, lambda seconds: True, settings)
        assert small.N <= 30
        values.append(lm.evaluate(model, small).value)
        assert values[-1] <= best + 1e-12
    assert values[0] <= values[1] + 1e-12
    assert small_controller(model, policy, policy.N, lambda seconds: True) is policy


@pytest.mark.parametrize("work", [1, 300, 3_000, 30_000])
def test_bounds_hold_at_every_stop(work):
    rng = np.random.default_rng(2)
    for i in range(6):
        model = garnet(i) if i < 2 else endless(rng, M=3, S=3, A=2)
        best = lm.plan(model, gap=1e-5, time_limit=None, work_limit=300_000)
        plan = lm.plan(model, gap=None, time_limit=None, work_limit=work)
        check(model, plan)
        again = lm.plan(model, gap=None, time_limit=None, work_limit=work)
        assert again.policy == plan.policy
        assert (again.lower, again.upper, again.work) == (plan.lower, plan.upper, plan.work)
        rounding = 1e-10 * scale_of(model)
        assert plan.lower <= best.upper + rounding
        assert plan.upper >= best.lower - rounding
        for _, _, lower, upper in plan.history:
            assert lower <= best.upper + rounding
            assert upper >= best.lower - rounding


def test_invariances():
    """Contexts split in two, permuted states, shifted and scaled rewards."""
    rng = np.random.default_rng(3)
    for seed in range(2):
        model = garnet(seed)
        want = lm.plan(model, gap=1e-3)
        P, R = model.P, model.R
        order = rng.permutation(model.S)
        shuffled = lm.LatentMDP.from_arrays(
            P[:, order][..., order], R[:, order], model.w, model.nu[:, order], math.inf,
            discount=0.9, observe_rewards=False, max_return=None,
        )  # fmt: skip
        halves = lm.LatentMDP.from_arrays(
            np.concatenate([P, P[:1]]), np.concatenate([R, R[:1]]),
            [model.w[0] / 2, *model.w[1:], model.w[0] / 2],
            np.concatenate([model.nu, model.nu[:1]]), math.inf, discount=0.9,
            observe_rewards=False, max_return=None,
        )  # fmt: skip
        shifted = lm.LatentMDP.from_arrays(
            P, 3.0 * R - 1.0, model.w, model.nu, math.inf, discount=0.9, observe_rewards=False,
            max_return=None,
        )  # fmt: skip
        for other, back in (
            (shuffled, lambda x: x), (halves, lambda x: x), (shifted, lambda x: (x + 10.0) / 3.0),
        ):  # fmt: skip
            plan = lm.plan(other, gap=1e-3)
            assert back(plan.lower) <= want.upper + 1e-9
            assert back(plan.upper) >= want.lower - 1e-9


def test_one_context_is_an_mdp_and_equal_contexts_too():
    rng = np.random.default_rng(4)
    for _ in range(30):
        model = endless(rng, M=1, S=3, A=3)
        plan = lm.plan(model, gap=None)
        assert plan.status == "optimal"
        best = max(
            lm.evaluate(model, PolicyGraph.from_table(table, stationary=True)).value
            for table in itertools.product(range(model.A), repeat=model.S)
        )
        assert plan.lower == pytest.approx(best, abs=1e-10 * scale_of(model))


def test_stationary_markov_policies_against_all_tables():
    rng = np.random.default_rng(5)
    for i in range(20):
        model = endless(rng, M=3, S=4, A=3)
        best = max(
            lm.evaluate(model, PolicyGraph.from_table(table, stationary=True)).value
            for table in itertools.product(range(model.A), repeat=model.S)
        )
        rounding = 1e-10 * scale_of(model)
        for work in (1, 2_000):
            plan = lm.plan(model, "markov", gap=None, time_limit=None, work_limit=work)
            check(model, plan)
            assert plan.lower <= best + rounding
            assert plan.upper >= best - rounding
        plan = lm.plan(model, "markov", gap=None, time_limit=None, work_limit=3_000_000)
        assert plan.policy.is_markov
        assert plan.status == "optimal", i
        assert plan.lower == pytest.approx(best, abs=rounding)


def test_unavailable_actions_and_warm_starts():
    rng = np.random.default_rng(6)
    for seed in range(2):
        model = garnet(seed)
        allowed = np.ones((4, 2), dtype=bool)
        allowed[np.arange(4), rng.integers(0, 2, 4)] = rng.random(4) < 0.5
        masked = model.replace(allowed=allowed)
        for policy_class in ("history", "markov"):
            plan = lm.plan(masked, policy_class, gap=1e-3)
            assert allowed[plan.policy.state, plan.policy.action].all()
            check(masked, plan)
            free = lm.plan(model, policy_class, gap=1e-3)
            assert plan.lower <= free.upper + 1e-9
        markov = lm.plan(model, "markov", gap=1e-3)
        poor = lm.plan(model, gap=None, work_limit=1, warm=markov)
        assert poor.lower >= markov.lower - 1e-12
        table = lm.plan(model, "markov", work_limit=1, warm=markov.policy.table)
        assert table.lower >= markov.lower - 1e-12


def test_methods_and_limits_are_checked():
    model = garnet(0)
    with pytest.raises(lm.ModelError, match="method must be one of auto, grid"):
        lm.plan(model, method="layers")
    with pytest.raises(lm.ModelError, match="method must be one of auto, ascent"):
        lm.plan(model, "markov", method="wsu")
    with pytest.raises(lm.ModelError, match="at least 4, one node for each state"):
        lm.plan(model, max_nodes=3)
    with pytest.raises(lm.ModelError, match="max_nodes is for policies with memory"):
        lm.plan(model, "markov", max_nodes=10)
    with pytest.raises(lm.ModelError, match="max_nodes is for policies with memory"):
        lm.plan(model, horizon=5, max_nodes=10)
    with pytest.raises(lm.ModelError, match="discount must be below 1"):
        lm.plan(lm.make("bandit"), horizon=math.inf)
    assert lm.plan(model, horizon=3).policy.H == 3
    assert lm.plan(model, gap=None, time_limit=0.2).status in ("time", "optimal")
    assert lm.plan(garnet(0, 0.99), gap=None, memory_limit=2**20).status in ("memory", "optimal")


def test_without_memory_for_the_corners_there_is_still_a_policy():
    model = garnet(0)
    plan = lm.plan(model, gap=None, memory_limit=1000)
    check(model, plan)
    assert plan.status == "memory"
    assert plan.method.endswith("context")
    assert plan.upper >= lm.plan(model, gap=0.01).lower


def test_time_kept_back_for_the_end_is_used_when_the_end_is_short():
    model = lm.make(GARNET.format(0).replace("contexts=3", "contexts=6"), observe_rewards=False)
    model = model.replace(discount=0.97, horizon=math.inf, max_return=None)
    settings = replace(SETTINGS, controller_seconds=1.0)  # far too long: half is kept back
    limits = TickingLimits(1e-9, time=2.0)  # whatever else the machine does
    plan = plan_infinite(model, limits, settings)
    assert plan.status == "time"
    # it stops at half the time for the first time, measures, and goes on
    assert [x for x in plan.history if x[0] > 0.6 * limits.time]
    check(model, plan)


@pytest.mark.parametrize("planner", [plan_infinite, plan_infinite_markov])
def test_ctrl_c_keeps_the_bounds(planner):
    def interrupt(seconds, work, lower, upper):
        raise KeyboardInterrupt

    model = garnet(1, 0.99)
    found = planner(model, Limits(progress=interrupt))
    assert found.status == "interrupted"
    assert lm.evaluate(model, found.policy).value == pytest.approx(found.lower, rel=1e-12)
    assert found.lower <= found.upper


@pytest.mark.parametrize("planner", [plan_infinite, plan_infinite_markov])
def test_progress_is_the_history(planner):
    seen = []
    model = garnet(1, 0.99)
    found = planner(model, Limits(0.01, work=10**6, progress=lambda *x: seen.append(x)))
    assert seen == found.history
    assert all(a[2] <= a[3] + 1e-12 for a in seen)


def test_random_observed_rewards():
    """A bet that wins with probability 0.8 or 0.2, or 0.4 for sure: looking pays."""
    rows = [
        (0, 0, 0, 0, 0.8, 1.0), (0, 0, 0, 0, 0.2, 0.0), (0, 0, 1, 0, 1.0, 0.4),
        (1, 0, 0, 0, 0.2, 1.0), (1, 0, 0, 0, 0.8, 0.0), (1, 0, 1, 0, 1.0, 0.4),
    ]  # fmt: skip
    start = [0.5, 0.5], [[1.0], [1.0]]
    bet = lm.LatentMDP.from_rows(
        *zip(*rows, strict=True), *start, math.inf, discount=0.8, max_return=None
    )
    plan = lm.plan(bet, gap=1e-4)
    check(bet, plan)
    cut = lm.plan(bet.replace(horizon=60), gap=1e-4)
    assert plan.lower <= cut.upper + 0.8**60 * 5.0
    assert cut.lower <= plan.upper
    assert lm.plan(bet.replace(observe_rewards=False), gap=None).lower == pytest.approx(2.5)
    assert plan.lower > 2.6
