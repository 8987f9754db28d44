"""Evaluation is done in pieces, so that Ctrl-C need not wait for its end; with the same bits."""

import signal
import time

import numpy as np
import pytest

import latentmdp as lm
from latentmdp import csr

SPEC = "garnet:contexts=10,states=1000,actions=2,branching=20,horizon=300"


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_pieces_give_the_same_bits(piece, monkeypatch):
    model = lm.make("garnet:contexts=3,states=5,actions=2,branching=2,horizon=6")
    policy = lm.plan(model, work_limit=10**4, time_limit=None).policy

    def found():
        ev = lm.evaluate(model, policy)
        return ev.alpha, ev.variance, lm.reach_weights(model, policy), lm.context_optimal(model)[0]

    whole = found()
    monkeypatch.setattr(csr, "PIECE", piece)
    for one, other in zip(whole, found(), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("work", [lm.evaluate, lm.reach_weights])
def test_an_evaluation_ends_at_once_after_ctrl_c(work):
    model = lm.make(SPEC)
    policy = lm.PolicyGraph.from_table(np.zeros((model.H, model.S), dtype=np.int64))
    work(model, policy)
    begun = time.perf_counter()
    work(model, policy)
    whole = time.perf_counter() - begun
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, whole / 10)
        begun = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            work(model, policy)
        assert time.perf_counter() - begun < 0.7 * whole
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
