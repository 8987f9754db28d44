"""Regret comes with its bracket wherever a person reads it; "exact" is said of closed optima alone.

The open instance is a random model with 3 contexts, 6 states and 10 steps, whose Markov optimum
stays open; the closed one is a riverswim.
"""

import json
import re

import numpy as np
import pytest
from report_pages import Page

import latentmdp as lm
from latentmdp import plot
from latentmdp.commands import cli
from latentmdp.experiments.live import Counts
from latentmdp.learning import learn as learning
from latentmdp.learning.regret import ROUNDING, RegretBracket, figure, open_gap
from latentmdp.learning.run import load_run
from latentmdp.learning.spec import RunSpec
from latentmdp.report import write_report
from latentmdp.report.html import number

OPEN = "garnet:contexts=3,states=6,horizon=10,seed=0"
CLOSED = "riverswim:states=4,horizon=6"
EPISODES = 2000
OPTIMAL_WORK = learning.OPTIMAL_WORK


@pytest.fixture(scope="module", autouse=True)
def little_work():
    """Enough for the closed instance, and quick for the open one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "OPTIMAL_WORK", {"markov": 10**7, "history": 10**7})
        yield


@pytest.fixture(scope="module")
def open_run():
    """A run whose optimum is bracketed by the work limit of `learn`."""
    return lm.learn(lm.make(OPEN), "bernstein", EPISODES, bonus_scale=0.01)


@pytest.fixture(scope="module")
def closed_run():
    return lm.learn(lm.make(CLOSED), "mvp", EPISODES)


@pytest.fixture(scope="module")
def study():
    return lm.sweep(OPEN, ["random", "mvp"], seeds=2, episodes=300, jobs=1)


def both_ends(run, form=figure):
    """What must stand beside one another."""
    low, high = run.regret_bounds
    assert form(low) != form(high)
    return f"{form(low)} to {form(high)}"


def page_of(run, tmp_path):
    html = write_report(run, tmp_path / "page.html", phases=1).read_text(encoding="utf-8")
    page = Page(html)
    return page, " ".join(" ".join(page.texts).split())


# ---------------------------------------------------------------------- the bracket itself


def test_one_number_where_both_ends_are_written_the_same():
    assert RegretBracket(584812.3, 1144612.0).text() == "584,812 to 1,144,612"
    assert RegretBracket(12.5, 12.5).text() == "12.5"
    assert RegretBracket(1234567.1, 1234567.2).text() == "1,234,567"
    assert not RegretBracket(1234567.1, 1234567.2).exact


@pytest.mark.parametrize(("upper", "wide"), [(109.9, False), (110.1, True)])
def test_wide_is_more_than_a_tenth(upper, wide):
    assert RegretBracket(100.0, upper).wide is wide


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_only_rounding_closes_an_optimum(scale):
    gap = ROUNDING * scale
    assert open_gap(0.5 * scale, 0.5 * scale + 0.5 * gap, scale) == 0.0
    assert open_gap(0.5 * scale, 0.5 * scale + 4 * gap, scale) > 0.0
    assert open_gap(0.5 * scale, 0.4 * scale, scale) == 0.0


@pytest.mark.parametrize("optimal", [(0.3, 0.9), (0.6, 0.61), (0.7, 0.7)])
def test_table_and_curves_have_both_ends(optimal):
    run = lm.learn(lm.make(CLOSED), "random", 500, optimal=optimal)
    table = run.table
    ends = table["length"].cumsum()
    low, high = run.regret_bounds_at(ends)
    assert np.allclose(table["regret"], low)
    assert np.allclose(table["regret_upper"], high)
    assert (low[-1], high[-1]) == pytest.approx(run.regret_bounds)
    gap = max(optimal[1] - run.best_value, 0.0)
    assert np.allclose(high - low, gap * ends)
    assert run.regret == run.regret_bounds[0]


# ---------------------------------------------------------------------- one run


def test_the_text_of_an_open_run_has_both_ends(open_run):
    words = both_ends(open_run)
    assert words in repr(open_run)
    assert "(wide: the optimum is between" in repr(open_run)
    html = open_run._repr_html_()
    assert words in html
    assert "<polygon" in html
    assert any("wider than a tenth" in note for note in open_run.notes)
    user = open_run.in_user_units()
    assert both_ends(user) in repr(user)


def test_the_text_of_a_closed_run_has_one_number(closed_run):
    assert closed_run.regret_bracket.exact
    assert f"regret {figure(closed_run.regret)}," in repr(closed_run)
    assert "wide" not in repr(closed_run)
    assert "<polygon" not in closed_run._repr_html_()
    assert closed_run.notes == []


def test_figures_shade_the_bracket(open_run, closed_run):
    for draw in (lambda run: run.plot(), plot.regret):
        ax = draw(open_run)
        shade = ax.collections[0].get_paths()[0].vertices
        assert shade[:, 1].max() == pytest.approx(open_run.regret_bounds[1], rel=1e-6)
        assert ax.lines[0].get_ydata()[-1] == pytest.approx(open_run.regret)
        assert not draw(closed_run).collections


def test_the_page_of_an_open_run_claims_no_exact_regret(open_run, tmp_path):
    page, words = page_of(open_run, tmp_path)
    assert both_ends(open_run, number) in words
    assert "regret are exact" not in words
    assert "The level of regret is known up to the gap of the optimum" in words
    assert "wider than a tenth" in words
    assert "The optimum is not closed" in words
    curve = page.data["groups"][0]["curves"]["regret"]
    assert curve["middle"][-1] == pytest.approx(open_run.regret, rel=1e-5)
    assert curve["upper"][-1] == pytest.approx(open_run.regret_bounds[1], rel=1e-5)
    names = [line["name"] for line in page.data["optima"]]
    assert names == ["best known, markov", "no policy beats, markov"]


def test_the_page_of_a_closed_run_says_exact(closed_run, tmp_path):
    page, words = page_of(closed_run, tmp_path)
    assert "values and regret are exact" in words
    assert "is not closed" not in words
    assert "upper" not in page.data["groups"][0]["curves"]["regret"]
    assert number(closed_run.regret) in words


def test_a_plan_on_the_page_narrows_the_bracket(tmp_path):
    model = lm.make(CLOSED)
    run = lm.learn(model, "random", 100, optimal=(0.0, 1.0))
    plan = lm.plan(model, "markov", gap=None)
    write_report(run, tmp_path / "page.html", plan=plan, phases=1)
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "values and regret are exact" in " ".join(" ".join(page.texts).split())


def test_audits_say_that_the_optimum_is_open(open_run, closed_run):
    assert both_ends(open_run) in " ".join(str(lm.audit(open_run)).split())
    assert "bracketed" not in str(lm.audit(closed_run))


# ---------------------------------------------------------------------- the command line


def test_learn_prints_and_writes_both_ends(capsys):
    words = ["learn", OPEN, "-a", "random", "--episodes", "1000"]
    assert cli.run(words) == 0
    out = " ".join(capsys.readouterr().out.split())
    found = re.search(r"(\S+) to (\S+) [\d.]+ [\d.]+ optimum of the class between", out)
    assert found is not None, out
    assert "wider than a tenth" in out
    assert "With memory, at least 0.768956 can be reached" in out
    assert cli.run([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["regret"] == facts["regret_lower"] < facts["regret_upper"]
    assert found.groups() == (figure(facts["regret_lower"]), figure(facts["regret_upper"]))
    gap = facts["optimal_upper"] - facts["optimal_lower"]
    assert facts["regret_upper"] - facts["regret"] == pytest.approx(1000 * gap)
    assert facts["history_value"] > facts["optimal_upper"]


def test_learn_prints_one_number_where_the_optimum_is_closed(capsys):
    assert cli.run(["learn", CLOSED, "-a", "random", "--episodes", "1000"]) == 0
    out = capsys.readouterr().out
    assert "wider than a tenth" not in out
    assert not re.search(r"\d to \d", out)


@pytest.mark.parametrize("command", ["learn", "plan"])
def test_both_helps_name_both_default_classes(command, capsys):
    assert cli.run([command, "--help"]) == 0
    words = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "history (with memory; the default of plan)" in words
    assert "the default of learn" in words


# ---------------------------------------------------------------------- the optimum to compare with


def test_learn_works_until_usual_optima_close(monkeypatch):
    """Open by 0.0099 with the former limit; the same spec gives the same bits."""
    monkeypatch.setattr(learning, "OPTIMAL_WORK", OPTIMAL_WORK)
    found = [learning.find_optimal(lm.make("bandit"), RunSpec()).bounds for _ in range(2)]
    assert found[0] == found[1]
    assert open_gap(*found[0], 1.0) == 0.0


@pytest.mark.parametrize("observed", [True, False])
def test_policies_with_memory_bound_an_open_markov_optimum(observed, monkeypatch):
    model = lm.make(OPEN, observe_rewards=observed)
    memory = lm.plan(model, gap=None)
    monkeypatch.setattr(learning, "OPTIMAL_WORK", {"markov": 1, "history": 1})
    found = learning.find_optimal(model, RunSpec())
    assert found.bounds[0] <= lm.plan(model, "markov", gap=0.05).upper
    assert found.bounds[1] <= memory.upper + 1e-9
    assert found.history_value is None or found.history_value > found.bounds[1]


def test_what_memory_is_worth_is_kept_with_the_run(open_run, tmp_path):
    memory = lm.plan(lm.make(OPEN), gap=None)
    assert open_run.optimal[1] < open_run.history_value <= memory.upper + 1e-9
    open_run.save(tmp_path / "run")
    assert load_run(tmp_path / "run").history_value == open_run.history_value
    assert open_run.more(10).history_value == open_run.history_value


# ---------------------------------------------------------------------- studies


def test_tables_and_curves_of_a_study_have_both_ends(study):
    last = study.curves().groupby("id").last()
    table = study.table().set_index("id")
    for name in ("regret", "regret_upper"):
        assert last[name].to_dict() == pytest.approx(table[name].to_dict())
    assert (table["regret_upper"] > table["regret"] + 1).all()


def test_the_page_of_a_study_claims_no_exact_regret(study, tmp_path):
    from latentmdp.report.study_page import write_study_page

    write_study_page(tmp_path / "page.html", study.table(), study.curves(), title="Open")
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    words = " ".join(" ".join(page.texts).split())
    assert "regret are exact" not in words
    assert "The level of regret is known up to the gap of the optimum" in words
    for _, row in study.table().iterrows():
        assert f"{number(row['regret'])} to {number(row['regret_upper'])}" in words


def test_commands_and_comparisons_of_a_study_have_both_ends(study, tmp_path, capsys):
    file = tmp_path / "open.toml"
    file.write_text(
        f'episodes = 300\nseeds = 2\nalgorithms = ["random", "mvp"]\nmodels = ["{OPEN}"]\n'
        f'folder = "{study.folder}"\n'
    )
    assert cli.run(["study", "table", str(file)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for _, row in study.table().iterrows():
        assert f"{figure(row['regret'])} to {figure(row['regret_upper'])}" in shown
    means = study.table().groupby("algorithm")[["regret", "regret_upper"]].mean()
    compared = study.compare("random", "mvp")
    for low, high in means.to_numpy():
        assert f"{figure(low)} to {figure(high)}" in str(compared)


def test_the_live_view_has_both_ends():
    counts = Counts(1, 0, 0)
    task = {"kind": "learn", "id": "x", "where": {}, "content": {"episodes": 100}}
    result = {"regret": 10.0, "regret_upper": 15.0, "optimal_upper": 0.5}
    counts.finished(task, {"state": "done", "seconds": 1.0, "result": result})
    assert "regret 10 to 15 in" in counts.last
    counts.finished(task, {"state": "done", "seconds": 1.0, "result": {"regret": 10.0}})
    assert "regret 10 in" in counts.last


def test_figures_take_a_study_and_its_curves(study):
    drawn = [plot.regret(study), plot.regret(study.curves())]
    for ax in drawn:
        assert ax.get_legend_handles_labels()[1] == ["random", "mvp"]
        medians = study.table().groupby("algorithm", sort=False)["regret"].median()
        assert [line.get_ydata()[-1] for line in ax.lines] == pytest.approx(medians.tolist())
        tops = study.table().groupby("algorithm", sort=False)["regret_upper"].median()
        shades = [part.get_paths()[0].vertices[:, 1].max() for part in ax.collections]
        assert set(np.round(tops, 6)) <= set(np.round(shades, 6))


def test_figures_name_the_problems_of_a_study():
    models = [f"bandit:arms=2,contexts=2,horizon={H}" for H in (2, 3)]
    found = lm.sweep(models, ["random"], seeds=2, episodes=50, jobs=1)
    labels = plot.regret(found).get_legend_handles_labels()[1]
    assert len(labels) == 2
    assert all("random, bandit" in label for label in labels)
    empty = lm.sweep(models, ["random"], seeds=1, episodes=50, run=False)
    with pytest.raises(lm.ModelError, match="must have finished runs"):
        plot.regret(empty)
