"""Unavailable actions in models, planners and files: against brute force, duplicates, sentences."""

import math
import shutil

import brute
import matplotlib.pyplot
import numpy as np
import pytest
from strategies import random_mask, random_masked, random_model, random_policy

import latentmdp as lm
from latentmdp.drawing import diagram
from latentmdp.drawing.policies import action_directions, draw_policy
from latentmdp.formats import json as json_format
from latentmdp.formats import not_held
from latentmdp.formats import npz as npz_format
from latentmdp.planning import baselines
from latentmdp.planning.history.planner import HISTORY_METHODS
from latentmdp.planning.markov.planner import MARKOV_METHODS
from latentmdp.policy.graph import PolicyGraph, playable

METHODS = {"markov": [*MARKOV_METHODS], "history": [*HISTORY_METHODS]}


def available(model, policy):
    return model.allowed[policy.state, policy.action].all()


def dense(model, **options):
    """The arguments of `from_arrays` that give the model again."""
    return dict(
        P=model.P, R=model.R, w=model.w, nu=model.nu, horizon=model.H, discount=model.discount,
        observe_rewards=model.observe_rewards, max_return=model.return_limit,
    ) | options  # fmt: skip


# ---------------------------------------------------------------------- models


def test_all_ways_to_say_it_give_the_same_model():
    rng = np.random.default_rng(0)
    for _ in range(200):
        whole = random_model(rng, 3, 3, 4, 3)
        allowed = random_mask(rng, whole.S, whole.A)
        model = whole.replace(allowed=allowed)
        if allowed.all():
            assert model == whole
            assert model.allowed is None
            continue
        P, R = whole.P, whole.R
        for fill in (np.nan, 0.0, 7.0, -1.0):
            P[:, ~allowed] = R[:, ~allowed] = fill
            given = dense(whole, P=P, R=R, allowed=allowed)
            assert lm.LatentMDP.from_arrays(**given) == model
        assert lm.LatentMDP.from_arrays(**dense(model)) == model  # rows of zeros
        assert not model.P[:, ~allowed].any()
        assert not model.R[:, ~allowed].any()
        row = np.repeat(np.arange(len(model.indptr) - 1), np.diff(model.indptr))
        listed = model.listed_rows[row]
        m, s, a = np.unravel_index(row[listed], model.sizes)
        columns = (m, s, a, model.next[listed], model.prob[listed], model.reward[listed])
        rest = {k: v for k, v in dense(model).items() if k not in ("P", "R")}
        assert lm.LatentMDP.from_rows(*columns, **rest, n_actions=model.A) == model
        other = model.replace(observe_rewards=not model.observe_rewards)
        assert other.replace(observe_rewards=model.observe_rewards) == model
        assert model.normalized().denormalized().allowed is not None


def test_rows_of_unavailable_actions_repeat_the_first_available_one():
    rng = np.random.default_rng(1)
    for _ in range(100):
        model = random_masked(rng, 3, 3, 4, 3)
        every = model.unmasked()
        for s, a in np.argwhere(~model.allowed):
            first = model.actions_in(s)[0]
            assert (every.P[:, s, a] == every.P[:, s, first]).all()
            assert (every.R[:, s, a] == every.R[:, s, first]).all()
        assert every.allowed is None
        assert every.digest != model.digest
        assert every.unmasked() is every


def test_a_model_without_a_mask_has_the_digest_it_always_had():
    assert lm.make("bandit:arms=2,contexts=2,horizon=3,seed=0").digest == "2b7ff5bd8cae2a38"
    assert lm.make("maze:size=3,goals=2,seed=1").digest == "7754370cdd1303da"
    assert lm.make("troubleshoot:horizon=4").digest == "f5a40ed174fb8b5e"


