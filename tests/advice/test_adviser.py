"""`Adviser`: the policy's own advice on its path, and advice that keeps a guarantee off it."""

import copy
import json
import math

import brute
import numpy as np
import pytest
from hypothesis import given, settings
from strategies import models_and_policies, random_masked, random_model, random_policy, seeds

import latentmdp as lm
from latentmdp.advice import BeliefValues

TINY = {"M": 3, "S": 2, "A": 2, "H": 3}


def weights_after(d, s, a, g):
    """`{(seen, next): weights}` of what can follow an action."""
    found = {}
    for m in range(d.M):
        if g[m] > 0:
            for p, _, seen, nxt in d.outcomes(m, s, a):
                weights = found.setdefault((seen, nxt), [0.0] * d.M)
                weights[m] += g[m] * p
    return found


def reward_now(d, s, a, g):
    return sum(g[m] * p * r for m in range(d.M) for p, r, _, _ in d.outcomes(m, s, a) if g[m] > 0)


def value_of_advice(d, adviser, t, g):
    """What following the adviser earns from weights `g` of the contexts on, by enumeration."""
    s, a = adviser.current_state, adviser.action
    total = reward_now(d, s, a, g)
    if t + 1 < d.H:
        for (seen, nxt), after in weights_after(d, s, a, g).items():
            following = copy.copy(adviser)
            following.observe(nxt, reward=seen)
            total += d.discount * value_of_advice(d, following, t + 1, after)
    return total


def rest(model, t, s, g):
    """The rest of an episode as a problem of its own."""
    nu = np.zeros((model.M, model.S))
    nu[:, s] = 1.0
    return model.replace(w=np.array(g) / sum(g), nu=nu, horizon=model.H - t, max_return=None)


def random_episode(rng, model, adviser, overrides):
    """Play at random, against the advice so many times; `(step, state, weights)` or None."""
    d = brute.Dense(model)
    first = [s for s in range(d.S) if any(d.w[m] * d.nu[m][s] > 0 for m in range(d.M))]
    s = int(rng.choice(first))
    g = [d.w[m] * d.nu[m][s] for m in range(d.M)]
    adviser.start(s)
    t = 0
    while overrides and t + 1 < d.H:
        others = [a for a in d.actions(s) if a != adviser.action]
        done = int(rng.choice(others)) if others and rng.random() < 0.7 else adviser.action
        overrides -= done != adviser.action
        after = weights_after(d, s, done, g)
        seen, nxt = list(after)[rng.integers(len(after))]
        g, s, t = after[seen, nxt], nxt, t + 1
        advised = adviser.observe(s, action=done, reward=seen)
        assert advised == adviser.action
    np.testing.assert_allclose(adviser.belief, np.array(g) / sum(g), atol=1e-9)
    return t, s, g


def check_value_after_overrides(model, plan, seed, **limits):
    """The property: at least the best Markov policy's value from there, and the best node's."""
    rng = np.random.default_rng(seed)
    adviser = lm.adviser(model, plan, **limits)
    t, s, g = random_episode(rng, model, adviser, int(rng.integers(1, 3)))
    if adviser.on_policy:  # nothing could be overridden
        return None
    d, total = brute.Dense(model), sum(g)
    value = value_of_advice(d, adviser, t, g) / total
    bounds = BeliefValues(model, plan)
    assert value >= bounds.lower(t, s, np.array(g) / total) - 1e-9
    values = adviser.values
    assert values[adviser.action, 0] <= value + 1e-9
    right = rest(model, t, s, g)
    best = brute.best_history_value(right)
    assert value <= best + 1e-9 <= np.nanmax(values[:, 1]) + 2e-9
    return value, right, best


@given(models_and_policies(**TINY), seeds)
@settings(max_examples=60, deadline=None)
def test_after_overrides_the_value_is_the_optimum_of_small_models(pair, seed):
    model, policy = pair
    found = check_value_after_overrides(model, policy, seed)
    if found is None:
        return
    value, right, best = found
    assert value >= best - 1e-9 * max(1.0, abs(best))
    assert value >= brute.best_markov_value(right) - 1e-9


@given(models_and_policies(**TINY), seeds)
@settings(max_examples=60, deadline=None)
def test_look_ahead_alone_is_worth_the_best_node(pair, seed):
    check_value_after_overrides(*pair, seed, time_limit=0)


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_masked_actions_are_never_advised(seed):
    rng = np.random.default_rng(seed)
    model = random_masked(rng, **TINY)
    policy = lm.PolicyGraph.from_table(model.substitute[:, 0][None].repeat(model.H, 0))
    check_value_after_overrides(model, policy, seed)


