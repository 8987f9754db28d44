"""Runs of every algorithm and class on every domain are audited: no verdict may be `bug`.

A few on small instances every day, all of them in the long suite, on both sides of the number of
states up to which a confidence set lists every next state.
"""

import json
from functools import cache

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.builtin_domains import DOMAINS
from latentmdp.commands.cli import run as command
from latentmdp.learning.spec import RunSpec, algorithms
from latentmdp.theory.auditing import report as audit_report
from latentmdp.theory.auditing.audit import Auditor

SMALL = {
    "maze": "maze:size=3,goals=2,horizon=6",
    "hard": "hard:contexts=2,states=8",
    "garnet": "garnet:contexts=2,states=7,actions=2,horizon=4",
    "riverswim": "riverswim:horizon=6",
    "troubleshoot": "troubleshoot:horizon=4",
    "bandit": "bandit:arms=2,contexts=2,horizon=3",
    "deterministic": "deterministic:horizon=5",
    "mastermind": "mastermind:colours=2,balls=2,guesses=2",
}
NO_BONUS = {"greedy", "oracle", "psrl", "psrl-episode", "random"}  # the same at every scale
LARGER = ("hard:contexts=2,states=14", "garnet:contexts=3,states=9,actions=3,horizon=6")


@cache
def planned(spec, policy_class):
    model = lm.make(spec)
    return model, lm.plan(model, policy_class, gap=None, work_limit=10**7)


def check_audit(spec, policy_class, algorithm, episodes, scale):
    model, optimal = planned(spec, policy_class)
    auditor = Auditor(model, RunSpec(algorithm, episodes, policy_class, bonus_scale=scale))
    run = lm.learn(
        model, algorithm, episodes, policy_class, bonus_scale=scale, optimal=optimal,
        observer=auditor.observe,
    )  # fmt: skip
    assert lm.audit(run, auditor=auditor).bugs == (), (
        f"{algorithm}, {policy_class}, {spec}, scale {scale}"
    )


def test_every_domain_has_a_small_instance():
    assert set(SMALL) == set(DOMAINS)


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein", "ucrl"])
def test_no_audit_finds_a_bug(algorithm):
    for spec in SMALL.values():
        check_audit(spec, "history", algorithm, 300, 0.03)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", algorithms())
@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_no_audit_of_any_algorithm_finds_a_bug(policy_class, algorithm):
    episodes = 200 if algorithm == "psrl-episode" else 2000  # that one plans after each of them
    for spec in SMALL.values():
        for scale in (1.0,) if algorithm in NO_BONUS else (1.0, 0.01):
            check_audit(spec, policy_class, algorithm, episodes, scale)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["mvp", "bernstein", "ucrl"])
@pytest.mark.parametrize("spec", LARGER)
def test_no_audit_of_larger_models_finds_a_bug(spec, algorithm):
    for scale in (1.0, 0.01):
        check_audit(spec, "history", algorithm, 2000, scale)


def test_the_command_fails_if_there_is_a_bug(tmp_path, monkeypatch, capsys):
    run = lm.learn(lm.make(SMALL["bandit"]), "mvp", episodes=100, optimal=(0.5, 0.6))
    run.save(tmp_path / "run")
    assert command(["audit", str(tmp_path / "run")]) == 0
    monkeypatch.setattr(
        audit_report, "max_updates", lambda *sizes: np.float64(0.0)
    )  # a promise that no run keeps
    capsys.readouterr()
    assert command(["audit", str(tmp_path / "run"), "--json"]) == 1
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    assert [row["verdict"] for row in rows if row["name"] == "updates"] == ["bug"]
