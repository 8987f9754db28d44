"""What stands in a log's cells: ids, dates and steps are understood alike however it is cut."""

import pandas as pd
import pytest

import latentmdp as lm
from latentmdp.fitting.reading.ids import id_keys

HEADER = "episode,step,state,action,reward,context\n"


def written(tmp_path, lines):
    path = tmp_path / "log.csv"
    path.write_text(HEADER + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def counted(found):
    log = found.log
    outcomes = log.row.tolist(), log.next.tolist(), log.sums.count.tolist(), log.starts.tolist()
    return found.names, outcomes, found.left_out_episodes, set(found.left_out)


@pytest.mark.parametrize(
    "ids",
    [
        ["001", "1", "A03", "004", "-5", "6", "0", "6.0"],
        ["9007199254740992", "9007199254740993", "9223372036854775807", "18446744073709551615",
         "36893488147419103232", "x"],
    ],
)  # fmt: skip
def test_ids_mean_the_same_in_every_chunk(tmp_path, ids):
    path = written(tmp_path, [f"{e},{t},s{t},go,1,m" for e in ids for t in range(3)])
    whole = lm.fit(path)
    assert whole.episodes == len(ids)
    for rows in range(1, 8):
        assert counted(lm.fit(path, chunk_rows=rows)) == counted(whole)


def test_long_ids_stay_apart_beside_a_missing_one(tmp_path):
    near = ("9007199254740992", "9007199254740993")
    lines = [f"{e},{t},s{t},go,1,m" for e in near for t in range(2)]
    found = lm.fit(written(tmp_path, [*lines, ",0,s0,go,1,m", "NA,0,s0,go,1,m"]), on_bad="skip")
    assert found.episodes == 2
    assert "'episode' must not be missing; it is in 2 rows" in found.left_out[0]
    assert len(set(id_keys([1e20, 2e20]))) == 2
    assert list(id_keys(["17"])) == list(id_keys([17])) == list(id_keys([17.0])) == [17]


def test_a_missing_step_does_not_hide_a_lost_row(tmp_path):
    lines = ["1,0,a,go,1,m", "1,1,b,go,1,m", "2,0,a,go,1,m", "2,2,b,go,1,m", "3,0,a,go,1,m",
             "3,,b,go,1,m", "4,0,a,go,1,m", "4,1,b,go,1,m"]  # fmt: skip
    path = written(tmp_path, lines)
    whole = lm.fit(path, on_bad="skip")
    assert whole.episodes == 2  # 2 has a gap, 3 a row without a step
    for rows in (1, 2, 3, 5):
        assert counted(lm.fit(path, on_bad="skip", chunk_rows=rows)) == counted(whole)
    frame = pd.DataFrame({
        "episode": 1, "step": pd.array([0, 1, None], dtype="Int64"), "state": list("abc"),
        "action": "go", "reward": 1.0, "context": "m",
    })  # fmt: skip
    with pytest.raises(lm.ModelError, match="'step' must not be missing; it is in 1 row, first in"):
        lm.fit(frame)


def test_steps_are_numbers_also_as_text_or_categories():
    for steps in (["0", "1", "2"], pd.Categorical([0, 1, 2]), pd.Series([0, 1, 2], dtype=object)):
        assert lm.fit(dated(steps)).episodes == 1
        with pytest.raises(lm.ModelError, match="must count an episode's rows one by one"):
            lm.fit(dated(steps).iloc[[0, 2]])


def dated(dates):
    return pd.DataFrame({
        "episode": 1, "step": dates, "state": list("abc"), "action": "go", "reward": 1.0,
        "context": "m",
    })  # fmt: skip


@pytest.mark.parametrize(
    "dates",
    [
        ["2024-01-01", "2024-01-01 10:00", "2024-01-02T00:00:00"],
        ["2024-03-10T10:00:00+01:00", "2024-06-10T10:00:00+02:00", "2024-07-10T10:00:00+02:00"],
        pd.to_datetime(["2024-10-27 00:30", "2024-10-27 01:15", "2024-10-27 03:00"], utc=True)
        .tz_convert("Europe/Berlin"),  # 02:30, 02:15 and 04:00 by the clock
    ],
)  # fmt: skip
def test_dates_put_rows_in_order(tmp_path, dates):
    frame = dated(dates)
    expected = [("a", "b"), ("b", "c")]
    path = tmp_path / "log.csv"
    frame[::-1].to_csv(path, index=False)
    for source, rows in ((frame[::-1], 10), (path, 10), (path, 1)):
        found = lm.fit(source, chunk_rows=rows)
        names = found.names["states"]
        moves = [(names[r], names[s]) for r, s in zip(found.log.row, found.log.next, strict=True)]
        assert moves == expected


def test_dates_that_can_be_read_in_two_ways_are_refused(tmp_path):
    for dates in (["03/02/2024", "01/03/2024", "20/04/2024"], ["3.2.24", "1.3.24", "2.4.24"]):
        path = tmp_path / "log.csv"
        dated(dates).to_csv(path, index=False)
        for rows in (1, 100):
            with pytest.raises(lm.ModelError, match=r"year first.*can be read in two ways"):
                lm.fit(path, chunk_rows=rows)


def test_names_that_look_alike_are_said_and_stay_apart(tmp_path):
    path = written(
        tmp_path, ["1,0,hot,go,0,A", "1,1,Hot,go,0,A", "2,0,hot,go,0,a ", "2,1,hot ,stop,0,a "]
    )
    found = lm.fit(path)
    assert found.names["contexts"] == ("A", "a ")
    assert found.names["states"] == ("Hot", "hot", "hot ")
    said = " ".join(found.said)
    assert "'A' and 'a ' were taken as two contexts, but differ only in blanks" in said
    assert "'Hot' and 'hot' were taken as two states" in said
    assert "lower case (and 1 more such pair)" in said
    assert "two actions" not in said
    assert "'Hot' and 'hot'" in str(found.summary())
    chosen = lm.fit(path, known={"contexts": ["A", "a "], "states": ["hot", "Hot", "hot "]})
    assert "were taken as two" not in " ".join(chosen.said)  # somebody wanted them so


def test_words_for_missing_values_that_are_names_are_said(tmp_path):
    found = lm.fit(written(tmp_path, ["1,0,a,go,1,NA", "2,0,a,go,1,m"]))
    assert "'NA' was taken as the name of a context" in " ".join(found.said)
    with pytest.raises(lm.ModelError, match="must be a finite number"):
        lm.fit(dated([0, 1, 2]).assign(reward=1 + 2j))
