"""Scaling studies in the report: what is drawn is what was measured; bad files say one thing."""

import json

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.cli import run as command
from latentmdp.learning.learn import learn
from latentmdp.report import write_report
from latentmdp.report.scaling import scaling_data
from latentmdp.report.study import load_study
from report_pages import HOSTILE, Page


def a_study(**changes):
    """Two learners, two sizes; regret is exactly `10 x^0.5` and `seed + 1` at any size."""
    rows = [
        {"algorithm": name, "x": x, "seed": seed,
         "regret": 10 * x**0.5 if name == "mvp" else seed + 1}
        for name in ("mvp", "lucrl") for x in (1, 4, 16.0) for seed in (0, 1)
    ]  # fmt: skip
    fits = [
        {"algorithm": "mvp", "exponent": 0.5, "low": 0.5, "high": 0.5},
        {"algorithm": "lucrl", "exponent": 0, "low": -0.25, "high": 0.25},
    ]
    varied = {"parameter": "H", "label": "H, slowed", "model": "garnets", "theorem_exponent": 0,
              "rows": rows, "fits": fits, "note": "a note"}  # fmt: skip
    entry = {key: changes.pop(key) for key in list(changes) if key in varied}
    document = {"format": "latentmdp-study", "version": 1, "title": "How it scales",
                "command": "python study.py --seeds 2", "versions": {"numpy": "2"},
                "seconds": 3.5, "varied": [varied | entry]}  # fmt: skip
    return document | changes


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "study"
    place.mkdir()
    write(place, a_study())
    return place


def write(place, document):
    text = document if isinstance(document, str) else json.dumps(document)
    (place / "study.json").write_text(text, encoding="utf-8")


def page_of(path):
    return Page(path.read_text(encoding="utf-8"))


def test_a_study_alone_makes_a_page(folder, tmp_path):
    page = page_of(write_report([], tmp_path / "r.html", study=folder))
    texts = " ".join(page.texts)
    for words in ("How it scales", "H, slowed", "a note", "garnets", "python study.py", "numpy 2",
                  "0.50 (0.50 to 0.50)", "0.00 (−0.25 to 0.25)"):  # fmt: skip
        assert words in texts
    ids = {attributes.get("id") for _, attributes in page.tags}
    assert "chart-scaling-0-0" in ids
    assert not ids & {"chart-regret", "explorer", "setting"}


def test_points_means_and_lines_are_those_of_the_file(folder):
    (panel,) = scaling_data([load_study(folder)])[0]
    mvp, lucrl = panel["series"]
    assert mvp["x"] == [1, 4, 16]
    assert mvp["y"] == mvp["low"] == mvp["high"] == [10, 20, 40]
    assert [dot[:2] for dot in mvp["dots"]] == [[1, 10], [1, 10], [4, 20], [4, 20], [16, 40],
                                                [16, 40]]  # fmt: skip
    assert mvp["line"] == {"x": [1, 16], "y": [10, 40]}  # the fitted line meets exact data
    assert np.allclose(lucrl["y"], np.sqrt(2), atol=1e-5)  # geometric mean of 1 and 2
    assert (lucrl["low"], lucrl["high"]) == ([1, 1, 1], [2, 2, 2])
    assert panel["reference"] == {"slope": 0, "line": {"x": [1, 16], "y": [20, 20]}}


def test_what_has_no_logarithm_is_left_out_and_said(folder, tmp_path):
    rows = a_study()["varied"][0]["rows"]
    rows[0]["regret"] = 0.0
    rows[1]["regret"] = -1e-12
    for row in rows:
        row["regret"] = 0.0 if row["algorithm"] == "lucrl" else row["regret"]
    write(folder, a_study(rows=rows, theorem_exponent=None))
    page = page_of(write_report([], tmp_path / "r.html", study=folder))
    (panel,) = page.data["scaling"][0]
    assert [s["name"] for s in panel["series"]] == ["mvp"]
    assert panel["series"][0]["x"] == [4, 16]
    assert panel["reference"] is None
    assert any("8 runs without regret" in text for text in page.texts)


