"""Saving loses nothing: leftovers are swept, model and run change as one, other runs stay."""

import copy
import errno
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.commands.cli import run as command
from latentmdp.learning.learn import learn
from latentmdp.learning.run import load_run
from latentmdp.runtime.files import ENDING, write_atomically, writer_of

MAZE = "maze:size=2,goals=2,horizon=3"

WRITING = """
import os, signal, sys, time
from latentmdp.runtime.files import write_atomically
def write(file):
    file.write(b"half")
    file.flush()
    print("begun", flush=True)
    if sys.argv[2] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)
write_atomically(sys.argv[1], write)
"""


@pytest.fixture
def writers():
    """Starts processes that are writing a file, or are killed while they do."""
    started = []

    def start(path, how):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITING, str(path), how], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "begun\n"
        if how == "dies":
            process.wait()

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_leftovers_of_dead_processes_go_and_nothing_else(tmp_path, writers):
    pytest.importorskip("fcntl")
    writers(tmp_path / "a.npz", "dies")
    (dead,) = tmp_path.iterdir()
    writers(tmp_path / "b.npz", "lives")
    (alive,) = set(tmp_path.iterdir()) - {dead}
    others = {".a.npz.0123456789abcdef.tmp", f"a{ENDING}", f".folder{ENDING}", f".link{ENDING}"}
    (tmp_path / f".folder{ENDING}").mkdir()
    (tmp_path / "target").touch()
    (tmp_path / f".link{ENDING}").symlink_to(tmp_path / "target")
    for name in others:
        if not (tmp_path / name).exists():
            (tmp_path / name).touch()
    write_atomically(tmp_path / "c.txt", writer_of(b"whole"))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == others | {alive.name, "target", "c.txt"}


def test_a_new_temporary_file_that_is_swept_is_made_again(tmp_path, monkeypatch):
    """Between its making and its lock a file has no owner that others could see."""
    from latentmdp.runtime import files

    lock, removed = files.lock_file, []

    def late(descriptor):
        if not removed:  # another process was quicker
            (temporary,) = tmp_path.glob(f".*{ENDING}")
            temporary.unlink()
            removed.append(temporary)
        return lock(descriptor)

    monkeypatch.setattr(files, "lock_file", late)
    write_atomically(tmp_path / "x.txt", writer_of(b"whole"))
    assert removed
    assert [path.name for path in tmp_path.iterdir()] == ["x.txt"]


# ---------------------------------------------------------------------- model and run as one


@pytest.fixture(scope="module")
def runs():
    return [
        learn(lm.make(f"{MAZE},seed={seed}"), "random", 50, seed=seed, optimal=(0.5, 1.0))
        for seed in (0, 1)
    ]


def same(one, two):
    return one.model == two.model and one.table.equals(two.table) and one.spec == two.spec


@pytest.mark.parametrize("which", range(4))
def test_a_full_disk_leaves_the_old_run(tmp_path, runs, monkeypatch, which):
    """Whichever of the four files does not fit."""
    from latentmdp.runtime import files

    old, new = runs
    old.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    fill, calls = files._fill_temporary, []

    def full(target, write, cleanup):
        calls.append(target.name)
        if len(calls) == which + 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return fill(target, write, cleanup)

    monkeypatch.setattr(files, "_fill_temporary", full)
    with pytest.raises(lm.ModelError, match="cannot be written: no space left"):
        new.save(tmp_path, overwrite=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert same(load_run(tmp_path), old)


def test_killed_between_any_two_files_there_is_a_whole_run(tmp_path, runs, monkeypatch):
    old, new = runs
    replace, seen = os.replace, []
    for last in range(1, 7):
        folder = tmp_path / str(last)
        old.save(folder)
        calls = []

        def stop(source, target, calls=calls, last=last):
            calls.append(target)
            if len(calls) == last:
                raise KeyboardInterrupt
            replace(source, target)

        monkeypatch.setattr(os, "replace", stop)
        try:
            new.save(folder, overwrite=True)
        except KeyboardInterrupt:
            pass
        finally:
            monkeypatch.setattr(os, "replace", replace)
        found = load_run(folder)
        assert same(found, old) or same(found, new)
        seen.append(same(found, new))
        new.save(folder, overwrite=True)
        assert same(load_run(folder), new)
        assert not (folder / "model-next.npz").exists()
    assert seen == sorted(seen)
    assert set(seen) == {False, True}


# ---------------------------------------------------------------------- other runs stay


def test_another_run_is_not_overwritten_unless_told(tmp_path, runs):
    one, two = runs
    one.save(tmp_path)
    one.save(tmp_path)  # itself again
    longer = one.more(30)
    longer.save(tmp_path)  # it has gone on
    for other, holds in ((two, "another run"), (one, "more of this run")):
        with pytest.raises(lm.ModelError, match=f"holds {holds}.*overwrite=True"):
            other.save(tmp_path)
        assert same(load_run(tmp_path), longer)
    different = learn(one.model, "random", 51, optimal=(0.5, 1.0))
    with pytest.raises(lm.ModelError, match="holds another run"):
        different.save(tmp_path)
    two.save(tmp_path, overwrite=True)
    assert same(load_run(tmp_path), two)


def test_what_cannot_be_read_is_not_overwritten_either(tmp_path, runs):
    (tmp_path / "run.npz").write_bytes(b"a run of some other program")
    with pytest.raises(lm.ModelError, match="a run that cannot be read"):
        runs[0].save(tmp_path)
    (tmp_path / "run.npz").unlink()
    lm.save(runs[1].model, tmp_path / "model.npz")
    with pytest.raises(lm.ModelError, match="holds another model"):
        runs[0].save(tmp_path)
    runs[0].save(tmp_path, overwrite=True)
    assert same(load_run(tmp_path), runs[0])


def test_the_demo_asks_before_it_writes_over_other_runs(tmp_path, runs, capsys):
    runs[0].save(tmp_path / "mvp")
    assert command(["demo", "--episodes", "100", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert "must be free for this run; it holds another run" in said.err
    assert "--force" in said.err
    assert said.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["mvp"]


@pytest.mark.parametrize("folder", [None, "", 3, "a\0b", b"run"])
def test_what_is_no_folder(folder, runs):
    for use in (load_run, runs[0].save):
        with pytest.raises(lm.ModelError, match="a file name must be text"):
            use(folder)


# ---------------------------------------------------------------------- pickles


@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_a_run_pickles_at_any_time(policy_class):
    run = learn(
        lm.make(MAZE), "mvp", 200, policy_class, bonus_scale=0.01, optimal=(0.5, 1.0), audit=True
    )
    uses = (
        lambda run: None,
        lambda run: run.final_value,
        lambda run: run.policy,
        lambda run: (run.table, run.summary(), repr(run)),
        lambda run: lm.audit(run),
    )
    for use in uses:
        use(run)
        for again in (pickle.loads(pickle.dumps(run)), copy.deepcopy(run)):
            assert again.table.equals(run.table)
            assert again.policy == run.policy
            assert np.array_equal(again.more(20).table["value"], run.more(20).table["value"])
