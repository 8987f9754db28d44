"""From counts to coefficients: every statement of Eqs. (2) and (3) about single rows."""

import math

import numpy as np
import pytest
from optimism_twin import random_counts, small_model

import latentmdp as lm
from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import (
    RULES,
    SECONDARY,
    Bonus,
    BonusConstants,
    Rule,
    register,
    rule_named,
)
from latentmdp.optimism.given import Given
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.optimistic_plan import optimistic_plan
from latentmdp.optimism.search import MarkovSearch


def model_of(rewards=(0.0, 0.0, 0.0), horizon=3):
    """One context, three states, one action; transitions are never read."""
    P = np.full((1, 3, 1, 3), 1 / 3)
    R = np.array(rewards, dtype=float).reshape(1, 3, 1)
    return lm.LatentMDP.from_arrays(P, R, [1.0], [[1.0, 0.0, 0.0]], horizon)


def optimistic(visits, algorithm, model=None, scale=1.0, episodes=100):
    model = model or model_of()
    known = Given.of(model)
    constants = BonusConstants(known.M, known.S, known.A, known.H, episodes, 0.1, scale)
    counts = Counts.from_visits(np.asarray(visits).reshape(1, 3, 1, 3))
    return ConfidenceModel.of(known, counts, rule_named(algorithm), constants), constants


VISITS = [[6, 2, 0], [0, 0, 0], [0, 0, 1]]


def test_iota_is_the_papers():
    constants = BonusConstants(2, 3, 4, 5, 10**6, 0.05)
    assert constants.iota == pytest.approx(
        2 * math.log(2 * 2 * 3 * 4 * 5 * 10**6 / 0.05), rel=1e-12
    )


def test_mvp_coefficients_are_eq_3():
    found, constants = optimistic(VISITS, "mvp")
    iota = constants.iota
    c1, c2 = found.rows.c1, found.rows.c2
    assert c1[0] == pytest.approx(4 * math.sqrt(2 * iota / 8))
    assert c2[0] == pytest.approx(16 * 3 * iota / 8)


def test_bernstein_boxes_are_eq_2():
    found, constants = optimistic(np.array(VISITS) * 1000, "bernstein")
    unit = constants.iota / 8000
    p, low, high = (x[:2] for x in (found.rows.p_hat, found.rows.lower, found.rows.upper))
    radius = 2 * np.sqrt(p * unit) + 5 * unit
    assert p == pytest.approx([0.75, 0.25])
    assert low == pytest.approx(p - radius)
    assert high == pytest.approx(p + radius)
    assert found.rows.unseen[0] == pytest.approx(
        5 * unit
    )  # what a never-seen next state may receive


def test_unvisited_rows_are_worth_the_cap():
    found, _ = optimistic(VISITS, "mvp")
    assert found.rows.c2[1] == np.inf
    found, _ = optimistic(VISITS, "bernstein")
    assert found.rows.unseen[1] == 1.0  # the whole simplex
    assert found.rows.budget[1] == 1.0


def test_without_any_visit_bernstein_goes_anywhere_and_mvp_is_worth_one():
    """Each step under the whole simplex: `min(1, r + max v)`, by a loop of its own."""
    model = lm.make("garnet:contexts=1,states=4,actions=2,branching=2,horizon=3,seed=1")
    value = np.zeros(model.S)
    for _ in range(model.H):
        value = np.minimum(1.0, model.R[0] + value.max()).max(axis=1)
    visits = np.zeros((1, 4, 2, 4), dtype=int)
    found = lm.optimistic_plan(model, visits, "bernstein")
    assert model.nu[0] @ value < 0.99  # else the cap would hide what is meant
    assert found.lower == pytest.approx(model.nu[0] @ value, abs=1e-12)
    assert found.upper == pytest.approx(found.lower, abs=1e-12)
    assert lm.optimistic_plan(model, visits, "mvp").lower == 1.0


def test_one_visit():
    found, constants = optimistic(VISITS, "mvp")
    assert found.rows.c1[2] == pytest.approx(4 * math.sqrt(constants.iota))
    assert found.rows.c2[2] == pytest.approx(48 * constants.iota)
    found, _ = optimistic(VISITS, "bernstein")
    assert (found.rows.lower[2], found.rows.upper[2]) == (0.0, 1.0)  # boxes are clipped to [0, 1]


