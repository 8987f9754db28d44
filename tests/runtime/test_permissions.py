"""What an ordinary user may not read or write: one clear sentence, exit code 2, no traceback."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from kernel_package import ASK, Package
from other_user import as_stranger
from places import SUPPORT

import latentmdp as lm
from latentmdp.experiments.lock import held
from latentmdp.experiments.store import Store

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)
MODEL = "bandit:arms=2,contexts=2,horizon=2"
STUDY = f"""
algorithms = ["random", "greedy"]
models = ["{MODEL}"]
episodes = 50
seeds = 2
keep = ["runs"]
"""


@pytest.fixture(scope="module")
def seen():
    """A folder of root that all may read: those of pytest are its user's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def place(seen):
    """Files of root that all may read, with a folder `closed` and files that nobody else may."""
    folder = seen / "place"
    folder.mkdir()
    lm.save(lm.make(MODEL), folder / "m.npz")
    lm.plan(lm.make(MODEL)).policy.save(folder / "p.json")
    (folder / "log.csv").write_text("episode,step,state,action,reward\n0,0,a,b,1.0\n")
    lm.learn(lm.make(MODEL), "random", 50, optimal=(0.0, 1.0)).save(folder / "run")
    (folder / "s.toml").write_text(STUDY)
    lm.Study.load(folder / "s.toml").run(jobs=1)
    closed = folder / "closed"
    closed.mkdir()
    for file in ("m.npz", "p.json", "log.csv", "s.toml"):
        shutil.copy(folder / file, folder / f"closed-{file}")
        (folder / f"closed-{file}").chmod(0o600)
        shutil.copy(folder / file, closed / file)
    shutil.copytree(folder / "s", closed / "s")
    for name, mode in (("run", 0o700), ("s", 0o755)):
        shutil.copytree(folder / name, folder / f"closed-{name}")
        (folder / f"closed-{name}").chmod(mode)
    (folder / "closed-s" / "study.db").chmod(0o600)
    closed.chmod(0o700)
    theirs = folder / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    return folder


def refused(place):
    """Commands that must be refused, with what they say; first as root may run them."""
    out = str(place / "out")
    for name, model, policy in (("file", "closed-m.npz", "closed-p.json"),
                                ("folder", "closed/m.npz", "closed/p.json")):  # fmt: skip
        yield f"show {name}", ["show", "m.npz"], ["show", model], "cannot be read"
        yield (f"evaluate {name}", ["evaluate", "m.npz", "p.json"], ["evaluate", "m.npz", policy],
               "cannot be read")  # fmt: skip
        yield (f"plan {name}", ["plan", "m.npz"], ["plan", model], "cannot be read")
    yield "convert", ["convert", "m.npz", f"{out}.json"], ["convert", "m.npz", "x.json"], "written"
    yield ("over", ["convert", "m.npz", f"{out}.json"], ["convert", "m.npz", "p.json"],
           "cannot be written")  # fmt: skip
    yield ("into closed", ["convert", "m.npz", f"{out}.json"],
           ["convert", "m.npz", "closed/x.json"], "cannot be written")  # fmt: skip
    learn = ["learn", "m.npz", "-a", "random", "-k", "10", "--out"]
    yield "learn", [*learn, f"{out}-run"], [*learn, "new-run"], "new-run"
    yield "learn into", [*learn, f"{out}-run2"], [*learn, "closed-run"], "closed-run"
    yield "report", ["report", "run", "--out", f"{out}.html"], ["report", "closed-run"], "closed"
    yield ("report out", ["report", "run", "--out", f"{out}.html"],
           ["report", "run", "--out", "page.html"], "cannot be written")  # fmt: skip
    yield "audit", ["audit", "run"], ["audit", "closed-run"], "closed-run"
    for command in ("status", "table", "run"):
        warm = ["study", command, "s.toml"]
        yield f"{command} toml", warm, ["study", command, "closed-s.toml"], "cannot be read"
        yield f"{command} closed", warm, ["study", command, "closed/s.toml"], "cannot be read"
    yield ("study report", ["study", "report", "s.toml", "--out", f"{out}.html"],
           ["study", "report", "s.toml"], "cannot be written")  # fmt: skip
    yield (
        "study run",
        ["study", "run", "s.toml"],
        ["study", "run", "s.toml"],
        "must be a folder where study.lock",
    )
    yield "study table", ["study", "table", "s.toml"], ["study", "table", "other.toml"], "study.db"


