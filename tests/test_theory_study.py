"""The scaling study: its fit, its instances, and (long) its one-minute version."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import latentmdp as lm

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import theorem_study as study  # noqa: E402


def test_exponents_of_known_powers():
    rng = np.random.default_rng(0)
    sizes, seeds = np.tile([1.0, 2.0, 4.0, 8.0], 5), np.repeat(np.arange(5.0), 4)
    for power in (0.0, 0.5, 2.0):
        level = np.exp(3 * seeds)  # instances may differ by any factor
        regret = level * sizes**power * np.exp(0.05 * rng.standard_normal(20))
        slope, half = study.exponent(sizes.copy(), seeds, regret)
        assert abs(slope - power) < 2 * half < 0.15


def test_slowing_down_keeps_the_problem():
    model = lm.make("garnet:contexts=2,states=6,actions=2,branching=2,horizon=8,seed=0")
    values, variances = [], []
    for factor in (2, 4, 8):
        slow = study.slowed(model, factor)
        assert 8 * factor == slow.H
        assert slow.Gamma <= model.Gamma + 1
        values.append(lm.plan(slow, "markov", gap=1e-3, time_limit=1.0).lower)
        table = np.zeros((slow.H, slow.S), dtype=int)
        variances.append(lm.evaluate(slow, lm.PolicyGraph.from_table(table)).variance)
    assert max(values) / min(values) < 1.1
    assert max(variances) / min(variances) < 1.6


def test_every_sweep_makes_its_instances():
    for sweep in study.SWEEPS:
        for size in sweep.sizes:
            episodes = int(size) if sweep.name.startswith("K") else sweep.episodes
            model = study.instance(sweep.name, size, episodes, 0)
            wanted = {"M": model.M, "S": model.S, "A": model.A, "Gamma": model.Gamma, "H": model.H}
            if sweep.name in wanted:
                assert wanted[sweep.name] == size


@pytest.mark.slow
def test_quick_version_runs():
    command = [sys.executable, ROOT / "scripts" / "theorem_study.py", "--quick", "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.count("| exponent |") >= 4
