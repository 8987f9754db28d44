"""Logs with a column of readings: counts, the fitted model, plans, and what refuses them."""

import json
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import random_log, slow_counts

import latentmdp as lm
from latentmdp.commands.cli import run
from latentmdp.fitting.deciding.halves import halves

seeds = st.integers(0, 2**32 - 1)
NAMES = ("nothing", "negative", "positive")  # not in the order in which a fit sorts them


def clinic():
    """Two diseases; `test` reads them noisily, waiting reads nothing, `treat` helps one of them."""
    P = np.zeros((2, 2, 3, 2))
    P[:, 0, :2, 0] = P[:, 1, :, 1] = 1.0
    P[:, 0, 2] = [[0.4, 0.6], [0.8, 0.2]]
    R = np.zeros((2, 2, 3))
    R[0, 0], R[1, 0], R[:, 1] = (0.0, -0.02, -0.1), (0.0, -0.02, -0.9), (0.3, 0.2, 0.1)
    Z = np.zeros((2, 2, 3, 3))
    Z[..., 0] = 1.0
    Z[:, 0, 1] = [[0.0, 0.85, 0.15], [0.0, 0.25, 0.75]]
    Z[:, :, 2] = [[0.5, 0.5, 0.0], [0.3, 0.3, 0.4]]
    return lm.LatentMDP(
        P, R, [0.6, 0.4], [1.0, 0.0], 5, Z=Z, max_return=None, reading_names=NAMES,
        state_names=["ill", "well"], action_names=["wait", "test", "treat"],
        context_names=["flu", "cold"], observe_rewards=False,
    )  # fmt: skip


def log_of(model, episodes, seed=0, names=True):
    """Episodes of uniform actions, 25 for each of many tables of actions."""
    rng, parts = np.random.default_rng(seed), []
    for i in range(0, episodes, 25):
        table = rng.integers(0, model.A, (model.H, model.S))
        part = lm.rollout(model, table, min(25, episodes - i), seed=seed + i, names=names)
        parts.append(part.assign(episode=part["episode"] + i).drop(columns="belief"))
    return pd.concat(parts, ignore_index=True)


def joint(model):
    """`(M, S, A, S', O)` probabilities of next state and reading, names in alphabetical order."""
    c = model.outcome_columns()
    found = np.zeros((model.M, model.S, model.A, model.S, model.readings))
    np.add.at(
        found, tuple(c[x] for x in ("context", "state", "action", "next", "reading")), c["prob"]
    )
    for axis, kind in enumerate(("context", "state", "action", "state", "reading")):
        found = np.take(found, np.argsort(getattr(model, f"{kind}_names")), axis=axis)
    return found


def with_readings(rng, **options):
    """A random ragged table with a column `seen`."""
    frame = random_log(rng, **options)
    seen = rng.choice(["low", "high", "7", "NA"], len(frame)).astype(object)
    seen[frame["action"].isna().to_numpy()] = None  # a closing row reads nothing
    return frame.assign(seen=seen)


def by_name(found):
    """Counts of (context, state, action, next, reading), and posterior shares, by names."""
    log, names = found.log, found.names
    counts = {}
    for row, nxt, read, n in zip(log.row, log.next, log.reading, log.sums.count, strict=True):
        m, rest = divmod(int(row), log.S * log.A)
        s, a = divmod(rest, log.A)
        key = (names["contexts"][m], names["states"][s], names["actions"][a])
        counts[(*key, names["states"][nxt], names["readings"][read])] = int(n)
    return counts


@settings(max_examples=60)
@given(seeds)
def test_counts_equal_a_slow_readers(seed):
    rng = np.random.default_rng(seed)
    frame = with_readings(rng)
    moves, _ = slow_counts(frame, "seen")
    for log in (frame, frame.sample(frac=1.0, random_state=1), frame.astype({"seen": "category"})):
        found = lm.fit(log, reading="seen")
        assert by_name(found) == dict(moves)
        assert found.names["readings"] == tuple(sorted(frame["seen"].dropna().unique()))
        assert found.model.readings == len(found.names["readings"])
        assert f"{found.model.readings} reading" in str(found.summary())


