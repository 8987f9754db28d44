"""Files and studies that are read while other processes write them: never a torn read."""

import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
from places import SUPPORT
from process_tree import wait_until
from reader_writer import KINDS, models
from study_kills import SMALL_STUDY

import latentmdp as lm
from latentmdp.commands import cli
from latentmdp.errors import ModelError
from latentmdp.learning.run import load_run
from latentmdp.learning.saved import folder

SCRIPT = str(SUPPORT / "reader_writer.py")
QUICK = ("run",)


@pytest.mark.parametrize(
    "kind", [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in KINDS]
)
def test_a_file_that_is_read_while_it_is_written(kind, tmp_path):
    expected, place = tmp_path / "expected", str(tmp_path)
    writer = subprocess.Popen(
        [sys.executable, SCRIPT, "write", kind, place],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_until(lambda: expected.exists() or writer.poll() is not None)
        read = subprocess.run(
            [sys.executable, SCRIPT, "read", kind, place, "2" if kind in QUICK else "5"],
            capture_output=True, text=True, timeout=200,
        )  # fmt: skip
    finally:
        (tmp_path / "stop").touch()
        said, errors = writer.communicate(timeout=60)
    assert writer.returncode == 0, errors
    assert read.returncode == 0, read.stderr
    assert int(said) > 5
    assert int(read.stdout) > 5


def test_a_run_that_is_replaced_between_its_two_files(tmp_path, monkeypatch):
    """The worst moment: its state is read, its model is another one's by now."""
    runs = [lm.learn(model, "random", 50, optimal=(0.5, 1.5)) for model in models()]
    runs[0].save(tmp_path)
    real, left = folder._read_model, [3, 2, 1]

    def replaced(place, expected):
        if left:
            runs[left.pop() % 2].save(tmp_path, overwrite=True)
        return real(place, expected)

    monkeypatch.setattr(folder, "_read_model", replaced)
    assert repr(load_run(tmp_path).summary()) == repr(runs[1].summary())
    (tmp_path / "model.npz").write_bytes((tmp_path / "run.npz").read_bytes())
    with pytest.raises(ModelError):  # what is really damaged is refused at once
        load_run(tmp_path)


NOTHING = ("at least one finished run", "must hold runs", "there is none")


class Reader(threading.Thread):
    """Looks at a study in all ways, all the time."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.study, self.path, self.wrong, self.looks = lm.Study.load(path), path, [], 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set() and not self.wrong:
            for look in (self.status, self.table, self.curves, self.page, self.runs):
                try:
                    look()
                except ModelError as error:
                    if not any(words in str(error) for words in NOTHING):
                        self.wrong.append(repr(error))
                except Exception as error:
                    self.wrong.append(repr(error))
            self.looks += 1

    def status(self) -> None:
        found = self.study.status()
        assert found["damaged"] == []
        assert found["failed"] == 0

    def table(self) -> None:
        table = self.study.table()
        assert not len(table) or table["regret"].notna().all()

    def curves(self) -> None:
        curves = self.study.curves()
        assert not len(curves) or (curves.groupby("id").size() > 10).all()

    def page(self) -> None:
        from latentmdp.report.study_page import write_study_page

        page = self.path.with_suffix(".html")
        table = self.study.table()  # the curves may be of later runs too
        write_study_page(page, table, self.study.curves(), title="t", notes=())
        assert page.read_bytes().rstrip().endswith(b"</html>")

    def runs(self) -> None:
        if self.study.folder.exists():
            assert all(run.episodes == 2000 for run in lm.load_runs(self.study.folder))


def looked_at(path: Path, *options: str) -> Reader:
    """Run the study in a process of its own, with a reader; end both."""
    reader = Reader(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader.start()
        try:
            done = subprocess.run(
                [sys.executable, "-m", "latentmdp", "study", "run", str(path), *options],
                capture_output=True, text=True, timeout=300,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert "Traceback" not in done.stderr
        finally:
            reader.over.set()
            reader.join()
    assert not reader.wrong, reader.wrong[0]
    return reader


def test_a_study_that_is_read_while_it_runs(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(SMALL_STUDY.format(seeds=20))
    reader = looked_at(path, "--jobs", "1")
    assert reader.looks >= 2
    assert len(lm.load_runs(tmp_path / "s")) == 40
    path.write_text(
        SMALL_STUDY.format(seeds=20).replace('["runs"]', '["runs", "tables", "audits"]')
    )
    looked_at(path, "--jobs", "1")  # all runs are done again, into the same folders
    assert cli.run(["study", "report", str(path)]) == 0


@pytest.mark.slow
def test_a_study_on_dask_whose_workers_and_scheduler_are_killed_is_read(tmp_path):
    """A report never fails for it; the study goes on afterwards."""
    pytest.importorskip("distributed")
    from dask_cluster import Cluster

    path = tmp_path / "s.toml"
    path.write_text(SMALL_STUDY.format(seeds=150))
    reader = Reader(path)
    reader.start()
    try:
        for lose in ("worker", "scheduler"):
            with Cluster(tmp_path) as cluster:
                driver = subprocess.Popen(
                    [sys.executable, "-m", "latentmdp", "study", "run", str(path),
                     "--scheduler", str(cluster.file)],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                )  # fmt: skip
                done = reader.study.status()["done"]
                wait_until(lambda d=done: reader.study.status()["done"] > d + 5)
                for _ in range(3 if lose == "worker" else 1):
                    time.sleep(0.5)
                    cluster.lose_worker() if lose == "worker" else cluster.lose_scheduler()
                if lose == "worker":
                    driver.kill()
                _, errors = driver.communicate(timeout=200)
                assert "Traceback" not in errors
    finally:
        reader.over.set()
        reader.join()
    assert not reader.wrong, reader.wrong[0]
    assert reader.looks > 2
    looked_at(path, "--jobs", "2")
    assert len(lm.Study.load(path).table()) == 300
    assert not list((tmp_path / "s").rglob("*.latentmdp.tmp"))
