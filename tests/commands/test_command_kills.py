"""`kill -9` while commands write: the old file or the new one, and the next run sweeps the rest."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from process_tree import WORKER, all_end, command_line, needs_proc, wait_until
from study_kills import SMALL_STUDY

import latentmdp as lm

OLD = lm.make("bandit:arms=2,contexts=2,horizon=2,seed=0")
NEW = lm.make("bandit:arms=2,contexts=2,horizon=2,seed=1")
# every file is on disk half a second after it is written: time to strike
SLOW = """
import os, sys, time
from latentmdp.commands import cli
sync = os.fsync
def slow(descriptor):
    sync(descriptor)
    time.sleep(0.5)
os.fsync = slow
sys.exit(cli.run(sys.argv[1:]))
"""
COMMANDS = {
    "convert": (["convert", "in.npz", "out.json"], "out.json"),
    "convert to csv": (["convert", "in.npz", "out.csv"], "out.csv"),
    "report": (["report", "run", "--out", "out.html"], "out.html"),
    "study report": (["study", "report", "s.toml", "--out", "out.html"], "out.html"),
}
QUICK = ("convert", "study report")
pytestmark = needs_proc


@pytest.fixture
def place(tmp_path):
    lm.save(NEW, tmp_path / "in.npz")
    lm.learn(OLD, "random", 50, optimal=(0.5, 1.5)).save(tmp_path / "run")
    (tmp_path / "s.toml").write_text(SMALL_STUDY.format(seeds=2))
    lm.Study.load(tmp_path / "s.toml").run(jobs=1)
    return tmp_path


def content(file):
    """What does not change from one time to the next."""
    if file.suffix == ".html":
        return re.sub(r"on \d{4}-.*? UTC", "", file.read_text(encoding="utf-8"))
    return file.read_bytes()


def temporary(place):
    return [file.name for file in place.rglob("*") if ".latentmdp.tmp" in file.name]


def started(place, code, arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], cwd=place, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finished(place, code, arguments):
    process = started(place, code, arguments)
    _, errors = process.communicate(timeout=100)
    return process.returncode, without_progress(errors)


def without_progress(errors):
    """What a slow machine also says: `writing the page ...`."""
    return "".join(line for line in errors.splitlines(True) if not line.endswith(" ...\n"))


@pytest.mark.parametrize(
    "name", [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in COMMANDS]
)
def test_killed_between_writing_and_renaming(name, place):
    arguments, out = COMMANDS[name]
    file = place / out
    whole = None
    for strike in range(2):  # the first time there is no old file
        process = started(place, SLOW, arguments)
        wait_until(lambda p=process: temporary(place) or p.poll() is not None)
        time.sleep(0.2)
        process.kill()
        process.communicate()
        assert temporary(place), "it was struck too late"
        assert file.exists() == (strike > 0)
        if strike:
            assert content(file) == whole
        assert finished(place, SLOW.replace("0.5", "0"), arguments) == (0, "")
        assert temporary(place) == []
        whole = whole or content(file)
        assert content(file) == whole


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_random_moments(name, place):
    arguments, out = COMMANDS[name]
    code = SLOW.replace("0.5", "0.1")
    begun = time.monotonic()
    assert finished(place, code, arguments) == (0, "")
    length, expected = time.monotonic() - begun, content(place / out)
    random = np.random.default_rng(0)
    struck = 0
    for _ in range(10):
        process = started(place, code, arguments)
        time.sleep(float(random.uniform(0.2, 1.0)) * length)
        struck += process.poll() is None
        process.kill()
        process.communicate()
        assert content(place / out) == expected
    assert struck > 1
    assert finished(place, code, arguments) == (0, "")
    assert temporary(place) == []


# ---------------------------------------------------------------------- compile

FEW = """
import sys
from latentmdp.commands import compile_ahead as _compile
_compile.TASKS[:] = [_compile.Task(_compile.simulate), _compile.Task(_compile.evaluate)]
from latentmdp.commands import cli
sys.exit(cli.run(sys.argv[1:]))
"""
LEARN = ["learn", "bandit", "-a", "random", "-k", "1000", "--json"]


class Cache:
    """Commands with a cache of kernels of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, *arguments: str) -> subprocess.Popen:
        env = os.environ | {"LATENTMDP_CACHE_DIR": str(self.folder), "LATENTMDP_QUIET": ""}
        return subprocess.Popen(
            [sys.executable, "-c", FEW, *arguments], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        said, errors = process.communicate(timeout=600)
        return process.returncode, said, without_progress(errors)

    def codes(self) -> int:
        return len(list(self.folder.rglob("*.nbi")))


def descendants(pid: int) -> list[int]:
    """All processes below one."""
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, file.read_text().split()):
            found += [child, *descendants(child)]
    return found


