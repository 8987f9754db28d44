"""Counts of a log: equal to a slow reader's, and the same to the bit however the log is cut."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import everything, random_log, roll, slow_counts
from strategies import random_model

import latentmdp as lm
from latentmdp.fitting.reading.exact_sums import RewardSums

seeds = st.integers(0, 2**32 - 1)


def by_name(found):
    """A fit's counts, keyed by names."""
    S, A, names, log = found.log.S, found.log.A, found.names, found.log
    moves = {}
    for row, nxt, n in zip(log.row, log.next, log.sums.count, strict=True):
        m, rest = divmod(int(row), S * A)
        s, a = divmod(rest, A)
        key = (names["contexts"][m], names["states"][s], names["actions"][a])
        moves[(*key, names["states"][nxt])] = int(n)
    starts = {
        (names["contexts"][m], names["states"][s]): int(log.starts[m, s])
        for m, s in zip(*np.nonzero(log.starts), strict=True)
    }
    return moves, starts


@settings(max_examples=80)
@given(seeds)
def test_counts_equal_a_slow_readers(seed):
    rng = np.random.default_rng(seed)
    frame = random_log(rng)
    moves, starts = slow_counts(frame)
    mixed = frame.sample(frac=1.0, random_state=int(rng.integers(2**31)))
    for log in (frame, mixed, frame.astype({"state": "category", "context": "category"})):
        found = lm.fit(log)
        assert by_name(found) == (dict(moves), dict(starts))
        counts = found.counts
        inside = ~np.isin(np.arange(counts.rows) // counts.A % counts.S, np.flatnonzero(
            found.log.final))  # fmt: skip
        assert counts.n[inside].sum() == sum(moves.values())
        assert (counts.n == counts.N).all()


def same_bits(a, b):
    """Whether two fits agree in every bit that matters."""
    parts = ("w", "nu", "indptr", "next", "symbol", "prob", "reward")
    assert a.names == b.names
    assert all(getattr(a.model, p).tobytes() == getattr(b.model, p).tobytes() for p in parts)
    for name in ("count", "sums", "squares", "low", "high"):
        assert getattr(a.log.sums, name).tobytes() == getattr(b.log.sums, name).tobytes()
        assert getattr(a.log.returns, name).tobytes() == getattr(b.log.returns, name).tobytes()


@settings(max_examples=12)
@given(seeds)
def test_chunks_files_and_formats_give_the_same_bits(tmp_path_factory, seed):
    rng = np.random.default_rng(seed)
    frame = random_log(rng)
    whole = lm.fit(frame)
    folder = tmp_path_factory.mktemp("logs")
    cut = int(rng.integers(1, len(frame) + 1))
    parts = [part for part in (frame[:cut], frame[cut:]) if len(part)]
    for i, part in enumerate(parts):
        part.to_csv(folder / f"{i}.csv", index=False)
    frame.to_csv(folder / "all.csv.gz", index=False)
    for rows in (1, 3, 1000):
        same_bits(whole, lm.fit([folder / f"{i}.csv" for i in range(len(parts))], chunk_rows=rows))
        same_bits(whole, lm.fit(str(folder / "all.csv.gz"), chunk_rows=rows))
    same_bits(whole, lm.fit(iter(parts)))


@settings(max_examples=12)
@given(seeds)
def test_parquet_gives_the_same_bits(tmp_path_factory, seed):
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(seed)
    frame = random_log(rng)
    path = tmp_path_factory.mktemp("logs") / "log.parquet"
    frame.to_parquet(path)
    for rows in (2, 1000):
        same_bits(lm.fit(frame), lm.fit(path, chunk_rows=rows))


