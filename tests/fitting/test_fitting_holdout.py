"""Choosing by one part of a log and judging by the other."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from logs import everything, random_log, roll
from report_pages import Page
from test_fitting_command import COLUMNS, LOG

import latentmdp as lm
from latentmdp.commands.cli import run
from latentmdp.errors import OffPolicyWarning
from latentmdp.fitting.deciding.decision import decide
from latentmdp.fitting.reading.ids import held_out, id_keys


def by_hand(log, share):
    """The two parts of a frame."""
    held = held_out(id_keys(log["episode"]), share)
    return log[~held], log[held]


@pytest.mark.parametrize("seed", range(30))
def test_the_parts_are_the_fits_of_the_parts(tmp_path, seed):
    """Counts, names and rewards of both parts, however the log is read."""
    rng = np.random.default_rng(seed)
    log = pd.concat([random_log(rng, marks="both", next_state=True) for _ in range(3)],
                    keys=range(3)).reset_index(level=0)  # fmt: skip
    log["episode"] += log.pop("level_0").astype(str)
    parts = by_hand(log, 0.4)
    if not all(len(part) for part in parts):
        with pytest.raises(lm.ModelError, match="each of the two parts of a log must have"):
            lm.fit(log, holdout=0.4)
        return
    found, whole = lm.fit(log, holdout=0.4), lm.fit(log)
    log.to_csv(tmp_path / "log.csv", index=False)
    again = lm.fit(tmp_path / "log.csv", holdout=0.4, chunk_rows=3)
    for mine, other, part in ((found, again, parts[0]),
                              (found.held_out, again.held_out, parts[1])):  # fmt: skip
        assert mine.model.digest == other.model.digest
        assert mine.names == whole.names
        assert mine.model.H == whole.model.H
        assert mine.model.observe_rewards == whole.model.observe_rewards
        assert mine.episodes == part["episode"].nunique()
        assert np.array_equal(mine.log.final, whole.log.final)
    visits = found.counts.visits() + found.held_out.counts.visits()
    assert np.array_equal(visits, whole.counts.visits())
    assert f"of {whole.episodes:,} were held out" in found.said[-1]


def test_about_the_share_is_held_out_and_ids_decide():
    """Of 10,000 ids within 5 standard deviations of a Bernoulli draw: a false alarm in 10^6."""
    for keys in (np.arange(10_000), id_keys([f"machine {i}" for i in range(10_000)])):
        held = held_out(keys, 0.3)
        assert abs(held.sum() - 3000) < 5 * np.sqrt(10_000 * 0.3 * 0.7)
        order = np.random.default_rng(0).permutation(10_000)
        assert np.array_equal(held_out(keys[order], 0.3), held[order])
    assert not held_out(np.arange(100), 0.0).any()


def test_what_is_refused():
    log = roll(lm.make("bandit:arms=2,contexts=2,horizon=2,seed=0"), 10, np.random.default_rng(0))
    for share in (-0.1, 1.0, np.nan):
        with pytest.raises(lm.ModelError, match="holdout must be at least 0 and below 1"):
            lm.fit(log, holdout=share)
    with pytest.raises(lm.ModelError, match="holdout needs a log whose contexts are written down"):
        lm.fit(log, context=None, contexts=2, holdout=0.5)
    dask = pytest.importorskip("dask.dataframe")
    with pytest.raises(lm.ModelError, match="this is a Dask DataFrame"):
        lm.fit(dask.from_pandas(log, npartitions=2), holdout=0.5)


def test_policies_with_memory_keep_their_meaning_in_the_other_part():
    """The parts number rewards differently; the rewards themselves say what is meant."""
    model = lm.make("garnet:states=3,actions=2,contexts=3,horizon=4,seed=3")
    log = roll(model, 60, np.random.default_rng(4))
    found = lm.fit(log, holdout=0.5, known=everything(model))
    other = found.held_out
    assert not np.array_equal(found.model.symbol[: len(other.model.symbol)], other.model.symbol)
    policy = found.plan(gap=0.01, draws=2).policy
    worth = other.evaluate(policy, draws=2)
    told = np.zeros(other.model.M)
    for m in range(other.model.M):  # walk all paths with the rewards that the other part pays
        for s in np.flatnonzero(other.model.nu[m]):
            told[m] += other.model.nu[m, s] * walk(found.model, other.model, policy, m, s)
    assert worth.contexts == pytest.approx(told)


def test_a_policy_that_sees_rewards_is_refused_where_they_are_hidden():
    model = lm.make("garnet:states=3,actions=2,contexts=3,horizon=4,seed=3")
    log = roll(model, 60, np.random.default_rng(4))
    seen, hidden = (lm.fit(log, observe_rewards=o, known=everything(model)) for o in (True, False))
    with pytest.raises(lm.ModelError, match="must not see rewards that the model hides"):
        hidden.evaluate(seen.plan(gap=0.01, draws=2))


def walk(own, model, policy, m, first):
    """The value in a context of `model` of a policy that understands the rewards of `own`."""

    def value(node, state):
        a = int(policy.action[node])
        row = (m * model.S + state) * model.A + a
        total = 0.0
        for i in range(model.indptr[row], model.indptr[row + 1]):
            x, r, later = int(model.next[i]), float(model.reward[i]), 0.0
            if policy.step[node] + 1 < policy.H:
                symbol = own.symbol_of(state, a, x, r)
                t = policy.step[node] + 1
                after = policy.default[t, x] if symbol < 0 else policy.successors(node, symbol, x)
                later = value(int(after), x)
            total += model.prob[i] * (r + later)
        return total

    return value(int(policy.root[first]), int(first))


def test_the_decision_is_judged_by_the_episodes_held_out():
    model = lm.make("garnet:states=3,actions=2,contexts=2,horizon=4,seed=2")
    log = roll(model, 200, np.random.default_rng(1))
    found = lm.fit(log, holdout=0.5, known=everything(model))
    decision = decide(found, draws=50, time_limit=4.0)
    other = found.held_out
    assert decision.memory.worth.value == other.evaluate(decision.memory.policy, draws=2).value
    assert decision.markov.worth.value == other.evaluate(decision.markov.policy, draws=2).value
    assert (decision.chosen_by, decision.judged_by) == (found.episodes, other.episodes)
    assert "others, which had no part in the choice" in decision.how_judged
    same = decide(lm.fit(log, known=everything(model)), draws=20, time_limit=4.0)
    assert "chosen by the same episodes" in same.how_judged


def test_off_policy_asks_only_the_episodes_held_out():
    model = lm.make("bandit:arms=2,contexts=2,horizon=2,seed=0")
    model = model.replace(state_names=None, action_names=None, context_names=None)
    log = roll(model, 300, np.random.default_rng(0))
    plan = lm.plan(model, gap=None)
    found = lm.off_policy(log, plan, holdout=0.5)
    expected = lm.off_policy(by_hand(log, 0.5)[1], plan)
    assert (found.value, found.lower, found.episodes) == (
        expected.value, expected.lower, expected.episodes)  # fmt: skip


def test_the_command_and_the_page_say_who_judged(tmp_path, capsys):
    plan = ["fit", str(LOG), *COLUMNS, "--prior", "0.5", "--time-limit", "4"]
    page, model, policy = (str(tmp_path / name) for name in ("p.html", "m.npz", "p.json"))
    files = ["--report", page, "--out", model, "--policy", policy]
    assert run([*plan, "--holdout", "0.5", "--json", *files]) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])["decision"]
    assert facts["chosen_by"] + facts["judged_by"] == 300
    text = " ".join(Page((tmp_path / "p.html").read_text(encoding="utf-8")).texts)
    assert "which had no part in the choice" in text
    assert facts["direct"]["warning"] in text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OffPolicyWarning)
        asked = ["off-policy", str(LOG), model, policy, *COLUMNS, "--holdout", "0.5", "--json"]
        assert run(asked) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == facts["judged_by"]
    assert run(["fit", str(LOG), *COLUMNS, "--holdout", "0.5"]) == 2
    assert "--holdout judges policies" in capsys.readouterr().err
