"""`max_variance` against brute force, closed forms and soundness of the bracket."""

import brute
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from strategies import random_model

import latentmdp as lm
from latentmdp import LatentMDP, ModelError, PolicyGraph
from latentmdp.builtin_domains.lower_bound import hard_instance
from latentmdp.planning.budget import Budget
from latentmdp.theory.variance import maximum as variance
from latentmdp.theory.variance.collected import with_collected
from latentmdp.theory.variance.known_context import known_context_bound
from latentmdp.theory.variance.maximum import max_variance
from latentmdp.theory.variance.memory import build_memory


class TooLargeError(Exception):
    pass


def history_variance(model, limit=20_000):
    """Largest variance over all history policies: every attainable (mean, second moment)."""
    d = brute.Dense(model)

    def plus(xs, ys):
        if len(xs) * len(ys) > limit:
            raise TooLargeError
        return {(round(x[0] + y[0], 12), round(x[1] + y[1], 12)) for x in xs for y in ys}

    def moments(t, s, g, C):
        if t == d.H:
            pairs = list(zip(g, C, strict=True))
            return {(sum(p * c for p, c in pairs), sum(p * c * c for p, c in pairs))}
        found = set()
        for a in range(d.A):
            after = {}
            for m in range(d.M):
                if g[m] > 0:
                    for p, r, seen, nxt in d.outcomes(m, s, a):
                        w, c = after.setdefault((seen, nxt), ([0.0] * d.M, [0.0] * d.M))
                        w[m], c[m] = g[m] * p, C[m] + d.discount**t * r
            total = {(0.0, 0.0)}
            for (_, nxt), (w, c) in after.items():
                total = plus(total, moments(t + 1, nxt, w, c))
            found |= total
        return found

    total = {(0.0, 0.0)}
    for s in range(d.S):
        g = [d.w[m] * d.nu[m][s] for m in range(d.M)]
        if any(g):
            total = plus(total, moments(0, s, g, [0.0] * d.M))
    return max(q - mu * mu for mu, q in total)


def markov_variance(model):
    def variance_of(table):
        choose = lambda h: table[(len(h) - 1) // 3][h[-1]]  # noqa: E731
        return brute.mean_and_variance(brute.returns(model, choose))[1]

    d = brute.Dense(model)
    if d.A ** len(brute.reachable(d)) > 600:
        raise TooLargeError
    return max(variance_of(table) for table in brute.markov_tables(model))


@pytest.mark.parametrize("policy_class", ["history", "markov"])
def test_brute_force_on_tiny_models(policy_class):
    reference = history_variance if policy_class == "history" else markov_variance
    compared = 0
    for seed in range(100):
        model = random_model(np.random.default_rng(seed), A=2 if policy_class == "markov" else 3)
        try:
            expected = reference(model)
        except TooLargeError:
            continue
        found = max_variance(model, policy_class)
        assert found.lower == pytest.approx(expected, abs=1e-8), seed
        assert found.upper == found.lower
        assert lm.evaluate(model, found.policy).variance == found.lower
        assert policy_class == "history" or found.policy.is_markov
        compared += 1
    assert compared > 60


@pytest.mark.parametrize("policy_class", ["history", "markov"])
def test_bracket_is_sound_when_the_exact_methods_are_switched_off(policy_class):
    gaps = []
    for seed in range(40):
        model = random_model(np.random.default_rng(seed), M=2, S=3, A=2, H=3)
        exact = max_variance(model, policy_class)
        assert exact.lower == exact.upper
        found = max_variance(model, policy_class, exact_limit=1, centres=4, time_limit=2.0)
        assert found.lower <= exact.lower + 1e-12
        assert exact.lower <= found.upper + 1e-9
        assert lm.evaluate(model, found.policy).variance == found.lower
        assert policy_class == "history" or found.policy.is_markov
        if exact.lower > 1e-12:
            gaps.append((found.lower / exact.lower, found.upper / exact.lower))
    lowest, highest = np.array(gaps).T
    assert np.median(lowest) > 0.999  # ascent finds most of them
    assert np.median(highest) < 1.5


def test_known_context_bound_is_sound_at_any_resolution():
    """Above `min_c max E[(X - c)^2]` with the context known, and close to it on a fine grid."""
    for seed in range(40):
        model = random_model(np.random.default_rng(seed), M=2, S=3, A=2, H=3)
        low, high = variance.value_range(model)
        start = model.w[:, None] * model.nu
        values = float((start * low[0]).sum()), float((start * high[0]).sum())
        exact = max_variance(model, "history").lower
        augmented = with_collected(model, 10_000)

        def known(c, augmented=augmented):
            model = augmented.model(c)
            best, _ = lm.context_optimal(model)
            return float((model.w[:, None] * model.nu * best[0]).sum()) + c * c

        least = known(values[0])
        if values[1] - values[0] > 1e-9:
            least = minimize_scalar(known, bounds=values, method="bounded").fun
        for points in (5, 400):
            bound = known_context_bound(model, values, points)
            assert bound >= exact - 1e-12
            assert bound >= least - 1e-6
        assert bound <= least + 0.02 * (1 + model.max_return - model.min_return)


def test_upper_bound_is_the_best_mixture():
    """Sure rewards 0 and 1 to choose from: Var* = 0, a fair mixture of policies has 1/4."""
    model = LatentMDP.from_arrays([[[[1.0], [1.0]]]], [[[0.0, 1.0]]], [1.0], [[1.0]], 1)
    assert max_variance(model)[:2] == (0.0, 0.0)
    augmented = with_collected(model, 1000)
    bound = variance._mixture(augmented, "history", (0.0, 1.0), 6, Budget(5.0, None))
    assert bound == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("contexts", "states", "actions"), [(1, 6, 2), (2, 6, 3), (2, 11, 2), (5, 8, 2)]
)
def test_closed_forms_on_hard(contexts, states, actions):
    for seed in range(3):
        instance = hard_instance(contexts, states, actions, seed=seed, eps=0.2, reward=0.8)
        model = instance.model()
        for policy_class in ("history", "markov"):
            found = max_variance(model, policy_class)
            assert found.lower == pytest.approx(instance.max_variance(policy_class), abs=1e-12)
            assert found.upper == found.lower


