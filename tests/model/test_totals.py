"""Largest and smallest totals: both ways of computing them against enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import latentmdp as lm
from latentmdp.model import totals


def random_model(seed, M, S, A, horizon, discount=1.0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), (M, S, A)) * (rng.random((M, S, A, S)) < 0.5)
    P[..., 0] += P.sum(axis=-1) == 0
    P /= P.sum(axis=-1, keepdims=True)
    R = rng.normal(size=(M, S, A, S) if seed % 2 else (M, S, A))
    nu = rng.dirichlet(np.ones(S), M) * (rng.random((M, S)) < 0.7)
    nu[:, 0] += nu.sum(axis=1) == 0
    nu /= nu.sum(axis=1, keepdims=True)
    return lm.LatentMDP.from_arrays(
        P, R, np.ones(M) / M, nu, horizon, discount=discount, max_return=None,
        observe_rewards=False,
    )  # fmt: skip


def enumerated(model, m, sign):
    """The best total over every possible path, one by one."""
    best = -np.inf
    for s in np.flatnonzero(model.nu[m]):
        paths = [(0.0, int(s))]
        for t in range(model.H):
            paths = [
                (total + sign * model.discount**t * model.reward[i], int(model.next[i]))
                for (total, here), a in itertools.product(paths, range(model.A))
                for row in [(m * model.S + here) * model.A + a]
                for i in range(model.indptr[row], model.indptr[row + 1])
            ]
        best = max(best, *(total for total, _ in paths))
    return sign * best


def both_ways(model, sign, monkeypatch):
    """By squaring, then step by step: what calls cost decides."""
    found = []
    monkeypatch.setattr(totals, "ELEMENT_SECONDS", 0.0)
    for call in (1.0, -1.0):
        monkeypatch.setattr(totals, "CALL_SECONDS", call)
        found.append(
            totals.extreme_totals(model.sizes, model.rows, model.nu, model.H, model.discount, sign)
        )
    return found


@given(seed=st.integers(0, 10**6), horizon=st.integers(1, 4), discount=st.sampled_from([1.0, 0.7]))
def test_totals_equal_enumeration(seed, horizon, discount):
    model = random_model(seed, 2, 3, 2, horizon, discount)
    for sign in (-1, 1):
        exact = [enumerated(model, m, sign) for m in range(model.M)]
        with pytest.MonkeyPatch.context() as patch:
            for found in both_ways(model, sign, patch):
                assert found == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("horizon", [511, 512, 1000, 4097])
@pytest.mark.parametrize("discount", [1.0, 0.9999])
def test_squares_equal_steps_on_long_horizons(horizon, discount, monkeypatch):
    model = random_model(horizon, 3, 7, 2, horizon, discount)
    for sign in (-1, 1):
        squares, steps = both_ways(model, sign, monkeypatch)
        assert squares == pytest.approx(steps, rel=1e-12)


def test_the_ways_are_really_two(monkeypatch):
    model, asked = random_model(0, 2, 4, 2, 50), []
    for name in ("_by_squaring", "_step_by_step"):
        real = getattr(totals, name)
        monkeypatch.setattr(
            totals, name, lambda *a, real=real, name=name: asked.append(name) or real(*a)
        )
    both_ways(model, 1, monkeypatch)
    assert asked == ["_by_squaring", "_step_by_step"]


def test_a_million_steps_of_a_small_model_are_checked_at_once(monkeypatch):
    monkeypatch.delattr(totals, "_step_by_step")  # it would take seconds
    model = lm.make("bandit:horizon=1e6")
    assert max(model.describe().largest_totals) == pytest.approx(1.0, abs=1e-9)
    discounted = random_model(0, 2, 4, 2, 10**6, 1.0 - 1e-7)
    assert 0 < discounted.max_return <= discounted.reward.max() * (1 - np.exp(-0.1)) / 0.99e-7


def test_totals_beyond_the_largest_float_are_refused():
    P, R = np.ones((1, 1, 1, 1)), np.full((1, 1, 1), 1e308)
    for limit in (1.0, None):
        with pytest.raises(lm.ModelError, match="total reward"):
            lm.LatentMDP.from_arrays(P, R, [1.0], [[1.0]], 10**6, max_return=limit)
