"""Studies run, stop, go on, and say what they have."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress

import numpy as np
import pandas as pd
import pytest
from places import SUPPORT
from study_database import remake_digests

import latentmdp as lm
from latentmdp.commands import cli
from latentmdp.errors import ModelError
from latentmdp.experiments.checkpoint import Checkpoint
from latentmdp.experiments.lock import held, is_held
from latentmdp.experiments.store import Store
from latentmdp.learning.spec import RunSpec
from latentmdp.runtime.files import lock_file
from latentmdp.runtime.workers import Processes

SMALL = "bandit:arms=2,contexts=2,horizon=3"
CALLS = """
seeds = 6
[[tasks]]
name = "numbers"
function = "study_tasks.py:draw"
arguments = {{ folder = "{folder}" }}
sweep = {{ x = [0.0, 1.5] }}
"""


@pytest.fixture
def calls(tmp_path):
    """A study of 12 function calls that are logged."""
    (tmp_path / "study_tasks.py").write_text((SUPPORT / "study_tasks.py").read_text())
    path = tmp_path / "calls.toml"
    path.write_text(CALLS.format(folder=tmp_path))
    return path


def without_seconds(table):
    return table[[name for name in table if "seconds" not in name]]


def log(folder):
    return (folder / "log").read_text().split()


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A finished study of learners that keeps everything."""
    path = tmp_path_factory.mktemp("learned") / "study.toml"
    path.write_text(
        'title = "Small"\nepisodes = 300\nseeds = 2\nkeep = ["runs", "policies", "audits"]\n'
        'algorithms = ["random", "oracle", { algorithm = "mvp", bonus_scale = 0.001 }]\n'
        '[[models]]\nname = "two arms"\nmodel = "bandit:arms=2,contexts=2,horizon={H}"\n'
        "sweep = { H = [2, 3] }\n"
    )
    return lm.Study.load(path).run(jobs=2)


# ---------------------------------------------------------------------- learners


def test_a_table_has_one_row_per_run(learned):
    table = learned.table()
    assert len(table) == 12
    assert list(table["model"].unique()) == ["two arms"]
    assert list(table["H"].unique()) == [2, 3]
    assert (table["regret"] <= table["regret_upper"]).all()
    assert (table.loc[table["algorithm"] == "oracle", "regret"] < 1e-9).all()
    assert table["id"].is_unique


def test_a_run_is_learn_with_the_stream_of_its_hash(learned):
    row = learned.table().iloc[-1]
    spec = list(learned.spec.runs())[-1]
    model = lm.make("bandit:arms=2,contexts=2,horizon=3")
    again = lm.learn(model, "mvp", 300, bonus_scale=0.001, seed=spec.stream)
    assert row["regret"] == again.regret
    assert row["updates"] == again.updates
    assert (row["optimal_lower"], row["optimal_upper"]) == again.optimal
    found = learned.curves()
    mine = found[found["id"] == spec.id]
    assert np.array_equal(mine["regret"], again.regret_at(mine["episode"]))
    assert mine["episode"].iloc[[0, -1]].tolist() == [1, 300]


def test_kept_runs_are_read_again(learned):
    runs = lm.load_runs(learned.folder)
    assert len(runs) == 12
    table = learned.table().set_index("id")
    assert sorted(run.regret for run in runs) == sorted(table["regret"])
    for id in table.index:
        place = learned.folder / "runs" / id
        policy = lm.load_policy(place / "policy.npz")
        run = lm.load_run(place)
        assert lm.evaluate(run.model, policy).value == pytest.approx(run.final_value, abs=1e-12)
        assert json.loads((place / "audit.json").read_text())
    assert table["audit_held"].isin([True, False]).all()


def test_swept_keys_stand_between_the_model_and_the_algorithm():
    models = [
        {"name": "a", "model": "bandit:arms={A}", "sweep": {"A": [2]}},
        {"name": "b", "model": "bandit:horizon={H}", "sweep": {"H": [2]}},
    ]
    study = lm.sweep(models, "random", seeds=1, episodes=5, jobs=1)
    named = ["id", "model", "A", "H", "algorithm", "policy_class", "episodes"]
    for table in (study.table(), study.curves()):
        assert list(table.columns[:7]) == named
    assert study.table()["A"].isna().tolist() == [False, True]