@settings(max_examples=60)
@given(seeds, st.sampled_from([0.0, 0.5, 2.0]))
def test_the_model_has_posterior_means_of_pairs(seed, prior):
    """Rows without cut steps: counts plus `prior` visits, spread as all contexts went on."""
    frame = with_readings(np.random.default_rng(seed), next_state=True, marks="none")
    moves, _ = slow_counts(frame, "seen")
    found = lm.fit(frame, reading="seen", prior=prior)
    place, row = defaultdict(float), defaultdict(float)
    for (m, s, a, nxt, read), n in moves.items():
        place[s, a, nxt, read] += n
        place[s, a] += n
        row[m, s, a] += n
    names, c = found.names, found.model.outcome_columns()
    paid = frame.groupby(["context", "state", "action", "next_state", "seen"])["reward"].mean()
    for i in range(len(c["prob"])):
        m, s, a = (names[f"{k}s"][c[k][i]] for k in ("context", "state", "action"))
        nxt, read = names["states"][c["next"][i]], names["readings"][c["reading"][i]]
        if row[m, s, a]:
            share = place[s, a, nxt, read] / place[s, a]
            mean = (moves[m, s, a, nxt, read] + prior * share) / (row[m, s, a] + prior)
            if moves[m, s, a, nxt, read] and not found.log.rewards_of_rows:
                assert c["reward"][i] == pytest.approx(paid[m, s, a, nxt, read])
        elif s not in set(frame["state"]):  # nothing happens there, and nothing new is read
            assert (nxt, read) == (s, names["readings"][0])
            mean = 1.0
        else:  # never seen: it stays, and what it reads is what all contexts together read
            assert nxt == s
            total = {r: sum(n for (*_, x), n in moves.items() if _[1:3] == [s, a] and x == r)
                     for r in names["readings"]}  # fmt: skip
            shown = sum(total.values())
            mean = total[read] / shown if shown else float(read == names["readings"][0])
        assert c["prob"][i] == pytest.approx(mean)


@settings(max_examples=10)
@given(seeds)
def test_files_chunks_and_frames_give_the_same(tmp_path_factory, seed):
    rng = np.random.default_rng(seed)
    frame = with_readings(rng)
    whole = lm.fit(frame, reading="seen")
    folder = tmp_path_factory.mktemp("logs")
    frame.to_csv(folder / "all.csv", index=False)
    files = [folder / "all.csv"]
    if pytest.importorskip("pyarrow"):
        frame.to_parquet(folder / "all.parquet")
        files.append(folder / "all.parquet")
    for file in files:
        for rows in (1, 3, 1000):
            found = lm.fit(file, reading="seen", chunk_rows=rows)
            assert found.model == whole.model
            assert found.names == whole.names
            assert found.log.sums.sums.tobytes() == whole.log.sums.sums.tobytes()


def test_dask_partitions_give_the_same():
    dd = pytest.importorskip("dask.dataframe")
    import dask

    frame = log_of(clinic(), 60)
    frame = frame.sort_values(["reading", "episode"], kind="stable").sort_values(
        "episode", kind="stable"
    )
    with dask.config.set(scheduler="synchronous"):
        found = lm.fit(dd.from_pandas(frame.reset_index(drop=True), npartitions=4),
                       reading="reading", step="step")  # fmt: skip
    assert found.model == lm.fit(frame, reading="reading").model


def test_the_fit_converges_to_the_truth():
    """16 times the episodes: about a quarter of the error, at least less than a half."""
    truth, errors = clinic(), []
    log = log_of(truth, 6400)
    wanted = joint(truth)
    for n in (400, 6400):
        found = lm.fit(log[log["episode"] < n], reading="reading", prior=0.5)
        assert found.names["readings"] == tuple(sorted(NAMES))
        assert (found.log.visits > 0).all()
        errors.append(np.sqrt(((joint(found.model) - wanted) ** 2).mean()))
    assert errors[1] < 0.5 * errors[0]
    assert errors[1] < 0.01
    hidden = lm.fit(log, reading="reading", observe_rewards=False)
    assert hidden.plan("mean", gap=1e-4).score == pytest.approx(lm.plan(truth).lower, abs=0.02)


