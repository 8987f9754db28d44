"""The paper's hard instances: their rows one by one, and closed forms for value and variance."""

import itertools
import math

import brute
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import latentmdp as lm
from latentmdp.builtin_domains import complete_spec
from latentmdp.builtin_domains.lower_bound import HardInstance, gap_from_episodes, hard_instance

# ---------------------------------------------------------------- hard: structure


@given(
    contexts=st.integers(1, 200),
    states=st.integers(6, 80),
    actions=st.integers(2, 5),
    seed=st.integers(0, 99),
)
def test_hard_sizes_are_the_papers(contexts, states, actions, seed):
    if contexts > math.factorial(states // 2):
        with pytest.raises(lm.ModelError, match="contexts must be at most"):
            hard_instance(contexts, states, actions)
        return
    hard = hard_instance(contexts, states, actions, seed=seed)
    assert hard.d1 >= 1
    assert contexts <= math.factorial(hard.d1)
    assert hard.d1 == 1 or math.factorial(hard.d1 - 1) < contexts
    assert hard.d1 <= states / 2
    assert hard.d2 >= 1
    assert 2**hard.d2 - 1 <= states - hard.d1 - 2 < 2 ** (hard.d2 + 1) - 1
    assert hard.leaves == 2 ** (hard.d2 - 1)
    assert hard.choices == hard.leaves * actions
    assert hard.horizon == hard.d1 + hard.d2 + 1
    assert len(set(hard.orders)) == contexts
    assert all(sorted(order) == list(range(hard.d1)) for order in hard.orders)
    assert hard.terminal < states
    assert all(0 <= leaf < hard.leaves and 0 <= a < actions for leaf, a in hard.secrets)


def test_hard_rows_one_by_one():
    hard = hard_instance(3, 14, 3, eps=0.2, reward=0.5, secrets=[(0, 1), (3, 2), (2, 0)])
    assert (hard.d1, hard.d2, hard.leaves, hard.choices) == (3, 3, 4, 12)
    model = hard.model()
    P, R = model.P, model.R
    assert model.Gamma == 2
    np.testing.assert_array_equal(model.w, np.full(3, 1 / 3))
    tree = {i: hard.tree_root + i - 1 for i in range(1, 8)}  # the paper's s_i
    for m in range(3):
        order = hard.orders[m]
        assert model.nu[m, order[0]] == 1
        for here, there in zip(order, (*order[1:], tree[1]), strict=True):
            assert (P[m, here, :, there] == 1).all()
        for i in (1, 2, 3):
            for a in (1, 2, 3):  # the paper's action numbers
                assert P[m, tree[i], a - 1, tree[2 * i + a % 2]] == 1
        for leaf in range(4):
            for a in range(3):
                good = 0.7 if hard.secrets[m] == (leaf, a) else 0.5
                assert P[m, tree[4 + leaf], a, hard.good] == good
                assert P[m, tree[4 + leaf], a, hard.terminal] == pytest.approx(1 - good)
        assert (P[m, hard.good, :, hard.terminal] == 1).all()
        for s in (hard.terminal, *range(hard.terminal + 1, 14)):  # t and the unused loop
            assert (P[m, s, :, s] == 1).all()
    expected = np.zeros((3, 14, 3))
    expected[:, hard.good] = 0.5
    np.testing.assert_array_equal(R, expected)
    assert model.state_names[:4] == ("e1", "e2", "e3", "s1")
    assert model.state_names[10:] == ("g", "t", "unused1", "unused2")


def test_hard_from_variance_and_episodes():
    hard = HardInstance.from_spec("hard:contexts=3,states=20,actions=4,variance=0.16,episodes=1e7")
    assert hard.x == pytest.approx(0.8)
    C, rounds = hard.choices, 10**7 // 6  # K' rounded down
    assert hard.eps == pytest.approx((1 - 1 / C) * math.sqrt(C / rounds) / (2 * math.sqrt(2)))
    assert hard.episodes == 10**7
    assert hard.max_variance("history") == pytest.approx(0.16)
    assert hard.model() == lm.make("hard:contexts=3,states=20,actions=4,variance=0.16,episodes=1e7")
    assert gap_from_episodes(2, 8, 3) == math.inf


def test_hard_default_of_one_key_of_a_pair():
    assert complete_spec("hard").endswith("eps=0.1,reward=1.0")
    assert complete_spec("hard:variance=0.1").endswith("variance=0.1,episodes=1000000")
    assert complete_spec("hard:episodes=1e9").endswith("variance=0.25,episodes=1000000000")


@pytest.mark.parametrize(
    ("secrets", "message"),
    [
        ([(0, 0)], "one \\(leaf, action\\) per context, 2 in all; there are 1"),
        ([(0, 0), (4, 0)], "secrets\\[1\\] must be a leaf below 4 and an action below 2"),
        ([(0, 2), (0, 0)], "secrets\\[0\\] must be"),
    ],
)
def test_hard_refuses_bad_secrets(secrets, message):
    with pytest.raises(lm.ModelError, match=message):
        hard_instance(2, 11, 2, secrets=secrets)
    with pytest.raises(lm.ModelError, match="policy_class must be history or markov; it is 'all'"):
        hard_instance().optimal_value("all")


# ---------------------------------------------------------------- hard: closed forms

TINY = [  # contexts, states, actions, secrets
    (1, 6, 2, [(0, 1)]),
    (2, 6, 2, [(0, 0), (0, 1)]),
    (2, 6, 3, [(0, 2), (0, 2)]),
    (3, 6, 2, [(0, 0), (0, 0), (0, 1)]),
    (2, 7, 2, [(0, 1), (1, 0)]),
    (3, 8, 2, [(0, 1), (1, 1), (0, 1)]),
]


def moments_of_all_policies(model):
    """(mean, second moment) of the total reward of every deterministic history policy.

    Recursion over histories; policies with equal moments are kept once.
    """
    d = brute.Dense(model)

    def walk(t, s, g, total):
        if t == d.H:
            return {(sum(g) * total, sum(g) * total * total)}
        found = set()
        for a in range(d.A):
            after = {}
            for m in range(d.M):
                for p, r, _, nxt in d.outcomes(m, s, a) if g[m] > 0 else ():
                    after.setdefault((r, nxt), [0.0] * d.M)[m] += g[m] * p
            parts = [walk(t + 1, nxt, h, total + r) for (r, nxt), h in after.items()]
            found |= sums(parts)
        return found

    def sums(parts):
        result = {(0.0, 0.0)}
        for part in parts:
            result = {(round(x + u, 12), round(y + v, 12)) for x, y in result for u, v in part}
        return result

    starts = [
        walk(0, s, [d.w[m] * d.nu[m][s] for m in range(d.M)], 0.0)
        for s in range(d.S)
        if any(d.nu[m][s] for m in range(d.M))
    ]
    return sums(starts)


@pytest.mark.parametrize(("contexts", "states", "actions", "secrets"), TINY)
@pytest.mark.parametrize(("eps", "x"), [(0.25, 1.0), (0.1, 0.6)])
def test_hard_value_and_variance_of_the_history_class(contexts, states, actions, secrets, eps, x):
    hard = hard_instance(contexts, states, actions, eps=eps, reward=x, secrets=secrets)
    model = hard.model()
    assert brute.best_history_value(model) == pytest.approx(x * (0.5 + eps))
    assert hard.optimal_value("history") == pytest.approx(x * (0.5 + eps))
    moments = moments_of_all_policies(model)
    variances = [second - mean * mean for mean, second in moments]
    assert max(mean for mean, _ in moments) == pytest.approx(x * (0.5 + eps))
    assert max(variances) == pytest.approx(x * x / 4)
    assert hard.max_variance("history") == x * x / 4
    assert min(variances) >= (0.25 - eps**2) * x * x - 1e-10


@pytest.mark.parametrize(("contexts", "states", "actions", "secrets"), TINY[:-1])
@pytest.mark.parametrize(("eps", "x"), [(0.25, 1.0), (0.1, 0.6)])
def test_hard_value_and_variance_of_the_markov_class(contexts, states, actions, secrets, eps, x):
    hard = hard_instance(contexts, states, actions, eps=eps, reward=x, secrets=secrets)
    model = hard.model()
    found = {markov_moments(brute.Dense(model), table) for table in leading_tables(hard)}
    share = [0.0] * hard.choices
    for leaf, a in secrets:
        share[leaf * actions + a] += 1 / contexts
    assert max(mean for mean, _ in found) == pytest.approx(x * (0.5 + eps * max(share)))
    assert max(q - m * m for m, q in found) == pytest.approx(
        x * x * (0.25 - (eps * min(share)) ** 2)
    )
    assert max(mean for mean, _ in found) == pytest.approx(hard.optimal_value("markov"))
    assert max(q - m * m for m, q in found) == pytest.approx(hard.max_variance("markov"))


def test_hard_markov_class_over_all_tables():
    hard = hard_instance(2, 6, 2, secrets=[(0, 0), (0, 1)])
    d = brute.Dense(hard.model())
    # where a policy can be: either encoding state twice, the root (a leaf here), then g or t
    places = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2), (3, hard.good), (3, hard.terminal)]
    found = set()
    for actions in itertools.product(range(2), repeat=len(places)):
        table = np.zeros((4, 6), dtype=int)
        for place, a in zip(places, actions, strict=True):
            table[place] = a
        found.add(markov_moments(d, table.tolist()))
    assert max(mean for mean, _ in found) == pytest.approx(hard.optimal_value("markov"))
    assert hard.optimal_value("markov") == pytest.approx(0.5 + 0.1 / 2)
    assert max(q - m * m for m, q in found) == pytest.approx(hard.max_variance("markov"))
    assert hard.max_variance("markov") == pytest.approx(0.25 - 0.05**2)


