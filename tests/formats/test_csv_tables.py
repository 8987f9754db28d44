"""CSV as people have it: names, weights, first states, models without a column, ends."""

import numpy as np
import pytest
from cli_answers import last_json, only_line

import latentmdp as lm
from latentmdp.commands import cli
from latentmdp.formats.csv import not_in_csv
from latentmdp.formats.tables import CsvTable

HEADER = "idstatefrom,idaction,idoutcome,idstateto,probability,reward\n"
NAMED = HEADER + (
    "left,swim,calm,right,0.6,0\nleft,swim,calm,left,0.4,0\nleft,swim,rough,left,1,0\n"
    'right,swim,calm,"the end, at last",1,2\nright,swim,rough,"the end, at last",1,-3\n'
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "m.csv").write_text(NAMED)
    (tmp_path / "initial.csv").write_text("idstate,probability\nright,0.25\nleft,0.75\n")
    return tmp_path


def test_names_and_ends(folder):
    model = lm.load(folder / "m.csv", horizon=4)
    assert model.state_names == ("left", "right", "the end, at last")
    assert model.context_names == ("calm", "rough")
    assert model.action_names == ("swim",)
    assert model.nu.tolist() == [[0.75, 0.25, 0]] * 2
    assert model.w.tolist() == [0.5, 0.5]
    assert model.P[:, 2, 0].tolist() == [[0, 0, 1]] * 2
    assert model.R[:, 2, 0].tolist() == [0, 0]
    assert model == lm.LatentMDP.from_frame(model.to_frame(), 4)


def test_there_and_back_with_names_weights_and_first_states_by_context(folder):
    model = lm.load(folder / "m.csv", horizon=4).replace(
        w=[0.2, 0.8], nu=[[1, 0, 0], [0.5, 0.5, 0]]
    )
    (folder / "new").mkdir()
    lm.save(model, folder / "new" / "m.csv")
    assert lm.load(folder / "new" / "m.csv") == model
    assert (folder / "new" / "weights.csv").read_text() == "idoutcome,weight\ncalm,0.2\nrough,0.8\n"
    assert (
        "idoutcome,idstate,probability\ncalm,left,1.0"
        in (folder / "new" / "initial.csv").read_text()
    )
    with pytest.raises(lm.ModelError, match=r"weights\.csv: belongs to other models and differs"):
        lm.save(model.replace(w=[0.5, 0.5]), folder / "new" / "even.csv")
    with pytest.raises(lm.ModelError, match="this name is reserved"):
        lm.save(model, folder / "weights.csv")


def test_weights_beside_or_in_a_column(folder):
    (folder / "weights.csv").write_text("weight,idoutcome\n0.25,rough\n0.75,calm\n")
    assert lm.load(folder / "m.csv", horizon=4).w.tolist() == [0.75, 0.25]
    lines = NAMED.splitlines()
    weight = {"calm": "0.1", "rough": "0.9"}
    with_column = [lines[0] + ",weight"] + [
        f"{line},{weight['calm' if 'calm' in line else 'rough']}" for line in lines[1:]
    ]
    (folder / "m.csv").write_text("\n".join(with_column) + "\n")
    assert lm.load(folder / "m.csv", horizon=4).w.tolist() == [0.1, 0.9]  # its own come first
    (folder / "m.csv").write_text("\n".join([*with_column[:-1], lines[-1] + ",0.8"]) + "\n")
    with pytest.raises(lm.ModelError, match="'weight' must be the same in all rows of a context"):
        lm.load(folder / "m.csv", horizon=4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("idoutcome,weight\ncalm,1\nwild,0\n", "weights.csv: there is no context 'wild'"),
        ("idoutcome,weight\ncalm,1\n", None),
        ("idoutcome,weight\ncalm,0.5\n", "w must sum to 1"),
        ("idoutcome,weight\ncalm,-1\nrough,2\n", "must be at least 0"),
        (
            "idoutcome,weight\ncalm,much\n",
            "weights.csv: 'weight' must be a finite number; in data row 1 it is 'much'",
        ),
        ("idoutcome\ncalm\n", "weights.csv: each of the columns"),
        ("idoutcome,weight\n0,0.5\n1,0.5\n", "weights.csv: there is no context '0'"),
        ("", "weights.csv: the file is empty"),
    ],
)
def test_wrong_weights(folder, text, said):
    (folder / "weights.csv").write_text(text)
    if said is None:
        assert lm.load(folder / "m.csv", horizon=4).w.tolist() == [1, 0]
        return
    with pytest.raises(lm.ModelError, match=said):
        lm.load(folder / "m.csv", horizon=4)


