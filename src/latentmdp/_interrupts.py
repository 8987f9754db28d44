"""Ctrl-C held back for a moment."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
