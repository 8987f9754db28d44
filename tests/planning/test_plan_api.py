"""`plan()` and `latentmdp plan`: arguments, statuses, warm starts, interruption, files, tables."""

import json
import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import FrozenInstanceError

import brute
import numpy as np
import pytest
from hypothesis import given, settings
from strategies import models

from latentmdp import LatentMDP, ModelError, Plan, PolicyGraph, evaluate, load_policy, make, plan
from latentmdp.commands.cli import run
from latentmdp.planning.plan import STATUSES, plan_whole, relative_gap
from latentmdp.runtime.interrupts import interrupts_raised

SMALL = "maze:size=3,goals=2,horizon=6"


@pytest.fixture(scope="module")
def model():
    return make(SMALL)


@pytest.fixture(scope="module")
def markov(model):
    return plan(model, "markov", gap=None)


def command(capsys, *arguments):
    code = run([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


# ---------------------------------------------------------------------- the function


@pytest.mark.parametrize("policy_class", ["history", "markov"])
def test_a_plan_carries_its_certificate(model, policy_class):
    found = plan(model, policy_class)
    assert isinstance(found, Plan)
    assert found.policy_class == policy_class
    assert found.lower == pytest.approx(evaluate(model, found.policy).value, abs=1e-12)
    assert found.lower <= found.upper
    assert found.gap <= 0.01
    assert found.status in ("optimal", "gap")
    assert found.seconds > 0
    assert found.nodes > 0
    assert found.work >= 0
    seconds, work, lower, upper = found.history[-1]
    assert seconds <= found.seconds
    assert work <= found.work
    assert (lower, upper) == pytest.approx((found.lower, found.upper), abs=1e-9)
    with pytest.raises(FrozenInstanceError):
        found.lower = 1.0


def test_history_is_the_default_class(model):
    assert plan(model).policy_class == "history"


@settings(max_examples=25)
@given(models(M=2, S=2, A=2, H=3))
def test_history_is_at_least_markov_and_both_are_exact(model):
    history, markov = plan(model, gap=None), plan(model, "markov", gap=None)
    near = 1e-8 * max(1.0, abs(model.min_return), abs(model.max_return))
    assert history.lower == pytest.approx(brute.best_history_value(model), abs=near)
    assert markov.lower == pytest.approx(brute.best_markov_value(model), abs=near)
    assert history.upper >= markov.lower - near


def test_memory_is_worth_something_in_a_maze():
    """Certified: what some policy with memory earns is more than any Markov policy can."""
    model = make("maze:size=5,goals=4")
    history = plan(model, gap=1e-6)
    markov = plan(model, "markov", gap=None, work_limit=200_000_000)
    assert history.lower > markov.upper > markov.lower


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"policy_class": "memory"}, "policy_class must be history or markov; it is 'memory'"),
        ({"gap": -0.1}, "gap must be a number from 0 to 1, or None"),
        ({"gap": 5}, "gap must be a number from 0 to 1, or None; it is relative"),
        ({"gap": 1.0000001}, "gap must be a number from 0 to 1, or None; it is relative"),
        ({"gap": float("inf")}, "gap must be a number from 0 to 1, or None; it is relative"),
        ({"gap": float("nan")}, "gap must be"),
        ({"gap": "1%"}, "gap must be"),
        ({"time_limit": 0}, "time_limit must be seconds above 0, or None; it is 0"),
        ({"time_limit": "long"}, "time_limit must be"),
        ({"work_limit": 0}, "work_limit must be a whole number of at least 1; it is 0"),
        ({"work_limit": 1.5}, "work_limit must be"),
        ({"memory_limit": -1}, "memory_limit must be"),
        ({"progress": 3}, "progress must be a function or None; it is 3"),
        ({"seed": -1}, "seed must be a whole number of at least 0; it is -1"),
        ({"seed": True}, "seed must be"),
        ({"policy_class": "markov", "method": "magic"}, "method must be one of auto, ascent"),
        ({"method": "magic"}, "method must be one of"),
        ({"warm": "policy"}, "warm must be a Plan, a PolicyGraph or a table"),
        ({"warm": [[0, 1]]}, "the policy must be for H="),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(model, arguments, words):
    with pytest.raises(ModelError, match="^" + words.replace("(", r"\(")) as caught:
        plan(model, **arguments)
    assert "\n" not in str(caught.value)


