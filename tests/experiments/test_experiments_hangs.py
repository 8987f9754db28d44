"""Runs that hang: they are ended at their time limit, their workers replaced, the rest is done."""

import time

import pytest

import latentmdp as lm
from latentmdp.errors import ModelError
from latentmdp.runtime.workers import Processes

HANGS = """
import time
def go(folder, seed, stream):
    open(folder + "/tries", "a").write(f"{seed} ")
    if seed == 1:
        time.sleep(120)  # no stop is asked for here: its worker must be ended
    return {"number": seed}
"""
STUDY = """
run_time_limit = 5.0
seeds = 4
[[tasks]]
function = "hangs.py:go"
arguments = { folder = "%s" }
"""


@pytest.fixture
def study(tmp_path):
    (tmp_path / "hangs.py").write_text(HANGS)
    path = tmp_path / "study.toml"
    path.write_text(STUDY % tmp_path)
    return lm.Study.load(path)


def check(study, folder):
    assert study.table()["number"].tolist() == [0, 2, 3]
    (failure,) = study.status()["failures"]
    assert "the study's run_time_limit is 5 s" in failure["error"]
    tries = (folder / "tries").read_text().split()
    assert sorted(tries) == ["0", "1", "2", "3"]  # it is not tried again
    study.run(jobs=1)  # nor by the next run of the study
    assert (folder / "tries").read_text().split() == tries


def test_a_task_that_hangs_is_ended_and_its_worker_replaced(study, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "latentmdp.experiments.study.Processes", lambda n, perform: Processes(n, perform, 0.5)
    )
    begun = time.monotonic()
    study.run(jobs=1)
    assert time.monotonic() - begun < 100  # the task alone would take 120 s
    check(study, tmp_path)


@pytest.mark.slow
def test_on_dask_too(study, tmp_path):
    pytest.importorskip("distributed")
    begun = time.monotonic()
    study.run(jobs=1, engine="dask")
    assert time.monotonic() - begun < 100
    check(study, tmp_path)


def test_a_learner_that_takes_too_long_stops_by_itself(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        'run_time_limit = 2.0\nalgorithms = ["random"]\nseeds = 1\n'
        'episodes = 1e12\nsimulator = "episodes"\n'
        '[[models]]\nmodel = "bandit:arms=2,contexts=2,horizon=3"\n'
    )
    begun = time.monotonic()
    (failure,) = lm.Study.load(path).run(jobs=1).status()["failures"]
    assert time.monotonic() - begun < 100
    assert "the study's run_time_limit is 2 s" in failure["error"]


@pytest.mark.parametrize("limit", ["0", "-1", '"soon"', "true", "[1]"])
def test_bad_limits_are_refused(tmp_path, limit):
    path = tmp_path / "study.toml"
    path.write_text(f'run_time_limit = {limit}\n[[tasks]]\nfunction = "a:b"\n')
    with pytest.raises(ModelError, match="run_time_limit must be seconds above 0"):
        lm.Study.load(path)
