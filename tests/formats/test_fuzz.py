"""Mutants of every kind of file: one sentence, or an object that works; no crash, no hang.

`python tests/support/fuzz.py 1000 KIND` shows more; `fuzz_mutants.py` says what is done to files.
"""

import sys

import pytest
from fuzz import fuzz
from fuzz_worker import KINDS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc are Linux's")
MANY = 10_000
LEARNERS = [kind for kind in KINDS if kind.count("-") == 2]  # one format: they share the number


@pytest.mark.parametrize(
    ("kind", "least"),
    [
        *((kind, 5) for kind in ("model.json", "policy.json", "mvp-history-middle.npz", "run.npz")),
        *((kind, 5) for kind in ("model.pomdp", "model.pomdpx", "model.csv", "frame.csv")),
        ("study.db", 0),
        ("edited-study.db", 50),
        ("tables.json", 1),  # most change a probability, and rows must sum to 1
    ],
)
def test_some_mutants(kind, least):
    """A few in every run of the tests; `python tests/support/fuzz.py` lists the kinds."""
    outcomes, bad = fuzz(kind, 150)
    assert not bad
    assert outcomes["refused"] > 50 or kind.endswith(".db")  # damaged rows are left out
    assert outcomes["used"] > least  # the mutants get as far as that


NEEDS = {"parquet": "pyarrow", "zst": "pyarrow", "xlsx": "openpyxl"}


def need_reader_of(kind):
    """Skip where the package that reads a kind of log is not installed."""
    package = NEEDS.get(kind.rpartition(".")[2])
    if package is not None:
        pytest.importorskip(package)


@pytest.mark.parametrize("ending", ["csv.gz", "csv.zst", "parquet", "xlsx"])
def test_some_mutants_of_logs(ending):
    """Refused in a short sentence that names the file, or read; `slow` tests have all kinds."""
    need_reader_of(ending)
    outcomes, bad = fuzz(f"log.{ending}", 25)
    assert not bad
    assert outcomes["refused"] >= 3
    assert outcomes["used"] >= 3
    outcomes, bad = fuzz(f"log.{ending}", 25, crafted=False)
    assert not bad
    assert outcomes["refused"] >= 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [60, pytest.param(MANY, marks=pytest.mark.full)])
def test_many_mutants(many, kind):
    """10^4 of each format and state file, two thirds of them crafted; in CI, a few of each."""
    need_reader_of(kind)
    count = many // len(LEARNERS) + 1 if kind in LEARNERS else many
    crafted = count * 2 // 3
    found = fuzz(kind, crafted)[1] + fuzz(kind, count - crafted, crafted=False)[1]
    assert not found
