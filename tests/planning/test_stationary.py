"""Models without a last step and stationary policies: built, evaluated, merged, played, saved."""

import math

import numpy as np
import pytest
from stationary_brute import chains, endless, random_controller, sampled_mean

import latentmdp as lm
from latentmdp.evaluation import discounted as evaluation_stationary
from latentmdp.policy.graph import PolicyGraph


@pytest.fixture
def model():
    spec = "garnet:contexts=3,states=4,actions=2,branching=2,shared_support=1"
    return lm.make(spec).replace(discount=0.9, horizon=math.inf)


# ---------------------------------------------------------------- models


def test_an_infinite_horizon_needs_a_discount():
    with pytest.raises(lm.ModelError, match="discount must be below 1"):
        lm.make("riverswim").replace(horizon=math.inf)
    with pytest.raises(lm.ModelError, match="whole number"):
        lm.make("riverswim").replace(horizon=math.nan, discount=0.9)
    with pytest.raises(lm.ModelError, match="whole number"):
        lm.make("riverswim").replace(horizon=-math.inf, discount=0.9)


def test_totals_are_those_of_a_long_horizon():
    rng = np.random.default_rng(0)
    for _ in range(60):
        model = endless(rng, discounts=(0.5, 0.9, 0.99))
        long = model.replace(horizon=int(40 / (1 - model.discount)))
        scale = max(abs(long.min_return), abs(long.max_return), 1e-300)
        assert model.max_return == pytest.approx(long.max_return, abs=1e-9 * scale)
        assert model.min_return == pytest.approx(long.min_return, abs=1e-9 * scale)
        assert model.max_return >= long.max_return - 1e-13 * scale  # on the safe side
        assert model.min_return <= long.min_return + 1e-13 * scale


def test_the_limit_on_totals_holds_without_end():
    P, R = [[[[1.0]]]], [[[0.1]]]
    make = lm.LatentMDP.from_arrays
    assert make(P, R, [1.0], [[1.0]], math.inf, discount=0.9).max_return == 1.0
    with pytest.raises(lm.ModelError, match=r"at most max_return=1; context 0 can reach 1\.0001"):
        make(P, R, [1.0], [[1.0]], math.inf, discount=0.90001)
    normal = make(P, [[[-3.0]]], [1.0], [[1.0]], math.inf, discount=0.9, max_return=None)
    value = lm.evaluate(normal.normalized(), np.zeros((1, 1), dtype=int)).value
    assert normal.normalized().in_user_units(value) == pytest.approx(-30.0)


@pytest.mark.parametrize("ending", ["npz", "json"])
def test_models_there_and_back(tmp_path, model, ending):
    lm.save(model, tmp_path / f"m.{ending}")
    back = lm.load(tmp_path / f"m.{ending}")
    assert back == model
    assert back.horizon == math.inf
    assert lm.load(tmp_path / f"m.{ending}", horizon=7).horizon == 7


def test_models_in_csv_and_for_other_solvers(tmp_path, model):
    uniform = model.replace(w=[1 / 3] * 3, observe_rewards=False)
    lm.save(uniform, tmp_path / "m.csv")
    assert lm.load(tmp_path / "m.csv").horizon == math.inf
    want = lm.plan(uniform, gap=1e-3).lower
    for ending in ("pomdpx", "pomdp"):
        lm.save(uniform, tmp_path / f"m.{ending}")
        back = lm.load(tmp_path / f"m.{ending}")
        assert back.horizon == math.inf
        assert lm.plan(back, gap=1e-3).lower == pytest.approx(want, rel=1e-3)


def test_what_counts_steps_refuses_in_one_sentence(model):
    policy = PolicyGraph.from_table([0] * 4, stationary=True)
    asked = [
        lambda: lm.learn(model, "mvp", 10),
        lambda: lm.Learner(model, "mvp", episodes=10),
        lambda: lm.return_distribution(model, policy),
        lambda: lm.context_optimal(model),
        lambda: lm.max_variance(model),
        lambda: PolicyGraph.from_tree(model, lambda history: 0),
        lambda: PolicyGraph.from_belief(model, lambda t, s, b: 0),
        lambda: lm.optimistic_plan(model, np.ones((3, 4, 2, 4), dtype=int), "mvp"),
    ]
    for ask in asked:
        with pytest.raises(lm.ModelError, match=r"needs a finite horizon; .*replace\(horizon=H\)"):
            ask()


