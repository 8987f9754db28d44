"""Systematic faults: each write, sync, rename, open, mkdir of every writer fails once, in turn.

As SQLite's own tests do it (`fault_shim.c`). Whatever fails: the old file or the new one is there,
whole, what was acknowledged is kept, no temporary file is left, and the error is one sentence.
"""

import os
import shutil
import subprocess
import sys

import pytest
from fault_worker import SCENARIOS
from places import SUPPORT

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)
QUICK = ("model.npz", "store", "note")


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    """The shim, compiled."""
    path = tmp_path_factory.mktemp("shim") / "shim.so"
    source = str(SUPPORT / "fault_shim.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", path, source, "-ldl"], check=True)
    return path


@pytest.mark.parametrize(
    "scenario",
    [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in SCENARIOS],
)
def test_every_fault_in_turn(scenario, shim, tmp_path):
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "fault_worker.py"), scenario, str(tmp_path)],
        env=os.environ | {"LD_PRELOAD": str(shim)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    faults = done.stdout.splitlines()
    assert faults[-1] == "done"
    assert len(faults) > 6  # opened, written, synced and renamed, with two kinds of errors