@pytest.mark.parametrize(
    ("objective", "observe"),
    [("mean", False), ("mean", True), ("safe", False), ("quantile:0.2", False)],
)
def test_policies_by_readings_are_right_in_the_truth(objective, observe):
    """The fit numbers readings in another order; evaluation and transfer go by names."""
    truth = clinic().replace(observe_rewards=observe)
    log = log_of(truth, 3000)
    found = lm.fit(log, reading="reading", observe_rewards=observe)
    plan = found.plan(objective, gap=1e-3, draws=60, candidates=2)
    best, without = lm.plan(truth).lower, lm.plan(truth, "markov").lower
    assert without < best - 0.02  # readings matter
    assert lm.evaluate(truth, plan).value == pytest.approx(best, abs=0.01)
    assert lm.evaluate(truth, lm.transfer(plan, truth)).value == pytest.approx(best, abs=0.01)
    assert found.evaluate(lm.plan(truth), draws=50).value == pytest.approx(best, abs=0.03)
    adviser = found.adviser(plan)
    adviser.start("ill")
    assert observe or found.names["actions"][adviser.action] == "test"
    adviser.observe("ill", action="test", reward=-0.02, reading="positive")
    odds = 0.6 * 0.15 / (0.4 * 0.75)
    assert adviser.belief[found.names["contexts"].index("flu")] == pytest.approx(
        odds / (1 + odds), abs=0.05
    )


def test_a_reading_that_the_log_has_not_shown_keeps_the_numbers_of_the_others_apart():
    """The truth has readings 0, 1, 2; 1 never comes, so the fit has two: "0" and "2"."""
    Z = np.zeros((2, 1, 2, 3))
    Z[:, 0, 0, 0] = 1.0
    Z[:, 0, 1, ::2] = [[0.9, 0.1], [0.2, 0.8]]
    truth = lm.LatentMDP(
        np.ones((2, 1, 2, 1)), [[[0.3, 0.0]], [[-0.3, 0.0]]], [0.5, 0.5], [1.0], 4, Z=Z,
        max_return=None, observe_rewards=False,
    )  # fmt: skip
    found = lm.fit(log_of(truth, 1000, names=False), reading="reading", observe_rewards=False)
    assert found.names["readings"] == ("0", "2")
    plan, best = found.plan("mean", gap=None, draws=40), lm.plan(truth, gap=None).lower
    assert lm.plan(truth, "markov", gap=None).lower < best - 0.1
    assert lm.evaluate(truth, plan).value == pytest.approx(best, abs=1e-6)


def test_draws_have_the_fit_as_their_mean():
    found = lm.fit(log_of(clinic(), 40), reading="reading")
    models = found.sample(400, 0)
    assert all(np.array_equal(m.symbol, found.model.symbol) for m in models)
    for m in models[:5]:
        assert np.allclose(np.add.reduceat(m.prob, m.indptr[:-1]), 1.0)
    mean = np.mean([m.prob for m in models], axis=0)
    # false alarms: a standard deviation is at most 0.5, so 5 standard errors are 0.125
    assert abs(mean - found.model.prob).max() < 0.125


def test_intervals_cover_about_as_often_as_they_say():
    """60 logs: fewer than 49 covers of 95% have a chance of 4e-5."""
    truth = clinic()
    policy = lm.plan(truth).policy
    value, hits = lm.evaluate(truth, policy).value, 0
    for k in range(60):
        log = log_of(truth, 150, seed=1000 * k)
        found = lm.fit(log, reading="reading", observe_rewards=False)
        worth = found.evaluate(policy, draws=100, seed=k)
        hits += worth.lower <= value <= worth.upper
    assert hits >= 49


