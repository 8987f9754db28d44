"""The report: safe, compact, offline, and true to the library; what needs no browser."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import latentmdp as lm
from latentmdp.cli import run as command
from latentmdp.learning.learn import learn
from latentmdp.report import Collector, save_phases, write_report
from latentmdp.report.encode import real, safe_json, unit, whole
from latentmdp.report.groups import distinct_models, episode_grid, group_runs
from latentmdp.report.html import number, table, tag
from latentmdp.report.limits import lower_limit, recognised, upper_limit
from latentmdp.report.optimistic import optimistic_actions
from latentmdp.report.phases import choose_phases, run_phases, slim
from latentmdp.report.replay import page_episode

HOSTILE = (
    "<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>", "{{data}}", "<!--",
    '"\'&amp;', "line\u2028separator", "\\u003c", "]]>",
)  # fmt: skip


class Page(HTMLParser):
    """A page's scripts, texts and attributes."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.scripts, self.tags, self.texts, self.open = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br", "hr", "input", "link"):
            self.open.append(tag)
        if tag == "script":
            self.scripts.append([dict(attrs), ""])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1][1] += data
        elif self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def data(self):
        return json.loads(self.scripts[0][1])


@pytest.fixture(scope="module")
def maze():
    return lm.make("maze:size=3,goals=2,horizon=6,seed=0")


@pytest.fixture(scope="module")
def runs(maze):
    found = [learn(maze, "mvp", episodes=3000, optimal=(0.5, 1.0), seed=s) for s in range(2)]
    return [*found, learn(maze, "random", episodes=3000, optimal=(0.5, 1.0))]


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    path = write_report(runs, tmp_path_factory.mktemp("report") / "report.html")
    return path.read_text(encoding="utf-8")


def decoded(packed):
    """Python twin of page/data.js."""
    if isinstance(packed, dict):
        return np.array(packed["values"])[decoded(packed["index"])]
    kind, text = packed.split(":")
    dtype = {"u8": "u1", "u16": "<u2", "u32": "<u4", "f64": "<f8", "q16": "<u2"}[kind]
    array = np.frombuffer(base64.b64decode(text), dtype=dtype)
    return array / 65535 if kind == "q16" else array


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
    assert decoded(whole(values)).tolist() == values


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_real_numbers_there_and_back(values):
    assert decoded(real(values)).tolist() == values


@given(st.lists(st.floats(0, 1), min_size=1))
def test_units_there_and_nearly_back(values):
    assert np.abs(decoded(unit(values)) - values).max() <= 0.5 / 65535 + 1e-12


def test_model_is_stored_to_the_bit(page, maze):
    stored = Page(page).data["models"][0]
    assert np.array_equal(decoded(stored["prob"]), maze.prob)
    assert np.array_equal(decoded(stored["nu"]), maze.nu.reshape(-1))
    assert np.array_equal(np.cumsum(decoded(stored["length"])), maze.indptr[1:])
    assert np.array_equal(decoded(stored["next"]), maze.next)


# ---------------------------------------------------------------- curves


def test_curves_are_the_runs_own(page, runs):
    group = Page(page).data["groups"][0]
    at = np.array(group["curves"]["episode"])
    best = max(run.best_value for run in runs)  # all against the same
    both = np.array([run.regret_at(at) + (best - run.best_value) * at for run in runs[:2]])
    for part, expected in (
        ("low", both.min(0)),
        ("middle", np.median(both, 0)),
        ("high", both.max(0)),
    ):
        assert np.allclose(group["curves"]["regret"][part], expected, rtol=1e-5)
    assert at[0] == 1
    assert at[-1] == 3000
    values = [run.table.set_index("episode")["value"] for run in runs[:2]]
    expected = np.median([v.loc[: at[40]].iloc[-1] for v in values])
    assert group["curves"]["value"]["middle"][40] == pytest.approx(expected, rel=1e-5)
    updates = [int((run.table["episode"] <= at[40]).sum()) - 1 for run in runs[:2]]
    assert group["curves"]["updates"]["middle"][40] == np.median(updates)


@given(st.integers(1, 10**12))
def test_grids_begin_and_end_where_the_run_does(episodes):
    grid = episode_grid(episodes)
    assert grid[0] == 1
    assert grid[-1] == episodes
    assert (np.diff(grid) > 0).all()
    assert len(grid) <= 210


