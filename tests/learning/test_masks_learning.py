"""Learning with unavailable actions: never played, never visited, worth what they stand for."""

import copy
from functools import cache

import numpy as np
import pytest
from optimism_twin import best_table, graph_value, random_counts, small_model, table_value
from strategies import random_mask, random_masked

import latentmdp as lm
from latentmdp.environments import LatentMDPEnv
from latentmdp.learning.knowledge import known_from, nothing_known
from latentmdp.learning.learner import Learner
from latentmdp.learning.session import Session
from latentmdp.learning.simulation import simulate_counts, simulate_episodes
from latentmdp.learning.spec import RunSpec, algorithms
from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import BonusConstants, rule_named
from latentmdp.optimism.given import Given
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.substitutes import Substitutes
from latentmdp.policy.graph import PolicyGraph
from latentmdp.theory.auditing.audit import Auditor

DOMAINS = ("maze:size=3,goals=2,horizon=6,blocked=1", "troubleshoot:once=1,faults=2,horizon=4")
OPTIMISTIC = ("mvp", "bernstein", "lucrl", "greedy")


def available(model, policy):
    return model.allowed[policy.state, policy.action].all()


def masked_small(rng, **options):
    while True:
        model = small_model(rng, A=3, **options)
        allowed = random_mask(rng, model.S, model.A)
        if not allowed.all():
            return model.replace(allowed=allowed)


# ---------------------------------------------------------------------- optimistic planning


@pytest.mark.parametrize("algorithm", OPTIMISTIC)
def test_optimistic_plans_against_brute_force(algorithm):
    rng = np.random.default_rng(0)
    for i in range(12):
        model = masked_small(rng, on_transitions=i % 2 == 1)
        visits = random_counts(rng, model.unmasked())  # some at unavailable ones: ignored
        for scale in (1.0, 0.003):
            constants = BonusConstants(model.M, model.S, model.A, model.H, 1000, scale=scale)
            options = {"episodes": 1000, "bonus_scale": scale}
            plan = lm.optimistic_plan(model, visits, algorithm, **options)
            assert available(model, plan.policy)
            best = best_table(model, visits, algorithm, constants)
            assert plan.lower - 1e-9 <= best <= plan.upper + 1e-9
            assert abs(plan.lower - best) < 1e-9
            value = table_value(model, visits, algorithm, constants, plan.policy.table)
            assert abs(value - plan.lower) < 1e-9
            plan = lm.optimistic_plan(model, visits, algorithm, "history", **options)
            assert available(model, plan.policy)
            assert best - 1e-9 <= plan.upper
            value = graph_value(model, visits, algorithm, constants, plan.policy)
            assert abs(value - plan.lower) < 1e-9


@pytest.mark.parametrize("algorithm", [*OPTIMISTIC, "ucrl", "lucrl-uncapped", "psrl"])
@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_an_unavailable_action_is_planned_as_a_duplicate(algorithm, policy_class):
    rng = np.random.default_rng(1)
    for i in range(4):
        model = masked_small(rng, H=3, on_transitions=i % 2 == 1)
        visits = random_counts(rng, model.unmasked())
        repeated = visits[:, np.arange(model.S)[:, None], model.substitute]
        options = {"episodes": 1000, "bonus_scale": 0.01}
        plan = lm.optimistic_plan(model, visits, algorithm, policy_class, **options)
        assert available(model, plan.policy)
        if algorithm != "psrl":  # which draws anew for the duplicate
            twin = lm.optimistic_plan(
                model.unmasked(), repeated, algorithm, policy_class, **options
            )
            assert (plan.lower, plan.upper) == (twin.lower, twin.upper)
        again = lm.optimistic_plan(model, visits + 1, algorithm, policy_class, warm=plan, **options)
        assert available(model, again.policy)


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein", "psrl"])
def test_rows_of_the_optimistic_model_repeat_while_counts_grow(algorithm):
    rng = np.random.default_rng(2)
    for _ in range(10):
        model = masked_small(rng)
        known, rule = Given.of(model), rule_named(algorithm)
        constants = BonusConstants(model.M, model.S, model.A, model.H, 1000, scale=0.01)
        substitute_actions, counts = Substitutes(known), Counts.empty(model.M, model.S, model.A)
        for _ in range(30):
            row = int(rng.choice(np.flatnonzero(model.listed_rows)))
            counts.record(row, int(rng.integers(model.S)))
            counts.snapshot(row)
            seen = substitute_actions.of(counts)
            changed = substitute_actions.rows(np.array([row]))
            assert (substitute_actions.source[changed] == row).all()
            assert (counts.N[substitute_actions.source] == seen.N).all()
            assert seen.n.sum() == counts.n.sum()
            dense = counts.snapshot_visits().reshape(-1, model.S)[substitute_actions.source]
            assert (seen.snapshot_visits().reshape(-1, model.S) == dense).all()
        optimistic = ConfidenceModel.of(known, seen, rule, constants, rng)
        rows = optimistic.rows
        for r, source in enumerate(substitute_actions.source):
            here, there = optimistic.slots(r), optimistic.slots(source)
            for name in ("next", "p_hat", "reward", "lower", "upper"):
                assert (getattr(rows, name)[here] == getattr(rows, name)[there]).all()
            for name in ("gain", "c1", "c2", "unseen", "budget"):
                assert getattr(rows, name)[r] == getattr(rows, name)[source]