@pytest.mark.parametrize("scale", [0.01, 0.5, 1.0, 2.0, 50.0])
def test_bonus_scale_keeps_the_backup_monotone(scale):
    """`c1^2 <= c2` also where the scale is above `S / supp`."""
    found, constants = optimistic(np.array(VISITS) * 10, "mvp", scale=scale)
    c1, c2 = found.rows.c1, found.rows.c2
    assert (c1[[0, 2]] ** 2 <= c2[[0, 2]] * (1 + 1e-12)).all()
    assert c1[0] == pytest.approx(scale * 4 * math.sqrt(2 * constants.iota / 80))
    if scale <= 1.5:
        assert c2[0] == pytest.approx(scale * 48 * constants.iota / 80)
    else:
        assert c2[0] == pytest.approx(scale**2 * 32 * constants.iota / 80)


def test_bonus_scale_multiplies_the_radius():
    big = np.array(VISITS) * 10**6
    (one, _), (half, _) = (optimistic(big, "bernstein", scale=x) for x in (1.0, 0.5))
    p = one.rows.p_hat[:2]
    assert one.rows.upper[:2] - p == pytest.approx(2 * (half.rows.upper[:2] - p))
    assert one.rows.unseen[0] == pytest.approx(2 * half.rows.unseen[0])


def test_lucrl_pays_at_every_step_at_most_one():
    found, _ = optimistic(np.array(VISITS) * 100, "lucrl")
    assert found.rows.gain[0] == pytest.approx(min(1, math.sqrt(15 * math.log(1000) / 800)))
    assert not found.rows.c1[[0, 2]].any()
    assert not found.rows.c2[[0, 2]].any()


def coefficients(model):
    """`(5, rows)`"""
    rows = model.rows
    return np.array([rows.gain, rows.c1, rows.c2, rows.unseen, rows.budget])


def listed(model):
    """The numbers of everything that the model's rows list."""
    rows, slot = model.rows, model.listing()[1]
    return np.array([x[slot] for x in (rows.p_hat, rows.reward, rows.lower, rows.upper)])


def test_posterior_sample_is_a_distribution_over_all_next_states():
    found, _ = optimistic(VISITS, "psrl")
    assert (found.rows.stop - found.rows.start[:-1]).tolist() == [3, 3, 3]
    assert found.rows.p_hat.reshape(3, 3).sum(axis=1) == pytest.approx(1.0)


def test_a_slot_without_visits_is_a_never_seen_state():
    """Laying slots out along the true model must not tell the planner anything."""
    model = model_of()
    counts = Counts.for_model(model)
    for _ in range(8):
        counts.record(0, 1)
    counts.snapshot_all()
    known, constants = Given.of(model), BonusConstants(1, 3, 1, 3, 100)
    for algorithm in ("mvp", "bernstein", "ucrl", "lucrl"):
        along = ConfidenceModel.of(known, counts, rule_named(algorithm), constants)
        bare = ConfidenceModel.of(
            known, Counts.from_visits(counts.visits()), rule_named(algorithm), constants
        )
        assert np.array_equal(coefficients(along), coefficients(bare))
        a, b = (
            optimistic_plan(model, counts, algorithm),
            optimistic_plan(model, counts.visits(), algorithm),
        )
        assert (a.lower, a.upper) == (b.lower, b.upper)


def test_refreshing_changed_rows_equals_starting_afresh():
    rng = np.random.default_rng(5)
    model = lm.make("garnet:contexts=2,states=5,actions=2,horizon=3")
    known = Given.of(model)
    constants = BonusConstants(known.M, known.S, known.A, known.H, 1000)
    counts = Counts.for_model(model)
    for name in ("mvp", "bernstein", "ucrl", "lucrl", "greedy"):
        found = ConfidenceModel.of(known, counts, rule_named(name), constants)
        for _ in range(20):
            row = int(rng.integers(counts.rows))
            k = int(rng.integers(counts.indptr[row], counts.indptr[row + 1]))
            counts.n[row] += 1
            counts.n_next[k] += 1
            counts.snapshot(row)
            found.refresh(counts, np.array([row]), rule_named(name), constants)
        again = ConfidenceModel.of(known, counts, rule_named(name), constants)
        assert np.array_equal(listed(found), listed(again))
        assert np.array_equal(coefficients(found), coefficients(again))