def test_only_models_can_be_planned_in():
    with pytest.raises(ModelError, match="plan needs a LatentMDP; it was given a str"):
        plan(SMALL)


@pytest.mark.parametrize(("policy_class", "work"), [("history", 100), ("markov", 300_000)])
def test_a_work_limit_is_kept_and_repeats(policy_class, work):
    model = make("garnet:seed=2", observe_rewards=False)
    limits = {"gap": 1e-9, "time_limit": None, "work_limit": work}
    a, b = (plan(model, policy_class, **limits) for _ in range(2))
    assert a.status in ("time", "stalled")
    assert (a.lower, a.upper, a.work, a.status) == (b.lower, b.upper, b.work, b.status)
    assert a.policy == b.policy


def test_a_time_limit_is_kept():
    found = plan(make("garnet"), "markov", gap=None, time_limit=0.5)
    assert found.status in ("time", "stalled")
    assert found.lower <= found.upper


def test_a_warm_start_is_never_lost(model, markov):
    for warm in (markov, markov.policy, markov.policy.table, markov.policy.table.tolist()):
        again = plan(model, "markov", warm=warm, work_limit=1)
        assert again.lower == pytest.approx(markov.lower, abs=1e-12)
        full = plan(model, "history", warm=warm)
        assert full.lower >= markov.lower - 1e-12


@pytest.mark.parametrize("method", ["ascent", "branch", "wsu", "mean", "qmdp"])
def test_methods_of_the_markov_class(model, markov, method):
    found = plan(model, "markov", gap=None, method=method)
    assert found.lower <= markov.lower + 1e-9
    assert found.upper >= markov.lower - 1e-9
    assert found.status in STATUSES
    assert method in ("ascent", "branch") or found.method == method


def test_progress_shows_both_bounds(model):
    seen = []
    plan(model, "markov", gap=None, progress=lambda *entry: seen.append(entry))
    assert seen
    for seconds, work, lower, upper in seen:
        assert seconds >= 0
        assert work >= 0
        assert lower <= upper + 1e-9


def test_ctrl_c_returns_the_best_so_far():
    model = make("garnet")
    plan(model, "markov", gap=None, work_limit=20_000_000)  # compiled before the clock runs
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.perf_counter()
    found = plan(model, "markov", gap=None, time_limit=120)
    assert found.status == "interrupted"
    assert time.perf_counter() - begun < 60
    assert found.lower <= found.upper
    assert evaluate(model, found.policy).value == pytest.approx(found.lower)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_ctrl_c_ends_callers_that_would_go_on_also_if_the_plan_is_done(policy_class, model):
    def interrupt(seconds, work, lower, upper):
        if upper - lower < 1e-9:
            signal.raise_signal(signal.SIGINT)

    options = {"gap": None, "progress": interrupt}
    assert plan(model, policy_class, **options).status == "optimal"  # not worth losing
    with pytest.raises(KeyboardInterrupt):
        plan_whole(model, policy_class, **options)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_that_something_swallows_is_raised_at_last():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts_raised(), suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    with interrupts_raised():
        pass


def test_relative_gap():
    assert relative_gap(1.0, 1.0) == 0.0
    assert relative_gap(0.9, 1.0) == pytest.approx(0.1)
    assert relative_gap(-1.1, -1.0) == pytest.approx(0.1)
    assert relative_gap(-1.0, 0.0) == np.inf


@settings(max_examples=25)
@given(models(M=2, S=2, A=2, H=3))
def test_minimising_costs_is_maximising_their_negatives(model):
    costs = model.negated()
    assert np.array_equal(costs.symbol, model.symbol)
    found = plan(costs, "markov", gap=None)
    d = brute.Dense(model)
    least = min(brute.markov_value(d, table) for table in brute.markov_tables(model))
    near = 1e-9 * max(1.0, abs(model.min_return), abs(model.max_return))
    assert -found.lower == pytest.approx(least, abs=near)
    assert evaluate(model, found.policy).value == pytest.approx(least, abs=near)


# ---------------------------------------------------------------------- the command


