"""Levels of branch and bound: any search, however its size grows, is brought to the last one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latentmdp.planning.markov.proof_levels import ProofLevels


def prove_all(sizes, gap=1.0):
    """Run all levels on a search whose nodes at a threshold are given; thresholds and limits."""
    lower, upper, tried = 0.0, gap, []
    levels = ProofLevels(gap, 1e-12)
    while upper > lower:
        threshold, limit = levels.threshold(lower, upper), levels.limit
        nodes = sizes(threshold)
        tried.append((threshold, limit, nodes))
        assert lower <= threshold < upper
        levels.settle(nodes if nodes <= limit else None)
        if nodes <= limit:
            upper = threshold
        assert len(tried) < 5_000
    return tried


@given(st.lists(st.floats(0.0, 40.0), min_size=1, max_size=8), st.floats(1e-9, 1e9))
def test_every_search_is_brought_to_the_last_level(jumps, gap):
    """Sizes grow in jumps at places all over the gap, by factors up to `exp(40)` each."""

    def sizes(threshold):
        passed = int((1.0 - threshold / gap) * len(jumps))
        return math.exp(min(sum(jumps[:passed]), 600.0))

    assert prove_all(sizes, gap)[-1][0] == 0.0


@pytest.mark.parametrize("growth", [1.0, 20.0, 200.0])
def test_steady_growth_costs_a_few_times_the_last_level(growth):
    """Sizes `exp(growth x distance)`: far fewer nodes than twenty last levels."""
    tried = prove_all(lambda threshold: math.exp(growth * (1.0 - threshold)))
    spent = sum(min(limit, nodes) for _, limit, nodes in tried)
    assert spent < 8 * max(tried[-1][2], 100_000)


def test_a_level_at_the_smallest_step_has_no_limit():
    levels = ProofLevels(1.0, 1e-12)
    limits = []
    for _ in range(20):
        levels.threshold(0.0, 1.0)
        limits.append(levels.limit)
        levels.settle(None)
    assert limits[0] < math.inf
    assert limits[-1] == math.inf
    assert levels.step == levels.smallest
