"""Step-dependent models and terminal rewards against the oracle, and what they refuse."""

import numpy as np
import pytest
from strategies import random_model, random_policy
from timed_brute import (
    World,
    best_history_value,
    best_markov_value,
    mean_and_variance,
    returns,
)

import latentmdp as lm
from latentmdp.learning.simulation import simulate_counts, simulate_episodes
from latentmdp.planning import baselines
from latentmdp.policy.time_augmented import from_time_augmented, in_time_augmented


def worlds(seed, count, **fixed):
    rng = np.random.default_rng(seed)
    return [World.random(rng, **fixed) for _ in range(count)]


def check_against_oracle(world, exact_markov=True):
    """Both classes: optimum, value, variance, distribution, and that actions are available."""
    model = world.model()
    for policy_class, best in (("history", best_history_value), ("markov", best_markov_value)):
        if policy_class == "markov" and not exact_markov:
            continue
        plan = lm.plan(model, policy_class, gap=None)
        optimum = best(world)
        assert plan.lower == pytest.approx(optimum, abs=1e-8)
        assert plan.upper == pytest.approx(optimum, abs=1e-8)
        assert (plan.policy.S, plan.policy.H) == (world.S, world.H)
        for n in range(plan.policy.N):
            at = int(plan.policy.step[n]), int(plan.policy.state[n])
            assert plan.policy.action[n] in world.actions(*at)
        found = returns(world, plan.policy)
        mean, variance = mean_and_variance(found)
        evaluation = lm.evaluate(model, plan.policy)
        assert evaluation.value == pytest.approx(mean, abs=1e-10)
        assert evaluation.variance == pytest.approx(variance, abs=1e-10)
        totals, probabilities = lm.return_distribution(model, plan.policy)
        assert probabilities.sum() == pytest.approx(1.0)
        assert totals @ probabilities == pytest.approx(mean, abs=1e-10)
        assert (totals - mean) ** 2 @ probabilities == pytest.approx(variance, abs=1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_plans_and_evaluations_of_all_kinds_of_models(seed):
    for world in worlds(seed, 25):
        check_against_oracle(world, world.A ** (world.H * world.S) <= 512)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_plans_and_evaluations_of_thousands_of_models(seed):
    for world in worlds(1000 + seed, 100, M=3, S=2, A=3):
        check_against_oracle(world, world.A ** (world.H * world.S) <= 5000)


def test_random_policies_have_the_values_of_the_oracle():
    rng = np.random.default_rng(3)
    for world in worlds(4, 300, masked=False):
        model = world.model()
        policy = random_policy(rng, _Sizes(world, int(model.symbol.max()) + 1))
        mean, variance = mean_and_variance(returns(world, policy))
        evaluation = lm.evaluate(model, policy)
        assert evaluation.value == pytest.approx(mean, abs=1e-10)
        assert evaluation.variance == pytest.approx(variance, abs=1e-10)
        assert evaluation.alpha.shape == (policy.N, world.M)
        reach = lm.reach_weights(model, policy)
        last = policy.step == world.H - 1
        assert reach[last].sum(axis=0) == pytest.approx(np.array(world.w))
        pruned = policy.prune(model)
        assert lm.evaluate(model, pruned).value == pytest.approx(mean, abs=1e-10)


class _Sizes:
    """What `random_policy` reads of a model."""

    def __init__(self, world, symbols):
        self.H, self.S, self.A = world.H, world.S, world.A
        self.symbol = np.arange(symbols)


def repeated(model):
    """The model with its own `P` and `R` given for every step."""
    P, R = (np.broadcast_to(x, (model.H, *x.shape)) for x in (model.P, model.R))
    return lm.LatentMDP.from_arrays(
        P, R, model.w, model.nu, model.H, observe_rewards=model.observe_rewards,
        discount=model.discount, max_return=model.return_limit,
    )  # fmt: skip


def test_a_stationary_model_given_by_step_is_the_stationary_one():
    rng = np.random.default_rng(0)
    for _ in range(40):
        model = random_model(rng)
        timed = repeated(model)
        assert timed.steps == timed.H
        if model.H == 1:
            assert timed == model
            continue
        assert timed.sizes == model.sizes
        assert np.array_equal(timed.P[0], model.P)
        policy = random_policy(rng, model)
        a, b = lm.evaluate(model, policy), lm.evaluate(timed, policy)
        assert np.array_equal(a.alpha, b.alpha)
        assert (a.value, a.variance) == pytest.approx((b.value, b.variance), abs=1e-14)
        for policy_class in ("history", "markov"):
            one, other = (lm.plan(m, policy_class, gap=None) for m in (model, timed))
            assert one.lower == pytest.approx(other.lower, abs=1e-9)
        values, actions = lm.context_optimal(model)
        again, actions_again = lm.context_optimal(timed)
        assert np.allclose(values, again)
        assert actions.shape == actions_again.shape
        for name in ("wsu", "mean", "qmdp"):
            value = lm.evaluate(model, baselines.policy(name, model)).value
            assert lm.evaluate(timed, baselines.policy(name, timed)).value == pytest.approx(value)
        known = baselines.knowing_the_context
        assert known(timed) == pytest.approx(known(model))
        memory = [lm.evaluate(m, baselines.qmdp_memory(m)).value for m in (model, timed)]
        assert memory[0] == pytest.approx(memory[1])


def test_terminal_rewards_of_0_change_nothing():
    rng = np.random.default_rng(1)
    for _ in range(30):
        model = random_model(rng)
        timed = lm.LatentMDP.from_arrays(
            model.P, model.R, model.w, model.nu, model.H, observe_rewards=model.observe_rewards,
            discount=model.discount, max_return=None, terminal=np.zeros((model.M, model.S)),
        )  # fmt: skip
        policy = random_policy(rng, model)
        assert np.array_equal(lm.evaluate(model, policy).alpha, lm.evaluate(timed, policy).alpha)
        assert timed.replace(terminal=None) == model.replace(max_return=None)


@pytest.mark.parametrize("spec", ["garnet:states=3,horizon=3", "maze:size=3,blocked=1,horizon=3"])
def test_an_ordinary_model_takes_terminal_rewards(spec):
    model = lm.make(spec)
    terminal = np.random.default_rng(0).normal(size=(model.M, model.S))
    found = model.replace(terminal=terminal, max_return=None, discount=0.9)
    assert np.array_equal(found.terminal, terminal)
    assert (found.state_names, found.layout) == (model.state_names, model.layout)
    same = lm.LatentMDP.from_arrays(
        model.P, model.R, model.w, model.nu, 3, allowed=model.allowed, terminal=terminal,
        max_return=None, discount=0.9, layout=model.layout, state_names=model.state_names,
        action_names=model.action_names, context_names=model.context_names,
    )  # fmt: skip
    assert found.digest == same.digest
    assert repr(found) == repr(same)
    with pytest.raises(lm.ModelError, match=r"must be at least 0|at most max_return=1"):
        model.replace(terminal=terminal)
    with pytest.raises(lm.ModelError, match="must have a finite horizon; it is inf"):
        model.replace(terminal=terminal, horizon=np.inf, discount=0.9)
    assert model.replace(terminal=None) == model


def test_normalized_with_terminal_rewards_of_any_size():
    """Rounding of sums with them led below 0 or above 1, and the model was refused."""
    for seed in range(300):
        rng = np.random.default_rng(seed)
        M, S, A, H = (int(rng.integers(1, most)) for most in (3, 4, 3, 4))
        size = 10.0 ** rng.integers(-8, 9)
        R = rng.normal(size=(H, M, S, A))
        R[-1] -= size * rng.random() * rng.integers(2)
        model = lm.LatentMDP.from_arrays(
            rng.dirichlet(np.ones(S), (H, M, S, A)), R, rng.dirichlet(np.ones(M)), np.eye(S)[0], H,
            terminal=size * rng.normal(size=(M, S)), discount=rng.choice([1e-3, 0.5, 1.0]),
            max_return=None,
        )  # fmt: skip
        plan = lm.plan(model.normalized(), gap=None)
        assert -1e-12 <= plan.lower <= 1.0 + 1e-12
        expected = lm.plan(model, gap=None).lower
        assert plan.in_user_units().lower == pytest.approx(expected, abs=1e-9 * max(size, 1.0))


def test_a_terminal_reward_counts_the_discount_to_the_power_of_the_horizon():
    P, R = np.ones((1, 1, 1, 1)), np.zeros((1, 1, 1))
    model = lm.LatentMDP.from_arrays(
        P, R, [1.0], [[1.0]], 3, discount=0.5, max_return=None, terminal=[[8.0]]
    )
    assert lm.plan(model).lower == pytest.approx(0.5**3 * 8.0)
    assert model.R.tolist() == np.zeros((1, 1, 1)).tolist()
    assert model.replace(discount=1.0).max_return == 8.0
    assert lm.plan(model.replace(horizon=1)).lower == pytest.approx(4.0)
    assert lm.plan(model.replace(terminal=None)).lower == 0.0
    assert "terminal rewards" in repr(model)


def test_policies_of_the_time_augmented_model_and_back():
    rng = np.random.default_rng(5)
    for world in worlds(6, 60, timed=True, masked=False):
        model = world.model()
        policy = random_policy(rng, _Sizes(world, int(model.symbol.max()) + 1))
        unfolded = in_time_augmented(model, policy)
        assert (unfolded.N, unfolded.S) == (policy.N, model.time_augmented().S)
        back = from_time_augmented(model, unfolded)  # without observations that cannot be
        assert back.N == policy.N
        assert back.prune(model) == policy.prune(model)
        on_unrolled = random_policy(rng, model.time_augmented())
        folded = on_unrolled.for_model(model)
        values = [
            lm.evaluate(*x).value for x in ((model, folded), (model.time_augmented(), on_unrolled))
        ]
        assert values[0] == pytest.approx(values[1])
        assert lm.evaluate(model, on_unrolled).value == pytest.approx(values[0])


def test_the_largest_variance_of_step_dependent_models():
    for world in worlds(7, 12, H=2):
        model = world.model()
        for policy_class in ("history", "markov"):
            found = lm.max_variance(model, policy_class)
            assert found.lower == pytest.approx(lm.evaluate(model, found.policy).variance)
            rng = np.random.default_rng(8)
            for _ in range(30):
                table = [
                    [rng.choice(world.actions(t, s)) for s in range(world.S)]
                    for t in range(world.H)
                ]
                assert lm.evaluate(model, table).variance <= found.upper + 1e-9


def test_environments_have_the_law_of_the_evaluation():
    """False alarms: each mean is off by 5 standard errors with probability below 1e-6."""
    for i, world in enumerate(worlds(9, 12, timed=True)):
        model = world.model()
        policy = lm.plan(model, gap=None).policy
        evaluation = lm.evaluate(model, policy)
        n = 4000
        table = lm.rollout(model, policy, episodes=n, seed=i)
        totals = (table.reward * model.discount**table.step).groupby(table.episode).sum()
        slack = 5 * np.sqrt(evaluation.variance / n) + 1e-9
        assert abs(totals.mean() - evaluation.value) < slack
        steps = simulate_episodes(model, policy, n, seed=i)
        assert steps.states.max() < model.S
        totals = steps.rewards @ model.discount ** np.arange(model.H)
        assert abs(totals.mean() - evaluation.value) < slack
        counts = simulate_counts(model, policy, n, seed=i)
        assert counts.visits().sum() == n * model.H
        envs = lm.LatentMDPVectorEnv(model, 500)
        totals = np.zeros(500)
        state, _ = envs.reset(seed=i)
        node = policy.root[state]
        for t in range(model.H):
            state, reward, _, over, infos = envs.step(policy.action[node])
            totals += model.discount**t * reward
            assert over.all() == (t == model.H - 1)
            if t < model.H - 1:
                node = policy.successors(node, infos["symbol"], state)
        assert abs(totals.mean() - evaluation.value) < 5 * np.sqrt(evaluation.variance / 500) + 1e-9


def test_cursors_and_beliefs_go_by_the_step():
    for i, world in enumerate(worlds(10, 25, timed=True)):
        model = world.model()
        policy = lm.plan(model, gap=None).policy
        env = lm.LatentMDPEnv(model)
        for seed in range(5):
            state, _ = env.reset(seed=100 * i + seed)
            cursor, belief = policy.cursor(state), lm.initial_belief(model, state)
            for t in range(model.H):
                action = cursor.action
                following, reward, _, over, info = env.step(action)
                seen = {"reward": reward} if world.observed else {}
                belief = lm.update_belief(model, belief, state, action, following, step=t, **seen)
                assert belief is not None
                assert (cursor.observe(following, **seen) is None) == over
                state = following
            assert belief[info["context"]] > 0
        if model.changes_with_step:
            with pytest.raises(lm.ModelError, match="the step must be given"):
                lm.update_belief(model, np.array(world.w), 0, 0, 0, symbol=0)


def test_policies_from_beliefs_and_trees():
    for world in worlds(11, 20, timed=True, masked=False):
        model = world.model()
        A = world.A
        a = lm.PolicyGraph.from_belief(model, lambda t, s, b, A=A: (t + s) % A)
        table = [[(t + s) % world.A for s in range(world.S)] for t in range(world.H)]
        assert lm.evaluate(model, a).value == pytest.approx(lm.evaluate(model, table).value)
        tree = lm.PolicyGraph.from_tree(model, lambda h, A=A: (len(h) // 3 + h[-1]) % A)
        assert tree.S == world.S
        assert "digraph" in lm.plan(model).policy.to_dot(model)
        stationary = lm.PolicyGraph.from_table(table[:1] * world.H)
        assert lm.evaluate(model, table[0]).value == pytest.approx(
            lm.evaluate(model, stationary).value
        )


def test_normalised_models_go_back_to_their_units():
    rng = np.random.default_rng(12)
    for world in worlds(13, 60, masked=False):
        model = world.model()
        normal = model.normalized()
        policy = random_policy(rng, _Sizes(world, 1))
        raw, scaled = (lm.evaluate(m, policy) for m in (model, normal))
        assert normal.in_user_units(scaled.value) == pytest.approx(raw.value)
        rows = normal.time_augmented() if normal.changes_with_step else normal
        assert rows.reward.min() >= 0
        back = lm.evaluate(normal.denormalized(), policy)
        assert back.value == pytest.approx(raw.value)
        plan = lm.plan(normal, gap=None).in_user_units()
        assert plan.lower == pytest.approx(lm.plan(model, gap=None).lower, abs=1e-9)


def test_learning_refuses_them_and_takes_the_time_augmented_model():
    P = np.zeros((2, 2, 1, 2, 1))
    P[...] = 1.0
    R = np.zeros((2, 2, 1, 2))
    R[0, :, 0, 0] = R[1, 0, 0, 0] = R[1, 1, 0, 1] = 0.5
    model = lm.LatentMDP.from_arrays(P, R, [0.5, 0.5], [[1.0], [1.0]], 2)
    for refused in (
        lambda: lm.learn(model, "mvp", episodes=10),
        lambda: lm.Learner(model, episodes=10),
        lambda: lm.optimistic_plan(model, np.zeros((2, 1, 2, 1), dtype=int)),
    ):
        with pytest.raises(
            lm.ModelError, match=r"does not change with the step.*model\.time_augmented"
        ):
            refused()
    run = lm.learn(model.time_augmented(), "mvp", episodes=2000, bonus_scale=0.01, seed=0)
    best = lm.plan(model, "markov", gap=None)
    assert run.optimal == pytest.approx((best.lower, best.upper))
    assert lm.evaluate(model, run.policy).value == pytest.approx(run.final_value)
    assert run.policy.for_model(model).S == 1
    assert not lm.audit(run).bugs


def small(**options):
    P = np.full((2, 2, 2, 2, 2), 0.5)
    R = np.zeros((2, 2, 2, 2))
    given = {"P": P, "R": R, "w": [0.5, 0.5], "nu": [[1.0, 0.0]] * 2, "horizon": 2} | options
    return lm.LatentMDP.from_arrays(**given)


def broken(t, m, s, a):
    P = np.full((2, 2, 2, 2, 2), 0.5)
    P[t, m, s, a] = [0.5, 0.4]
    return P


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"P": broken(1, 0, 1, 0)}, r"at step 1: P\[m=0, s=1, a=0\] must sum to 1; .*0.9"),
        ({"horizon": 3}, "P must have one entry per step, H=3"),
        ({"horizon": np.inf, "discount": 0.5}, "must have a finite horizon"),
        ({"R": np.zeros((3, 2, 2, 2))}, r"R must have the shape .* to go with P"),
        ({"R": np.full((2, 2, 2, 2), -1.0)}, r"at step 0: R\[m=0, s=0, a=0\] must be at least 0"),
        ({"R": np.ones((2, 2, 2, 2))}, "must be at most max_return=1; context 0 can reach 2"),
        ({"R": np.full((2, 2, 2, 2), np.nan)}, r"at step 0: R\[m=0, .*must be finite"),
        ({"terminal": np.zeros((2, 3))}, r"terminal must have the shape \(2, 2\)"),
        ({"terminal": [[np.inf, 0], [0, 0]]}, "terminal.* must be finite"),
        ({"state_names": ["a"]}, "state_names must be 2 strings"),
        ({"allowed": np.zeros((2, 2, 2))}, "at step 0: every state must have an available"),
        ({"allowed": np.ones((3, 2, 2))}, r"\(H, S, A\) = \(2, 2, 2\)"),
        ({"w": [0.5, 0.6]}, "w must sum to 1"),
        ({"nu": [[1.0]]}, r"nu must have the shape \(2, 2\)"),
        ({"P": np.ones((2, 2, 2, 2, 3))}, r"P must have the shape \(H, M, S, A, S\)"),
    ],
)
def test_bad_input_is_named_by_step_and_state(options, sentence):
    with pytest.raises(lm.ModelError, match=sentence):
        small(**options)


