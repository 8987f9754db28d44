"""The one pool of worker processes, for studies and for commands. Nothing but JSON passes.

An engine takes tasks while `free` is above 0 and gives back each with its outcome, in any order:
`Processes` on this machine; Dask's cluster is in `experiments/dask_engine.py`. A task is a
dictionary with a `key` and an `id`, an outcome one with a `state`, and a `result` that has an
`error` where the state is `failed`. Workers may report progress, which `under_way` gives.

A worker that dies is replaced and its task done again; a task whose worker died `most_deaths`
times is given back as failed, with the end of what the worker printed. A task with a `time_limit`
that is not over by then is asked to stop; after a grace period its worker is replaced, and the task
is given back as failed. Nothing else is taken as a sign that a worker hangs: compiled kernels do
not answer while they run.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol

from latentmdp.errors import ModelError
from latentmdp.runtime.interrupts import StopRequest, interrupts_held
from latentmdp.runtime.progress import UnderWay
from latentmdp.runtime.worker import PROGRAM

MOST_DEATHS = 3  # of workers at one task
KEPT_OUTPUT = 2000  # characters of what a dead worker has printed
LISTENER_SECONDS = 1.0  # to read the rest of what a worker that has ended has sent
STOP_SECONDS = 10.0  # for workers to write checkpoints
LOOK_SECONDS = 0.2  # between looks at Ctrl-C

Plain = dict[str, Any]
Finished = tuple[Plain, Plain]  # a task and its outcome


class Engine(Protocol):
    """Performs tasks."""

    def free(self) -> int:
        """How many more tasks it would begin at once."""

    def submit(self, task: Plain) -> None:
        """Begin a task."""

    def finished(self, seconds: float) -> list[Finished]:
        """Tasks that are over, after waiting so long for one at most."""

    def under_way(self) -> list[UnderWay]:
        """Tasks that workers have, each with its last report."""

    def stop(self) -> None:
        """Ask all tasks to stop, leaving checkpoints."""

    def close(self) -> None:
        """End all workers at once."""


def drive(
    engine: Engine, next_task: Callable[[], Plain | None], stop: StopRequest,
    look: Callable[[], None] = lambda: None,
) -> Iterator[Finished]:  # fmt: skip
    """Give tasks to the engine, and yield each with its outcome until none is left.

    `next_task` gives None while it has no task. `look` is called a few times a second. Once `stop`
    is set, all tasks are asked to stop, and what they answer in time is yielded.
    """
    under_way = 0
    while not stop.is_set():
        task: Plain | None = {}
        while engine.free() > 0 and (task := next_task()) is not None:
            engine.submit(task)
            under_way += 1
        if task is None and not under_way:  # a cluster may have no workers for a while: no end
            return
        for found in engine.finished(LOOK_SECONDS):
            under_way -= 1
            yield found
        look()
    engine.stop()
    until = time.monotonic() + STOP_SECONDS
    while under_way and time.monotonic() < until:
        for found in engine.finished(0.1):
            under_way -= 1
            yield found


def died(words: str, times: int = MOST_DEATHS) -> Plain:
    """The outcome of a task that its workers did not survive."""
    if times == 1:
        return failed(f"a worker process was killed before its task was done: {words}")
    return failed(f"its worker died {times} times: {words}")


def overdue(task: Plain, seconds: float) -> Plain:
    """The outcome of a task that was not over within its time limit."""
    return failed(
        f"it was ended after {seconds:.3g} s: the study's run_time_limit is "
        f"{task['time_limit']:g} s",
        seconds,
    )


def failed(text: str, seconds: float = 0.0) -> Plain:
    """The outcome of a task that cannot be done."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "state": "failed", "result": {"error": text}, "seconds": seconds, "finished": now,
        "made_by": {},
    }  # fmt: skip