def follow_policy(model, policy, adviser_options=None):
    """Both along all histories of the policy: the same advice."""
    d = brute.Dense(model)

    def walk(adviser, cursor, t, g):
        assert adviser.action == cursor.action
        assert adviser.on_policy
        s = adviser.current_state
        for (seen, nxt), after in weights_after(d, s, adviser.action, g).items():
            one, other = copy.copy(adviser), copy.copy(cursor)
            assert one.observe(nxt, reward=seen) == other.observe(nxt, reward=seen)
            np.testing.assert_allclose(one.belief, np.array(after) / sum(after), atol=1e-9)
            if t + 1 < min(d.H, 4):
                walk(one, other, t + 1, after)

    for s in range(model.S):
        g = [d.w[m] * d.nu[m][s] for m in range(d.M)]
        if sum(g) > 0:
            adviser = lm.adviser(model, policy)
            adviser.start(s)
            walk(adviser, policy.cursor(s, model), 0, g)


@given(models_and_policies())
@settings(max_examples=60, deadline=None)
def test_on_its_path_the_advice_is_the_policys(pair):
    follow_policy(*pair)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_on_the_path_of_a_plan_too(seed):
    model = random_model(np.random.default_rng(seed))
    follow_policy(model, lm.plan(model, gap=0.01).policy)


@given(models_and_policies(**TINY), seeds)
@settings(max_examples=25, deadline=None)
def test_a_saved_state_gives_the_same_advice(pair, seed):
    model, policy = pair
    rng = np.random.default_rng(seed)
    adviser, d = lm.adviser(model, policy), brute.Dense(model)
    t, s, g = random_episode(rng, model, adviser, int(rng.integers(0, 3)))
    while True:
        text = json.dumps(adviser.state())
        again = lm.Adviser.from_state(model, policy, json.loads(text))
        assert json.dumps(again.state()) == text
        assert again.action == adviser.action
        if adviser.action is None:
            break
        np.testing.assert_array_equal(again.values, adviser.values)
        done = adviser.action if rng.random() < 0.7 else int(rng.choice(d.actions(s)))
        after = weights_after(d, s, done, g)
        seen, nxt = list(after)[rng.integers(len(after))]
        g, s, t = after[seen, nxt], nxt, t + 1
        adviser.observe(s, action=done, reward=seen)
        again.observe(s, action=done, reward=seen)
        assert json.dumps(again.state()) == json.dumps(adviser.state())
    assert t == model.H


# ---------------------------------------------------------------------- the cases


@pytest.mark.parametrize("other", ["test 1", "test 3", "replace fan"])
def test_another_test_first_is_no_reason_to_forget_it(other):
    """Told to do one test, people do another: the old default nodes had 0.434 of 0.827."""
    model = lm.make("troubleshoot:faults=4,tests=3,horizon=12")
    adviser, d = lm.plan(model).adviser(), brute.Dense(model)
    other = model.action_names.index(other)
    assert adviser.start("broken") != other
    worth = best = reward_now(d, 0, other, d.w)
    for (seen, nxt), after in weights_after(d, 0, other, d.w).items():
        following = copy.copy(adviser)
        following.observe(nxt, action=other, reward=seen)
        worth += following.values[following.action, 0] * sum(after)
        best += lm.plan(rest(model, 1, nxt, after), gap=None).upper * sum(after)
    assert worth == pytest.approx(best, abs=1e-9)
    if other == 2:
        assert worth == pytest.approx(0.8268, abs=1e-4)


def doctor():
    """Two diseases. An antibiotic helps against one and tells by its effect which one it is."""
    P = np.zeros((2, 3, 3, 3))  # states: ill, worse, well; actions: antibiotic, steroid, rest
    P[:, 2, :, 2] = 1.0
    well = np.array([[0.7, 0.1, 0.15], [0.1, 0.7, 0.15]])  # by disease and action
    worse = np.array([[0.1, 0.5, 0.1], [0.5, 0.1, 0.4]])
    for m in range(2):
        for s, factor in ((0, 1.0), (1, 0.6)):
            P[m, s, :, 2] = well[m] * factor
            P[m, s, :, 1] = worse[m] if s == 0 else 1.0 - well[m] * factor
            P[m, s, :, 0] = 1.0 - P[m, s].sum(axis=1)
    R = np.zeros((2, 3, 3))
    R[:, 0], R[:, 1] = -1.0, -3.0
    return lm.LatentMDP.from_arrays(
        P, R, [0.6, 0.4], [[1.0, 0.0, 0.0]] * 2, 6, max_return=None,
        state_names=("ill", "worse", "well"), action_names=("antibiotic", "steroid", "rest"),
        context_names=("bacteria", "inflammation"),
    )  # fmt: skip