# ---------------------------------------------------------------- evaluation


@pytest.mark.parametrize("factored", [True, False])
def test_evaluation_is_the_dense_systems_solution(monkeypatch, factored):
    monkeypatch.setattr(evaluation_stationary, "MOST_FACTORED", 10**6 if factored else 0)
    rng = np.random.default_rng(1)
    for _ in range(50):
        model = endless(rng)
        policy = random_controller(rng, model)
        P, r = chains(model, policy)
        found = lm.evaluate(model, policy)
        eye = np.eye(policy.N)
        scale = 1e-12 * max(1.0, float(np.abs(r).max()) / (1 - model.discount))
        for m in range(model.M):
            alpha = np.linalg.solve(eye - model.discount * P[m], r[m])
            assert found.alpha[:, m] == pytest.approx(alpha, abs=scale)
            start = np.zeros(policy.N)
            np.add.at(start, policy.root, model.w[m] * model.nu[m])
            reach = np.linalg.solve(eye - model.discount * P[m].T, start)
            got = lm.reach_weights(model, policy)[:, m]
            assert got == pytest.approx(reach, abs=1e-11 / (1 - model.discount))
            steps = np.linalg.matrix_power(P[m] + eye, policy.N)
            assert ((got > 0) == (start @ steps > 0)).all()


def test_value_and_variance_are_those_of_many_steps():
    rng = np.random.default_rng(2)
    for _ in range(50):
        model = endless(rng, discounts=(0.3, 0.6))
        policy = random_controller(rng, model)
        found = lm.evaluate(model, policy)
        cut = lm.evaluate(model.replace(horizon=80), policy)
        scale = 1e-9 * max(1.0, abs(model.max_return), abs(model.min_return)) ** 2
        assert found.value == pytest.approx(cut.value, abs=scale)
        assert found.variance == pytest.approx(cut.variance, abs=scale)
        assert found.contexts == pytest.approx(cut.contexts, abs=scale)
        assert found.context_variances == pytest.approx(cut.context_variances, abs=scale)
        assert found.alpha == pytest.approx(cut.alpha, abs=scale)


def test_a_stationary_policy_in_a_finite_model_is_its_table_repeated(model):
    table = np.array([0, 1, 1, 0])
    finite = model.replace(horizon=6)
    got = lm.evaluate(finite, PolicyGraph.from_table(table, stationary=True))
    want = lm.evaluate(finite, PolicyGraph.from_table(np.tile(table, (6, 1))))
    assert got.value == want.value
    assert got.alpha.shape == (4, 3)
    assert np.array_equal(got.alpha, want.alpha[:4])
    totals, _ = lm.return_distribution(finite, PolicyGraph.from_table(table, stationary=True))
    assert len(totals) > 1


# ---------------------------------------------------------------- graphs


def test_merging_keeps_what_a_policy_does_and_is_minimal():
    rng = np.random.default_rng(3)
    for _ in range(50):
        model = endless(rng)
        policy = random_controller(rng, model)
        doubled = _doubled(policy)
        merged, again = policy.merge(), doubled.merge()
        value = lm.evaluate(model, policy).value
        assert lm.evaluate(model, doubled).value == pytest.approx(value, abs=1e-11)
        for graph in (merged, again, policy.prune(), policy.prune(model), merged.prune(model)):
            assert graph.stationary
            assert lm.evaluate(model, graph).value == pytest.approx(value, abs=1e-11)
        assert merged.N <= policy.N
        assert again.N == merged.N
        assert merged.merge().N == merged.N


def _doubled(policy):
    """The policy with a copy of each node, and edges that lead to copies now and then."""
    N, E = policy.N, len(policy.node)
    node = np.append(
        policy.node + N * (np.arange(E) % 2), policy.node + N * (np.arange(E) % 3 == 0)
    )
    indptr = np.append(policy.indptr, policy.indptr[1:] + E)
    two = lambda x: np.append(x, x)  # noqa: E731
    return PolicyGraph.from_arrays(
        two(policy.step), two(policy.state), two(policy.action), indptr, two(policy.symbol),
        two(policy.next), node, policy.root + N, policy.default, stationary=True,
    )  # fmt: skip


