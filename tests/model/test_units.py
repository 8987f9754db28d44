"""Runs, plans, tables, figures, pages and commands of normalised models, in a person's units."""

import json

import numpy as np
import pytest
from report_pages import Page

import latentmdp as lm
from latentmdp import plot
from latentmdp.commands.cli import run as command
from latentmdp.report import write_report


@pytest.fixture(scope="module")
def raw():
    """Costs and gains in a person's units; a shift and a scale are needed to learn."""
    base = lm.make("garnet:states=3,actions=2,contexts=2,horizon=4")
    R = base.R * 400.0 - 30.0
    return lm.LatentMDP.from_arrays(base.P, R, base.w, base.nu, base.H, max_return=None)


@pytest.fixture(scope="module")
def normal(raw):
    return raw.normalized()


@pytest.fixture(scope="module")
def run(normal):
    return lm.learn(normal, "greedy", episodes=3000, seed=1)


@pytest.fixture(scope="module")
def plans(normal):
    return [lm.plan(normal, name, gap=None) for name in ("history", "markov")]


def test_differences_are_scaled_and_not_shifted(raw, normal):
    assert normal.reward_shift < 0
    assert normal.reward_scale > 1
    policies = [lm.PolicyGraph.from_table(np.full((4, 3), a)) for a in (0, 1)]
    before, after = ([lm.evaluate(m, p).value for p in policies] for m in (raw, normal))
    assert [normal.in_user_units(v) for v in after] == pytest.approx(before)
    gap = normal.difference_in_user_units(after[1] - after[0])
    assert gap == pytest.approx(before[1] - before[0])
    assert normal.difference_in_user_units(0.0) == 0.0


def test_a_model_goes_back_to_its_rewards(raw, normal):
    back = normal.denormalized()
    assert np.allclose(back.reward, raw.reward)
    assert np.array_equal(back.symbol, raw.symbol)
    assert (back.units, normal.units, raw.units) == ("", "normalised units", "")
    assert raw.denormalized() is raw
    assert f"stands for {normal.reward_scale:.6g} of yours, after adding" in str(normal.describe())


def test_a_run_in_user_units_is_the_run_of_the_model_before(tmp_path, raw, normal, run):
    own = run.in_user_units()
    best = lm.plan(raw, "markov", gap=None)
    assert own.optimal == pytest.approx((best.lower, best.upper))
    assert own.final_value == pytest.approx(lm.evaluate(raw, run.policy).value)
    assert own.regret == pytest.approx(run.regret * normal.reward_scale)
    assert own.regret_bounds == pytest.approx(np.multiply(run.regret_bounds, normal.reward_scale))
    table, before = own.table, run.table
    assert np.allclose(table["regret"], before["regret"] * normal.reward_scale)
    assert np.allclose(table["planner_gap"], before["planner_gap"] * normal.reward_scale)
    lost = np.cumsum(table["length"] * (own.best_value - table["value"]))
    assert np.allclose(table["regret"], lost)
    assert np.allclose(own.regret_at([1, 500]), run.regret_at([1, 500]) * normal.reward_scale)
    summary = own.summary()
    assert (summary["units"], run.summary()["units"]) == ("user units", "normalised units")
    assert summary["final_value"] == pytest.approx(own.final_value)
    assert own.in_model_units is run
    assert run.in_model_units is run
    with pytest.warns(DeprecationWarning, match="run.in_model_units"):
        assert own.itself is run
    own.save(tmp_path / "x")
    assert lm.load_run(tmp_path / "x").regret == run.regret
    longer = own.more(500)
    assert (longer.episodes, longer.units) == (3500, "user units")
    assert longer.regret == pytest.approx(run.more(500).regret * normal.reward_scale)


