"""`Cursor.observe` takes what people see, and refuses what the model cannot produce."""

import pickle

import brute
import numpy as np
import pytest
from hypothesis import given
from strategies import models_and_policies, seeds

import latentmdp as lm
from latentmdp.policy.graph import PolicyGraph


def guess(observe_rewards=True):
    """State 0 pays 0.1 or 0.2 by context and leads to 1, where the context is to be guessed."""
    P = np.zeros((2, 3, 2, 3))
    P[:, :, :, 1] = 1.0
    R = np.zeros((2, 3, 2))
    R[0, 0], R[1, 0] = 0.1, 0.2
    R[0, 1, 0] = R[1, 1, 1] = 0.5
    nu = [[1.0, 0.0, 0.0]] * 2
    return lm.LatentMDP.from_arrays(P, R, [0.5, 0.5], nu, 2, observe_rewards=observe_rewards)


@pytest.mark.parametrize("context", [0, 1])
def test_a_reward_by_name_reaches_the_memory(context):
    plan = lm.plan(guess(), gap=None)
    cursor = plan.policy.cursor(0)
    assert cursor.observe(1, reward=[0.1, 0.2][context]) == context
    assert cursor.observe(1, reward=0.5) is None


def test_positions_do_not_pass_for_rewards_or_symbols():
    cursor = lm.plan(guess(), gap=None).policy.cursor(0)
    with pytest.raises(TypeError):
        cursor.observe(1, 0.2)


def test_what_the_model_cannot_produce_is_refused_unless_accepted():
    policy = lm.plan(guess(), gap=None).policy
    for keywords, match in (
        (
            {"next_state": 1, "reward": 0.15},
            r"must be one that .* pays .* \(0.1, 0.2\); it is 0.15",
        ),
        ({"next_state": 1, "reward": 1}, "accept_unexpected=True goes on as if"),
        ({"next_state": 2, "reward": 0.1}, "none leads to .state 0, action 0, next 2"),
        ({"next_state": 1}, "the reward must be given: contexts pay differently"),
        ({"next_state": 3, "reward": 0.1}, "next state must be a whole number from 0 to 2"),
    ):
        cursor = policy.cursor(0)
        before = cursor.node
        with pytest.raises(lm.ModelError, match=match):
            cursor.observe(**keywords)
        assert cursor.node == before
    cursor = policy.cursor(0)
    cursor.observe(2, reward=7.0, accept_unexpected=True)
    assert cursor.node == policy.default[1, 2]


def test_contexts_that_were_ruled_out_cannot_pay_any_more():
    model = guess().replace(horizon=3, max_return=None)
    cursor = lm.plan(model, gap=None).policy.cursor(0)
    cursor.observe(1, reward=0.2)
    assert cursor.possible.tolist() == [False, True]
    with pytest.raises(lm.ModelError, match=r"seen so far \(0.5\); it is 0.0"):
        cursor.observe(1, reward=0.0)


def test_hidden_rewards_and_rewards_that_say_nothing_need_not_be_given():
    assert lm.plan(guess(False), gap=None).policy.cursor(0).observe(1) in (0, 1)
    model = lm.make("maze:size=3,goals=2,horizon=5,seed=0")
    cursor = lm.plan(model, gap=0.1).policy.cursor(int(model.nu[0].argmax()))
    row = int(model.nu[0].argmax()) * model.A + cursor.action
    assert cursor.observe(int(model.next[model.indptr[row]])) is not None


def test_a_policy_without_its_model_asks_for_it(tmp_path):
    model = guess()
    policy = lm.plan(model, gap=None).policy
    policy.save(tmp_path / "policy.npz")
    loaded = PolicyGraph.load(tmp_path / "policy.npz")
    assert loaded == policy
    with pytest.raises(lm.ModelError, match=r"needs the model: policy.cursor\(state, model\)"):
        loaded.cursor(0).observe(1, reward=0.2)
    assert loaded.cursor(0, model).observe(1, reward=0.2) == 1
    assert pickle.loads(pickle.dumps(policy)).cursor(0).observe(1, reward=0.2) == 1
    with pytest.raises(lm.ModelError, match="the policy must be for"):
        loaded.cursor(0, lm.make("bandit"))


def test_rewards_of_a_normalised_model_are_its_own():
    model = lm.LatentMDP.from_arrays(
        guess().P, guess().R * 100, [0.5, 0.5], guess().nu, 2, max_return=None
    ).normalized()
    cursor = lm.plan(model, gap=None).policy.cursor(0)
    with pytest.raises(lm.ModelError, match=r"in normalised units\); it is 20.0"):
        cursor.observe(1, reward=20.0)
    assert cursor.observe(1, reward=20.0 / model.reward_scale) == 1


