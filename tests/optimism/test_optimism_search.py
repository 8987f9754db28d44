"""Optimistic search in both classes against exact solvers; certificates."""

import dataclasses

import numpy as np
import pytest
from optimism_exact import exact_history, exact_markov
from optimism_twin import (
    COMPARED,
    best_history,
    best_table,
    graph_value,
    random_counts,
    random_problem,
    setting_of,
    small_model,
    table_value,
)

import latentmdp as lm
from latentmdp.kernels.optimism.sweep import propose
from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import Bonus, Rule, rule_named
from latentmdp.optimism.given import Given
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.optimistic_plan import optimistic_plan
from latentmdp.optimism.perturb import draw_perturbations
from latentmdp.optimism.search import MarkovSearch
from latentmdp.optimism.settings import SEARCH, Effort


def optimistic_model(model, visits, algorithm, setting):
    return ConfidenceModel.of(
        Given.of(model), Counts.from_visits(visits), rule_named(algorithm), setting
    )


def swept_once(search):
    """One sweep from the current policy, taken over unchecked; whether it changed anything."""
    x = search.arrays
    search.evaluate(search.policy)
    changed = propose(search.search, search.policy, x.root, 0.0, x.trial) >= 0.0
    search.policy[:] = x.work.proposal
    return changed


# -------------------------------------------------------------------- the exact solvers


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
@pytest.mark.parametrize("on_transitions", [False, True])
def test_pareto_sets_equal_exhaustive_search(algorithm, on_transitions):
    rng = np.random.default_rng(1)
    for _ in range(12):
        model = small_model(rng, 2, 2, 2, 2, on_transitions, bool(rng.integers(2)))
        visits = random_counts(rng, model, COMPARED)
        setting = setting_of(model, float(rng.choice([1.0, 0.1, 0.01])))
        found = optimistic_model(model, visits, algorithm, setting)
        exhaustive = best_history(model, visits, algorithm, setting)
        assert exact_history(found) == pytest.approx(exhaustive, abs=1e-9)
        value, table = exact_markov(found)
        assert value == pytest.approx(best_table(model, visits, algorithm, setting), abs=1e-9)
        assert table_value(model, visits, algorithm, setting, table) == pytest.approx(value)


def test_the_exact_solver_refuses_what_is_not_tiny():
    rng = np.random.default_rng(0)
    model = small_model(rng, 3, 3, 2, 3, observe=False)
    visits = random_counts(rng, model, (1000,))
    found = optimistic_model(model, visits, "bernstein", setting_of(model, 0.01))
    assert exact_history(found) >= exact_markov(found)[0] - 1e-12
    with pytest.raises(lm.ModelError, match="tiny"):
        exact_history(found, limit=20)
    with pytest.raises(lm.ModelError, match="tiny"):
        exact_markov(found, limit=20)


# -------------------------------------------------------------------- fast against exact


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_fast_solver_between_exact_and_bound(algorithm, policy_class):
    """Never above the optimum, the bound never below; and nearly always equal."""
    rng = np.random.default_rng(7)
    short = []
    for i in range(40):
        model, visits, scale = random_problem(rng, on_transitions=i % 4 == 3)
        setting = setting_of(model, scale)
        found = optimistic_model(model, visits, algorithm, setting)
        exact = exact_history(found) if policy_class == "history" else exact_markov(found)[0]
        plan = optimistic_plan(model, visits, algorithm, policy_class, 1000, 0.1, scale, seed=i)
        assert plan.lower <= exact + 1e-9
        assert plan.upper >= exact - 1e-9
        slow = graph_value(model, visits, algorithm, setting, plan.policy)
        assert plan.lower == pytest.approx(slow, abs=1e-9)  # `lower` is what the policy is worth
        short.append(max(exact - plan.lower, 0.0))
    assert np.mean(np.array(short) < 1e-9) >= 0.95
    assert np.mean(short) <= 1e-4


def test_lower_is_the_value_of_the_policy_on_larger_memories():
    """Merged beliefs, unexpected observations, default nodes: the graph is worth what is said."""
    rng = np.random.default_rng(3)
    for algorithm in ("mvp", "bernstein", "greedy"):
        for spec in ("maze:size=3,goals=2,horizon=6", "garnet:contexts=3,states=8,horizon=5"):
            model = lm.make(spec, observe_rewards=bool(rng.integers(2)))
            visits = random_counts(rng, model, (0, 1, 5, 100, 1000))
            plan = optimistic_plan(model, visits, algorithm, "history", bonus_scale=0.01)
            setting = setting_of(model, 0.01, 10**6)
            slow = graph_value(model, visits, algorithm, setting, plan.policy)
            assert plan.lower == pytest.approx(slow, abs=1e-9)
            assert plan.lower <= plan.upper + 1e-12
            markov = optimistic_plan(model, visits, algorithm, "markov", bonus_scale=0.01)
            assert plan.upper == pytest.approx(markov.upper, abs=1e-9)
            assert plan.lower >= markov.lower - 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("policy_class", ["markov", "history"])