def test_learning_normalises_by_itself_and_answers_in_the_units_that_were_given(raw, normal, run):
    best = lm.plan(raw, "markov", gap=None)
    for optimal in (None, best, (best.lower, best.upper)):
        own = lm.learn(raw, "greedy", episodes=3000, seed=1, optimal=optimal, normalize=True)
        assert own.units == "user units"
        assert own.optimal == pytest.approx((best.lower, best.upper))
        assert own.regret == pytest.approx(run.regret * normal.reward_scale)
        assert own.table["value"].tolist() == pytest.approx(
            normal.in_user_units(run.table["value"]).tolist()
        )
        assert "user units" in repr(own)
    assert str(lm.audit(own)) == str(lm.audit(run))
    with pytest.raises(lm.ModelError, match="normalize"):
        lm.learn(raw, "greedy", episodes=10)
    learnable = lm.make("bandit")
    assert lm.learn(learnable, "greedy", episodes=10, normalize=True).units == ""


def test_a_page_of_runs_in_user_units_is_in_user_units(raw, tmp_path):
    own = lm.learn(raw, "greedy", episodes=300, normalize=True, optimal=(-100.0, 1000.0))
    data = Page(write_report(own, tmp_path / "r.html").read_text(encoding="utf-8")).data
    assert data["units"] == "user units"


def test_runs_of_models_as_given_are_not_changed():
    run = lm.learn(lm.make("bandit"), "greedy", episodes=50, optimal=(0.1, 0.9))
    assert (run.units, run.in_user_units().units) == ("", "")
    assert run.in_user_units().table.equals(run.table)


def test_a_plan_in_user_units_is_a_plan_of_the_model_before(raw, plans):
    for plan in plans:
        own, before = plan.in_user_units(), lm.plan(raw, plan.policy_class, gap=None)
        assert (own.lower, own.upper) == pytest.approx((before.lower, before.upper))
        assert own.lower == pytest.approx(lm.evaluate(raw, own.policy).value)
        assert own.history[-1][2:] == pytest.approx((own.lower, own.upper))


def test_figures_say_their_units(run, plans):
    assert plot.regret(run).get_ylabel() == "regret (normalised units)"
    assert plot.regret(run.in_user_units()).get_ylabel() == "regret (user units)"
    assert run.in_user_units().plot().get_ylabel() == "regret (user units)"
    assert plot.bounds(plans[0]).get_ylabel() == "value (normalised units)"
    assert plot.bounds(plans[0].in_user_units()).get_ylabel() == "value"
    with pytest.raises(lm.ModelError, match="must be in the same units; found normalised"):
        plot.regret({"a": run, "b": run.in_user_units()})


def test_the_page_in_user_units(normal, run, plans, tmp_path):
    pages = {}
    for units in ("model", "user"):
        file = write_report(run, tmp_path / "r.html", plan=plans, units=units)
        pages[units] = Page(file.read_text(encoding="utf-8"))
    model, user = pages["model"].data, pages["user"].data
    assert (model["units"], user["units"]) == ("normalised units", "user units")
    scale, curves = normal.reward_scale, [d["groups"][0]["curves"] for d in (model, user)]
    regret = [np.array(c["regret"]["middle"], dtype=float) for c in curves]
    value = [np.array(c["value"]["middle"], dtype=float) for c in curves]
    assert np.allclose(regret[1], regret[0] * scale, rtol=1e-4)
    assert np.allclose(value[1], normal.in_user_units(value[0]), rtol=1e-4)
    for one, other in zip(model["limits"], user["limits"], strict=True):
        assert np.allclose(other["y"], np.array(one["y"]) * scale, rtol=1e-4)
    assert user["optima"][0]["value"] == pytest.approx(normal.in_user_units(run.best_value))
    assert [m["userUnits"] for m in (*model["models"], *user["models"])] == [False, True]
    # the explorer has the model itself, to be saved and run again, and converts what it shows
    assert user["models"][0]["reward"] == model["models"][0]["reward"]
    assert user["sources"][0]["phases"] == model["sources"][0]["phases"]
    assert user["sources"][0]["best"] == pytest.approx(normal.in_user_units(run.best_value))
    texts = [" ".join(page.texts) for page in pages.values()]
    assert "in normalised units: a reward of 1 stands for" in texts[0]
    assert "units of the rewards before they were normalised" in texts[1]
    own = plans[0].in_user_units()
    assert f"{plans[0].lower:.6g}" in texts[0]
    assert f"{own.lower:.6g}" in texts[1]
    worth = plans[0].lower - plans[1].upper
    assert worth >= 0.0