def test_each_optimum_is_planned_once(learned):
    with sqlite3.connect(learned.folder / "study.db") as db:
        assert db.execute("SELECT count(*) FROM optima").fetchone() == (2,)
    with Store(learned.folder) as store:
        row = store.run(next(learned.spec.runs()).key)
    assert row.made_by["latentmdp"] == lm.__version__
    assert {"numpy", "numba", "python", "machine"} <= set(row.made_by)


def test_nothing_is_left_to_do(learned):
    before = (learned.folder / "study.db").read_bytes()
    learned.run(jobs=1)
    assert (learned.folder / "study.db").read_bytes() == before
    assert learned.plan() == ([], 0, 0.0, 0)


def test_runs_can_be_loaded_from_a_plain_folder(learned, tmp_path):
    for seed in (0, 1):
        lm.learn(lm.make(SMALL), "random", 10, seed=seed).save(tmp_path / f"seed-{seed}")
    assert [run.spec.seed for run in lm.load_runs(tmp_path)] == [0, 1]
    with pytest.raises(ModelError, match="no run"):
        lm.load_runs(learned.folder / "optima")


def test_more_to_keep_is_run_again(tmp_path):
    options = {"seeds": 1, "episodes": 10, "folder": tmp_path, "jobs": 1}
    study = lm.sweep(SMALL, "random", **options)
    with pytest.raises(ModelError, match="has none"):
        lm.load_runs(tmp_path)
    again = lm.sweep(SMALL, "random", keep=["runs"], **options)
    pd.testing.assert_frame_equal(without_seconds(study.table()), without_seconds(again.table()))
    assert len(lm.load_runs(tmp_path)) == 1


def test_what_was_kept_before_is_kept_on(tmp_path):
    options = {"seeds": 1, "episodes": 10, "folder": tmp_path, "jobs": 1}
    first = lm.sweep(SMALL, "random", keep=["tables", "audits"], **options)
    (place,) = (tmp_path / "runs").iterdir()
    (place / "table.csv").unlink()
    more = lm.sweep(SMALL, "random", keep=["policies"], **options)
    # done again, with all its files
    assert {file.name for file in place.iterdir()} == {"audit.json", "policy.npz", "table.csv"}
    pd.testing.assert_frame_equal(without_seconds(first.table()), without_seconds(more.table()))
    for keep in (["tables"], ["audits", "policies"], []):
        assert lm.sweep(SMALL, "random", keep=keep, run=False, **options).plan()[0] == []


def test_a_result_is_not_lost_to_a_failure_to_keep_more_of_it(tmp_path, monkeypatch):
    options = {"seeds": 1, "episodes": 10, "folder": tmp_path, "jobs": 1}
    first = lm.sweep(SMALL, "random", **options)
    finished = Processes.finished

    def failing(engine, seconds):
        failed = {"state": "failed", "result": {"error": "no memory for the audit"}}
        return [(task, outcome | failed) for task, outcome in finished(engine, seconds)]

    monkeypatch.setattr(Processes, "finished", failing)
    again = lm.sweep(SMALL, "random", keep=["audits"], **options)
    pd.testing.assert_frame_equal(first.table(), again.table())
    assert again.status()["failed"] == 0
    assert len(again.plan()[0]) == 1  # what is to be kept is still missing


def test_files_are_found_after_a_run_was_renamed(tmp_path):
    options = {"seeds": 1, "episodes": 10, "folder": tmp_path, "jobs": 1}
    old = lm.sweep({"old": SMALL}, "random", keep=["runs"], **options)
    new = lm.sweep({"new": SMALL}, "random", keep=["runs"], **options)
    (first,), (second,) = old.table()["id"], new.table()["id"]
    assert (first[:4], second[:4]) == ("old-", "new-")
    assert new.kept_in(second) == old.kept_in(first) == tmp_path / "runs" / first
    # more is kept in the same folder
    more = lm.sweep({"new": SMALL}, "random", keep=["policies"], **options)
    assert [place.name for place in (tmp_path / "runs").iterdir()] == [first]
    assert (more.kept_in(second) / "policy.npz").exists()
    (run,) = lm.load_runs(tmp_path)
    assert run.regret == new.table()["regret"].iloc[0]
    with pytest.raises(ModelError, match="none were"):
        new.kept_in("new-0123456789abcdef")