def test_one_model_needs_no_column(tmp_path):
    (tmp_path / "m.csv").write_text(
        "idstatefrom,idaction,idstateto,probability,reward\n0,0,1,1,5\n0,1,2,1,6\n"
    )
    model = lm.load(tmp_path / "m.csv", horizon=3, start=0)
    assert (model.M, model.S, model.A) == (1, 3, 2)
    assert lm.plan(model).lower == 6.0


def test_a_named_start_needs_no_initial_file(folder):
    (folder / "initial.csv").unlink()
    with pytest.raises(lm.ModelError, match=r"initial\.csv: must be beside the model, or the"):
        lm.load(folder / "m.csv", horizon=4)
    assert lm.load(folder / "m.csv", horizon=4, start="right").nu.tolist() == [[0, 1, 0]] * 2
    mixed = lm.load(folder / "m.csv", horizon=4, start={"right": 0.5, "left": 0.5})
    assert mixed.nu.tolist() == [[0.5, 0.5, 0]] * 2
    with pytest.raises(
        lm.ModelError, match="there is no state 'middle'; there are 'left', 'right'"
    ):
        lm.load(folder / "m.csv", horizon=4, start="middle")
    lm.save(mixed, folder / "m.npz")
    assert lm.load(folder / "m.npz", start="left").nu.tolist() == [[1, 0, 0]] * 2
    assert lm.load(folder / "m.npz", start=None) == mixed


def test_start_on_the_command_line(folder, capsys):
    (folder / "initial.csv").unlink()
    file = str(folder / "m.csv")
    assert cli.run(["plan", file, "--horizon", "4", "--start", "right", "--json"]) == 0
    assert last_json(capsys.readouterr().out)["lower"] == pytest.approx(0.5 * 2 - 0.5 * 3)
    code = cli.run(["plan", file, "--horizon", "4", "--start", "nowhere"])
    assert "there is no state 'nowhere'" in only_line(code, *capsys.readouterr())
    assert cli.run(["show", "maze:size=3", "--start", "1", "--json"]) == 0


def test_names_that_would_come_back_as_others_are_left_out(tmp_path):
    model = lm.make("bandit:contexts=2,arms=2")
    for names in (["1", "2"], ["a", "a"], [" a", "b"], ["nan", "1e5"], ["a\nb", "c"], ["", "x"]):
        named = model.replace(context_names=names)
        file = tmp_path / "m.csv"
        lm.save(named, file)
        assert lm.load(file).context_names is None
        assert "context_names" in lm.formats.not_held(named, file)
    kept = model.replace(context_names=["1", "two, or\u00fc"])
    (tmp_path / "kept").mkdir()
    lm.save(kept, tmp_path / "kept" / "m.csv")
    assert lm.load(tmp_path / "kept" / "m.csv").context_names == kept.context_names


def test_names_in_another_order_are_left_out(tmp_path):
    """Names are numbered as they appear; a policy's actions must mean the same after a detour."""
    model = lm.LatentMDP.from_arrays(
        np.full((1, 2, 2, 2), 0.5), np.eye(2)[None], [1.0], [[1.0, 0.0]], 2, max_return=None,
        allowed=[[False, True], [True, True]], action_names=["stay", "go"], state_names=["x", "y"],
    )  # fmt: skip
    lm.save(model, tmp_path / "m.csv")
    again = lm.load(tmp_path / "m.csv")
    assert (again.action_names, again.state_names) == (None, ("x", "y"))
    assert not_in_csv(model) == ["action_names"]
    assert again.replace(action_names=model.action_names) == model


def test_named_and_numbered_tables_say_the_same(tmp_path):
    """Names in any order of lines give the same model up to the order of its states."""
    model = lm.make("garnet:contexts=2,states=4,actions=2,horizon=5")
    named = model.replace(
        state_names=["n", "w", "s", "e"], action_names=["go", "stay"], context_names=["x", "y"]
    )
    lm.save(named, tmp_path / "m.csv")
    lines = (tmp_path / "m.csv").read_text().splitlines()
    np.random.default_rng(0).shuffle(body := lines[1:])
    (tmp_path / "m.csv").write_text("\n".join([lines[0], *body]) + "\n")
    loaded = lm.load(tmp_path / "m.csv")
    order = [loaded.state_names.index(name) for name in named.state_names]
    contexts = [loaded.context_names.index(name) for name in named.context_names]
    actions = [loaded.action_names.index(name) for name in named.action_names]
    assert np.array_equal(loaded.P[np.ix_(contexts, order, actions, order)], named.P)
    assert lm.plan(loaded, gap=None).lower == pytest.approx(lm.plan(model, gap=None).lower)


