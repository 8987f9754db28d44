"""Pessimistic planning: boxes that hold, values by the definition, the search against all policies.

The twin below is plain Python from the definition; it shares nothing with the package but numbers.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optimism_exact import exact_history, exact_markov
from optimism_twin import random_counts, small_model, symbol

import latentmdp as lm
from latentmdp.errors import ModelError
from latentmdp.optimism.log_boxes import log_boxes, unseen_mass
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.pessimistic import LogProblem

SIZES = (0, 5, 100, 1000, 10**4, 10**5)


def log_term(n, error):
    """`ln(3 n (n + 1) / error)`: a third for each bound, after every number of visits."""
    return math.log(3 * n * (n + 1) / error)


def largest(count, draws, log):
    """Chernoff: the largest probability of which `count` in `draws` is not too few."""
    return min((count + log + math.sqrt(log * log + 2 * count * log)) / draws, 1.0)


def unseen_share(counts, log, cut=0):
    """The largest mass of all outcomes that `counts` does not list."""
    k, n = len(counts), sum(counts) + cut
    if n == k:
        return 1.0
    log += math.log(math.comb(n, k) / math.prod(counts)) + math.log(k * (k + 1))
    log += math.log((cut + 1) * (cut + 2))
    return largest(cut, n - k, log) if cut else 1.0 - math.exp(-log / (n - k))


def box(count, n, log, scale, cut=0):
    """Lower and upper bound of an outcome that was seen `count` times in `n` visits."""
    log += math.log(n / count)
    rest = max(n - 1, 1)
    share = (count - 1) / rest
    low = max(share - math.sqrt(2 * share * log / rest) - log / (3 * rest), 0.0)
    high = max(largest(count + cut, n, log), (count + cut) / n)
    p, q = count / n, (count + cut) / n
    return max(p - scale * (p - low), 0.0), min(q + scale * (high - q), 1.0)


def worst(values, other, counts, error, scale=1.0, cut=0):
    """The least `q.v`: start at the lower ends, give the rest to the lowest values.

    `values[x]` belongs to `counts[x]`, and `other` to everything that was not seen.
    """
    n = sum(counts) + cut
    seen = [x for x, c in enumerate(counts) if c]
    if not seen:
        return other
    log = log_term(n, error)
    limits = [(values[x], *box(counts[x], n, log, scale, cut)) for x in seen]
    unseen = unseen_share([counts[x] for x in seen], log, cut)
    limits.append((other, 0.0, min(cut / n + scale * (max(unseen, cut / n) - cut / n), 1.0)))
    free = 1.0 - sum(low for _, low, _ in limits)
    total = 0.0
    for value, low, high in sorted(limits):
        more = min(high - low, free)
        free -= more
        total += (low + more) * value
    return total


def twin_value(model, visits, policy, delta, scale=1.0, starts=None):
    """The worst-case value of a policy, node by node."""
    M, S = model.M, model.S
    R, lowest = model.R, float(model.R.min())
    if starts is not None:
        delta /= 2
    rows = int((visits.sum(axis=3) > 0).sum())
    error = delta / (max(rows, 1) * (max(rows, 1) + 1))

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
        other = lowest * (model.H - 1 - policy.step[node]) + (lowest if R.ndim == 4 else 0.0)
        return own + worst(after, other, visits[m, s, a].tolist(), error, scale)

    values = [alpha(m, policy.root[s]) for m in range(M) for s in range(S)]
    if starts is not None:
        return worst(values, lowest * model.H, starts.ravel().tolist(), delta)
    return float((model.w[:, None] * model.nu).ravel() @ values)


def exact(model, visits, policy_class, delta, scale):
    """The largest worst-case value of the class, by sets of value vectors."""
    problem = LogProblem(model, visits, delta, None, None, None, None, None, None, scale)
    optimistic = ConfidenceModel.of(problem.known, problem.counts, problem.rule, problem.constants)
    found = exact_history(optimistic) if policy_class == "history" else exact_markov(optimistic)[0]
    return problem.in_units(found)


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
    seen=st.lists(st.integers(0, 300), min_size=1, max_size=9),
    cut=st.sampled_from([0, 0, 1, 7, 100]), error=st.floats(1e-9, 0.5),
    scale=st.sampled_from([1.0, 0.3, 0.01]),
)  # fmt: skip
def test_boxes_are_those_of_the_definition(seen, cut, error, scale):
    """Rows of one, of two, and of no outcomes, with and without steps that were cut off."""
    counts = np.array([c for c in seen if c] or [1])
    row = np.append(np.zeros(len(counts), dtype=int), 2)
    found = log_boxes(row, np.append(counts, 4), 3, error, np.array([cut, cut, 0]), scale)
    n = int(counts.sum()) + cut
    log = log_term(n, error)
    expected = [box(int(c), n, log, scale, cut) for c in counts]
    assert np.allclose(found.lower[:-1], [low for low, _ in expected], atol=1e-12)
    assert np.allclose(found.upper[:-1], [high for _, high in expected], atol=1e-12)
    unseen = max(unseen_share(counts.tolist(), log, cut), cut / n)
    assert found.unseen[0] == pytest.approx(min(cut / n + scale * (unseen - cut / n), 1.0))
    assert found.unseen[1] == pytest.approx(scale * (1 - cut / max(cut, 1)) + cut / max(cut, 1))


def uneven(kinds):
    """Probabilities of `kinds` outcomes: common and rare ones."""
    p = 1.0 / np.arange(1, kinds + 1) ** 2
    return p / p.sum()


@pytest.mark.parametrize("p", [
    np.array([0.95, 0.05]), np.array([0.6, 0.3, 0.1]), np.full(1000, 0.001), uneven(200),
    np.append(np.full(50, 0.002), 0.9),
], ids=["two", "three", "thousand", "uneven", "tail"])  # fmt: skip
@pytest.mark.parametrize("n", [3, 20, 300])
def test_each_bound_fails_no_more_often_than_it_may(p, n):
    """1,000 logs of one row, each bound at level 0.15: nobody says how many outcomes there are.

    Of 1,000 at most 150 are promised to fail; more than 190 would have a chance of 3e-4.
    """
    rng = np.random.default_rng(n)
    failed = np.zeros(3, dtype=int)
    for counts in rng.multinomial(n, p, 1000):
        shown = np.flatnonzero(counts)
        found = log_boxes(np.zeros(len(shown), dtype=int), counts[shown], 1, 0.45 * n * (n + 1))
        failed += [(found.lower > p[shown] + 1e-12).any(), (found.upper < p[shown] - 1e-12).any(),
                   found.unseen[0] < p[counts == 0].sum() - 1e-12]  # fmt: skip
    assert (failed <= 190).all(), failed


def test_unseen_mass_is_not_much_larger_than_it_must_be():
    """One outcome in `n` draws: by the exact binomial bound `ln(1 / level) / n`, up to `ln 4`.

    Where each draw showed another outcome, anything may come next.
    """
    n = np.array([10, 1000, 10**6])
    log = np.full(3, math.log(100.0))
    nothing = np.zeros(3, dtype=int)
    found = unseen_mass(np.arange(3), n, nothing, log)
    assert (1.0 - np.exp(-log / n) < found).all()
    assert (found <= (log + math.log(4.01)) / (n - 1)).all()
    row = np.repeat(np.arange(3), 5)
    assert (unseen_mass(row, np.ones(15, dtype=int), nothing, log) == 1.0).all()


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
    less = lm.pessimistic_plan(model, np.zeros(model.P.shape, dtype=int), lowest=-5.0)
    assert less.lower == pytest.approx(plan.lower - 2 * (5.0 + model.R.min()), abs=1e-9)


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
