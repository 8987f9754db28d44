"""The process of a worker: JSON lines, tasks on standard input, reports and outcomes on output.

It does not import the `__main__` of the program that started it, so scripts need no guard and
notebooks work.
"""

import faulthandler
import json
import os
import signal
import sys
import threading
from importlib import import_module
from typing import Any, TextIO

from latentmdp.runtime.interrupts import StopRequest, ignore_interrupts
from latentmdp.runtime.progress import at_intervals

# a worker is started with this; arguments: the paths of modules, and the function that does a task
PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from latentmdp.runtime.worker import main; main(sys.argv[2])"
)


def main(name: str) -> None:
    """Do tasks by the function `module:name` until the parent closes the pipe or ends."""
    ignore_interrupts()
    os.environ["LATENTMDP_QUIET"] = "1"
    faulthandler.enable()
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what tasks print must not mix with the outcomes
    if hasattr(os, "register_at_fork"):
        # processes that a task starts must not hold the channel open: its end tells that we ended
        os.register_at_fork(after_in_child=channel.close)
    perform = find_function(name)
    stop = StopRequest()
    tasks = _Inbox(sys.stdin, stop)
    _send(channel, {"ready": os.getpid()})
    while (task := tasks.next()) is not None:
        _clear_output()
        report = at_intervals(lambda progress: _send(channel, {"progress": progress}))
        _send(channel, perform(task, stop.is_set, report))


def _send(channel: TextIO, message: dict[str, Any]) -> None:
    channel.write(json.dumps(message) + "\n")
    channel.flush()


def find_function(name: str) -> Any:
    """The function `module:name`."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


def _clear_output() -> None:
    """Delete what earlier tasks have printed."""
    sys.stderr.flush()
    try:
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)
    except OSError:  # no regular file
        pass


class _Inbox:
    """Receives tasks. A message `stop` sets `stop`; the end of the pipe ends the process.

    Files are always replaced as a whole, so a worker may end at any moment.
    """

    def __init__(self, stream: TextIO, stop: StopRequest) -> None:
        self._task: Any = None
        self._there = threading.Semaphore(0)
        threading.Thread(target=self._read, args=(stream, stop), daemon=True).start()

    def _read(self, stream: TextIO, stop: StopRequest) -> None:
        for line in stream:
            message = json.loads(line)
            if "stop" in message:
                stop.set()
            else:
                self._task = message["task"]
                self._there.release()
        if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # with what tasks have started
        os._exit(0)

    def next(self) -> Any:
        """The next task."""
        self._there.acquire()
        return self._task
