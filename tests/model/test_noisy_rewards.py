"""Observed stochastic rewards: several rewards for one next state, each with its symbol."""

import json

import numpy as np
import pytest
from timed_brute import World, best_history_value, best_markov_value, mean_and_variance, returns

import latentmdp as lm
from latentmdp.commands.cli import run as command
from latentmdp.learning.simulation import simulate_counts, simulate_episodes
from latentmdp.model.counts import Counts
from latentmdp.planning import baselines


def coin(observed=True, p=0.8, **options):
    """One state; action 0 pays 0 or 1 by a coin that differs by context, action 1 pays 0.4."""
    rows = [
        (0, 0, 0, 0, p, 1.0), (0, 0, 0, 0, 1 - p, 0.0), (0, 0, 1, 0, 1.0, 0.4),
        (1, 0, 0, 0, 1 - p, 1.0), (1, 0, 0, 0, p, 0.0), (1, 0, 1, 0, 1.0, 0.4),
    ]  # fmt: skip
    columns = zip(*rows, strict=True)
    return lm.LatentMDP.from_rows(
        *columns, [0.5, 0.5], [[1.0], [1.0]], 3, observe_rewards=observed,
        **({"max_return": None} | options),
    )  # fmt: skip


def noisy(seed, count, **fixed):
    rng = np.random.default_rng(seed)
    found = [World.random(rng, noisy=True, timed=False, terminal=False, observed=True, **fixed)
             for _ in range(count)]  # fmt: skip
    return [(world, world.model()) for world in found]


def test_repeated_outcomes_are_several_outcomes():
    model = coin()
    assert model.stochastic_rewards
    assert (model.Gamma, model.branching) == (1, 2)
    assert model.P.tolist() == np.ones((2, 1, 2, 1)).tolist()
    assert model.R[:, 0, :, 0].tolist() == [[pytest.approx(0.8), 0.4], [pytest.approx(0.2), 0.4]]
    assert model.symbol[:2].tolist() == [0, 1]
    assert "random" in str(model.describe())
    assert model.describe().rewards_differ == ((0, 0),)
    assert model.describe().transitions_differ == ()


def test_learning_the_context_from_noisy_rewards_is_worth_something():
    seen, hidden = lm.plan(coin(), gap=None), lm.plan(coin(observed=False), gap=None)
    assert hidden.lower == pytest.approx(1.5)
    assert seen.lower > hidden.lower + 0.05
    first = lm.update_belief(coin(), np.array([0.5, 0.5]), 0, 0, 0, reward=1.0)
    assert first.tolist() == pytest.approx([0.8, 0.2])


def test_hidden_rewards_are_averaged_and_the_noise_is_not_in_the_variance():
    model = coin().replace(observe_rewards=False)
    assert model == coin(observed=False)
    assert not model.stochastic_rewards
    table = np.zeros((3, 1), dtype=int)
    seen, hidden = lm.evaluate(coin(), table), lm.evaluate(model, table)
    assert seen.value == pytest.approx(hidden.value)
    assert seen.variance == pytest.approx(hidden.variance + 3 * 0.8 * 0.2)


def test_plans_evaluations_and_bounds_against_the_oracle():
    for world, model in noisy(0, 60):
        exact = [best_history_value(world)]
        exact += [best_markov_value(world)] if world.A ** (world.H * world.S) <= 512 else []
        for policy_class, best in zip(("history", "markov"), exact, strict=False):
            plan = lm.plan(model, policy_class, gap=None)
            assert plan.lower == pytest.approx(best, abs=1e-8)
            assert plan.upper == pytest.approx(best, abs=1e-8)
            mean, variance = mean_and_variance(returns(world, plan.policy))
            evaluation = lm.evaluate(model, plan.policy)
            assert evaluation.value == pytest.approx(mean, abs=1e-10)
            assert evaluation.variance == pytest.approx(variance, abs=1e-10)
        averages = model.replace(observe_rewards=False)
        for name in ("wsu", "mean", "qmdp"):
            one, other = (baselines.policy(name, m) for m in (model, averages))
            assert one == other
        assert baselines.knowing_the_context(model) >= exact[0] - 1e-9


def test_the_methods_of_planning_agree():
    for world, model in noisy(1, 6, M=2, S=2, A=2, H=3):
        best = best_history_value(world)
        for method in ("layers", "grid"):
            plan = lm.plan(model, gap=None, method=method, time_limit=5.0)
            assert plan.lower <= best + 1e-9
            assert plan.upper >= best - 1e-9


def test_the_largest_variance():
    for world, model in noisy(2, 8, H=2):
        for policy_class in ("history", "markov"):
            found = lm.max_variance(model, policy_class)
            assert found.lower == pytest.approx(lm.evaluate(model, found.policy).variance)
            rng = np.random.default_rng(3)
            for _ in range(20):
                table = [
                    [rng.choice(world.actions(t, s)) for s in range(world.S)]
                    for t in range(world.H)
                ]
                assert lm.evaluate(model, table).variance <= found.upper + 1e-9