def test_groups_are_told_apart_by_what_differs(maze):
    models = [maze, maze.replace(horizon=7)]
    settings = [("mvp", 1.0, 0), ("mvp", 0.5, 0), ("mvp", 1.0, 1), ("random", 1.0, 0)]
    found = [
        learn(models[m], a, episodes=20, bonus_scale=c, optimal=(0.1, 1.0), seed=3)
        for a, c, m in settings
    ]
    found.append(learn(maze, "mvp", episodes=20, optimal=(0.1, 1.0), seed=4))
    found.append(learn(maze, "mvp", episodes=20, optimal=(0.1, 1.0), seed=5))
    found[-1].state["spec"]["delta"] = 0.2
    groups = group_runs(found, distinct_models(found)[1])
    labels = [group.label for group in groups]
    assert labels == [
        "mvp, markov, δ = 0.1, model 1", "mvp, markov, bonus × 0.5, δ = 0.1, model 1",
        "mvp, markov, δ = 0.1, model 2", "random, markov, δ = 0.1, model 1",
        "mvp, markov, δ = 0.2, model 1",
    ]  # fmt: skip
    assert groups[0].runs == (0, 4)


def test_commands_say_what_is_not_a_default(maze, tmp_path):
    run = learn(maze, "mvp", episodes=30, bonus_scale=0.5, delta=0.2, optimal=(0.1, 1.0), seed=7)
    page = Page(write_report(run, tmp_path / "r.html").read_text(encoding="utf-8"))
    (line,) = (text for text in page.texts if text.startswith("latentmdp learn"))
    assert line == (
        "latentmdp learn model.json --algorithm mvp --episodes 30 --class markov --delta 0.2 "
        "--bonus-scale 0.5 --seed 7"
    )


# ---------------------------------------------------------------- bounds


def test_upper_bound_is_drawn_for_the_papers_algorithms_alone(runs):
    grid = np.array([1, 100, 3000])
    bound = upper_limit(runs[0], grid)
    from latentmdp.theory.bounds import upper_bound

    m = runs[0].model
    whole_bound = upper_bound(m.M, m.S, m.A, m.H, 3000, Gamma=m.Gamma, variance=0.25, delta=0.1)
    assert bound["curve"][-1] == pytest.approx(whole_bound.total, rel=1e-5)
    assert all(np.diff(bound["curve"]) >= 0)
    assert upper_limit(runs[2], grid) is None
    assert upper_limit(learn(m, "mvp", episodes=9, bonus_scale=0.5, optimal=(0, 1)), grid) is None


def test_hard_instances_are_recognised_and_bounded_below_where_the_theorem_holds(maze):
    tied = lm.make("hard:contexts=2,states=11,variance=0.25,episodes=20000")
    free = lm.make("hard:contexts=2,states=11,eps=0.2,reward=0.5")
    assert recognised(tied) is not None
    assert recognised(free).x == 0.5
    assert recognised(maze) is None
    assert recognised(maze.replace(state_names=[*"abcdefghi", "g"][: maze.S])) is None

    def least(model, policy_class):
        run = learn(model, "random", episodes=20000, optimal=(0.5, 0.6))
        run.state["spec"]["policy_class"] = policy_class
        return lower_limit(run)

    assert least(tied, "history")["value"] > 0
    assert least(tied, "markov") is None
    assert least(free, "history") is None
    assert least(maze, "history") is None


# ---------------------------------------------------------------- policies of phases


@given(
    st.lists(st.tuples(st.integers(1, 50), st.floats(0, 1)), min_size=1, max_size=60),
    st.integers(1, 15),
)
def test_chosen_phases_hold_first_and_last(rows, count):
    episode = np.cumsum([length for length, _ in rows]) - rows[0][0] + 1
    chosen = choose_phases(episode, np.array([value for _, value in rows]), count)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(count, len(rows))
    assert chosen[-1] == len(rows) - 1
    assert chosen[0] == 0 or count == 1


def test_kept_phases_and_a_rerun_give_the_same(maze):
    kept = learn(maze, "mvp", episodes=500, optimal=(0.5, 1.0), audit=True)
    plain = learn(maze, "mvp", episodes=500, optimal=(0.5, 1.0))
    assert run_phases(kept, 5) == run_phases(plain, 5)
    last = run_phases(plain, 1)[0]
    assert last["policy"] == run_phases(plain, 5)[-1]["policy"]
    assert last["value"] == plain.final_value


def test_a_policy_chosen_after_the_last_episode_is_told_apart(maze):
    run = learn(maze, "greedy", episodes=1, optimal=(0.5, 1.0))  # the first episode always triggers
    played, ahead = run_phases(run, 5)
    assert (played["episode"], played["length"]) == (1, 1)
    assert (ahead["number"], ahead["episode"], ahead["length"]) == (1, 2, 0)
    assert ahead["value"] == run.final_value
    assert run_phases(run, 1) == [ahead]
    assert decoded(ahead["policy"]["table"]).tolist() == run.policy.table.reshape(-1).tolist()