def test_what_may_not_be_read_or_written_is_refused_in_one_sentence(place, monkeypatch):
    monkeypatch.chdir(place)
    (place / "other.toml").write_text(f'folder = "closed-s"\n{STUDY}')
    cases = list(refused(place))
    found = as_stranger(place, [[warm, real] for _, warm, real, _ in cases])
    for (name, _, real, words), (code, said, errors) in zip(cases, found, strict=True):
        assert code == 2, (name, real, said, errors)
        assert said == "", (name, said)
        assert errors.count("\n") == 1, (name, errors)
        assert errors.startswith("latentmdp: "), (name, errors)
        assert words in errors, (name, errors)


def test_a_study_in_a_folder_of_others_can_be_read(place, monkeypatch):
    monkeypatch.chdir(place)
    out = str(place / "theirs" / "page.html")
    commands = [
        ["study", "status", "s.toml", "--json"], ["study", "table", "s.toml"],
        ["study", "table", "s.toml", "--curves", "--csv"],
        ["study", "report", "s.toml", "--out", out], ["report", "s/runs", "--out", out],
        ["study", "run", "s.toml", "--dry-run"],
    ]  # fmt: skip
    warm = [[*c[:-1], str(place / "warm.html")] if c[-1] == out else c for c in commands]
    found = as_stranger(place, [list(pair) for pair in zip(warm, commands, strict=True)])
    for command, (code, _, errors) in zip(commands, found, strict=True):
        assert (code, errors) == (0, ""), command
    assert json.loads(found[0][1])["done"] == 4


def test_a_study_that_another_user_runs_can_be_watched(place, monkeypatch):
    """What its driver has written lately is in a log beside the database."""
    monkeypatch.chdir(place)
    shutil.copytree(place / "s", place / "at-work")
    (place / "at-work.toml").write_text(STUDY.replace("seeds = 2", "seeds = 3"))
    study = lm.Study.load(place / "at-work.toml")
    command = ["study", "status", "at-work.toml", "--json"]
    new = next(run for run in study.spec.runs() if run.labels["seed"] == 2)
    with held(study.folder), Store(study.folder, write=True) as store:
        outcome = {
            "state": "failed", "result": {"error": "lately"}, "seconds": 1.0, "finished": "now",
            "made_by": {},
        }  # fmt: skip
        store.put_run(new.key, new.id, new.content, outcome)
        ((code, said, errors),) = as_stranger(place, [[command, command]])
    assert (code, errors) == (0, "")
    status = json.loads(said)
    assert status["running"]
    assert (status["done"], status["failed"], status["damaged"]) == (4, 1, [])


def test_a_log_that_cannot_be_replayed_is_named(place, monkeypatch):
    """A copy of a study whose driver was killed, without the log's index."""
    monkeypatch.chdir(place)
    (place / "copied").mkdir()
    (place / "copied.toml").write_text(STUDY)
    with Store(place / "s", write=True) as store:
        for _ in range(2):  # something is in the log
            store.put_optimum("o" * 16, {}, {
                "result": {"lower": 0.0, "upper": 1.0}, "seconds": 1.0, "finished": "now",
                "made_by": {},
            })  # fmt: skip
        for name in ("study.db", "study.db-wal"):
            shutil.copy(place / "s" / name, place / "copied" / name)
    warm = ["study", "table", "s.toml"]
    ((code, _, errors),) = as_stranger(place, [[warm, ["study", "table", "copied.toml"]]])
    assert code == 2
    assert "study.db-wal holds a part of its contents; copy the folder" in errors


@pytest.mark.parametrize("who", ["reads", "reads nothing"])
def test_a_cache_folder_of_others_costs_one_line(seen, who):
    (seen / who).mkdir()
    package = Package(seen / who, 17)
    package.run("from latentmdp.kernels.k0 import answer\nanswer(100)")
    package.cache.chmod(0o755 if who == "reads" else 0o700)
    code = f"""
import os, sys
import decimal, filelock, llvmlite, numba, platformdirs
from numba.core import event
@numba.njit(cache=False)
def warm(x):
    return x + 1
warm(1)
sys.path.insert(0, {str(SUPPORT)!r})
from other_user import become_stranger
import latentmdp.runtime.kernel_cache
become_stranger()
""" + ASK.format(names=package.names)
    done = package.run(code, env={"TMPDIR": "/dev/null"})
    assert done.returncode == 0, done.stderr
    assert [int(x) for x in done.stdout.split()] == [100 + i for i in range(17)]
    assert done.stderr.count("KernelCacheWarning") == 1, done.stderr
    assert str(package.cache) in done.stderr
    assert "Traceback" not in done.stderr