def test_rows_by_step():
    rows = {"context": [0, 0], "state": [0, 0], "action": [0, 0], "next": [0, 0]}
    rows |= {"prob": [1.0, 1.0], "reward": [0.25, 0.5], "w": [1.0], "nu": [[1.0]]}
    model = lm.LatentMDP.from_rows(**rows, horizon=2, step=[1, 0])
    assert model.R.reshape(-1).tolist() == [0.5, 0.25]
    with pytest.raises(lm.ModelError, match="every step from 0 to 2 must have outcomes; step 2"):
        lm.LatentMDP.from_rows(**rows, horizon=3, step=[1, 0])
    with pytest.raises(lm.ModelError, match=r"step\[1\] must be from 0 to 1; it is 2"):
        lm.LatentMDP.from_rows(**rows, horizon=2, step=[1, 2])
    with pytest.raises(lm.ModelError, match=r"reward, step must have one length.*\[2, .*1\]"):
        lm.LatentMDP.from_rows(**rows, horizon=2, step=[1])
    with pytest.raises(lm.ModelError, match="must be at most its 2 steps; it is 3"):
        model.replace(horizon=3)
    with pytest.raises(lm.ModelError, match="replace knows"):
        model.replace(gamma=3)
    partial = rows | {"context": [0, 1], "w": [0.5, 0.5], "nu": [[1.0], [1.0]]}
    with pytest.raises(lm.ModelError, match=r"at step 0: P\[s=0, a=0\] must have outcomes in all"):
        lm.LatentMDP.from_rows(**partial, horizon=2, step=[1, 0])


