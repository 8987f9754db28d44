"""The tightened bound: above both exact optima, below the plain bound, equal to its slow twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import latentmdp as lm
from latentmdp.counts import Counts
from latentmdp.kernels.flat import header_of
from latentmdp.kernels.optimistic_bound import tighten
from latentmdp.kernels.optimistic_slopes import make_work
from latentmdp.optimism.bound import tighter
from latentmdp.optimism.confidence import Setting, rule_named
from latentmdp.optimism.markov import MarkovSearch
from latentmdp.optimism.memory import Observations
from latentmdp.optimism.model import Known
from latentmdp.optimism.pareto import exact_history, exact_markov
from latentmdp.optimism.plan import make_planner, optimistic_plan
from latentmdp.optimism.reference import Reference
from optimism_twin import chord_bound, random_counts, small_model

RULES = ("mvp", "bernstein", "lucrl", "ucrl", "greedy", "psrl")
SHAPES = ((2, 2), (3, 2), (2, 3), (3, 3))
SCALES = (0.01, 0.03, 0.1, 1.0, 10.0, 100.0)
VISITS = (20, 20, 100, 100, 1000, 10**4, 10**5, 5, 1, 0)


def problem(rng, algorithm, scale=None, on_transitions=None):
    """A tiny model, its counts, and the search that a Markov planner has for them."""
    S, H = SHAPES[rng.integers(len(SHAPES))]
    on_transitions = rng.random() < 0.25 if on_transitions is None else on_transitions
    S = 2 if on_transitions else S
    M, observe = int(rng.integers(2, 4)), bool(rng.integers(2))
    model = small_model(rng, M, S, 2, H, on_transitions, observe)
    visits = random_counts(rng, model, VISITS)
    scale = float(rng.choice(SCALES)) if scale is None else scale
    setting = Setting(M, S, 2, H, 1000, 0.1, scale)
    counts = Counts.from_visits(visits)
    search = MarkovSearch(Known.of(model), rule_named(algorithm), setting, counts, rng)
    return model, visits, setting, search


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), algorithm=st.sampled_from(RULES))
def test_bound_is_between_both_optima_and_the_plain_bound(seed, algorithm):
    """And never grows with the budget."""
    _, _, _, search = problem(np.random.default_rng(seed), algorithm)
    best = exact_history(search.model)
    assert best >= exact_markov(search.model)[0] - 1e-9
    last = search.upper
    for budget in (0, 1, 3, 10, 40, 200, 1000):
        upper = tighter(search, 0.0, budget)
        assert best - 1e-9 <= upper <= last + 1e-12
        last = upper


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), algorithm=st.sampled_from(RULES))
def test_slopes_are_below_every_loss(seed, algorithm):
    """`Q - T(alpha) >= max(s . (U - alpha) - excess, 0)` for `alpha` between the least and `U`."""
    rng = np.random.default_rng(seed)
    _, _, _, search = problem(rng, algorithm)
    x, model = search.arena, search.model
    M, S, A, H, slots = x.M, x.S, x.A, x.H, len(search.model.next)
    y = make_work(x, slots, Observations.of(model).of_slots(model), 500)
    header = header_of(y)
    tighten(x.here, header.ctypes.data, 500, -1.0)
    U, least = (x.F[at : at + (H + 1) * S * M].reshape(H + 1, S, M) for at in (y.known, y.lowest))
    Q = x.F[x.known_q : x.known_q + H * S * A * M].reshape(H, S, A, M)
    slope = y.W[y.slope : y.slope + H * slots].reshape(H, slots)
    excess = y.W[y.excess : y.excess + H * S * A * M].reshape(H, S, A, M)
    for t, s, a, m in np.argwhere(~np.isnan(excess)):
        row = (m * S + s) * A + a
        at = model.slots(row)
        far = rng.random((20, S)) ** rng.choice([0.2, 1.0, 5.0]) * rng.integers(0, 2, (20, S))
        loss = far * (U[t + 1, :, m] - least[t + 1, :, m])
        value = Reference(model).backup(np.full(20, row), U[t + 1, :, m] - loss)
        claimed = loss[:, model.next[at]] @ slope[t, at] - excess[t, s, a, m]
        assert (slope[t, at] >= 0.0).all()
        assert (Q[t, s, a, m] - value >= np.maximum(claimed, 0.0) - 1e-9).all()


@pytest.mark.parametrize("algorithm", ["bernstein", "ucrl"])
@pytest.mark.parametrize("on_transitions", [False, True])
def test_bound_equals_its_slow_twin(algorithm, on_transitions):
    """Records and trials lead to what plain recursion over all histories gives."""
    rng = np.random.default_rng(4)
    tighter_than_before = 0
    for _ in range(12):
        scale = float(rng.choice([0.01, 0.1, 1.0]))
        model, visits, setting, search = problem(rng, algorithm, scale, on_transitions)
        slow = chord_bound(model, visits, algorithm, setting)
        upper = tighter(search, 0.0, 20_000)
        assert upper == pytest.approx(slow, abs=1e-8)
        tighter_than_before += upper < search.upper - 1e-6
    assert tighter_than_before >= 3


def test_a_sample_is_bounded_exactly():
    """Without bonus and cap the recursion has no slack: the bound is the optimum."""
    rng = np.random.default_rng(0)
    opened = 0
    for _ in range(30):
        _, _, _, search = problem(rng, "psrl")
        best = exact_history(search.model)
        opened += search.upper > best + 1e-9
        assert tighter(search, 0.0, 20_000) == pytest.approx(best, abs=1e-9)
    assert opened > 5


def test_a_reached_bound_certifies_the_policy_and_ends_the_search():
    model = lm.make("troubleshoot")
    visits = random_counts(np.random.default_rng(0), model, (10_000,))
    plan = optimistic_plan(model, visits, "mvp", "history", bonus_scale=0.01)
    search = plan.planner.searches[0]
    assert search.upper > plan.lower + 0.04
    assert plan.upper == pytest.approx(plan.lower, abs=1e-9)
    assert tighter(search, 0.95, 10**5) == 0.95  # no lower than asked
    markov = optimistic_plan(model, visits, "mvp", "markov", bonus_scale=0.01)
    assert markov.lower <= plan.lower + 1e-9
    assert markov.upper >= plan.lower - 1e-9  # a bound for the larger class


@pytest.mark.parametrize("policy_class", ["markov", "history"])
@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
def test_tightening_leaves_the_planner_as_it_was(algorithm, policy_class):
    """Plans after it are, to the bit, those without it."""
    model = lm.make("troubleshoot")
    known = Known.of(model)
    setting = Setting(model.M, model.S, model.A, model.H, 10**6, 0.1, 0.01)
    visits = random_counts(np.random.default_rng(1), model, (10_000,))
    answers = []
    for tightened in (False, True):
        rng = np.random.default_rng(3)
        counts = Counts.from_visits(visits)
        stream = np.random.default_rng(0)
        planner = make_planner(known, rule_named(algorithm), setting, policy_class, stream)
        for _ in range(6):
            row = int(rng.integers(counts.rows))
            counts.n[row] += 300
            counts.n_next[counts.indptr[row]] += 300
            counts.snapshot(row)
            found = planner.replan(counts, np.array([row]))
            answers.append((found.value, found.upper, planner.policy.copy()))
            if tightened:
                assert tighter(planner.searches[0], found.value, 200) < found.upper - 1e-6
    for before, after in zip(answers[:6], answers[6:], strict=True):
        assert before[:2] == after[:2]
        np.testing.assert_array_equal(before[2], after[2])
