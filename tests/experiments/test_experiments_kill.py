"""`kill -9`, Ctrl-C and a full disk: nothing that was acknowledged is lost or done twice."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from process_tree import needs_proc, wait_until
from study_kills import PROGRAM, WORKER, bits, finish, run_to_end, start, survive, write_study

import latentmdp as lm


@needs_proc
def test_struck_at_random_moments(tmp_path):
    survive(tmp_path, 5, ["driver", "worker", "ctrl-c"], seed=1, seeds=5, seconds=0.05)


@needs_proc
@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("victims", [["driver"], ["worker"], ["driver", "worker", "ctrl-c"]])
def test_struck_at_a_hundred_moments(tmp_path, victims):
    """60 runs: 48 draws and 12 learners with checkpoints."""
    survive(tmp_path, 100, victims, seed=7, seeds=16, seconds=0.05, learners=6, episodes=3e5)


def study_of_one(tmp_path, episodes):
    path = tmp_path / "long.toml"
    path.write_text(
        'models = ["bandit:arms=2,contexts=2,horizon=3"]\nalgorithms = ["random"]\n'
        f'simulator = "episodes"\nepisodes = {episodes}\n'
    )
    return path


@needs_proc
@pytest.mark.parametrize("how", [pytest.param("kill", marks=pytest.mark.slow), "ctrl-c"])
def test_a_long_run_is_taken_up_at_its_checkpoint(tmp_path, how):
    path = study_of_one(tmp_path, 8e6)
    calm = lm.Study(lm.Study.load(path).spec, tmp_path / "calm").run(jobs=1)
    command = start(path)
    checkpoints = tmp_path / "long" / "checkpoints"
    wait_until(lambda: list(checkpoints.glob("*/run.npz")))
    (worker,) = command.wait_for(WORKER, 1)
    os.kill(command.process.pid, signal.SIGKILL if how == "kill" else signal.SIGINT)
    code, errors = finish(command)
    assert code == (-signal.SIGKILL if how == "kill" else 130), errors
    if how == "ctrl-c":
        assert errors.endswith(
            "0 of 1 runs are done and saved; repeat the command to continue\n"
            "latentmdp: interrupted\n"
        )
    wait_until(lambda: not Path(f"/proc/{worker}").exists(), 6.0)
    study = lm.Study.load(path)
    assert len(study.table()) == 0
    code, errors = run_to_end(path)
    assert code == 0, errors
    pd.testing.assert_frame_equal(bits(study.table()), bits(calm.table()))
    with lm.experiments.store.Store(study.folder) as store:
        row = store.run(next(study.spec.runs()).key)
    assert 0 < row.made_by["continued_from"] < 8e6
    assert not list(checkpoints.glob("*"))


def test_a_checkpoint_that_cannot_be_read_is_no_loss(tmp_path):
    path = study_of_one(tmp_path, 1e4)
    study = lm.Study.load(path)
    run = next(study.spec.runs())
    place = study.folder / "checkpoints" / f"{run.key}-{lm.__version__}"
    place.mkdir(parents=True)
    (place / "run.npz").write_bytes(b"half a file")
    study.run(jobs=1)
    assert len(study.table()) == 1
    assert not place.exists()


# ---------------------------------------------------------------------- full disks


def limited(path, size):
    """The driver, unable to write files larger than `size`; its code and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "study", "run", str(path), "--jobs", "1"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def check_after_full_disk(path, code, errors, calm):
    assert code == 2, errors
    assert "free some space and start again" in errors
    assert errors.strip().split("\n")[-1].startswith("latentmdp: ")
    assert "Traceback" not in errors
    study = lm.Study.load(path)
    kept = bits(study.table())
    assert 0 < len(kept) < len(calm)
    pd.testing.assert_frame_equal(kept, calm.loc[kept.index])
    return set(kept.index)


def test_a_file_that_may_not_grow(tmp_path):
    calm = write_study(tmp_path / "calm", folder=tmp_path, seeds=60, seconds=0)
    assert run_to_end(calm)[0] == 0
    expected = bits(lm.Study.load(calm).table())
    path = write_study(tmp_path / "full", folder=tmp_path, seeds=60, seconds=0)
    code, errors = limited(path, 250_000)
    kept = check_after_full_disk(path, code, errors, expected)
    (tmp_path / "log").write_text("")
    assert run_to_end(path)[0] == 0
    study = lm.Study.load(path)
    streams = {run.id: str(run.stream) for run in study.spec.runs()}
    assert not {streams[id] for id in kept} & set((tmp_path / "log").read_text().split())
    pd.testing.assert_frame_equal(bits(study.table()), expected)


@pytest.mark.slow
def test_a_disk_that_is_full(tmp_path):
    """A small disk of its own, where we may make one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(disk)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip("needs the right to mount a disk")
    try:
        calm = write_study(tmp_path / "calm", folder=tmp_path, seeds=60, seconds=0)
        assert run_to_end(calm)[0] == 0
        expected = bits(lm.Study.load(calm).table())
        path = write_study(disk / "full", folder=tmp_path, seeds=60, seconds=0)
        ballast = disk / "ballast"
        ballast.write_bytes(b"0" * (8 * 2**20 - 250_000))  # the log of 180 runs takes a megabyte
        code, errors = run_to_end(path)
        check_after_full_disk(path, code, errors, expected)
        ballast.unlink()
        code, errors = run_to_end(path)
        assert code == 0, errors
        pd.testing.assert_frame_equal(bits(lm.Study.load(path).table()), expected)
    finally:
        for _ in range(50):
            if subprocess.run(["umount", str(disk)], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        shutil.rmtree(disk, ignore_errors=True)
