"""A study whose processes are killed at random moments, and what must hold afterwards."""

import os
import shutil
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
from places import SUPPORT
from process_tree import Command

import latentmdp as lm

HERE = SUPPORT
SMALL_STUDY = """
algorithms = ["random", "greedy"]
episodes = 2000
seeds = {seeds}
keep = ["runs"]
models = ["bandit:arms=2,contexts=2,horizon=2"]
"""
WORKER = "latentmdp.runtime.worker"
SIGKILL = "it was ended by SIGKILL"
# runs of a few hundredths of a second, and learners that leave checkpoints on the way
DRAWS = """
seeds = {seeds}
[[tasks]]
name = "draw"
function = "{here}/study_tasks.py:draw"
arguments = {{ folder = "{folder}", seconds = {seconds} }}
sweep = {{ x = [0, 1, 2] }}
"""
LEARNERS = """
simulator = "episodes"
keep = ["runs"]
algorithms = ["random", "oracle"]
models = [{{ model = "bandit:arms=2,contexts=2,horizon=3", seeds = {learners} }}]
episodes = {episodes}
"""
PROGRAM = """
import sys
try:
    import latentmdp.experiments.runner
    latentmdp.experiments.runner.CHECKPOINT_SECONDS = 0.05
    from latentmdp.commands import cli
except KeyboardInterrupt:
    sys.exit(130)
sys.exit(cli.run(sys.argv[1:]))
"""


def write_study(place: Path, *, learners: int = 0, episodes: float = 1e5, **values) -> Path:
    """A file with 3 x seeds draws and 2 x learners learners; the runs log themselves."""
    place.mkdir(parents=True, exist_ok=True)
    (values["folder"] / "log").touch()
    text = LEARNERS.format(learners=learners, episodes=episodes) if learners else ""
    # the folder is an argument, and so part of the content: the same for all copies of a study
    text += DRAWS.format(here=HERE, **values)
    path = place / "study.toml"
    path.write_text(text)
    return path


def bits(table: pd.DataFrame) -> pd.DataFrame:
    """The columns that must not depend on anything."""
    if not len(table):
        return table
    return table[[name for name in table if "seconds" not in name]].set_index("id")


class Watcher:
    """A reader that looks at a study all the time: what it sees must be true."""

    def __init__(self, study: lm.Study, expected: pd.DataFrame) -> None:
        self.wrong: list[str] = []
        self.looks = 0
        self._study, self._expected, self._stop = study, expected, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._stop.is_set():
            try:
                found = bits(self._study.table())
                if len(found):
                    expected = self._expected.loc[found.index, found.columns]
                    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
                self.looks += 1
            except Exception as error:
                self.wrong.append(repr(error))
            time.sleep(0.2)

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        assert not self.wrong, self.wrong[0]


def start(path: Path, *options: str) -> Command:
    """The driver, as a user starts it."""
    return Command("-c", PROGRAM, "study", "run", str(path), "--jobs", "2", *options)


def strike(command: Command, victim: str, random: np.random.Generator) -> bool:
    """Kill the driver, or one of its workers; or press Ctrl-C. False: nobody was there any more."""
    if command.process.poll() is not None:
        return False
    if victim == "driver":
        os.kill(command.process.pid, signal.SIGKILL)
    elif victim == "ctrl-c":
        command.interrupt()
    else:
        try:
            os.kill(int(random.choice(command.children(WORKER))), signal.SIGKILL)
        except (OSError, ValueError):  # no driver, no workers
            return False
    return True


def at_peace(folder: Path, **values) -> tuple[pd.DataFrame, float]:
    """The table of an undisturbed study, and how long it takes when nothing is to be compiled."""
    calm = write_study(folder / "calm", folder=folder, **values)
    for _ in range(2):
        shutil.rmtree(calm.with_suffix(""), ignore_errors=True)
        began = time.monotonic()
        code, errors = run_to_end(calm)
        length = time.monotonic() - began
        assert code == 0, errors
    return bits(lm.Study.load(calm).table()), length


def survive(folder: Path, strikes: int, victims: list[str], seed: int, **values) -> None:
    """Strike a study at random moments, start it again each time, and compare with one at peace.

    Only strikes that hit a process count. A run whose workers were hit three times is set aside as
    failed, as it must be: `--retry` takes it up again. Three workers hit one after the other before
    they have begun end the driver with a sentence.
    """
    log = folder / "log"
    expected, length = at_peace(folder, **values)
    path = write_study(folder / "struck", folder=folder, **values)
    study = lm.Study.load(path)
    streams = {run.id: str(run.stream) for run in study.spec.runs()}
    random = np.random.default_rng(seed)
    left, starts, set_aside = strikes, 0, 0
    with Watcher(study, expected) as watcher:
        while left:
            log.write_text("")
            before = set(bits(study.table()).index)
            command = start(path, "--retry")
            starts += 1
            victim = "worker"
            while left and victim == "worker" and command.process.poll() is None:
                time.sleep(float(random.uniform(0.0, length / 2)))
                victim = victims[left % len(victims)]
                left -= strike(command, victim, random)
            code, errors = finish(command)
            failed = [one["error"] for one in study.status()["failures"]]
            set_aside += len(failed)
            assert all(f"its worker died 3 times: {SIGKILL}" in words for words in failed), failed
            cannot_start = f"worker processes cannot start: {SIGKILL}" in errors
            assert code in (2 if cannot_start else bool(failed), 130, -signal.SIGKILL), errors
            assert "Traceback" not in errors, errors
            again = set(log.read_text().split())
            assert not again & {streams[id] for id in before}, "an acknowledged run was done again"
            if len(bits(study.table())) == len(expected) and left:  # all is done: strike a new one
                pd.testing.assert_frame_equal(bits(study.table()), expected)
                os.rename(path.with_suffix(""), folder / f"done-{starts}")
        code, errors = run_to_end(path, "--retry")
        assert code == 0, errors
        pd.testing.assert_frame_equal(bits(study.table()), expected)
    assert watcher.looks > 0
    assert not list((path.with_suffix("") / "checkpoints").glob("*"))
    print(
        f"{strikes} strikes at {starts} drivers, {set_aside} runs set aside, {watcher.looks} looks"
    )


def finish(command: Command) -> tuple[int, str]:
    """Let it come to its end; its first runs may have to compile."""
    _, errors = command.process.communicate(timeout=600)
    return command.process.returncode, errors


def run_to_end(path: Path, *options: str) -> tuple[int, str]:
    """Run the command undisturbed."""
    return finish(start(path, *options))