@pytest.mark.parametrize("name", ["mvp", "bernstein", "greedy", "secondary"])
@pytest.mark.parametrize("scale", [0.01, 1.0, 7.0])
@pytest.mark.parametrize("on_transitions", [False, True])
def test_compiled_refresh_equals_the_rule(name, scale, on_transitions):
    """Algorithms with a compiled twin: the same numbers, and the same bound."""
    rng = np.random.default_rng(8)
    rule = SECONDARY if name == "secondary" else rule_named(name)
    assert rule.code > 0
    model = small_model(rng, 2, 4, 2, 3, on_transitions)
    known, constants = Given.of(model), BonusConstants(2, 4, 2, 3, 1000, 0.1, scale)
    counts = Counts.from_visits(random_counts(rng, model))
    search = MarkovSearch(known, rule, constants, counts)
    changed = np.flatnonzero(rng.random(counts.rows) < 0.5)
    counts.n_next[:] += rng.integers(0, 50, counts.next.size)
    counts.n[:] = np.bincount(counts.slot_row, counts.n_next, counts.rows)
    for row in changed:
        counts.snapshot(int(row))
    search.update(counts, changed)
    again = MarkovSearch(known, rule, constants, counts)
    assert listed(search.model) == pytest.approx(listed(again.model), rel=1e-14)
    one, two = coefficients(search.model), coefficients(again.model)
    assert (np.isfinite(one) == np.isfinite(two)).all()
    assert one[np.isfinite(one)] == pytest.approx(two[np.isfinite(two)], rel=1e-14)
    assert search.upper == pytest.approx(again.upper, rel=1e-14)


def test_a_new_rule_is_one_function_and_one_line():
    def hoeffding(evidence, constants, rng):
        return Bonus(0.0, 0.0, np.sqrt(constants.iota / (2 * np.maximum(evidence.N, 1))))

    register("hoeffding", "bonus", hoeffding)
    try:
        plan = optimistic_plan(model_of(), np.array(VISITS).reshape(1, 3, 1, 3), "hoeffding")
        assert plan.lower == plan.upper == 1.0
        assert isinstance(rule_named("hoeffding"), Rule)
    finally:
        del RULES["hoeffding"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "mpv"}, "algorithm must be one of"),
        ({"policy_class": "memory"}, "policy_class must be history or markov; it is 'memory'"),
        ({"episodes": 0}, "episodes must be at least 1"),
        ({"delta": 2.0}, "delta must lie strictly between 0 and 1"),
        ({"bonus_scale": -1.0}, "bonus_scale must be finite"),
        ({"visits": np.zeros((2, 3, 1, 3), dtype=int)}, "visits must be of 1 contexts"),
        ({"visits": np.zeros((1, 3, 1, 3))}, "visits must be integers"),
        ({"visits": np.full((1, 3, 1, 3), -1)}, "visits must not be negative"),
        ({"visits": np.zeros((1, 3, 3), dtype=int)}, "visits must have shape"),
    ],
)
def test_bad_input_gets_one_clear_sentence(changes, message):
    arguments = {"model": model_of(), "visits": np.zeros((1, 3, 1, 3), dtype=int)} | changes
    with pytest.raises(lm.ModelError, match=message):
        optimistic_plan(**arguments)


@pytest.mark.parametrize(("reward", "message"), [(2.0, "at most 1"), (-0.5, "rewards >= 0")])
def test_models_outside_the_papers_conditions_are_refused(reward, message):
    R = np.full((1, 3, 1), reward)
    model = lm.LatentMDP.from_arrays(
        np.full((1, 3, 1, 3), 1 / 3), R, [1.0], [[1.0, 0.0, 0.0]], 2, max_return=None
    )
    with pytest.raises(lm.ModelError, match=message):
        optimistic_plan(model, np.zeros((1, 3, 1, 3), dtype=int))
    optimistic_plan(model.normalized(), np.zeros((1, 3, 1, 3), dtype=int))