def said(arguments, capsys):
    assert command(arguments) == 0
    return capsys.readouterr().out


def facts_of(arguments, capsys):
    return json.loads(said([*arguments, "--json"], capsys).splitlines()[-1])


USER_WORDS = "are in the units of the rewards before they were normalised (--model-units"
MODEL_WORDS = "are in normalised units: a reward of 1 stands for"


def test_commands_speak_the_units_of_a_person_unless_told(normal, plans, tmp_path, capsys):
    file = tmp_path / "model.npz"
    lm.save(normal, file)
    policy = tmp_path / "policy.npz"
    plans[0].policy.save(policy)
    for words in (["plan", str(file)], ["evaluate", str(file), str(policy)]):
        assert f"values {USER_WORDS}" in said(words, capsys)
        assert f"values {MODEL_WORDS}" in said([*words, "--model-units"], capsys)
        model, user = facts_of([*words, "--model-units"], capsys), facts_of(words, capsys)
        assert (model["units"], user["units"]) == ("normalised units", "user units")
        assert user["value"] == pytest.approx(normal.in_user_units(model["value"]))
        assert user == facts_of([*words, "--user-units"], capsys) | timed(user)
    assert user["variance"] == pytest.approx(model["variance"] * normal.reward_scale**2)
    show = ["show", str(file)]
    assert f"totals {USER_WORDS}" in said(show, capsys)
    assert f"totals {MODEL_WORDS}" in said([*show, "--model-units"], capsys)
    model, user = facts_of([*show, "--model-units"], capsys), facts_of(show, capsys)
    assert (model["units"], user["units"]) == ("normalised units", "user units")
    assert user["largest_totals"] == pytest.approx(
        [normal.in_user_units(x) for x in model["largest_totals"]]
    )


def timed(facts):
    return {name: facts[name] for name in ("seconds",) if name in facts}


def test_comparisons_of_methods_convert_differences(normal, tmp_path, capsys):
    lm.save(normal, tmp_path / "model.npz")
    words = ["plan", str(tmp_path / "model.npz"), "--compare"]
    model, user = facts_of([*words, "--model-units"], capsys), facts_of(words, capsys)
    assert (model["units"], user["units"]) == ("normalised units", "user units")
    worth = normal.difference_in_user_units(np.array(model["value_of_information"]))
    assert user["value_of_information"] == pytest.approx(worth.tolist(), rel=0.01)


def test_models_as_given_have_no_units(tmp_path, raw, capsys):
    lm.save(raw, tmp_path / "raw.npz")
    for more in ([], ["--user-units"], ["--model-units"]):
        assert " are in " not in said(["plan", str(tmp_path / "raw.npz"), *more], capsys)
        assert "units" not in facts_of(["plan", str(tmp_path / "raw.npz"), *more], capsys)


def test_learning_from_the_command_line(raw, normal, tmp_path, capsys):
    lm.save(raw, tmp_path / "raw.npz")
    words = ["learn", str(tmp_path / "raw.npz"), "--normalize", "-a", "greedy", "-k", "500"]
    model, user = facts_of([*words, "--model-units"], capsys), facts_of(words, capsys)
    for name in ("regret", "regret_upper"):
        assert user[name] == pytest.approx(normal.difference_in_user_units(model[name]))
    for name in ("final_value", "optimal_lower", "optimal_upper"):
        assert user[name] == pytest.approx(normal.in_user_units(model[name]))
    assert (model["units"], user["units"]) == ("normalised units", "user units")
    assert list(model) == list(user)
    assert f"regret and values {USER_WORDS}" in said(words, capsys)
    assert f"regret and values {MODEL_WORDS}" in said([*words, "--model-units"], capsys)


