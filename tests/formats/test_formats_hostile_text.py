"""Hostile and broken JSON, CSV and policies: one clear sentence each."""

import json
import tracemalloc

import numpy as np
import pytest
from test_formats_hostile import DENSE, MODEL, refused

import latentmdp as lm
from latentmdp.runtime import files

# ---------------------------------------------------------------------- JSON


def json_document(**changes):
    values = {key: value.tolist() for key, value in DENSE.items()} | changes
    return json.dumps({key: value for key, value in values.items() if value is not None})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "must be JSON; at line 1"),
        ("[1, 2]", "must hold one JSON object; it holds a list"),
        ("3", "must hold one JSON object"),
        ("null", "must hold one JSON object"),
        ('{"H": 3, "H": 4}', "'H' appears twice"),
        ('{"H": {"a": 1, "a": 2}}', "'a' appears twice"),
        ('{"H": NaN}', "must be finite; found NaN"),
        ('{"H": -Infinity}', "must be finite; found -Infinity"),
        ("[" * 100_000, "nested too deeply"),
        ('{"H": ' + "9" * 5000 + "}", "must be JSON"),
        ('{"H": ' + "9" * 400 + "}", "H must be whole numbers; found mixed or too large values"),
        (json_document(H="3"), "H must be whole numbers; found text"),
        (json_document(H=None), "the key 'H' must be there"),
        (json_document(H=[]), "H must be a single value"),
        (json_document(H={"a": 1}), "H must be whole numbers"),
        (json_document(P=[[1], [1, 2]]), "P must be numbers in a regular array"),
        (json_document(P=[[[["0.5"]]]]), "P must be numbers; found text"),
        (json_document(P=[[[[None]]]]), "P must be numbers"),
        (json_document(w=[[[[[[]]]]]]), "w must have the shape"),
        (json_document(discount=True), "discount must be numbers"),
        (json_document(state_names=["\ud800"] * MODEL.S), "must be Unicode text"),
        (json_document(state_names=[1] * MODEL.S), "state_names must be a list of names"),
        (json_document().replace("1.0", "1e999", 1), "must be finite"),
        ('{"table": [[0]]}', "the key"),
    ],
)
def test_wrong_json(tmp_path, text, said):
    (tmp_path / "m.json").write_text(text)
    assert said in refused(tmp_path / "m.json")


def test_json_that_is_no_text(tmp_path):
    (tmp_path / "m.json").write_bytes(b'{"H": "\xff"}')
    assert "must be UTF-8 text; byte 7 is not" in refused(tmp_path / "m.json")
    (tmp_path / "m.json").write_bytes(b"\xef\xbb\xbf" + json_document().encode())
    assert lm.load(tmp_path / "m.json").S == MODEL.S  # a byte order mark does no harm


def test_text_too_long_for_the_machine(tmp_path, monkeypatch):
    (tmp_path / "m.json").write_text(json_document())
    monkeypatch.setattr(files, "memory_budget", lambda: 100)
    assert "too much for this machine" in refused(tmp_path / "m.json")


# ---------------------------------------------------------------------- CSV

ROWS = "idstatefrom,idaction,idoutcome,idstateto,probability,reward\n0,0,0,1,1,0\n1,0,0,0,1,1\n"
INITIAL = "idstate,probability\n0,1\n"


