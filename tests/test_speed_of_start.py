"""Importing and asking for help are quick, because heavy modules load late.

The best of several runs is taken, in processor time, so that other work on the machine does not
decide.
"""

import os
import subprocess
import sys

import pytest

HEAVY = ("numba", "scipy", "pandas", "matplotlib", "gymnasium", "rich", "numpy", "llvmlite")


def best_seconds(command, runs=5):
    """The quickest of several runs, in seconds of the child's processor time."""
    seconds = []
    for _ in range(runs):
        before = os.times()
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        user = after.children_user - before.children_user
        seconds.append(user + after.children_system - before.children_system)
    return min(seconds)


def loaded_by(code):
    """Which heavy modules are loaded after `code` ran in a fresh interpreter."""
    listing = f"import sys; {code}; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    return done.stdout.split("\n")[-2].split()


def test_import_is_quick():
    assert best_seconds([sys.executable, "-c", "import latentmdp"]) < 0.3


def test_help_is_quick():
    assert best_seconds([sys.executable, "-m", "latentmdp", "--help"]) < 0.5


def test_import_loads_nothing_heavy():
    assert loaded_by("import latentmdp") == []


def test_help_loads_nothing_heavy():
    assert loaded_by("from latentmdp import cli; cli.run(['--help'])") == []


@pytest.mark.parametrize(
    "code",
    [
        "import latentmdp; latentmdp.LatentMDP, latentmdp.PolicyGraph, latentmdp.evaluate",
        "import latentmdp; latentmdp.load, latentmdp.save, latentmdp.make('maze')",
        "from latentmdp import cli; cli.run(['show', 'maze', '--json'])",
    ],
)
def test_models_load_numpy_and_no_more(code):
    assert set(loaded_by(code)) <= {"numpy"}