def test_what_is_read_is_in_the_persons_terms():
    model = small(state_names=["warm", "cold"], terminal=[[0.0, 1.0], [0.0, 0.5]])
    assert repr(model).startswith("LatentMDP(M=2, S=2, A=2, H=2")
    text = str(model.describe())
    assert "2 states" in text
    assert "terminal rewards from 0 to 1" in text
    assert model.describe().rewards_differ == ()
    assert model.describe().alike == ((0,), (1,))  # since terminal rewards differ
    assert model.time_augmented().state_names == ("warm@0", "cold@0", "warm@1", "cold@1")
    assert (model == small(terminal=model.terminal), model == model.replace()) == (False, True)
    assert model.digest != small().digest
    frame = model.to_frame()
    assert (list(frame.step.unique()), frame.state[0]) == ([0, 1], "warm")
    for name in ("P", "R"):
        assert getattr(model, name).shape[:4] == (2, 2, 2, 2)
    fewer = model.replace(allowed=[[True, False], [True, True]])
    assert fewer.allowed.shape == (2, 2, 2)
    assert "2 of 8 actions unavailable" in repr(fewer)
    with pytest.raises(lm.ModelError, match="available"):
        lm.evaluate(fewer, [1, 1])


def test_nearly_right_rows_are_divided_and_named_by_step():
    with pytest.warns(UserWarning, match=r"at step 1: P\[m=0, s=1, a=0\]"):
        model = small(P=broken(1, 0, 1, 0), normalize=0.2)
    assert model.P[1, 0, 1, 0].sum() == pytest.approx(1.0)