def test_a_renamed_run_goes_on_at_its_checkpoint(tmp_path):
    (run,) = lm.sweep({"old": SMALL}, "random", run=False, folder=tmp_path, seeds=1).spec.runs()
    (new,) = lm.sweep({"new": SMALL}, "random", run=False, folder=tmp_path, seeds=1).spec.runs()
    tasks = [{"key": r.key, "id": r.id, "folder": str(tmp_path)} for r in (run, new)]
    with ExitStack() as held:
        Checkpoint(tasks[0], held).save(lm.learn(lm.make(SMALL), "random", 10))
    with ExitStack() as held:
        found = Checkpoint(tasks[1], held).load()
    assert found is not None
    assert found.episodes == 10


def test_an_oracle_that_comes_later_finds_its_policy(tmp_path):
    options = {"seeds": 1, "episodes": 10, "folder": tmp_path, "jobs": 1}
    lm.sweep(SMALL, "random", **options)
    study = lm.sweep(SMALL, ["random", "oracle"], **options)
    assert study.table()["regret"].iloc[1] < 1e-12


def test_sweep_takes_models_as_they_come(tmp_path):
    model = lm.make(SMALL)
    lm.save(model, tmp_path / "a.npz")
    study = lm.sweep(
        {"mine": model, "file": str(tmp_path / "a.npz"), "spec": SMALL},
        {"one": "random", "two": {"algorithm": "greedy", "delta": 0.2}},
        seeds=[4], episodes=20, jobs=1,
    )  # fmt: skip
    table = study.table()
    assert table["model"].tolist() == ["mine"] * 2 + ["file"] * 2 + ["spec"] * 2
    assert table["algorithm"].tolist() == ["one", "two"] * 3
    assert table["delta"].tolist() == [0.1, 0.2] * 3
    mine, file = table[table["model"] == "mine"], table[table["model"] == "file"]
    assert mine["regret"].tolist() == file["regret"].tolist()  # one model, so one run
    with pytest.raises(ModelError, match="a model must be"):
        lm.sweep(3, "random")


def test_a_refused_sweep_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ModelError, match="did you mean 'size'"):
        lm.sweep("maze:sise=2", "mvp")
    assert list(tmp_path.iterdir()) == []


def test_own_algorithms_are_known_to_workers(tmp_path):
    rule = (
        "from latentmdp.optimism import Bonus, register\n"
        "def flat(evidence, setting, rng):\n    return Bonus(0.0, 0.0, {c3})\n"
        "register({name!r}, 'bonus', flat)\n"
    )
    (tmp_path / "mine.py").write_text(rule.format(c3=0.1, name="flat"))
    (tmp_path / "bad.py").write_text(rule.format(c3=0.1, name="mvp"))
    (tmp_path / "study.toml").write_text(
        f'models = ["{SMALL}"]\nepisodes = 50\nalgorithms = [{{algorithm = "flat", python = '
        '"mine.py"}, {name = "bad", algorithm = "mvp", python = "bad.py"}]'
    )
    study = lm.Study.load(tmp_path / "study.toml").run(jobs=1)
    assert study.table()["algorithm"].tolist() == ["flat"]
    failures = study.status()["failures"]
    assert "it replaces the algorithm 'mvp'" in failures[0]["error"]


# ---------------------------------------------------------------------- going on


def test_a_study_goes_on_where_it_was(calls):
    study = lm.Study.load(calls).run(jobs=2, only="*-0-*")
    assert len(study.table()) == 2
    assert study.status()["left"] == 10
    first = study.table()
    study.run(jobs=2)
    assert len(study.table()) == 12
    assert len(log(calls.parent)) == len(set(log(calls.parent))) == 12
    merged = study.table().set_index("id").loc[first["id"], "number"]
    assert merged.tolist() == first["number"].tolist()


@pytest.mark.parametrize("jobs", [1, 2])
def test_two_entries_that_say_the_same_are_one_run(tmp_path, monkeypatch, jobs):
    """Also where both wait for the same optimum, and where a value is given twice."""
    begun = []
    submit = Processes.submit

    def counted(engine, task):
        begun.append(task["key"])
        submit(engine, task)

    monkeypatch.setattr(Processes, "submit", counted)
    swept = {"model": "bandit:arms=2,contexts=2,horizon={H}", "sweep": {"H": [3, 3]}}
    study = lm.sweep(
        {"one": SMALL, "two": swept}, ["random"], seeds=3, episodes=100,
        folder=tmp_path / "study", jobs=jobs,
    )  # fmt: skip
    assert len(begun) == len(set(begun)) == 1 + 3
    table = study.table()
    assert table["model"].tolist() == ["one"] * 3 + ["two"] * 3
    assert table["regret"][:3].tolist() == table["regret"][3:].tolist()


