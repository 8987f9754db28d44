"""Models, policies and evaluations as pandas tables, and models from them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from strategies import models, models_and_policies

import latentmdp as lm
from latentmdp.formats import not_held
from latentmdp.tables import outcome_table

COLUMNS = ["context", "state", "action", "next_state", "probability", "reward", "weight", "first"]


def named(model):
    return model.replace(
        state_names=[f"s{model.S - s}" for s in range(model.S)],
        action_names=[f"a {model.A - a}" for a in range(model.A)],
        context_names=[f"c,{model.M - m}" for m in range(model.M)],
    )


def back(frame, model, **options):
    return lm.LatentMDP.from_frame(
        frame, model.H, discount=model.discount, observe_rewards=model.observe_rewards,
        max_return=model.return_limit, **options,
    )  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(models())
def test_models_there_and_back(model):
    for given_ in (model, named(model)):
        frame = given_.to_frame()
        assert list(frame.columns) == COLUMNS
        assert len(frame) == len(model.prob)
        assert back(frame, given_) == given_
    assert back(named(model).to_frame(names=False), model) == model
    shuffled = model.to_frame().sample(frac=1.0, random_state=0)
    assert back(shuffled, model) == model


def test_step_dependent_models_there_and_back():
    rng = np.random.default_rng(0)
    P, R = rng.dirichlet(np.ones(3), size=(4, 2, 3, 2)), rng.random((4, 2, 3, 2)) / 8
    model = lm.LatentMDP.from_arrays(P, R, [0.25, 0.75], [[1, 0, 0]] * 2, 4)
    frame = model.to_frame()
    assert list(frame.columns) == ["step", *COLUMNS]
    assert back(frame, model) == model
    assert back(frame.rename(columns={"step": "t"}), model, step="t") == model
    averaged = frame.assign(probability=frame.probability / 4)
    assert type(back(averaged, model, step=None, normalize=True)) is lm.LatentMDP
    frame["step"] = frame.step.astype(float)
    for wrong in (-1, 0.5, np.nan, 1e7):
        frame.loc[3, "step"] = wrong
        with pytest.raises(lm.ModelError, match="'step' must be a"):
            back(frame, model)


@settings(deadline=None, max_examples=60)
@given(models_and_policies())
def test_policies_as_tables(pair):
    model, policy = pair
    frame = policy.to_frame(model)
    reach = lm.reach_weights(model, policy)
    assert list(frame.columns) == ["node", "step", "state", "action", "reach", "belief"]
    assert np.array_equal(frame.action, policy.action)
    np.testing.assert_allclose(frame.reach, reach.sum(axis=1))
    for n, belief in enumerate(frame.belief):
        if reach[n].sum() > 0:
            np.testing.assert_allclose(belief, reach[n] / reach[n].sum())
        else:
            assert belief is None
    by_step = frame.groupby("step").reach.sum()
    np.testing.assert_allclose(by_step, 1.0)
    with_names = named(model)
    told = policy.to_frame(with_names)
    assert list(told.state) == [with_names.state_names[s] for s in policy.state]
    assert list(told.action) == [with_names.action_names[a] for a in policy.action]


def test_a_policy_without_a_model_has_no_reach():
    frame = lm.PolicyGraph.from_table([[0, 1], [1, 1]]).to_frame()
    assert frame.to_dict("list") == {
        "node": [0, 1, 2, 3], "step": [0, 0, 1, 1], "state": [0, 1, 0, 1], "action": [0, 1, 1, 1],
    }  # fmt: skip
    plan = lm.plan(lm.make("bandit:horizon=3"))
    assert "belief" in plan.policy.to_frame()  # plans know their model


def test_evaluations_as_tables():
    model = named(lm.make("garnet:contexts=3,states=4,actions=2,horizon=4"))
    plan = lm.plan(model, "markov")
    ev = lm.evaluate(model, plan)
    frame = ev.to_frame()
    assert list(frame.columns) == ["context", "weight", "value", "variance"]
    assert list(frame.context) == list(model.context_names)
    assert (frame.weight * frame.value).sum() == pytest.approx(ev.value)
    plain = lm.evaluate(model.replace(context_names=None), plan.policy.table).to_frame()
    assert list(plain.context) == list(range(model.M))


def test_evaluate_takes_plans_policies_and_tables():
    model = lm.make("maze:size=3,goals=2,horizon=6")
    plan = lm.plan(model, "markov")
    table = plan.policy.table
    values = [lm.evaluate(model, x).value for x in (plan, plan.policy, table, table.tolist())]
    assert values == [plan.lower] * 4
    always = lm.evaluate(model, np.ones(model.S, dtype=int))
    assert always.value == lm.evaluate(model, np.ones((model.H, model.S), dtype=int)).value
    totals, probs = lm.return_distribution(model, plan)
    assert totals @ probs == pytest.approx(plan.lower)


# ---------------------------------------------------------------- names, weights, first states

ROWS = pd.DataFrame(
    [
        ("calm", "left", "swim", "right", 0.6, 0.0),
        ("calm", "left", "swim", "left", 0.4, 0.0),
        ("rough", "left", "swim", "left", 1.0, 0.0),
        ("calm", "right", "swim", "end", 1.0, 2.0),
        ("rough", "right", "swim", "end", 1.0, -3.0),
    ],
    columns=["context", "state", "action", "next_state", "probability", "reward"],
)


def test_labels_become_names_and_states_without_rows_end_the_episode():
    model = lm.LatentMDP.from_frame(ROWS, 4, start="left", w={"rough": 0.25, "calm": 0.75})
    assert model.context_names == ("calm", "rough")
    assert model.state_names == ("left", "right", "end")
    assert model.action_names == ("swim",)
    assert model.w.tolist() == [0.75, 0.25]
    assert model.nu.tolist() == [[1, 0, 0]] * 2
    assert model.P[:, 2, 0].tolist() == [[0, 0, 1]] * 2
    assert model.R.reshape(2, 3).tolist() == [[0, 2, 0], [0, -3, 0]]
    assert model.return_limit is None


def test_an_end_may_be_one_in_some_contexts_only():
    frame = pd.DataFrame(
        {"context": [0, 1, 1], "state": [0, 0, 1], "action": 0, "next_state": [1, 1, 0],
         "probability": 1.0, "reward": [1.0, 2.0, 3.0]}
    )  # fmt: skip
    model = lm.LatentMDP.from_frame(frame, 2, start=0)
    assert model.P[:, 1, 0].tolist() == [[0, 1], [1, 0]]
    assert model.R[:, 1, 0].tolist() == [0, 3]


def test_actions_without_rows_are_unavailable():
    frame = pd.DataFrame(
        {"state": ["a", "a", "b"], "action": ["x", "y", "y"], "next_state": ["b", "a", "end"],
         "probability": 1.0, "reward": [1.0, 2.0, 3.0]}
    )  # fmt: skip
    model = lm.LatentMDP.from_frame(frame, 2, start="a")
    assert model.allowed.tolist() == [[True, True], [False, True], [True, True]]
    assert back(model.to_frame(), model) == model
    assert len(model.to_frame()) == 5  # and not the row that the unavailable action repeats


@pytest.mark.parametrize("names", [None, ("x", "y", "z")])
@pytest.mark.parametrize("gone", [0, 1, 2])
@pytest.mark.parametrize("by_step", [False, True])
def test_an_action_that_is_available_nowhere_is_kept(names, gone, by_step, tmp_path):
    base = lm.make("garnet:states=3,actions=3,contexts=2,horizon=3")
    allowed = np.ones((3, 3), dtype=bool)
    allowed[:, gone] = False
    model = base.replace(allowed=allowed, action_names=names)
    if by_step:
        model = model.replace(terminal=np.zeros((2, 3))).replace(terminal=None)
    for kept in (names, None):
        frame = model.to_frame(names=kept is not None)
        back = lm.LatentMDP.from_frame(frame, horizon=3)
        assert (back.A, back.digest, back.action_names) == (3, model.digest, kept)
    if gone < 2:  # the file of a model whose last action is available nowhere is refused
        lm.save(model, tmp_path / "x.csv")
        assert lm.load(tmp_path / "x.csv").digest == model.digest
        assert ("action_names" in not_held(model, tmp_path / "x.csv")) == (names is not None)
    alike = model.replace(action_names=("x", "x", "z"))
    with pytest.raises(lm.ModelError, match="names of actions must be different where"):
        alike.to_frame()
    assert alike.to_frame(names=False).action.dtype == "category"


def test_columns_may_be_called_otherwise_and_sit_in_the_index():
    other = ROWS.rename(columns={"context": "scenario", "probability": "p", "state": "from"})
    words = {"context": "scenario", "probability": "p", "state": "from"}
    wanted = lm.LatentMDP.from_frame(ROWS, 4, start="left")
    assert lm.LatentMDP.from_frame(other, 4, start="left", **words) == wanted
    indexed = ROWS.set_index(["context", "state"])
    assert lm.LatentMDP.from_frame(indexed, 4, start="left") == wanted


def test_without_contexts_there_is_one():
    one = ROWS[ROWS.context == "calm"].drop(columns="context")
    model = lm.LatentMDP.from_frame(one, 4, start={"left": 0.5, "right": 0.5})
    assert (model.M, model.context_names) == (1, None)
    assert model.nu.tolist() == [[0.5, 0.5, 0.0]]
    assert lm.LatentMDP.from_frame(one, 4, start="left", context=None).M == 1


def test_numbers_of_any_kind():
    frame = lm.make("bandit:contexts=2,arms=2").to_frame(names=False)
    H = 3
    plain = lm.LatentMDP.from_frame(frame, H)
    assert plain.state_names is None
    from_one = frame.assign(state=frame.state + 1, next_state=frame.next_state + 1)
    model = lm.LatentMDP.from_frame(from_one, H)
    assert model.state_names == tuple(str(s + 1) for s in range(plain.S))
    assert np.array_equal(model.P, plain.P)
    as_floats = frame.astype({"state": float, "next_state": float, "context": object})
    assert lm.LatentMDP.from_frame(as_floats, H) == plain
    truths = frame.assign(action=frame.action.astype(bool))
    assert lm.LatentMDP.from_frame(truths, H).action_names == ("False", "True")


def test_names_keep_their_numbers_where_they_appear_in_another_order():
    """The first state lacks the first action: as categories, names come back in order."""
    model = lm.LatentMDP.from_arrays(
        np.full((1, 2, 2, 2), 0.5), np.eye(2)[None], [1.0], [[1.0, 0.0]], 2, max_return=None,
        allowed=[[False, True], [True, True]], action_names=["stay", "go"], state_names=["x", "y"],
    )  # fmt: skip
    frame = model.to_frame()
    assert list(frame.action[:3]) == ["go", "go", "stay"]
    assert back(frame, model) == model


def test_categories_keep_their_order():
    order = ["right", "left", "end", "never used"]
    frame = ROWS.assign(
        state=pd.Categorical(ROWS.state, order), next_state=pd.Categorical(ROWS.next_state, order)
    )
    model = lm.LatentMDP.from_frame(frame, 4, start="left")
    assert model.state_names == ("right", "left", "end")


# ---------------------------------------------------------------- wrong input

START = {"start": "left"}


def changed(**values):
    frame = ROWS.copy()
    for column, (row, value) in values.items():
        frame[column] = frame[column].astype(object)
        frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize(
    ("frame", "options", "said"),
    [
        ([1, 2], START, "needs a pandas DataFrame; it was given a list"),
        (ROWS[:0], START, "it has no rows"),
        (ROWS.drop(columns="state"), START, "must have a column 'state'"),
        (ROWS.drop(columns="reward"), START, "must have a column 'reward'"),
        (ROWS.rename(columns={"context": "contexts"}), START, "context='contexts' would take"),
        (
            ROWS.rename(columns={"probability": "p"}),
            START,
            "column 'probability' for the probability",
        ),
        (ROWS, START | {"context": "model"}, "must have a column 'model' for the context"),
        (ROWS, START | {"state": None}, "state must be the name of a column"),
        (ROWS, START | {"weight": "weights"}, "must have a column 'weights'"),
        (pd.concat([ROWS, ROWS[["state"]]], axis=1), START, "'state' must be there once"),
        (changed(state=(2, None)), START, "'state' must name a state; in row 2"),
        (changed(context=(1, np.nan)), START, "'context' must name a context; in row 1"),
        (changed(state=(2, [1])), START, "'state' must hold names or numbers"),
        (changed(state=(2, "  ")), START, "must have 1 to 1000 characters"),
        (changed(state=(2, "x" * 2000)), START, "must have 1 to 1000 characters"),
        (changed(context=(0, 7), action=(1, "7")), START, "an action must have outcomes"),
        (changed(state=(0, 1), next_state=(0, "1")), START, "two are called '1'"),
        (
            changed(probability=(2, "much")),
            START,
            "'probability' must be a finite number; in row 2",
        ),
        (changed(probability=(2, np.inf)), START, "'probability' must be a finite number"),
        (changed(probability=(2, -0.5)), START, "'probability' must be at least 0; in row 2"),
        (
            changed(probability=(2, 0.5)),
            START,
            "context 'rough', state 'left', action 'swim'.* sum",
        ),
        (changed(reward=(2, None)), START, "'reward' must be a finite number; in row 2"),
        (ROWS.assign(reward=True), START, "'reward' must hold numbers"),
        (ROWS.assign(reward=1j), START, "'reward' must"),
        (
            changed(action=(2, "dive")),
            START,
            "an action must have outcomes in all contexts",
        ),
        (ROWS, {}, "the first state must be given"),
        (ROWS, {"start": "middle"}, "there is no state 'middle'; there are 'left', 'right'"),
        (ROWS, {"start": 0}, "there is no state 0"),
        (ROWS, {"start": {"left": 0.5}}, "sum"),
        (ROWS, {"start": {"left": "all"}}, "the first state must be numbers"),
        (ROWS, {"start": ["left"]}, "must be a state or a mapping"),
        (ROWS, {"start": "left", "nu": [1, 0, 0]}, "not both"),
        (ROWS, {"nu": [1, 0]}, r"nu must have the shape \(3,\) or \(2, 3\)"),
        (ROWS, {"nu": [1, np.nan, 0]}, "nu must be finite numbers"),
        (ROWS, START | {"w": [1.0]}, "w must have 2 entries, one per context"),
        (ROWS, START | {"w": {"wild": 1.0}}, "there is no context 'wild'"),
        (ROWS, START | {"w": "heavy"}, "w must be numbers"),
        (
            ROWS.assign(weight=[0.5, 0.4, 0.5, 0.5, 0.5]),
            START,
            "same in all rows of a context; in r",
        ),
        (ROWS.assign(weight=0.7), START, "w must sum to 1"),
        (ROWS.assign(first=[1, 0.5, 1, 0, 0]), {}, "all rows of a context and state; in row 1"),
        (ROWS, START | {"discount": 2}, "discount must be"),
        (ROWS, START | {"max_return": 1.0}, "must be at least 0"),
        (ROWS, START | {"colour": 1}, "the labels are"),
    ],
)
def test_wrong_frames(frame, options, said):
    with pytest.raises(lm.ModelError, match=said) as caught:
        lm.LatentMDP.from_frame(frame, 3, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("horizon", [0, -1, 2.5, None, "3", True])
def test_wrong_horizons(horizon):
    with pytest.raises(lm.ModelError, match="horizon must be"):
        lm.LatentMDP.from_frame(ROWS, horizon, start="left")


def test_sizes_stay_in_proportion(monkeypatch):
    """One row for each context, state and action of its own would be n^3 rows."""
    n = 200
    frame = pd.DataFrame(
        {"context": range(n), "state": range(n), "action": range(n), "next_state": range(n),
         "probability": 1.0, "reward": 0.0}
    )  # fmt: skip
    with pytest.raises(lm.ModelError, match=r"at most \d+ rows"):
        lm.LatentMDP.from_frame(frame, 3, start=0)
    monkeypatch.setattr(outcome_table, "FREE_ROWS", 1)
    monkeypatch.setattr(outcome_table, "ROWS_PER_LINE", 1)
    assert lm.LatentMDP.from_frame(ROWS, 3, start="left").S == 3  # 6 rows: 1 + 5
    longer = ROWS.assign(next_state=["right", "left", "left", "end", "other end"])
    with pytest.raises(lm.ModelError, match="at most 6 rows"):
        lm.LatentMDP.from_frame(longer, 3, start="left")
