"""What a worker does on every engine: from a task to its outcome, both plain data.

A task is a dictionary with `kind` (`optimum`, `learn`, `call`), `content`, `where`, and for runs
`key`, `id`, `folder`, `keep` and `files`, the name of the run's folder. A task of the kind
`continue` is a run of `latentmdp learn --seeds`. An outcome has a `state`:

- `done`, with `result` (and `curve`, `kept`);
- `failed`: the run itself cannot be done; `result` has the `error`;
- `stopped`: it was asked to stop and has saved a checkpoint;
- `trouble`: the run is not at fault, but files cannot be written.
"""

from __future__ import annotations

import platform
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from latentmdp._version import __version__
from latentmdp.errors import ModelError
from latentmdp.experiments.sources import find_function
from latentmdp.experiments.store import TroubleError
from latentmdp.experiments.stored_rows import check_result, check_text
from latentmdp.experiments.study_run import Plain, stream_of
from latentmdp.runtime.progress import Report

PERFORM = f"{__name__}:perform"  # for workers
Stop = Callable[[], bool]
MOST_WORDS = 2000  # characters that are kept of a failure
RESERVED = ("id", "task", "seed", "seconds", "units")  # columns that a task's results cannot have


def perform(
    task: Plain, stop: Stop = lambda: False, report: Report = lambda progress: None
) -> Plain:
    """Do a task. Errors are outcomes, not exceptions."""
    started = time.perf_counter()
    try:
        report("begun")
        outcome = _done(task, stop, report)
    except TroubleError as error:
        outcome = {"state": "trouble", "result": {"error": str(error)}}
    except ModelError as error:
        outcome = {"state": "failed", "result": {"error": str(error)}}
    except MemoryError:
        outcome = {"state": "failed", "result": {"error": "not enough memory"}}
    except Exception:
        words = traceback.format_exc()[-MOST_WORDS:]
        outcome = {"state": "failed", "result": {"error": words}}
    return outcome | {
        "seconds": time.perf_counter() - started,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "made_by": made_by() | outcome.get("made_by", {}),
    }


@cache
def made_by() -> Plain:
    """Versions and machine."""
    found: Plain = {"latentmdp": __version__, "python": platform.python_version()}
    for name in ("numpy", "numba"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found | {"machine": platform.node(), "system": f"{sys.platform} {platform.machine()}"}


def _done(task: Plain, stop: Stop, report: Report) -> Plain:
    if task["kind"] == "call":
        return _call(task)
    from latentmdp.experiments import learners  # loads the kernels

    if task["kind"] == "optimum":
        return learners.optimum(task, report)
    if task["kind"] == "continue":
        return learners.continue_run(task, stop)
    return learners.learn(task, stop, report)


def _call(task: Plain) -> Plain:
    content = task["content"]
    function = find_function(content, task["where"])
    result = function(
        **content["arguments"], seed=content["seed"], stream=stream_of(task["key"])
    )  # fmt: skip
    if not isinstance(result, dict):
        raise ModelError(f"a task's function must give a dictionary; it gave {result!r:.100}")
    points = result.pop("curve", None)
    for name in RESERVED:
        if name in result:
            raise ModelError(
                f"a task's results must not have {name!r}: it is a column of every run"
            )
    plain = {str(name): _plain(value) for name, value in result.items()}
    for name, value in plain.items():
        check_text("a result's name", name)
        check_result(name, value)
        if name in content["arguments"] and content["arguments"][name] != value:
            raise ModelError(
                f"a task's results must not change its argument {name!r}, which is a column "
                f"already: {content['arguments'][name]!r:.100} became {value!r:.100}"
            )
    return {"state": "done", "result": plain, "curve": None if points is None else _curve(points)}


def _curve(points: Any) -> list[list[float]]:
    """Two lists of finite numbers: episodes, and regret after as many."""
    try:
        episodes, regret = np.asarray(points, dtype=np.float64)
        if episodes.ndim == 1 and np.isfinite([episodes, regret]).all():
            return [episodes.tolist(), regret.tolist()]
    except (TypeError, ValueError):
        pass
    raise ModelError(
        f"a task's curve must be two lists of finite numbers, equally long; it is {points!r:.100}"
    )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