def test_markov_policies_need_no_rewards():
    markov = lm.plan(guess(), "markov", gap=None).policy
    assert markov.cursor(0).observe(1) == markov.table[1, 1]
    assert PolicyGraph.from_table(markov.table).cursor(0).observe(1, reward=0.7) is not None


@given(models_and_policies())
def test_rewards_and_symbols_lead_to_the_same_nodes(pair):
    model, policy = pair
    d = brute.Dense(model)

    def follow(m, seen_so_far):
        """Play on from these observations of context `m`, by reward and by symbol."""
        first, *after = seen_so_far
        by_reward, by_symbol = (policy.cursor(first, model) for _ in range(2))
        for nxt, reward, symbol in after:
            by_reward.observe(nxt, reward=reward)
            by_symbol.observe(nxt, symbol=symbol)
        assert by_reward.node == by_symbol.node
        assert by_reward.possible[m]
        s = after[-1][0] if after else first
        if len(after) < min(model.H, 3):
            for _, reward, seen, nxt in d.outcomes(m, s, by_symbol.action):
                symbol = d.symbol(s, by_symbol.action, seen, nxt)
                follow(m, [*seen_so_far, (nxt, reward, symbol)])

    for m in range(model.M):
        for s in range(model.S):
            if model.w[m] * model.nu[m, s] > 0:
                follow(m, [s])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"next_state": "a"}, "the next state must be a whole number from 0 to"),
        ({"next_state": 1, "reward": "x"}, "the reward must be a number; it is 'x'"),
        (
            {"next_state": 1, "reward": 0.1, "symbol": 0},
            "reward and reading, or symbol, must be given, not both",
        ),
    ],
)
def test_what_is_no_observation_is_refused_in_a_sentence(given, message):
    cursor = lm.plan(guess(True), gap=None).policy.cursor(0)
    with pytest.raises(lm.ModelError, match=message):
        cursor.observe(**given)


# ---------------------------------------------------------------------- other actions than asked


@given(models_and_policies(), seeds)
def test_after_another_action_the_cursor_is_at_the_best_node_for_the_belief(pair, seed):
    model, policy = pair
    rng, d = np.random.default_rng(seed), brute.Dense(model)
    alpha = lm.evaluate(model, policy).alpha
    m = int(rng.choice(model.M, p=model.w))
    s = int(rng.choice(model.S, p=model.nu[m]))
    cursor, belief = policy.cursor(s, model), lm.initial_belief(model, s)
    for t in range(model.H):
        done = int(rng.integers(model.A))
        overridden = done != cursor.action
        outcomes = list(d.outcomes(m, s, done))
        _, _, seen, nxt = outcomes[rng.integers(len(outcomes))]
        belief = lm.update_belief(model, belief, s, done, nxt, reward=seen)
        asked = cursor.observe(nxt, action=done, reward=seen)
        np.testing.assert_allclose(cursor.belief, belief, atol=1e-12)
        assert (asked is None) == (t == model.H - 1)
        if asked is None:
            break
        here = [n for n in range(policy.N) if policy.step[n] == t + 1 and policy.state[n] == nxt]
        assert cursor.node in here
        if overridden and not policy.is_markov:
            assert alpha[cursor.node] @ belief >= max(alpha[here] @ belief) - 1e-12
        if policy.is_markov:
            assert cursor.node == policy.default[t + 1, nxt]
        s = nxt


def test_without_its_model_a_policy_with_memory_names_the_adviser(tmp_path):
    plan = lm.plan(guess(), gap=None)
    plan.policy.save(tmp_path / "policy.npz")
    loaded, markov = PolicyGraph.load(tmp_path / "policy.npz"), plan.policy.table
    cursor = loaded.cursor(0)
    other = 1 - cursor.action
    with pytest.raises(lm.ModelError, match=r"policy's own, .*lm.adviser\(model, policy\) goes on"):
        cursor.observe(1, action=other, symbol=0)
    assert loaded.cursor(0, guess()).observe(1, action=other, reward=0.2) == 1
    assert PolicyGraph.from_table(markov).cursor(0).observe(1, action=other) == markov[1, 1]


def test_what_was_not_advised_is_refused_with_the_way_to_say_it():
    cursor = lm.plan(guess(), gap=None).policy.cursor(0)
    for observation in ({"next_state": 2, "reward": 0.1}, {"next_state": 1, "reward": 0.3}):
        with pytest.raises(lm.ModelError, match=r"say so: action=, also in lm.adviser\(model"):
            cursor.observe(**observation)
    for action, message in ((2, "must be available in state 0 .0, 1.; it is 2"), ("a", "whole")):
        with pytest.raises(lm.ModelError, match=message):
            cursor.observe(1, action=action, reward=0.1)
