"""The time limit of `fit.plan` and `decide` holds for evaluation by draws too, not planning alone.

Processor seconds are compared, since other processes share the machine.
"""

import time

import numpy as np
import pandas as pd
import pytest
from logs import roll

import latentmdp as lm
from latentmdp.fitting.deciding.decision import decide
from latentmdp.fitting.estimation.worth import fewest_draws, worth_of

S, A, M, H = 262, 8, 3, 12


@pytest.fixture(scope="module")
def dense():
    """A thin log of many states: most rows were never seen, and each leads to all states."""
    rng = np.random.default_rng(0)
    after = rng.integers(S, size=(M, S, A, 6))
    episodes = np.arange(700)
    m, s = rng.integers(M, size=700), rng.integers(S, size=700)
    parts = []
    for t in range(H):
        a = rng.integers(A, size=700)
        x = after[m, s, a, rng.integers(6, size=700)]
        parts.append(
            pd.DataFrame({"episode": episodes, "step": t, "context": m, "state": s, "action": a,
                          "reward": np.where(x % 50 == 0, 1.0, 0.0), "next_state": x})
        )  # fmt: skip
        s = x
    found = lm.fit(pd.concat(parts), unseen="uniform", prior=0.5)
    assert len(found.model.next) > 300_000
    small = lm.fit(parts[0].head(30), unseen="uniform", prior=0.5)
    decide(small, time_limit=0.1)  # loads modules and kernels
    small.plan("quantile:0.2", time_limit=0.1)
    return found


@pytest.mark.parametrize("objective", ["mean", "quantile:0.1"])
def test_planning_and_judging_end_in_time(dense, objective):
    """400 draws of this model took 15 processor seconds after the plan, whatever the limit."""
    begun = time.process_time()
    found = dense.plan(objective, time_limit=1.0)
    assert time.process_time() - begun < 4.0
    assert fewest_draws(0.95) <= len(found.worth.draws) < 400


def test_deciding_ends_in_time(dense):
    begun = time.process_time()
    decision = decide(dense, time_limit=2.0)
    assert time.process_time() - begun < 6.0
    for interval in (decision.knowing, decision.gain, decision.worth_of_memory):
        assert np.isfinite([interval.lower, interval.upper]).all()


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_the_fewest_draws_have_ends_of_their_own(level):
    """With as many, the quantile of the tail is the outermost draw; one fewer has none."""
    n = fewest_draws(level)
    assert (n + 1) * (1.0 - level) / 2.0 >= 1.0 - 1e-9
    assert n * (1.0 - level) / 2.0 < 1.0


def test_fewer_draws_are_the_first_ones():
    model = lm.make("garnet:contexts=2,states=4,actions=3,horizon=4,seed=0")
    found = lm.fit(roll(model, 20, np.random.default_rng(0)))
    policy = found.plan("mean", "markov", draws=2).policy
    whole = worth_of(found, policy, draws=200)
    part = worth_of(found, policy, draws=200, time_limit=0.0)
    n = len(part.draws)
    assert fewest_draws(0.95) <= n < 200
    for name in ("draws", "worst", "best"):
        assert np.array_equal(getattr(part, name), getattr(whole, name)[:n])
    assert part.value == whole.value
    assert part.lower == pytest.approx(worth_of(found, policy, draws=n).lower)
