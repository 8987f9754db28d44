"""The theorem's study: its instances, its runs, its page, and (long) its one-minute version."""

import math
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from places import ROOT

import latentmdp as lm
from latentmdp import ModelError
from latentmdp.experiments.study import Study

sys.path.insert(0, str(ROOT / "scripts"))
sys.path.insert(0, str(ROOT / "docs" / "study"))

import theorem_runs as scaling
import theorem_study
from theorem_runs import RESOLUTION, SWEEPS, measure, measure_named

STUDY, QUICK = (
    Study.load(ROOT / "docs" / "study" / f"{name}.toml") for name in ("theorem", "quick")
)


def optimum(model):
    return lm.plan(model, "markov", gap=None, time_limit=5.0).lower


def test_copies_change_one_size_and_nothing_else():
    base = lm.make("garnet:contexts=2,states=3,actions=2,branching=2,horizon=3,seed=1")
    variance = lm.max_variance(base, "markov")
    assert variance.lower == pytest.approx(variance.upper)
    sizes = {"M": base.M, "S": base.S, "A": base.A, "Gamma": base.Gamma, "H": base.H}
    for change, grown in (
        ({"M": 4}, scaling.more_contexts(base, 2)),
        ({"S": 6}, scaling.more_states(base, 2)),
        ({"A": 4}, scaling.more_actions(base, 2)),
        ({"S": 6, "Gamma": 4}, scaling.more_states(base, 2, mixed=2)),
    ):
        found = {name: getattr(grown, name) for name in sizes}
        assert found == {**sizes, **change}
        assert optimum(grown) == pytest.approx(optimum(base))
        policy = lm.PolicyGraph.from_table(np.zeros((3, grown.S), dtype=int))
        same = lm.PolicyGraph.from_table(np.zeros((3, base.S), dtype=int))
        assert lm.evaluate(grown, policy).variance == pytest.approx(
            lm.evaluate(base, same).variance
        )
    with pytest.raises(ModelError, match="divide"):
        scaling.more_states(base, 3, mixed=2)


def test_slowing_down_keeps_the_problem():
    model = lm.make("garnet:contexts=2,states=6,actions=2,branching=2,horizon=8,seed=0")
    values, variances = [], []
    for factor in (2, 4, 8):
        slow = scaling.slowed(model, factor)
        assert 8 * factor == slow.H
        assert slow.Gamma <= model.Gamma + 1
        values.append(lm.plan(slow, "markov", gap=1e-3, time_limit=1.0).lower)
        table = np.zeros((slow.H, slow.S), dtype=int)
        variances.append(lm.evaluate(slow, lm.PolicyGraph.from_table(table)).variance)
    assert max(values) / min(values) < 1.1
    assert max(variances) / min(variances) < 1.6


def test_the_choice_has_the_return_of_one_coin():
    for horizon in (2, 7):
        model = scaling.choice(0.1, p=0.2, horizon=horizon)
        assert horizon == model.H
        assert optimum(model) == pytest.approx(0.3)
        found = lm.max_variance(model, "markov")
        assert found.lower == pytest.approx(0.21)
        assert found.upper == pytest.approx(0.21)
    with pytest.raises(ModelError, match="p \\+ gap"):
        scaling.choice(0.6)


def test_every_sweep_makes_its_instances():
    sizes = {name: set() for name in SWEEPS}
    for run in (*STUDY.spec.runs(), *QUICK.spec.runs()):
        assert run.content["arguments"]["sweep"] == run.labels["task"]
        sizes[run.labels["task"]].add(run.labels["x"])
    for name, sweep in SWEEPS.items():
        assert len(sizes[name]) >= 3
        about = STUDY.spec.about[name]
        assert (sweep.policy_class == "history") == ("history class" in about["setting"])
        assert (sweep.episodes is None) == (about["size"] == "K")
        if sweep.episodes is not None:
            assert f"K = 10^{math.log10(sweep.episodes):g}" in " ".join(about["note"].split())
        for x in sizes[name]:
            model = sweep.make(x, 0, 2.0**-10)
            wanted = {"M": model.M, "S": model.S, "A": model.A, "Gamma": model.Gamma, "H": model.H}
            if about["size"] in wanted:
                assert wanted[about["size"]] == x, name
            if about["size"] == "Var*":
                table = lm.PolicyGraph.from_table(np.zeros((2, 3), dtype=int))
                assert lm.evaluate(model, table).variance == pytest.approx(x)


