"""Functions called in worker processes, with plain arguments and plain results."""

import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from latentmdp.errors import ModelError
from latentmdp.runtime.files import reason
from latentmdp.runtime.progress import Report
from latentmdp.runtime.worker import find_function
from latentmdp.runtime.workers import KEPT_OUTPUT, LOOK_SECONDS, Plain, Processes, failed


class Call(NamedTuple):
    """A function `module:name` and its arguments, which JSON can hold."""

    function: str
    arguments: Sequence[Any] = ()


class Calls:
    """Calls that are begun in `jobs` processes; leaving the context ends all of them at once."""

    def __init__(self, jobs: int, calls: Sequence[Call]) -> None:
        self._workers = Processes(jobs, f"{__name__}:perform", most_deaths=1)
        self._waiting = deque(
            {"key": str(i), "id": str(i), **calls[i]._asdict()} for i in range(len(calls))
        )
        self._unfinished = len(calls)

    def __enter__(self) -> "Calls":
        self._begin()
        return self

    def __exit__(self, *exception: object) -> None:
        self._workers.close()

    def _begin(self) -> None:
        while self._waiting and self._workers.free() > 0:
            self._workers.submit(self._waiting.popleft())

    def results(self, look: Callable[[], None] = lambda: None) -> Iterator[tuple[int, Any]]:
        """The number of each call with its result, in the order in which they end.

        A call that fails is raised here. `look` is called a few times a second.
        """
        while self._unfinished:
            for task, outcome in self._workers.finished(LOOK_SECONDS):
                if outcome["state"] == "failed":
                    raise ModelError(outcome["result"]["error"])
                if outcome["state"] == "bug":
                    raise RuntimeError(outcome["result"]["error"])
                self._unfinished -= 1
                self._begin()
                yield int(task["key"]), outcome["result"]
            look()


def perform(task: Plain, stop: Callable[[], bool], report: Report) -> Plain:
    """In a worker: call the function of a task."""
    try:
        return {"state": "done", "result": find_function(task["function"])(*task["arguments"])}
    except ModelError as error:
        return failed(str(error))
    except OSError as error:
        return failed(f"{error.filename}: {reason(error)}" if error.filename else reason(error))
    except MemoryError:
        return failed("not enough memory")
    except Exception:
        return {"state": "bug", "result": {"error": traceback.format_exc()[-KEPT_OUTPUT:]}}