def test_policies_there_and_back(tmp_path, model):
    rng = np.random.default_rng(4)
    policy = random_controller(rng, model)
    table = PolicyGraph.from_table([[1, 0, 1, 0]], stationary=True)
    for graph, endings in ((policy, ("json", "npz")), (table, ("json", "npz", "csv"))):
        for ending in endings:
            graph.save(tmp_path / f"p.{ending}")
            back = PolicyGraph.load(tmp_path / f"p.{ending}")
            assert back == graph
            assert back.stationary
    assert table.is_markov
    assert table.table.tolist() == [[1, 0, 1, 0]]
    assert table != PolicyGraph.from_table([[1, 0, 1, 0]])
    assert math.inf == policy.H


def test_bad_stationary_graphs_are_refused(model):
    with pytest.raises(lm.ModelError, match=r"shape \(1, S\)"):
        PolicyGraph.from_table([[0, 1], [1, 1]], stationary=True)
    ids, none = [0, 1], np.zeros(0, dtype=int)
    with pytest.raises(lm.ModelError, match=r"default must have the shape \(1, S\)"):
        PolicyGraph.from_arrays(
            ids, [0, 0], ids, [0, 0, 0], none, none, none, [0], [[0], [1]], stationary=True
        )
    with pytest.raises(lm.ModelError, match="must be stationary, as the model has no last step"):
        lm.evaluate(model, PolicyGraph.from_table(np.zeros((5, 4), dtype=int)))
    with pytest.raises(lm.ModelError, match="S=4"):
        lm.evaluate(model, PolicyGraph.from_table([0, 0], stationary=True))


def test_a_huge_policy_is_not_written_out(model):
    policy = PolicyGraph.from_table([0] * 4, stationary=True)
    with pytest.raises(lm.ModelError, match="at most 50000000"):
        lm.evaluate(model.replace(horizon=10**6), _grown(policy, 100))


def _grown(policy, times):
    many = np.tile(np.arange(policy.S), times)
    none = np.zeros(0, dtype=int)
    return PolicyGraph.from_arrays(
        np.zeros(len(many), dtype=int), many, np.zeros(len(many), dtype=int),
        np.zeros(len(many) + 1, dtype=int), none, none, none, policy.root, policy.default,
        stationary=True,
    )  # fmt: skip


# ---------------------------------------------------------------- played, drawn


def test_cursor_and_environment_go_on_for_ever(model):
    plan = lm.plan(model, gap=0.01)
    mean, error = sampled_mean(model, plan.policy, steps=60, episodes=300, seed=5)
    cut = 0.9**60 * model.max_return
    assert abs(mean - plan.lower) <= 5 * error + cut  # false alarm: 6e-7
    vector = lm.LatentMDPVectorEnv(model, 3)
    vector.reset(seed=0)
    for _ in range(50):
        _, _, terminated, truncated, _ = vector.step(np.zeros(3, dtype=int))
        assert not terminated.any()
        assert not truncated.any()


def test_a_cursor_in_a_finite_model_ends(model):
    policy = PolicyGraph.from_table([0, 1, 0, 1], stationary=True)
    cursor = policy.cursor(0, model.replace(horizon=2))
    assert cursor.observe(1, accept_unexpected=True) == 1
    assert cursor.observe(1, accept_unexpected=True) is None


def test_pictures_and_dot(model):
    plan = lm.plan(model, gap=0.01)
    dot = plan.policy.to_dot(model)
    assert dot.startswith("digraph")
    assert "0: s" not in dot
    from latentmdp import plot
    from latentmdp.drawing.policies import action_shares, draw_policy

    draw_policy(model, plan.policy, 0)
    assert action_shares(model, plan.policy, 0).sum() == pytest.approx(1.0)
    with pytest.raises(lm.ModelError, match="step must be 0"):
        draw_policy(model, plan.policy, 1)
    plot.policy_graph(plan.policy, model)
    plot.policy_graph(plan.policy)
    draw_policy(model.replace(horizon=3), plan.policy, 1)