@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
def test_thousands_of_tiny_models(algorithm, policy_class):
    """The comparison of docs/optimism.md, a quarter of it per case."""
    rng = np.random.default_rng([11, len(algorithm), len(policy_class)])
    for i in range(1300):
        model, visits, scale = random_problem(rng, on_transitions=i % 4 == 3)
        found = optimistic_model(model, visits, algorithm, setting_of(model, scale))
        exact = exact_history(found) if policy_class == "history" else exact_markov(found)[0]
        plan = optimistic_plan(model, visits, algorithm, policy_class, 1000, 0.1, scale, seed=i)
        assert plan.lower <= exact + 1e-9
        assert plan.upper >= exact - 1e-9
        assert plan.lower >= exact - 0.05


# -------------------------------------------------------------------- optimism


def test_truth_inside_the_set_makes_the_exact_optimum_optimistic():
    """If the truth is in the set of Eq. (2), both exact optima are at least the true ones."""
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(60):
        model = small_model(rng, 2, 2, 2, 3)
        visits = random_counts(rng, model, (20, 1000, 10**5))
        setting = setting_of(model)
        N = visits.sum(axis=3, keepdims=True)
        p = visits / N
        radius = 2 * np.sqrt(p * setting.iota / N) + 5 * setting.iota / N
        if (np.abs(p - model.P) > radius).any():
            continue
        inside += 1
        true_counts = np.rint(model.P * 2**50).astype(np.int64)
        truth = optimistic_model(model, true_counts, "greedy", setting)
        for algorithm in ("mvp", "bernstein"):
            found = optimistic_model(model, visits, algorithm, setting)
            assert exact_history(found) >= exact_history(truth) - 1e-9
            assert exact_markov(found)[0] >= exact_markov(truth)[0] - 1e-9
    assert inside > 40


def test_the_smallest_case_in_which_a_sweep_lowers_the_objective():
    """Two contexts, root to `y`. In context 0 the root's bonus is 0.6 and with action a the root is
    capped, so its derivative is 0: a sweep looks at context 1 alone, takes b, and falls from
    0.650 to 0.455. Checked switches do not.
    """
    P = np.zeros((2, 3, 2, 3))
    P[:, 0, :, 1] = P[:, 1, :, 2] = P[:, 2, :, 2] = 1.0
    R = np.zeros((2, 3, 2))
    R[0, 1], R[1, 1] = [0.5, 0.0], [0.30, 0.31]
    model = lm.LatentMDP.from_arrays(
        P, R, [0.5, 0.5], [[1, 0, 0], [1, 0, 0]], 2, observe_rewards=False
    )
    bonus = np.zeros((2, 3, 2))
    bonus[0, 0] = 0.6

    def given(evidence, setting, rng):
        return Bonus(0.0, 0.0, bonus.ravel())

    counts = Counts.from_visits((P * 1000).astype(int))
    search = MarkovSearch(Given.of(model), Rule("given", "bonus", given), setting_of(model), counts)
    a, b = np.zeros((2, 3), dtype=int), np.zeros((2, 3), dtype=int)
    b[1, 1] = 1
    search.set_table(b)
    assert search.evaluate(search.policy) == pytest.approx(0.455)
    search.set_table(a)
    assert search.evaluate(search.policy) == pytest.approx(0.650)
    swept_once(search)
    assert search.table[1, 1] == 1  # the unchecked sweep takes b
    assert search.evaluate(search.policy) == pytest.approx(0.455)
    unchecked = Effort(np.inf, 5, 0, False, 1e-12, 0, 0)
    checked = Effort(np.inf, 5, 5, True, 1e-12, 0, 0)
    for effort in (unchecked, checked):
        search.set_table(a)
        assert search.polish(effort) == pytest.approx(0.650)  # the search does not
        assert search.table[1, 1] == 0
    search.set_table(b)
    assert search.polish(checked) == pytest.approx(0.650)


def test_below_the_cap_a_sweep_never_lowers_the_objective():
    rng = np.random.default_rng(8)
    tried = 0
    for i in range(60):
        model, visits, _ = random_problem(rng)
        visits = visits * 100 + (model.P > 0) * 10**5
        counts = Counts.from_visits(visits)
        rule = dataclasses.replace(rule_named(("mvp", "bernstein")[i % 2]), cap=10.0)
        search = MarkovSearch(Given.of(model), rule, setting_of(model, 0.02), counts)
        search.set_table(rng.integers(0, 2, search.table.shape))
        before = search.evaluate(search.policy)
        if before > 1.0:
            continue
        tried += swept_once(search)
        assert search.evaluate(search.policy) >= before - 1e-12
    assert tried > 20


def test_perturbations_are_as_many_and_as_strong_as_asked():
    rng, tiny = np.random.default_rng(3), Effort(400, 1, 1, True, 0.0, 50, 40)
    found = draw_perturbations(rng, tiny, SEARCH, 3, 4, 500)
    assert found.weights.shape == (50, 3)
    assert (found.weights > 0).all()
    assert set(found.through_cap) <= set(SEARCH.through_cap)
    assert found.actions.shape == (40, 500)
    assert found.actions.max() == 3
    assert (found.actions[::2] >= 0).all()  # every other one starts anew
    assert 0.3 < (found.actions[1::2] >= 0).mean() < 0.5  # the others switch 40% of the nodes
    none = draw_perturbations(rng, tiny._replace(randomize_actions=0), SEARCH, 3, 4, 500)
    assert none.actions.shape == (0, 500)
