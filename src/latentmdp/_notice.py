"""The line on standard error that says that kernels are being compiled.

`LATENTMDP_QUIET=1` in the environment silences it.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

WHAT = "compiling kernels, once"


class CompileNotice:
    """A line that counts on a terminal and goes when it is done; elsewhere one plain line."""

    def __init__(self) -> None:
        self.show: Callable[[str], None] | None = None  # set by those who draw on the terminal
        self._count, self._depth, self._said = 0, 0, False

    def begin(self, folder: Path | None, kernels: int = 1) -> None:
        """So many are about to be compiled, to be kept in this folder; 0: by other processes."""
        self._count += kernels
        self._depth += 1  # kernels call kernels
        text = f"{WHAT}: {self._count} so far" if self._count else WHAT
        if os.environ.get("LATENTMDP_QUIET"):
            return
        if self.show is not None:
            self.show(text)
        elif _counts():
            _write(f"\r\x1b[Klatentmdp: {text}")
        elif not self._said:
            self._said = True
            _write(f"latentmdp: {WHAT}{f' (they are kept in {folder})' if folder else ''}\n")

    def end(self) -> None:
        """It is compiled, or it failed."""
        self._depth -= 1
        if self._depth > 0 or os.environ.get("LATENTMDP_QUIET"):
            return
        if self.show is not None:
            self.show("")
        elif _counts():
            _write("\r\x1b[K")


def _counts() -> bool:
    """Whether a line can be written over: on a terminal that nobody else draws on."""
    stream = sys.__stderr__  # None in programs without a console
    return sys.stderr is stream and stream is not None and stream.isatty()


def _write(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # nobody there to read it
        sys.stderr.write(text)
        sys.stderr.flush()


notice = CompileNotice()