@pytest.mark.parametrize("spec", ["deterministic", "deterministic:horizon=200,states=30,seed=3"])
@pytest.mark.parametrize("policy_class", ["history", "markov"])
def test_nothing_random_is_exactly_zero(spec, policy_class):
    found = max_variance(lm.make(spec), policy_class)
    assert found[:2] == (0.0, 0.0)
    assert lm.evaluate(lm.make(spec), found.policy).variance == 0.0


def test_hidden_rewards_and_memory():
    """What the history class gains over the Markov class needs what was seen."""
    for observe in (True, False):
        model = lm.make("bandit:arms=2,contexts=2,horizon=3,seed=1", observe_rewards=observe)
        with_memory, without = max_variance(model, "history"), max_variance(model, "markov")
        assert without.lower <= with_memory.upper + 1e-9


def test_memory_model_gives_the_same_variance_as_its_policy():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        model = random_model(rng)
        memory = build_memory(model, 100_000)
        assert memory is not None
        table = rng.integers(model.A, size=(model.H, memory.model.S))
        policy = memory.policy(table, np.zeros((model.H, model.S), dtype=int))
        inside = lm.evaluate(memory.model, PolicyGraph.from_table(table))
        outside = lm.evaluate(model, policy)
        assert outside.value == pytest.approx(inside.value, abs=1e-12)
        assert outside.variance == pytest.approx(inside.variance, abs=1e-12)


def test_collected_reward_prices_the_square():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        model = random_model(rng)
        augmented = with_collected(model, 100_000)
        table = rng.integers(model.A, size=(model.H, model.S))
        c = 0.3
        priced, plain = augmented.model(c), augmented.model(None)
        policy = PolicyGraph.from_table(table[:, augmented.base_state])
        ev = lm.evaluate(model, PolicyGraph.from_table(table))
        square = ev.variance + (ev.value - c) ** 2
        assert lm.evaluate(plain, policy).value == pytest.approx(ev.value, abs=1e-12)
        assert lm.evaluate(priced, policy).value + c * c == pytest.approx(square, abs=1e-12)


def test_bad_class_is_refused():
    with pytest.raises(ModelError, match="policy_class"):
        max_variance(lm.make("bandit"), "stationary")
