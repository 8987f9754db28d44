"""The theorem's bounds: constants recomputed by solving the rows' inequalities numerically."""

import math

import numpy as np
import pytest

from latentmdp import ModelError
from latentmdp.theory import bounds


def regret_by_iteration(M, S, A, H, K, Gamma, variance, delta):
    """The largest regret that the audit's rows allow: the fixed point of X4, then the sum."""
    i = 2 * math.log(2 * M * S * A * H * K / delta)
    U = M * S * A * (math.log2(H * K) + 1)
    X5 = 3 * variance * K + 46 * i**2
    X4 = 0.0
    for _ in range(10_000):
        X6 = 42 * i + 4 * X4 + 2 * U
        total = 2 * (X5 + X6) + U / 4
        new = 7 * math.sqrt(3 * M * Gamma * S * A * i**2 * total) + 90 * M * S**2 * A * i**2
        if new <= X4 * (1 + 1e-12):
            break
        X4 = new
    X1 = 4 * math.sqrt(X5 * i) + 4 * math.sqrt(X6 * i) + 5 * i
    X2 = 2 * math.sqrt(2 * variance * K * i) + 5 * i
    X3 = 2 * math.sqrt(2 * 2 * (X5 + X6) * i) + 5 * i
    return X1 + X2 + X3 + X4 + U


def test_upper_bound_covers_what_the_rows_allow_and_not_much_more():
    rng = np.random.default_rng(0)
    for _ in range(200):
        M, S, A, H = (int(2 ** rng.uniform(0, 5)) for _ in range(4))
        K = int(10 ** rng.uniform(0, 12))
        Gamma = int(rng.integers(1, S + 1))
        variance, delta = (
            float(rng.choice([0.0, 0.25, rng.random() / 4])),
            10 ** rng.uniform(-6, -1),
        )
        bound = bounds.upper_bound(M, S, A, H, K, Gamma=Gamma, variance=variance, delta=delta)
        allowed = regret_by_iteration(M, S, A, H, K, Gamma, variance, delta)
        assert allowed <= bound.total <= 6 * allowed
        assert bound.main_constant <= 28 * math.sqrt(18) + 8 * math.sqrt(3) + 2 * math.sqrt(2)
        assert bound.lower_order_constant <= 4000


def test_main_term_is_zero_without_variance_and_has_the_theorem_s_exponents():
    base = dict(M=4, S=8, A=4, H=16, K=10**8, Gamma=4, variance=0.1, delta=0.1)

    def main(**changes):
        values = {**base, **changes}
        bound = bounds.upper_bound(
            *(values[k] for k in "MSAHK"),
            Gamma=values["Gamma"],
            variance=values["variance"],
            delta=values["delta"],
        )
        return bound.main, bound.iota

    assert main(variance=0.0)[0] == 0.0
    for name, value in (("K", 4 * 10**8), ("M", 16), ("S", 32), ("A", 16), ("variance", 0.4)):
        (small, i), (large, j) = main(), main(**{name: value})
        assert large / small == pytest.approx(2 * j / i, rel=0.05)  # sqrt(4), up to iota
    assert main(Gamma=16 // 2)[0] / main()[0] == pytest.approx(math.sqrt(2), rel=0.02)
    (small, i), (large, j) = main(), main(H=64)
    assert large / small == pytest.approx(j / i, rel=0.01)  # the horizon only through iota


def test_iota_and_updates():
    assert bounds.iota(2, 3, 4, 5, 6, 0.1) == pytest.approx(2 * math.log(2 * 720 / 0.1))
    assert bounds.iota(2, 3, 4, 5, 10**18, 0.1) > 80
    assert bounds.max_updates(2, 3, 4, 8, 16) == pytest.approx(24 * 8)
    with pytest.raises(ModelError, match="delta"):
        bounds.iota(2, 3, 4, 5, 6, 1.0)


def test_lower_bound_and_its_conditions():
    found = bounds.lower_bound(2, 11, 2, 10**6, x=0.5)
    assert found.choices == 8
    assert found.value == pytest.approx(0.5 * math.sqrt(2 * 8 * 10**6) / (32 * math.sqrt(2)))
    assert found.applies
    assert "at least" in str(found)
    few = bounds.lower_bound(2, 11, 2, 60)
    assert not few.applies
    assert any("K/(2M)" in reason for reason in few.failed)
    assert any("K must exceed" in reason for reason in few.failed)
    assert "not proved" in str(few)
    assert bounds.lower_bound(1, 6, 2, 10**6).choices == 4
    two = bounds.lower_bound(3, 6, 2, 10**7)
    assert two.choices == 2
    assert len(two.failed) == 1
    assert "3 choices" in two.failed[0]
    with pytest.raises(ModelError, match="history class"):
        bounds.lower_bound(2, 11, 2, 10**6, policy_class="markov")
    with pytest.raises(ModelError, match="S >= 6"):
        bounds.lower_bound(2, 5, 2, 10**6)


def test_lower_bound_s_condition_is_what_the_proof_needs():
    """Above it, `sqrt(2 K L) + M L < K / (2M)`; at it, equality."""
    for M, L in ((1, 2.0), (3, 7.5), (10, 1.2)):
        K = (6 + 4 * math.sqrt(2)) * M**2 * L
        assert math.sqrt(2 * K * L) + M * L == pytest.approx(K / (2 * M))
        K *= 1.001
        assert math.sqrt(2 * K * L) + M * L < K / (2 * M)


def test_predecessor_bound_grows_with_the_horizon():
    one = bounds.predecessor_bound(2, 5, 2, 10, 10**6, delta=0.1)
    assert bounds.predecessor_bound(2, 5, 2, 40, 10**6, delta=0.1) == pytest.approx(2 * one)