def leading_tables(hard):
    """Markov tables that differ in the tree; elsewhere all actions are equal."""
    inner = range(hard.tree_root, hard.first_leaf + hard.leaves)
    for actions in itertools.product(range(hard.actions), repeat=len(inner)):
        table = [[0] * hard.states for _ in range(hard.horizon)]
        for s, a in zip(inner, actions, strict=True):
            for t in range(hard.horizon):
                table[t][s] = a
        yield table


def markov_moments(d, table):
    distribution = {}
    for m in range(d.M):
        for s in range(d.S):
            walk = {(s, 0.0): d.w[m] * d.nu[m][s]} if d.nu[m][s] else {}
            for t in range(d.H):
                after = {}
                for (state, total), prob in walk.items():
                    for p, r, _, nxt in d.outcomes(m, state, table[t][state]):
                        key = nxt, total + r
                        after[key] = after.get(key, 0.0) + prob * p
                walk = after
            for (_, total), prob in walk.items():
                distribution[total] = distribution.get(total, 0.0) + prob
    mean = sum(p * x for x, p in distribution.items())
    return mean, sum(p * x * x for x, p in distribution.items())


def test_hard_optimal_choice_reaches_the_closed_form_on_a_larger_instance():
    hard = HardInstance.from_spec("hard:contexts=20,states=40,actions=3,seed=5,horizon=15")
    model = hard.model()

    def choose(step, state, belief):
        return hard.optimal_choice(int(np.argmax(belief)), step)

    evaluation = lm.evaluate(model, lm.PolicyGraph.from_belief(model, choose))
    assert evaluation.value == pytest.approx(hard.optimal_value("history"))
    assert evaluation.variance == pytest.approx(0.25 - hard.eps**2)
