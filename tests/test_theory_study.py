"""The scaling study: its fit, its instances, its file, and (long) its one-minute version."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import latentmdp as lm
from latentmdp import ModelError
from latentmdp.theory import scaling
from latentmdp.theory.study import RESOLUTION, exponent, measure, run_study
from latentmdp.theory.sweeps import SWEEPS

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import theorem_study  # noqa: E402


def test_exponents_of_known_powers():
    rng = np.random.default_rng(0)
    for power in (0.0, 0.5, 2.0):
        rows = [
            {"seed": seed, "x": x,
             "regret": math.exp(3 * seed + 0.05 * rng.standard_normal()) * x**power}
            for seed in range(5)  # instances may differ by any factor
            for x in (1.0, 2.0, 4.0, 8.0)
        ]  # fmt: skip
        value, low, high = exponent(rows)
        assert abs(value - power) < 0.1
        assert 0.0 < high - low < 0.3
        assert value == pytest.approx((low + high) / 2)
    with pytest.raises(ModelError, match="two seeds"):
        exponent(rows[:4])


def test_intervals_cover_as_often_as_they_say():
    """Slopes that differ between seeds: 95% intervals, 2,000 trials (4 standard errors: 2%)."""
    rng, covered = np.random.default_rng(1), 0
    for _ in range(2000):
        slopes = 0.5 + 0.2 * rng.standard_normal(5)
        rows = [
            {"seed": s, "x": x, "regret": x**slope}
            for s, slope in enumerate(slopes)
            for x in (1, 4)
        ]
        _, low, high = exponent(rows)
        covered += low <= 0.5 <= high
    assert 0.93 < covered / 2000 < 0.97


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
    assert len({sweep.name for sweep in SWEEPS}) == len(SWEEPS)
    for sweep in SWEEPS:
        for x in sweep.sizes:
            model = sweep.make(x, 0, 2.0**-10)
            wanted = {"M": model.M, "S": model.S, "A": model.A, "Gamma": model.Gamma, "H": model.H}
            if sweep.parameter in wanted:
                assert wanted[sweep.parameter] == x, sweep.name
            if sweep.parameter == "Var*":
                table = lm.PolicyGraph.from_table(np.zeros((2, 3), dtype=int))
                assert lm.evaluate(model, table).variance == pytest.approx(x)


def test_the_worst_gap_is_inside_the_grid():
    sweep = next(s for s in SWEEPS if s.name == "K")
    row = measure((sweep, 10**8, 0, "mvp"))
    assert row["gap"] < max(sweep.gaps)
    assert 0 < row["regret"] <= row["gap"] * 10**8  # no policy can lose more
    narrow = replace(sweep, gaps=(2.0**-3, 2.0**-4))  # goes on below the grid
    assert measure((narrow, 10**8, 0, "mvp"))["gap"] < 2.0**-6


def test_the_worst_gap_is_found_finely():
    """Seeds shift the grid of gaps; what they find to be the worst must not depend on that."""
    sweep = next(s for s in SWEEPS if s.name == "M")
    sweep = replace(sweep, episodes=10**7, gaps=tuple(2.0**-j for j in range(5, 10)))
    found = [measure((sweep, 2, seed, "lucrl"))["regret"] for seed in range(4)]
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


def test_a_study_is_a_file_and_goes_on(tmp_path):
    chosen = [s for s in SWEEPS if s.name in ("K fixed", "S fixed, bonus 3/S")]
    shown = []
    found = run_study(
        chosen, seeds=2, jobs=1, quick=True, title="t", command="c", out=tmp_path,
        say=lambda entry: shown.append(entry["name"]),
    )  # fmt: skip
    assert shown == [s.name for s in chosen]
    text = (tmp_path / "study.json").read_text(encoding="utf-8")
    document = json.loads(text)
    assert document == found
    assert (document["format"], document["version"]) == ("latentmdp-study", 1)
    for entry in document["varied"]:
        assert {"parameter", "label", "model", "theorem_exponent", "rows", "fits", "note"} <= set(
            entry
        )
        assert {row["seed"] for row in entry["rows"]} == {0, 1}
        assert {"algorithm", "x", "seed", "regret"} <= set(entry["rows"][0])
        for fit in entry["fits"]:
            assert fit["low"] <= fit["exponent"] <= fit["high"]
    again = run_study(chosen, seeds=2, jobs=1, quick=True, out=tmp_path)
    assert again["varied"] == found["varied"]
    page = theorem_study.section(found["varied"][0])
    assert "| exponent |" in page
    assert "K fixed" in page


@pytest.mark.slow
def test_quick_version_runs():
    command = [sys.executable, ROOT / "scripts" / "theorem_study.py", "--quick", "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.count("| exponent |") >= 8
