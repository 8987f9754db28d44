"""Models and policies there and back in every format, and writing that is all or nothing."""

import errno
import json
import os
import stat
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import models, models_and_policies, random_model

import latentmdp as lm
from latentmdp.formats import ENDINGS, POLICY_ENDINGS, document, npz
from latentmdp.formats import json as json_format
from latentmdp.formats.csv import not_in_csv
from latentmdp.formats.document import Options, document_model, model_document
from latentmdp.runtime import files

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


@st.composite
def labelled_models(draw):
    """A random model, often with names, a layout, a limit and units."""
    model = draw(models(M=3, S=4, A=3, H=3))
    labels = {}
    for label, count in (("state_names", model.S), ("action_names", model.A)):
        if draw(st.booleans()):
            labels[label] = tuple(draw(st.lists(names, min_size=count, max_size=count)))
    if draw(st.booleans()):
        labels["context_names"] = tuple(f"context {m}" for m in range(model.M))
    if draw(st.booleans()):
        labels["layout"] = draw(layouts(model.M, model.S))
    model = model.replace(**labels)
    return model.normalized() if draw(st.booleans()) else model


@st.composite
def layouts(draw, M, S):
    cell = st.tuples(st.integers(0, 2), st.integers(0, 3))
    places = st.one_of(cell, st.just((-1, -1)))
    marks = st.lists(st.integers(0, S - 1), max_size=3).map(tuple)
    return lm.Layout(
        shape=(3, 4),
        positions=tuple(draw(st.lists(places, min_size=S, max_size=S))),
        walls=tuple(draw(st.lists(cell, max_size=3))),
        marks=draw(st.none() | st.lists(marks, min_size=M, max_size=M).map(tuple)),
    )


def assert_same(loaded, model):
    assert loaded == model
    for label in ("state_names", "action_names", "context_names", "layout"):
        assert getattr(loaded, label) == getattr(model, label)


@pytest.mark.parametrize("ending", [".npz", ".json"])
@pytest.mark.parametrize("dense", [True, False])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(model=labelled_models())
def test_models_there_and_back(tmp_path, ending, dense, model):
    limit = 10**9 if dense else -1
    file = tmp_path / f"model{ending}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(npz, "LARGEST_DENSE", limit)
        patch.setattr(json_format, "LARGEST_DENSE", limit)
        lm.save(model, file)
    assert_same(lm.load(file), model)
    assert os.listdir(tmp_path) == [file.name]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(model=labelled_models())
def test_models_there_and_back_in_csv(tmp_path_factory, model):
    file = tmp_path_factory.mktemp("csv") / "model.csv"
    lm.save(model, file)
    kept = {"layout": None} | {part: None for part in not_in_csv(model) if part.endswith("_names")}
    loaded, wanted = lm.load(file), model.replace(**kept)
    if model.reward_scale == 1 and model.reward_shift == 0:
        assert loaded == wanted
    for field in ("w", "nu", "indptr", "next", "symbol", "prob", "reward", "horizon", "discount"):
        assert np.array_equal(getattr(loaded, field), getattr(wanted, field)), field
    for field in ("state_names", "action_names", "context_names"):
        assert getattr(loaded, field) == getattr(wanted, field), field


