"""Progress of many runs: a live display on a terminal, a plain line every few seconds elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from latentmdp.errors import printable
from latentmdp.experiments.runner import Listener
from latentmdp.experiments.study_run import Plain, bracket_of, conversion_of
from latentmdp.learning.regret import RegretBracket

LINE_SECONDS = 5.0  # between two plain lines
MOST_SHOWN = 8  # tasks under way that are listed


class Counts(Listener):
    """Counts of runs; a `Listener` of a study's runner."""

    def __init__(self, total: int, done: int, failed: int) -> None:
        self.total, self.done, self.failed = total, done, failed
        self.under_way: dict[str, float] = {}  # when each task began
        self.last = ""
        self._begun, self._over_here = time.monotonic(), 0

    def started(self, task: Plain) -> None:
        """A worker has begun a task."""
        self.under_way[task["id"]] = time.monotonic()

    def finished(self, task: Plain, outcome: Plain) -> None:
        """A task is over."""
        self.under_way.pop(task["id"], None)
        if task["kind"] == "optimum":
            return
        self._over_here += 1
        if outcome["state"] == "done":
            self.done += 1
            more = _regret_of(task, outcome["result"])
            self.last = f"{task['id']}:{more} in {outcome['seconds']:.3g} s"
        else:
            self.failed += 1
            words = " ".join(outcome["result"]["error"].split())
            self.failure(f"{task['id']} failed: {words[-300:]}")

    def failure(self, text: str) -> None:
        """Show that a run failed."""
        print(printable(text), file=sys.stderr, flush=True)

    def left(self) -> str:
        """An estimate of the time left; empty if there is none."""
        left = self.total - self.done - self.failed
        if not left or not self._over_here:
            return ""
        seconds = (time.monotonic() - self._begun) / self._over_here * left
        return f", about {in_words(seconds)} left"

    def text(self) -> str:
        """The counts in one line."""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.done} of {self.total} runs done{failed}{self.left()}"


def _regret_of(task: Plain, result: Plain) -> str:
    """The regret of a run with its bounds, in the user's units; empty if it has none."""
    if not isinstance(result.get("regret"), float):
        return ""
    bracket = bracket_of(task["content"] | result)
    units = conversion_of(task["where"])
    return f" regret {RegretBracket(*map(units.difference, bracket)).text()}"


def in_words(seconds: float) -> str:
    """A time in words.

    >>> in_words(5), in_words(200), in_words(8000)
    ('5 s', '3 min', '2.2 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class _Lines(Counts):
    """Plain lines on standard error."""

    _said_at, _said = 0.0, ""

    def look(self) -> None:
        if time.monotonic() - self._said_at > LINE_SECONDS and self.text() != self._said:
            self._said_at, self._said = time.monotonic(), self.text()
            last = f"; last {self.last}" if self.last else ""
            print(printable(self._said + last), file=sys.stderr, flush=True)


class _Drawn(Counts):
    """A live display on a terminal."""

    def __init__(self, total: int, done: int, failed: int, live: Any) -> None:
        super().__init__(total, done, failed)
        self._live = live

    def failure(self, text: str) -> None:
        from rich.text import Text

        self._live.console.print(Text(printable(text)))

    def look(self) -> None:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        now = time.monotonic()
        over = self.done + self.failed
        lines: list[Any] = [Text(self.text()), ProgressBar(max(self.total, 1), over, width=60)]
        shown = list(self.under_way.items())[:MOST_SHOWN]
        for id, begun in shown:
            lines.append(Text(printable(f"  {in_words(now - begun):>6}  {id}"), no_wrap=True))
        more = len(self.under_way) - len(shown)
        if more:
            lines.append(Text(f"          and {more} more"))
        if self.last:
            lines.append(Text(printable(f"last {self.last}"), no_wrap=True))
        self._live.update(Group(*lines), refresh=True)


@contextmanager
def shown(total: int, done: int, failed: int, quiet: bool = False) -> Iterator[Counts]:
    """A listener that shows the progress on standard error."""
    if quiet:
        counts = Counts(total, done, failed)
        counts.failure = lambda text: None  # type: ignore[method-assign]
        yield counts
    elif not sys.stderr.isatty():
        yield _Lines(total, done, failed)
    else:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
            yield _Drawn(total, done, failed, live)