def test_folders_of_runs_keep_the_units_of_the_model(raw, normal, tmp_path, capsys):
    lm.save(raw, tmp_path / "raw.npz")
    out = tmp_path / "runs"
    words = ["learn", str(tmp_path / "raw.npz"), "--normalize", "-a", "greedy", "-k", "500"]
    user = facts_of([*words, "--seeds", "2", "--jobs", "1", "--out", str(out)], capsys)
    kept = [lm.load_run(out / f"seed-{i}") for i in (0, 1)]
    scaled = [normal.difference_in_user_units(run.regret) for run in kept]
    assert user["regret"] == pytest.approx(scaled)
    assert user["units"] == ["user units"] * 2
    assert json.loads((out / "seed-0" / "run.json").read_text())["regret"] == kept[0].regret
    resumed = facts_of(["learn", "--resume", str(out), "--jobs", "1"], capsys)
    assert resumed["regret"] == user["regret"]
    resumed = facts_of(["learn", "--resume", str(out), "--jobs", "1", "--model-units"], capsys)
    assert resumed["regret"] == [run.regret for run in kept]
    # its page and its audit
    page = tmp_path / "r.html"
    assert facts_of(["report", str(out), "--out", str(page)], capsys)["units"] == "user units"
    assert Page(page.read_text(encoding="utf-8")).data["units"] == "user units"
    told = ["report", str(out), "--out", str(page), "--model-units"]
    assert facts_of(told, capsys)["units"] == "normalised units"
    assert Page(page.read_text(encoding="utf-8")).data["units"] == "normalised units"
    audited = " ".join(said(["audit", str(out / "seed-0")], capsys).split())
    assert f"all numbers, as the proof's, {MODEL_WORDS}" in audited
    audited = facts_of(["audit", str(out / "seed-0")], capsys)
    assert audited["units"] == "normalised units"
    measured = next(row["measured"] for row in audited["rows"] if row["name"] == "regret")
    assert measured == pytest.approx(kept[0].regret)


def test_the_audit_of_a_page_is_in_the_units_of_the_model(run, tmp_path):
    file = write_report(run, tmp_path / "r.html", audit=lm.audit(run))
    text = " ".join(Page(file.read_text(encoding="utf-8")).texts)
    assert f"all numbers, as the proof's, {MODEL_WORDS}" in text
    assert f"Regret and values {USER_WORDS.partition(' (')[0]}" in text


def test_notebooks_show_the_units_of_a_person(raw, normal, run, plans):
    own = run.in_user_units()
    assert run._repr_html_() == own._repr_html_()
    assert f"{own.regret:.6g}" in run._repr_html_()
    assert "user units" in run._repr_html_()
    assert f"{plans[0].in_user_units().lower:.6g}" in plans[0]._repr_html_()
    assert "user units" in plans[0]._repr_html_()
    before, after = (lm.evaluate(m, run.policy) for m in (raw, normal))
    heading = f"value {before.value:.6g}, standard deviation {before.variance**0.5:.6g}"
    assert heading in before._repr_html_()
    assert f"{heading}, in user units" in after._repr_html_()
    assert f"{before.contexts[1]:.6g}" in after._repr_html_()


def test_python_says_that_answers_are_in_the_units_of_the_model(raw, normal, plans, run):
    assert "in normalised units" in repr(plans[0])
    assert "in normalised units" in repr(lm.evaluate(normal, run.policy))
    assert "units" not in repr(lm.evaluate(raw, run.policy)) + repr(plans[0].in_user_units())
    assert repr(normal) == repr(raw)[:-1] + ", in normalised units)"
    timed = raw.replace(terminal=np.ones((raw.M, raw.S)))
    assert repr(timed.normalized()) == repr(timed)[:-1] + ", in normalised units)"
    assert "in normalised units" in normal._repr_html_()