@pytest.mark.parametrize("name", ["INF", "-Infinity", "NaN", "1e5", "7"])
def test_names_that_read_as_numbers_are_not_written(tmp_path, name):
    model = lm.make("bandit:arms=2,contexts=1,horizon=2")
    names = (name, "7") if name != "7" else ("7", "8")
    lm.save(model.replace(action_names=names), tmp_path / "model.csv")
    assert lm.load(tmp_path / "model.csv").action_names is None
    lm.save(model.replace(action_names=(name, "x")), tmp_path / "model.csv")
    assert lm.load(tmp_path / "model.csv").action_names == (name, "x")


NUMBERS = [
    "9007199254740993", "18446744073709551615", "5e-324", "2.4703282292062328e-324", "1e23",
    "8.5e22", ".5", "5.", "+1", "-0", "1E5", "0" * 400 + "1", "0." + "0" * 300 + "1", " 1 ",
    "1.7976931348623157e308", "0.1000000000000000055511151231257827",
]  # fmt: skip


def test_numbers_are_read_as_float_reads_them(tmp_path):
    """To the last bit, in a table of numbers and in one with names."""
    bits = np.random.default_rng(0).integers(0, 2**63, 20_000, dtype=np.uint64).view(float)
    short = [f"{value:.3g}" for value in bits[np.isfinite(bits)][:5000].tolist()]
    texts = NUMBERS + short + [repr(value) for value in bits[np.isfinite(bits)].tolist()]
    for label, column in (("0", texts), ("name", texts), ("0", ["-0"]), ("0", ["1" * 30])):
        lines = "".join(f"{label},{text}\n" for text in column)
        (tmp_path / "t.csv").write_text("id,value\n" + lines)
        found = CsvTable(tmp_path / "t.csv", {"label": "id", "value": "value"}).floats("value")
        assert found.tobytes() == np.array([float(text) for text in column]).tobytes()


@pytest.mark.parametrize("cell", ["1_0", "", "nan", "True", "0x10", "1d5", "1 2", "\u0663", "1\0"])
@pytest.mark.parametrize("label", ["0", "name"])
def test_what_is_not_a_finite_number_is_refused_with_its_row(tmp_path, cell, label):
    (tmp_path / "t.csv").write_text(f"value,id\n1,0\n\n2,{label}\n{cell},0\n")
    with pytest.raises(lm.ModelError, match=r"'value' must be a finite number; in data row 3 it"):
        CsvTable(tmp_path / "t.csv", {"label": "id", "value": "value"})


@pytest.mark.parametrize("cells", [("True", "False"), ("true", "true"), ("0", "True")])
def test_truth_values_are_not_numbers(tmp_path, cells):
    """pandas takes a column of nothing else for numbers."""
    (tmp_path / "t.csv").write_text("value\n" + "\n".join(cells) + "\n")
    with pytest.raises(lm.ModelError, match=r"'value' must be a finite number; in data row \d it"):
        CsvTable(tmp_path / "t.csv", {"value": "value"})


def test_labels_are_numbers_only_where_all_of_an_axis_are(tmp_path):
    def labels(*cells):
        (tmp_path / "t.csv").write_text("id\n" + "\n".join(cells) + "\n")
        axis, (numbers,) = CsvTable(tmp_path / "t.csv", {"state": "id"}).labels("state", "state")
        return axis.names, axis.size, numbers.tolist()

    assert labels("007", "7", "0") == (None, 8, [7, 7, 0])
    assert labels("2.0", " 1", "1e0") == (None, 3, [2, 1, 1])
    assert labels("b", " a", "a ", "007") == (("b", "a", "007"), 3, [0, 1, 1, 2])
    assert labels("True", "true", "TRUE") == (("True", "true", "TRUE"), 3, [0, 1, 2])
    assert labels("-0", "+1") == (None, 2, [0, 1])
    assert labels("NA", "null", "nan") == (("NA", "null", "nan"), 3, [0, 1, 2])
    assert labels("1_0", "1") == (("1_0", "1"), 2, [0, 1])


def test_names_like_007_come_back_in_the_files_beside(tmp_path):
    model = lm.make("bandit:contexts=2,arms=2").replace(context_names=("007", "x"), w=[1.0, 0.0])
    lm.save(model, tmp_path / "m.csv")
    (tmp_path / "weights.csv").write_text("idoutcome,weight\n007,1\n")
    assert lm.load(tmp_path / "m.csv").w.tolist() == [1.0, 0.0]
    assert lm.load(tmp_path / "m.csv").context_names == ("007", "x")
