"""Attacks on `run_time_limit`: tasks that hold the interpreter, leave processes, or die."""

import os
import signal
import subprocess
import sys
import time

import pytest
from process_tree import Command, all_end, command_line, needs_proc, wait_until
from study_kills import PROGRAM, WORKER

import latentmdp as lm

TASKS = """
import ctypes, os, signal, subprocess, sys, time
from pathlib import Path

def note(folder, name):
    Path(folder, name).write_text(str(os.getpid()))

def go(folder, way, seed, stream):
    if way == "holds the interpreter":
        note(folder, "pid")
        ctypes.PyDLL(None).sleep(100)
    if way == "ignores signals":
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        note(folder, "pid")
        time.sleep(100)
    if way in ("leaves a child", "dies and leaves a child", "leaves a child of its own session"):
        if ctypes.CDLL(None).fork() == 0:  # not by Python: the worker's pipe stays open
            if way.endswith("session"):
                os.setsid()
            note(folder, "child")
            time.sleep(70)
            os._exit(0)
        while not Path(folder, "child").exists():
            time.sleep(0.01)
        if way.startswith("dies"):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(100)
    if way == "calls a program":
        program = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid()));"
        program += "time.sleep(100)"
        subprocess.run([sys.executable, "-c", program, folder + "/child"])
    return {"number": seed}
"""
STUDY = """
run_time_limit = 1.0
[[tasks]]
function = "tasks.py:go"
arguments = {{ folder = "{folder}" }}
sweep = {{ way = {ways} }}
seeds = 1
"""
IMPATIENT = """
import functools
import latentmdp.runtime.workers as engines
import latentmdp.experiments.study as study
study.Processes = functools.partial(engines.Processes, grace_seconds={grace})
"""
WAYS = (
    "holds the interpreter", "ignores signals", "leaves a child", "dies and leaves a child",
    "leaves a child of its own session", "calls a program",
)  # fmt: skip


def study_of(folder, *ways):
    (folder / "tasks.py").write_text(TASKS)
    path = folder / "study.toml"
    path.write_text(STUDY.format(folder=folder, ways=list(ways)))
    return path


def start(path, grace, *options):
    code = IMPATIENT.format(grace=grace) + PROGRAM
    return Command("-c", code, "study", "run", str(path), *options)


@needs_proc
@pytest.mark.parametrize("way", WAYS)
def test_the_run_fails_alone_and_leaves_no_process(way, tmp_path):
    path = study_of(tmp_path, way, "is well")
    begun = time.monotonic()
    command = start(path, 0.5, "--jobs", "1")
    _, errors = command.process.communicate(timeout=60)
    assert command.process.returncode == 1, errors
    assert time.monotonic() - begun < 40
    assert "Traceback" not in errors
    study = lm.Study.load(path)
    assert study.table()["way"].tolist() == ["is well"]
    (failure,) = study.status()["failures"]
    died = way.startswith("dies")
    words = "its worker died 3 times" if died else "the study's run_time_limit is 1 s"
    assert words in failure["error"]
    child = tmp_path / "child"
    if child.exists() and not way.endswith("session"):  # that one has left the group on purpose
        assert all_end([int(child.read_text())])
    elif child.exists():
        os.kill(int(child.read_text()), signal.SIGKILL)


@needs_proc
def test_ctrl_c_while_a_worker_is_overdue(tmp_path):
    path = study_of(tmp_path, "holds the interpreter", "is well")
    command = start(path, 100, "--jobs", "1")
    pid = int(wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    time.sleep(2.0)  # it is overdue, and was told to stop
    assert command_line(pid)
    command.interrupt()
    code, errors = command.result()
    assert code == 130, errors
    assert "Traceback" not in errors
    assert all_end([pid])
    study = lm.Study.load(path)
    assert study.status()["failed"] == 0  # it was interrupted: it is done again
    assert study.status()["left"] == 2


@needs_proc
def test_a_killed_driver_leaves_no_process_of_a_task(tmp_path):
    path = study_of(tmp_path, "calls a program")
    path.write_text(path.read_text().replace("run_time_limit = 1.0", ""))
    command = start(path, 10, "--jobs", "1")
    child = int(
        wait_until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text())
    )
    (worker,) = command.wait_for(WORKER, 1)
    os.kill(command.process.pid, signal.SIGKILL)
    command.process.communicate()
    assert all_end([worker, child])


@pytest.mark.slow
def test_a_dask_worker_without_a_nanny_is_sent_away(tmp_path):
    """A task on the thread of one that hangs would not begin, and fail for nothing."""
    pytest.importorskip("distributed")
    from dask_cluster import Cluster

    path = study_of(tmp_path, "holds the interpreter", *(f"is well {i}" for i in range(6)))
    with Cluster(tmp_path) as cluster:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "study", "run", str(path),
             "--scheduler", str(cluster.file)],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 1, done.stderr
    study = lm.Study.load(path)
    assert len(study.table()) == 6
    (failure,) = study.status()["failures"]
    assert "the study's run_time_limit is 1 s" in failure["error"]
