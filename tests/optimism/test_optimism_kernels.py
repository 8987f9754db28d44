"""The two kernels: against slow twins and finite differences; monotone, convex, capped."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optimism_twin import backup, random_counts, small_model, table_value

import latentmdp as lm
from latentmdp.kernels.optimism import step as optimistic_step
from latentmdp.kernels.optimism.step import BACK_UP, PUSH
from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import RULES, Bonus, BonusConstants, Rule, rule_named
from latentmdp.optimism.given import Given
from latentmdp.optimism.optimistic_plan import optimistic_plan
from latentmdp.optimism.search import MarkovSearch

ALGORITHMS = ("mvp", "bernstein", "ucrl", "lucrl", "greedy")


def make_search(model, visits, algorithm, scale=1.0, episodes=1000):
    known = Given.of(model)
    constants = BonusConstants(known.M, known.S, known.A, known.H, episodes, 0.1, scale)
    counts = Counts.from_visits(visits)
    return MarkovSearch(known, rule_named(algorithm), constants, counts), constants


def table_of(search, table):
    """The search's value of a table."""
    search.set_table(table)
    return search.evaluate(search.policy)


class Row:
    """One backup of a two-step model: state 0 at step 0, next values written by hand."""

    def __init__(
        self, rng, algorithm, scale, S=4, on_transitions=False, sizes=(0, 1, 5, 50, 10**4)
    ):
        self.model = small_model(rng, 1, S, 1, 2, on_transitions)
        self.visits = random_counts(rng, self.model, sizes)
        self.algorithm = algorithm
        self.search, self.constants = make_search(self.model, self.visits, algorithm, scale)

    def value(self, v):
        """The kernel's value of state 0 when the next states are worth `v`."""
        x, out = self.search.arrays, self.search.arrays.work.backed_up
        x.current.value[x.S : 2 * x.S, 0] = v
        x.work.wanted[:] = True
        optimistic_step.settle(x.rows, x.nodes, 1, 0, 1, x.current)
        where = (x.rows, x.nodes, 0, 1, x.work.wanted, self.search.policy, -1, 0, 1)
        optimistic_step.visit_rows(*where, x.current, out, BACK_UP, 0.0, x.scratch)
        return out[0, 0]

    def weights(self, v, through_cap=0.0):
        """The kernel's derivative."""
        x, reach = self.search.arrays, self.search.arrays.work.reach
        x.current.value[0, 0] = self.value(v)
        reach[:] = 0.0
        reach[0, 0] = 1.0
        where = (x.rows, x.nodes, 0, 1, x.nodes.played, self.search.policy, -1, 0, 1)
        optimistic_step.visit_rows(*where, x.current, reach, PUSH, through_cap, x.scratch)
        return reach[x.S : 2 * x.S, 0].copy()

    def twin(self, v):
        return backup(self.model, self.visits, self.algorithm, self.constants, 0, 0, 0, v)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("on_transitions", [False, True])
def test_values_equal_the_slow_twin(algorithm, on_transitions):
    rng = np.random.default_rng(1)
    for _ in range(20):
        row = Row(rng, algorithm, float(rng.choice([0.01, 0.3, 1.0, 4.0])), 4, on_transitions)
        for _ in range(3):
            v = np.round(rng.random(4), int(rng.integers(1, 5)))  # ties too
            assert row.value(v) == pytest.approx(row.twin(v), abs=1e-9)


def test_a_rule_without_cap_sees_standard_deviations_above_one_half(monkeypatch):
    """Values above 1 spread further than values in [0, 1]: the variance term may not be skipped."""

    def spread(evidence, constants, rng):
        return Bonus(0.3, 0.2, 0.0)

    monkeypatch.setitem(RULES, "spread", Rule("spread", "bonus", spread, cap=np.inf))
    rng = np.random.default_rng(3)
    row = Row(rng, "spread", 1.0, sizes=(50,))
    v = np.array([0.0, 4.0, 8.0, 12.0])
    p = row.visits[0, 0, 0] / row.visits[0, 0, 0].sum()
    deviation = np.sqrt(p @ (v - p @ v) ** 2)
    assert 0.3 * deviation > 0.2
    expected = row.model.row_reward[0] + p @ v + 0.3 * deviation
    assert row.value(v) == pytest.approx(expected, abs=1e-9)
    slope = p * (1.0 + 0.3 * (v - p @ v) / deviation)
    assert row.weights(v) == pytest.approx(slope, abs=1e-9)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("on_transitions", [False, True])
