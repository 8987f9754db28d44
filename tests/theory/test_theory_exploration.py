"""The episode at which exploring begins: against the formula and against runs."""

import numpy as np
import pytest
from report_pages import Page

import latentmdp as lm
from latentmdp.learning.spec import RunSpec
from latentmdp.report import write_report
from latentmdp.theory.auditing.exploration import exploring_from, optimistic_value
from latentmdp.theory.bounds import iota


@pytest.mark.parametrize("rows", [1, 4])
def test_the_formula_where_it_is_exact(rows):
    """A deterministic circle: each of `rows` states is visited once or `8 / rows` times."""
    P = np.zeros((2, rows, 1, rows))
    for s in range(rows):
        P[:, s, 0, (s + 1) % rows] = 1.0
    nu = np.eye(rows)[[0, 0]]
    model = lm.LatentMDP.from_arrays(P, np.zeros((2, rows, 1)), [0.25, 0.75], nu, 8)
    spec = RunSpec("mvp", 10**9)
    policy = lm.PolicyGraph.from_table(np.zeros((8, rows), dtype=int))
    log = iota(2, rows, 1, 8, 10**9, 0.1)
    expected = 16 * rows * log * rows / 0.75  # D = rows, V = 0
    assert exploring_from(model, policy, spec) == pytest.approx(expected, rel=0.01)
    assert optimistic_value(model, policy, spec, 0.9 * expected) == 1.0


@pytest.mark.parametrize("name", ["riverswim", "bandit", "hard:contexts=2,states=11"])
def test_runs_begin_to_explore_where_it_is_expected(name):
    model = lm.make(name)
    best = lm.plan(model, "markov", gap=None, work_limit=10**8)
    values = {}
    for algorithm in ("mvp", "lucrl"):
        run = lm.learn(model, algorithm, 10**9, optimal=best)
        expected = exploring_from(model, best.policy, run.spec)
        edges = expected * np.array([1 / 16, 1 / 2, 1, 2, 4, 8])
        loss = np.diff(run.regret_at(edges)) / np.diff(edges)  # per episode
        assert loss[0] < 0.002, algorithm
        assert loss[2:].max() > 0.02, algorithm
        before = run.table[run.table["episode"] < expected / 2]
        values[algorithm] = before["value"].tolist()
    both = min(map(len, values.values()))  # until then they play alike
    assert values["mvp"][:both] == values["lucrl"][:both]
    assert both > 100


def test_algorithms_without_optimism_have_no_such_episode():
    model = lm.make("bandit")
    policy = lm.plan(model, "markov", gap=None).policy
    for name in ("greedy", "psrl", "random", "oracle", "lucrl-uncapped"):
        assert exploring_from(model, policy, RunSpec(name, 1000)) is None
    assert exploring_from(model, policy, RunSpec("bernstein", 1000)) > 1.0


def test_the_report_says_so_where_the_curves_are(tmp_path):
    model = lm.make("riverswim")
    runs = [lm.learn(model, a, 10**7, optimal=(0.3, 0.4)) for a in ("mvp", "greedy")]
    text = " ".join(Page(write_report(runs, tmp_path / "r.html").read_text("utf-8")).texts)
    found = exploring_from(model, runs[0].policy, runs[0].spec)
    assert f"mvp, markov: about {float(f'{found:.2g}'):,.0f}" in text
    assert "has not forgotten anything" in text
    assert "greedy, markov: about" not in text
    alone = Page(write_report(runs[1], tmp_path / "r.html").read_text("utf-8")).texts
    assert "forgotten" not in " ".join(alone)