def test_json_has_the_keys_of_the_contract(capsys):
    code, out, err = command(capsys, "plan", SMALL, "--class", "markov", "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out.strip().splitlines()[-1])
    assert {"lower", "upper", "gap", "status", "seconds", "nodes", "method"} <= set(facts)
    assert facts["lower"] <= facts["upper"]


def test_text_says_what_was_found(capsys):
    code, out, err = command(capsys, "plan", SMALL, "--class", "markov", "--gap", "none")
    assert (code, err) == (0, "")
    assert "status   optimal: no policy of the class is better" in out
    assert "optimum  between" in out


@pytest.mark.parametrize("ending", ["csv", "json", "npz"])
def test_policies_are_written_and_read_back(capsys, tmp_path, model, markov, ending):
    path = tmp_path / f"policy.{ending}"
    arguments = ("plan", SMALL, "--class", "markov", "--gap", "none", "--out", path)
    assert command(capsys, *arguments)[0] == 0
    policy = load_policy(path)
    assert policy.is_markov
    assert evaluate(model, policy).value == pytest.approx(markov.lower)
    code, out, _ = command(capsys, "evaluate", SMALL, path, "--json")
    assert code == 0
    assert json.loads(out)["value"] == pytest.approx(markov.lower)


def test_a_csv_can_be_read_without_us(capsys, tmp_path, model):
    path = tmp_path / "policy.csv"
    command(capsys, "plan", SMALL, "--class", "markov", "--out", path)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "step,state,action,state_name,action_name"
    assert len(lines) == 1 + model.H * model.S
    step, state, action, state_name, action_name = lines[1].split(",")
    assert (step, state) == ("0", "0")
    assert state_name == model.state_names[0]
    assert action_name == model.action_names[int(action)]


def test_minimize_reports_in_the_users_sign(capsys):
    arguments = ("plan", SMALL, "--class", "markov", "--gap", "none", "--minimize", "--json")
    code, out, _ = command(capsys, *arguments)
    facts = json.loads(out)
    assert code == 0
    assert 0 <= facts["lower"] <= facts["upper"] <= 1
    assert facts["value"] == facts["upper"]
    negative = plan(make(SMALL).negated(), "markov", gap=None)
    assert facts["value"] == pytest.approx(-negative.lower)


def test_comparison_brackets_memory_and_information(capsys):
    code, out, _ = command(capsys, "plan", SMALL, "--compare", "--json")
    facts = json.loads(out)
    assert code == 0
    names = [row["method"] for row in facts["methods"]]
    assert names[:3] == ["weight-select-update", "mean model", "QMDP"]
    assert names[-1] == "knowing the context"
    by_class = {row["class"]: row["value"] for row in facts["methods"]}
    for bracket in (facts["value_of_memory"], facts["value_of_information"]):
        assert 0 <= bracket[0] <= bracket[1]
    assert by_class["markov"] <= by_class["history"] + 1e-12 <= by_class["bound"] + 1e-9
    code, out, _ = command(capsys, "plan", "troubleshoot", "--compare", "--json")
    low, high = json.loads(out)["value_of_memory"]
    assert 0.009 < low <= high < 0.012  # 0.8416 minus 0.8311: known closely without asking
    code, out, _ = command(capsys, "plan", SMALL, "--compare")
    assert code == 0
    assert "value of memory" in out
    assert "value of information" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--class", "nobody"], "policy_class must be history or markov"),
        (["--gap", "x"], "--gap must be a number or 'none'"),
        (["--gap", "5"], "gap must be a number from 0 to 1, or None; it is relative"),
        (["--time-limit", "-1"], "time_limit must be seconds above 0"),
        (["--work-limit", "1.5"], "must be a whole number"),
        (["--out", "p.csv"], "a .csv holds Markov policies only"),
        (["--out", "p.txt"], "--out must end in one of"),
        (["--out", "no/such/folder/p.json"], "its folder does not exist"),
        (["--out", "/proc/p.json"], "cannot be written"),
        (["--gap", ""], "--gap must be a number"),
        (["--compare", "--out", "p.json"], "--compare makes several policies"),
        (["--method", "magic"], "method must be one of"),
    ],
)
def test_bad_options_are_refused_in_one_line(capsys, options, words):
    code, out, err = command(capsys, "plan", SMALL, *options)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_policy_with_memory_needs_no_table():
    """A Markov plan may start from any policy graph; one with memory is just not used."""
    model = make(SMALL)
    memory = PolicyGraph.from_belief(model, lambda t, s, belief: int(belief[0] > 0.4))
    assert plan(model, "markov", warm=memory).status in ("optimal", "gap")
    assert isinstance(model, LatentMDP)
