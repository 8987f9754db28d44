"""Episodes that were cut off: ends must not look likelier because only ends are written down."""

import numpy as np
import pandas as pd
import pytest

import latentmdp as lm
from latentmdp.errors import OffPolicyWarning
from latentmdp.fitting.deciding.decision import decide
from latentmdp.optimism.log_boxes import log_boxes

END = 0.1  # the chance that a step ends the episode


def cut_log(episodes, steps, drop, seed):
    """One action, two states; cut off after `steps`, or after any step with probability `drop`."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(episodes):
        state = 0
        for t in range(steps):
            done = rng.random() < END
            cut = not done and (t == steps - 1 or rng.random() < drop)
            rows.append((i, t, state, "go", float(done), done, "only"))
            if done or cut:
                break
            state = int(rng.integers(2))
    names = ["episode", "step", "state", "action", "reward", "terminated", "context"]
    return pd.DataFrame(rows, columns=names)


@pytest.mark.parametrize(("steps", "drop"), [(5, 0.0), (2, 0.0), (5, 0.2)])
def test_ends_are_as_likely_as_they_are_and_bounds_hold(steps, drop):
    log = cut_log(20_000, steps, drop, seed=3)
    found = lm.fit(log, prior=0.5, horizon=5)
    end = found.names["states"].index("(end)")
    for state in (0, 1):
        there = log[log["state"] == state]
        share = there["terminated"].mean()  # of all steps: every one says whether it was an end
        assert found.model.P[0, state, 0, end] == pytest.approx(share, rel=2e-3)
    truth = 1.0 - (1.0 - END) ** 5
    table = np.zeros((5, found.model.S), dtype=int)
    assert found.evaluate(table).value == pytest.approx(truth, abs=0.02)
    assert found.plan("pessimistic", "markov", draws=10).score < truth


def test_a_cut_step_counts_as_one_that_went_on():
    log = pd.DataFrame(
        [(1, "a", 1.0, False), (1, "a", 1.0, False), (1, "b", 5.0, True), (2, "b", 1.0, False),
         (3, "a", 1.0, False), (3, "a", 9.0, True)],
        columns=["episode", "state", "reward", "terminated"],
    ).assign(action="x", context="m")  # fmt: skip
    found = lm.fit(log, prior=0.0)
    # a: to a twice, to b once, one end; none cut. b: one end, one cut, no step that went on.
    assert found.model.P[0, 0, 0] == pytest.approx([0.5, 0.25, 0.25])
    assert found.model.P[0, 1, 0] == pytest.approx([0.0, 0.5, 0.5])
    assert found.model.R[0, 1, 0].tolist()[1:] == [1.0, 5.0]  # what the cut step paid
    assert found.log.went_on.tolist() == [0, 1, 0]
    more = pd.concat([log, log[log["episode"] == 2].assign(episode=4, state="a")])
    # one more step in a that was cut: 5 in all, of which one was an end
    assert lm.fit(more, prior=0.0).model.P[0, 0, 0] == pytest.approx([0.8 * 2 / 3, 0.8 / 3, 0.2])


def test_without_ends_nothing_changes():
    log = cut_log(200, 4, 0.0, seed=0)
    log = log[log.groupby("episode")["terminated"].transform("max") == 0]
    plain = lm.fit(log.drop(columns="terminated"))
    said = lm.fit(log)
    assert np.array_equal(said.model.P, plain.model.P)
    assert np.array_equal(said.estimate.alpha, plain.estimate.alpha)


def test_boxes_hold_whatever_the_cut_steps_led_to():
    """The boxes of every completed row lie inside: outcomes that were seen, and all others."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        seen, cut = rng.integers(0, 200, 3) * rng.integers(0, 2, 3), int(rng.integers(0, 50))
        shown = np.flatnonzero(seen)
        zeros = np.zeros(len(shown), dtype=np.int64)
        box = log_boxes(zeros, seen[shown], 1, 0.1, np.array([cut]), scale=0.3)
        for _ in range(5):
            whole = seen + rng.multinomial(cut, rng.dirichlet(np.full(3, 0.3)))
            told = np.flatnonzero(whole)
            truth = log_boxes(np.zeros(len(told), dtype=np.int64), whole[told], 1, 0.1, scale=0.3)
            at = np.isin(told, shown)
            assert (box.lower <= truth.lower[at] + 1e-12).all()
            assert (truth.upper[at] <= box.upper + 1e-12).all()
            assert cut / max(whole.sum(), 1) <= box.unseen[0] + 1e-12
            new = whole[told[~at]].sum() / max(whole.sum(), 1)
            assert new <= box.unseen[0] + 1e-12