def test_phases_left_in_a_runs_folder_are_used_and_only_for_that_run(maze, tmp_path, monkeypatch):
    run = learn(maze, "mvp", episodes=500, optimal=(0.5, 1.0))
    other = learn(maze, "mvp", episodes=500, optimal=(0.5, 1.0), seed=1)
    collector = Collector()
    run.replay(collector)
    assert collector.phases[0].episode == 1
    assert not collector.phases[-1].triggered
    assert len(collector.phases) < 30
    run.save(tmp_path)
    save_phases(run, tmp_path, collector.phases)
    whole_run = {phase["number"]: phase for phase in run_phases(run, 10**6)}
    monkeypatch.setattr(type(run), "replay", lambda *_: pytest.fail("it was played again"))
    for phase in run_phases(run, 8, tmp_path):
        assert json.loads(json.dumps(whole_run[phase["number"]])) == phase
    page = write_report(tmp_path, tmp_path / "r.html").read_text(encoding="utf-8")
    found = Page(page).data["sources"][0]
    assert len(found["phases"]) == 12
    assert found["phases"][-1]["number"] == len(run.table) - 1 == found["total"] - 1
    with pytest.raises(pytest.fail.Exception, match="played again"):
        run_phases(other, 8, tmp_path)


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein", "lucrl", "ucrl", "greedy"])
@pytest.mark.parametrize("spec", ["maze:size=2,goals=2,horizon=5,seed=0", "troubleshoot:horizon=4"])
def test_hoped_for_values_are_those_of_the_audit(spec, algorithm):
    """Two programs, written apart: NumPy here, the audit's kernels there."""
    from latentmdp.theory.optimistic import optimistic_alpha

    model = lm.make(spec).normalized()
    run = learn(model, algorithm, episodes=3000, bonus_scale=0.02, optimal=(0, 1), audit=True)
    middling = 0
    for phase in run.phases[:: max(1, len(run.phases) // 8)]:
        values = optimistic_actions(run, phase.counts, phase.policy)
        chosen = values[np.arange(phase.policy.N), :, phase.policy.action]
        expected = optimistic_alpha(model, phase.policy, phase.counts, run.spec)
        assert np.abs(chosen - expected).max() < 1e-12
        assert values.min() >= 0
        assert values.max() <= 1
        middling += int(((values > 0.01) & (values < 0.99)).sum())
    assert middling > 0  # not all at the cap


def test_hoped_for_values_of_a_policy_with_memory(maze):
    from latentmdp.theory.optimistic import optimistic_alpha

    policy = slim(maze, lm.PolicyGraph.from_belief(maze, lambda t, s, b: int(s + 4 * b[0]) % 4))
    assert not policy.is_markov
    run = learn(maze, "mvp", episodes=3000, bonus_scale=0.02, optimal=(0, 1))
    counts = run.session().learner.counts
    values = optimistic_actions(run, counts, policy)
    expected = optimistic_alpha(maze, policy, counts, run.spec)
    assert np.abs(values[np.arange(policy.N), :, policy.action] - expected).max() < 1e-12


def test_page_episodes_follow_the_policy_and_the_librarys_beliefs(maze):
    policy = lm.PolicyGraph.from_belief(maze, lambda t, s, b: int(s + 4 * b[0]) % 4)
    firsts = set()
    for seed in range(20):
        first, steps = page_episode(maze, policy, 1, seed)
        assert steps[0].state == first
        belief = lm.initial_belief(maze, first)
        for a, b in pairwise(steps):
            assert a.next == b.state
            belief = lm.update_belief(maze, belief, a.state, a.action, a.next, symbol=a.symbol)
            assert np.array_equal(a.belief, belief)
        firsts.add(tuple(step.next for step in steps))
    assert len(firsts) > 5  # seeds matter


# ---------------------------------------------------------------- with everything, and with much


def test_plans_and_audits_are_shown(runs, maze, tmp_path):
    from latentmdp.planning import plan
    from latentmdp.theory.audit import audit

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
    monkeypatch.setattr("latentmdp.report.content.BUDGET", 1500)
    page = Page(write_report(runs, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert any("Left out to keep this file small" in text for text in page.texts)
    assert sum(len(json.dumps(source["phases"])) for source in page.data["sources"]) < 2000


# ---------------------------------------------------------------- bad input, the command


def test_bad_input_is_refused(runs, tmp_path):
    with pytest.raises(lm.ModelError, match="at least one run or study"):
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