@given(seeds)
def test_exact_sums_do_not_depend_on_order_and_are_right(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    x = rng.normal(size=n) * 10.0 ** rng.integers(-6, 9, n)
    x = np.where(rng.random(n) < 0.3, x[0], x)
    place = rng.integers(0, 3, n)
    one = RewardSums.of(place, x, 3)
    order = rng.permutation(n)
    two = RewardSums.of(place[order], x[order], 3)
    cut = int(rng.integers(0, n + 1))
    halves = RewardSums.of(place[:cut], x[:cut], 3).then(RewardSums.of(place[cut:], x[cut:], 3))
    three = halves.at(np.array([0, 3, 1, 4, 2, 5])).merged(np.array([0, 2, 4]))
    for other in (two, three):
        assert one.mean.tobytes() == other.mean.tobytes()
        assert one.spread.tobytes() == other.spread.tobytes()
    for k in range(3):
        own = x[place == k]
        if len(own):
            scale = np.abs(own).max()
            assert one.mean[k] == pytest.approx(own.mean(), rel=1e-9, abs=1e-12 * scale)
            spread = ((own - own.mean()) ** 2).sum()
            assert one.spread[k] == pytest.approx(spread, rel=1e-6, abs=1e-12 * scale**2)


@settings(max_examples=25)
@given(seeds)
def test_maximum_likelihood_is_what_was_seen(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, negative=True, discounted=False)
    found = lm.fit(roll(model, 40, rng), known=everything(model), horizon=model.H, prior=0.0)
    visits = found.counts.visits()[:, : model.S, :, : model.S]
    seen = found.log.visits.reshape(model.M, found.log.S, model.A)[:, : model.S] > 0
    P = visits / np.maximum(visits.sum(axis=3, keepdims=True), 1)
    assert np.allclose(found.model.P[seen], P[seen])
    expected = np.array([found.model.row_reward]).reshape(model.M, model.S, model.A)[seen]
    if model.R.ndim == 3:
        assert np.allclose(expected, model.R[seen])


def test_a_log_of_a_model_recovers_it_at_the_rate_of_counts():
    """Errors fall like 1/sqrt(n): 16 times the episodes, a quarter of the error, within a half."""
    model = lm.make("garnet:states=4,actions=2,contexts=2,horizon=5,seed=1")
    rng = np.random.default_rng(0)
    log = roll(model, 3200, rng)
    errors = []
    for n in (200, 3200):
        found = lm.fit(log[log["episode"] < n], known=everything(model))
        errors.append(np.sqrt(((found.model.P - model.P) ** 2).mean()))
    assert errors[1] < 0.5 * errors[0]
    assert errors[1] < 0.03


def test_a_learner_goes_on_where_the_log_ends():
    model = lm.make("garnet:states=3,actions=2,contexts=2,horizon=4,seed=2")
    found = lm.fit(roll(model, 50, np.random.default_rng(1)), known=everything(model))
    learner = lm.Learner(
        found.model.normalized(), "greedy", episodes=1000, counts=found.counts, estimate=("R",)
    )
    assert np.array_equal(learner.counts.visits(), found.counts.visits())
    for context in (0, 1):
        learner.begin(0)
        while learner.step(0.1, 0) is not None:
            pass
        learner.end(context)
    assert int(learner.counts.n.sum()) == 52 * 4
    assert int(found.counts.n.sum()) == 50 * 4  # the fit itself does not change


def test_the_end_of_episodes_is_known_to_a_learner():
    log = pd.DataFrame(
        {"episode": [1, 2, 2], "context": "A", "state": ["up", "up", "up"], "action": "go",
         "reward": 0.0}
    )  # fmt: skip
    found = lm.fit(log)
    assert found.names["states"] == ("up", "(end)")
    assert found.counts.visits()[0, :, 0].tolist() == [[1, 1], [0, 1]]
    assert found.model.P[0, 1, 0].tolist() == [0.0, 1.0]


def test_parts_of_a_log_can_be_fitted_with_the_names_of_the_whole():
    log = pd.DataFrame(
        {"episode": [1, 2, 2], "context": ["A", "B", "B"], "state": ["up", "up", "down"],
         "action": ["go", "go", "stay"], "reward": 0.0}
    )  # fmt: skip
    whole = lm.fit(log)
    assert whole.names["states"] == ("down", "up", "(end)")
    for part in (log[:1], log[1:]):
        found = lm.fit(part, known=whole.names, horizon=whole.model.H)
        assert found.names == whole.names
        assert found.model.sizes == whole.model.sizes


def test_names_of_any_type_and_their_order():
    log = pd.DataFrame(
        {"episode": [1, 1], "context": [True, True], "state": [10.0, 9.0], "action": [2, 10],
         "reward": [0, 1]}
    )  # fmt: skip
    found = lm.fit(log)
    assert found.names == {"contexts": ("True",), "states": ("9", "10"), "actions": ("2", "10")}
    log = log.assign(state=[None, 9.0], next_state=["a", "b"])
    with pytest.raises(lm.ModelError, match="'state' must not be missing; it is in 1 row"):
        lm.fit(log)
