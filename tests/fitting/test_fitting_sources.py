"""Other doors: Dask, Polars, Minari; each gives the same counts as a frame in memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import everything, random_log, roll
from test_fitting_counts import same_bits

import latentmdp as lm
from latentmdp.fitting.reading.ids import EpisodeIds, id_keys


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_dask_gives_the_same_bits(seed):
    dd = pytest.importorskip("dask.dataframe")
    import dask

    rng = np.random.default_rng(seed)
    frame = random_log(rng).reset_index(drop=True)
    whole = lm.fit(frame)
    with dask.config.set(scheduler="synchronous"):
        for parts in (1, 2, 7):
            found = lm.fit(dd.from_pandas(frame, npartitions=parts, sort=False))
            same_bits(whole, found)
            assert (found.rows, found.episodes) == (whole.rows, whole.episodes)
            assert found.said == whole.said


def test_dask_says_in_which_row_of_which_partition():
    dd = pytest.importorskip("dask.dataframe")
    import dask
    import pandas as pd

    episodes = np.repeat(np.arange(12), 2)
    log = pd.DataFrame({"episode": episodes, "context": "A", "state": "s", "action": "x",
                        "reward": np.arange(24.0)})  # fmt: skip
    with dask.config.set(scheduler="synchronous"):
        for row in range(23):
            bad = log.assign(reward=log["reward"].where(~log.index.isin([row, 22])))
            words = f"first in row {row % 8 + 1} of partition {row // 8} .the first is 0."
            with pytest.raises(lm.ModelError, match=words):
                lm.fit(dd.from_pandas(bad, npartitions=3, sort=False))
        mixed = log.iloc[[0, 1, 2, 4, 3, 5, 6, 7]].reset_index(drop=True)
        mixed.loc[4, "reward"] = np.nan
        with pytest.raises(lm.ModelError, match="first in row 5 of partition 0"):
            lm.fit(dd.from_pandas(mixed, npartitions=1, sort=False))


def test_dask_refuses_episodes_that_are_torn():
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    frame = random_log(np.random.default_rng(0), closing=False)
    frame = pd.concat([frame, frame]).reset_index(drop=True)
    with pytest.raises(lm.ModelError, match="must stand together"):
        lm.fit(dd.from_pandas(frame, npartitions=2, sort=False))


def test_polars_frames_are_read():
    polars = pytest.importorskip("polars")
    frame = random_log(np.random.default_rng(3))
    columns = {name: frame[name].tolist() for name in frame.columns}
    same_bits(lm.fit(frame), lm.fit(polars.DataFrame(columns, strict=False, nan_to_null=True)))


def test_minari_data_sets_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    minari = pytest.importorskip("minari")
    model = lm.make("garnet:states=3,actions=2,contexts=2,horizon=4,seed=2")
    rng = np.random.default_rng(0)
    log = roll(model, 30, rng)
    same_bits(
        lm.fit(log.drop(columns="step"), known=everything(model)),
        lm.fit(_DataSet(log), known=everything(model)),
    )
    with pytest.raises(lm.ModelError, match="minari:no-such/set-v0 cannot be read"):
        lm.fit("minari:no-such/set-v0")
    assert minari.__version__


class _Episode:
    """What a Minari data set yields for an episode."""

    def __init__(self, rows):
        self.id = int(rows["episode"].iloc[0])
        self.observations = np.append(rows["state"], rows["next_state"].iloc[-1])
        self.actions, self.rewards = rows["action"].to_numpy(), rows["reward"].to_numpy()
        self.terminations = np.zeros(len(rows), dtype=bool)
        self.truncations = np.arange(len(rows)) == len(rows) - 1
        self.infos = {"context": np.append(-1, rows["context"])}  # told in hindsight


class _DataSet:
    __module__ = "minari.dataset"

    def __init__(self, log):
        self.log = log

    def iterate_episodes(self):
        return (_Episode(rows) for _, rows in self.log.groupby("episode"))


@given(st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=6))
def test_episode_ids_are_a_set(lists):
    ids, seen = EpisodeIds(), set()
    for keys in lists:
        array = np.array(keys, dtype=np.int64)
        assert ids.holds(array).tolist() == [key in seen for key in keys]
        ids.add(array)
        seen |= set(keys)
        assert (ids.first[1:] > ids.last[:-1] + 1).all()
    other = EpisodeIds()
    other.add(np.array([3, 40]))
    assert ids.merge(other) == (3 in seen)
    assert ids.holds(np.arange(50)).tolist() == [k in seen | {3, 40} for k in range(50)]


def test_ids_of_numbers_and_texts_agree():
    assert id_keys(np.array([17, 0])).tolist() == id_keys(["17", "0"]).tolist()
    assert len(set(id_keys(["017", "17", "a", "A", "-1"]).tolist())) == 5
