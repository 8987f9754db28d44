"""The driver: gives tasks to an engine and stores each outcome when it comes.

Runs are created one by one as workers become free, so memory does not grow with the study. A run
waits until its optimum is planned; each optimum is planned once, as a separate task.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from latentmdp.errors import ModelError
from latentmdp.experiments.store import Optimum, Store, policy_file
from latentmdp.experiments.study_run import KEY_LENGTH, Plain, StudyRun
from latentmdp.experiments.under_way import UnderWayFile
from latentmdp.runtime.interrupts import StopRequest
from latentmdp.runtime.workers import Engine, drive

if TYPE_CHECKING:
    from latentmdp.experiments.spec import StudySpec

MOST_WAITING = 10_000  # runs that wait for an optimum
CHECKPOINT_SECONDS = 5.0  # between checkpoints of a long run


class Listener:
    """Receives the events of a running study; this one ignores them."""

    def started(self, task: Plain) -> None:
        """A worker has begun a task."""

    def finished(self, task: Plain, outcome: Plain) -> None:
        """A task is over; a run is stored."""

    def look(self) -> None:
        """Called a few times a second."""


class Choice:
    """Which runs of a study are to be done."""

    def __init__(
        self, spec: StudySpec, store: Store, only: str | None = None, retry: bool = False
    ) -> None:
        self._spec, self._store, self._only, self._retry = spec, store, only, retry

    def __iter__(self) -> Iterator[StudyRun]:
        """Runs that are not over, looked up in the store one by one."""
        for run in self._spec.runs():
            if matches(run, self._only) and not self.is_over(run):
                yield run

    def is_over(self, run: StudyRun) -> bool:
        """Whether it has failed, or is done and all its files are kept."""
        found = self._store.state(run.key)
        if found is None:
            return False
        state, kept = found
        if state != "done":
            return not self._retry
        return run.kind == "call" or set(self._spec.keep) <= set(kept)


def matches(run: StudyRun, only: str | None) -> bool:
    """Whether a run's id fits a pattern like `*mvp*`."""
    return only is None or fnmatchcase(run.id, only)