def test_the_order_and_the_jobs_do_not_matter(calls, tmp_path):
    one = lm.Study.load(calls).run(jobs=1)
    other = lm.Study(one.spec, tmp_path / "other")
    for only in ("*-5-*", "*-2-*", "*"):
        other.run(jobs=3, only=only)
    pd.testing.assert_frame_equal(without_seconds(one.table()), without_seconds(other.table()))


class LateEngine(Processes):
    """A cluster whose workers come after a while, and go for a while."""

    looks = 0

    def free(self):
        self.looks += 1
        return 0 if self.looks % 7 < 4 else super().free()


def test_workers_may_come_late(calls, monkeypatch):
    monkeypatch.setattr("latentmdp.experiments.study.Processes", LateEngine)
    monkeypatch.setattr("latentmdp.runtime.workers.LOOK_SECONDS", 0.01)
    assert len(lm.Study.load(calls).run(jobs=2).table()) == 12


def test_readers_see_a_study_that_is_not_begun(calls):
    study = lm.Study.load(calls)
    assert len(study.table()) == 0
    assert len(study.curves()) == 0
    assert study.status()["left"] == 12
    ids, optima, seconds, known = study.plan()
    assert (len(ids), optima, seconds, known) == (12, 0, 0.0, 0)


def test_plan_estimates_by_runs_of_its_kind(calls):
    study = lm.Study.load(calls).run(jobs=1, only="*-0-*")
    ids, _, seconds, known = study.plan()
    assert len(ids) == known == 10
    assert seconds > 0


# ---------------------------------------------------------------------- failures


def tasks_study(tmp_path, function, **more):
    (tmp_path / "study_tasks.py").write_text((SUPPORT / "study_tasks.py").read_text())
    arguments = json.dumps(more)[1:-1].replace('":', '" =')
    path = tmp_path / "study.toml"
    path.write_text(
        f'seeds = 3\n[[tasks]]\nfunction = "study_tasks.py:{function}"\n'
        f"arguments = {{ {arguments} }}\n"
    )
    return lm.Study.load(path)


def test_a_task_that_kills_its_worker_is_set_aside(tmp_path):
    study = tasks_study(tmp_path, "dies", folder=str(tmp_path)).run(jobs=2)
    assert study.table()["seed"].tolist() == [0, 2]
    (failure,) = study.status()["failures"]
    assert "its worker died 3 times: it was ended by SIGKILL" in failure["error"]
    assert "these are my last words" in failure["error"]
    assert (tmp_path / "log").read_text().count("seed 1") == 3
    study.run(jobs=1)  # is not tried again unasked
    assert (tmp_path / "log").read_text().count("seed 1") == 3
    study.run(jobs=1, retry=True)
    assert (tmp_path / "log").read_text().count("seed 1") == 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_dead_workers_child_does_not_hold_up_the_study(tmp_path):
    started = time.monotonic()
    study = tasks_study(tmp_path, "leaves_a_child", folder=str(tmp_path)).run(jobs=1)
    for child in log(tmp_path):
        with suppress(ProcessLookupError):  # it ends with its worker
            os.kill(int(child), signal.SIGKILL)
    assert time.monotonic() - started < 50.0  # the children sleep for 60 s
    assert study.table()["seed"].tolist() == [1, 2]


def test_a_task_may_lose_two_workers(tmp_path):
    study = tasks_study(tmp_path, "dies_twice", folder=str(tmp_path))
    study.run(jobs=1, only="*-0-*")
    assert study.table()["number"].tolist() == [7]


