"""Tasks under way: `status` shows which worker has which task, and its last progress report."""

import json
import os
import signal
import threading
import time

import pytest
from dask_cluster import Cluster
from process_tree import Command, needs_proc, wait_until
from study_kills import PROGRAM, WORKER

import latentmdp as lm
from latentmdp.experiments.under_way import FILE, UnderWayFile, read_under_way
from latentmdp.learning.learn import find_optimal
from latentmdp.learning.spec import RunSpec
from latentmdp.runtime.progress import UnderWay, at_intervals

LEARNER = """
algorithms = ["random"]
simulator = "episodes"
episodes = 1e12
seeds = 1
models = ["bandit:arms=2,contexts=2,horizon=3"]
"""
SILENT = """
import time
def go(folder, seed, stream):
    while not __import__("os").path.exists(folder + "/end"):
        time.sleep(0.05)
    return {"number": seed}
"""
TASK = """
seeds = 1
[[tasks]]
function = "silent.py:go"
arguments = { folder = "%s" }
"""


def written(folder, text):
    path = folder / "study.toml"
    path.write_text(text)
    return path


def silent_study(folder):
    (folder / "silent.py").write_text(SILENT)
    return lm.Study.load(written(folder, TASK % folder))


@needs_proc
def test_status_shows_the_progress_of_a_learner_and_its_worker(tmp_path):
    path = written(tmp_path, LEARNER)
    study, command = lm.Study.load(path), Command("-c", PROGRAM, "study", "run", str(path))
    try:
        first = wait_until(lambda: learner_of(study))
        assert first["worker"] == f"process {command.children(WORKER)[0]}"
        later = wait_until(
            lambda: (now := learner_of(study)) and now["progress"] != first["progress"] and now
        )
        assert later["seconds"] > first["seconds"]
        assert later["silent_seconds"] < later["seconds"]  # it has reported since it began
        os.kill(command.children(WORKER)[0], signal.SIGSTOP)  # hangs: its silence grows
        wait_until(lambda: study.status()["under_way"][0]["silent_seconds"] > 3)
    finally:
        command.end()
    assert study.status()["under_way"] == []  # the driver is gone, so its file is ignored
    assert (tmp_path / "study" / FILE).exists()


def learner_of(study):
    """The learner under way, once it has reported an episode."""
    found = [one for one in study.status()["under_way"] if "episode" in one["progress"]]
    return found[0] if found else None


@needs_proc
def test_a_run_whose_worker_has_died_shows_its_new_one(tmp_path):
    study = silent_study(tmp_path)
    command = Command("-m", "latentmdp", "study", "run", str(tmp_path / "study.toml"))
    try:
        (old,) = command.wait_for(WORKER, 1)
        wait_until(lambda: study.status()["under_way"])
        os.kill(old, signal.SIGKILL)
        new = wait_until(lambda: [one for one in command.children(WORKER) if one != old])
        wait_until(
            lambda: [one["worker"] for one in study.status()["under_way"]] == [f"process {new[0]}"]
        )
        (tmp_path / "end").touch()
        code, errors = command.result()
        assert code == 0, errors
    finally:
        command.end()
    assert study.status()["under_way"] == []
    assert not (tmp_path / "study" / FILE).exists()


@pytest.mark.slow
def test_on_dask_the_worker_and_its_reports_are_known_too(tmp_path):
    pytest.importorskip("distributed")
    study = silent_study(tmp_path)
    with Cluster(tmp_path) as cluster:
        run = threading.Thread(
            target=study.run, kwargs={"engine": "dask", "scheduler": cluster.address}
        )
        run.start()
        try:
            pids = [worker.pid for worker in cluster.workers]
            first = wait_until(lambda: dask_worker(study, pids))
            os.kill(first, signal.SIGKILL)
            second = wait_until(lambda: dask_worker(study, pids, without=first))
            assert second != first
        finally:
            (tmp_path / "end").touch()
            run.join(100)
    assert study.table()["number"].tolist() == [0]


def dask_worker(study, pids, without=None):
    """The process that has the run, by the status."""
    for one in study.status()["under_way"]:
        for pid in pids:
            if one["worker"].startswith(f"process {pid} on ") and pid != without:
                return pid
    return None


def test_the_command_shows_it(tmp_path, capsys):
    from latentmdp.commands import cli

    study = silent_study(tmp_path)
    run = threading.Thread(target=study.run, kwargs={"jobs": 1})
    run.start()
    try:
        wait_until(
            lambda: [one for one in study.status()["under_way"] if one["progress"] == "begun"]
        )
        command = ["study", "status", str(tmp_path / "study.toml")]
        assert cli.run(command) in (0, None)
        text = capsys.readouterr().out
        assert cli.run([*command, "--json"]) in (0, None)
        (found,) = json.loads(capsys.readouterr().out)["under_way"]
    finally:
        (tmp_path / "end").touch()
        run.join(100)
    (line,) = [line for line in text.splitlines() if "under way" in line]
    id = study.table()["id"][0]
    assert line.startswith(f"under way: {id} for ")
    assert "(process " in line
    assert line.endswith(" ago: begun")
    assert found["id"] == id
    assert found["worker"].startswith("process ")
    assert found["progress"] == "begun"
    assert found["seconds"] >= found["silent_seconds"] >= 0


def test_reports_are_limited_in_number(monkeypatch):
    clock, sent = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    report = at_intervals(sent.append)
    for k in range(100):
        clock[0] = k / 10
        report(str(k))
    assert sent == [str(k) for k in range(0, 100, 10)]


def test_planning_an_optimum_reports_its_bounds_and_finds_the_same():
    model, spec = lm.make("bandit:arms=3,contexts=2,horizon=3"), RunSpec(policy_class="history")
    reports = []
    found = find_optimal(model, spec, progress=lambda *moment: reports.append(moment))
    assert found.bounds == find_optimal(model, spec).bounds
    assert reports[-1][2:] == found.bounds


def test_a_damaged_file_has_no_tasks(tmp_path):
    file = UnderWayFile(tmp_path)
    file.write([UnderWay("a-1", "process 7", 1.0, 2.0, "begun")])
    good = (tmp_path / FILE).read_text()
    (found,) = read_under_way(tmp_path)
    assert found["id"] == "a-1"
    assert found["seconds"] - found["silent_seconds"] == pytest.approx(1.0, abs=0.1)
    entry = json.loads(good)[0]
    for bad in ("", "{", "[1]", "[[]]", "7", '[{"id": 1}]', "[" * 10**5, good[:-9],
                json.dumps([entry | {"reported": "x"}]), json.dumps([entry | {"more": 1}]),
                json.dumps([entry | {"reported": 10**400}])):  # fmt: skip
        (tmp_path / FILE).write_text(bad)
        assert read_under_way(tmp_path) == []
    file.close()
    assert not list(tmp_path.iterdir())
