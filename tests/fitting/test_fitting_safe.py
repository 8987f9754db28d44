"""The objective `safe`: never worse than the log, unless the plan says so itself."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from clinic import clinic
from logs import everything, roll

import latentmdp as lm
from latentmdp.commands.cli import run
from latentmdp.evaluation.evaluate import evaluate
from latentmdp.fitting.deciding import safe
from latentmdp.fitting.deciding.decision import decide
from latentmdp.fitting.deciding.halves import halves
from latentmdp.fitting.deciding.log_value import best_group
from latentmdp.report.fit_page import write_fit_page

QUICK = {"time_limit": 3.0, "draws": 60}


def small(seed):
    """38 states, 4 actions, 2 diagnoses."""
    return clinic(2, 2, horizon=12, seed=seed)


def fitted(place, patients, seed=0, **options):
    log = place.log(patients, seed)
    return lm.fit(log, horizon=place.model.H, known=place.known(), **options)


@pytest.fixture(scope="module")
def thin():
    return fitted(small(3), 150)


def test_by_default_no_policy_is_recommended_that_is_worse_than_what_was_done():
    """`mean`, the former default, promised more than the doctors earn and was worth less."""
    worse = {"default": 0, "mean": 0, "recommended": 0}
    values = {"default": 0.0, "mean": 0.0}
    for seed in range(6):
        place = small(seed)
        fit = fitted(place, 150, seed)
        plans = {"default": fit.plan(**QUICK), "mean": fit.plan("mean", **QUICK)}
        for name, plan in plans.items():
            true = evaluate(place.model, plan.policy).value
            values[name] += true
            worse[name] += true < place.value
            assert plan.worth.lower <= true <= plan.worth.upper or name == "mean"
            worse["recommended"] += plan.supported and true < place.value
    assert worse["recommended"] == 0
    assert worse["mean"] >= 4
    assert worse["default"] < worse["mean"]
    assert values["default"] > values["mean"]


def slow_support(log, least):
    """By hand: seen so often, or mostly done there (else in all contexts together)."""
    visits, done = (
        x.reshape(log.M, log.S, log.A) for x in (log.visits, log.row_sums.count)
    )  # fmt: skip
    found = np.zeros(visits.shape, dtype=bool)
    for m, s, a in np.ndindex(visits.shape):
        here = done[m, s] if done[m, s].sum() else done[:, s].sum(axis=0)
        mostly = int(np.argmax(here))
        found[m, s, a] = visits[m, s, a] >= least or a == mostly or bool(log.final[s])
    return found


@pytest.mark.parametrize("least", [1, 3, 10])
def test_which_actions_are_supported(thin, least):
    expected = slow_support(thin.log, least)
    assert (safe.supported(thin.log, least) == expected).all()
    plan = thin.plan(min_visits=least, **QUICK)
    assert (plan.excluded == ~expected).all()
    assert plan.min_visits == least
    assert f"at least {least} time" in plan.left_out
    assert f"{(~expected).sum():,} of {expected.size:,}" in plan.left_out


def test_what_a_step_costs(thin):
    """Half a standard error of a total; the range of totals where it is not supported."""
    log, model = thin.log, thin.model
    careful = safe.careful_model(thin, model, log, 3)
    totals = small(3).log(150, 0).groupby(["episode", "context"])["reward"].sum().reset_index()
    spread = totals["reward"] - totals.groupby("context")["reward"].transform("mean")
    error = np.sqrt((spread**2).sum() / (150 - 2))
    assert (careful.symbol == model.symbol).all()  # costs are not seen
    cost = np.repeat(0.0, len(log.visits))
    for row, n in enumerate(log.visits):
        m, s, a = row // (log.S * log.A), row // log.A % log.S, row % log.A
        if not log.final[s]:
            cost[row] = 0.5 * error / max(n, 1) ** 0.5 + 2.0 * (
                not slow_support_of(log, 3)[m, s, a]
            )
    per_outcome = np.repeat(cost, np.diff(model.indptr))
    assert np.allclose(model.reward - careful.reward, per_outcome)


_SUPPORT = {}


def slow_support_of(log, least):
    """`slow_support`, once per log."""
    return _SUPPORT.setdefault((id(log), least), slow_support(log, least))


def test_with_many_visits_everywhere_it_is_mean():
    model = lm.make("garnet:states=3,actions=2,contexts=2,horizon=4,seed=1")
    fit = lm.fit(roll(model, 3000, np.random.default_rng(0)), known=everything(model))
    assert fit.log.visits.min() > 100
    plan, mean = fit.plan(**QUICK, gap=None), fit.plan("mean", **QUICK, gap=None)
    assert not plan.excluded.any()
    assert "all actions were" in plan.left_out
    assert evaluate(fit.model, plan.policy).value >= 0.995 * mean.score
    assert plan.worth.value == pytest.approx(mean.worth.value, rel=0.02)
    assert plan.supported


def test_the_value_is_corrected_for_the_choice_by_the_same_data(thin):
    plan = thin.plan(**QUICK)
    raw = thin.evaluate(plan.policy, draws=60)
    assert plan.worth.optimism > 0.0
    assert plan.worth.value == pytest.approx(raw.value - plan.worth.optimism)
    assert plan.worth.lower == pytest.approx(max(raw.lower - 1.5 * plan.worth.optimism, -1.0))
    assert plan.worth.upper == raw.upper
    assert plan.gain.value == pytest.approx(plan.worth.value - thin.log_value.value)


def test_halves_make_up_the_whole():
    model = lm.make("garnet:states=4,actions=2,contexts=2,horizon=4,seed=1")
    log = roll(model, 200, np.random.default_rng(0))
    log["reward"] += np.random.default_rng(1).normal(size=len(log))
    whole = lm.fit(log, known=everything(model)).log
    rng, means = np.random.default_rng(0), []
    for _ in range(50):
        one, two = halves(whole, rng)
        count, paid = np.zeros((2, whole.M * whole.S * whole.A, whole.S))
        for part in (one, two):
            count[part.row, part.next] += part.sums.count
            paid[part.row, part.next] += part.sums.count * part.sums.mean
            assert (part.visits <= part.row_sums.count).all()
            assert (part.sums.count > 0).all()
        assert (count[whole.row, whole.next] == whole.sums.count).all()
        assert count.sum() == whole.sums.count.sum()
        means.append(paid[whole.row, whole.next] / whole.sums.count)
        assert abs(one.sums.count.sum() - two.sums.count.sum()) < 6 * count.sum() ** 0.5
    often = whole.sums.count >= 5
    assert np.allclose(np.mean(means, axis=0)[often], whole.sums.mean[often], atol=0.1)


def test_the_log_has_a_value_and_a_best_group():
    place = small(1)
    log = place.log(400, 0)
    fit = lm.fit(log, horizon=place.model.H)
    totals = log.groupby("episode").agg(paid=("reward", "sum"), context=("context", "first"),
                                        first=("state", "first"))  # fmt: skip
    found = fit.log_value
    assert found.value == pytest.approx(totals["paid"].mean())
    error = 1.96 * totals["paid"].std() / 20
    assert (found.lower, found.upper) == pytest.approx(
        (found.value - error, found.value + error), abs=1e-4
    )
    assert f"earned {found}" in repr(fit)
    best, episodes = 0.0, 0
    for _, same in totals.groupby("first"):
        groups = same.groupby("context")["paid"].agg(["mean", "size"])
        assert (groups["size"] >= 10).all()
        best += len(same) * groups["mean"].max()
        episodes += len(same)
    assert best_group(fit.log) == pytest.approx(best / episodes)


def test_groups_with_few_episodes_count_together():
    """9 episodes of one context paid 1: too few to say that this is what one can earn."""

    def paid(lucky):
        rows = [(e, "a" if e < lucky else "b", "s", "x", float(e < lucky)) for e in range(60)]
        return pd.DataFrame(rows, columns=["episode", "context", "state", "action", "reward"])

    assert best_group(lm.fit(paid(10)).log) == 1.0
    assert best_group(lm.fit(paid(9)).log) == 0.0


@pytest.mark.parametrize("bad", [0, 1.5, -3, "many"])
def test_min_visits_must_be_a_number_of_visits(thin, bad):
    with pytest.raises(lm.ModelError, match="min_visits"):
        thin.plan("safe", min_visits=bad)


def test_min_visits_is_of_safe_only(thin):
    with pytest.raises(lm.ModelError, match="min_visits is for the objective safe"):
        thin.plan("mean", min_visits=3)


@pytest.mark.parametrize("options", [{"unseen": "unavailable"}, {"unseen": "uniform"},
                                     {"prior": 0.0}, {"holdout": 0.5}])  # fmt: skip
def test_all_ways_of_fitting_have_safe_plans(options):
    fit = fitted(small(0), 60, **options)
    found = decide(fit, draws=20, time_limit=4.0)
    assert found.memory.objective == found.markov.objective == "safe"
    assert found.knowing.value <= 1.0
    assert found.memory.judged_by_others == ("holdout" in options)


def test_a_thin_log_is_told_so_where_a_person_reads_it(tmp_path, capsys):
    """The first words of the page, the command and the plan, and the promise beside the log's."""
    place = small(3)
    path = tmp_path / "log.csv"
    place.log(40, 1).to_csv(path, index=False)
    page = tmp_path / "page.html"
    assert run(["fit", str(path), "--report", str(page), "--time-limit", "4"]) == 0
    words = "These data do not support deviating from what was done"
    assert " ".join(capsys.readouterr().out.split()).startswith(words)
    text = page.read_text(encoding="utf-8")
    assert 0 < text.index(words) < text.index('class="cards"')
    not_advised = text.index(
        "This is not a recommendation: the log does not show that it is better"
    )
    assert text.index('id="do"') < not_advised < text.index("The policy without memory")
    plan = lm.fit(path).plan(**QUICK)
    assert str(plan) == repr(plan)
    assert repr(plan).startswith(words)
    assert "the log's own episodes earned" in str(plan)
    assert run(["fit", str(path), "--plan", "--json", "--time-limit", "4"]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert next(iter(answer)) == "decision"
    decision = answer["decision"]
    assert list(decision)[:2] == ["verdict", "supported"]
    assert decision["verdict"].startswith(words)
    assert decision["objective"] == "safe"
    assert decision["supported"] is False


def test_a_page_recommends_what_the_log_supports(tmp_path):
    model = lm.make("garnet:states=3,actions=2,contexts=2,horizon=4,seed=1")
    fit = lm.fit(roll(model, 3000, np.random.default_rng(0)), known=everything(model))
    decision = decide(fit, draws=60, time_limit=4.0)
    assert decision.memory.supported
    page = write_fit_page(tmp_path / "p.html", fit, fit.summary(), decision)
    text = page.read_text(encoding="utf-8")
    assert "By the log this policy earns" in text
    assert "not a recommendation" not in text


@pytest.mark.parametrize("policy_class", ["history", "markov"])
def test_without_time_it_is_not_behind_what_was_mostly_done(policy_class):
    """What was planned halfway may do what nobody has tried: with 3 s, 2 of 20 were so."""
    for seed in range(3):
        fit = fitted(clinic(3, seed=seed), 2000, seed)
        plan = fit.plan("safe", policy_class, min_visits=30, time_limit=0.01, draws=40)
        done = fit.log.row_sums.count.reshape(fit.log.M, fit.log.S, fit.log.A).sum(axis=0)
        habit = done.argmax(axis=1)
        careful = safe.careful_model(fit, fit.model, fit.log, 30)
        assert plan.score >= evaluate(careful, habit).value - 1e-9


def test_what_was_mostly_done_is_available():
    model = lm.make("troubleshoot:faults=3,tests=2,horizon=5,once=1,seed=0")
    rng = np.random.default_rng(0)
    fit = lm.fit(roll(model, 300, rng), known=everything(model), unseen="unavailable")
    habit = safe.mostly_done(fit.log, fit.model)
    assert fit.model.allowed[np.arange(fit.model.S), habit].all()
    assert not fit.model.allowed.all()


def test_plans_of_halves_have_as_much_time_as_the_last_one(thin, monkeypatch):
    """With more for the last one, 9 of 40 intervals missed the truth with 0.5 s for each plan."""
    limits, plan, short_of_time = [], safe.plan, False

    def noted(*args, time_limit, **options):
        limits.append(time_limit)
        found = plan(*args, time_limit=time_limit, **options)
        if short_of_time and len(limits) == 1:  # how far a plan comes depends on the machine
            return replace(found, status="time", upper=found.lower + 1e6)
        return found

    monkeypatch.setattr(safe, "plan", noted)
    thin.plan("safe", time_limit=60.0, draws=40)
    assert len(limits) == 9  # two halves of four rungs, and the last one
    assert limits[0] == pytest.approx(45.0 / 9, rel=0.2)
    limits.clear()
    short_of_time = True
    short = thin.plan("safe", time_limit=60.0, draws=40)
    assert len(limits) == 4  # the first showed that there is too little time
    assert limits[0] == pytest.approx(45.0 / 9, rel=0.2)
    assert short.min_visits == 30


def test_a_promise_above_all_comparable_episodes_has_a_red_line(tmp_path):
    fit = fitted(small(3), 150)
    decision = decide(fit, "mean", draws=20, time_limit=4.0)
    assert decision.memory.worth.value > best_group(fit.log)
    page = write_fit_page(tmp_path / "p.html", fit, fit.summary(), decision)
    text = page.read_text(encoding="utf-8")
    assert 'class="verdict broken">The policy promises' in text
    assert "Warning: The policy promises" in str(decision.memory)
    low = fit.evaluate(np.zeros((12, fit.model.S), dtype=int), draws=20).value
    assert low < best_group(fit.log)
