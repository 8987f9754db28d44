"""A plan is used only with the model, the units and the class it was made for."""

from dataclasses import replace

import pytest

import latentmdp as lm
from latentmdp.report import write_report

MODEL = "garnet:states=3,actions=2,contexts=2,horizon=3"


def plans_of(model, **options):
    return {name: lm.plan(model, name, gap=None, **options) for name in ("history", "markov")}


@pytest.fixture(scope="module")
def model():
    return lm.make(MODEL)


@pytest.fixture(scope="module")
def run(model):
    return lm.learn(model, "greedy", episodes=20, optimal=plans_of(model)["markov"])


def others(model):
    """Models of the same sizes that differ in one thing each."""
    scaled = lm.LatentMDP.from_arrays(
        model.P, model.R * 0.5, model.w, model.nu, model.H, max_return=None
    )
    return {
        "another seed": lm.make(MODEL + ",seed=1"),
        "hidden rewards": model.replace(observe_rewards=False),
        "weights": model.replace(w=[0.25, 0.75]),
        "half the rewards": scaled,
    }


@pytest.mark.parametrize("which", ["another seed", "hidden rewards", "weights", "half the rewards"])
def test_a_plan_of_another_model_is_refused(model, run, tmp_path, which):
    plans = plans_of(others(model)[which])
    with pytest.raises(lm.ModelError, match="optimal must be made for this very model"):
        lm.learn(model, "greedy", episodes=20, optimal=plans["markov"])
    for plan in (plans["history"], list(plans.values()), {"mine": plans["markov"]}):
        with pytest.raises(lm.ModelError, match=r"the plan \(.*\) must be made for this very"):
            write_report(run, tmp_path / "r.html", plan=plan)
    assert not (tmp_path / "r.html").exists()


def test_a_plan_of_the_model_before_it_was_normalised_is_refused_with_the_remedy(model, tmp_path):
    raw = lm.LatentMDP.from_arrays(
        model.P, model.R * 200.0 - 30.0, model.w, model.nu, model.H, max_return=None
    )
    normal = raw.normalized()
    run = lm.learn(normal, "greedy", episodes=20)
    for plan in plans_of(raw).values():
        with pytest.raises(lm.ModelError, match=r"units of the model.*normalized\(\)"):
            lm.learn(normal, "greedy", 20, plan.policy_class, optimal=plan)
        with pytest.raises(lm.ModelError, match=r"units of the model.*normalized\(\)"):
            write_report(run, tmp_path / "r.html", plan=plan)
    right = plans_of(normal)
    assert lm.learn(normal, "greedy", 20, optimal=right["markov"]).optimal[0] == run.optimal[0]
    write_report(run, tmp_path / "r.html", plan=list(right.values()))


def test_a_plan_of_the_other_class_is_refused_for_learning_and_shown_in_reports(
    model, run, tmp_path
):
    plans = plans_of(model)
    for one, other in (("history", "markov"), ("markov", "history")):
        with pytest.raises(lm.ModelError, match=f"class that learns, {other}; it is of the {one}"):
            lm.learn(model, "greedy", 20, other, optimal=plans[one])
    write_report(run, tmp_path / "r.html", plan=list(plans.values()))


def test_a_plan_of_an_equal_model_is_accepted(model, tmp_path):
    lm.save(model, tmp_path / "model.npz")
    plan = plans_of(lm.load(tmp_path / "model.npz"))["markov"]
    assert plan.model_digest == model.digest
    lm.learn(model, "oracle", 20, optimal=plan)


def test_what_is_no_plan_is_refused(model, run, tmp_path):
    plan = plans_of(model)["markov"]
    with pytest.raises(lm.ModelError, match="must be a Plan, as plan gives; it is a PolicyGraph"):
        write_report(run, tmp_path / "r.html", plan=plan.policy)
    with pytest.raises(lm.ModelError, match="made for this very model"):
        lm.learn(model, "greedy", 20, optimal=replace(plan, model_digest=""))