@settings(max_examples=15)
@given(seeds)
def test_rows_never_seen_may_read_anything_inside_the_interval(seed):
    rng = np.random.default_rng(seed)
    log = log_of(clinic(), 6, seed=seed % 1000)
    found = lm.fit(log, reading="reading", horizon=3, observe_rewards=False)
    model, unseen = found.model, found.estimate.unseen
    policy = found.plan("mean", gap=0.1, draws=2).policy
    worth = found.evaluate(policy, draws=3, seed=1)
    most = float(found.estimate.unseen_high.max(initial=0.0))
    least = float(found.estimate.unseen_low.min(initial=0.0))
    for drawn, low, high in zip(found.sample(3, 1), worth.worst, worth.best, strict=True):
        c = pd.DataFrame(drawn.outcome_columns())
        row = (c["context"] * model.S + c["state"]) * model.A + c["action"]
        parts = [c[~row.isin(unseen)]]
        for at in unseen:
            m, s, a = np.unravel_index(at, (model.M, model.S, model.A))
            nxt, read = np.indices((model.S, model.readings)).reshape(2, -1)
            parts.append(pd.DataFrame(
                {"context": m, "state": s, "action": a, "next": nxt, "reading": read,
                 "prob": rng.dirichlet(np.full(len(nxt), 0.2)),
                 "reward": rng.choice([least, most])}
            ))  # fmt: skip
        c = pd.concat(parts)
        other = lm.LatentMDP.from_rows(
            c["context"], c["state"], c["action"], c["next"], c["prob"], c["reward"], drawn.w,
            drawn.nu, 3, reading=c["reading"], n_readings=model.readings, n_actions=model.A,
            max_return=None, observe_rewards=False, state_names=model.state_names,
            action_names=model.action_names, reading_names=model.reading_names,
        )  # fmt: skip
        value = lm.evaluate(other, policy).value
        assert low - 1e-9 <= value <= high + 1e-9


def test_contexts_that_differ_in_readings_alone_are_told_apart():
    Z = [[[0.8, 0.2]], [[0.3, 0.7]]]
    model = lm.LatentMDP(
        np.ones((2, 1, 1, 1)), np.zeros((2, 1, 1)), [0.5, 0.5], [1.0], 4, Z=Z,
        observe_rewards=False,
    )  # fmt: skip
    log = log_of(model, 200, names=False)
    assert lm.fit(log, reading="reading").summary().pairs[0].verdict == "told apart"
    assert lm.fit(log).summary().pairs[0].verdict != "told apart"


def test_ends_and_cut_steps_keep_their_readings():
    """Episodes end after a warning; those that were cut off went on, with the readings known."""
    log = pd.DataFrame(
        {"episode": [1, 1, 2, 3, 3], "context": "A", "state": "on", "action": "go",
         "reward": 0.0, "seen": ["fine", "alarm", "alarm", "fine", "fine"],
         "terminated": [False, True, True, False, False]}
    )  # fmt: skip
    found = lm.fit(log, reading="seen", prior=0.0)
    assert by_name(found) == {
        ("A", "on", "go", "on", "fine"): 2,
        ("A", "on", "go", "(end)", "alarm"): 2,
    }
    wanted = np.zeros((2, 2))  # 2 ends of 5 steps; where the last step of episode 3 led is unknown
    wanted[0, 1], wanted[1, 0] = 3 / 5, 2 / 5
    c = found.model.outcome_columns()
    first = c["state"] == 0
    have = np.zeros((2, 2))
    have[c["next"][first], c["reading"][first]] = c["prob"][first]
    np.testing.assert_allclose(have, wanted)
    bare = lm.fit(log[log["episode"] != 1].iloc[:2], reading="seen", prior=0.0)  # 1 end, 1 cut
    c = bare.model.outcome_columns()
    assert sorted(zip(c["next"], c["reading"], c["prob"], strict=True))[0][2] == 0.5


def test_empty_cells_are_doubtful_as_those_of_states():
    log = log_of(clinic(), 30)
    holes = log.astype({"reading": object})
    holes.loc[7, "reading"] = None
    with pytest.raises(lm.ModelError, match="'reading' must not be missing; it is in 1 row, first"):
        lm.fit(holes, reading="reading")
    cut = lm.fit(holes, reading="reading", on_bad="cut")
    assert cut.cut_episodes == 1
    assert cut.log.row_sums.count.sum() == len(log) - 3  # of episode 1 its first two steps
    assert lm.fit(holes, reading="reading", on_bad="skip").episodes == 29
    with pytest.raises(lm.ModelError, match="must be one of the names given as known"):
        lm.fit(log, reading="reading", known={"readings": ["nothing", "negative"]})