def test_policies_equal_the_slow_twin(algorithm, on_transitions):
    rng = np.random.default_rng(2)
    for _ in range(10):
        model = small_model(rng, 2, 3, 2, 3, on_transitions)
        visits = random_counts(rng, model)
        search, constants = make_search(model, visits, algorithm, float(rng.choice([0.01, 0.1, 1])))
        table = rng.integers(0, 2, (3, 3))
        slow = table_value(model, visits, algorithm, constants, table)
        assert table_of(search, table) == pytest.approx(slow, abs=1e-9)


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein", "ucrl"])
@pytest.mark.parametrize("on_transitions", [False, True])
def test_derivative_equals_finite_differences(algorithm, on_transitions):
    rng = np.random.default_rng(3)
    checked = 0
    for _ in range(60):
        row = Row(rng, algorithm, 0.02, 4, on_transitions, (5, 50, 1000, 10**5))
        v = rng.random(4) * 0.9
        step = 1e-7
        slopes = []
        for way in (step, -step):  # skip kinks: both one-sided slopes must agree
            moved = v + way * np.eye(4)
            slopes.append([(row.value(u) - row.value(v)) / way for u in moved])
        if np.allclose(*slopes, atol=1e-4):
            checked += 1
            assert row.weights(v) == pytest.approx(np.array(slopes[0]), abs=2e-4)
    assert checked > 30


@given(seed=st.integers(0, 10**6), algorithm=st.sampled_from(["mvp", "bernstein", "ucrl", "lucrl"]))
def test_backups_are_monotone_and_derivatives_not_negative(seed, algorithm):
    rng = np.random.default_rng(seed)
    row = Row(rng, algorithm, float(rng.choice([0.003, 0.05, 1.0, 20.0])))
    low = rng.random(4)
    high = low + (1.0 - low) * rng.random(4) * rng.integers(0, 2, 4)
    assert row.value(high) >= row.value(low) - 1e-12
    assert (row.weights(low) >= 0.0).all()
    assert (row.weights(low, through_cap=0.3) >= 0.0).all()


@given(seed=st.integers(0, 10**6), algorithm=st.sampled_from(["mvp", "bernstein", "ucrl"]))
def test_backups_are_convex_below_the_cap(seed, algorithm):
    """The tangent of the derivative weights lies below: what makes sweeps safe."""
    rng = np.random.default_rng(seed)
    row = Row(rng, algorithm, float(rng.choice([0.003, 0.05, 0.3])), sizes=(20, 10**3, 10**5))
    v, u = rng.random(4), rng.random(4)
    if max(row.value(v), row.value(u)) < 1.0:
        tangent = row.value(v) + row.weights(v) @ (u - v)
        assert row.value(u) >= tangent - 1e-9


@given(
    seed=st.integers(0, 10**6),
    algorithm=st.sampled_from(["bernstein", "ucrl"]),
    outcomes=st.integers(1, 3),
    on_transitions=st.booleans(),
)
def test_the_derivative_is_the_distribution_that_gives_the_value(
    seed, algorithm, outcomes, on_transitions
):
    """Rows of one, two and more outcomes among many states, whose values tie now and then."""
    rng = np.random.default_rng(seed)
    row = Row(rng, algorithm, float(rng.choice([0.001, 0.03, 1.0])), 8, on_transitions, (0,))
    size = int(rng.choice([1, 2, 10, 1000, 10**6]))
    seen = rng.choice(8, outcomes, replace=False)
    row.visits[0, 0, 0, seen] = rng.multinomial(size, rng.dirichlet(np.ones(outcomes)))
    row.search, row.constants = make_search(row.model, row.visits, algorithm, row.constants.scale)
    v = np.round(rng.random(8), int(rng.integers(1, 5)))
    value, q = row.value(v), row.weights(v)
    assert value == pytest.approx(row.twin(v), abs=1e-9)
    if value < 1.0:
        reward = row.model.R[0, 0, 0] if on_transitions else np.full(8, row.model.R[0, 0, 0])
        capped = on_transitions & (reward > 0.0) & (reward + v >= 1.0)  # worth 1, slope 0
        worth = np.minimum(reward + v, 1.0) if on_transitions else reward + v
        if not capped.any():
            assert q.sum() == pytest.approx(1.0, abs=1e-9)
            assert q @ worth == pytest.approx(value, abs=1e-9)
    else:
        assert not q.any()