# ---------------------------------------------------------------------- learners


@pytest.mark.parametrize("algorithm", sorted(algorithms()))
@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_no_learner_plays_an_unavailable_action(algorithm, policy_class):
    rng = np.random.default_rng(3)
    for simulator in ("counts", "episodes"):
        model = random_masked(rng, 2, 3, 3, 3, negative=False, discounted=False)

        def look(phase, model=model):
            assert available(model, phase.policy)
            assert not phase.counts.n[~model.listed_rows].any()
            assert not phase.counts.N[~model.listed_rows].any()

        run = lm.learn(
            model, algorithm, 200, policy_class, simulator=simulator, bonus_scale=0.01,
            observer=look,
        )  # fmt: skip
        assert run.regret > -1e-9


@cache
def planned(spec, policy_class):
    model = lm.make(spec)
    plan = lm.plan(model, policy_class, gap=None, work_limit=10**6)
    found = lm.max_variance(model, policy_class, time_limit=2.0, exact_limit=2000)
    return model, plan, (found.lower, found.upper)


def check_audit(spec, algorithm, policy_class, episodes):
    model, optimal, variance = planned(spec, policy_class)
    auditor = Auditor(model, RunSpec(algorithm, episodes, policy_class, bonus_scale=0.03))
    run = lm.learn(
        model, algorithm, episodes, policy_class, bonus_scale=0.03, optimal=optimal,
        observer=auditor.observe,
    )  # fmt: skip
    assert lm.audit(run, auditor=auditor, variance=variance).bugs == ()


@pytest.mark.parametrize("spec", DOMAINS)
@pytest.mark.parametrize("algorithm", ["mvp", "bernstein", "ucrl"])
def test_audits_of_masked_domains_find_no_bug(spec, algorithm):
    check_audit(spec, algorithm, "history", 150)


