"""The planner that is called again and again: ties, warm starts, resuming."""

from dataclasses import replace

import numpy as np
import pytest
from optimism_twin import (
    graph_value,
    random_counts,
    random_problem,
    setting_of,
    small_model,
)
from strategies import random_model
from test_optimism_search import swept_once

import latentmdp as lm
from latentmdp.kernels.optimism.mix import mix
from latentmdp.learning.session import Session
from latentmdp.learning.spec import RunSpec
from latentmdp.model.counts import Counts
from latentmdp.optimism import planner as optimism_planner
from latentmdp.optimism.confidence import BonusConstants, rule_named
from latentmdp.optimism.given import Given
from latentmdp.optimism.optimistic_plan import make_planner, optimistic_plan
from latentmdp.optimism.perturb import Backoff
from latentmdp.optimism.reference import Reference
from latentmdp.optimism.search import MarkovSearch
from latentmdp.optimism.settings import SEARCH
from latentmdp.optimism.ties import by_mixing, by_secondary

EQUAL = SEARCH.equal


@pytest.mark.parametrize("policy_class", ["markov", "history"])
@pytest.mark.parametrize("ties", ["secondary", "incumbent"])
def test_the_tie_rule_stays_inside_the_argmax_set(ties, policy_class):
    """Whatever breaks ties, the answer reaches the bound wherever the plain search does."""
    rng = np.random.default_rng(2)
    for algorithm in ("mvp", "bernstein"):
        for _ in range(5):
            model, visits, scale = random_problem(rng)
            known, constants = Given.of(model), setting_of(model, scale)
            counts = Counts.from_visits(visits)
            rule = rule_named(algorithm)
            plain, tied = (
                make_planner(known, rule, constants, policy_class, np.random.default_rng(0), name)
                for name in ("incumbent", ties)
            )
            best, chosen = plain.replan(counts), tied.replan(counts)
            if best.value >= best.upper - EQUAL:
                assert chosen.value >= chosen.upper - EQUAL


def grow_counts(rng, model, counts, rows):
    """Visit some rows and take their snapshots."""
    changed = rng.choice(counts.rows, rows, replace=False)
    for row in changed:
        lo, hi = model.indptr[row], model.indptr[row + 1]
        for k in rng.choice(np.arange(lo, hi), 20, p=model.prob[lo:hi]):
            counts.record(int(row), int(model.next[k]))
        counts.snapshot(int(row))
    return np.sort(changed)


@pytest.mark.parametrize("policy_class", ["markov", "history"])
@pytest.mark.parametrize("algorithm", ["mvp", "bernstein", "psrl"])
@pytest.mark.parametrize("growing", [False, True])
def test_a_restored_planner_continues_to_the_same_bits(algorithm, policy_class, growing):
    model = lm.make("garnet:contexts=2,states=6,actions=2,horizon=5", observe_rewards=False)
    known = Given.of(model)
    constants = setting_of(model, 0.02)
    counts = Counts.empty(model.M, model.S, model.A) if growing else Counts.for_model(model)

    def planner():
        stream = np.random.default_rng(4)
        return make_planner(known, rule_named(algorithm), constants, policy_class, stream)

    rng = np.random.default_rng(6)
    going = planner()
    for step in range(14):
        changed = grow_counts(rng, model, counts, 3)
        if step == 7:
            saved = going.state()
            resumed, copy = planner(), counts.copy()
            copy.version = counts.version
            resumed.restore(saved, copy)
        answer = going.replan(counts, changed)
        if step >= 7:
            copy_of = counts.copy()
            copy_of.version = counts.version
            other = resumed.replan(copy_of, changed)
            assert other.value == answer.value
            assert other.upper == answer.upper
            assert other.policy == answer.policy