def test_a_doctor_who_overrides_gets_the_answer_to_what_was_done():
    model = doctor()
    plan = lm.plan(model, gap=None)
    adviser = plan.adviser()
    assert adviser.start("ill") == 0
    adviser.observe("worse", action="rest")
    belief = lm.update_belief(model, model.w, 0, 2, 1, reward=-1.0)
    np.testing.assert_allclose(adviser.belief, belief)
    best = brute.best_history_value(rest(model, 1, 1, belief))
    values = adviser.values
    assert values[adviser.action, 0] == pytest.approx(best)
    assert values[:, 1].max() == pytest.approx(best)
    cursor = plan.policy.cursor(0)
    cursor.observe(1, action=2)
    np.testing.assert_allclose(cursor.belief, belief)
    assert not np.allclose(belief, lm.update_belief(model, model.w, 0, 0, 1, reward=-1.0))


# ---------------------------------------------------------------------- other kinds of models


def test_step_dependent_models_and_terminal_rewards():
    rng = np.random.default_rng(3)
    for seed in range(6):
        P = rng.dirichlet(np.ones(2), (3, 2, 2, 2))
        R = rng.random((3, 2, 2, 2))
        model = lm.LatentMDP.from_arrays(
            P, R, [0.4, 0.6], [[0.5, 0.5]] * 2, 3, terminal=rng.random((2, 2)), max_return=None,
            observe_rewards=bool(seed % 2),
        )  # fmt: skip
        plan = lm.plan(model, gap=None)
        adviser = plan.adviser()
        other = 1 - adviser.start(seed % 2)
        reward = float(R[0, 1, seed % 2, other])
        adviser.observe(1, action=other, reward=reward)
        weight = np.array([0.4, 0.6]) * P[0, :, seed % 2, other, 1]
        if model.observe_rewards:
            weight[0] = 0.0
        np.testing.assert_allclose(adviser.belief, weight / weight.sum())
        chosen = adviser.values[adviser.action, 0]
        there = model.from_step(1).replace(w=adviser.belief, nu=[0.0, 1.0], max_return=None)
        assert chosen == pytest.approx(lm.plan(there, gap=None).lower, abs=1e-9)


def test_without_a_last_step_advice_goes_on_for_ever():
    model = lm.make(
        "garnet:contexts=2,states=3,actions=2,branching=2,horizon=9,shared_support=1"
    ).replace(discount=0.9, horizon=math.inf, max_return=None)
    plan = lm.plan(model, gap=0.001)
    adviser, cursor = plan.adviser(), plan.policy.cursor(0)
    rng = np.random.default_rng(0)
    adviser.start(0)
    state = 0

    for t in range(30):
        assert adviser.action == cursor.action
        row = int(state * model.A + adviser.action)
        i = int(rng.integers(model.indptr[row], model.indptr[row + 1]))
        state, reward = int(model.next[i]), float(model.reward[i])
        assert adviser.observe(state, reward=reward) == cursor.observe(state, reward=reward)
        assert adviser.step == t + 1
    other = 1 - adviser.action
    i = int(model.indptr[state * model.A + other])
    adviser.observe(int(model.next[i]), action=other, reward=float(model.reward[i]))
    nu = np.zeros((2, 3))
    nu[:, adviser.current_state] = 1.0
    there = lm.plan(model.replace(w=adviser.belief, nu=nu, max_return=None), gap=None)
    low, high = adviser.values[adviser.action]
    assert there.upper * 0.999 - 1e-9 <= low <= there.upper + 1e-9
    assert high >= there.lower - 1e-9
    again = lm.Adviser.from_state(model, plan, adviser.state())
    assert again.state() == adviser.state()


# ---------------------------------------------------------------------- what is given


def test_names_and_numbers_mean_the_same():
    plan = lm.plan(doctor())
    one, other = plan.adviser(), lm.adviser(doctor(), plan.policy)
    assert one.start("ill") == other.start(0)
    assert one.observe("worse", action="rest") == other.observe(1, action=2)
    assert one.state() == other.state()
    assert "state worse" in repr(one)