def answer(said: str) -> str:
    return re.sub(r'"seconds\w*": [^,}]*', "", said)


@pytest.mark.slow
def test_two_compile_at_once_and_one_is_killed(tmp_path):
    cache = Cache(tmp_path / "cache")
    first, second = cache.start("compile"), cache.start("compile")
    wait_until(lambda: cache.codes() > 3, 300)
    below = descendants(first.pid)
    assert below
    first.kill()
    first.communicate()
    assert wait_until(lambda: not any(map(command_line, below)), 60)
    _, errors = second.communicate(timeout=600)
    assert second.returncode == 0, errors
    assert "Traceback" not in errors
    code, said, errors = cache.run("compile")
    assert (code, errors) == (0, "")
    assert said.startswith("all "), said
    code, said, errors = cache.run(*LEARN)
    assert (code, errors) == (0, "")
    code, expected, _ = Cache(tmp_path / "another").run(*LEARN)
    assert (code, answer(expected)) == (0, answer(said))
    left = [file.name for file in cache.folder.rglob("*") if "tmp" in file.name]
    assert not left, left


@pytest.mark.slow
def test_compile_is_killed_again_and_again(tmp_path):
    """Each time it goes on from where it was."""
    cache, random, had = Cache(tmp_path / "cache"), np.random.default_rng(0), []
    for _ in range(5):
        process = cache.start("compile")
        before = cache.codes()
        wait_until(lambda n=before, p=process: cache.codes() > n + 2 or p.poll() is not None, 300)
        time.sleep(float(random.uniform(0, 2)))
        below = descendants(process.pid)
        workers = [pid for pid in below if WORKER in command_line(pid)]
        victim = int(random.choice([process.pid, *workers]))
        os.kill(victim, signal.SIGKILL)
        try:  # where a worker was struck, the command ends with a sentence
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
        assert "Traceback" not in errors
        if victim != process.pid:
            assert process.returncode == 2
            assert "a worker process was killed before its task was done" in errors
        assert all_end(below)
        had.append(cache.codes())
    code, _, errors = cache.run("compile")
    assert code == 0, errors
    code, said, errors = cache.run("compile")
    assert (code, errors, said[:4]) == (0, "", "all ")


@pytest.mark.slow
def test_compile_on_a_disk_that_fills_up(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=40m,mode=700", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount a disk")
    try:
        cache = Cache(disk)
        process = cache.start("compile")
        wait_until(lambda: cache.codes() > 2, 300)
        with suppress(OSError), open(disk / "ballast", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        said, errors = process.communicate(timeout=600)
        assert "Traceback" not in errors, errors
        assert process.returncode in (0, 2), errors
        if process.returncode:
            assert f"{disk} must have room for compiled kernels" in errors
        (disk / "ballast").unlink()
        code, _, errors = cache.run("compile")
        assert code == 0, errors
        assert "Traceback" not in errors
        code, said, errors = cache.run("compile")
        assert (code, errors, said[:4]) == (0, "", "all ")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
