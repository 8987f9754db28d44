"""Step-dependent models in files, there and back, and from the command line."""

import json

import numpy as np
import pytest
from timed_brute import World

import latentmdp as lm
from latentmdp.commands.cli import run as command
from latentmdp.formats import json as json_format
from latentmdp.formats import npz


def worlds(seed, count, **fixed):
    rng = np.random.default_rng(seed)
    return [World.random(rng, **fixed) for _ in range(count)]


@pytest.mark.parametrize("limit", [1 << 22, 0])
def test_npz_and_json_hold_them(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(npz, "LARGEST_DENSE", limit)
    monkeypatch.setattr(json_format, "LARGEST_DENSE", limit)
    for i, world in enumerate(worlds(1, 60)):
        model = world.model(state_names=[f"s{s}" for s in range(world.S)])
        for ending in ("npz", "json"):
            file = tmp_path / f"{i}.{ending}"
            lm.save(model, file)
            assert lm.load(file) == model
            other = lm.load(file, observe_rewards=not model.observe_rewards, discount=0.7)
            assert other == model.replace(observe_rewards=not model.observe_rewards, discount=0.7)
            if model.H > 1:
                assert lm.load(file, horizon=1) == model.replace(horizon=1)


def test_csv_holds_them(tmp_path):
    for i, world in enumerate(worlds(2, 60)):
        names = ["left, right", "up", "down"]
        model = world.model(state_names=names[: world.S] if i % 2 else None)
        folder = tmp_path / str(i)
        folder.mkdir()
        if model.allowed is not None and not model.allowed[..., -1].any():
            continue
        lm.save(model, folder / "x.csv")
        back = lm.load(folder / "x.csv")
        if i % 2 == 0:
            assert back == model
        assert (folder / "x.terminal.csv").exists() == (world.terminal is not None)
        assert lm.plan(back, gap=None).lower == pytest.approx(
            lm.plan(model, gap=None).lower, abs=1e-9
        )


def timed_csv(folder, lines, terminal=None):
    """A model of one state and one action written by hand."""
    head = "step,idstatefrom,idaction,idoutcome,idstateto,probability,reward\n"
    (folder / "x.csv").write_text(head + "\n".join(lines) + "\n")
    (folder / "initial.csv").write_text("idstate,probability\n0,1\n")
    if terminal is not None:
        text = "idoutcome,idstate,reward\n" + "\n".join(terminal) + "\n"
        (folder / "x.terminal.csv").write_text(text)
    return folder / "x.csv"


def test_a_csv_has_as_many_steps_as_its_column_says(tmp_path):
    lines = ["0,0,0,0,0,1,0.5", "1,0,0,0,0,1,2", "2,0,0,0,0,1,-3"]
    model = lm.load(timed_csv(tmp_path, lines, ["0,0,7"]))
    assert (model.H, model.R.reshape(-1).tolist()) == (3, [0.5, 2.0, -3.0])
    assert lm.plan(model).lower == pytest.approx(6.5)
    assert lm.load(tmp_path / "x.csv", horizon=2).H == 2
    assert lm.load(tmp_path / "x.csv", start=0) == model
    with pytest.raises(lm.ModelError, match="must be at most its 3 steps"):
        lm.load(tmp_path / "x.csv", horizon=4)


@pytest.mark.parametrize(
    ("lines", "terminal", "sentence"),
    [
        (["0,0,0,0,0,1,0", "2,0,0,0,0,1,0"], None, "step=1 has none"),
        (["0,0,0,0,0,1,0", "1,0,0,0,0,0.5,0"], None, r"at step 1: P\[m=0, s=0, a=0\] must sum"),
        (["0.5,0,0,0,0,1,0"], None, "'step' must be a whole number from 0, below 1000000"),
        (["99999999,0,0,0,0,1,0"], None, "'step' must be .* below 1000000"),
        (["999999,0,0,0,0,1,0", "0,9,0,0,0,1,0"], None, "may have at most .* rows"),
        (["0,0,0,0,0,1,0"], ["1,0,5"], "x.terminal.csv.*there is no context '1'"),
        (["0,0,0,0,0,1,0"], ["0,3,5"], "x.terminal.csv.*there is no state '3'"),
        (["0,0,0,0,0,1,0"], ["0,0,5", "0,0,6"], "at most one line; one has two"),
        (["0,0,0,0,0,1,0"], ["0,0,nan"], "'reward' must be a finite number"),
        (["0,0,0,0,0,1,0", "0,0,1,0,0,1,0", "0,0,0,1,0,1,0"], None,
         "an action must have outcomes in all models|in all contexts"),
    ],
)  # fmt: skip
def test_csv_names_what_is_wrong(tmp_path, lines, terminal, sentence):
    file = timed_csv(tmp_path, lines, terminal)
    with pytest.raises(lm.ModelError, match=sentence):
        lm.load(file)


def test_terminal_rewards_of_another_model_are_not_left_beside_one(tmp_path):
    lm.load(timed_csv(tmp_path, ["0,0,0,0,0,1,0"], ["0,0,5"]))
    plain = lm.LatentMDP.from_arrays([[[[1.0]]]], [[[0.0]]], [1.0], [[1.0]], 1)
    (tmp_path / "initial.csv").unlink()
    with pytest.raises(lm.ModelError, match="has terminal rewards, and this model has none"):
        lm.save(plain, tmp_path / "x.csv")


@pytest.mark.parametrize("ending", ["pomdp", "pomdpx"])
def test_other_solvers_get_the_step_in_the_state(tmp_path, ending):
    for i, world in enumerate(worlds(3, 12, H=2, masked=False)):
        model = world.model()
        file = tmp_path / f"{i}.{ending}"
        lm.save(model, file)
        back = lm.load(file, horizon=model.H + 2)  # its episodes may begin with showing the state
        best = lm.plan(model, gap=None).lower
        assert lm.plan(back, gap=None).lower == pytest.approx(best, abs=1e-7)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"H": 3}, "P must have one entry per step, H=3"),
        ({"terminal": np.zeros((5, 5))}, "terminal must have the shape"),
        ({"terminl": np.zeros((2, 2))}, "is it meant as 'terminal'"),
        ({"P": np.full((2, 1, 2, 1, 2), 0.4)}, r"at step 0: P\[m=0, s=0, a=0\] must sum to 1"),
        ({"R": np.zeros((7, 7))}, "R must have the shape"),
    ],
)
def test_npz_names_what_is_wrong(tmp_path, changes, sentence):
    values = {
        "P": np.full((2, 1, 2, 1, 2), 0.5), "R": np.zeros((2, 1, 2, 1)), "w": [1.0],
        "nu": [[1.0, 0.0]], "H": 2,
    }  # fmt: skip
    np.savez(tmp_path / "good.npz", **values)
    assert lm.load(tmp_path / "good.npz").H == 2
    np.savez(tmp_path / "bad.npz", **(values | changes))
    with pytest.raises(lm.ModelError, match=sentence):
        lm.load(tmp_path / "bad.npz")