def test_show_says_that_the_model_is_normalised(normal, tmp_path, capsys):
    lm.save(normal, tmp_path / "x.npz")
    for more in ([], ["--model-units"]):
        text = said(["show", str(tmp_path / "x.npz"), *more], capsys)
        assert text.count(f"are in {normal.units_in_words}") == len(more)
        assert text.count(f"the model is in {normal.units_in_words}") == 1 - len(more)


def test_studies_speak_the_units_of_a_person(raw, normal, tmp_path, capsys):
    lm.save(raw, tmp_path / "raw.npz")
    lm.save(normal, tmp_path / "normal.npz")
    (tmp_path / "x.toml").write_text(
        """
        episodes = 300
        algorithms = ["greedy"]
        seeds = 2
        models = [
            {name = "raw", model = "raw.npz", normalize = true},
            {name = "normal", model = "normal.npz"},
            {name = "bandit", model = "bandit:arms=2,contexts=2,horizon=3"},
        ]
        """
    )
    study = lm.Study.load(tmp_path / "x.toml").run(jobs=1)
    model, user = study.table(units="model"), study.table()
    assert model["units"].tolist() == ["normalised units"] * 4 + [""] * 2
    assert user["units"].tolist() == ["user units"] * 4 + [""] * 2
    for name in ("regret", "regret_upper"):
        scaled = normal.difference_in_user_units(model[name][:4])
        assert user[name][:4].tolist() == pytest.approx(scaled.tolist())
    for name in ("final_value", "optimal_lower", "optimal_upper"):
        converted = normal.in_user_units(model[name][:4])
        assert user[name][:4].tolist() == pytest.approx(converted.tolist())
    kept = [name for name in user if name != "units"]
    assert user[kept][4:].equals(model[kept][4:])
    ends = study.curves().groupby("id", sort=False)["regret"].last()
    assert ends.tolist() == pytest.approx(user["regret"].tolist())
    ends = study.curves(units="model").groupby("id", sort=False)["regret"].last()
    assert ends.tolist() == pytest.approx(model["regret"].tolist())
    with pytest.raises(lm.ModelError, match="units must be model or user; it is 'mine'"):
        study.table(units="mine")
    capsys.readouterr()
    words = ["study", "table", str(tmp_path / "x.toml")]
    assert f"regret and values of normalised models {USER_WORDS}" in said(words, capsys)
    assert "models are in normalised units" in said([*words, "--model-units"], capsys)
    rows = facts_of(words, capsys)["runs"]
    assert [row["regret"] for row in rows] == user["regret"].tolist()
    assert rows[0]["units"] == "user units"
    words = ["study", "report", str(tmp_path / "x.toml"), "--out", str(tmp_path / "x.html")]
    assert facts_of(words, capsys)["units"] == "user units"
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert f"Those of normalised models {USER_WORDS.partition(' (')[0]}" in page


def test_a_run_in_other_units_is_another_run(raw, run, tmp_path):
    """The digest of a model knows nothing of units; a folder of runs must not mix them up."""
    base = raw.normalized()
    larger = lm.LatentMDP.from_arrays(
        raw.P, 2.0 * raw.R, raw.w, raw.nu, raw.H, max_return=None
    ).normalized()
    assert larger.digest == base.digest
    other = lm.learn(larger, "greedy", episodes=3000, seed=1)
    run.save(tmp_path / "run")
    with pytest.raises(lm.ModelError, match="holds another run"):
        other.save(tmp_path / "run")
    other.save(tmp_path / "run", overwrite=True)
    loaded = lm.load_run(tmp_path / "run")
    assert loaded.model.reward_scale == larger.reward_scale
    assert loaded.in_user_units().regret == pytest.approx(other.in_user_units().regret)
