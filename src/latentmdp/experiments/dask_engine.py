"""The engine of a Dask cluster: one on this machine, or the scheduler of Slurm, Kubernetes, ...

At most as many tasks are submitted as workers have threads, so that workers queue nothing: then a
worker that dies loses one task, and no other task is blamed for it. Dask gives such a task to
another worker, and gives up after `distributed.scheduler.allowed-failures` deaths.
"""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import time
from concurrent.futures import CancelledError
from contextlib import suppress
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from typing import Any
from uuid import uuid4

from latentmdp.errors import ModelError
from latentmdp.experiments.study_run import Plain
from latentmdp.experiments.tasks import perform
from latentmdp.runtime.files import reason, refusal
from latentmdp.runtime.interrupts import interrupts_held
from latentmdp.runtime.progress import UnderWay, at_intervals
from latentmdp.runtime.workers import MOST_DEATHS, STOP_SECONDS, Finished, died, overdue

CONNECT_SECONDS = 20.0
LOOPBACK = "127.0.0.1"  # a cluster on this machine is not visible from others
WORKERS_SECONDS = 1.0  # between looks at how many workers there are


def perform_text(text: str, topic: str) -> str:
    """Do a task on a worker, JSON to JSON; it stops at its time limit.

    Its reports are events of the topic, to which the driver subscribes.
    """
    from distributed import get_worker

    os.environ["LATENTMDP_QUIET"] = "1"
    task, begun = json.loads(text), time.monotonic()
    process = f"process {os.getpid()} on {platform.node()}"

    def send(progress: str) -> None:
        report = {"key": task["key"], "process": process, "progress": progress}
        get_worker().log_event(topic, report)  # Dask adds a key `worker` of its own

    limit = math.inf if task.get("time_limit") is None else task["time_limit"]
    outcome = perform(task, lambda: time.monotonic() - begun > limit, at_intervals(send))
    if outcome["state"] == "stopped":
        outcome = overdue(task, time.monotonic() - begun)
    return json.dumps(outcome)


def _address_in(file: Path, seconds: float) -> str:
    """The address in the file that `dask scheduler --scheduler-file` writes when it is ready."""
    until = time.monotonic() + seconds
    while True:
        try:
            found = json.loads(file.read_bytes())["address"]
            if isinstance(found, str):
                return found
            wrong = "it has no address"
        except OSError as error:
            wrong = reason(error)
        except (ValueError, KeyError, TypeError, RecursionError):
            wrong = "it has no address"
        if time.monotonic() >= until:
            raise refusal(
                file, f"must be the file of a Dask scheduler, within {seconds:g} s: {wrong}"
            )
        time.sleep(0.1)


