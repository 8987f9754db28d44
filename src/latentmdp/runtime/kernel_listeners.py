"""What we hear of Numba at work: how long it takes, and Ctrl-C in the middle of it."""

import threading
import time
from typing import Any

from numba.core import event

from latentmdp.runtime.interrupts import interrupts_held


class Stopwatch(event.Listener):
    """How long kernels have taken in this process to be compiled or loaded."""

    depth, seconds, begun = 0, 0.0, 0.0

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.begun = time.perf_counter()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.perf_counter() - self.begun


class CtrlCWaits(event.Listener):
    """Ctrl-C takes effect after the kernel that is being compiled or loaded.

    In the middle, Python would drop it or break Numba's books: its C code calls Python back.
    """

    depth = 0
    held: Any = None

    def on_start(self, event: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # Ctrl-C comes to the main thread alone
        self.depth += 1
        if self.depth == 1:
            self.held = interrupts_held()
            self.held.__enter__()

    def on_end(self, event: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self.depth -= 1
        if self.depth == 0:
            self.held.__exit__(None, None, None)


compiling = Stopwatch()
