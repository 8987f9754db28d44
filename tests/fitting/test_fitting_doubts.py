"""Doubtful rows get one sentence with the first place and a count; `skip` leaves episodes out."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import random_log

import latentmdp as lm


def clean():
    """Three episodes of two steps."""
    return pd.DataFrame(
        {"episode": [1, 1, 2, 2, 3, 3], "step": [0, 1] * 3, "context": list("AABBAA"),
         "state": list("uvuvuv"), "action": list("xyxyxy"), "reward": [0.0, 1.0] * 3,
         "next_state": list("vuvuvu")}
    )  # fmt: skip


def spoilt(column, row, value):
    log = clean().astype({column: object})
    log.loc[row, column] = value
    return log


CASES = {
    "missing state": (spoilt("state", 2, None), "'state' must not be missing; it is in 1 row, "
                      "first in row 3 of the log"),
    "missing action": (spoilt("action", 2, None), "'action' must not be missing"),
    "missing reward": (spoilt("reward", 3, np.nan), "'reward' must not be missing"),
    "text reward": (spoilt("reward", 3, "many"), "'reward' must be a finite number"),
    "infinite reward": (spoilt("reward", 3, np.inf), "'reward' must be a finite number"),
    "huge reward": (spoilt("reward", 3, 1e12), "below 10^12"),
    "changing context": (spoilt("context", 3, "A"), "an episode must have one context in "
                         "'context'; several were found in 1 episode, first in row 3"),
    "repeated step": (spoilt("step", 3, 0), "must come once in its episode; it came again"),
    "skipped step": (spoilt("step", 3, 2), "must count an episode's rows one by one"),
    "late start": (spoilt("step", 2, -1), "must count an episode's rows one by one"),
    "other next state": (spoilt("next_state", 2, "u"), "'next_state' must be the state of the "
                         "episode's next row; it is not in 1 row"),
    "missing next state": (spoilt("next_state", 2, None), "'next_state' must not be missing"),
    "goes on after its end": (clean().assign(terminated=[False, False, True, True, False, False]),
                              "an episode must be over where 'terminated' says so"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_doubt_has_a_sentence_and_skip_leaves_the_episode_out(name):
    log, sentence = CASES[name]
    if name in ("repeated step", "skipped step", "late start"):
        log = log.astype({"step": int})
    with pytest.raises(lm.ModelError) as caught:
        lm.fit(log)
    assert sentence in str(caught.value)
    found = lm.fit(log, on_bad="skip")
    assert (found.episodes, found.left_out_episodes) == (2, 1)
    assert sentence in "".join(found.left_out)
    assert "left out because of such rows: 1 episode" in str(found.summary())


def test_labels_may_stand_on_one_row_but_must_stand_somewhere():
    log = clean()
    log.loc[[0, 2, 4], "context"] = None
    assert lm.fit(log).names["contexts"] == ("A", "B")
    assert "taken for all" in " ".join(lm.fit(log).said)
    log.loc[[2, 3], "context"] = None
    with pytest.raises(
        lm.ModelError, match="must have a context in 'context'; none was found in 1 ep"
    ):
        lm.fit(log)


def test_names_that_are_not_known_are_doubtful():
    with pytest.raises(lm.ModelError, match="'context' must be one of the names given as known"):
        lm.fit(clean(), known={"contexts": ["A", "C"]})
    found = lm.fit(clean(), known={"contexts": ["A", "C"]}, on_bad="skip", prior=0.0)
    assert found.model.w.tolist() == [1.0, 0.0]
    with pytest.raises(lm.ModelError, match="'state' must be one of the names"):
        lm.fit(clean(), known={"states": ["u"]})
    with pytest.raises(lm.ModelError, match="names of states must differ"):
        lm.fit(clean(), known={"states": ["u", "u"]})
    with pytest.raises(lm.ModelError, match="known may have"):
        lm.fit(clean(), known={"Q": 1})


def test_an_episode_that_comes_again_is_refused_across_chunks(tmp_path):
    log = clean()
    log = pd.concat([log, log[:2]])
    log.to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(lm.ModelError, match=r"must stand together .* first in row 7 of log\.csv"):
        lm.fit(tmp_path / "log.csv", chunk_rows=2)
    clean().to_csv(tmp_path / "one.csv", index=False)
    with pytest.raises(lm.ModelError, match=r"first in row 1 of one\.csv"):
        lm.fit([tmp_path / "one.csv", tmp_path / "one.csv"], chunk_rows=10)


def test_an_answer_does_not_depend_on_chunks_also_where_rows_are_skipped(tmp_path):
    """In one chunk the rows of an episode are put together; else nobody may count half of it."""
    log = clean().drop(columns=["step", "next_state"])
    pd.concat([log, log[:2]]).to_csv(tmp_path / "torn.csv", index=False)
    assert lm.fit(tmp_path / "torn.csv", on_bad="skip").log.lengths.tolist() == [0, 0, 2, 0, 1]
    for rows in (2, 3, 5):
        with pytest.raises(lm.ModelError, match=r"row 7 of torn\.csv .* cannot be left out"):
            lm.fit(tmp_path / "torn.csv", on_bad="skip", chunk_rows=rows)
    log["episode"] = ["0", "0", None, "2", "2", None]  # 0 is an id like others
    log["context"] = "A"
    log.to_csv(tmp_path / "no_id.csv", index=False)
    for rows in (1, 2, 3, 10):
        found = lm.fit(tmp_path / "no_id.csv", on_bad="skip", chunk_rows=rows)
        assert found.log.lengths.tolist() == [0, 0, 2]
        assert found.left_out == (
            "'episode' must not be missing; it is in 2 rows, first in row 3 of no_id.csv",
        )
        assert found.left_out_episodes == 0
    with pytest.raises(lm.ModelError, match="none was left; 'episode' must not be missing"):
        lm.fit(log.assign(episode=[None] * 6), on_bad="skip")


def test_columns_that_are_not_there_and_files_that_cannot_be_read(tmp_path):
    with pytest.raises(lm.ModelError, match="must have a column 'type' for the context; its"):
        lm.fit(clean(), context="type")
    with pytest.raises(lm.ModelError, match="each column must have one meaning"):
        lm.fit(clean(), state="action")
    for name, text, words in (
        ("a.csv", "", "empty"), ("b.txt", "x", "must end in .csv"), ("c.parquet", "x", "read"),
        ("d.csv", 'episode,context,state,action,reward\n1,"A,u,x,0\n', "cannot be read"),
        ("f.csv", "episode,context,state,action,reward\n1,A,u,x,0,7,8\n", "Expected 5 fields"),
        ("g.csv", "episode,context,state,action,reward\n1,A,u,x,0\n1,A,u, v,x,0\n", "Expected 5"),
        ("h.csv", "episode;context;state;action;reward\n1;A;u;x;0\n", "separated by commas"),
        ("i.csv", "episode,context,state,state,action,reward\n1,A,u,v,x,0\n", "one column 'state'"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
        with pytest.raises(lm.ModelError, match=words):
            lm.fit(tmp_path / name)
    (tmp_path / "e.csv").write_text("episode,context,state,action,reward\n")
    with pytest.raises(lm.ModelError, match="at least one episode; none was left"):
        lm.fit(tmp_path / "e.csv")
    with pytest.raises(lm.ModelError, match="no such file"):
        lm.fit(tmp_path / "none.csv")
    for log in (17, [], None):
        with pytest.raises(lm.ModelError, match="a log must"):
            lm.fit(log)


def test_csv_names_are_just_as_written(tmp_path):
    text = "episode,context,state,action,reward\n1,NA,None,01,1\n1,NA,nan,1,2\n"
    (tmp_path / "log.csv").write_text("\ufeff" + text, encoding="utf-8")
    found = lm.fit(tmp_path / "log.csv")
    assert found.names["contexts"] == ("NA",)
    assert set(found.names["states"]) == {"None", "nan"}
    assert found.names["actions"] == ("01", "1")


@pytest.mark.parametrize("options", [{"prior": -1}, {"prior": np.nan}, {"unseen": "magic"},
    {"on_bad": "ask"}, {"horizon": 0}, {"context": None}, {"chunk_rows": 0},
    {"known": {"w": [1.0]}}, {"known": {"R": np.zeros((2, 2))}}, {"discount": 0.0}])  # fmt: skip
def test_bad_options_are_refused(options):
    with pytest.raises(lm.ModelError):
        lm.fit(clean(), **options)


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_spoilt_tables_are_refused_or_read_but_never_crash(seed):
    rng = np.random.default_rng(seed)
    log = random_log(rng).astype(object)
    junk = [None, np.nan, np.inf, "", "x", -1, 1e300, True, "2020-01-01", b"x"]
    for _ in range(int(rng.integers(1, 4))):
        column = str(rng.choice(log.columns))
        value = junk[rng.integers(len(junk))]
        log.iloc[int(rng.integers(len(log))), log.columns.get_loc(column)] = value
    for how in ("raise", "skip"):
        try:
            found = lm.fit(log, on_bad=how)
        except lm.ModelError:
            continue
        assert np.allclose(found.model.P.sum(axis=3), 1.0)