@pytest.mark.parametrize(
    ("rows", "initial", "parameters", "said"),
    [
        (ROWS, None, None, "initial.csv: must be beside the model"),
        (ROWS, "", None, "initial.csv: the file is empty"),
        (ROWS, "idstate,probability\n", None, "initial.csv: the table has no rows"),
        (ROWS, "idstate\n0\n", None, "probability is missing"),
        (ROWS, "idstate,probability\n0,0.5\n", None, "must sum to 1"),
        (
            ROWS,
            "idstate,probability\n-1,1\n",
            None,
            "initial.csv: there is no state '-1'; they are numbered from 0 to 1",
        ),
        (
            ROWS,
            "idstate,probability\n1e12,1\n",
            None,
            "initial.csv: there is no state '1e12'; they are numbered from 0 to 1",
        ),
        (ROWS, INITIAL, "x\n", "parameters.csv: the header must be parameter,value"),
        (ROWS, INITIAL, "parameter,value\ndiscount,no\n", "discount must be one number"),
        (ROWS, INITIAL, "parameter,value\ndiscount,nan\n", "discount must be one number"),
        (ROWS, INITIAL, "parameter,value\ndiscount,2\n", "discount must be"),
        (ROWS, INITIAL, "parameter,value\ndiscount,1\ndiscount,1\n", "appears twice"),
        (ROWS, INITIAL, 'parameter,value\ndiscount,"1\n', "cannot be read"),
        (ROWS, INITIAL, "parameter,value\nobserve_rewards,2\n", "must be 0 or 1"),
        (ROWS.replace("idaction", "action"), INITIAL, None, "idaction is missing"),
        (ROWS.replace("idaction", "reward"), INITIAL, None, "idaction is missing"),
        ("reward," + ROWS, INITIAL, None, "reward appears twice"),
        (ROWS.split("\n")[0], INITIAL, None, "the table has no rows"),
        (ROWS + "1,0,0,0,one,1\n", INITIAL, None, "in data row 3 it is 'one'"),
        (
            ROWS + "1,0,0,0,1\n",
            INITIAL,
            None,
            "'reward' must be a finite number; in data row 3 it is empty or",
        ),
        (
            ROWS + "1,0,0,0,nan,1\n",
            INITIAL,
            None,
            "'probability' must be a finite number; in data row 3",
        ),
        (
            ROWS + "1,0,0,0,1,inf\n",
            INITIAL,
            None,
            "'reward' must be a finite number; in data row 3 it is inf",
        ),
        (
            ROWS + "1.5,0,0,0,1,0\n",
            INITIAL,
            None,
            "'idstatefrom' must be a whole number from 0; in data row 3",
        ),
        (
            ROWS + "1,-1,0,0,1,0\n",
            INITIAL,
            None,
            "'idaction' must be a whole number from 0; in data row 3 it is -1",
        ),
        (ROWS + "1,0,2,0,1,0\n", INITIAL, None, "idoutcome=1 has none"),
        (ROWS + "1,0,0,1000000000000,1,0\n", INITIAL, None, "x 1000000000001 states x"),
        (
            ROWS + "0,1,0,0,1,0\n0,0,1,0,1,0\n",
            INITIAL,
            None,
            "in all contexts, or in none of them (then it is unavailable in that state); "
            "context 1, state 0, action 1 has none",
        ),
        (
            ROWS + "left,0,0,,1,0\n",
            INITIAL,
            None,
            "'idstateto' must be a name or a number; in data row 3 it is empty",
        ),
        (
            ROWS + "left,0,0\n",
            INITIAL,
            None,
            "'probability' must be a finite number; in data row 3 it is empty",
        ),
        (ROWS + "left,0,0,0,one,0\n", INITIAL, None, "in data row 3 it is 'one'"),
        (
            ROWS + "left,0,0,0,1,nan\n",
            INITIAL,
            None,
            "'reward' must be a finite number; in data row 3",
        ),
        (
            ROWS + 'left,0,0,"0,1,0\n',
            INITIAL,
            None,
            "cannot be read as CSV: Error tokenizing data. C error: EOF inside",
        ),
        (ROWS + "x" * 2000 + ",0,0,0,1,0\n", INITIAL, None, "must have 1 to 1000 characters"),
        (ROWS + "left,0,0,1,1,0\n", "idstate,probability\n7,1\n", None, "no state '7'; there are"),
        (ROWS, "idstate,probability\nleft,1\n", None, "initial.csv: there is no state 'left'; th"),
        (
            ROWS,
            "idstate,idoutcome,probability\n0,1,1\n",
            None,
            "initial.csv: there is no context '1'",
        ),
        (ROWS + "1,1e15,0,0,1,0\n", INITIAL, None, "x 1000000000000001 actions"),
        (ROWS + "1,0,0,0,1,1\n", INITIAL, None, "must sum to 1; it sums to 2"),
        (ROWS + "1,0,0,0,0,1\n0,0,0,0,-1,0\n", INITIAL, None, "at least 0"),
        (ROWS + '"1,0,0,0,1,1\n', INITIAL, None, "m.csv: "),
        ("\0" * 100, INITIAL, None, "m.csv: "),
        ("x" * 20_000, INITIAL, None, "header line must be at most"),
    ],
)
def test_wrong_csv(tmp_path, rows, initial, parameters, said):
    (tmp_path / "m.csv").write_text(rows)
    if initial is not None:
        (tmp_path / "initial.csv").write_text(initial)
    if parameters is not None:
        (tmp_path / "parameters.csv").write_text(parameters)
    assert said in refused(tmp_path / "m.csv", horizon=3)


def test_csv_needs_a_horizon(tmp_path):
    (tmp_path / "m.csv").write_text(ROWS)
    (tmp_path / "initial.csv").write_text(INITIAL)
    assert "the horizon must be given" in refused(tmp_path / "m.csv")
    assert "horizon must be a whole number" in refused(tmp_path / "m.csv", horizon=0)
    assert lm.load(tmp_path / "m.csv", horizon=5).H == 5


def test_csv_that_is_no_text(tmp_path):
    (tmp_path / "initial.csv").write_text(INITIAL)
    for raw in (b"\xff\xfe\xfd", ROWS.encode() + b"\xff,0,0,0,1,1\n"):
        (tmp_path / "m.csv").write_bytes(raw)
        refused(tmp_path / "m.csv", horizon=3)


# ---------------------------------------------------------------------- policies


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"table": [[0, -1]]}', "at least 0"),
        ('{"table": [0, 1]}', "shape (H, S)"),
        ('{"table": []}', "shape (H, S)"),
        ('{"table": [[0.5]]}', "whole number"),
        ('{"table": [[4294967296]]}', "below 2^31"),
        ('{"step": [0]}', "the key 'state' must be there"),
        ('{"P": [], "R": []}', "holds a model; a policy was asked for"),
        ('{"format": "latentmdp model", "table": [[0]]}', "a policy was asked for"),
    ],
)
def test_wrong_policies(tmp_path, text, said):
    (tmp_path / "p.json").write_text(text)
    assert said in refused(tmp_path / "p.json", lm.load_policy)


