"""The file `under_way.json` of a study: its tasks under way, for `study status`."""

import json
import math
import os
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from latentmdp.runtime.progress import UnderWay

FILE = "under_way.json"
WRITE_SECONDS = 1.0  # between two writings of the file


class UnderWayFile:
    """The file in the study's folder; only the driver writes it."""

    def __init__(self, folder: Path) -> None:
        self._path, self._written = folder / FILE, -math.inf
        self.close()  # that of a driver that was killed

    def write(self, tasks: list[UnderWay]) -> None:
        """Replace the file, at most once in `WRITE_SECONDS`; a full disk does no harm."""
        if time.monotonic() - self._written < WRITE_SECONDS:
            return
        self._written = time.monotonic()
        new = self._path.with_suffix(".new")
        with suppress(OSError):
            new.write_text(json.dumps([asdict(task) for task in tasks]), encoding="utf-8")
            os.replace(new, self._path)

    def close(self) -> None:
        """Remove the file: no task is under way."""
        for path in (self._path, self._path.with_suffix(".new")):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def read_under_way(folder: Path) -> list[dict[str, Any]]:
    """The tasks in the file, with seconds since begin and last report; none if it is damaged."""
    now = time.time()
    try:
        tasks = [UnderWay(**entry) for entry in json.loads((folder / FILE).read_bytes())]
        return [
            {
                "id": str(task.id), "worker": str(task.worker), "seconds": max(now - task.begun, 0),
                "silent_seconds": max(now - task.reported, 0), "progress": str(task.progress),
            }
            for task in tasks
        ]  # fmt: skip
    except (OSError, ValueError, TypeError, OverflowError, RecursionError):
        return []
