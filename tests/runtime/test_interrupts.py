"""Ctrl-C: who notices it, and that every handler is put back."""

import signal
import threading

import pytest

from latentmdp.runtime.interrupts import StopRequest, interrupts_raised, interrupts_set


def test_ctrl_c_only_sets_the_request():
    stop = StopRequest()
    with interrupts_set(stop):
        assert not stop.is_set()
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_the_outer_rule_wins():
    stop = StopRequest()
    with pytest.raises(KeyboardInterrupt), interrupts_raised(), interrupts_set(stop):
        signal.raise_signal(signal.SIGINT)
    assert not stop.is_set()


def test_a_handler_of_the_program_stays_in_force():
    stop, seen = StopRequest(), []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with interrupts_set(stop):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]
    assert not stop.is_set()


def test_other_threads_leave_the_handler_alone():
    found = []

    def work():
        with interrupts_set(StopRequest()), interrupts_raised():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]
