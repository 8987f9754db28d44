"""Building, checking, labelling and viewing models."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import models

import latentmdp as lm
from latentmdp.model.rows import sum_tolerance

P1 = np.array([[[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]]] * 2)  # M=2, S=2, A=2
R1 = np.array([[[0.1, 0.2], [0.0, 0.0]], [[0.3, 0.2], [0.0, 0.1]]])
W1, NU1 = np.array([0.5, 0.5]), np.array([[1.0, 0.0], [0.5, 0.5]])


def build(P=P1, R=R1, w=W1, nu=NU1, horizon=3, **options):
    return lm.LatentMDP.from_arrays(P, R, w, nu, horizon, **options)


def test_rows_are_canonical():
    model = build()
    assert (model.M, model.S, model.A, model.H, model.Gamma) == (2, 2, 2, 3, 2)
    np.testing.assert_array_equal(model.indptr, [0, 2, 3, 4, 6, 8, 9, 10, 12])
    np.testing.assert_array_equal(model.next, [0, 1, 0, 1, 0, 1] * 2)
    # symbols: rank of the reward among the contexts' rewards at (s, a)
    np.testing.assert_array_equal(model.symbol, [0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1])
    np.testing.assert_array_equal(model.P, P1)
    np.testing.assert_array_equal(model.R, R1)
    assert model.replace(observe_rewards=False).symbol.max() == 0


def test_symbols_of_rewards_on_transitions_are_ranks_at_state_action_next():
    R = np.zeros((2, 2, 2, 2))
    R[:, 0, 0, 0] = [0.2, 0.1]
    R[:, 0, 0, 1] = [0.1, 0.1]
    model = build(R=R)
    assert model.rewards_on_transitions
    assert model.symbol_of(0, 0, 0, 0.2) == 0, "from the largest down"
    assert model.symbol_of(0, 0, 0, 0.1) == 1
    assert model.symbol_of(0, 0, 1, 0.1) == 0
    assert model.symbol_of(0, 0, 1, 0.7) == -1
    assert model.symbol_of(0, 1, 1, 0.0) == -1, "that next state is impossible"


@given(models(), st.randoms(use_true_random=False))
def test_rows_in_any_order_give_the_same_model(model, random):
    row = np.repeat(np.arange(len(model.indptr) - 1), np.diff(model.indptr))
    order = list(range(len(row)))
    random.shuffle(order)
    halves = np.array(order + order)  # every outcome twice, with half the probability
    context, sa = np.divmod(row[halves], model.S * model.A)
    again = lm.LatentMDP.from_rows(
        context, sa // model.A, sa % model.A, model.next[halves], model.prob[halves] / 2,
        model.reward[halves], model.w, model.nu, model.H, n_actions=model.A,
        observe_rewards=model.observe_rewards, discount=model.discount, max_return=None,
    )  # fmt: skip
    assert again == model


@given(models())
def test_dense_views_there_and_back(model):
    again = lm.LatentMDP.from_arrays(
        model.P, model.R, model.w, model.nu, model.H, observe_rewards=model.observe_rewards,
        discount=model.discount, max_return=None,
    )  # fmt: skip
    assert again == model
    other = model.replace(observe_rewards=not model.observe_rewards)
    assert other != model or model.symbol.max() == 0
    assert other.replace(observe_rewards=model.observe_rewards) == model


@given(models())
def test_hiding_rewards_keeps_each_outcome(model):
    hidden, seen = (model.replace(observe_rewards=x) for x in (False, True))
    np.testing.assert_array_equal(hidden.P, seen.P)
    np.testing.assert_array_equal(hidden.R, seen.R)
    row = np.repeat(np.arange(len(seen.indptr) - 1), np.diff(seen.indptr))
    order = np.lexsort((seen.next, seen.symbol, row))
    np.testing.assert_array_equal(order, np.arange(len(row)))


def test_hidden_repeated_rows_average_their_rewards_and_observed_ones_stay_apart():
    rows = dict(context=[0, 0], state=[0, 0], action=[0, 0], next=[0, 0])
    common = dict(w=[1.0], nu=[[1.0]], horizon=1)
    model = lm.LatentMDP.from_rows(
        **rows, prob=[0.25, 0.75], reward=[0.0, 1.0], **common, observe_rewards=False
    )
    assert model.reward.tolist() == [0.75]
    model = lm.LatentMDP.from_rows(**rows, prob=[0.25, 0.75], reward=[0.0, 1.0], **common)
    assert (model.reward.tolist(), model.symbol.tolist()) == ([1.0, 0.0], [0, 1])


def test_tolerance_grows_with_the_row():
    for n in (10, 1000, 100_000):
        p = np.full(n, 1.0 / n)
        p /= p.sum()
        assert abs(p.sum() - 1) <= sum_tolerance(n)
    assert sum_tolerance(10) < 2e-14 < 1e-6 * sum_tolerance(10) * 1e9
    ten_tenths = np.full(10, 0.1)
    ten_tenths[:] = 0.1
    P = np.zeros((1, 10, 1, 10))
    P[:] = ten_tenths
    lm.LatentMDP.from_arrays(P, np.zeros((1, 10, 1)), [1.0], [ten_tenths], 1)
    P[0, 3, 0, 0] += 1e-12
    with pytest.raises(lm.ModelError, match=r"P\[m=0, s=3, a=0\] must sum to 1"):
        lm.LatentMDP.from_arrays(P, np.zeros((1, 10, 1)), [1.0], [ten_tenths], 1)


REFUSALS = {
    "P sums": (dict(P=P1 * 0.97), r"P\[m=0, s=0, a=0\] must sum to 1; it sums to 0.97"),
    "P negative": (dict(P=P1 - 0.1), r"P\[m=0, s=0, a=1, next=1\] must be at least 0; it is -0.1"),
    "P NaN": (dict(P=P1 * np.nan), r"P\[m=0, s=0, a=0, next=0\] must be finite; it is nan"),
    "P shape": (dict(P=P1[0]), r"P must have the shape \(M, S, A, S\).*it is \(2, 2, 2\)"),
    "P text": (dict(P="abc"), "P must be an array of numbers"),
    "P ragged": (dict(P=[[1.0], [1.0, 2.0]]), "P must be an array of numbers"),
    "R shape": (dict(R=R1[:1]), r"R must have the shape \(2, 2, 2\) or \(2, 2, 2, 2\)"),
    "R infinite": (dict(R=R1 + np.inf), r"R\[m=0, s=0, a=0\] must be finite; it is inf"),
    "R negative": (dict(R=R1 - 0.15), r"R\[m=0, s=0, a=0\] must be at least 0; it is -0.0"),
    "R too large": (dict(R=R1 * 3), r"at most max_return=1; context 0 can reach 1\.\d"),
    "w shape": (dict(w=[1.0]), r"w must have the shape \(2,\)"),
    "w sums": (dict(w=[0.5, 0.6]), "w must sum to 1; it sums to 1.1"),
    "w negative": (dict(w=[1.5, -0.5]), r"w\[m=1\] must be at least 0"),
    "nu shape": (dict(nu=NU1[:1]), r"nu must have the shape \(2, 2\)"),
    "nu sums": (dict(nu=NU1 * 2), r"nu\[m=0\] must sum to 1; it sums to 2"),
    "horizon 0": (dict(horizon=0), "horizon must be a whole number of at least 1; it is 0"),
    "horizon huge": (dict(horizon=10**12), "horizon must be at most 1000000"),
    "max_return NaN": (dict(max_return=np.nan), "max_return must be finite and at least 0"),
    "totals overflow": (dict(R=R1 * 1e308, horizon=9, max_return=None), "must stay below"),
    "horizon 2.5": (dict(horizon=2.5), "horizon must be a whole number"),
    "horizon text": (dict(horizon="3"), "horizon must be a whole number"),
    "discount 0": (dict(discount=0.0), "discount must be above 0 and at most 1; it is 0"),
    "discount NaN": (dict(discount=np.nan), "discount must be above 0"),
    "observe": (dict(observe_rewards="yes"), "observe_rewards must be True or False"),
    "names": (dict(state_names=["a"]), "state_names must be 2 strings; found 1"),
    "label": (dict(colour="red"), "the labels are .* not 'colour'"),
    "layout": (dict(layout=lm.Layout((1, 1), [(0, 0)])), "layout must be a Layout with 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_say_what_must_hold_what_was_found_and_where(case):
    options, message = REFUSALS[case]
    with pytest.raises(lm.ModelError, match=message):
        build(**options)


ROWS = dict(
    context=[0, 0], state=[0, 1], action=[0, 0], next=[1, 1], prob=[1.0, 1.0], reward=[0, 0]
)
ROW_REFUSALS = {
    "missing row": (dict(state=[0, 0], prob=[0.5, 0.5]), r"P\[s=1\].*no outcomes at all"),
    "context": (dict(context=[0, 7]), r"context\[1\] must be from 0 to 0; it is 7"),
    "state": (dict(state=[0, -1]), r"state\[1\] must be from 0 to 1; it is -1"),
    "next": (dict(next=[0, 2]), r"next\[1\] must be from 0 to 1; it is 2"),
    "fraction": (dict(next=[0.5, 1]), "next must hold whole numbers"),
    "lengths": (dict(reward=[0.0]), "must have one length"),
    "sum": (dict(prob=[1.0, 0.5]), r"P\[m=0, s=1, a=0\] must sum to 1; it sums to 0.5"),
    "negative": (dict(prob=[-1.0, 1]), r"P\[m=0, s=0, a=0\] must have .* next=1 has -1"),
    "NaN reward": (dict(reward=[np.nan, 0]), r"reward\[m=0\] must be finite"),
}  # fmt: skip


@pytest.mark.parametrize("case", ROW_REFUSALS)
def test_rows_are_refused_with_a_sentence(case):
    changes, message = ROW_REFUSALS[case]
    with pytest.raises(lm.ModelError, match=message):
        lm.LatentMDP.from_rows(**(ROWS | changes), w=[1.0], nu=[[0.5, 0.5]], horizon=2)


def test_models_are_frozen():
    model = build()
    with pytest.raises(AttributeError):
        model.horizon = 4
    with pytest.raises(ValueError, match="read-only"):
        model.prob[0] = 0.3
    P = P1.copy()
    model = build(P=P)
    P[:] = 0
    assert model.P.sum() == 8, "the caller's array is copied"


def test_totals_count_only_what_can_be_reached():
    P = np.zeros((1, 3, 1, 3))
    P[0, 0, 0, 1] = P[0, 1, 0, 1] = P[0, 2, 0, 2] = 1.0  # state 2 pays, nobody gets there
    R = np.array([[[1.0], [0.0], [5.0]]])
    model = lm.LatentMDP.from_arrays(P, R, [1.0], [[1, 0, 0]], 10)
    assert model.describe().largest_totals == (1.0,)
    with pytest.raises(lm.ModelError, match="context 0 can reach 50"):
        model.replace(nu=[[0, 0, 1.0]])


@given(models())
def test_computed_range_holds_all_returns(model):
    totals = [
        lm.return_distribution(model, lm.PolicyGraph.from_table(np.full((model.H, model.S), a)))[0]
        for a in range(model.A)
    ]
    assert min(x[0] for x in totals) >= model.min_return - 1e-9
    assert max(x[-1] for x in totals) <= model.max_return + 1e-9


@given(models())
def test_normalized_keeps_the_order_of_policies_and_the_users_units(model):
    normal = model.normalized()
    assert normal.reward.min() >= 0
    assert normal.describe().largest_totals <= (1.0 + 1e-12,) * model.M
    for a in range(model.A):
        policy = lm.PolicyGraph.from_table(np.full((model.H, model.S), a))
        before = lm.evaluate(model, policy).value
        after = lm.evaluate(normal, policy).value
        assert normal.in_user_units(after) == pytest.approx(before, rel=1e-9, abs=1e-9)
    twice = normal.normalized()
    assert twice.in_user_units(0.3) == pytest.approx(normal.in_user_units(0.3))


def test_replace():
    model = build()
    assert model.replace() == model
    assert model.replace(horizon=2).H == 2
    with pytest.raises(lm.ModelError, match="at most max_return=1"):
        model.replace(horizon=50)
    assert model.replace(horizon=50, max_return=None).max_return > 1
    with pytest.raises(lm.ModelError, match=r"replace knows .* not 'P'"):
        model.replace(P=P1)


def test_describe_says_where_contexts_differ():
    P = P1.copy()
    P[1, 0, 1] = [0.5, 0.5]
    text = build(P=P, state_names=["left", "right"], action_names=["stay", "go"]).describe()
    assert text.transitions_differ == ((0, 1),)
    assert text.rewards_differ == ((0, 0), (1, 1))
    assert text.first_states_differ
    assert "transitions differ at 1 of 4 (state, action): (left, go)" in str(text)
    same = build(R=R1[[0, 0]], nu=NU1[[0, 0]]).describe()
    assert same.alike == ((0, 1),)
    assert "alike in everything: 0, 1" in str(same)


@given(models())
def test_describe_agrees_with_dense_arrays(model):
    d = model.describe()
    P, R = model.P, model.R
    moves = (P[0] != P).any(axis=(0, 3))
    assert d.transitions_differ == tuple((int(s), int(a)) for s, a in np.argwhere(moves))
    if R.ndim == 3:
        pays = (R[0] != R).any(axis=0)
        assert d.rewards_differ == tuple((int(s), int(a)) for s, a in np.argwhere(pays))
    assert d.outcomes == (P > 0).sum()
    assert d.Gamma == (P > 0).sum(axis=3).max()
    for group in d.alike:
        for m in group:
            assert np.array_equal(P[m], P[group[0]])
            assert np.array_equal(R[m], R[group[0]])


def test_the_total_of_many_small_rewards_may_round_to_just_above_one():
    model = lm.LatentMDP.from_arrays([[[[1.0]]]], [[[0.1]]], [1.0], [[1.0]], 10)
    assert model.max_return == 1.0


@pytest.mark.parametrize("label", [{"reward_scale": 0.0}, {"reward_scale": -1.0}])
@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_units_must_be_usable(label, odd):
    parts = (np.ones((1, 1, 1, 1)), np.zeros((1, 1, 1)), [1.0], [[1.0]], 2)
    with pytest.raises(lm.ModelError, match="reward_scale must be a finite number above 0; it is"):
        lm.LatentMDP.from_arrays(*parts, **label)
    with pytest.raises(lm.ModelError, match="reward_scale must be a finite number above 0; it is"):
        lm.LatentMDP.from_arrays(*parts, reward_scale=odd)
    with pytest.raises(lm.ModelError, match="reward_shift must be a finite number; it is"):
        lm.LatentMDP.from_arrays(*parts, reward_shift=odd)


def test_files_with_unusable_units_are_refused(tmp_path):
    path = tmp_path / "model.json"
    lm.save(lm.make("bandit:arms=2,contexts=2,horizon=3").normalized(), path)
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(document | {"reward_scale": 0.0, "reward_shift": 0.0}))
    with pytest.raises(lm.ModelError, match="reward_scale must be a finite number above 0"):
        lm.load(path)
