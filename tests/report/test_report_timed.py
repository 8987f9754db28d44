"""The report of runs on a time-augmented model shows the person's states, step by step."""

import json

import numpy as np
import pytest
from report_browser import Watched, browser, transcript  # noqa: F401  # a fixture
from report_pages import Page, decoded

import latentmdp as lm
from latentmdp.commands import cli
from latentmdp.model.labels import TimeAugmented
from latentmdp.model.time_augmented import step_dependent
from latentmdp.policy.time_augmented import from_time_augmented
from latentmdp.report import write_report
from latentmdp.report.phases import save_phases
from latentmdp.report.replay import page_episode


@pytest.fixture(scope="module")
def model():
    """A shop that sells at other hours in each context; what is left over has to go."""
    sold = np.array([[0.1, 0.3, 0.6, 0.9], [0.6, 0.4, 0.2, 0.1]]).T  # (H, M)
    P = np.zeros((4, 2, 2, 2, 2))
    P[:, :, 0, 0] = np.stack([1 - sold, sold], axis=-1)
    P[:, :, 0, 1, 0] = P[:, :, 1, 0, 1] = P[:, :, 1, 1, 0] = 1.0
    R = np.array([[[5.0, 3.0], [0.0, -2.0]]] * 2)
    return lm.LatentMDP.from_arrays(
        P, R, [0.5, 0.5], [1.0, 0.0], 4, terminal=[[-4.0, 0.0]] * 2, max_return=None,
        allowed=[[[1, 0], [1, 1]]] + [[[1, 1], [1, 1]]] * 3, state_names=["stock", "empty"],
        action_names=["wait", "order"], context_names=["late", "early"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def timed_maze():
    base = lm.make("maze:size=3,goals=2,horizon=5")
    R = np.stack([base.R] * 3 + [0.5 * base.R] * 2)
    return lm.LatentMDP.from_arrays(
        np.stack([base.P] * 5), R, base.w, base.nu, 5, layout=base.layout,
        action_names=base.action_names,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(model):
    learner = {"algorithm": "mvp", "episodes": 2000, "bonus_scale": 0.001}
    return lm.learn(model.normalized().time_augmented(), optimal=(0.1, 0.9), **learner)


@pytest.fixture(scope="module")
def page(model, run, tmp_path_factory):
    file = tmp_path_factory.mktemp("report") / "report.html"
    plans = [lm.plan(model.normalized(), name, gap=None) for name in ("history", "markov")]
    return write_report(run, file, plan=plans)


def test_a_time_augmented_model_knows_whose_it_is(model, timed_maze, tmp_path):
    assert model.time_augmented().augmented == TimeAugmented(2)
    assert model.time_augmented().normalized().denormalized().augmented == TimeAugmented(2)
    assert model.time_augmented().replace(horizon=3).augmented is None
    assert timed_maze.time_augmented().augmented == TimeAugmented(10, timed_maze.layout)
    for one in (model, timed_maze):
        seen = step_dependent(one.time_augmented())
        assert (seen.state_names, seen.layout) == (one.state_names, one.layout)
        assert seen.time_augmented() == one.time_augmented()
        assert one.terminal is not None or seen == one
        for ending in ("npz", "json"):
            lm.save(one.time_augmented(), tmp_path / f"x.{ending}")
            back = lm.load(tmp_path / f"x.{ending}")
            assert back == one.time_augmented()
            assert back.augmented == one.time_augmented().augmented
            assert lm.load(tmp_path / f"x.{ending}", horizon=2).augmented is None
    with pytest.raises(
        lm.ModelError, match="augmented must say how many of the 8 states there are at each"
    ):
        model.time_augmented().replace(augmented=TimeAugmented(3))


def test_the_page_has_policies_and_places_of_the_persons_states(model, page):
    found = Page(page.read_text(encoding="utf-8"))
    world = found.data["models"][0]
    assert (world["S"], world["statesPerStep"], len(world["places"])) == (8, 2, 2)
    for source in found.data["sources"]:
        for phase in source["phases"]:
            if "table" in phase["policy"]:
                assert decoded(phase["policy"]["table"]).size == 4 * 2
            else:
                assert decoded(phase["policy"]["state"]).max() < 2
    text = " ".join(found.texts)
    assert "2 contexts, 2 states, 2 actions, 4 steps" in text
    assert "learners see the step in the state, 8 states in all" in text
    worth = lm.plan(model, gap=None).lower
    assert f"{worth:.6g}" in text  # in the person's units


def test_plans_of_either_model_and_no_other_one(model, run, tmp_path):
    file = tmp_path / "r.html"
    pages = [
        Page(write_report(run, file, plan=plan).read_text(encoding="utf-8")).data["sources"][-1]
        for plan in (
            lm.plan(model.normalized(), "markov", gap=None), lm.plan(run.model, "markov", gap=None)
        )
    ]  # fmt: skip
    assert pages[0]["phases"][0]["value"] == pytest.approx(pages[1]["phases"][0]["value"])
    with pytest.raises(lm.ModelError, match="must be"):
        write_report(run, file, plan=lm.plan(model.replace(w=[0.3, 0.7]).normalized(), gap=None))


def test_learning_from_the_command_line(model, tmp_path, capsys):
    lm.save(model, tmp_path / "shop.npz")
    learn = ["learn", str(tmp_path / "shop.npz"), "--normalize", "-a", "greedy", "-k", "500"]
    folder, page = tmp_path / "run", tmp_path / "r.html"
    assert cli.run(learn) == 2
    assert "--unroll" in capsys.readouterr().err
    assert cli.run([*learn, "--unroll", "--out", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    same = lm.learn(model.normalized().time_augmented(), "greedy", 500).in_user_units()
    assert (found["regret"], found["final_value"]) == (same.regret, same.final_value)
    assert lm.load_run(folder).model.augmented == TimeAugmented(2)
    assert cli.run(["audit", str(folder)]) == 0
    assert cli.run(["learn", "--resume", str(folder), "--json"]) == 0
    words = ["report", str(folder), "--audit", "--plan", "1", "--out", str(page)]
    assert cli.run(words) == 0
    text = " ".join(Page(page.read_text(encoding="utf-8")).texts)
    assert "2 contexts, 2 states, 2 actions, 4 steps" in text
    assert f"{lm.plan(model, gap=None).lower:.6g}" in text


def test_unrolling_changes_nothing_where_the_steps_are_alike(capsys):
    learn = ["learn", "bandit", "-a", "greedy", "-k", "100", "--json"]
    assert cli.run(learn) == cli.run([*learn, "--unroll"]) == 0
    plain, unrolled = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert plain["regret"] == unrolled["regret"]


def test_studies_unroll_when_asked(model, tmp_path):
    lm.save(model, tmp_path / "shop.npz")
    text = 'episodes = 300\nalgorithms = ["greedy"]\n[[models]]\nmodel = "shop.npz"\n'
    (tmp_path / "x.toml").write_text(text + "normalize = true\nunroll = true\n")
    table = lm.Study.load(tmp_path / "x.toml").run(jobs=1).table()
    assert table["optimal_lower"].tolist() == pytest.approx([lm.plan(model, "markov").lower])
    assert table["units"].tolist() == ["user units"]
    (tmp_path / "y.toml").write_text(text + 'unroll = "yes"\n')
    with pytest.raises(lm.ModelError, match="line 5: unroll must be true or false; it is 'yes'"):
        lm.Study.load(tmp_path / "y.toml")


def test_stored_phases_are_those_of_the_page(run, tmp_path):
    run.save(tmp_path / "run")
    played = Page(write_report(run, tmp_path / "a.html").read_text(encoding="utf-8")).data
    save_phases(run, tmp_path / "run", count=11)
    stored = Page(
        write_report(tmp_path / "run", tmp_path / "b.html").read_text(encoding="utf-8")
    ).data
    kept = [phase["number"] for phase in stored["sources"][0]["phases"]]
    again = {phase["number"]: phase for phase in played["sources"][0]["phases"]}
    same = [number for number in kept if number in again]
    assert len(same) >= 2
    for phase in stored["sources"][0]["phases"]:
        if phase["number"] in again:
            assert phase == again[phase["number"]]


@pytest.mark.browser
def test_episodes_are_those_of_the_library_in_the_persons_states(browser, model, run, page):
    early = run.model
    with Watched(browser, page) as shown:
        for label, policy in (
            (None, run.policy),
            ("plan, history class", lm.plan(early, gap=None).policy),
        ):
            if label:
                shown.locator("#explore-source").select_option(label=label)
            for context in range(2):
                shown.locator("#explore-context").select_option(str(context))
                for seed in (1, 2, 3):
                    shown.locator("#explore-seed").fill(str(seed))
                    shown.locator("#explore-seed").press("Enter")
                    _, steps = page_episode(early, policy, context, seed)
                    rows = transcript(shown)
                    assert [row[:4] for row in rows] == [
                        (s.state % 2, s.action, s.next % 2, s.symbol) for s in steps
                    ]
                    assert np.allclose([row[4] for row in rows], [s.belief for s in steps])
        shown.locator("#explore-first").click()
        text = shown.locator("#explore").inner_text()
        assert "It starts in stock." in text
        assert "@" not in text
        off = shown.eval_on_selector_all(".actions button", "b => b.map(x => x.disabled)")
        assert off == [False, True]  # nothing can be ordered at the first step
        shown.locator("#explore-forward").click()
        off = shown.eval_on_selector_all(".actions button", "b => b.map(x => x.disabled)")
        assert off == [False, False]
        assert shown.locator(".picture circle[r='21']").count() == 2 * 2  # two states, drawn twice
        shown.locator("#explore-last").click()
        paid = shown.eval_on_selector_all(
            "#explore-transcript tbody tr", "r => r.map(x => +x.children[3].textContent)"
        )
        assert f"total {sum(paid):g}." in shown.locator(".now").inner_text()


@pytest.mark.browser
def test_shades_add_up_over_the_steps(browser, timed_maze, tmp_path):
    run = lm.learn(timed_maze.time_augmented(), "mvp", 2000, optimal=(0.5, 1.0), bonus_scale=0.001)
    file = write_report(run, tmp_path / "r.html")
    with Watched(browser, file) as shown:
        shown.locator("#explore-heat").select_option("known-all")
        learner = run.session().learner
        visits = learner.counts.N.reshape(2, 5, 10, -1).sum(axis=(0, 1, 3))
        assert f"{visits.max():,} visits" in shown.locator(".world .key").inner_text()
        shown.locator("#explore-heat").select_option("route-all")
        policy = from_time_augmented(timed_maze, run.policy)
        weights = lm.reach_weights(timed_maze, policy).sum(axis=1)
        most = np.bincount(policy.state, weights).max()
        assert f"{most:.3g} visits" in shown.locator(".world .key").inner_text()
        with shown.expect_download() as download:
            shown.locator("button[data-model]").click()
        download.value.save_as(tmp_path / "model.json")
    back = lm.load(tmp_path / "model.json")
    assert back == run.model
    assert back.augmented == run.model.augmented
