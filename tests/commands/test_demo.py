"""The demo: a plain summary in a pipe, all its files, a report that holds three learners."""

import json

import pytest
from report_pages import Page

from latentmdp.commands.cli import run as command


@pytest.mark.slow
def test_demo_writes_its_files_and_says_so(tmp_path, capsys):
    out = tmp_path / "demo"
    assert command(["demo", "--episodes", "1e4", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    for words in ("hidden goals", "value of memory", "bernstein (the paper)", "Audit of mvp: "):
        assert words in said
    assert all(len(line) <= 96 for line in said.splitlines() if str(out) not in line)
    assert {path.name for path in out.iterdir()} == {
        "maze.png", "policy.png", "report.html", "bernstein", "mvp", "lucrl",
    }  # fmt: skip
    page = Page((out / "report.html").read_text(encoding="utf-8"))
    assert [group["label"] for group in page.data["groups"]] == [
        "bernstein, markov", "mvp, markov", "lucrl, markov",
    ]  # fmt: skip
    assert command(["demo", "--episodes", "100", "--out", str(tmp_path / "two"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["markov"][0] <= facts["history"][1]
    assert set(facts["regret"]) == {"bernstein", "mvp", "lucrl"}


def test_bad_values_are_refused_before_any_work(tmp_path, capsys):
    out = tmp_path / "demo"
    for episodes, place in (("0", out), ("1e20", out), ("10", tmp_path / "file" / "demo")):
        (tmp_path / "file").touch()
        assert command(["demo", "--episodes", episodes, "--out", str(place)]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert not out.exists()