def test_what_cannot_be_is_refused_and_changes_nothing():
    model = lm.make("mastermind")
    adviser = lm.plan(model).adviser()
    with pytest.raises(lm.ModelError, match=r"must have begun: start\(state\) comes first"):
        adviser.observe(0)
    P = np.zeros((2, 2, 2, 2))
    P[0, :, 0, 0] = P[1, :, 0, 1] = 1.0
    P[:, :, 1, 0] = 1.0
    R = np.zeros((2, 2, 2))
    R[1, 0, 1] = 0.5
    model = lm.LatentMDP.from_arrays(P, R, [0.5, 0.5], [[1, 0]] * 2, 3, max_return=None)
    adviser = lm.adviser(model, np.zeros(2, dtype=int))
    adviser.start(0)
    before = adviser.state()
    for given_, message in (
        (
            {"next_state": 2},
            "the next state must be a whole number from 0 to 1, or a name; it is 2",
        ),
        ({"next_state": "a"}, "the model has no names"),
        ({"next_state": 0, "action": 2}, "the action must be a whole number from 0 to 1"),
        ({"next_state": 0, "action": True}, "the action must be a whole number"),
        ({"next_state": 1, "action": 1, "reward": 0.0}, "none leads to .state 0, action 1, next 1"),
        ({"next_state": 0, "action": 1}, "the reward must be given: contexts pay differently"),
        ({"next_state": 0, "action": 1, "reward": 0.2}, "some context pays after what was seen"),
        ({"next_state": 0, "reward": "x"}, "the reward must be a number; it is 'x'"),
    ):
        with pytest.raises(lm.ModelError, match=message):
            adviser.observe(**given_)
        assert adviser.state() == before
    with pytest.raises(lm.ModelError, match="the first state must be one that some context begins"):
        adviser.start(1)
    adviser.observe(1, reward=0.0)  # context 1 for sure
    with pytest.raises(lm.ModelError, match="none leads to"):
        adviser.observe(0, action=0)
    adviser.observe(0, action=0, accept_unexpected=True)  # what this alone leaves: context 0
    np.testing.assert_array_equal(adviser.belief, [1.0, 0.0])
    adviser.set_belief([1, 3])
    np.testing.assert_array_equal(adviser.belief, [0.25, 0.75])
    assert adviser.action == 1  # pays in context 1
    assert adviser.observe(0, reward=0.5) is None
    with pytest.raises(lm.ModelError, match="must not be over; it has had its 3 steps"):
        adviser.observe(0)


def test_states_of_other_models_are_refused():
    model = doctor()
    plan = lm.plan(model)
    adviser = plan.adviser()
    adviser.start(0)
    state = adviser.state()
    with pytest.raises(lm.ModelError, match="must be of an adviser for this model and policy"):
        lm.Adviser.from_state(model, lm.plan(model, "markov"), state)
    for broken, message in (
        ({"step": 9}, "state.step must be"),
        ({"belief": [0.5]}, "belief"),
        ({"action": None}, "state.action must"),
        ({"planned_at": {"step": 3, "state": 0, "belief": [1, 0]}}, "planned_at.step must be"),
    ):
        with pytest.raises(lm.ModelError, match=message):
            lm.Adviser.from_state(model, plan, state | broken)
    with pytest.raises(lm.ModelError, match="must be a group of entries"):
        lm.Adviser.from_state(model, plan, [])


def test_advisers_of_plans_fits_and_tables():
    model = lm.make("bandit:arms=2,contexts=2,horizon=4,seed=0")
    table = lm.rollout(model, np.zeros(model.S, dtype=int), episodes=50, names=True)
    fit = lm.fit(table, on_bad="skip", prior=0.5)
    found, first = fit.plan(policy_class="markov"), int(fit.model.nu[0].argmax())
    assert fit.adviser(found).start(first) == found.policy.cursor(first).action
    assert lm.plan(model).adviser().start(0) == lm.plan(model).policy.cursor(0).action
    with pytest.raises(lm.ModelError, match="an adviser needs a LatentMDP"):
        lm.adviser(found, found)
    with pytest.raises(lm.ModelError, match="time_limit must be seconds, or None"):
        lm.adviser(model, found, time_limit=-1)


def test_the_policy_of_a_large_graph_is_found_by_place():
    model = random_model(np.random.default_rng(2), **TINY)
    policy = random_policy(np.random.default_rng(2), model)
    vectors = BeliefValues(model, policy).vectors
    for t in range(model.H):
        for s in range(model.S):
            found = set(vectors.nodes(t, s).tolist())
            assert found == {
                n for n in range(policy.N) if (policy.step[n], policy.state[n]) == (t, s)
            }