def test_a_study_and_runs_share_a_page(folder, tmp_path, capsys):
    run = learn(lm.make("bandit:contexts=2,arms=2,horizon=2"), "greedy", 50, optimal=(0.1, 0.9))
    run.save(tmp_path / "run")
    out = tmp_path / "r.html"
    arguments = ["report", str(tmp_path / "run"), str(folder), "--out", str(out)]
    assert command(arguments) == 0
    assert "1 run and 1 study, " in capsys.readouterr().out
    ids = [attributes["id"] for _, attributes in page_of(out).tags if "id" in attributes]
    assert ids.index("regret") < ids.index("scaling") < ids.index("setting")
    assert command(["report", str(folder / "study.json"), "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["runs"], said["studies"]) == (0, 1)


def test_hostile_texts_stay_text(folder, tmp_path):
    document = a_study(label=HOSTILE[0], note=HOSTILE[1], model=HOSTILE[2], parameter=HOSTILE[3])
    document |= {"title": HOSTILE[0], "command": HOSTILE[1], "versions": {HOSTILE[3]: HOSTILE[4]}}
    for row in document["varied"][0]["rows"]:
        row["algorithm"] = HOSTILE[0] + row["algorithm"]
    write(folder, document)
    page = page_of(write_report([], tmp_path / "r.html", study=folder))
    assert page.open == []
    assert len(page.scripts) == 2
    assert page.data["scaling"][0][0]["series"][0]["name"] == HOSTILE[0] + "mvp"
    for word in HOSTILE[:2]:
        assert any(word in text for text in page.texts)


def without(key):
    document = a_study()
    (document if key in document else document["varied"][0]).pop(key)
    return document


ROW = {"algorithm": "mvp", "x": 1, "seed": 0, "regret": 1}
FIT = {"algorithm": "mvp", "exponent": 1, "low": 0, "high": 2}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("", "the file is empty"),
        ("{", "must be JSON"),
        ("[]", "must hold one JSON object"),
        ('{"format": NaN}', "finite"),
        ({}, "must have format 'latentmdp-study' and version 1; it has None and None"),
        (a_study(format="other"), "it has 'other' and 1"),
        (a_study(version=2), "it has 'latentmdp-study' and 2"),
        (a_study(varied=[]), "varied must have at least one entry"),
        (a_study(varied=[3]), r"varied\[0\] must be an object; it is a whole number"),
        (a_study(title=3), "title must be text; it is a whole number"),
        (a_study(versions=[]), "versions must be an object; it is a list"),
        (a_study(seconds=True), "seconds must be a number; it is true or false"),
        (a_study(rows=[]), "rows must have at least one entry"),
        (a_study(rows=[ROW | {"x": 0}]), r"varied\[0\].rows\[0\].x must be above 0; it is 0"),
        (a_study(rows=[ROW, ROW | {"x": None}]), r"rows\[1\].x must be a number; it is null"),
        (a_study(rows=[ROW | {"seed": 0.5}]), "seed must be a whole number; it is a number"),
        (a_study(rows=[ROW | {"regret": 10**400}]), "regret must be a finite number"),
        (a_study(fits=[FIT | {"high": 0.5}]), "must lie in its interval; 1 is not in 0 to 0.5"),
        (a_study(title="half \ud83d of a pair"), "must be Unicode text; it has a lone surrogate"),
        (a_study(versions={"x" * 10**5: "\udc00"}), "must be Unicode text"),
        (a_study(version="9" * 10**5), "must have format"),
        (a_study(theorem_exponent="1/2"), "theorem_exponent must be a number; it is text"),
        *((without(key), f"{key} must be there") for key in
          ("title", "command", "versions", "seconds", "varied", "rows", "fits", "label", "note")),
    ],
)  # fmt: skip
def test_bad_files_get_one_sentence(folder, document, words, tmp_path, capsys):
    write(folder, document)
    with pytest.raises(lm.ModelError, match=words) as refused:
        load_study(folder)
    assert "study.json" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert command(["report", str(folder), "--out", str(tmp_path / "r.html")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "r.html").exists()


def test_what_is_no_study_at_all():
    for given in (None, 3):
        with pytest.raises(lm.ModelError, match="a file name must be text"):
            load_study(given)


def test_what_needs_a_run_says_so(folder, tmp_path, capsys):
    for option in (["--audit"], ["--plan", "1"]):
        assert command(["report", str(folder), *option]) == 2
        assert "need a run" in capsys.readouterr().err
    plan = lm.plan(lm.make("bandit"), time_limit=1)
    with pytest.raises(lm.ModelError, match="certificates"):
        write_report([], tmp_path / "r.html", study=folder, plan=plan)