def test_failures_are_kept_with_their_words(tmp_path):
    study = tasks_study(tmp_path, "raises").run(jobs=1)
    assert study.table()["seed"].tolist() == [1, 2]
    (failure,) = study.status()["failures"]
    assert "KeyError: 'a missing thing'" in failure["error"]
    odd = tasks_study(tmp_path, "odd").run(jobs=1)
    assert "must be numbers or text; number is a list" in odd.status()["failures"][0]["error"]
    none = tasks_study(tmp_path, "absent").run(jobs=1)
    assert "has no function 'absent'" in none.status()["failures"][0]["error"]


def test_a_model_that_cannot_be_learned_fails_alone(tmp_path):
    model = lm.make(SMALL).replace(discount=0.5)
    study = lm.sweep({"bad": model, "good": SMALL}, "random", seeds=1, episodes=10, jobs=1)
    assert study.table()["model"].tolist() == ["good"]
    (failure,) = study.status()["failures"]
    assert "discount" in failure["error"]


def test_a_longer_horizon_may_be_normalised(tmp_path):
    long = {"name": "long", "model": "riverswim", "horizon": 40, "normalize": True}
    study = lm.sweep([long], "random", seeds=1, episodes=10, jobs=1)
    (row,) = study.table().to_dict("records")
    model = lm.make("riverswim").replace(horizon=40, max_return=None)
    (spec,) = study.spec.runs()
    run = lm.learn(model, "random", 10, seed=spec.stream, normalize=True)
    assert row["regret"] == pytest.approx(run.regret, rel=1e-12)
    assert row["optimal_upper"] == pytest.approx(run.optimal[1], rel=1e-12)
    assert row["optimal_upper"] > 1.0
    own = study.table(units="model")["regret"].iloc[0]
    assert row["regret"] == pytest.approx(own * model.normalized().reward_scale, rel=1e-12)


def test_totals_above_1_name_the_key_of_a_study():
    long = {"name": "long", "model": "riverswim", "horizon": 40}
    study = lm.sweep([long], "random", seeds=1, episodes=10, jobs=1)
    (failure,) = study.status()["failures"]
    assert "total rewards of at most 1" in failure["error"]
    assert "in a study normalize = true" in failure["error"]


# ---------------------------------------------------------------------- store and lock


def test_a_second_driver_is_told_who_holds_it(calls):
    study = lm.Study.load(calls)
    with held(study.folder):
        assert study.status()["running"]
        with pytest.raises(ModelError, match=r"must not be in use; process \d+ on .* since"):
            study.run()
    assert not study.status()["running"]


def test_readers_do_not_keep_a_driver_out(tmp_path):
    """`status` has the lock for a moment: a driver that starts then must not be refused."""
    with held(tmp_path):
        pass
    with open(tmp_path / "study.lock", "r+") as reader:
        assert lock_file(reader.fileno(), shared=True) is not False
        assert not is_held(tmp_path)  # readers do not see each other
        threading.Timer(0.05, reader.close).start()
        with held(tmp_path):
            assert is_held(tmp_path)


def test_a_second_driver_may_wait(calls):
    command = [sys.executable, "-m", "latentmdp", "study", "run", str(calls), "--wait", "--jobs=1"]
    study = lm.Study.load(calls)
    with held(study.folder):
        waiting = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        line = waiting.stderr.readline().decode()
    assert "waiting: process" in line
    assert waiting.wait(60) == 0
    waiting.stderr.close()
    assert len(study.table()) == 12


def test_other_schemas_are_refused(calls):
    study = lm.Study.load(calls).run(jobs=1, only="*-0-*")
    file = study.folder / "study.db"
    for version, words in ((99, "a later"), (0, "an earlier")):
        with sqlite3.connect(file) as db:
            db.execute(f"PRAGMA user_version={version}")
        db.close()
        with pytest.raises(ModelError, match=f"it has {version}, of {words} latentmdp"):
            study.table()
        with pytest.raises(ModelError, match="must have version 2"):
            study.run()
    file.write_bytes(b"no database at all" * 100)
    with pytest.raises(ModelError, match=r"study\.db: file is not a database"):
        study.table()


def test_readers_do_not_block_the_writer(calls):
    study = lm.Study.load(calls).run(jobs=1, only="*-0-*")
    with Store(study.folder) as reader, reader.snapshot():
        run = list(study.spec.runs())[1]
        assert reader.run(run.key) is None
        study.run(jobs=1)
        assert reader.run(run.key) is None  # its moment has not changed
    assert len(study.table()) == 12


# ---------------------------------------------------------------------- commands