def test_the_worst_gap_is_inside_the_grid():
    sweep = SWEEPS["K"]
    row = measure(sweep, 10**8, 0, "mvp")
    assert row["gap"] < max(sweep.gaps)
    assert 0 < row["regret"] <= row["gap"] * 10**8  # no policy can lose more
    narrow = replace(sweep, gaps=(2.0**-3, 2.0**-4))  # goes on below the grid
    assert measure(narrow, 10**8, 0, "mvp")["gap"] < 2.0**-6


def test_the_worst_gap_is_found_finely():
    """Seeds shift the grid of gaps; what they find to be the worst must not depend on that."""
    sweep = SWEEPS["M"]
    sweep = replace(sweep, episodes=10**7, gaps=tuple(2.0**-j for j in range(5, 10)))
    found = [measure(sweep, 2, seed, "lucrl")["regret"] for seed in range(4)]
    assert max(found) / min(found) < RESOLUTION**2


def test_two_contexts_that_differ_make_the_belief_matter():
    gap = 0.1
    for remembered in (False, True):
        model = scaling.told(gap, remembered=remembered)
        with_memory = lm.plan(model, "history", gap=None)
        without = lm.plan(model, "markov", gap=None)
        assert with_memory.lower == pytest.approx(0.5 + 0.75 * gap)
        assert without.upper == pytest.approx(0.5 + (0.5 if remembered else 0.75) * gap)
        copied = scaling.more_contexts(model, 3)
        assert copied.M == 6
        assert lm.plan(copied, "history", gap=None).lower == pytest.approx(with_memory.lower)
    with pytest.raises(ModelError, match="gaps in"):
        scaling.told(0.5)


def test_the_table_becomes_the_page(tmp_path):
    """One sweep of the quick version: its runs, their exponents, and what is written of them."""
    study = Study(QUICK.spec, tmp_path)
    study.run(jobs=1, only="S-fixed-bonus-3-S-*")
    assert not study.status()["failures"]
    table = study.table()
    first = table.iloc[0]
    again = measure_named(first["task"], first["x"], first["algorithm"], int(first["seed"]), 0)
    assert first["regret"] == again["regret"]
    (fit,) = study.exponents("x").to_dict("records")
    assert fit["lower"] <= fit["exponent"] <= fit["upper"]
    table.to_csv(tmp_path / "table.csv", index=False)
    page = theorem_study.page(STUDY, pd.read_csv(tmp_path / "table.csv"))
    words = f"**{fit['exponent']:.2f}** [{fit['lower']:.2f}, {fit['upper']:.2f}]"
    assert f"bonus_scale = 3/S | 1 | {words} |" in page
    assert f"| exponent | {words} |" in page
    assert "it did so in every run" in page
    table.loc[0, "short"] = 0.25
    page = theorem_study.page(STUDY, table)
    assert (
        "1 runs in which it did not (by up to 0.2) are left out: S fixed, bonus 3/S (mvp)" in page
    )
    with pytest.raises(ModelError, match="sweep must be one of"):
        measure_named("nothing", 1, "mvp", 0, 0)


def test_the_page_of_the_table_in_the_repository():
    table = pd.read_csv(ROOT / "docs" / "study" / "theorem.csv")
    page = theorem_study.page(STUDY, table)
    assert set(table["task"]) <= set(SWEEPS)
    written = (ROOT / "docs" / "theorem.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| exponent |")]
    assert len(lines) >= 18
    assert all(line in written for line in lines)


@pytest.mark.slow
def test_quick_version_is_the_same_on_both_engines(tmp_path):
    tables = []
    shutil.copy(ROOT / "docs" / "study" / "theorem_runs.py", tmp_path)  # beside the study's file
    for engine in ("processes", "dask"):
        folder = tmp_path / engine
        (tmp_path / f"{engine}.toml").write_text(
            (ROOT / "docs" / "study" / "quick.toml").read_text(encoding="utf-8")
        )
        command = ["-m", "latentmdp", "study", "run", str(folder.with_suffix(".toml"))]
        subprocess.run([sys.executable, *command, "--engine", engine], check=True)
        table = Study(QUICK.spec, folder).table()
        tables.append(table[[name for name in table if "seconds" not in name]])
    pd.testing.assert_frame_equal(*tables)
    assert len(Study(QUICK.spec, tmp_path / "dask").exponents("x")) == 25