def test_pictures_are_averages_over_the_steps(tmp_path):
    from latentmdp.drawing import draw_model, draw_policy

    model = small()
    assert "average of its steps" in draw_model(model).get_title()
    assert "step 1" in draw_policy(model, lm.plan(model).policy, 1).get_title()
    mean = model.mean_over_steps()
    assert np.allclose(mean.P, model.P.mean(axis=0))
    for mode in ("ansi", "rgb_array"):
        env = lm.LatentMDPEnv(model, render_mode=mode)
        env.reset(seed=0)
        env.step(0)
        assert len(env.render()) > 0
    maze = lm.make("maze:size=3,goals=2,horizon=4")
    timed = lm.LatentMDP.from_arrays(
        maze.P, maze.R, maze.w, maze.nu, 4, layout=maze.layout, max_return=None,
        terminal=np.ones((maze.M, maze.S)),
    )  # fmt: skip
    assert draw_policy(timed, lm.plan(timed).policy, 0) is not None
    assert lm.plot.maze(timed, lm.plan(timed).policy) is not None


def test_sizes_are_refused_before_anything_is_laid_out():
    P, R, nu = np.ones((2, 1, 1, 1)), np.zeros((2, 1, 1)), np.ones((2, 1))
    allowed = np.ones((3, 1, 1), dtype=bool)
    with pytest.raises(lm.ModelError, match=r"must have at most 2\^31 entries"):
        lm.LatentMDP.from_arrays(P, R, [0.5, 0.5], nu, 2**31, allowed=allowed)
    rows = {"context": [0], "state": [0], "action": [0], "next": [0], "prob": [1.0], "reward": [0]}
    with pytest.raises(lm.ModelError, match=r"must have at most \d+ rows; its 2147483648 steps"):
        lm.LatentMDP.from_rows(**rows, w=[1.0], nu=[[1.0]], horizon=2**31, step=[0])
    with pytest.raises(lm.ModelError, match=r"w must have the shape \(2,\)"):
        lm.LatentMDP.from_arrays(P, R, 1.0, nu, 3, terminal=np.zeros((2, 1)))


