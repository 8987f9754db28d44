"""Copies of rows are no steps: named, refused or dropped; staying in a state is no copy."""

import numpy as np
import pandas as pd
import pytest
from missing_cells import clinic, clinic_log
from test_fitting_counts import same_bits

import latentmdp as lm
from latentmdp.commands.cli import run


def doubled(log, rows):
    """The log with some rows twice, one after the other."""
    index = np.sort(np.concatenate([np.arange(len(log)), rows]))
    return log.iloc[index].reset_index(drop=True)


@pytest.fixture
def log():
    return clinic_log(clinic(), 200, np.random.default_rng(0))


@pytest.mark.parametrize("column", ["step", "time", "next_state", "terminated"])
def test_rows_that_are_certainly_copies_are_refused_or_dropped(log, column, tmp_path):
    """The same step or date; a state that was left; an end after which nothing can come."""
    log["next_state"] = log["state"].groupby(log["episode"]).shift(-1)
    log["time"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(log["step"], unit="D")
    rows = np.flatnonzero(log["next_state"].notna() & (log["next_state"] != log["state"]))
    if column == "terminated":
        rows = np.flatnonzero(log["terminated"])
    log = log.drop(columns={"step", "time", "next_state"} - {column})
    spoilt = doubled(log, rows[3:23])
    options = {"step": column} if column in ("step", "time") else {}
    path = tmp_path / "log.csv"
    spoilt.to_csv(path, index=False)
    with pytest.raises(lm.ModelError) as caught:
        lm.fit(path, **options)
    words = f"it does in 20 rows, first in row {rows[3] + 2} of log.csv"
    assert words in str(caught.value)
    assert "duplicates='drop' or --duplicates drop drops copies" in str(caught.value)
    whole = lm.fit(log, **options)
    for chosen in ({"duplicates": "drop"}, {"on_bad": "cut"}):
        if column in ("next_state", "terminated") and "duplicates" in chosen:
            continue  # which drops every row that equals the one before it, certain or not
        for rows_of_chunk in (7, 10**6):
            found = lm.fit(path, chunk_rows=rows_of_chunk, **options, **chosen)
            same_bits(whole, found)
            assert (found.left_out_episodes, found.cut_episodes) == (0, 0)
            assert "20 rows were copies of the row before and dropped" in found.left_out[0]
    skipped = lm.fit(path, on_bad="skip", **options)
    owners = set(log["episode"].iloc[rows[3:23]])
    assert skipped.left_out_episodes == len(owners)


def test_staying_is_no_copy():
    """Without a step column, equal rows are steps where the state really stays."""
    rows = [(e, "wait" if t else "in", "rest", -1.0) for e in range(50) for t in range(1 + e % 7)]
    log = pd.DataFrame(rows, columns=["episode", "state", "action", "reward"]).assign(context="m")
    found = lm.fit(log)
    assert found.log.lengths.tolist() == [0, 8, 7, 7, 7, 7, 7, 7]
    assert not any("equal" in sentence for sentence in found.said)
    long = pd.DataFrame({"episode": 1, "state": "s", "action": "a", "reward": 0.0, "context": "m"},
                        index=range(30))  # fmt: skip
    assert lm.fit(long).model.H == 30


def moving_log(rng, episodes=600):
    """States that never stay, and no column that says how an episode ended: 10 steps at most."""
    rows = []
    for e in range(episodes):
        state = int(rng.integers(4))
        for _ in range(10):
            rows.append((e, state, int(rng.integers(2)), float(state)))
            if rng.random() < 0.05:
                break
            state = (state + int(rng.integers(1, 4))) % 4
    return pd.DataFrame(rows, columns=["episode", "state", "action", "reward"]).assign(context="m")


def test_copies_that_would_make_the_horizon_are_refused(tmp_path, capsys):
    """Twenty copies in the longest episodes: all others would count as ended."""
    log = moving_log(np.random.default_rng(0))
    steps = log.groupby("episode")["state"].transform("size")
    rows = np.flatnonzero((steps == 10) & (log.index % 10 == 4))[:20]
    path = tmp_path / "log.csv"
    doubled(log, rows).to_csv(path, index=False)
    with pytest.raises(lm.ModelError) as caught:
        lm.fit(path)
    for words in ("20 rows equal the row before in every column, first in row", "of log.csv",
                  "11 steps, without them 10", "duplicates='drop'"):  # fmt: skip
        assert words in str(caught.value)
    for on_bad in ("skip", "cut"):
        with pytest.raises(lm.ModelError, match="20 rows equal the row before"):
            lm.fit(path, on_bad=on_bad, chunk_rows=50)
    whole = lm.fit(log)
    same_bits(whole, lm.fit(path, duplicates="drop"))
    assert lm.fit(path, duplicates="keep").model.H == 11
    assert run(["fit", str(path), "--duplicates", "drop"]) == 0
    assert "20 rows were copies" in capsys.readouterr().out
    marked = doubled(log.assign(truncated=False), rows)  # who says how episodes ended is only told
    assert any("20 rows equal the row before" in text for text in lm.fit(marked).said)
    with pytest.raises(lm.ModelError, match="duplicates must be refuse, drop or keep; it is 'x'"):
        lm.fit(path, duplicates="x")


def test_a_log_that_stands_in_a_file_twice_is_refused(tmp_path, log):
    path = tmp_path / "log.csv"
    pd.concat([log, log]).to_csv(path, index=False)
    with pytest.raises(lm.ModelError, match="it does in"):
        lm.fit(path)
    same_bits(lm.fit(log), lm.fit(path, duplicates="drop"))
    with pytest.raises(lm.ModelError, match="must stand together"):
        lm.fit(path, duplicates="drop", chunk_rows=100)


def test_names_and_dates_are_read_as_asked(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(
        "episode,step,state,action,reward,context\n1,03/02/2024,hot,go,0,A\n"
        "1,01/03/2024,Hot ,go,1,a\n2,02/02/2024, cold, GO,2,B\n"
    )
    with pytest.raises(lm.ModelError, match=r"can be read in two ways .*--date-format"):
        lm.fit(path)
    with pytest.raises(lm.ModelError, match=r"'03/02/2024' in log\.csv is not"):
        lm.fit(path, date_format="%Y-%m-%d")
    with pytest.raises(lm.ModelError, match="an episode must have one context"):
        lm.fit(path, date_format="%d/%m/%Y")
    found = lm.fit(path, date_format="%d/%m/%Y", strip=True, casefold=True)
    assert found.names == {
        "contexts": ("a", "b"), "states": ("cold", "hot", "(end)"), "actions": ("go",),
    }  # fmt: skip
    known = lm.fit(path, date_format="%d/%m/%Y", strip=True, casefold=True,
                   known={"contexts": ["B", "A"]})  # fmt: skip
    assert known.names["contexts"] == ("B", "A")
    assert known.log.starts.sum(axis=1).tolist() == [1, 1]
    assert run(["fit", str(path), "--date-format", "%d/%m/%Y", "--strip", "--casefold"]) == 0
