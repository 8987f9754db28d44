"""Baselines against plain Python, and the published reference values."""

import brute
import numpy as np
import pytest
from hypothesis import given, settings
from strategies import models

from latentmdp import LatentMDP, evaluate, make
from latentmdp.planning import baselines


def backward(d, weigh):
    """The table that maximises `weigh(t, s, q)` backward, `q[m][a]` with the values so far."""
    value = [[0.0] * d.S for _ in range(d.M)]
    table = []
    for _ in range(d.H):
        q = [
            [
                [
                    sum(p * (r + d.discount * value[m][y]) for p, r, _, y in d.outcomes(m, s, a))
                    for a in range(d.A)
                ]
                for s in range(d.S)
            ]
            for m in range(d.M)
        ]
        actions = [weigh([q[m][s] for m in range(d.M)]) for s in range(d.S)]
        value = [[q[m][s][actions[s]] for s in range(d.S)] for m in range(d.M)]
        table.insert(0, actions)
    return table


@settings(max_examples=60)
@given(models(M=3, S=3, A=3, H=3))
def test_weight_select_update_is_its_definition(model):
    """Every action is the best on average, with its own later actions; ties may fall either way."""
    d = brute.Dense(model)
    table = baselines.weight_select_update(model).table.tolist()
    actions = iter([a for row in reversed(table) for a in row])

    def chosen(q):
        totals = [sum(d.w[m] * q[m][a] for m in range(d.M)) for a in range(d.A)]
        action = next(actions)
        assert totals[action] >= max(totals) - 1e-9
        return action

    assert backward(d, chosen) == table


@settings(max_examples=60)
@given(models(M=3, S=3, A=3, H=3))
def test_knowing_the_context_bounds_every_policy(model):
    known = baselines.knowing_the_context(model)
    d = brute.Dense(model)
    alone = 0.0
    for m in range(d.M):
        value = [0.0] * d.S
        for _ in range(d.H):
            value = [
                max(
                    sum(p * (r + d.discount * value[y]) for p, r, _, y in d.outcomes(m, s, a))
                    for a in range(d.A)
                )
                for s in range(d.S)
            ]
        alone += d.w[m] * sum(d.nu[m][s] * value[s] for s in range(d.S))
    assert known == pytest.approx(alone, abs=1e-9)
    for name in baselines.TABLES:
        assert evaluate(model, baselines.policy(name, model)).value <= known + 1e-9


@settings(max_examples=40)
@given(models(M=1, S=4, A=3, H=4))
def test_all_baselines_are_optimal_with_one_context(model):
    known = baselines.knowing_the_context(model)
    for name in baselines.TABLES:
        value = evaluate(model, baselines.policy(name, model)).value
        assert value == pytest.approx(known, abs=1e-9)
    assert evaluate(model, baselines.qmdp_memory(model)).value == pytest.approx(known, abs=1e-9)


def test_mean_model_solves_the_averaged_mdp():
    rng = np.random.default_rng(0)
    P, R = rng.dirichlet(np.ones(3), (2, 3, 2)), rng.random((2, 3, 2))
    w, nu = np.array([0.3, 0.7]), rng.dirichlet(np.ones(3), 2)
    model = LatentMDP.from_arrays(P, R, w, nu, 4, max_return=None)
    mean = LatentMDP.from_arrays(
        np.tensordot(w, P, 1)[None], np.tensordot(w, R, 1)[None], [1.0], (w @ nu)[None], 4,
        max_return=None,
    )  # fmt: skip
    table = baselines.mean_model(model).table
    best = baselines.knowing_the_context(mean)
    assert brute.markov_value(brute.Dense(mean), table.tolist()) == pytest.approx(best)


def test_qmdp_with_memory_uses_what_it_sees():
    model = make("maze:size=3,goals=2,horizon=8")
    markov = evaluate(model, baselines.qmdp(model)).value
    memory = evaluate(model, baselines.qmdp_memory(model)).value
    assert markov <= memory <= baselines.knowing_the_context(model) + 1e-12