@pytest.mark.parametrize("steps", [0, -1, 10**15, 2])
def test_sparse_files_may_claim_any_number_of_steps(tmp_path, monkeypatch, steps):
    monkeypatch.setattr(json_format, "LARGEST_DENSE", 0)
    model = World.random(np.random.default_rng(5), M=1, S=1, A=1, H=3, timed=True).model()
    file = tmp_path / "x.json"
    lm.save(model, file)
    document = json.loads(file.read_text())
    assert document["steps"] == model.H
    document["steps"] = steps
    file.write_text(json.dumps(document))
    if steps != model.H:
        with pytest.raises(lm.ModelError, match=r"x\.json"):
            lm.load(file)


def test_commands_take_them(tmp_path, capsys):
    world = worlds(8, 1, timed=True, terminal=True, masked=False, M=2, S=2, A=2, H=3)[0]
    model, file, policy = world.model(), tmp_path / "x.csv", tmp_path / "p.json"
    lm.save(model, file)

    def said(*words):
        assert command([str(word) for word in words]) == 0
        return capsys.readouterr().out

    best = lm.plan(model, gap=None).lower
    facts = json.loads(
        said("plan", file, "--gap", "none", "--json", "--out", policy).splitlines()[-1]
    )
    assert facts["lower"] == pytest.approx(best)
    facts = json.loads(said("evaluate", file, policy, "--json").splitlines()[-1])
    assert facts["value"] == pytest.approx(best)
    text = said("show", file)
    assert f"{model.S} states" in text
    assert "depend on the step" in text
    assert "step-dependent" in said("convert", file, tmp_path / "y.npz")
    assert lm.load(tmp_path / "y.npz") == model
    said("convert", file, tmp_path / "y.pomdpx")
    assert "knowing the context" in said("plan", file, "--compare")
    least = json.loads(said("plan", file, "--minimize", "--gap", "none", "--json").splitlines()[-1])
    assert least["value"] <= best + 1e-9
    assert command(["learn", str(file), "-k", "10"]) == 2
    assert "model.time_augmented()" in capsys.readouterr().err
    said("plan", file, "--horizon", 1)
    assert command(["plan", str(file), "--horizon", "9"]) == 2