def test_at_the_cap_the_derivative_is_zero():
    row = Row(np.random.default_rng(0), "mvp", 1.0, sizes=(1,))
    assert row.value(np.full(4, 0.5)) == 1.0
    assert (row.weights(np.full(4, 0.5)) == 0.0).all()


def test_saturated_rows_do_not_look_at_next_values():
    row = Row(np.random.default_rng(0), "mvp", 1.0, sizes=(10,))
    assert row.value(np.zeros(4)) == row.value(np.ones(4)) == 1.0


def test_a_never_seen_state_receives_mass_under_bernstein():
    """State 1 pays and was never reached from 0: plain estimates see nothing, Eq. (2) does."""
    P = np.array([[[[1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0]], [[0.0, 0.0, 1.0]]]])
    R = np.array([[[0.0], [1.0], [0.0]]])
    model = lm.LatentMDP.from_arrays(P, R, [1.0], [[1.0, 0.0, 0.0]], 2)
    visits = (P * 10**6).astype(int)
    plan = optimistic_plan(model, visits, "bernstein", episodes=100)
    constants = BonusConstants(1, 3, 1, 2, 100)
    assert optimistic_plan(model, visits, "greedy").lower == 0.0
    assert plan.lower == pytest.approx(5 * constants.iota / 10**6, rel=1e-9)


def test_dropping_the_cap_breaks_at_most_one():
    """The paper says totals stay at most 1 because rewards are unchanged; support grows, though.

    One state pays 1 once and moves to an absorbing state that pays nothing. A distribution in the
    set of Eq. (2) leaves the absorbing state again, so without the cap the value exceeds 1.
    """
    P = np.array([[[[0.0, 1.0]], [[0.0, 1.0]]]])
    R = np.array([[[1.0], [0.0]]])
    model = lm.LatentMDP.from_arrays(P, R, [1.0], [[1.0, 0.0]], 4)
    assert model.max_return == 1.0
    known, counts = Given.of(model), Counts.from_visits((P * 1000).astype(int))
    table = np.zeros((4, 2), dtype=int)
    rule, constants = rule_named("bernstein"), BonusConstants(1, 2, 1, 4, 1000)
    assert table_of(MarkovSearch(known, rule, constants, counts), table) == 1.0
    uncapped = dataclasses.replace(rule, cap=np.inf)
    assert table_of(MarkovSearch(known, uncapped, constants, counts), table) > 1.1


def test_compiled_kernels_agree_with_plain_python(monkeypatch):
    """What is compiled gives what the same functions give uncompiled."""
    rng = np.random.default_rng(9)
    for algorithm, size in itertools.product(("mvp", "bernstein"), (1, 2, 50, 1000)):
        row, v = Row(rng, algorithm, 0.05, sizes=(size,)), rng.random(4)
        value, weights = row.value(v), row.weights(v)
        with monkeypatch.context() as patch:
            for name in ("visit_bonus_rows", "visit_box_rows", "sort_defaults"):
                plain = getattr(optimistic_step, name).py_func
                patch.setattr(optimistic_step, name, plain)
            row.search.arrays.work.backed_up[:] = -1.0
            assert row.value(v) == pytest.approx(value, abs=1e-15)
            np.testing.assert_allclose(row.weights(v), weights, atol=1e-15)