class DaskEngine:
    """Tasks on the workers of a Dask scheduler."""

    def __init__(
        self, jobs: int, scheduler: str | None, connect_seconds: float | None = None
    ) -> None:
        connect_seconds = CONNECT_SECONDS if connect_seconds is None else connect_seconds
        try:
            import dask
            from distributed import Client, LocalCluster, as_completed
        except ImportError:
            raise ModelError(
                "engine dask needs the package distributed: pip install 'latentmdp[cluster]'"
            ) from None
        self._address, self._cluster = scheduler, None
        # we report these errors ourselves; the last logger names results that a lost scheduler has
        for name in ("distributed", "distributed.client", "tornado.application"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        if scheduler is None:
            # a process does not answer while a compiled kernel runs: that is not a failure
            dask.config.set(
                {
                    "distributed.scheduler.allowed-failures": MOST_DEATHS - 1,
                    "distributed.scheduler.worker-ttl": None,
                }
            )
            try:
                ensure_running()  # which would unblock the signal, if it were started inside
                with interrupts_held():  # Ctrl-C comes to the driver alone
                    self._cluster = LocalCluster(
                        n_workers=jobs, threads_per_worker=1, processes=True,
                        host=LOOPBACK, dashboard_address=f"{LOOPBACK}:0",
                        silence_logs=logging.CRITICAL,
                    )  # fmt: skip
            except RuntimeError as error:
                raise ModelError(
                    f"Dask's workers must start; they did not ({error}). They import the program: "
                    "call it below `if __name__ == '__main__':`, or take engine='processes'"
                ) from None
        if scheduler is not None and scheduler.endswith(".json"):
            scheduler = _address_in(Path(scheduler), connect_seconds)
        try:
            self._client: Any = Client(
                self._cluster or scheduler, timeout=connect_seconds, set_as_default=False
            )
        except (OSError, TimeoutError, ValueError) as error:
            raise ModelError(
                f"Dask's scheduler {scheduler} must answer within {connect_seconds:g} s; it did "
                f"not: {error}"
            ) from None
        # results are fetched in the background; if their worker died, that takes a while
        self._over = as_completed(loop=self._client.loop, with_results=True, raise_errors=False)
        self._tasks: dict[Any, Plain] = {}
        self._under_way: dict[str, UnderWay] = {}  # by a task's key
        self._topic = f"latentmdp-{uuid4().hex}"
        self._client.subscribe_topic(self._topic, self._take_report)
        self._threads, self._looked_at = 0, 0.0
        # by a task's key: the worker where it was first seen, and when
        self._begun: dict[str, tuple[str, float]] = {}
        self._limited, self._overdue_looked_at = False, 0.0
        self._stopped = False

    def free(self) -> int:
        """Idle threads of workers; their number changes."""
        now = time.monotonic()
        if now - self._looked_at > WORKERS_SECONDS:
            self._looked_at = now
            self._threads = sum(self._ask(self._client.nthreads).values())
        return max(self._threads - len(self._tasks), 0)

    def submit(self, task: Plain) -> None:
        """Begin a task."""
        future = self._client.submit(
            perform_text, json.dumps(task), self._topic,
            key=f"{task['id']}-{time.monotonic_ns()}", pure=False,
        )  # fmt: skip
        self._tasks[future] = task
        self._under_way[task["key"]] = UnderWay(task["id"], "a Dask worker")
        self._limited |= task["time_limit"] is not None
        self._over.add(future)

    def finished(self, seconds: float) -> list[Finished]:
        """Tasks that are over."""
        from distributed import KilledWorker

        if self._stopped:
            tasks, self._tasks = list(self._tasks.values()), {}
            return [(task, {"state": "stopped", "result": {}}) for task in tasks]
        late = self._end_overdue()
        if late:
            return late
        until = time.monotonic() + seconds
        while not self._over.has_ready() and time.monotonic() < until:
            self._check_scheduler()
            time.sleep(0.005)
        found: list[Finished] = []
        for future, result in self._over.next_batch(block=False):
            if future not in self._tasks:  # it was given up
                continue
            task = self._tasks.pop(future)
            del self._under_way[task["key"]]
            self._begun.pop(future.key, None)
            error = result[1] if isinstance(result, tuple) else result
            if isinstance(result, str):
                found.append((task, json.loads(result)))
            elif isinstance(error, KilledWorker):
                found.append((task, died(" ".join(str(error).split()))))
            elif isinstance(error, CancelledError):  # not by us
                raise self._gone("it dropped a task")
            else:
                raise ModelError(
                    f"Dask could not run {task['id']} ({error!r:.500}); finished runs are kept: "
                    "start it again"
                )
            future.release()
        return found

    def under_way(self) -> list[UnderWay]:
        """Tasks that workers have."""
        return [self._under_way[task["key"]] for task in self._tasks.values()]

    def _take_report(self, event: Any) -> None:
        """Called by the client's thread; a late report may be of a task that is over."""
        _, report = event
        task = self._under_way.get(report["key"])
        if task is not None:
            task.update(report["progress"], report["process"])

    def _end_overdue(self) -> list[Finished]:
        """Replace the workers of tasks that did not stop at their time limit.

        The limit counts from when the task was first seen on its worker; if that one has died,
        from when it was first seen on the next one.
        """
        now, found = time.monotonic(), []
        if now - self._overdue_looked_at < WORKERS_SECONDS or not self._limited:
            return []
        self._overdue_looked_at = now
        at_work = {
            key: worker for worker, keys in self._ask(self._client.processing).items()
            for key in keys
        }  # fmt: skip
        for future, task in list(self._tasks.items()):
            if future.key not in at_work or task["time_limit"] is None:
                continue
            worker = at_work[future.key]
            if self._begun.get(future.key, ("", 0.0))[0] != worker:
                self._begun[future.key] = worker, now
            seconds = now - self._begun[future.key][1]
            if seconds > task["time_limit"] + STOP_SECONDS:
                del self._tasks[future], self._begun[future.key], self._under_way[task["key"]]
                self._client.cancel([future], force=True)
                self._replace(worker)
                found.append((task, overdue(task, seconds)))
        return found

    def _replace(self, worker: str) -> None:
        """End a worker that hangs; one without a nanny is retired and not replaced."""
        self._looked_at = -math.inf  # there may be fewer now
        try:
            self._client.restart_workers([worker], timeout=STOP_SECONDS)
        except ValueError:  # it has no nanny; it would be given tasks that it never begins
            with suppress(Exception):
                self._client.retire_workers([worker], close_workers=True)
        except Exception:  # it is gone, or comes back later
            pass

    def _ask(self, question: Any) -> Any:
        """Ask the scheduler; `ModelError` if it is gone."""
        try:
            return question()
        except Exception as error:
            raise self._gone(error) from None

    def _check_scheduler(self) -> None:
        if self._client.status != "running":
            raise self._gone(self._client.status)

    def _gone(self, why: object) -> ModelError:
        return ModelError(
            f"Dask's scheduler {self._address or 'on this machine'} is gone ({why}); finished runs "
            "are kept: start it again"
        )

    def stop(self) -> None:
        """Workers cannot be asked to stop; they have saved checkpoints every few seconds."""
        self._stopped = True
        self._client.cancel(list(self._tasks), force=True)

    def close(self) -> None:
        """Leave the cluster; end it, if it is ours."""
        with suppress(Exception):
            self._client.cancel(list(self._tasks), force=True)
        with suppress(Exception):
            self._client.close(timeout=5)
        if self._cluster is not None:
            with suppress(Exception):
                self._cluster.close(timeout=5)