@pytest.mark.parametrize("on_transitions", [False, True])
def test_rewards_alone_may_change_with_the_step(on_transitions):
    rng = np.random.default_rng(1)
    H, M, S, A = 3, 2, 2, 4
    P = rng.dirichlet(np.ones(S), (M, S, A))
    R = rng.normal(size=(H, M, S, A, S) if on_transitions else (H, M, S, A))
    rest = {"w": [0.3, 0.7], "nu": [0.5, 0.5], "horizon": H, "max_return": None}
    model = lm.LatentMDP.from_arrays(P, R, **rest)
    assert model == lm.LatentMDP.from_arrays(np.stack([P] * H), R, **rest)
    assert model == lm.LatentMDP.from_arrays(P.tolist(), R.tolist(), **rest)
    assert np.array_equal(model.R, R)
    ended = lm.LatentMDP.from_arrays(P, R, terminal=np.ones((M, S)), **rest)
    assert np.array_equal(ended.R, R)


def test_rewards_with_four_axes_that_could_be_either_go_by_the_transitions():
    rng = np.random.default_rng(2)
    P, R = rng.dirichlet(np.ones(2), (2, 2, 2)), rng.normal(size=(2, 2, 2, 2))
    rest = {"w": [0.3, 0.7], "nu": [0.5, 0.5], "horizon": 2, "max_return": None}
    assert isinstance(lm.LatentMDP.from_arrays(P, R, **rest), lm.LatentMDP)
    ended = lm.LatentMDP.from_arrays(P, R, terminal=np.ones((2, 2)), **rest)
    assert np.array_equal(ended.R, R)
    assert np.array_equal(lm.LatentMDP.from_arrays(np.stack([P] * 2), R, **rest).R, R)


