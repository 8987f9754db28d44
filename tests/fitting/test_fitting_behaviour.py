"""How the actions of a log were chosen: estimated from it, given, and tested for history."""

import json
import warnings
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest

import latentmdp as lm
from latentmdp.commands.cli import run
from latentmdp.errors import ModelError, OffPolicyWarning
from latentmdp.fitting.off_policy import behaviour as parts
from latentmdp.fitting.off_policy.behaviour import CHAINS, FOLDS, SMOOTHING, estimated_behaviour
from latentmdp.fitting.reading.episodes import Episodes

SHAPES = {
    "nothing": (1, 1, 1), "state": (1, 1, None), "step and state": (None, 1, None),
    "context and state": (1, None, None), "context, step and state": (None, None, None),
}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return lm.make("garnet:contexts=2,states=3,actions=2,horizon=4,seed=1")


def made_by(model, behaviour, episodes, seed=0, repeats=0.0):
    """A log whose actions have the probabilities `behaviour (H, M, S, A)`.

    `repeats`: the chance that an action is the previous one again, whatever `behaviour` says.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for e in range(episodes):
        m = rng.choice(model.M, p=model.w)
        s, a = rng.choice(model.S, p=model.nu[m]), None
        for t in range(model.H):
            if a is None or rng.random() >= repeats:
                a = rng.choice(model.A, p=behaviour[t, m, s])
            after = rng.choice(model.S, p=model.P[m, s, a])
            rows.append((e, t, m, s, a, float(model.R[m, s, a]), after, behaviour[t, m, s, a]))
            s = after
    names = ["episode", "step", "context", "state", "action", "reward", "next_state", "chance"]
    return pd.DataFrame(rows, columns=names)


def random_behaviour(model, shape, seed=0):
    """`(H, M, S, A)` that varies along the axes whose entry in `shape` is None."""
    sizes = [n if k is None else k for n, k in zip((model.H, model.M, model.S), shape, strict=True)]
    shares = 0.1 + 0.8 * np.random.default_rng(seed).dirichlet(np.full(model.A, 0.5), size=sizes)
    shares /= shares.sum(axis=-1, keepdims=True)
    return np.broadcast_to(shares, (model.H, model.M, model.S, model.A))


def episodes_of(log, A=2):
    first = np.flatnonzero(np.r_[True, np.diff(log["episode"]) != 0])
    n = len(first)
    column = {name: log[name].to_numpy() for name in log}
    return Episodes(
        np.append(first, len(log)), column["episode"][first], column["context"][first],
        np.zeros(n), column["state"], column["action"], column["reward"], column["next_state"],
        np.zeros(len(log), dtype=int), {},
    )  # fmt: skip


def test_the_policy_of_the_log_itself_is_covered_by_every_method(model):
    """By state alone `is` and `pdis` covered in none of 20 logs of a policy by step."""
    table = np.random.default_rng(0).integers(0, model.A, (model.H, model.S))
    assert (table != table[0]).any()
    truth = lm.evaluate(model, table).value
    covers = dict.fromkeys(("is", "pdis", "wis", "dr"), 0)
    for seed in range(20):
        log = lm.rollout(model, table, episodes=300, seed=seed)
        for method in covers:
            found = lm.off_policy(log, table, method=method, model=model)
            covers[method] += found.lower <= truth <= found.upper
    assert min(covers.values()) >= 16  # fewer: with chance 2e-3 per method, of 95% intervals


@pytest.mark.filterwarnings("ignore::latentmdp.errors.OffPolicyWarning")
@pytest.mark.parametrize("kind", SHAPES)
def test_the_features_that_matter_are_found_and_said(model, kind):
    behaviour = random_behaviour(model, SHAPES[kind], seed=3)
    log = made_by(model, behaviour, 600)
    found = estimated_behaviour(episodes_of(log), model.A)
    words = "the same in all states" if kind == "nothing" else f"by {kind}"
    assert words in found.said
    assert np.abs(found.probability - log["chance"]).mean() < 0.05
    assert not found.warning
    assert words in str(lm.off_policy(log, lm.plan(model)))


@pytest.mark.parametrize("smoothing", [SMOOTHING[0], 2.0])
@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: "+".join(chain[-1]))
def test_shares_are_those_of_a_slow_twin(model, chain, smoothing):
    """In Python, with dictionaries; and over all actions they sum to 1."""
    log = made_by(model, random_behaviour(model, (None, None, None)), 40)
    episodes = episodes_of(log)
    fold = parts._folds(episodes.key)[episodes.owner]
    features = {name: log[name].to_numpy() for name in ("context", "step", "state")}
    rows, place = parts._distinct(features, episodes.action, fold, model.A)
    for held_out in (False, True):
        counts = [parts._counts(rows, level, held_out=held_out) for level in chain]
        found = parts._smoothed(counts, model.A, smoothing)[place]
        for i in range(0, len(log), 7):
            seen = [j for j in range(len(log)) if not held_out or fold[j] != fold[i]]
            share = np.full(model.A, 1.0 / model.A)
            for level in chain:
                cell = defaultdict(lambda: np.zeros(model.A))
                for j in seen:
                    cell[tuple(features[name][j] for name in level)][episodes.action[j]] += 1
                n = cell[tuple(features[name][i] for name in level)]
                share = (n + smoothing * share) / (n.sum() + smoothing)
            assert share.sum() == pytest.approx(1.0)
            assert 0.0 < found[i] == pytest.approx(share[episodes.action[i]], rel=1e-12)


def test_folds_are_even_and_go_by_ids_alone():
    keys = np.arange(23) * 1_000_003
    fold = parts._folds(keys)
    assert sorted(np.bincount(fold, minlength=FOLDS)) == [4, 4, 5, 5, 5]
    turned = np.random.default_rng(0).permutation(23)
    assert np.array_equal(parts._folds(keys[turned]), fold[turned])


@pytest.mark.filterwarnings("ignore::latentmdp.errors.OffPolicyWarning")
def test_the_order_of_episodes_does_not_matter(model):
    log = made_by(model, random_behaviour(model, (None, 1, None)), 100)
    order = np.random.default_rng(1).permutation(100)
    turned = pd.concat([log[log["episode"] == e] for e in order])
    plan = lm.plan(model)
    first, second = (lm.off_policy(x, plan, method="pdis") for x in (log, turned))
    assert first.value == pytest.approx(second.value, rel=1e-12)
    assert first.behaviour == second.behaviour


def test_actions_that_depend_on_the_previous_one_are_noticed(model):
    log = made_by(model, random_behaviour(model, (1, 1, None)), 300, repeats=0.7)
    plan = lm.plan(model)
    with pytest.warns(OffPolicyWarning, match="actions depend on more than .*previous action"):
        found = lm.off_policy(log, plan, method="pdis")
    assert "give the true ones by behaviour=" in found.warning
    assert "no dependence" not in found.behaviour
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OffPolicyWarning)
        given = lm.off_policy(log, plan, "chance", "pdis")
    assert "depend" not in given.warning  # a given behaviour is not questioned
    assert given.behaviour == "given by column 'chance'"


def test_history_is_seldom_suspected_where_there_is_none(model):
    suspected = 0
    for seed in range(60):
        shape = list(SHAPES.values())[seed % len(SHAPES)]
        log = made_by(model, random_behaviour(model, shape, seed), 80, seed)
        suspected += bool(estimated_behaviour(episodes_of(log), model.A).history)
    assert suspected <= 3


def test_one_episode_has_a_behaviour_too(model):
    log = made_by(model, random_behaviour(model, (1, 1, 1)), 1)
    found = estimated_behaviour(episodes_of(log), model.A)
    assert (found.probability > 0.0).all()
    assert (found.probability <= 1.0).all()


@pytest.mark.filterwarnings("ignore::latentmdp.errors.OffPolicyWarning")
def test_tables_by_context_and_by_step_are_taken(model):
    behaviour = random_behaviour(model, (None, None, None))
    log = made_by(model, behaviour, 200)
    plan = lm.plan(model)
    by_column = lm.off_policy(log, plan, "chance", "pdis")
    by_table = lm.off_policy(log, plan, behaviour, "pdis")
    assert by_table.value == pytest.approx(by_column.value, rel=1e-12)
    assert by_table.behaviour == "given by step, context and state"
    by_context = random_behaviour(model, (1, None, None))
    log = made_by(model, by_context, 200)
    found = lm.off_policy(log, plan, by_context[0], "pdis")
    assert found.value == pytest.approx(lm.off_policy(log, plan, "chance", "pdis").value)
    with pytest.raises(ModelError, match="needs the context of every episode; episode 0"):
        lm.off_policy(log.drop(columns="context"), plan, by_context[0], "pdis")


def test_a_policy_is_taken_as_behaviour(model):
    plan = lm.plan(model)
    log = lm.rollout(model, plan, episodes=100, seed=0)
    mean = log.groupby("episode")["reward"].sum().mean()
    for policy in (plan, plan.policy):
        found = lm.off_policy(log, plan, policy, "is")
        assert found.value == pytest.approx(mean)
        assert found.behaviour == "given by a policy"
    table = np.random.default_rng(0).integers(0, model.A, (model.H, model.S))
    log = lm.rollout(model, table, episodes=100, seed=0)
    found = lm.off_policy(log, table, table, "is", model=model)
    assert found.value == pytest.approx(log.groupby("episode")["reward"].sum().mean())


def test_the_first_row_against_a_behaviour_policy_is_named(model):
    table = np.zeros((model.H, model.S), dtype=int)
    log = lm.rollout(model, table, episodes=30, seed=0)
    wrong = (log["episode"] == 12) & (log["step"] >= 2)
    log.loc[wrong, "action"] = 1
    state = model.state_names[log[wrong].iloc[0]["state"]]
    words = f"in step 2 of episode 12 .*, in state '{state}', the log has action 'a1'"
    with pytest.raises(ModelError, match=words):
        lm.off_policy(log, table, table, "is", model=model)


@pytest.mark.filterwarnings("ignore::latentmdp.errors.OffPolicyWarning")
def test_whole_numbers_that_could_mean_both_are_refused():
    square = lm.make("garnet:contexts=2,states=2,actions=2,horizon=2,seed=1")
    table = np.zeros((2, 2), dtype=int)
    log = lm.rollout(square, table, episodes=5, seed=0)
    with pytest.raises(ModelError, match="whole numbers may be actions"):
        lm.off_policy(log, table, table, "is", model=square)
    found = lm.off_policy(log, table, lm.PolicyGraph.from_table(table), "is", model=square)
    assert found.effective_episodes == pytest.approx(5.0)


def test_a_value_that_no_policy_can_have_is_said_to_be_impossible(model):
    plan = lm.plan(model)
    log = lm.rollout(model, plan, episodes=50, seed=0).assign(chance=1e-4)
    with pytest.warns(OffPolicyWarning, match="is impossible"):
        found = lm.off_policy(log, plan, "chance", "pdis")
    assert found.value > model.max_return


def test_the_command_takes_a_policy_and_says_what_was_assumed(model, tmp_path, capsys):
    plan = lm.plan(model)
    log = lm.rollout(model, plan, episodes=100, seed=0).drop(columns="belief")
    log.to_csv(tmp_path / "log.csv", index=False)
    lm.save(model, tmp_path / "model.npz")
    lm.save_policy(plan.policy, tmp_path / "policy.json")
    words = ["off-policy", *(str(tmp_path / x) for x in ("log.csv", "model.npz", "policy.json"))]
    assert run([*words, "--behaviour", str(tmp_path / "policy.json"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["behaviour"] == "given by a policy"
    assert found["effective_episodes"] == pytest.approx(100)
    assert run(words) == 0
    assert "behaviour estimated by" in " ".join(capsys.readouterr().out.split())


def test_a_table_may_leave_out_the_end_that_fit_adds(model):
    """The log has three states; its fit has the end of episodes as a fourth."""
    behaviour = random_behaviour(model, (1, None, None))
    log = made_by(model, behaviour, 400)
    log = log[log["step"] < 1 + log["episode"] % 4].drop(columns="next_state")
    found = lm.fit(log)
    assert found.model.S == 4
    table = np.zeros((found.model.H, found.model.S), dtype=int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OffPolicyWarning)
        given, by_column = (lm.off_policy(log, table, x, "pdis", model=found.model)
                            for x in (behaviour[0], "chance"))  # fmt: skip
    assert given.value == pytest.approx(by_column.value)
