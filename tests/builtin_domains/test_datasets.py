"""The catalogue of published problems: complete, checked by digest, and true where files are."""

import doctest
import hashlib
import re
import shlex
import shutil

import pytest
from cli_answers import last_json, only_line

import latentmdp as lm
from latentmdp import datasets
from latentmdp.commands import cli

NAMES = list(lm.datasets.DATASETS)


def test_examples_in_the_docstrings():
    assert doctest.testmod(datasets.published).failed == 0


@pytest.mark.parametrize("name", NAMES)
def test_entries_are_complete(name):
    found = lm.datasets.dataset(name)
    assert found.name == name
    for text in (found.title, found.source, found.licence, found.obtain, found.command):
        assert len(text) > 2
    assert found.published
    assert all(p.what and p.provenance for p in found.published)
    assert found.bracket[0] <= found.bracket[1]
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in found.files.values())
    for command in found.command.split("; "):
        assert shlex.split(command)[0] == "latentmdp"
    assert found.file in found.command


def test_the_table_and_the_command_list_all(capsys):
    assert list(lm.datasets.catalogue().name) == NAMES
    assert cli.run(["datasets"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in NAMES)
    assert cli.run(["datasets", "--json"]) == 0
    listed = last_json(capsys.readouterr().out)["datasets"]
    assert [x["name"] for x in listed] == NAMES
    assert {"licence", "published", "provenance", "lower", "upper", "sha256"} <= set(listed[0])
    assert cli.run(["datasets", "2states2actions"]) == 0
    assert "SHA-256 5f8b43ab" in capsys.readouterr().out
    code = cli.run(["datasets", "tiger"])
    assert "unknown dataset 'tiger'; known: riverswim-train" in only_line(
        code, *capsys.readouterr()
    )


def made(tmp_path, monkeypatch):
    """A small problem of our own in the catalogue."""
    model = lm.make("bandit:contexts=2").replace(context_names=None)
    lm.save(model, tmp_path / "made.npz")
    digest = hashlib.sha256((tmp_path / "made.npz").read_bytes()).hexdigest()
    entry = datasets.Dataset(
        "made", "t", "s", "l", "make it", {"made.npz": digest}, {"horizon": 3}, {}, (), (0, 1), "c"
    )
    monkeypatch.setitem(datasets.DATASETS, "made", entry)
    return model


def test_load_checks_the_digest(tmp_path, monkeypatch):
    model = made(tmp_path, monkeypatch)
    wanted = model.replace(horizon=3)
    assert lm.datasets.load("made", tmp_path / "made.npz") == wanted
    assert lm.datasets.load("made", tmp_path) == wanted
    (tmp_path / "below").mkdir()
    shutil.move(tmp_path / "made.npz", tmp_path / "below" / "made.npz")
    assert lm.datasets.load("made", tmp_path) == wanted
    assert lm.datasets.load("made", tmp_path, horizon=5).H == 5
    with open(tmp_path / "below" / "made.npz", "ab") as file:
        file.write(b"\0")
    with pytest.raises(lm.ModelError, match="must be the published file of made, with the SHA-256"):
        lm.datasets.load("made", tmp_path)


def test_what_is_not_there_is_said(tmp_path, monkeypatch):
    made(tmp_path, monkeypatch)
    with pytest.raises(lm.ModelError, match=r"must hold training\.csv; to get it: the folder riv"):
        lm.datasets.load("riverswim-train", tmp_path)
    with pytest.raises(lm.ModelError, match="there is no such file"):
        lm.datasets.load("made", tmp_path / "nothing.npz")
    with pytest.raises(lm.ModelError, match="unknown dataset 'x'; known: "):
        lm.datasets.load("x", tmp_path)
    with pytest.raises(lm.ModelError, match="a file name must be text or a path"):
        lm.datasets.load("made", 3)


INCLUDED = [name for name in NAMES if lm.datasets.dataset(name).included]


@pytest.mark.parametrize("name", INCLUDED)
def test_included_models_load_and_others_values_do_not_contradict_our_bounds(name):
    """A policy of others earns at most our upper bound, where both speak of the same problem."""
    model = lm.datasets.load(name)
    assert not model.observe_rewards
    found = lm.datasets.dataset(name)
    if name != "maze_n5_M4":  # another horizon
        assert found.published[0].value <= found.bracket[1] + 5e-5


def test_which_models_are_included():
    assert len(INCLUDED) == 6
    with pytest.raises(lm.ModelError, match="are not part of this package: give their path"):
        lm.datasets.load("riverswim-train")


def test_our_bracket_is_what_the_command_gives(capsys):
    """The quickest of them; `benchmarks/published.py` makes all."""
    found = lm.datasets.dataset("maze_n5_M4")
    command = shlex.split(
        found.command.replace(found.file, str(datasets.published.OWN_MODELS / found.file))
    )
    assert cli.run([*command[1:], "--json"]) == 0
    answer = last_json(capsys.readouterr().out)
    assert answer["lower"] <= found.bracket[1]
    assert answer["upper"] >= found.bracket[0]
    assert answer["gap"] <= 0.001