@pytest.mark.parametrize("policy_class", ["markov", "history"])
@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
def test_warm_replans_are_as_certified_as_cold_ones(algorithm, policy_class):
    model = lm.make("maze:size=3,goals=2,horizon=6")
    known, constants = Given.of(model), setting_of(model, 0.02)
    counts = Counts.for_model(model)
    rng = np.random.default_rng(1)
    stream = np.random.default_rng(0)
    planner = make_planner(known, rule_named(algorithm), constants, policy_class, stream)
    for _ in range(12):
        changed = grow_counts(rng, model, counts, 6)
        warm = planner.replan(counts, changed)
        cold = optimistic_plan(model, counts, algorithm, policy_class, 1000, 0.1, 0.02)
        assert warm.upper == pytest.approx(cold.upper, abs=1e-12)
        visits = counts.snapshot_visits()
        slow = graph_value(model, visits, algorithm, constants, warm.policy)
        assert warm.value == pytest.approx(slow, abs=1e-9)


def test_warm_must_be_a_plan():
    model = lm.make("maze:size=3,goals=2,horizon=4")
    visits = np.zeros((model.M, model.S, model.A, model.S), dtype=int)
    with pytest.raises(lm.ModelError, match="warm must be an earlier optimistic plan; it is a str"):
        optimistic_plan(model, visits, warm="x")


def test_warm_plan_starts_from_the_last_one():
    model = lm.make("maze:size=3,goals=2,horizon=6")
    visits = random_counts(np.random.default_rng(0), model, (10, 1000))
    first = optimistic_plan(model, visits, "mvp", "markov", bonus_scale=0.001)
    again = optimistic_plan(model, visits, "mvp", "markov", bonus_scale=0.001, warm=first)
    assert again.planner is first.planner
    assert again.lower >= first.lower
    other = optimistic_plan(model, visits, "mvp", "markov", bonus_scale=0.002, warm=first)
    assert other.planner is not first.planner


@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_warm_plan_with_outcomes_that_were_never_seen_before(policy_class):
    model = lm.make("maze:size=3,goals=2,horizon=6")
    plan = None
    for n in (1, 3, 3, 50):
        visits = random_counts(np.random.default_rng(n), model, (0, n))
        plan = optimistic_plan(model, visits, "mvp", policy_class, 1000, 0.1, 0.01, warm=plan)
        cold = optimistic_plan(model, visits, "mvp", policy_class, 1000, 0.1, 0.01)
        assert plan.upper == pytest.approx(cold.upper, abs=1e-12)
        slow = graph_value(model, visits, "mvp", setting_of(model, 0.01), plan.policy)
        assert plan.lower == pytest.approx(slow, abs=1e-9)


def test_one_context_is_plain_backward_induction():
    rng = np.random.default_rng(12)
    for algorithm in ("mvp", "bernstein", "ucrl", "lucrl", "greedy"):
        model = random_model(rng, M=1, negative=False, discounted=False)
        visits = random_counts(rng, model, (0, 3, 1000))
        for policy_class in ("markov", "history"):
            plan = optimistic_plan(model, visits, algorithm, policy_class, bonus_scale=0.05)
            assert plan.lower == pytest.approx(plan.upper, abs=1e-9)


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein", "lucrl"])
@pytest.mark.parametrize("name", ["markov", "history"])
def test_an_updated_search_equals_a_new_one(algorithm, name):
    """Bound and values after some rows changed are, to the bit, those from nothing."""
    rng = np.random.default_rng(5)
    model = small_model(rng, 3, 4, 2, 4)
    known, constants = Given.of(model), BonusConstants(3, 4, 2, 4, 1000, 0.1, 0.02)
    counts = Counts.from_visits(random_counts(rng, model, (100, 1000)))
    planner = make_planner(known, rule_named(algorithm), constants, name, np.random.default_rng(0))
    planner.replan(counts)
    search = planner.searches[0]
    for _ in range(10):
        rows = rng.choice(counts.rows, 2, replace=False)
        for row in rows:
            counts.n[row] += 50
            counts.n_next[counts.indptr[row]] += 50
            counts.snapshot(row)
        search.update(counts, rows)
        new = type(search)(known, search.rule, constants, counts)
        if name == "history":
            new.remember(search.memory, search.policy)
        policy = rng.integers(0, 2, search.N)
        assert search.evaluate(policy) == new.evaluate(policy)
        assert search.upper == new.upper
        np.testing.assert_array_equal(search.arrays.current.value, new.arrays.current.value)
        np.testing.assert_array_equal(search.arrays.known_action, new.arrays.known_action)