@pytest.mark.parametrize("ending", POLICY_ENDINGS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(pair=models_and_policies())
def test_policies_there_and_back(tmp_path, ending, pair):
    _, policy = pair
    table = lm.PolicyGraph.from_table(policy.table)
    file = tmp_path / f"policy{ending}"
    table.save(file)
    assert lm.PolicyGraph.load(file) == table
    if ending != ".csv":
        policy.save(file)
        assert lm.load_policy(file) == policy
    elif not policy.is_markov:
        with pytest.raises(lm.ModelError, match="memory"):
            lm.save_policy(policy, file)


def test_npz_is_the_contracts_dense_form(tmp_path):
    model = lm.make("riverswim", observe_rewards=False).replace(discount=0.5)
    lm.save(model, tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as arrays:
        assert {"P", "R", "w", "nu", "H", "discount", "observe_rewards"} <= set(arrays.files)
        assert np.array_equal(arrays["P"], model.P)
        assert np.array_equal(arrays["R"], model.R)
        assert arrays["H"] == model.H
        assert arrays["discount"] == 0.5
        assert not arrays["observe_rewards"]


def test_numpys_own_dense_file_loads_with_defaults(tmp_path):
    model = lm.make("garnet")
    np.savez(tmp_path / "m.npz", P=model.P, R=model.R, w=model.w, nu=model.nu, H=model.H)
    plain = model.replace(max_return=None, state_names=None, action_names=None, context_names=None)
    assert lm.load(tmp_path / "m.npz") == plain
    loaded = lm.load(tmp_path / "m.npz", observe_rewards=False, horizon=7, discount=0.9)
    assert (loaded.observe_rewards, loaded.H, loaded.discount) == (False, 7, 0.9)


@pytest.mark.parametrize("ending", [".npz", ".json", ".csv"])  # a POMDP has neither
def test_the_files_word_holds_unless_told(tmp_path, ending):
    model = lm.make("bandit:contexts=2").replace(discount=0.75, observe_rewards=False)
    file = tmp_path / f"model{ending}"
    if ending == ".csv":
        model = model.replace(w=[0.5, 0.5], nu=np.tile(model.nu[0], (2, 1)))
    lm.save(model, str(file))
    assert not lm.load(file).observe_rewards
    told = lm.load(file, observe_rewards=True, horizon=3, discount=1.0)
    assert (told.observe_rewards, told.H, told.discount) == (True, 3, 1.0)


def test_a_limit_that_no_longer_holds_is_dropped(tmp_path):
    model = lm.make("garnet:horizon=5")
    lm.save(model, tmp_path / "m.npz")
    assert lm.load(tmp_path / "m.npz").return_limit == 1.0
    longer = lm.load(tmp_path / "m.npz", horizon=500)
    assert longer.return_limit is None
    assert longer.max_return > 1.0


def test_large_models_are_written_sparse(tmp_path, monkeypatch):
    model = lm.make("garnet")
    monkeypatch.setattr(npz, "LARGEST_DENSE", 10)
    lm.save(model, tmp_path / "m.npz")
    with zipfile.ZipFile(tmp_path / "m.npz") as archive:
        members = set(archive.namelist())
    assert "indptr.npy" in members
    assert "P.npy" not in members
    assert_same(lm.load(tmp_path / "m.npz"), model)


def test_the_same_model_gives_the_same_bytes(tmp_path):
    model = lm.make("maze")
    for ending in (".npz", ".json"):
        lm.save(model, tmp_path / f"a{ending}")
        lm.save(model, tmp_path / f"b{ending}")
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


def test_documents_need_no_order_of_rows():
    model = random_model(np.random.default_rng(3), M=3, S=4, A=3)
    values = model_document(model, dense=False)
    values = {key: values[key] for key in reversed(list(values))}
    assert document_model(values, Options()) == model


def test_csv_repeated_lines_add_up_and_columns_go_by_name(tmp_path):
    (tmp_path / "initial.csv").write_text("idstate,probability\n1,0.25\n0,0.5\n1,0.25\n")
    (tmp_path / "m.csv").write_text(
        "reward,idstateto,probability,idoutcome,note,idstatefrom,idaction\n"
        "2,0,0.25,0,first,0,0\n2,0,0.25,0,again,0,0\n3,1,0.5,0,,0,0\n1,1,1,0,,1,0\n"
    )
    model = lm.load(tmp_path / "m.csv", horizon=2)
    assert model.P[0, 0, 0].tolist() == [0.5, 0.5]
    assert model.R[0, 0, 0].tolist() == [2.0, 3.0]
    assert model.nu.tolist() == [[0.5, 0.5]]
    assert model.discount == 1.0
    assert model.observe_rewards


def test_csv_never_writes_over_other_models_files(tmp_path):
    model = lm.make("maze:size=3")
    lm.save(model, tmp_path / "a.csv")
    lm.save(model, tmp_path / "b.csv")  # the files beside say the same: shared
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(lm.ModelError, match="belongs to other models"):
        lm.save(model.replace(horizon=3), tmp_path / "c.csv")
    with pytest.raises(lm.ModelError, match="reserved"):
        lm.save(model, tmp_path / "initial.csv")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_markov_policy_from_a_table_in_any_order(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("state,action,step\n1,3,0\n0,2,0\n0,0,1\n1,1,1\n")
    assert lm.load_policy(file) == lm.PolicyGraph.from_table([[2, 3], [0, 1]])
    file.write_text('{"table": [[2, 3], [0, 1]]}')
    file.rename(tmp_path / "p.json")
    assert lm.load_policy(tmp_path / "p.json") == lm.PolicyGraph.from_table([[2, 3], [0, 1]])


def test_endings_may_be_capitals_and_unknown_ones_are_named(tmp_path):
    model = lm.make("bandit")
    lm.save(model, tmp_path / "M.NPZ")
    assert lm.load(tmp_path / "M.NPZ") == model
    for name, said in (("m.txt", "'.txt'"), ("m", "it has none")):
        with pytest.raises(lm.ModelError, match=r"one of \.npz, .*, \.pomdp; it .*") as error:
            lm.save(model, tmp_path / name)
        assert said in str(error.value)
        with pytest.raises(lm.ModelError, match="one of"):
            lm.load(tmp_path / name)


def test_save_refuses_what_is_no_model(tmp_path):
    with pytest.raises(lm.ModelError, match="LatentMDP"):
        lm.save({"P": 1}, tmp_path / "m.npz")
    with pytest.raises(lm.ModelError, match="PolicyGraph"):
        lm.save_policy([[0]], tmp_path / "p.json")
    for bad in (None, 3, b"m.npz", "", "a\0.npz"):
        with pytest.raises(lm.ModelError, match="file name"):
            lm.load(bad)


@pytest.mark.parametrize("name", ["a\0", "\ud800"])
def test_names_that_no_file_can_hold_are_refused(tmp_path, name):
    model = lm.make("bandit:contexts=1").replace(context_names=(name,))
    for ending in (".npz", ".json"):
        with pytest.raises(lm.ModelError, match="context_names"):
            lm.save(model, tmp_path / f"m{ending}")
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------------- all or nothing


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, ending, broken):
    model = lm.make("maze:size=3")
    file = tmp_path / f"model{ending}"
    lm.save(model, file)
    before = {f.name: f.read_bytes() for f in tmp_path.iterdir()}

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, broken, full)
    with pytest.raises(lm.ModelError, match="cannot be written: no space left on device") as error:
        lm.save(model, file)
    assert str(file) in str(error.value)
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == before


def test_an_interrupt_while_writing_leaves_nothing_behind(tmp_path):
    def interrupted(file):
        file.write(b"half")
        raise KeyboardInterrupt

    target = tmp_path / "x.json"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        files.write_atomically(target, interrupted)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["x.json"]


def test_of_several_files_none_is_written_if_one_fails(tmp_path):
    def good(file):
        file.write(b"new")

    with pytest.raises(lm.ModelError, match="folder does not exist"):
        files.write_together([(tmp_path / "a", good), (tmp_path / "no" / "b", good)])
    assert os.listdir(tmp_path) == []


def test_writing_keeps_mode_and_links(tmp_path):
    model = lm.make("bandit")
    file, link = tmp_path / "m.json", tmp_path / "link.json"
    lm.save(model, file)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask
    file.chmod(0o640)
    link.symlink_to(file)
    lm.save(lm.make("maze"), link)
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert lm.load(file) == lm.make("maze")


def test_what_cannot_be_written_is_said(tmp_path, monkeypatch):
    model = lm.make("bandit")
    (tmp_path / "folder.npz").mkdir()
    os.mkfifo(tmp_path / "pipe.npz")
    for path, said in (
        (tmp_path / "folder.npz", "it is a folder"),
        (tmp_path / "pipe.npz", "no regular file"),
        (tmp_path / "none" / "m.npz", "its folder does not exist"),
        (tmp_path / ("x" * 300 + ".npz"), "file name too long"),
    ):
        with pytest.raises(lm.ModelError, match=said):
            lm.save(model, path)
    lm.save(model, tmp_path / "m.npz")
    monkeypatch.setattr(files.os, "access", lambda *arguments: False)
    with pytest.raises(lm.ModelError, match="read-only"):
        lm.save(model, tmp_path / "m.npz")


def test_json_is_strict_json(tmp_path):
    lm.save(lm.make("maze"), tmp_path / "m.json")

    def refuse(constant):
        raise AssertionError(constant)

    found = json.loads((tmp_path / "m.json").read_text(), parse_constant=refuse)
    assert found["format"] == document.MODEL_FORMAT
    assert found["observe_rewards"] is True
