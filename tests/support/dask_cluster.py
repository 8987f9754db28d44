"""A Dask cluster of separate processes, as a deployment starts it."""

import json
import subprocess
import sys
from pathlib import Path

from process_tree import wait_until


class Cluster:
    """A scheduler and two workers as a deployment starts them: processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.file.unlink(missing_ok=True)
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")
        self.address = wait_until(self._address)
        self.workers = [
            self._start("worker", self.address, "--nthreads", "1", "--no-nanny") for _ in range(2)
        ]

    def _start(self, *arguments: str) -> subprocess.Popen:
        more = ["--scheduler-file", str(self.file)] if arguments[0] == "scheduler" else []
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments, "--no-dashboard", *more],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def _address(self) -> str | None:
        try:
            return json.loads(self.file.read_text())["address"]
        except (OSError, ValueError):
            return None

    def lose_worker(self) -> None:
        """Kill one; the deployment starts another."""
        self.workers[0].kill()
        self.workers[0].wait()
        self.workers = [*self.workers[1:], self._start("worker", self.address, "--nthreads", "1",
                                                       "--no-nanny")]  # fmt: skip

    def lose_scheduler(self) -> None:
        self.scheduler.kill()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *exception: object) -> None:
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.wait()
