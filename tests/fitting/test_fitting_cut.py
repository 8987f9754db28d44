"""`on_bad="cut"`: episodes are used up to their first doubtful cell, however a log is divided."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from logs import random_log
from missing_cells import clinic, clinic_log, coverage, with_holes
from test_fitting_counts import same_bits

import latentmdp as lm
from latentmdp.commands.cli import run
from latentmdp.errors import MixtureWarning, OffPolicyWarning

ROW = {"context": "m", "state": "s", "action": "go", "reward": 1.0}


def table(rows, **columns):
    """Rows `(episode, state, action, reward)`."""
    names = ["episode", "state", "action", "reward"]
    return pd.DataFrame(rows, columns=names).assign(context="m", **columns)


def outcomes(found):
    """`{(state, action, next): n}` of the steps whose next state is known."""
    log, names = found.log, found.names
    states = [*names["states"], "(end)"]
    return {
        (states[row // log.A % log.S], names["actions"][row % log.A], states[nxt]): n
        for row, nxt, n in zip(log.row, log.next, log.sums.count, strict=True)
    }


def walk(**changed):
    """One episode a, b, c, d of which some cells are others, and a whole one."""
    log = table([(1, s, "go", 1.0) for s in "abcd"] + [(2, s, "go", 1.0) for s in "ad"])
    log["step"] = [0, 1, 2, 3, 0, 1]
    log["terminated"] = [False, False, False, True, False, True]
    log = log.astype(dict.fromkeys(changed, object))
    for name, (row, value) in changed.items():
        log.loc[row, name] = value
    return log


WHOLE = {("a", "go", "d"): 1, ("d", "go", "(end)"): 1}
CASES = {  # what is left of the first episode: steps whose next state is known, and steps used
    "action": (walk(action=(2, None)), [("a", "b"), ("b", "c")], 2),
    "reward": (walk(reward=(2, None)), [("a", "b"), ("b", "c")], 2),
    "no number": (walk(reward=(2, "many")), [("a", "b"), ("b", "c")], 2),
    "state": (walk(state=(2, None)), [("a", "b")], 2),  # b went on, nobody knows where to
    "step": (walk(step=(2, None)), [("a", "b")], 2),
    "mark": (walk(terminated=(2, None)), [("a", "b"), ("b", "c")], 2),
    "last mark": (walk(terminated=(3, None)), [("a", "b"), ("b", "c"), ("c", "d")], 3),
    "lost row": (walk().drop(index=2), [("a", "b")], 2),
    "last action": (walk(action=(3, None)), [("a", "b"), ("b", "c"), ("c", "d")], 3),
    "first state": (walk(state=(0, None)), [], 0),
    "context": (walk(context=(2, "n")), [], 0),
}


@pytest.mark.parametrize("name", CASES)
def test_an_episode_is_used_up_to_its_first_doubtful_cell(name):
    log, moves, steps = CASES[name]
    with pytest.raises(lm.ModelError, match="on_bad='cut' or --on-bad cut uses such episodes"):
        lm.fit(log)
    found = lm.fit(log, on_bad="cut")
    assert outcomes(found) == WHOLE | {(a, "go", b): 1 for a, b in moves}
    assert int(found.log.row_sums.count.sum()) == 2 + steps
    assert (found.cut_episodes, found.left_out_episodes) == ((1, 0) if steps else (0, 1))
    assert found.log.finished.sum() == 1  # a cut is no end
    text = str(found.summary())
    assert ("used up to the first such row: 1 episode" in text) == bool(steps)
    assert ("left out because of such rows: 1 episode" in text) == (not steps)


def test_a_next_state_in_doubt_leaves_its_step():
    log = walk().assign(next_state=["b", "c", "d", None, "d", None])
    log.loc[1, "next_state"] = "a"
    found = lm.fit(log, on_bad="cut")
    assert outcomes(found) == WHOLE | {("a", "go", "b"): 1}
    assert found.log.went_on.sum() == 1  # b: it went on, where to is not known
    log.loc[1, "next_state"] = None
    assert outcomes(lm.fit(log, on_bad="cut")) == WHOLE | {("a", "go", "b"): 1}


def test_rows_without_an_id_cut_the_episode_around_them():
    """Inside an episode: cut there. Between two: neither is known to be whole."""
    log = table([(e, s, "go", 1.0) for e in "pqr" for s in "abc"])
    cases = [
        ([1], {"p": 1, "q": 3, "r": 3}), ([2], {"r": 3}), ([3], {"r": 3}),
        ([0], {"q": 3, "r": 3}), ([8], {"p": 3, "q": 3}), ([4, 5], {"p": 3}),
    ]  # fmt: skip
    for lost, used in cases:
        spoilt = log.astype({"episode": object})
        spoilt.loc[lost, "episode"] = None
        found = lm.fit(spoilt, on_bad="cut")
        assert sorted(used.values()) == sorted(
            np.repeat(np.arange(len(found.log.lengths)), found.log.lengths).tolist()
        ), lost
        assert "'episode' must not be missing" in found.left_out[0]


def test_a_cut_does_not_shorten_the_horizon():
    """Without marks, episodes shorter than the longest ended: also if the longest was cut."""
    log = table([(1, s, "go", 1.0) for s in "abcd"] + [(2, s, "go", 1.0) for s in "abc"])
    log.loc[1, "reward"] = np.nan
    found = lm.fit(log, on_bad="cut")
    assert found.model.H == 4
    assert found.log.assumed_ended == 1


@pytest.mark.parametrize("seed", range(12))
def test_the_answer_does_not_depend_on_chunks_or_partitions(tmp_path, seed):
    dd = pytest.importorskip("dask.dataframe")
    import dask

    rng = np.random.default_rng(seed)
    log = random_log(rng).reset_index(drop=True)
    log = log.drop(columns="step") if seed % 3 == 0 else log
    log = with_holes(log, 0.04, rng, tuple(log.columns))
    if seed % 2:
        log = log.loc[np.repeat(log.index, np.where(rng.random(len(log)) < 0.05, 2, 1))]
    path = tmp_path / "log.csv"
    log.to_csv(path, index=False)
    frame = pd.read_csv(path)

    def seen(log, **options):
        try:
            found = lm.fit(log, on_bad="cut", **options)
        except lm.ModelError:
            return None
        facts = found.left_out_episodes, found.cut_episodes, found.caution, found.episodes
        return found, facts

    whole = seen(path)
    with dask.config.set(scheduler="synchronous"):
        others = [seen(path, chunk_rows=rows) for rows in (1, 2, 3, 7)]
        in_memory = seen(frame)
        parts = [seen(dd.from_pandas(frame, npartitions=n, sort=False)) for n in (1, 2, 5)]
    for first, rest in ((whole, others), (in_memory, parts)):
        for other in rest:
            assert (first is None) == (other is None)
            if first is not None:
                same_bits(first[0], other[0])
                assert first[1] == other[1]


def test_only_cutting_covers_where_cells_are_missing_by_chance():
    """Five logs of 1000 episodes: leaving episodes out misses by more than an interval's width."""
    found = coverage(5, 1000, 0.02)
    assert found["cut"][0] >= 0.8
    assert found["skip"][0] == 0.0
    assert found["skip"][1] > found["skip"][2] > 10 * abs(found["cut"][1])
    assert (found["skip"][3], found["cut"][3]) == (1.0, 0.0)  # and the check says so


