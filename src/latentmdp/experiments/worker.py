"""The process of a worker: one JSON line per task on standard input, one per outcome on output.

It knows nothing of the program that started it: no `__main__` is imported again, so `study.run`
needs no guard in scripts and works in notebooks.
"""

import faulthandler
import json
import os
import signal
import sys
import threading
from typing import Any, TextIO

from latentmdp.experiments.tasks import perform
from latentmdp.runtime.interrupts import StopRequest, ignore_interrupts

# what a worker is started with; its arguments are the paths where modules are found
PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from latentmdp.experiments.worker import main; main()"
)


def main() -> None:
    """Do tasks until the driver closes the pipe, or is gone."""
    ignore_interrupts()
    os.environ["LATENTMDP_QUIET"] = "1"
    faulthandler.enable()
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what tasks print must not get between the outcomes
    if hasattr(os, "register_at_fork"):
        # the driver sees our end when nobody has the channel open: not a task's own processes
        os.register_at_fork(after_in_child=channel.close)
    stop = StopRequest()
    tasks = _Inbox(sys.stdin, stop)
    _send(channel, {"ready": os.getpid()})
    while (task := tasks.next()) is not None:
        _forget_words()
        _send(channel, perform(task, stop.is_set))


def _send(channel: TextIO, message: dict[str, Any]) -> None:
    channel.write(json.dumps(message) + "\n")
    channel.flush()


def _forget_words() -> None:
    """What earlier tasks have printed is not this one's."""
    sys.stderr.flush()
    try:
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)
    except OSError:  # no regular file
        pass


class _Inbox:
    """Tasks as they come; `stop` is set by a message of its own, and the end of the pipe ends us.

    Files are replaced as a whole, so that a worker may end at any moment.
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
