"""The line on standard error that says that kernels are being compiled.

`LATENTMDP_QUIET=1` in the environment silences it.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def in_words(done: int, most: int) -> str:
    """How far it is. At most: a task seldom needs all kernels of the files that it loads.

    >>> in_words(12, 31)
    'compiling kernels, once: 12 of at most 31'
    """
    return f"compiling kernels, once: {done} of at most {most}"


class CompileNotice:
    """A line that counts on a terminal and goes when it is done; elsewhere one plain line."""

    def __init__(self) -> None:
        self.show: Callable[[str], None] | None = None  # set by those who draw on the terminal
        self._depth, self._said = 0, False

    def begin(self, done: int, most: int, folder: Path | None) -> None:
        """Another is about to be compiled, after `done` of at most `most`; kept in this folder."""
        self._depth += 1  # kernels call kernels
        self.update(done, most)
        if not (self._quiet() or self.show or _counts() or self._said):
            self._said = True
            once = f", once: at most {most} (they are kept in {folder})"
            _write(f"latentmdp: compiling kernels{once if folder else f': at most {most}'}\n")

    def end(self, done: int, most: int) -> None:
        """It is compiled, or it failed."""
        self._depth -= 1
        self.update(done, most)

    def update(self, done: int, most: int) -> None:
        """Show how far it is, where that can be shown."""
        if self._quiet():
            return
        text = in_words(done, most) if self._depth else ""
        if self.show is not None:
            self.show(text)
        elif _counts():
            _write(f"\r\x1b[K{f'latentmdp: {text}' if text else ''}")

    def _quiet(self) -> bool:
        return bool(os.environ.get("LATENTMDP_QUIET"))


def _counts() -> bool:
    """Whether a line can be written over: on a terminal that nobody else draws on."""
    stream = sys.__stderr__  # None in programs without a console
    return sys.stderr is stream and stream is not None and stream.isatty()


def _write(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # nobody there to read it
        sys.stderr.write(text)
        sys.stderr.flush()


notice = CompileNotice()