def test_a_row_with_another_reading_is_no_copy():
    log = pd.DataFrame(
        {"episode": 1, "step": [0, 0, 1], "context": "A", "state": "s", "action": "a",
         "reward": 0.0, "seen": ["x", "y", "x"]}
    )  # fmt: skip
    assert lm.fit(log[1:].assign(step=[0, 1]), reading="seen").rows == 2
    with pytest.raises(lm.ModelError, match="came again in 1 row"):
        lm.fit(log, reading="seen")
    with pytest.raises(lm.ModelError, match="must not equal the row before it"):
        lm.fit(log.assign(seen="x"), reading="seen")


def test_one_reading_says_nothing_and_parts_share_names():
    log = log_of(clinic(), 40)
    one = lm.fit(log.assign(reading="same"), reading="reading")
    assert one.model.readings == 1
    assert one.model.replace(reading_names=None) == lm.fit(log).model
    assert "1 reading," in one.summary().title
    whole = lm.fit(log, reading="reading")
    part = lm.fit(log[:5], reading="reading", known=whole.names, horizon=5)
    assert part.names == whole.names
    assert part.model.readings == 3
    split = lm.fit(log, reading="reading", holdout=0.5)
    assert split.held_out.names == split.names
    assert split.held_out.episodes + split.episodes == 40
    text = str(whole.summary())
    assert "a reading that the log has not shown" in text
    assert "3 readings, horizon 5" in text
    assert "3 readings" in repr(whole)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (lambda log: lm.fit(log, reading="no"), "a column 'no' for the reading"),
        (lambda log: lm.fit(log, reading="state"), "'state' was named twice"),
        (lambda log: lm.fit(log, reading="reading", context=None, contexts=2), "written down"),
        (lambda log: lm.fit(log, reading="reading", contexts=2), "written down"),
        (lambda log: lm.fit(log, known={"readings": NAMES}), "needs the column of the readings"),
        (lambda log: lm.fit(log, reading="reading").plan("pessimistic"), "has 3 readings"),
        (lambda log: lm.fit(log, reading="reading").counts, "has 3 readings"),
        (
            lambda log: lm.off_policy(log, lm.fit(log, reading="reading").plan("mean", draws=5)),
            r"off_policy needs .* 3 readings",
        ),
    ],
)
def test_what_cannot_take_readings_says_so(action, words):
    with pytest.raises(lm.ModelError, match=words):
        action(log_of(clinic(), 30))


def test_the_command_takes_a_column_of_readings(tmp_path, capsys):
    log = log_of(clinic(), 400).rename(columns={"reading": "seen"})
    log.to_csv(tmp_path / "log.csv", index=False)
    files = {name: str(tmp_path / name) for name in ("m.npz", "p.json", "page.html")}
    code = run(
        ["fit", str(tmp_path / "log.csv"), "--reading", "seen", "--out", files["m.npz"],
         "--policy", files["p.json"], "--report", files["page.html"], "--holdout", "0.5",
         "--time-limit", "5", "--json"]
    )  # fmt: skip
    assert code == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert "3 readings" in said["summary"]["title"]
    assert said["decision"]["direct"] is None
    found = lm.fit(log, reading="seen", holdout=0.5)
    model = lm.load(files["m.npz"])
    assert model == found.model
    assert model.reading_names == tuple(sorted(NAMES))
    assert "readings" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert run(["fit", str(tmp_path / "log.csv"), "--reading", "no"]) == 2
    assert "--reading" in capsys.readouterr().err
    assert run(["fit", str(tmp_path / "log.csv"), "--reading", "seen", "--plan", "--objective",
                "pessimistic"]) == 2  # fmt: skip
    assert "3 readings" in capsys.readouterr().err


def test_halves_of_the_counts_add_up_with_their_readings():
    log = lm.fit(log_of(clinic(), 60), reading="reading").log
    parts = halves(log, np.random.default_rng(0))
    total = np.zeros((2 * 2 * 3, log.S * log.readings), dtype=int)
    for part in parts:
        total[part.row, part.outcome] += part.sums.count
    assert total[log.row, log.outcome].tolist() == log.sums.count.tolist()
    assert total.sum() == log.sums.count.sum()
