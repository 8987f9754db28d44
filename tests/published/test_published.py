"""Problems that others published, which may not be copied into this repository.

`make test-published FOLDER=...` runs these tests; FOLDER holds riverswim/ and pomdpx/. The other
tests have data of their own for all that is tested here: formats, readers, planners.
"""

import os
from pathlib import Path

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.commands import cli
from latentmdp.formats.pomdp.policyx import AlphaVectors, read_vectors
from latentmdp.formats.pomdp.pomdpx import read_pomdpx
from latentmdp.formats.pomdp.text import read_pomdp_text
from latentmdp.planning import baselines

pytestmark = pytest.mark.published
NAMES = [name for name, found in lm.datasets.DATASETS.items() if not found.included]


@pytest.fixture(scope="module")
def data():
    return Path(os.environ["LATENTMDP_PUBLISHED"])


@pytest.mark.parametrize("name", NAMES)
def test_files_load_and_values_of_others_do_not_contradict_our_bounds(name, data):
    """A policy of others earns at most our upper bound, where both speak of the same problem."""
    model = lm.datasets.load(name, data)
    assert not model.observe_rewards
    found = lm.datasets.dataset(name)
    if name != "riverswim-test":  # the policy is the one for the training models
        assert found.published[0].value <= found.bracket[1] + 5e-5


def test_riverswim_of_su_and_petrik(data):
    """Reference values of the published problem; see the README beside it."""
    train = lm.load(data / "riverswim" / "train.npz", observe_rewards=False)
    test = lm.load(data / "riverswim" / "test.npz", observe_rewards=False)
    found = lm.plan(train, "markov", gap=0.01)
    assert found.status == "gap"
    assert found.lower >= 201.4190
    assert lm.evaluate(test, found.policy).value == pytest.approx(204.7445, abs=1e-4)
    longer = lm.plan(train.replace(horizon=150), "markov", method="ascent", work_limit=40_000_000)
    assert longer.lower >= 203.9266  # what ascent alone finds; kicks find more
    assert lm.evaluate(test.replace(horizon=150), longer.policy).value >= 207.2855


@pytest.mark.parametrize(("horizon", "wsu", "mean", "known"), [
    (50, 203.6191, 201.8702, 210.6003), (150, 206.1246, 204.0194, 213.2828),
])  # fmt: skip
def test_riverswim_references(data, horizon, wsu, mean, known):
    """Trained on one file, evaluated on the other; values from the README beside the data."""
    train = lm.load(data / "riverswim" / "train.npz", observe_rewards=False, horizon=horizon)
    test = lm.load(data / "riverswim" / "test.npz", observe_rewards=False, horizon=horizon)
    for policy, value in (
        (baselines.weight_select_update(train), wsu),
        (baselines.mean_model(train), mean),
    ):
        assert lm.evaluate(test, policy).value == pytest.approx(value, abs=1e-4)
    assert baselines.knowing_the_context(test) == pytest.approx(known, abs=1e-4)
    if horizon == 50:
        trained = lm.evaluate(train, baselines.weight_select_update(train)).value
        assert trained == pytest.approx(200.1847, abs=1e-4)


def test_riverswim_csv_equals_its_npz(data):
    for table, arrays in (("training.csv", "train.npz"), ("test.csv", "test.npz")):
        from_csv = lm.load(data / "riverswim" / table, horizon=50)
        from_npz = lm.load(data / "riverswim" / arrays)
        for field in ("w", "nu", "indptr", "next", "symbol", "reward", "discount", "horizon"):
            assert np.array_equal(getattr(from_csv, field), getattr(from_npz, field)), field
        # the npz divided each row by its sum, which is 1 up to a last place
        assert np.abs(from_csv.prob - from_npz.prob).max() <= 2.0**-52