@pytest.mark.slow
@pytest.mark.parametrize("spec", DOMAINS)
@pytest.mark.parametrize("algorithm", sorted(algorithms()))
def test_audits_of_all_algorithms_find_no_bug(spec, algorithm):
    episodes = 200 if algorithm == "psrl-episode" else 2000  # that one plans after each of them
    for policy_class in ("markov", "history"):
        check_audit(spec, algorithm, policy_class, episodes)


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein", "psrl", "random"])
@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_runs_resume_to_the_bit(algorithm, policy_class):
    model = lm.make(DOMAINS[0])
    spec = RunSpec(algorithm, 400, policy_class, bonus_scale=0.03)
    whole = Session(model, spec)
    states = []
    while whole.done < whole.target:
        whole.next_phase()
        states.append(copy.deepcopy(whole.state()))  # as a file would hold it
    for state in states[:: max(len(states) // 3, 1)]:
        session = Session.from_state(model, state)
        while session.done < session.target:
            session.next_phase()
        assert session.table().keys() == whole.table().keys()
        for name, column in whole.table().items():
            assert np.array_equal(session.table()[name], column), name


def test_a_saved_run_and_a_saved_learner_know_the_mask(tmp_path):
    model = lm.make(DOMAINS[1])
    run = lm.learn(model, "mvp", 300, bonus_scale=0.03)
    run.save(tmp_path / "run")
    again = lm.load_run(tmp_path / "run")
    assert again.model == model
    assert (again.table == run.table).all().all()
    assert lm.audit(again).bugs == ()
    learner = Learner(model, "mvp", episodes=100, policy_class="history")
    action = learner.begin(0)
    assert model.allowed[0, action]
    learner.save(tmp_path / "learner.npz")
    loaded = Learner.load(tmp_path / "learner.npz")
    assert (loaded.known.allowed == model.allowed).all()
    assert available(model, loaded.policy)
    wrong = learner.state()
    wrong["knowledge"]["known"]["allowed"] = np.zeros((model.S, model.A), dtype=bool)
    with pytest.raises(lm.ModelError, match="every state must have an available action"):
        Learner.from_state(wrong)


def test_random_policies_are_uniform_among_available_actions():
    allowed = np.array([[0, 1, 1, 0, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]], dtype=bool)
    P = np.full((1, 3, 5, 3), 1 / 3)
    model = lm.LatentMDP.from_arrays(
        P, np.zeros((3, 5)), [1.0], np.full(3, 1 / 3), 2, allowed=allowed
    )
    learner = Learner(model, "random", episodes=10, seed=0)
    seen = np.zeros((3, 5))
    for _ in range(3000):
        learner.update(np.zeros(0, dtype=np.int64))
        np.add.at(seen, (learner.policy.state, learner.policy.action), 1)
    assert (seen[~allowed] == 0).all()
    expected = 6000 / allowed.sum(axis=1)[:, None]
    assert (np.abs(seen - expected)[allowed[:, :]] < 6 * np.sqrt(6000 * 0.25)).all()


def test_learners_in_an_environment_with_a_mask():
    model = lm.make("maze:size=3,goals=2,horizon=6,blocked=1")
    env = LatentMDPEnv(model)  # which refuses what is unavailable
    for options in ({}, {"estimate": ("w", "nu", "R")}):
        found = lm.learn_env(env, episodes=60, bonus_scale=0.01, policy_class="history", **options)
        assert not found.learner.counts.n[~model.listed_rows].any()
    with pytest.raises(lm.ModelError, match="allowed must be part of what is given"):
        lm.learn_env(env, episodes=1, allowed=model.allowed)


def test_learning_from_sizes_and_a_mask_alone():
    model = lm.make("maze:size=3,goals=2,horizon=6,blocked=1")
    given = nothing_known(model.M, model.S, model.A, model.H, allowed=model.allowed)
    found = lm.learn_env(
        LatentMDPEnv(model), given, episodes=80, estimate=("w", "nu", "R"), bonus_scale=0.01
    )
    assert not found.learner.counts.n[~model.listed_rows].any()
    known = found.learner.known
    rewards = known.next_reward.reshape(model.M, model.S, model.A, model.S)
    for s, a in np.argwhere(~model.allowed):
        assert (rewards[:, s, a] == rewards[:, s, model.substitute[s, a]]).all()


def test_what_is_known_without_a_model_repeats_too():
    rng = np.random.default_rng(5)
    for i in range(20):
        model = masked_small(rng, on_transitions=i % 2 == 1)
        R = model.R
        R[:, ~model.allowed] = np.nan
        given = known_from(R, model.w, model.nu, model.H, allowed=model.allowed)
        known = Given.of(model)
        for name in ("row_reward", "next_reward", "allowed"):
            assert np.array_equal(getattr(given, name), getattr(known, name)), name


def test_a_learner_refuses_an_unavailable_action_and_simulators_a_policy_with_one():
    model = lm.make("maze:size=3,goals=2,horizon=6,blocked=1")
    learner = Learner(model, "mvp", episodes=10)
    state = int(np.flatnonzero(~model.allowed.all(axis=1))[0])
    action = int(np.argmin(model.allowed[state]))
    learner.begin(state)
    with pytest.raises(lm.ModelError, match=f"action {action} must be available in state {state}"):
        learner.step(0.0, 0, action=action)
    policy = PolicyGraph.from_table(np.full((model.H, model.S), action))
    for simulate in (simulate_counts, simulate_episodes):
        with pytest.raises(lm.ModelError, match="which is unavailable there"):
            simulate(model, policy, 10)
