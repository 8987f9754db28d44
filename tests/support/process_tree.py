"""Commands as groups of real processes, for tests that interrupt and kill them (Linux)."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

needs_proc = pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(),
    reason="needs /proc to look at processes",
)
WORKER = "latentmdp.runtime.worker"  # in the command lines of such processes


class Command:
    """A command that leads a group of processes, as on a terminal: Ctrl-C comes to all of them."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env=os.environ | environment,
        )  # fmt: skip

    def children(self, kind: str) -> list[int]:
        """Processes of a kind that the command has started and that run."""
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(child) for child in file.read().split()]
        return [child for child in children if kind in command_line(child)]

    def wait_for(self, kind: str, number: int) -> list[int]:
        """The processes, as soon as there are so many."""
        return wait_until(lambda: len(found := self.children(kind)) >= number and found)

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def result(self) -> tuple[int, str]:
        """Exit code and standard error; it must end soon."""
        try:
            _, errors = self.process.communicate(timeout=20)
        finally:
            self.end()
        return self.process.returncode, errors

    def end(self) -> None:
        """Leave nothing behind, whatever the test has found."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def command_line(pid: int) -> str:
    """Of a process that runs; empty for one that has ended, waited for or not."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def wait_until(condition, seconds: float = 100.0):
    """What the condition gives as soon as it is true."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.05)
    return found


def all_end(pids: list[int]) -> bool:
    """Whether they end within a few seconds."""
    return wait_until(lambda: not any(map(command_line, pids)), 6.0)
