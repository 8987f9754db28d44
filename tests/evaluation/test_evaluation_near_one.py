"""Stationary policies at discounts close to 1: exact fractions as the twin, in bounded time."""

import math
import time
from fractions import Fraction

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.evaluation import discounted as evaluation_stationary
from latentmdp.evaluation.discounted import Steps, solve_chain
from latentmdp.kernels import controller_sweeps

DISCOUNTS = (0.5, 0.99, 1.0 - 2.0**-20, 1.0 - 2.0**-32, 1.0 - 2.0**-40)


def random_chain(rng, N, kind):
    """Transitions whose probabilities sum to exactly 1: eighths."""
    if kind == "ring":
        after = np.stack([(np.arange(N) + 1) % N, (np.arange(N) - 1) % N], axis=1)
        prob = np.full((N, 2), 0.5)
    else:
        after = rng.integers(0, N, (N, 3))
        if kind == "classes":  # the lower half is never left, nor is the last node
            after[: N // 2] %= N // 2
            after[-1] = N - 1
        prob = np.tile([0.125, 0.375, 0.5], (N, 1))
    node = np.repeat(np.arange(N), after.shape[1])
    return Steps(node, after.ravel(), prob.ravel(), np.zeros(after.size))


def solved_exactly(steps, d, right, transposed):
    N = len(right)
    rows = [[Fraction(int(i == j)) for j in range(N)] + [Fraction(right[i])] for i in range(N)]
    for n, k, p in zip(steps.node, steps.after, steps.prob, strict=True):
        i, j = (k, n) if transposed else (n, k)
        rows[i][j] -= Fraction(d) * Fraction(p)
    for i in range(N):
        pivot = next(j for j in range(i, N) if rows[j][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for j in range(N):
            if j != i and rows[j][i]:
                rows[j] = [x - rows[j][i] * y for x, y in zip(rows[j], rows[i], strict=True)]
    return np.array([float(row[N]) for row in rows])


@pytest.mark.parametrize("way", ["factors", "sweeps and GMRES", "GMRES alone", "border"])
@pytest.mark.parametrize("kind", ["random", "ring", "classes"])
def test_all_solvers_are_exact_at_every_discount(monkeypatch, kind, way):
    if way != "factors":
        monkeypatch.setattr(evaluation_stationary, "MOST_FACTORED", 0)
    if way in ("GMRES alone", "border"):
        monkeypatch.setattr(controller_sweeps, "solve_in_order", give_up)
    if way == "border":
        monkeypatch.setattr(evaluation_stationary, "ROUNDS", 0)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        N = int(rng.integers(2, 10))
        steps = random_chain(rng, N, kind)
        right = rng.random(N)
        for d in DISCOUNTS:
            for transposed in (False, True):
                found = solve_chain(steps, d, right, transposed)
                exact = solved_exactly(steps, d, right, transposed)
                np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-13 * exact.max())


def give_up(*arguments):
    """`solve_in_order` where sweeps solve nothing."""
    components, done = arguments[7], arguments[9]
    assert done <= components
    return done


@pytest.mark.parametrize("N", [1000, 1001])
@pytest.mark.parametrize("kind", ["random", "ring", "classes"])
def test_both_sides_of_the_largest_factored_size(kind, N):
    steps = random_chain(np.random.default_rng(N), N, kind)
    right = np.random.default_rng(1).random(N)
    for d in DISCOUNTS:
        for transposed in (False, True):
            x = solve_chain(steps, d, right, transposed)
            sent = steps.prob * x[steps.node if transposed else steps.after]
            into = np.bincount(steps.after if transposed else steps.node, sent, minlength=N)
            error = np.abs(right + d * into - x).max()
            assert error <= 1e-12 * np.abs(x).max()
            if transposed:  # all that comes leaves
                assert x.sum() * (1.0 - d) == pytest.approx(right.sum(), rel=1e-11)


@pytest.mark.parametrize("nines", [1e-4, 1e-6, 3e-10, 1e-12])
@pytest.mark.parametrize("policy_class", ["history", "markov"])
def test_plans_near_a_discount_of_1_keep_their_limit(nines, policy_class):
    """With 1,001 nodes or more, evaluation took 40 / (1 - discount) sweeps: years."""
    model = lm.make("garnet:contexts=2,states=1100,actions=2,branching=3")
    lm.plan(model.replace(discount=0.9, horizon=math.inf), policy_class, time_limit=0.1)
    model = model.replace(discount=1.0 - nines, horizon=math.inf, max_return=None)
    began = time.thread_time()
    found = lm.plan(model, policy_class, gap=None, time_limit=0.3)
    assert time.thread_time() - began < 2.0
    assert lm.evaluate(model, found.policy).value == pytest.approx(found.lower, rel=1e-11)
    assert found.lower <= found.upper <= model.max_return * (1 + 1e-9)


def test_bounds_hold_near_a_discount_of_1():
    """On models so small that all Markov policies can be listed, with exact fractions."""
    for seed in range(2):
        spec = f"garnet:contexts=2,states=3,actions=2,branching=2,seed={seed}"
        base = lm.make(spec, observe_rewards=False)
        for d in DISCOUNTS[1:]:
            model = base.replace(discount=d, horizon=math.inf, max_return=None)
            best = max(
                lm.evaluate(model, lm.PolicyGraph.from_table(table, stationary=True)).value
                for table in np.ndindex(*(model.A,) * model.S)
            )
            slack = 1e-11 * best
            for policy_class in ("history", "markov"):
                for work in (1, 1000, 10**5):
                    found = lm.plan(model, policy_class, gap=None, time_limit=None, work_limit=work)
                    assert found.upper >= best - slack
                    assert found.lower <= found.upper
                    if policy_class == "markov":
                        assert found.lower <= best + slack