def test_commands_tell_what_there_is(calls, capsys, tmp_path):
    assert cli.run(["study", "table", str(calls)]) == 0
    assert "no run is finished yet" in capsys.readouterr().out
    assert cli.run(["study", "run", str(calls), "--dry-run"]) == 0
    assert "12 runs left" in capsys.readouterr().out
    assert cli.run(["study", "run", str(calls), "--jobs", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == 12
    assert cli.run(["study", "status", str(calls)]) == 0
    assert "12 of 12 runs done" in capsys.readouterr().out
    assert cli.run(["study", "table", str(calls)]) == 0
    assert "number" in capsys.readouterr().out
    expected = lm.Study.load(calls).table()
    assert cli.run(["study", "table", str(calls), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert [row["number"] for row in rows] == expected["number"].tolist()
    out = str(tmp_path / "table")
    assert cli.run(["study", "table", str(calls), "--csv", "--out", out]) == 0
    pd.testing.assert_frame_equal(pd.read_csv(out), expected)


def test_commands_refuse_in_a_line(calls, capsys):
    for arguments, words in (
        (["run", str(calls), "--engine", "ray"], "engine must be one of"),
        (["run", str(calls), "--jobs", "0"], "jobs must be a whole number from 1"),
        (["table", str(calls), "--parquet"], "--parquet needs --out"),
        (["table", str(calls), "--csv", "--json"], "give one of"),
        (["status", "none.toml"], "there is no such file"),
        (["run", str(calls), "--only", "mvp"], "--only must match ids of runs, such as numbers-0-"),
        (["status", str(calls), "--only", "mvp"], "'mvp' matches none"),
    ):
        assert cli.run(["study", *arguments]) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1


def test_results_that_no_table_could_hold_are_failures(tmp_path):
    """A curve that is none and a column of every run fail alone; other runs can be read."""
    study = tasks_study(tmp_path, "misnamed").run(jobs=1)
    assert study.table()["seed"].tolist() == [2]
    assert study.curves()["regret"].tolist() == [0.5, 0.75]
    column, curve = (failure["error"] for failure in study.status()["failures"])
    assert "must not have 'seed': it is a column of every run" in column
    assert "curve must be two lists of finite numbers, equally long; it is 'up'" in curve


def test_mixed_versions_are_told(calls, capsys):
    study = lm.Study.load(calls).run(jobs=1)
    assert len(study.status()["versions"]) == 1
    file = calls.with_suffix("") / "study.db"
    db = sqlite3.connect(file)
    with db:
        key = db.execute("SELECT key FROM runs ORDER BY key").fetchone()
        db.execute("UPDATE runs SET made_by = '{}' WHERE key = ?", key)  # its worker died
    remake_digests(file)
    assert len(study.status()["versions"]) == 1
    with db:
        key = db.execute("SELECT max(key) FROM runs").fetchone()
        change = "UPDATE runs SET made_by = json_set(made_by, '$.numpy', '1.0') WHERE key = ?"
        db.execute(change, key)
    db.close()
    remake_digests(file)
    assert cli.run(["study", "status", str(calls)]) == 0
    said = capsys.readouterr().out
    assert "runs of different versions: latentmdp" in said
    assert "numpy 1.0" in said


def test_parquet_refuses_columns_of_mixed_kinds(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    study = tasks_study(tmp_path, "mixed").run(jobs=1)
    assert len(study.table()) == 3
    toml = str(next(tmp_path.glob("*.toml")))
    out = str(tmp_path / "x.parquet")
    assert cli.run(["study", "table", toml, "--parquet", "--out", out]) == 2
    assert "must hold values of one kind" in capsys.readouterr().err


def test_parquet_has_the_same_numbers(calls, tmp_path):
    pytest.importorskip("pyarrow")
    expected = lm.Study.load(calls).run(jobs=1).table()
    out = tmp_path / "table.parquet"
    assert cli.run(["study", "table", str(calls), "--parquet", "--out", str(out)]) == 0
    pd.testing.assert_frame_equal(pd.read_parquet(out), expected)


def test_spec_columns_are_all_in_the_table():
    """A new option of runs must be named in the table too."""
    from latentmdp.experiments.spec import OPTIONS

    assert set(OPTIONS) | {"algorithm", "seed"} == set(RunSpec.__dataclass_fields__)