class Runner:
    """One pass over a study."""

    def __init__(
        self, spec: StudySpec, folder: Path, store: Store, engine: Engine, choice: Choice,
        listener: Listener, stop: StopRequest,
    ) -> None:  # fmt: skip
        self._spec, self._folder, self._store, self._engine = spec, folder, store, engine
        self._listener, self._stop, self._choice = listener, stop, choice
        self._source = iter(choice)
        self._ready: deque[StudyRun] = deque()  # runs whose optimum has come
        self._waiting: dict[str, list[StudyRun]] = {}  # runs by the optimum that they wait for
        self._under_way: dict[str, StudyRun | None] = {}  # by key; None for an optimum

    def run(self) -> None:
        """Do all runs that are not over. Ctrl-C stops the workers, which save checkpoints."""
        self._remove_leftovers()
        with closing(self._engine), closing(UnderWayFile(self._folder)) as file:

            def look() -> None:
                file.write(self._engine.under_way())
                self._listener.look()

            work = drive(self._engine, self._begin_task, self._stop, look)
            for task, outcome in work:
                self._take(task, outcome)
        if self._stop.is_set():
            raise KeyboardInterrupt

    # ------------------------------------------------------------------ tasks

    def _begin_task(self) -> Plain | None:
        task = self._next_task()
        if task is not None:
            self._listener.started(task)
        return task

    def _next_task(self) -> Plain | None:
        """A run that can begin, or an optimum that one waits for; None if there is none now."""
        while self._ready:
            run = self._ready.popleft()
            if run.key not in self._under_way and not self._choice.is_over(run):
                return self._run_task(run)
        while sum(map(len, self._waiting.values())) < MOST_WAITING:
            new = next(self._source, None)
            if new is None:
                return None
            if new.key in self._under_way:
                continue  # two entries of the file are the same run
            if new.optimum_key is None or self._optimum(new) is not None:
                return self._run_task(new)
            waiting = self._waiting.setdefault(new.optimum_key, [])
            waiting.append(new)
            if len(waiting) == 1:
                return self._optimum_task(new)
        return None

    def _optimum(self, run: StudyRun) -> Optimum | None:
        """The planned optimum; None if it is missing, or its policy is needed and missing."""
        assert run.optimum_key is not None
        found = self._store.optimum(run.optimum_key)
        needs_policy = run.content["algorithm"] == "oracle"
        if needs_policy and not policy_file(self._folder, run.optimum_key).exists():
            return None
        return found

    def _optimum_task(self, run: StudyRun) -> Plain:
        assert run.optimum_key is not None
        self._under_way[run.optimum_key] = None
        return {
            "kind": "optimum", "key": run.optimum_key, "content": run.optimum,
            "id": f"optimum of {run.labels['model']}", "where": run.where,
            "folder": str(self._folder), "with_policy": self._spec.needs_policies,
            "time_limit": self._spec.run_time_limit,
        }  # fmt: skip

    def _run_task(self, run: StudyRun) -> Plain:
        """The task of a run; a repeated run writes all its files again, in the same place."""
        self._under_way[run.key] = run
        before = self._store.run(run.key)
        files, kept = (run.id, []) if before is None else (before.id, before.kept)
        task: Plain = {
            "kind": run.kind, "key": run.key, "id": run.id, "content": run.content,
            "where": run.where, "folder": str(self._folder), "files": files,
            "keep": list(dict.fromkeys([*kept, *self._spec.keep])),
            "time_limit": self._spec.run_time_limit,
        }  # fmt: skip
        if run.optimum_key is not None:
            found = self._store.optimum(run.optimum_key)
            assert found is not None
            task |= {
                "optimal": [found.lower, found.upper], "seconds_optimal": found.seconds,
                "optimum_key": run.optimum_key, "checkpoint_seconds": CHECKPOINT_SECONDS,
            }  # fmt: skip
        return task

    # ------------------------------------------------------------------ outcomes

    def _take(self, task: Plain, outcome: Plain) -> None:
        run = self._under_way.pop(task["key"])
        if outcome["state"] == "trouble":
            raise ModelError(outcome["result"]["error"])
        if outcome["state"] == "stopped":
            return
        if run is None:
            self._take_optimum(task, outcome)
        else:
            self._take_run(run, outcome)
        self._listener.finished(task, outcome)

    def _take_run(self, run: StudyRun, outcome: Plain) -> None:
        """Store the outcome; a failure does not replace an earlier result."""
        before = self._store.state(run.key)
        if outcome["state"] == "done" or before is None or before[0] != "done":
            self._store.put_run(run.key, run.id, run.content, outcome)
        _remove_checkpoint(self._folder, run.key)

    def _take_optimum(self, task: Plain, outcome: Plain) -> None:
        waiting = self._waiting.pop(task["key"])
        if outcome["state"] == "done":
            self._store.put_optimum(task["key"], task["content"], outcome)
            self._ready.extend(waiting)
            return
        words = f"its optimum cannot be planned: {outcome['result']['error']}"
        for run in waiting:
            failed = outcome | {"result": {"error": words}}
            self._store.put_run(run.key, run.id, run.content, failed)
            self._listener.finished({"kind": run.kind, "id": run.id}, failed)

    def _remove_leftovers(self) -> None:
        """Remove checkpoints of finished runs, left by a driver that was killed."""
        with suppress(OSError):
            for place in (self._folder / "checkpoints").iterdir():
                if self._store.state(place.name[:KEY_LENGTH]) is not None:
                    shutil.rmtree(place, ignore_errors=True)


def _remove_checkpoint(folder: Path, key: str) -> None:
    """After the run is in the store."""
    with suppress(OSError):
        for entry in os.scandir(folder / "checkpoints"):
            if entry.name.startswith(key):
                shutil.rmtree(entry.path, ignore_errors=True)