def test_the_page_and_off_policy_say_that_episodes_were_cut_short():
    log = cut_log(300, 5, 0.2, seed=1)
    found = lm.fit(log, prior=0.5)
    decision = decide(found, draws=20, time_limit=2.0)
    sizes = log.groupby("episode").agg(n=("step", "size"), ended=("terminated", "max"))
    short = int(((sizes["n"] < 5) & ~sizes["ended"]).sum())
    assert decision.cut_short == short > 0
    assert f"In the log {short} episodes were cut off before the horizon" in decision.how_cut
    with pytest.warns(OffPolicyWarning, match=f"{short} of 300 episodes were cut off before"):
        lm.off_policy(log, decision.memory.policy, model=found.model)
    whole = cut_log(300, 5, 0.0, seed=1)
    assert decide(lm.fit(whole), draws=20, time_limit=2.0).how_cut == ""
    with pytest.raises(lm.ModelError, match="cut must be integers"):
        lm.pessimistic_plan(found.model, found.counts, cut=np.zeros(3))


def test_pessimistic_plans_of_many_small_logs_with_cut_episodes():
    """Planners refresh some rows only, also none: each row must keep its own cut steps."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        log = pd.concat([cut_log(40, 4, 0.2, seed).assign(action=a, context=m)
                         for a in "xy" for m in "uv"])  # fmt: skip
        log["episode"] = np.cumsum(log["step"].to_numpy() == 0)
        found = lm.fit(log.assign(reward=rng.integers(0, 2, len(log)) * 1.0), horizon=4)
        plan = found.plan("pessimistic", "markov", draws=2)
        cut = found.log.went_on.reshape(found.model.M, found.model.S, found.model.A)
        assert cut.any()
        assert plan.lower <= plan.worth.value


def test_draws_are_those_of_a_row_whose_cut_steps_led_nobody_knows_where():
    """Of 4 steps one ended, one went to a, two were cut: the end is Beta(1, 3), a surely the rest.

    With 3 more that went to a and b: their shares are as of 1 and 2 steps, however many were cut.
    """
    rows = [(1, "s", False), (1, "a", False), (2, "s", True), (3, "s", False), (4, "s", False)]
    columns = ["episode", "state", "terminated"]
    log = pd.DataFrame(rows, columns=columns).assign(action="x", reward=0.0, context="m")
    found = lm.fit(log, prior=0.0)
    s, a, over = (found.names["states"].index(name) for name in ("s", "a", "(end)"))
    draws = np.array([model.P[0, s, 0] for model in found.sample(4000, 0)])
    end = draws[:, over]
    assert end.mean() == pytest.approx(1 / 4, abs=0.02)
    assert end.var() == pytest.approx(3 / 80, rel=0.1)  # Beta(1, 3)
    assert draws[:, a] == pytest.approx(1.0 - end)
    more = [(5, "s", False), (5, "b", False), (6, "s", False), (6, "b", False)]
    log = pd.DataFrame(rows + more, columns=columns).assign(action="x", reward=0.0, context="m")
    found = lm.fit(log, prior=0.0)
    s, a, b = (found.names["states"].index(name) for name in "sab")
    draws = np.array([model.P[0, s, 0] for model in found.sample(4000, 0)])
    share = draws[:, a] / (draws[:, a] + draws[:, b])
    assert share.mean() == pytest.approx(1 / 3, abs=0.02)
    assert share.var() == pytest.approx(2 / 36, rel=0.1)  # Beta(1, 2): what was cut says nothing
