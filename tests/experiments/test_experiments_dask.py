"""Studies on a Dask cluster: the same bits, and whatever is killed, nothing is lost."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dask_cluster import Cluster
from process_tree import needs_proc, wait_until
from study_kills import HERE, at_peace, bits, finish, run_to_end, start, write_study

import latentmdp as lm
from latentmdp.errors import ModelError
from latentmdp.experiments import dask_engine

pytest.importorskip("distributed")

DIES = f"""
[[tasks]]
name = "dies"
function = "{HERE}/study_tasks.py:dies"
arguments = {{ folder = "%s" }}
seeds = [0, 1]
"""


def test_the_same_bits_and_a_killer_set_aside(tmp_path):
    calm = write_study(tmp_path / "calm", folder=tmp_path, seeds=4, seconds=0)
    assert run_to_end(calm)[0] == 0
    expected = bits(lm.Study.load(calm).table())
    path = write_study(tmp_path / "dask", folder=tmp_path, seeds=4, seconds=0)
    path.write_text(path.read_text() + DIES % tmp_path)
    code, errors = run_to_end(path, "--engine", "dask")
    assert code == 1, errors  # a run has failed
    study = lm.Study.load(path)
    found = bits(study.table())
    assert "dies" in set(found["task"])
    found = found.loc[expected.index, expected.columns]
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)  # dies has no x
    (failure,) = study.status()["failures"]
    assert failure["id"].startswith("dies-1-")
    assert "its worker died 3 times" in failure["error"]
    assert (tmp_path / "log").read_text().count("seed 1") == 3


def struck(tmp_path, strikes, seed, **values):
    """Kill workers and schedulers at random moments; compare with a study at peace.

    Only strikes while the driver is at work count.
    """
    expected, length = at_peace(tmp_path, **values)
    random = np.random.default_rng(seed)
    path = write_study(tmp_path / "struck", folder=tmp_path, **values)
    study = lm.Study.load(path)
    streams = {run.id: str(run.stream) for run in study.spec.runs()}
    left, starts = strikes, 0
    while left:
        starts += 1
        with Cluster(tmp_path) as cluster:
            (tmp_path / "log").write_text("")
            before = set(bits(study.table()).index)
            command = start(path, "--scheduler", str(cluster.file))
            lost = False
            while left and not lost and command.process.poll() is None:
                time.sleep(float(random.uniform(0.0, length)))
                if command.process.poll() is not None:
                    break
                lost = left % 2 == 1
                cluster.lose_scheduler() if lost else cluster.lose_worker()
                left -= 1
            code, errors = finish(command)
            assert code in (0, 2) if lost else code == 0, errors
            if code == 2:
                assert errors.split("\n")[-2].startswith("latentmdp: Dask's scheduler"), errors
            assert "Traceback" not in errors, errors
            again = set((tmp_path / "log").read_text().split())
            assert not again & {streams[id] for id in before}, "an acknowledged run was done again"
            if len(bits(study.table())) == len(expected) and left:
                pd.testing.assert_frame_equal(bits(study.table()), expected)
                os.rename(path.with_suffix(""), tmp_path / f"done-{starts}")
    code, errors = run_to_end(path)  # the rest on the other engine
    assert code == 0, errors
    pd.testing.assert_frame_equal(bits(study.table()), expected)
    print(f"{strikes} strikes at {starts} clusters")


@needs_proc
def test_a_worker_and_a_scheduler_are_killed(tmp_path):
    struck(tmp_path, 2, seed=0, seeds=8, seconds=0.1)


@needs_proc
@pytest.mark.full
@pytest.mark.slow
def test_killed_at_a_hundred_moments(tmp_path):
    struck(tmp_path, 100, seed=1, seeds=16, seconds=0.1, learners=6, episodes=3e5)


IMPATIENT = """
import sys
from latentmdp.commands import cli
from latentmdp.experiments import dask_engine
dask_engine.CONNECT_SECONDS = 1.0
sys.exit(cli.run(sys.argv[1:]))
"""


def test_a_scheduler_that_does_not_answer(tmp_path):
    path = write_study(tmp_path / "s", folder=tmp_path, seeds=1, seconds=0)
    command = [sys.executable, "-c", IMPATIENT, "study", "run", str(path)]
    command += ["--scheduler", "tcp://127.0.0.1:9"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    said = "latentmdp: Dask's scheduler tcp://127.0.0.1:9 must answer within 1 s; it did not: "
    assert done.stderr.split("\n")[-2].startswith(said)
    assert "Traceback" not in done.stderr


def test_dask_logs_nothing_beside_our_sentence(monkeypatch):
    """A scheduler lost while it sends a result is a traceback in Tornado's log."""
    monkeypatch.setattr(dask_engine, "CONNECT_SECONDS", 0.1)
    loggers = [logging.getLogger(name) for name in ("distributed.client", "tornado.application")]
    for logger in loggers:
        monkeypatch.setattr(logger, "level", logging.ERROR)
    with pytest.raises(lm.ModelError, match="must answer within"):
        dask_engine.DaskEngine(1, "tcp://127.0.0.1:9")
    assert not any(logger.isEnabledFor(logging.ERROR) for logger in loggers)


@needs_proc
@pytest.mark.slow
def test_ctrl_c_leaves_no_process(tmp_path):
    path = write_study(tmp_path / "s", folder=tmp_path, seeds=100, seconds=0.1)
    command = start(path, "--engine", "dask")
    wait_until(lambda: (tmp_path / "log").read_text())
    threads = Path(f"/proc/{command.process.pid}/task").glob("*/children")
    workers = [int(pid) for file in threads for pid in file.read_text().split()]
    assert len(workers) >= 2
    os.killpg(command.process.pid, signal.SIGINT)
    code, errors = finish(command)
    assert code == 130, errors
    assert "Traceback" not in errors
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), 10)


@pytest.mark.parametrize("content", [None, "", "no json", "[]", '{"address": 1}', "[" * 100_000])
def test_a_scheduler_file_that_is_none_is_refused_in_time(tmp_path, content):
    file = tmp_path / "scheduler.json"
    if content is not None:
        file.write_text(content)
    words = "must be the file of a Dask scheduler, within 0.2 s"
    with pytest.raises(ModelError, match=words):
        dask_engine.DaskEngine(1, str(file), connect_seconds=0.2)


def test_a_cluster_on_this_machine_listens_to_this_machine_alone():
    psutil = pytest.importorskip("psutil")
    engine = dask_engine.DaskEngine(1, None)
    try:
        me = psutil.Process()
        found = [
            connection.laddr.ip for process in (me, *me.children(recursive=True))
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]  # fmt: skip
        assert found
        assert set(found) == {"127.0.0.1"}
    finally:
        engine.close()