def test_convert_published_csv(tmp_path, capsys, data):
    csv = data / "riverswim" / "training.csv"
    command = ["convert", str(csv), str(tmp_path / "m.npz")]
    assert cli.run(command) == 2
    assert "horizon must be given" in capsys.readouterr().err
    assert cli.run([*command, "--horizon", "50", "--hidden-rewards"]) == 0
    model = lm.load(tmp_path / "m.npz")
    assert (model.M, model.S, model.H, model.discount) == (100, 20, 50, 0.9)
    assert not model.observe_rewards


def test_the_published_problem_without_a_last_step(data):
    """Four candidate models, discount 0.9: an independent run at H = 200 gave 41.828 to 41.829."""
    model = lm.load(data / "pomdpx" / "2states2actions.pomdpx")
    plan = lm.plan(model, gap=1e-3)
    assert lm.evaluate(model, plan).value == pytest.approx(plan.lower, rel=1e-9)
    assert plan.status == "gap"
    assert plan.lower <= 41.829
    assert plan.upper >= 41.828
    page = lm.plan(model, gap=1e-3, max_nodes=40, time_limit=20)
    assert page.policy.N <= 40
    assert page.lower >= 0.99 * plan.lower


def test_the_published_policy_is_worth_what_it_says(data):
    """By its own vectors 41.8128 at the prior; the best possible is between 41.828 and 41.829."""
    folder = data / "pomdpx"
    model = lm.load(folder / "2states2actions.pomdpx", horizon=200)
    _, _, vectors = read_vectors(folder / "2states2actions.policyx")
    assert vectors.shape == (22170, 4)
    choose = AlphaVectors(folder / "2states2actions.policyx", model)
    assert round(max(choose._values[0].T @ model.w), 4) == 41.8128
    policy = lm.load_policy(folder / "2states2actions.policyx", model)
    assert 41.8275 < lm.evaluate(model, policy).value < 41.829
    endless = lm.load(folder / "2states2actions.pomdpx")
    policy = lm.load_policy(folder / "2states2actions.policyx", endless)
    assert 41.8275 < lm.evaluate(endless, policy).value < 41.829


def test_published_files_do_what_they_must(data):
    model = lm.load(data / "pomdpx" / "2states2actions.pomdpx", horizon=200)
    assert (model.M, model.S, model.A, model.discount) == (4, 2, 2, 0.9)
    assert model.context_names == ("mod1", "mod2", "mod3", "mod4")
    assert not model.observe_rewards
    plan = lm.plan(model, gap=0.001, time_limit=60.0)
    assert plan.lower <= 41.829
    assert plan.upper >= 41.828
    assert plan.upper - plan.lower < 0.1
    for name, said in (
        ("Tiger.pomdp", "action 'open-left' leads from 'tiger-left' to 'tiger-right'"),
        ("Tiger.pomdpx", "action 'open-left' leads from 'tiger-left' to 'tiger-right'"),
        ("Hallway.pomdpx", "the hidden variable 'state_0' must stay"),
        ("RockSample_7_8.pomdpx", "the hidden variable 'rock7_0' must stay as it is or be seen, "
                                  "but action 'as' at robot_0=s16 leads from 'good' to 'bad'"),
        ("learning.c2.pomdp", "leads from 'Visual-0-0' to 'Visual-1-0'"),
    ):  # fmt: skip
        with pytest.raises(lm.ModelError) as error:
            lm.load(data / "pomdpx" / name, horizon=10)
        assert said in str(error.value)


def test_both_formats_of_the_tiger_read_alike(data):
    one = read_pomdp_text(data / "pomdpx" / "Tiger.pomdp")
    other = read_pomdpx(data / "pomdpx" / "Tiger.pomdpx")
    for x, y in zip((*one.T, *one.Z, one.start), (*other.T, *other.Z, other.start), strict=True):
        assert np.array_equal(x, y)
    every = np.indices((3, 2, 2, 2)).reshape(4, -1)
    assert np.array_equal(one.reward(*every), other.reward(*every))
    assert (list(one.actions), list(one.labels)) == (list(other.actions), list(other.labels))