class Processes:
    """Processes on this machine, each at one task, started when there is work.

    `perform`, the function `module:name`, makes the outcome from a task, a function that says
    whether to stop, and one that reports progress.
    """

    def __init__(
        self, jobs: int, perform: str, grace_seconds: float = STOP_SECONDS,
        most_deaths: int = MOST_DEATHS,
    ) -> None:  # fmt: skip
        self._jobs, self._perform = jobs, perform
        self._grace_seconds, self._most_deaths = grace_seconds, most_deaths
        self._inbox: queue.SimpleQueue[tuple[_Worker, str | None]] = queue.SimpleQueue()
        self._workers: list[_Worker] = []
        self._deaths: dict[str, int] = {}  # of workers, by the task they were at
        self._stopping = False  # all of them
        self._false_starts = 0  # workers in a row that have died before they were ready

    def free(self) -> int:
        """Workers without a task, and those that could be started."""
        return self._jobs - sum(worker.task is not None for worker in self._workers)

    def submit(self, task: Plain) -> None:
        """Begin a task."""
        idle = (worker for worker in self._workers if worker.task is None)
        worker = next(idle, None)
        if worker is None:
            worker = _Worker(self._inbox, self._perform)
            self._workers.append(worker)
        worker.begin(task)

    def finished(self, seconds: float) -> list[Finished]:
        """Tasks that are over."""
        late = self._end_overdue()
        if late:
            return late
        ended = [worker for worker in self._workers if worker.process.poll() is not None]
        try:
            worker, line = self._inbox.get(timeout=seconds)
        except queue.Empty:  # a process that a task has left may hold the pipe of a worker open
            return self._replace_dead(ended[0]) if ended else []
        if worker not in self._workers:  # it was replaced
            return []
        if line is None:
            return self._replace_dead(worker)
        message = json.loads(line)
        if "ready" in message:
            worker.ready, self._false_starts = True, 0
            worker.begun = time.monotonic()
            return []
        task = worker.task
        assert task is not None, "reports and outcomes come after their task"
        if "progress" in message:
            worker.under_way.update(message["progress"])
            return []
        self._deaths.pop(task["key"], None)
        if worker.told_to_stop and not self._stopping:
            seconds = worker.seconds
            self._replace(worker)  # it would stop its next task too
            return [(task, message if message["state"] == "done" else overdue(task, seconds))]
        worker.task = None
        return [(task, message)]

    def _end_overdue(self) -> list[Finished]:
        """Ask tasks that are past their limit to stop, and end those that did not."""
        found = []
        for worker in list(self._workers):
            task = worker.task
            limit = None if task is None else task.get("time_limit")
            if task is None or limit is None or not worker.ready or worker.seconds <= limit:
                continue
            if not worker.told_to_stop:
                worker.tell_to_stop()
            elif worker.seconds > limit + self._grace_seconds:
                found.append((task, overdue(task, worker.seconds)))
                self._deaths.pop(task["key"], None)
                self._replace(worker)
        return found

    def _replace(self, worker: "_Worker") -> None:
        """End a worker; another one is started when there is work."""
        self._workers.remove(worker)
        with interrupts_held():
            worker.kill()
            worker.end()

    def _replace_dead(self, worker: "_Worker") -> list[Finished]:
        """A worker has ended: its task goes to another one, or is given up."""
        self._workers.remove(worker)
        words = worker.end_of_output()
        if worker.task is None:
            return []
        key = worker.task["key"]
        if worker.ready:
            self._deaths[key] = self._deaths.get(key, 0) + 1
        else:  # no fault of its task
            self._false_starts += 1
            if self._false_starts == MOST_DEATHS:
                raise ModelError(f"worker processes cannot start: {words}")
        if self._deaths.get(key, 0) < self._most_deaths:
            self.submit(worker.task)
            return []
        return [(worker.task, died(words, self._most_deaths))]

    def under_way(self) -> list[UnderWay]:
        """Tasks that workers have."""
        return [worker.under_way for worker in self._workers if worker.task is not None]

    def stop(self) -> None:
        """Ask all tasks to stop."""
        self._stopping = True
        for worker in self._workers:
            worker.tell_to_stop()

    def close(self) -> None:
        """End all workers at once."""
        with interrupts_held():
            for worker in self._workers:
                worker.kill()
            for worker in self._workers:
                worker.end()
            self._workers = []


class _Worker:
    """A process that does tasks, with a thread that reads what it says.

    It leads a group of processes: what its tasks have started ends with it.
    """

    def __init__(self, inbox: "queue.SimpleQueue[Any]", perform: str) -> None:
        self.task: Plain | None = None
        self.under_way: UnderWay  # its task, or the last one
        self.ready, self.told_to_stop = False, False
        self.begun = time.monotonic()  # when it could begin its task
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        with interrupts_held():  # Ctrl-C comes to the driver alone
            self.process = subprocess.Popen(
                [
                    sys.executable, "-P", "-c", PROGRAM, json.dumps([p or "." for p in sys.path]),
                    perform,
                ],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words, text=True,
                encoding="utf-8", process_group=0,
            )  # fmt: skip
        self._listener = threading.Thread(target=self._listen, args=(inbox,), daemon=True)
        self._listener.start()

    def _listen(self, inbox: "queue.SimpleQueue[Any]") -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.endswith("\n"):  # a line that was cut off is no outcome
                    inbox.put((self, line))
        inbox.put((self, None))

    def begin(self, task: Plain) -> None:
        self.task, self.begun = task, time.monotonic()
        self.under_way = UnderWay(task["id"], f"process {self.process.pid}")
        self.send({"task": task})

    def tell_to_stop(self) -> None:
        """Ask for a checkpoint of its task, and the end of it."""
        self.told_to_stop = True
        self.send({"stop": True})

    @property
    def seconds(self) -> float:
        """How long it has been at its task."""
        return time.monotonic() - self.begun

    def send(self, message: Plain) -> None:
        """Tell it; if it has died, its end is noticed elsewhere."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def kill(self) -> None:
        """End its process, and those that its tasks have started."""
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()

    def end_of_output(self) -> str:
        """How it ended, and the end of what it wrote."""
        code = self.process.wait()
        self.kill()
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(size - KEPT_OUTPUT, 0))
        text = self._words.read(KEPT_OUTPUT).decode("utf-8", "replace").strip()
        self.end()
        how = f"it ended with exit code {code}"
        if code < 0:
            name = signal.Signals(-code).name if -code in list(signal.Signals) else str(-code)
            how = f"it was ended by {name}"
            if -code == signal.SIGKILL:
                how += " (as the system does when memory runs out)"
        return f"{how}\n{text}" if text else how

    def end(self) -> None:
        """Let go of its pipes."""
        self.process.wait()
        self._listener.join(LISTENER_SECONDS)  # somebody else may hold the pipe open
        assert self.process.stdin is not None
        for stream in (self.process.stdin, self._words):
            with suppress(OSError):
                stream.close()