@pytest.mark.parametrize(
    "text",
    [
        "step,state\n0,0\n",
        "step,state,action\n0,0,0\n0,0,1\n",
        "step,state,action\n0,0,0\n1,1,1\n",
        "step,state,action\n1000000000,1000000000,0\n",
        "step,state,action\n0,0,x\n",
        "step,state,action\n0,0,2147483648\n",  # it was saved as a negative one
    ],
)
def test_wrong_policy_tables(tmp_path, text):
    (tmp_path / "p.csv").write_text(text)
    refused(tmp_path / "p.csv", lm.load_policy)


def test_a_policy_is_no_model_and_a_model_no_policy(tmp_path):
    policy = lm.PolicyGraph.from_table(np.zeros((MODEL.H, MODEL.S), dtype=int))
    for ending in (".npz", ".json"):
        lm.save_policy(policy, tmp_path / f"p{ending}")
        assert "a model was asked for" in refused(tmp_path / f"p{ending}")
        lm.save(MODEL, tmp_path / f"m{ending}")
        assert "a policy was asked for" in refused(tmp_path / f"m{ending}", lm.load_policy)


# ---------------------------------------------------------------------- small files, large costs


def peak_of(file, load=lm.load):
    """Bytes that refusing a file takes at most."""
    tracemalloc.start()
    try:
        text = refused(file, load)
        return text, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("key", ["state_names", "w", "P", "H"])
def test_one_long_text_does_not_make_all_entries_long(tmp_path, key):
    """One array of text would give every entry the room of the longest: 2.4 GB here."""
    many = ["a" * 300_000, *["b"] * 2_000]
    (tmp_path / "m.json").write_text(json_document(**{key: many}))
    text, peak = peak_of(tmp_path / "m.json")
    assert key in text
    assert peak < 10_000_000


def test_many_unknown_keys_are_refused_unread(tmp_path):
    """Each was compared with all known ones."""
    (tmp_path / "m.json").write_text(json_document(**{f"key{i}": 0 for i in range(300_000)}))
    assert "must have at most 1000 keys; found 300006" in refused(tmp_path / "m.json")
    (tmp_path / "m.json").write_text(json_document(**{"observe_reward" * 10**5: 0}))
    assert lm.load(tmp_path / "m.json") == lm.LatentMDP.from_arrays(
        MODEL.P, MODEL.R, MODEL.w, MODEL.nu, MODEL.H, max_return=None
    )


@pytest.mark.parametrize("kind", ["int8", "int64", "float64"])
def test_a_packed_policy_does_not_unfold_in_memory(tmp_path, kind):
    """Zeros deflate to a thousandth, and a policy has six times its table."""
    np.savez_compressed(tmp_path / "p.npz", table=np.zeros((300, 10**5), dtype=kind))
    assert (tmp_path / "p.npz").stat().st_size < 300_000
    text, peak = peak_of(tmp_path / "p.npz", lm.load_policy)
    assert "must not be far larger than the file" in text
    assert peak < 10_000_000


def test_packed_names_do_not_unfold_in_memory(tmp_path):
    names = np.zeros(300_000, dtype="U100")
    np.savez_compressed(tmp_path / "m.npz", **DENSE, state_names=names)
    text, peak = peak_of(tmp_path / "m.npz")
    assert "must not be far larger than the file" in text
    assert peak < 10_000_000


def test_what_we_write_ourselves_is_never_too_large(tmp_path, monkeypatch):
    """A large policy is written unpacked, so that it can be told from a trap."""
    monkeypatch.setattr("latentmdp.formats.archive.FREE_BYTES", 10_000)
    policy = lm.PolicyGraph.from_table(np.zeros((100, 50), dtype=int))
    lm.save_policy(policy, tmp_path / "p.npz")
    assert lm.load_policy(tmp_path / "p.npz") == policy
    big = lm.make("garnet:states=20,actions=4,contexts=3,horizon=5")
    lm.save(big, tmp_path / "m.npz")
    assert lm.load(tmp_path / "m.npz") == big


def test_a_layout_has_as_many_cells_as_can_be_drawn(tmp_path):
    cells = {"layout_shape": [10**9, 10**9], "layout_positions": [[0, 0]] * MODEL.S}
    (tmp_path / "m.json").write_text(json_document(**cells))
    assert "layout_shape must be (rows, columns)" in refused(tmp_path / "m.json")


@pytest.mark.parametrize("names", [[1, "a"], ["a", 2.5], ["a", None], ["a", True], [["a"]], "ab"])
def test_names_that_are_no_text(tmp_path, names):
    (tmp_path / "m.json").write_text(json_document(context_names=names))
    assert "context_names must be a list of names" in refused(tmp_path / "m.json")


def test_refusals_stay_short(tmp_path):
    (tmp_path / "m.json").write_text(json_document(format="x" * 10**6, state_names=["y" * 10**6]))
    refused(tmp_path / "m.json")