P2 = np.full((2, 2, 3, 2), 0.5)
R2 = np.zeros((2, 2, 3))
SENTENCES = {
    "shape": (dict(allowed=np.ones((3, 2))), r"allowed must have the shape .* = \(2, 3\)"),
    "ragged": (dict(allowed=[[1], [1, 0]]), "allowed must be a regular array"),
    "text": (dict(allowed=[["a"] * 3] * 2), "allowed must hold true and false"),
    "half": (dict(allowed=np.full((2, 3), 0.5)), "allowed must hold true and false"),
    "nothing": (dict(allowed=[[1, 1, 1], [0, 0, 0]]), "state 1 has none"),
    "zero row": (dict(P=P2 * [[[[0]] * 3]] , allowed=np.ones((2, 3))), "it has no outcomes"),
    "no row": (dict(P=P2 * 0), r"P\[s=0\] must have an action with outcomes"),
    "one context": (
        dict(P=P2 * np.array([1, 0])[:, None, None, None]),
        r"P\[s=0, a=0\] must have outcomes in all contexts, .* no outcomes in context 1$",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SENTENCES)
def test_wrong_masks_are_refused_with_a_sentence(case):
    changes, said = SENTENCES[case]
    given = dict(P=P2, R=R2, w=[0.5, 0.5], nu=[0.5, 0.5], horizon=2) | changes
    with pytest.raises(lm.ModelError, match=said):
        lm.LatentMDP.from_arrays(**given)


def test_missing_contexts_are_named_and_actions_do_not_come_back():
    rows = dict(state=[0] * 3, action=[0, 0, 1], next=[0] * 3, prob=[1.0] * 3, reward=[0.0] * 3)
    given = dict(w=np.full(30, 1 / 30), nu=[1.0], horizon=1)
    with pytest.raises(lm.ModelError, match=r"in contexts 2, 3, 4, .*, 11, \.\.\.$"):
        lm.LatentMDP.from_rows(context=[0, 1, 0], **rows, **given)
    model = lm.make("maze:size=3,blocked=1")
    with pytest.raises(lm.ModelError, match="action 0 of state 0 is unavailable and has no rows"):
        model.replace(allowed=None)
    with pytest.raises(lm.ModelError, match="state 2 has none"):
        model.replace(allowed=model.allowed & (np.arange(model.S) != 2)[:, None])
    assert model.replace(allowed=model.allowed) == model


# ---------------------------------------------------------------------- planning


def check_plans(rng, count):
    for _ in range(count):
        model = random_masked(rng, 3, 3, 3, 3)
        for policy_class, methods in METHODS.items():
            best = getattr(brute, f"best_{policy_class}_value")(model)
            method = "auto" if rng.random() < 0.4 else str(rng.choice(methods))
            work = None if rng.random() < 0.5 else int(10 ** rng.uniform(0, 3))
            plan = lm.plan(model, policy_class, gap=None, method=method, work_limit=work)
            assert plan.lower - 1e-9 <= best <= plan.upper + 1e-9
            if work is None and method == "auto":
                assert abs(plan.lower - best) < 1e-9
            assert available(model, plan.policy)
            assert lm.evaluate(model, plan.policy).value == plan.lower
            assert abs(brute.value(model, plan.policy) - plan.lower) < 1e-9
            assert plan.model_digest == model.digest
            assert plan.policy.model == model


def test_plans_against_brute_force():
    check_plans(np.random.default_rng(2), 60)


@pytest.mark.slow
def test_plans_against_brute_force_thousands():
    check_plans(np.random.default_rng(3), 3000)


def test_an_unavailable_action_is_a_duplicate_of_an_available_one():
    rng = np.random.default_rng(4)
    for _ in range(25):
        model = random_masked(rng, 3, 3, 3, 3)
        for policy_class in METHODS:
            plan = lm.plan(model, policy_class, gap=None, work_limit=10**4)
            twin = lm.plan(model.unmasked(), policy_class, gap=None, work_limit=10**4)
            assert (plan.lower, plan.upper, plan.work) == (twin.lower, twin.upper, twin.work)
            assert playable(model, twin.policy) == plan.policy


@pytest.mark.parametrize("policy_class", METHODS)
def test_plans_without_a_last_step(policy_class):
    rng = np.random.default_rng(10)
    for _ in range(8):
        model = random_masked(rng, 2, 3, 3, 3).replace(discount=0.5)
        plan = lm.plan(model, policy_class, gap=1e-3, horizon=math.inf)
        assert available(model, plan.policy)
        endless = model.replace(horizon=math.inf)
        assert abs(lm.evaluate(endless, plan.policy).value - plan.lower) < 1e-12
        twin = lm.plan(model.unmasked(), policy_class, gap=1e-3, horizon=math.inf)
        assert (plan.lower, plan.upper) == (twin.lower, twin.upper)
        if policy_class == "history":
            long = lm.plan(model.replace(horizon=12), gap=None, work_limit=10**5)
            rest = 0.5**12 * 2.0 * np.abs(model.reward).max()
            assert plan.lower - rest <= long.upper + 1e-9
            assert long.lower - rest <= plan.upper + 1e-9


def test_permuting_actions_permutes_the_mask():
    rng = np.random.default_rng(5)
    for _ in range(40):
        model = random_masked(rng, 2, 3, 3, 3)
        order = rng.permutation(model.A)
        other = lm.LatentMDP.from_arrays(
            **dense(model, P=model.P[:, :, order], R=model.R[:, :, order])
        )
        assert (other.allowed == model.allowed[:, order]).all()
        for policy_class in METHODS:
            one, two = (lm.plan(x, policy_class, gap=None).lower for x in (model, other))
            assert abs(one - two) < 1e-12


def test_baselines_and_bounds_play_available_actions():
    rng = np.random.default_rng(6)
    for _ in range(40):
        model = random_masked(rng, 3, 3, 3, 3)
        for name in baselines.TABLES:
            assert available(model, baselines.policy(name, model))
        assert available(model, baselines.qmdp_memory(model))
        values, actions = lm.context_optimal(model)
        assert model.allowed[np.arange(model.S), actions].all()
        assert (values == lm.context_optimal(model.unmasked())[0]).all()
        best = brute.best_history_value(model)
        assert baselines.knowing_the_context(model) >= best - 1e-9


def test_largest_variance_over_available_actions():
    rng = np.random.default_rng(7)
    for _ in range(30):
        model = random_masked(rng, 2, 2, 3, 2)
        found = lm.max_variance(model, "markov")
        assert available(model, found.policy)
        best = max(
            brute.mean_and_variance(brute.returns(model, lambda h, t=t: t[len(h) // 3][h[-1]]))[1]
            for t in brute.markov_tables(model)
        )
        assert found.lower - 1e-9 <= best <= found.upper + 1e-9
        assert available(model, lm.max_variance(model).policy)


def test_policies_that_play_an_unavailable_action_are_refused():
    rng = np.random.default_rng(8)
    refused = 0
    for _ in range(50):
        model = random_masked(rng, 2, 3, 3, 3)
        policy = random_policy(rng, model)
        same = playable(model, policy)
        assert available(model, same)
        value = lm.evaluate(model.unmasked(), policy).value
        assert lm.evaluate(model, same).value == value
        assert abs(brute.value(model, same) - value) < 1e-9
        if not available(model, policy):
            refused += 1
            n = np.flatnonzero(~model.allowed[policy.state, policy.action])[0]
            said = f"node {n} .* plays action {policy.action[n]}, which is unavailable there"
            for use in (lm.evaluate, lm.return_distribution, lambda m, p: p.for_model(m)):
                with pytest.raises(lm.ModelError, match=said):
                    use(model, policy)
            worst = model.allowed.argmin(axis=1)
            with pytest.raises(lm.ModelError, match="which is unavailable"):
                PolicyGraph.from_belief(model, lambda t, s, b, a=worst: int(a[s]))
    assert refused > 20


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize("largest", [0, 10**9])  # sparse, dense
def test_there_and_back(tmp_path, monkeypatch, largest):
    monkeypatch.setattr(npz_format, "LARGEST_DENSE", largest)
    monkeypatch.setattr(json_format, "LARGEST_DENSE", largest)
    rng = np.random.default_rng(9)
    for i in range(15):
        model = random_masked(rng, 3, 3, 4, 3)
        for ending in ("npz", "json"):
            lm.save(model, tmp_path / f"m.{ending}")
            assert lm.load(tmp_path / f"m.{ending}") == model
        plain = model.replace(w=np.full(model.M, 1 / model.M), nu=model.nu[0])
        folder = tmp_path / str(i)
        folder.mkdir()
        if model.allowed[:, -1].any():
            lm.save(plain, folder / "m.csv")
            assert lm.load(folder / "m.csv") == plain
        else:
            with pytest.raises(lm.ModelError, match="CSV lists available actions"):
                lm.save(plain, folder / "m.csv")
        shutil.rmtree(folder)


@pytest.mark.parametrize("ending", [".pomdp", ".pomdpx"])
def test_pomdps_hold_a_duplicate(tmp_path, ending):
    model = lm.make("maze:size=2,blocked=1,horizon=3,slip=0")
    assert "allowed" in not_held(model, f"m{ending}")
    lm.save(model, tmp_path / f"m{ending}")
    back = lm.load(tmp_path / f"m{ending}", horizon=3)
    assert back.allowed is None
    value = lm.plan(model, gap=None).lower
    assert abs(lm.plan(back, gap=None).lower - value) < 1e-9


@pytest.mark.parametrize(
    ("allowed", "said"),
    [
        (np.array([[1, 2]]), r"allowed\[0, 1\] must be true or false; it is 2"),
        (np.array([["a"]]), "allowed must be true or false; found text"),
        (np.ones((2, 2), dtype=bool), "allowed must have the shape"),
    ],
)
def test_wrong_masks_in_files(tmp_path, allowed, said):
    model = lm.make("maze:size=2,blocked=1,horizon=3")
    lm.save(model, tmp_path / "m.npz")
    values = dict(np.load(tmp_path / "m.npz")) | {"allowed": allowed}
    np.savez(tmp_path / "m.npz", **values)
    with pytest.raises(lm.ModelError, match=said):
        lm.load(tmp_path / "m.npz")


def test_a_small_file_cannot_claim_all_memory_by_its_mask(tmp_path):
    S, A = 1000, 2000
    allowed = np.zeros((S, A), dtype=bool)
    allowed[:, 0] = True
    length = np.where(allowed, S, 0).reshape(-1)
    np.savez_compressed(
        tmp_path / "m.npz", indptr=np.concatenate([[0], np.cumsum(length)]),
        next=np.tile(np.arange(S), S), prob=np.full(S * S, 1 / S), reward=np.zeros(S * A), H=2,
        rewards_on_transitions=False, w=[1.0], nu=np.full((1, S), 1 / S), allowed=allowed,
    )  # fmt: skip
    with pytest.raises(lm.ModelError, match=r"1e\+09|2e\+09 outcomes are too many"):
        lm.load(tmp_path / "m.npz")


# ---------------------------------------------------------------------- domains


def test_moves_into_walls_are_unavailable_and_nothing_else_changes():
    for spec in ("maze:size=4,walls=4,seed=3", "maze:size=3,slip=0"):
        model, masked = lm.make(spec), lm.make(f"{spec},blocked=1")
        on_grid = np.arange(model.S - 1)
        cells = np.array(model.layout.positions)[:-1]
        walls = set(model.layout.walls)
        for s in on_grid:
            for a, move in enumerate(((-1, 0), (0, 1), (1, 0), (0, -1))):
                r, c = cells[s] + move
                inside = 0 <= r < model.layout.shape[0] and 0 <= c < model.layout.shape[1]
                assert masked.allowed[s, a] == (inside and (r, c) not in walls)
        assert masked == model.replace(allowed=masked.allowed)


def test_a_part_is_replaced_once():
    model = lm.make("troubleshoot:once=1,faults=3,tests=2,horizon=5")
    assert (model.S, model.A) == (7 * 5 + 1, 5)
    for s, name in enumerate(model.state_names):
        for a, action in enumerate(model.action_names):
            part = action.removeprefix("replace ")
            assert model.allowed[s, a] == (f"replace {part}" != action or part not in name)
    plain = lm.make("troubleshoot:faults=3,tests=2,horizon=5")
    once, again = (lm.plan(m, gap=None, work_limit=10**6) for m in (model, plain))
    assert abs(once.lower - again.lower) < 1e-9  # replacing a part twice never helps
    assert lm.evaluate(model, once.policy).value == once.lower
    with pytest.raises(lm.ModelError, match="faults must be at most 16 with once=1"):
        lm.make("troubleshoot:once=1,faults=17")


def test_describe_and_repr_say_how_many_are_unavailable():
    model = lm.make("maze:size=2,blocked=1")
    assert "8 of 20 actions unavailable" in repr(model)
    text = str(model.describe())
    assert "unavailable are 8 of 20 (state, action): (r0c0, up)" in text
    assert model.describe().rows == model.M * 12
    assert "unavailable" not in str(lm.make("maze:size=2").describe())


def test_drawings_leave_out_what_is_unavailable():
    model = lm.make("troubleshoot:once=1,faults=2,tests=1,horizon=5")
    drawn = {(s, a) for s, a, _, _ in diagram._edges(model, None) if a >= 0}
    assert drawn
    assert all(model.allowed[s, a] for s, a in drawn)
    uniform = model.allowed / model.allowed.sum(axis=1, keepdims=True)
    mean = np.einsum("m,msan,sa->sn", model.w, model.P, uniform)
    assert np.allclose(diagram._mean_matrix(model, None), mean)
    maze = lm.make("maze:size=3,blocked=1,slip=0,goals=1")
    wanted = [(0, -1), (1, 0), (0, 1), (-1, 0)]  # up, right, down, left, as (x, y)
    assert np.allclose(action_directions(maze), wanted)
    policy = lm.PolicyGraph.from_table(np.tile(model.substitute[:, 1], (model.H, 1)))
    axes = draw_policy(model, policy, 1)
    assert "unavailable" in axes.get_title()
    assert "×" in [text.get_text() for text in axes.texts]
    assert "unavailable" not in draw_policy(model, policy, 0).get_title()
    matplotlib.pyplot.close("all")