def test_availability_alone_may_change_with_the_step():
    rng = np.random.default_rng(3)
    H, M, S, A = 3, 2, 2, 2
    P, R = rng.dirichlet(np.ones(S), (M, S, A)), rng.normal(size=(M, S, A))
    allowed = np.ones((H, S, A), dtype=bool)
    allowed[1, 0, 1] = False
    rest = {"w": [0.3, 0.7], "nu": [0.5, 0.5], "horizon": H, "max_return": None, "allowed": allowed}
    model = lm.LatentMDP.from_arrays(P, R, **rest)
    assert np.array_equal(model.allowed, allowed)
    assert model == lm.LatentMDP.from_arrays(np.stack([P] * H), R, **rest)
    m, s, a, following = np.nonzero(P)
    rows = (m, s, a, following, P[m, s, a, following], R[m, s, a])
    assert model == lm.LatentMDP.from_rows(*rows, **rest)


def test_old_names_still_work_and_say_so():
    with pytest.warns(DeprecationWarning, match=r"latentmdp\.TimedLatentMDP is now .*LatentMDP"):
        assert lm.TimedLatentMDP is lm.LatentMDP
    model = small()
    with pytest.warns(DeprecationWarning, match=r"unrolled is now model\.time_augmented\(\)"):
        assert model.unrolled == model.time_augmented()