def test_mixing_finds_an_argmax_that_exploits():
    """At the cap every policy may be an argmax; the one played is best for the secondary model."""
    model = lm.make("troubleshoot")
    rng = np.random.default_rng(0)
    counts = Counts.from_visits(random_counts(rng, model, (2000, 20_000)))
    constants = BonusConstants(model.M, model.S, model.A, model.H, 10**6)
    planner = make_planner(Given.of(model), rule_named("mvp"), constants, "markov", rng)
    found = planner.replan(counts)
    first, second = planner.searches[:2]
    plain = first.policy.copy()
    assert found.value >= first.evaluate(plain) - EQUAL
    best, in_force = first.evaluate(plain), -1.0
    policy, value = by_mixing(planner, best, in_force)
    assert value == pytest.approx(first.evaluate(policy), abs=1e-12)
    assert value >= best - EQUAL
    assert second.evaluate(policy) >= second.evaluate(plain) - EQUAL


def maze_planner(visits, seed=0, settings=SEARCH):
    """A planner for a maze after such visits of its rows, and its counts."""
    model = lm.make("maze:size=4,goals=3,horizon=15")
    rng = np.random.default_rng(seed)
    counts = Counts.from_visits(random_counts(rng, model, visits))
    constants = setting_of(model, episodes=10**6)
    rule = rule_named("mvp")
    planner = make_planner(Given.of(model), rule, constants, "markov", rng, settings=settings)
    return planner, counts


@pytest.mark.parametrize("share", [0.1, 1e-9])
@pytest.mark.parametrize("seed", range(3))
def test_exploring_must_promise_a_share_of_what_it_costs(share, seed, monkeypatch):
    """All are argmaxes of the first model; the second prefers its own policy by a hair."""
    settings = replace(SEARCH, gain_per_loss=share)
    planner, counts = maze_planner((2, 10**5, 10**5, 10**5, 10**4), seed, settings)
    found = planner.replan(counts)
    first, second, third = planner.searches
    assert found.value >= first.upper - EQUAL
    assert first.evaluate(third.policy) >= first.upper - EQUAL
    gain = second.evaluate(second.policy) - second.evaluate(third.policy)
    loss = third.evaluate(third.policy) - third.evaluate(second.policy)
    assert 1e-5 < gain < 1e-2
    assert loss > 0.1
    exploits = gain < loss * share
    np.testing.assert_array_equal(planner.policy, (third if exploits else second).policy)
    asked = []  # a policy that exploits is kept, else all is asked

    def asking(planner, top):
        asked.append(top)
        return by_secondary(planner, top)

    monkeypatch.setattr(optimism_planner, "by_secondary", asking)
    planner.replan(counts, np.zeros(0, dtype=np.int64))
    assert len(asked) == (0 if exploits else 1)


def test_the_second_model_takes_the_estimates_policy_if_it_is_better():
    """Its own search may end in a poor local optimum; it then goes on from the better policy."""
    planner, counts = maze_planner((10_000,))
    planner.replan(counts)
    second, third = planner.searches[1:]
    planner.catch_up(2)
    good = third.improve(planner.effort, planner.perturb_stream)
    second.policy[:] = 0
    second.improve = lambda *_: second.evaluate(second.policy)  # finds nothing
    assert second.evaluate(second.policy) < good
    by_secondary(planner, planner.searches[0].upper - EQUAL)
    np.testing.assert_array_equal(second.policy, third.policy)


