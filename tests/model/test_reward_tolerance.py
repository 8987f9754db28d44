"""One tolerance for equal rewards: `plan`, `evaluate`, `Learner`, cursors and beliefs agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import latentmdp as lm
from latentmdp.learning.knowledge import known_from
from latentmdp.learning.learner import Learner
from latentmdp.model.rows import REWARD_TOLERANCE, match_reward, rank_rewards
from latentmdp.policy.belief import update_belief


def guess_second(first, scale=1.0):
    """Two contexts; state 0 pays `first[m]` and leads to 1, where the context is guessed."""
    P = np.zeros((2, 2, 2, 2))
    P[:, :, :, 1] = 1.0
    R = np.zeros((2, 2, 2))
    R[:, 0, :] = np.array(first)[:, None]
    R[0, 1, 0] = R[1, 1, 1] = 0.5
    R = R * scale
    nu = [[1.0, 0.0], [1.0, 0.0]]
    return lm.LatentMDP.from_arrays(P, R, [0.5, 0.5], nu, 2, max_return=None)


def learned(model, known, episodes=64):
    """What a learner earns in its own loop when it has learned, and what `evaluate` says of it."""
    learner = Learner(known, "greedy", episodes=episodes, policy_class="history")
    earned = np.zeros(2)
    for k in range(episodes + 2):
        context = k % 2
        action, state, paid = learner.begin(0), 0, 0.0
        while action is not None:
            reward = float(model.R[context, state, action])
            paid, state = paid + reward, 1
            action = learner.step(reward, 1)
        if k < episodes:
            learner.end(context)
        else:
            learner.cancel()
            earned[context] = paid
    return earned.mean(), lm.evaluate(model, learner.policy).value


def test_rounding_error_is_no_information():
    model = guess_second([0.3, 0.1 + 0.2])
    assert lm.plan(model, gap=None).upper == pytest.approx(0.55)
    knowns = (model, known_from(model.R, model.w, model.nu, model.H))
    for known in knowns:
        earned, evaluated = learned(model, known)
        assert earned == pytest.approx(0.55)
        assert evaluated == pytest.approx(0.55)


def test_a_difference_above_the_tolerance_is_information_for_everyone():
    model = guess_second([0.3, 0.3 + 1e-6])
    assert lm.plan(model, gap=None).lower == pytest.approx(0.8, abs=1e-5)
    for known in (model, known_from(model.R, model.w, model.nu, model.H)):
        assert learned(model, known) == pytest.approx((0.8, 0.8), abs=1e-5)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("gap", [0.0, 0.5, 2.0, 1e4])
def test_the_tolerance_moves_with_the_units(scale, gap):
    model = guess_second([0.3, 0.3 * (1.0 + gap * REWARD_TOLERANCE)], scale)
    told_apart = gap > 1
    found = lm.plan(model, gap=None)
    assert found.lower / scale == pytest.approx(0.8 if told_apart else 0.55, abs=1e-4)
    belief = update_belief(model, model.w, 0, 0, 1, reward=float(model.R[1, 0, 0]))
    assert belief == pytest.approx([0.0, 1.0] if told_apart else [0.5, 0.5])
    normal = model.normalized()
    assert np.array_equal(normal.symbol, model.symbol)
    again = normal.replace(observe_rewards=False).replace(observe_rewards=True)
    assert np.array_equal(again.symbol, model.symbol)


def test_a_large_penalty_elsewhere_does_not_blur_other_rewards():
    model = guess_second([0.3, 0.3 + 1e-4])
    R = np.concatenate([model.R, np.full((2, 2, 1), -1e9)], axis=2)
    P = np.concatenate([model.P, model.P[:, :, :1]], axis=2)
    fined = lm.LatentMDP.from_arrays(P, R, model.w, model.nu, 2, max_return=None)
    assert lm.plan(fined, gap=None).lower == pytest.approx(0.8, abs=1e-3)


def test_zero_and_what_rounding_leaves_of_it_are_equal():
    assert guess_second([0.0, 0.1 + 0.2 - 0.3]).symbol.max() == 1  # state 1's guesses alone
    model = guess_second([0.0, 0.1 + 0.2 - 0.3])
    assert model.symbol_of(0, 0, 1, 0.0) == model.symbol_of(0, 0, 1, 5e-17) == 0


def test_repeated_outcomes_may_differ_by_rounding():
    columns = ([0, 0], [0, 0], [0, 0], [0, 0], [0.5, 0.5])
    model = lm.LatentMDP.from_rows(*columns, [0.3, 0.1 + 0.2], [1.0], [[1.0]], 1)
    assert model.reward == pytest.approx([0.3])
    assert not model.stochastic_rewards
    model = lm.LatentMDP.from_rows(*columns, [0.3, 0.3001], [1.0], [[1.0]], 1)
    assert model.reward.tolist() == [0.3001, 0.3]


def test_descriptions_use_the_tolerance():
    assert guess_second([0.3, 0.1 + 0.2]).describe().rewards_differ == ((1, 0), (1, 1))
    assert len(guess_second([0.3, 0.3001]).describe().rewards_differ) == 4


def test_chains_of_equal_rewards_are_one_reward():
    step = 0.9 * REWARD_TOLERANCE
    chain = 1.0 - step * np.arange(5)
    assert rank_rewards(np.zeros(5, dtype=np.int64), chain).tolist() == [0] * 5
    broken = np.array([*chain, 1.0 - 10 * step])
    assert rank_rewards(np.zeros(6, dtype=np.int64), broken).tolist() == [1] * 5 + [0]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.25, 1.0]), st.integers(-4, 4)),
        min_size=1, max_size=12,
    ),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_symbols_do_not_depend_on_the_order_and_every_reward_finds_its_own(entries, random):
    place = np.array([p for p, _, _ in entries])
    reward = np.array([r * (1 + 0.4 * REWARD_TOLERANCE * k) for _, r, k in entries])
    symbols = rank_rewards(place, reward)
    order = list(range(len(entries)))
    random.shuffle(order)
    assert np.array_equal(rank_rewards(place[order], reward[order]), symbols[order])
    for p in np.unique(place):
        here = place == p
        for r, symbol in zip(reward[here], symbols[here], strict=True):
            assert symbols[here][match_reward(reward[here], r, np.abs(reward).max())] == symbol
        assert sorted(set(symbols[here])) == list(range(symbols[here].max() + 1))
