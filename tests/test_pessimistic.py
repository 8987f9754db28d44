"""Pessimistic planning: boxes that hold, values by the definition, the search against all policies.

The twin below is plain Python from the definition; it shares nothing with the package but numbers.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import latentmdp as lm
from latentmdp.counts import Counts
from latentmdp.errors import ModelError
from latentmdp.optimism.confidence import Evidence, Setting
from latentmdp.optimism.known import Known
from latentmdp.optimism.model import OptimisticModel
from latentmdp.optimism.pareto import exact_history, exact_markov
from latentmdp.optimism.pessimistic import WORST_CASE, boxes_of_a_log, iota_of_a_log
from optimism_twin import random_counts, small_model, symbol

SIZES = (0, 5, 100, 1000, 10**4, 10**5)


def radius(p, n, boxes, delta, scale):
    """Eq. (2), with the logarithm of a fixed log."""
    iota = 0.525 * math.log(2 * boxes * n * (n + 1) / delta)
    return scale * (2 * math.sqrt(p * iota / n) + 5 * iota / n)


def worst(values, counts, boxes, delta, scale):
    """The least `q.v` over the box: start at the lower ends, give the rest to the lowest values."""
    n = sum(counts)
    if n == 0:
        return min(values)
    p = [c / n for c in counts]
    r = [radius(x, n, boxes, delta, scale) for x in p]
    q = [max(x - y, 0.0) for x, y in zip(p, r, strict=True)]
    for x in sorted(range(len(values)), key=lambda x: values[x]):
        q[x] += min(min(p[x] + r[x], 1.0) - q[x], 1.0 - sum(q))
    return sum(x * v for x, v in zip(q, values, strict=True))


def twin_value(model, visits, policy, delta, scale=1.0, starts=None):
    """The worst-case value of a policy, node by node."""
    M, S, A = model.M, model.S, model.A
    boxes = M * S * (A * S + 1)
    R = model.R

    def successor(node, y, x):
        for e in range(policy.indptr[node], policy.indptr[node + 1]):
            if (policy.symbol[e], policy.next[e]) == (y, x):
                return policy.node[e]
        return policy.default[policy.step[node] + 1, x]

    def alpha(m, node):
        s, a = policy.state[node], policy.action[node]
        after = []
        for x in range(S):
            v = 0.0
            if policy.step[node] + 1 < model.H:
                v = alpha(m, successor(node, symbol(model, m, s, a, x), x))
            after.append(v + (R[m, s, a, x] if R.ndim == 4 else 0.0))
        own = 0.0 if R.ndim == 4 else R[m, s, a]
        return own + worst(after, visits[m, s, a].tolist(), boxes, delta, scale)

    values = [alpha(m, policy.root[s]) for m in range(M) for s in range(S)]
    if starts is not None:
        return worst(values, starts.ravel().tolist(), boxes, delta, scale)
    return float((model.w[:, None] * model.nu).ravel() @ values)


def exact(model, visits, policy_class, delta, scale):
    """The largest worst-case value of the class, by sets of value vectors."""
    setting = Setting(model.M, model.S, model.A, model.H, 1, delta, scale)
    counts = Counts.from_visits(visits)
    optimistic = OptimisticModel.of(Known.of(model), counts, WORST_CASE, setting)
    if policy_class == "history":
        return exact_history(optimistic)
    return exact_markov(optimistic)[0]


def check(rng, policy_class, on_transitions=False, S=3, H=3):
    """Plan a random problem; returns what is missing to the best policy of the class."""
    model = small_model(rng, 2, S, 2, H, on_transitions, bool(rng.integers(2)))
    visits, scale = random_counts(rng, model, SIZES), float(rng.choice([1.0, 0.3, 0.1, 0.01]))
    plan = lm.pessimistic_plan(model, visits, policy_class, bonus_scale=scale)
    twin = twin_value(model, visits, plan.policy, 0.1, scale)
    assert plan.lower == pytest.approx(twin, abs=1e-9)
    asked = lm.pessimistic_value(model, visits, plan.policy, bonus_scale=scale)
    assert plan.lower == pytest.approx(asked, abs=1e-12)
    best = exact(model, visits, policy_class, 0.1, scale)
    assert plan.lower <= best + 1e-9
    assert plan.upper >= best - 1e-9
    return best - plan.lower


@pytest.mark.parametrize("on_transitions", [False, True])
@pytest.mark.parametrize("policy_class", ["markov", "history"])
@settings(max_examples=15)
@given(seed=st.integers(0, 10**9))
def test_plans_are_what_they_say(policy_class, on_transitions, seed):
    check(np.random.default_rng(seed), policy_class, on_transitions)


@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_the_search_finds_the_best_policy_of_tiny_models(policy_class):
    """Of 60 problems nearly all; `benchmarks/pessimism.py` counts more."""
    rng = np.random.default_rng(5)
    missing = np.array([check(rng, policy_class) for _ in range(60)])
    assert (missing < 1e-9).sum() >= 57
    assert missing.max() < 0.02


@pytest.mark.parametrize("S", [7, 13])
def test_with_more_states_than_a_memory_lists(S):
    rng = np.random.default_rng(S)
    for _ in range(3):
        check(rng, "history", S=S, H=2)


@given(
    p=st.floats(0.0, 1.0), n=st.integers(1, 10**7), boxes=st.integers(1, 10**6),
    delta=st.floats(1e-6, 0.5), side=st.sampled_from([-1.0, 1.0]),
)  # fmt: skip
def test_boxes_follow_from_bernsteins_inequality(p, n, boxes, delta, side):
    """Whatever estimate the inequality allows, its box holds the truth."""
    log_term = math.log(2 * boxes * n * (n + 1) / delta) / n
    off = math.sqrt(2 * p * (1 - p) * log_term) + log_term / 3
    p_hat = min(max(p + side * off, 0.0), 1.0)
    assert abs(p - p_hat) <= radius(p_hat, n, boxes, delta, 1.0) + 1e-12


def test_iota_is_the_documented_one():
    setting = Setting(2, 3, 4, 5, 1, 0.05)
    boxes = 2 * 3 * 4 * 3 + 2 * 3
    expected = 0.525 * math.log(2 * boxes * 10 * 11 / 0.05)
    assert iota_of_a_log(setting, np.array([10.0]))[0] == pytest.approx(expected)


def log_of(model, policy, episodes, seed):
    """Visits and first states of episodes under a policy."""
    rng = np.random.default_rng(seed)
    visits = np.zeros((model.M, model.S, model.A, model.S), dtype=int)
    starts = np.zeros((model.M, model.S), dtype=int)
    P = model.P
    for _ in range(episodes):
        m = rng.choice(model.M, p=model.w)
        s = rng.choice(model.S, p=model.nu[m])
        starts[m, s] += 1
        for t in range(model.H):
            a = policy(rng, t, s)
            x = rng.choice(model.S, p=P[m, s, a])
            visits[m, s, a, x] += 1
            s = x
    return visits, starts


def test_lower_values_hold_in_simulated_logs():
    """With delta 0.2 at least 80% of logs must hold; the boxes are wide, so all do.

    The log's own behaviour depends on what it has seen, as a person's would.
    """
    rng = np.random.default_rng(3)
    model = small_model(rng, 2, 3, 2, 3)
    for seed in range(40):
        visits, starts = log_of(
            model, lambda rng, t, s: int(rng.random() < 0.3 + 0.2 * s), 60, seed
        )
        for began in (None, starts):
            plan = lm.pessimistic_plan(model, visits, "markov", 0.2, starts=began)
            assert plan.lower <= lm.evaluate(model, plan.policy).value + 1e-9


@pytest.mark.slow
def test_boxes_hold_in_many_simulated_logs():
    """The claim itself: all boxes hold at once in at least `1 - delta` of 100 logs.

    Boxes of a tenth of the size do not: the logs are long enough to tell.
    """
    model, held = small_model(np.random.default_rng(3), 2, 3, 2, 3), {1.0: 0, 0.1: 0}
    truth = model.P.ravel()
    for seed in range(100):
        visits, _ = log_of(model, lambda rng, t, s: int(rng.random() < 0.5), 400, seed)
        rows = visits.reshape(-1, model.S)
        N, support = rows.sum(axis=1), (rows > 0).sum(axis=1)
        row = np.repeat(np.arange(len(rows)), model.S)
        evidence = Evidence(N, support, row, rows.ravel(), rows.ravel() / np.maximum(N, 1)[row])
        for scale in held:
            setting = Setting(model.M, model.S, model.A, model.H, 400, 0.5, scale)
            box = boxes_of_a_log(evidence, setting, np.random.default_rng(0))
            held[scale] += bool(((box.lower <= truth) & (truth <= box.upper)).all())
    assert held[1.0] >= 50
    assert held[0.1] < 50


def test_first_states_are_estimated_too():
    rng = np.random.default_rng(11)
    model = small_model(rng)
    visits = random_counts(rng, model, (1000, 10**4))
    starts = rng.multinomial(1000, (model.w[:, None] * model.nu).ravel()).reshape(model.M, model.S)
    plan = lm.pessimistic_plan(model, visits, starts=starts)
    twin = twin_value(model, visits, plan.policy, 0.1, starts=starts)
    assert plan.lower == pytest.approx(twin, abs=1e-9)
    assert plan.upper >= plan.lower
    assert plan.lower < lm.pessimistic_value(model, visits, plan.policy)
    asked = lm.pessimistic_value(model, visits, plan.policy, starts=starts)
    assert asked == pytest.approx(plan.lower, abs=1e-12)


def test_rows_that_are_sure_need_no_visits():
    model = small_model(np.random.default_rng(2), H=3)
    nothing = np.zeros(model.P.shape, dtype=int)
    everything = np.ones(model.P.shape[:3], dtype=bool)
    for policy_class in ("markov", "history"):
        plan = lm.pessimistic_plan(model, nothing, policy_class, sure=everything)
        assert plan.lower == pytest.approx(lm.plan(model, policy_class, gap=0).lower, abs=1e-9)
    some = everything.copy()
    some[:, 0] = False
    visits = random_counts(np.random.default_rng(4), model, (1000,))
    between = lm.pessimistic_plan(model, visits, sure=some).lower
    assert lm.pessimistic_plan(model, visits).lower < between < plan.lower


def test_without_visits_only_the_first_reward_is_certain():
    model = small_model(np.random.default_rng(8), on_transitions=False, H=3)
    plan = lm.pessimistic_plan(model, np.zeros(model.P.shape, dtype=int))
    twin = twin_value(model, np.zeros(model.P.shape, dtype=int), plan.policy, 0.1)
    assert plan.lower == pytest.approx(twin, abs=1e-12)


def test_rewards_in_any_units():
    rng = np.random.default_rng(6)
    model = small_model(rng)
    visits = random_counts(rng, model, (1000, 10**4))
    R = 50 * model.R - 7
    other = lm.LatentMDP.from_arrays(model.P, R, model.w, model.nu, model.H, max_return=None)
    one, two = (lm.pessimistic_plan(x, visits) for x in (model, other))
    assert two.lower == pytest.approx(50 * one.lower - 7 * model.H, abs=1e-6)
    assert lm.pessimistic_value(other, visits, one.policy) == pytest.approx(
        50 * one.lower - 7 * model.H, abs=1e-6
    )


def test_unavailable_actions_are_not_played():
    rng = np.random.default_rng(9)
    model = small_model(rng, S=3, A=3)
    allowed = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 1]], dtype=bool)
    masked = model.replace(allowed=allowed)
    visits = random_counts(rng, model, (1000, 10**4)) * allowed[None, :, :, None]
    for policy_class in ("markov", "history"):
        plan = lm.pessimistic_plan(masked, visits, policy_class)
        assert allowed[plan.policy.state, plan.policy.action].all()
        asked = lm.pessimistic_value(masked, visits, plan.policy)
        assert asked == pytest.approx(plan.lower, abs=1e-12)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"delta": 0.0}, "delta must lie strictly between 0 and 1"),
        ({"starts": np.ones((2, 3))}, "starts must be integers"),
        ({"starts": np.zeros((2, 3), dtype=int)}, "one of them must be positive"),
        ({"starts": np.zeros((3, 3), dtype=int)}, "shape"),
        ({"sure": np.ones((2, 3), dtype=bool)}, "sure must be true or false"),
        ({"policy_class": "tree"}, "tree"),
        ({"bonus_scale": -1.0}, "bonus_scale"),
    ],
)
def test_what_is_refused(how, sentence):
    model = small_model(np.random.default_rng(0))
    with pytest.raises(ModelError, match=sentence):
        lm.pessimistic_plan(model, np.zeros(model.P.shape, dtype=int), **how)
    with pytest.raises(ModelError, match="visits must be of 2 contexts"):
        lm.pessimistic_plan(model, np.zeros((1, 3, 2, 3), dtype=int))
