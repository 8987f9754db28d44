"""SARSOP's alpha vectors as policies: a plain loop over histories, and the published file."""

import brute
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from pomdp_samples import SENSOR, policyx
from strategies import models, random_model, seeds

import latentmdp as lm
from latentmdp.formats.pomdp.belief_policy import policy_from_beliefs
from latentmdp.formats.pomdp.policyx import read_vectors


def test_vectors_are_read_dense_and_sparse(tmp_path):
    file = tmp_path / "p.policyx"
    file.write_text(policyx([(1, 0, [1, 2.5]), (0, 1, {1: -3.0}), (2, 1, {})], 2))
    action, seen, vectors = read_vectors(file)
    assert action.tolist() == [1, 0, 2]
    assert seen.tolist() == [0, 1, 1]
    assert vectors.tolist() == [[1, 2.5], [0, -3], [0, 0]]


def alpha_value(model, vectors):
    """What the policy is worth, by histories: the best vector's action at every belief."""
    d = brute.Dense(model)

    def walk(t, s, g):
        if t == d.H:
            return 0.0
        mine = [vector for vector in vectors if vector[1] == s]
        action = max(mine, key=lambda v: sum(x * y for x, y in zip(g, v[2], strict=True)))[0]
        now, after = 0.0, {}
        for m in range(d.M):
            for p, r, seen, nxt in d.outcomes(m, s, action):
                now += g[m] * p * r
                after.setdefault((seen, nxt), [0.0] * d.M)[m] += g[m] * p
        parts = (walk(t + 1, nxt, h) for (_, nxt), h in after.items() if sum(h) > 0.0)
        return now + d.discount * sum(parts)

    first = [[d.w[m] * d.nu[m][s] for m in range(d.M)] for s in range(d.S)]
    return sum(walk(0, s, g) for s, g in enumerate(first) if sum(g) > 0.0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
@given(model=models(M=3, S=3, A=3, H=4), seed=seeds)
def test_the_policy_plays_the_best_vector_at_each_belief(tmp_path, model, seed):
    rng = np.random.default_rng(seed)
    vectors = [
        (int(rng.integers(model.A)), s, rng.random(model.M))
        for s in range(model.S)
        for _ in range(rng.integers(1, 5))
    ]
    (tmp_path / "p.policyx").write_text(policyx(vectors, model.M))
    policy = lm.load_policy(tmp_path / "p.policyx", model)
    expected = alpha_value(model, vectors)
    assert lm.evaluate(model, policy).value == pytest.approx(expected, abs=1e-9)
    assert brute.value(model, policy) == pytest.approx(expected, abs=1e-9)


def test_vectors_of_a_flat_pomdp_with_readings(tmp_path):
    """One vector per action over all states; the states of the model are what was heard."""
    (tmp_path / "m.pomdp").write_text(SENSOR)
    model = lm.load(tmp_path / "m.pomdp", horizon=4)
    vectors = [(0, 0, [0, 0]), (1, 0, [-20, 2]), (2, 0, [2, -20])]
    (tmp_path / "p.policyx").write_text(policyx(vectors, 2))
    policy = lm.load_policy(tmp_path / "p.policyx", model)
    by_state = [(a, x, v) for x in range(model.S) for a, _, v in vectors]
    expected = alpha_value(model, by_state)
    assert lm.evaluate(model, policy).value == pytest.approx(expected)
    assert policy.action[policy.root[2]] == 0  # listen first
    heard = policy.cursor(2)
    assert [heard.observe(0), heard.observe(0)] == [0, 2]  # left, left again: open the other door


def test_a_policy_for_what_we_wrote_ourselves(tmp_path):
    """Vectors over contexts, one set for each pair of state and step."""
    model = random_model(np.random.default_rng(1), M=3, S=3, A=2, H=3, observe=False)
    lm.save(model, tmp_path / "m.pomdpx")
    again = lm.load(tmp_path / "m.pomdpx", horizon=model.H)
    random = np.random.default_rng(2)
    vectors = [(int(random.integers(2)), x, random.random(model.M)) for x in range(again.S)]
    (tmp_path / "p.policyx").write_text(policyx(vectors, model.M))
    found = lm.evaluate(again, lm.load_policy(tmp_path / "p.policyx", again)).value
    assert found == pytest.approx(alpha_value(again, vectors))


def test_without_a_last_step_the_policy_is_stationary(tmp_path, monkeypatch):
    """Worth what many steps are worth; beliefs of later steps lead back to the nearest ones."""
    (tmp_path / "m.pomdp").write_text(SENSOR)
    endless = lm.load(tmp_path / "m.pomdp")
    vectors = [(0, 0, [0, 0]), (1, 0, [-20, 2]), (2, 0, [2, -20])]
    (tmp_path / "p.policyx").write_text(policyx(vectors, 2))
    policy = lm.load_policy(tmp_path / "p.policyx", endless)
    assert policy.stationary
    steps = endless.replace(horizon=600)
    expected = lm.evaluate(steps, lm.load_policy(tmp_path / "p.policyx", steps)).value
    assert lm.evaluate(endless, policy).value == pytest.approx(expected, abs=1e-6)
    monkeypatch.setattr("latentmdp.formats.pomdp.belief_policy.MOST_STEPS", 12)
    short = lm.load_policy(tmp_path / "p.policyx", endless)
    assert policy.N > short.N
    assert lm.evaluate(endless, short).value == pytest.approx(expected, rel=0.01)


def test_with_few_nodes_similar_beliefs_share_them():
    """Every such graph is a policy of its own; the more nodes, the nearer to the rule."""
    model = lm.make("garnet:states=3,actions=2,contexts=3,horizon=8,seed=1,shared_support=1")
    model = model.replace(observe_rewards=False)
    best = lm.plan(model, gap=None, time_limit=60.0)

    def greedy(state, belief):
        """The best first action, by one vector per action and context."""
        value = lm.context_optimal(model)[0][1]  # (M, S)
        worth = np.zeros((len(state), model.A))
        for a in range(model.A):
            rows = (np.arange(model.M) * model.S + state[:, None]) * model.A + a
            for n in range(len(state)):
                for m in range(model.M):
                    k = slice(*model.indptr[rows[n, m] : rows[n, m] + 2])
                    gain = model.prob[k] @ (model.reward[k] + value[m, model.next[k]])
                    worth[n, a] += belief[n, m] * gain
        return worth.argmax(axis=1)

    values = [
        lm.evaluate(model, policy_from_beliefs(model, greedy, most)).value
        for most in (10, 300, 9000)
    ]
    sizes = [policy_from_beliefs(model, greedy, most).N for most in (10, 300, 9000)]
    assert sizes[0] < sizes[1] < sizes[2]
    exact = lm.PolicyGraph.from_belief(
        model, lambda t, s, belief: int(greedy(np.array([s]), belief[None])[0])
    )
    assert max(values) <= best.upper + 1e-9
    assert values[2] == pytest.approx(lm.evaluate(model, exact).value, abs=1e-12)
    assert abs(values[1] - values[2]) < 0.01


def test_it_needs_its_model(tmp_path):
    file = tmp_path / "p.policyx"
    file.write_text(policyx([(0, 0, [1, 2])], 2))
    with pytest.raises(lm.ModelError, match=r"p\.policyx: .* give the model as well"):
        lm.load_policy(file)
    model = lm.make("bandit:contexts=2,arms=2,horizon=3")
    with pytest.raises(lm.ModelError, match=r"must have an action in state .*, which can be"):
        lm.load_policy(file, model)
    with pytest.raises(lm.ModelError, match="vectors must have 3 numbers"):
        lm.load_policy(file, lm.make("bandit:contexts=3"))
    file.write_text(policyx([(9, 0, [1, 2])], 2))
    with pytest.raises(lm.ModelError, match="actions must be from 0 to 1"):
        lm.load_policy(file, model)
    with pytest.raises(lm.ModelError, match=r"can be read from \.policyx, not written"):
        lm.save_policy(lm.PolicyGraph.from_table([[0]]), file)


def test_other_policies_are_checked_against_a_model(tmp_path):
    model = lm.make("bandit:contexts=2,arms=2,horizon=3")
    policy = lm.PolicyGraph.from_table(np.zeros((3, model.S), dtype=int))
    policy.save(tmp_path / "p.json")
    assert lm.load_policy(tmp_path / "p.json", model) == policy
    assert lm.load_policy(tmp_path / "p.json", model).model is model
    with pytest.raises(lm.ModelError, match=r"p\.json: the policy must be for H=4"):
        lm.load_policy(tmp_path / "p.json", model.replace(horizon=4, max_return=None))
