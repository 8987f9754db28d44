"""What logs say about other policies: by names, with behaviour given or estimated, or a warning."""

import numpy as np
import pandas as pd
import pytest
from cli_answers import last_json, only_line

import latentmdp as lm
from latentmdp.commands import cli
from latentmdp.errors import ModelError, OffPolicyWarning
from latentmdp.fitting.off_policy.estimate import off_policy


@pytest.fixture(scope="module")
def model():
    return lm.make("bandit:arms=2,contexts=2,horizon=3,seed=0")


def random_log(model, episodes, seed=0):
    """Episodes of uniformly random actions, with their probability in a column."""
    env = lm.LatentMDPEnv(model)
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(episodes):
        state, _ = env.reset(seed=episode)
        done, steps = False, []
        while not done:
            action = int(rng.integers(model.A))
            after, reward, terminated, truncated, info = env.step(action)
            steps.append((episode, int(state), action, reward, int(after)))
            state, done = after, terminated or truncated
        rows += [(*step, info["context"]) for step in steps]
    names = ["episode", "state", "action", "reward", "next_state", "context"]
    return pd.DataFrame(rows, columns=names).assign(chance=1.0 / model.A)


@pytest.fixture(scope="module")
def log(model):
    return random_log(model, 1500)


@pytest.mark.parametrize("method", ["dr", "pdis", "is", "wis", "model"])
def test_every_method_is_near_the_truth(model, log, method):
    plan = lm.plan(model, gap=None)
    truth = plan.lower
    found = off_policy(log, plan, method=method)
    assert found.lower <= found.value <= found.upper
    assert abs(found.value - truth) < 0.1
    assert found.episodes == 1500
    assert found.method in str(found)


def test_the_doubly_robust_estimate_is_the_narrowest_of_the_unbiased_ones(model, log):
    plan = lm.plan(model, gap=None)
    width = {
        m: (found := off_policy(log, plan, "chance", m)).upper - found.lower
        for m in ("dr", "pdis", "is")
    }
    assert width["dr"] <= width["pdis"] <= width["is"]


def test_behaviour_from_a_column_a_table_and_the_log_agree(model, log):
    plan = lm.plan(model, gap=None)
    by_column = off_policy(log, plan, "chance", "is")
    by_table = off_policy(log, plan, np.full((model.S, model.A), 0.5), "is")
    estimated = off_policy(log, plan, None, "is")
    assert by_column.value == by_table.value
    assert abs(by_column.value - estimated.value) < 0.1


def test_the_policy_of_the_log_itself_is_its_mean(model):
    plan = lm.plan(model, gap=None)
    log = lm.rollout(model, plan, episodes=500, seed=1)
    mean = log.groupby("episode")["reward"].sum().mean()
    for method in ("is", "wis", "pdis"):
        found = off_policy(log, plan, np.ones((model.S, model.A)), method)
        assert found.value == pytest.approx(mean)
        assert found.effective_episodes == pytest.approx(500)


def test_names_are_those_of_the_model():
    P = np.zeros((2, 2, 2, 2))
    P[0, :, 0, 0] = P[0, :, 1, 1] = P[1, :, 0, 1] = P[1, :, 1, 0] = 1.0
    R = np.zeros((2, 2, 2))
    R[:, 1] = 0.25
    named = lm.LatentMDP.from_arrays(
        P, R, [0.5, 0.5], [[1, 0], [1, 0]], 4, state_names=("cold", "hot"),
        action_names=("wait", "push"), context_names=("plain", "odd"),
    )  # fmt: skip
    plan = lm.plan(named, gap=None)
    log = lm.rollout(named, plan, episodes=50, seed=0, names=True).drop(columns="belief")
    found = off_policy(log, plan, np.ones((2, 2)), "is")
    mean = log.groupby("episode")["reward"].sum().mean()
    assert found.value == pytest.approx(mean)
    with pytest.raises(ModelError, match="one of the names given as known"):
        off_policy(log.replace("hot", "warm"), plan)


def test_a_policy_that_nobody_played_gets_a_warning(model):
    log = lm.rollout(model, np.zeros((model.H, model.S), dtype=int), episodes=50, seed=0)
    other = np.ones((model.H, model.S), dtype=int)
    with pytest.warns(OffPolicyWarning, match="says nothing"):
        found = off_policy(log, other, method="is", model=model)
    assert np.isnan(found.value)
    assert (found.lower, found.upper) == (-np.inf, np.inf)
    assert found.effective_episodes == 0.0


def test_few_episodes_get_a_warning(model, log):
    with pytest.warns(OffPolicyWarning, match="says little"):
        off_policy(log[log.episode < 40], lm.plan(model, gap=None), "chance", "is")


def test_without_contexts_the_belief_stands_in(model, log):
    plan = lm.plan(model, gap=None)
    found = off_policy(log.drop(columns="context"), plan, "chance", "dr")
    assert abs(found.value - plan.lower) < 0.1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "magic"}, "method must be one of"),
        ({"level": 1.0}, "level must lie"),
        ({"behaviour": "nobody"}, "must have a column 'nobody'"),
        ({"behaviour": np.zeros((1, 1))}, "behaviour must be a column's name or"),
        ({"behaviour": "reward"}, "behaviour must be the probability"),
        ({"on_bad": "x"}, "on_bad must be"),
        ({"policy": np.zeros(3, dtype=int), "model": None}, "needs the model"),
        ({"reward": "x"}, "column 'x' for the reward"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(model, log, change, words):
    arguments = {"policy": lm.plan(model, gap=None), **change}
    with pytest.raises(ModelError, match=words):
        off_policy(log, **arguments)


def test_longer_episodes_than_the_policy_are_refused(model, log):
    short = lm.plan(model.replace(horizon=2), gap=None)
    with pytest.raises(ModelError, match="at most H=2 steps"):
        off_policy(log, short)


def test_the_command_says_the_same(model, log, tmp_path, capsys):
    plan = lm.plan(model, gap=None)
    log.to_csv(tmp_path / "log.csv", index=False)
    lm.save(model, tmp_path / "model.npz")
    lm.save_policy(plan.policy, tmp_path / "policy.json")
    words = ["off-policy", *(str(tmp_path / x) for x in ("log.csv", "model.npz", "policy.json"))]
    assert cli.run([*words, "--behaviour", "chance", "--json"]) == 0
    found = last_json(capsys.readouterr().out)
    assert found["value"] == off_policy(log, plan, "chance").value
    assert cli.run([*words, "--behaviour", "chance"]) == 0
    assert "effective episodes of 1,500" in capsys.readouterr().out
    code = cli.run([*words, "--method", "magic"])
    assert "method must be one of" in only_line(code, *capsys.readouterr())
