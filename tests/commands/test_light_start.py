"""Importing and asking for help load nothing heavy (`benchmarks/start.py` has the seconds)."""

import subprocess
import sys

import pytest

HEAVY = ("numba", "scipy", "pandas", "matplotlib", "gymnasium", "rich", "numpy", "llvmlite")


def loaded_by(code):
    """Which heavy modules are loaded after `code` ran in a fresh interpreter."""
    listing = f"import sys; {code}; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    return done.stdout.split("\n")[-2].split()


def test_import_loads_nothing_heavy():
    assert loaded_by("import latentmdp") == []


def test_help_loads_nothing_heavy():
    assert loaded_by("from latentmdp.commands import cli; cli.run(['--help'])") == []


@pytest.mark.parametrize(
    "code",
    [
        "import latentmdp; latentmdp.LatentMDP, latentmdp.PolicyGraph, latentmdp.evaluate",
        "import latentmdp; latentmdp.load, latentmdp.save, latentmdp.make('maze')",
        "from latentmdp.commands import cli; cli.run(['show', 'maze', '--json'])",
    ],
)
def test_models_load_numpy_and_no_more(code):
    assert set(loaded_by(code)) <= {"numpy"}