def test_everything_that_draws_has_the_law_of_the_evaluation():
    """False alarms: each mean is off by 5 standard errors with probability below 1e-6."""
    for i, (_, model) in enumerate(noisy(4, 12)):
        policy = lm.plan(model, gap=None).policy
        evaluation, n = lm.evaluate(model, policy), 4000
        slack = 5 * np.sqrt(evaluation.variance / n) + 1e-9
        weight = model.discount ** np.arange(model.H)
        steps = simulate_episodes(model, policy, n, seed=i)
        assert abs((steps.rewards @ weight).mean() - evaluation.value) < slack
        table = lm.rollout(model, policy, episodes=n, seed=i)
        totals = (table.reward * model.discount**table.step).groupby(table.episode).sum()
        assert abs(totals.mean() - evaluation.value) < slack
        counts = simulate_counts(model, policy, n, seed=i)
        assert counts.visits().sum() == n * model.H
        assert (counts.visits() > 0)[model.P == 0].sum() == 0
        if model.discount == 1.0:
            assert abs(counts.n_next @ model.reward / n - evaluation.value) < slack
        env = lm.LatentMDPEnv(model)
        for seed in range(3):
            state, _ = env.reset(seed=seed)
            cursor = policy.cursor(state)
            for _ in range(model.H):
                state, reward, _, _, info = env.step(cursor.action)
                before = cursor.policy.state[cursor.node], cursor.action
                assert model.symbol_of(*before, state, reward) == info["symbol"]
                cursor.observe(state, reward=reward)


def test_counts_by_outcome_add_up_to_visits():
    counts = Counts.for_model(coin())
    counts.n_next[:] = np.arange(1, len(counts.next) + 1)
    assert counts.visits().sum() == counts.n_next.sum()


def test_files_hold_them(tmp_path):
    for i, (_, model) in enumerate(noisy(5, 30)):
        for ending in ("npz", "json"):
            file = tmp_path / f"{i}.{ending}"
            lm.save(model, file)
            assert lm.load(file) == model
            assert lm.load(file, observe_rewards=False) == model.replace(observe_rewards=False)
    lm.save(coin(), tmp_path / "coin.csv")
    assert lm.load(tmp_path / "coin.csv") == coin()
    for ending in ("pomdp", "pomdpx"):
        file = tmp_path / f"coin.{ending}"
        lm.save(coin(), file)
        back = lm.load(file, horizon=4)
        assert lm.plan(back, gap=None).lower == pytest.approx(lm.plan(coin(), gap=None).lower)


def test_learning_names_the_remedies():
    model = coin().normalized()
    for refused in (
        lambda: lm.learn(model, "mvp", episodes=10),
        lambda: lm.Learner(model, episodes=10),
        lambda: lm.optimistic_plan(model, np.zeros((2, 1, 2, 1), dtype=int)),
    ):
        with pytest.raises(lm.ModelError, match=r"observe_rewards=False.*rewards_in_state\(\)"):
            refused()
    run = lm.learn(model.replace(observe_rewards=False), "mvp", episodes=500)
    assert run.optimal[0] == pytest.approx(0.5)


def test_rewards_in_the_state_are_the_same_problem():
    for _, model in noisy(6, 40):
        other = model.rewards_in_state()
        assert not other.stochastic_rewards
        for policy_class in ("history", "markov"):
            one, two = (lm.plan(m, policy_class, gap=None) for m in (model, other))
            if policy_class == "history":
                assert two.lower == pytest.approx(one.lower, abs=1e-8)
            else:
                assert two.lower >= one.lower - 1e-8  # the state remembers one reward
        assert baselines.knowing_the_context(other) == pytest.approx(
            baselines.knowing_the_context(model)
        )


def test_learning_with_the_rewards_in_the_state():
    model = coin(state_names=["here"]).normalized().rewards_in_state()
    assert model.S == 2
    assert model.state_names == ("here, reward 0", "here, reward 1")
    run = lm.learn(model, "mvp", episodes=5000, bonus_scale=0.01, policy_class="history")
    assert run.final_value <= run.optimal[1] + 1e-9
    assert run.optimal[0] == pytest.approx(lm.plan(coin().normalized(), gap=None).lower)
    assert not lm.audit(run).bugs
    plain = lm.make("bandit")
    assert lm.plan(plain.rewards_in_state(), gap=None).lower == pytest.approx(
        lm.plan(plain, gap=None).lower
    )


def test_rewards_that_are_equal_up_to_rounding_are_one_outcome():
    rows = dict(context=[0, 0, 0], state=[0] * 3, action=[0] * 3, next=[0] * 3)
    model = lm.LatentMDP.from_rows(
        **rows, prob=[0.25, 0.25, 0.5], reward=[0.3, 0.1 + 0.2, 0.0], w=[1.0], nu=[[1.0]], horizon=1
    )
    assert model.prob.tolist() == [0.5, 0.5]
    assert model.reward.tolist() == pytest.approx([0.3, 0.0])
    same = lm.LatentMDP.from_rows(
        **rows, prob=[0.25, 0.25, 0.5], reward=[0.3, 0.1 + 0.2, 0.3], w=[1.0], nu=[[1.0]], horizon=1
    )
    assert not same.stochastic_rewards


def test_commands_take_them(tmp_path, capsys):
    lm.save(coin(), tmp_path / "coin.csv")
    assert command(["plan", str(tmp_path / "coin.csv"), "--json", "--gap", "none"]) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["lower"] == pytest.approx(lm.plan(coin(), gap=None).lower)
    assert command(["show", str(tmp_path / "coin.csv")]) == 0
    assert command(["learn", str(tmp_path / "coin.csv"), "--normalize", "-k", "10"]) == 2
    assert "--hidden-rewards" in capsys.readouterr().err
    words = ["learn", str(tmp_path / "coin.csv"), "--normalize", "-k", "10", "--hidden-rewards"]
    assert command([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["optimal_lower"] == pytest.approx(1.5)
