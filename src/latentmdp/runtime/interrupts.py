"""What Ctrl-C does: wait for a moment, ask for a stop, end everything, or nothing at all."""

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130  # the exit code of a command that Ctrl-C has ended
Handler = Callable[[int, FrameType | None], None]


class StopRequest:
    """Set once, by Ctrl-C or by other code, and looked at between two pieces of work.

    A second Ctrl-C may come while the first one sets it. `threading.Event` would then wait for its
    own lock for ever.
    """

    def __init__(self) -> None:
        self._asked = False

    def set(self) -> None:
        """Ask for a stop."""
        self._asked = True

    def clear(self) -> None:
        """Forget it."""
        self._asked = False

    def is_set(self) -> bool:
        """Whether a stop was asked for."""
        return self._asked


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C inside takes effect at the end; processes started inside never receive it.

    Blocking the signal is what these processes inherit. It does not suffice for ourselves: where
    there are other threads, one of them receives it, and Python then interrupts the main thread.
    """
    can_block = hasattr(signal, "pthread_sigmask")
    on_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    noted: list[int] = []
    replaced = on_main and callable(before)
    if replaced:
        signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if can_block else set()
    try:
        yield
    finally:
        if can_block:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if replaced:
            signal.signal(signal.SIGINT, before)
        if noted:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def interrupts_set(stop: StopRequest) -> Iterator[None]:
    """Inside, Ctrl-C sets `stop` and does nothing else."""
    with _handled_by(lambda number, frame: stop.set()):
        yield


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """Inside, Ctrl-C raises at once, also where `interrupts_set` is used further inside.

    Where something on the way catches that, it is raised again at the end.
    """
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        raise KeyboardInterrupt

    with _handled_by(note):
        yield
    if noted:
        raise KeyboardInterrupt


@contextmanager
def _handled_by(handler: Handler) -> Iterator[None]:
    """Inside, Ctrl-C calls the handler, unless Python's own was replaced before."""
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def ignore_interrupts() -> None:
    """From now on Ctrl-C does nothing: in workers, and in a command whose work is done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def resend_lost_interrupts() -> None:
    """From now on a Ctrl-C that falls into a callback of C code is sent again a moment later.

    Python only prints such an exception and goes on.
    """
    sys.unraisablehook = _resend


def _resend(lost: "sys.UnraisableHookArgs") -> None:
    if issubclass(lost.exc_type, KeyboardInterrupt):
        again = threading.Timer(0.05, _thread.interrupt_main)
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(lost)