# two confidence sets are mixed nowhere but here: 8 s of compiling
@pytest.mark.parametrize("algorithm", ["mvp", pytest.param("bernstein", marks=pytest.mark.slow)])
def test_mixing_a_model_with_itself_is_two_sweeps(algorithm):
    """The slow twin of mixed sweeps are plain ones: twice the same objective."""
    rng = np.random.default_rng(3)
    changed = 0
    for _ in range(30):
        model = small_model(rng, 3, 3, 2, 4)
        counts = Counts.from_visits(random_counts(rng, model, (1000, 10**4, 10**5)))
        constants = BonusConstants(3, 3, 2, 4, 1000, 0.1, 0.01)
        one, two, twin = (
            MarkovSearch(Given.of(model), rule_named(algorithm), constants, counts) for _ in "123"
        )
        table = rng.integers(0, 2, (4, 3))
        for search in (one, two, twin):
            search.set_table(table)
        for _ in range(2):
            changed += swept_once(twin)
        for search in (one, two):
            search.evaluate(search.policy)
        value = mix(one.search, two.search, one.policy, np.array([2.0]), 0.0)
        assert value == pytest.approx(twin.evaluate(twin.policy), abs=1e-12)
        assert value == pytest.approx(one.evaluate(one.policy), abs=1e-12)
        assert value == pytest.approx(two.evaluate(one.policy), abs=1e-12)
        np.testing.assert_array_equal(one.policy, twin.policy)
    assert changed > 30


def test_mixing_stops_at_the_first_weight_that_is_enough():
    rng = np.random.default_rng(4)
    model = small_model(rng, 3, 3, 2, 4)
    counts = Counts.from_visits(random_counts(rng, model, (20, 1000)))
    known, constants = Given.of(model), BonusConstants(3, 3, 2, 4, 1000, 0.1, 0.02)
    reached = []
    for enough in (0.0, 2.0):
        one, two = (
            MarkovSearch(known, rule_named(name), constants, counts) for name in ("mvp", "greedy")
        )
        for search in (one, two):
            search.evaluate(search.policy)
        weights = np.array([1e-9, 1e9])
        reached.append(mix(one.search, two.search, one.policy, weights, enough))
        best = optimistic_plan(model, counts.visits(), "mvp", episodes=1000, bonus_scale=0.02)
    assert reached[0] < reached[1] <= best.upper + 1e-9


def test_what_keeps_failing_is_tried_less_and_less_often():
    backoff, tried = Backoff(), []
    for turn in range(40):
        backoff.turn()
        if backoff.due:
            tried.append(turn)
            backoff.tried(helped=turn == 18, most=7)
    assert tried == [0, 1, 4, 11, 18, 19, 20, 23, 30, 37]
    resumed = Backoff()
    resumed.restore(np.array(backoff.state()))
    assert resumed.state() == backoff.state() == [7, 5]
    backoff.tried(helped=True, most=7)
    backoff.turn()
    assert backoff.due


def test_proposals_of_no_use_rest(monkeypatch):
    """Where the bound is out of reach; mixing, which needs the proposal, rests by itself."""
    model = lm.make("hard:contexts=3,states=8")
    counts = Counts.for_model(model)
    rng, asked = np.random.default_rng(2), []
    planner = make_planner(
        Given.of(model), rule_named("mvp"), setting_of(model, 0.01), "markov", rng
    )
    monkeypatch.setattr(
        optimism_planner,
        "by_secondary",
        lambda planner, top: asked.append(top) or (planner.policy, -1.0),
    )
    planner.mixing.left = 100
    for _ in range(60):
        answer = planner.replan(counts, grow_counts(rng, model, counts, 20))
    assert answer.value < answer.upper - EQUAL
    assert 5 <= len(asked) <= 25


def test_the_value_belongs_to_the_policy_that_is_played():
    """A memory that gains edges may turn the policy in force into another graph: it is not kept."""
    model = lm.make("garnet:contexts=2,states=7,actions=2,horizon=4")
    session = Session(model, RunSpec("bernstein", 1000, "history", bonus_scale=0.01))
    while session.done < session.target:
        session.next_phase()
        learner = session.learner
        value = Reference(learner.solver.searches[0].model).value(learner.policy)
        assert learner.optimistic_value == pytest.approx(value, abs=1e-9)