@pytest.mark.slow
def test_cutting_covers_in_500_logs():
    found = coverage(500, 200, 0.02)
    assert found["cut"][0] > 0.95 - 4 * (0.95 * 0.05 / 500) ** 0.5
    assert found["skip"][0] < 0.5
    assert found["cut"][3] < 0.04


def test_a_difference_is_said_where_people_read(tmp_path, capsys):
    """Skipping favours short episodes; cells that go missing in bad states, whatever is done."""
    rng = np.random.default_rng(0)
    log = clinic_log(clinic(), 800, rng)
    path = tmp_path / "log.csv"
    with_holes(log, 0.01, rng).to_csv(path, index=False)
    assert run(["fit", str(path), "--on-bad", "skip"]) == 0
    said = capsys.readouterr().out.splitlines()[1]
    assert said.startswith("CAUTION  the ")
    for words in ("episodes left out differ from the", "steps on average against", "total reward -",
                  "tests at level 0.01", "on_bad='cut'"):  # fmt: skip
        assert words in said
    found = lm.fit(path, on_bad="cut")
    assert found.caution == "" == found.summary().caution
    assert found.cut_episodes > 50
    worse = log.astype({"reward": object})
    worse.loc[(log["state"] == 2) & (rng.random(len(log)) < 0.3), "reward"] = None
    found = lm.fit(worse, on_bad="cut")
    assert "doubtful cells do not stand at random places" in str(found.summary()).splitlines()[1]
    assert found.summary().to_dict()["caution"] == found.caution


def test_the_page_begins_with_the_caution(tmp_path):
    from latentmdp.fitting.deciding.decision import decide
    from latentmdp.report.fit_page import write_fit_page

    found = replace(lm.fit(walk(), on_bad="cut"), caution="the 9 left out differ from the 7 kept")
    decision = decide(found, draws=20, time_limit=2.0)
    write_fit_page(tmp_path / "page.html", found, found.summary(), decision)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 0 < page.index("the 9 left out differ") < page.index(decision.memory.verdict[:40])


def test_the_check_finds_nothing_where_there_is_nothing():
    """Under chance alone it speaks in at most about 1 of 100 logs."""
    spoken = 0
    for k in range(60):
        rng = np.random.default_rng(k)
        spoilt = with_holes(clinic_log(clinic(), 150, rng), 0.02, rng)
        spoken += bool(lm.fit(spoilt, on_bad="cut").caution)
    assert spoken <= 4  # of 60; the chance of more at 2 in 100 is 0.008


def test_off_policy_and_unlabelled_logs_are_cut_too():
    rng = np.random.default_rng(1)
    log = clinic_log(clinic(), 300, rng)
    spoilt = with_holes(log, 0.01, rng, ("state", "action", "reward"))
    with pytest.warns(MixtureWarning, match="do not show 2 kinds"):
        found = lm.fit(spoilt, on_bad="cut", context=None, contexts=2)
    assert found.episodes > 290
    assert found.cut_episodes > 20
    plan = lm.fit(log, prior=0.5).plan("mean", "markov", time_limit=2.0)
    with pytest.warns(OffPolicyWarning):
        worth = lm.off_policy(spoilt, plan, on_bad="cut", method="pdis")
    assert worth.episodes > 290
    with pytest.raises(lm.ModelError, match="on_bad must be raise, skip or cut; it is 'drop'"):
        lm.off_policy(spoilt, plan, on_bad="drop")
