"""The report: safe, compact, offline, and true to the library; what needs no browser."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_pages import HOSTILE, Page, decoded, maze, page, runs  # noqa: F401  # fixtures

import latentmdp as lm
from latentmdp.commands.cli import run as command
from latentmdp.learning.learn import learn
from latentmdp.report import write_report
from latentmdp.report.encode import pack_real, pack_unit, pack_whole, safe_json
from latentmdp.report.html import number, table, tag

# ---------------------------------------------------------------- one file, offline, whole


def test_page_is_well_formed_and_has_its_parts(page):
    found = Page(page)
    assert found.open == []
    ids = [attributes.get("id") for _, attributes in found.tags]
    assert {"main", "regret", "explorer", "chart-value", "chart-updates", "setting"} <= set(ids)
    assert len([i for i in ids if i]) == len({i for i in ids if i})
    names = [tag for tag, _ in found.tags]
    assert names.count("main") == names.count("header") == names.count("footer") == 1
    assert found.data["groups"][0]["label"] == "mvp, markov"


def test_page_refers_to_nothing_outside_itself(page):
    assert not re.search(r"https?:|//\w+\.\w+|@import|url\(", page)
    for tag_name, attributes in Page(page).tags:
        assert "src" not in attributes
        assert tag_name not in ("link", "iframe", "object", "img")
        assert attributes.get("href", "#").startswith("#")


def test_policy_lets_only_the_pages_own_script_run(page):
    found = Page(page)
    policy = next(a["content"] for _, a in found.tags if "http-equiv" in a)
    digest = hashlib.sha256(found.scripts[1][1].encode()).digest()
    assert f"'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert policy.startswith("default-src 'none'")
    assert not any(key.startswith("on") for _, a in found.tags for key in a)


def test_page_is_small(page):
    assert len(page.encode()) < 500_000


# ---------------------------------------------------------------- names are data


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    P = np.zeros((2, 8, 2, 8))
    P[..., 0, :] = np.eye(8)[(np.arange(8) + 1) % 8]
    P[0, :, 1], P[1, :, 1] = np.eye(8)[0], np.eye(8)[3]
    R = np.zeros((2, 8, 2))
    R[:, 3, 1] = 0.2
    nu = np.eye(8)[[0, 0]]
    model = lm.LatentMDP.from_arrays(
        P, R, [0.5, 0.5], nu, 4, state_names=HOSTILE, action_names=HOSTILE[:2],
        context_names=HOSTILE[1:3],
    )  # fmt: skip
    run = learn(model, "greedy", episodes=50, optimal=(0.1, 0.2))
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    return write_report(run, path, title=HOSTILE[1]).read_text(encoding="utf-8")


def test_hostile_names_stay_text(hostile_page):
    found = Page(hostile_page)
    assert found.open == []
    assert len(found.scripts) == 2
    assert not any(name == "img" for name, _ in found.tags)
    model = found.data["models"][0]
    assert tuple(model["stateNames"]) == HOSTILE
    assert tuple(model["contextNames"]) == HOSTILE[1:3]
    assert HOSTILE[1] in found.texts  # the title, shown as it is


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists, max_leaves=8))
def test_embedded_json_cannot_leave_its_element(value):
    text = safe_json({"x": value})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"x": value}


@given(st.text(), st.text())
def test_tags_escape_what_they_hold(inside, attribute):
    written = tag("p", inside, title=attribute)
    parser = Page(written)
    assert parser.tags[0][0] == "p"
    assert len(parser.tags) == 1
    assert not set("<>") & set(written.removeprefix("<p").removesuffix("</p>").replace(">", "", 1))


def test_tables_mark_numbers_and_name_rows():
    written = table("words", ("a", "b"), [("<x>", 1.5), ("y", float("nan"))])
    assert "&lt;x&gt;" in written
    assert 'class="number">1.5<' in written
    assert "–" in written


def test_numbers_for_people():
    shown = [number(x) for x in (0, 1234567, 10**8, 0.00002, 12345.6, 0.5, 3 * 10**9)]
    assert shown == ["0", "1,234,567", "10⁸", "2 × 10⁻⁵", "12,346", "0.5", "3 × 10⁹"]


# ---------------------------------------------------------------- compact data, without loss


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_whole_numbers_there_and_back(values):
    assert decoded(pack_whole(values)).tolist() == values


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_real_numbers_there_and_back(values):
    assert decoded(pack_real(values)).tolist() == values


@given(st.lists(st.floats(0, 1), min_size=1))
def test_units_there_and_nearly_back(values):
    assert np.abs(decoded(pack_unit(values)) - values).max() <= 0.5 / 65535 + 1e-12


def test_model_is_stored_to_the_bit(page, maze):
    stored = Page(page).data["models"][0]
    assert np.array_equal(decoded(stored["prob"]), maze.prob)
    assert np.array_equal(decoded(stored["nu"]), maze.nu.reshape(-1))
    assert np.array_equal(np.cumsum(decoded(stored["length"])), maze.indptr[1:])
    assert np.array_equal(decoded(stored["next"]), maze.next)


# ---------------------------------------------------------------- with everything, and with much


def test_plans_and_audits_are_shown(runs, maze, tmp_path):
    from latentmdp.planning import plan
    from latentmdp.theory.auditing.audit import audit

    plans = [plan(maze, name, gap=0.05, time_limit=5) for name in ("history", "markov")]
    report = audit(runs[0], variance=(0.1, 0.25))
    page = Page(
        write_report(runs, tmp_path / "r.html", plan=plans, audit={"seed 0": report}).read_text(
            "utf-8"
        )
    )
    texts = " ".join(page.texts)
    for row in report.rows:
        assert row.name in texts
    assert f"{plans[0].lower:.6g}" in texts
    assert plans[1].status in texts
    assert "information" in texts
    assert [source["name"] for source in page.data["sources"]][-2:] == [
        "plan, markov class", "plan, history class",
    ]  # fmt: skip


def test_a_hundred_runs_stay_small(tmp_path):
    model = lm.make("bandit:contexts=2,arms=2,horizon=3")
    found = [
        learn(model, algorithm, episodes=300, bonus_scale=c / 10, optimal=(0.3, 0.9), seed=seed)
        for algorithm in ("greedy", "random")
        for c in range(1, 11)
        for seed in range(5)
    ]
    path = write_report(found, tmp_path / "many.html", phases=3)
    assert path.stat().st_size < 2_000_000
    data = Page(path.read_text(encoding="utf-8")).data
    assert len(data["groups"]) == 20
    assert len(data["sources"]) == 16


def test_policies_too_large_are_left_out_and_it_is_said(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("latentmdp.report.content.POLICY_BYTES", 1500)
    page = Page(write_report(runs, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert any("Left out to keep this file small" in text for text in page.texts)
    assert sum(len(json.dumps(source["phases"])) for source in page.data["sources"]) < 2000


# ---------------------------------------------------------------- bad input, the command


def test_bad_input_is_refused(runs, tmp_path):
    with pytest.raises(lm.ModelError, match="at least one run"):
        write_report([], tmp_path / "r.html")
    with pytest.raises(lm.ModelError, match="phases"):
        write_report(runs, tmp_path / "r.html", phases=-1)
    with pytest.raises(lm.ModelError, match="run's folder"):
        write_report(tmp_path / "nothing", tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_command_writes_the_page(runs, tmp_path, capsys):
    for i, run in enumerate(runs):
        run.save(tmp_path / "runs" / f"seed-{i}")
    out = tmp_path / "page.html"
    assert (
        command(["report", str(tmp_path / "runs"), "--out", str(out), "--phases", "2", "--json"])
        == 0
    )
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["runs"] == 3
    assert said["bytes"] == out.stat().st_size
    assert len(Page(out.read_text(encoding="utf-8")).data["sources"][0]["phases"]) == 2
    assert (
        command(["report", str(tmp_path / "runs" / "seed-0"), "--out", str(out), "--phases", "1"])
        == 0
    )
    assert "1 run," in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nowhere"], ["."], [], [".", "--phases", "0"]])
def test_command_refuses_in_one_line(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command(["report", *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
