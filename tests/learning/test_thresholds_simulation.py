"""Both sides of every size at which the simulators go another way: the law stays the same."""

import numpy as np
import pytest
from scipy import stats

import latentmdp as lm
from latentmdp.kernels.samplers import HYPERGEOMETRIC_LIMIT, address
from latentmdp.kernels.simulation.counts import ONE_BY_ONE, choose_size
from latentmdp.kernels.simulation.steps import draw
from latentmdp.learning.simulation import MARGIN, Simulator
from latentmdp.model.counts import Counts

FALSE_ALARM = 1e-4  # of each statistical test
PLAIN = lm.PolicyGraph.from_table


def two_steps():
    """From state 0 to 1 or 2; from there to 0 or 1."""
    P = np.array([[[[0.0, 0.7, 0.3]], [[0.4, 0.6, 0.0]], [[0.2, 0.8, 0.0]]]])
    return lm.LatentMDP.from_arrays(P, np.zeros((1, 3, 1)), [1.0], [[1.0, 0.0, 0.0]], 2)


@pytest.mark.parametrize("episodes", [ONE_BY_ONE, ONE_BY_ONE + 1, 3 * ONE_BY_ONE])
def test_the_law_of_a_block_sent_on_one_by_one_or_at_once(episodes):
    """Arrivals in states 1 and 2, and how many of each go on to 0: three binomials."""
    model, runs = two_steps(), 20_000
    simulator = Simulator(model, np.random.default_rng(episodes))
    simulator.play(PLAIN(np.zeros((2, 3), dtype=int)))
    seen = np.zeros((episodes + 1,) * 3)
    for _ in range(runs):
        counts = Counts.for_model(model)
        simulator.run_block(counts, episodes)
        assert counts.n.sum() == 2 * episodes
        seen[counts.n[1], counts.n_next[2], counts.n_next[4]] += 1
    expected = np.zeros_like(seen)
    for k in range(episodes + 1):
        first = stats.binom.pmf(np.arange(episodes + 1), k, 0.4)
        second = stats.binom.pmf(np.arange(episodes + 1), episodes - k, 0.2)
        expected[k] = runs * stats.binom.pmf(k, episodes, 0.7) * np.outer(first, second)
    often = expected >= 5
    pooled = [np.append(x[often], x[~often].sum()) for x in (seen, expected)]
    assert seen[expected == 0].sum() == 0
    assert stats.chisquare(*pooled).pvalue > FALSE_ALARM


@pytest.mark.parametrize("outcomes", [1, 2, 15, 16, 17, 18, 31, 32, 33, 34, 700])
def test_outcomes_are_found_one_by_one_or_by_bisection(outcomes):
    rng, twin = np.random.default_rng(1), np.random.default_rng(1)
    p = np.random.default_rng(outcomes).dirichlet(np.full(outcomes, 0.5))
    cumulative = np.concatenate([[0.1, 0.2], np.cumsum(p), [0.3]])  # as rows of a model lie
    begin, end = 2, 2 + outcomes
    for _ in range(500):
        found = draw(address(rng), cumulative, begin, end)
        if outcomes == 1:
            assert found == begin
            continue
        u = twin.random()
        wanted = begin + np.searchsorted(cumulative[begin:end], u, side="right")
        assert found == min(wanted, end - 1)


@pytest.mark.parametrize(("horizon", "safe"), [(1, True), (2, False)])
def test_blocks_that_may_be_cut_stay_where_the_sampler_is_exact(horizon, safe):
    """Rows with 2^40 visits. One visit in an episode: 10^12 episodes cannot trigger.

    Two steps: state 0 has 1.5 visits in an episode and triggers 2^40 visits later, with a standard
    deviation of 3 * 10^5 episodes.
    """
    P = np.full((1, 2, 1, 2), 0.5)
    model = lm.LatentMDP.from_arrays(P, np.zeros((1, 2, 1)), [1.0], [[1.0, 0.0]], horizon)
    simulator = Simulator(model, np.random.default_rng(0))
    simulator.play(PLAIN(np.zeros((horizon, 2), dtype=int)))
    counts = Counts.for_model(model)
    counts.n[:] = counts.N[:] = 2**40
    counts.n_next[:] = counts.N_next[:] = 2**39
    size, certain = choose_size(simulator._world_with(counts), 10**12, MARGIN)
    assert certain == safe
    assert size == (10**12 if safe else HYPERGEOMETRIC_LIMIT - 1)
    played, triggered = simulator.run(counts, 10**12)
    assert triggered != safe
    assert abs(played - (10**12 if safe else 2**40 / 1.5)) < (1 if safe else 6 * 3e5)
    if triggered:
        assert simulator.replay(counts).tolist() == [0]
        assert counts.N[0] == 2**41
    assert counts.n.sum() == 2 * 2**40 + horizon * played
    assert (counts.n_next.reshape(2, 2).sum(axis=1) == counts.n).all()


@pytest.mark.parametrize("S", [255, 256, 257])
@pytest.mark.parametrize("outcomes", [3, 4, 5])
def test_a_chain_that_just_fits_and_one_that_does_not(S, outcomes):
    """Room is first made for 1024 cells and 4096 outcomes; four steps make 4 S cells."""
    P = np.zeros((1, S, 1, S))
    rng = np.random.default_rng(S)
    for s in range(S):
        P[0, s, 0, (s + np.arange(outcomes)) % S] = rng.dirichlet(np.ones(outcomes))
    R = rng.random((1, S, 1)) / 4
    model = lm.LatentMDP.from_arrays(P, R, [1.0], np.full((1, S), 1 / S), 4)
    policy = PLAIN(np.zeros((4, S), dtype=int))
    simulator = Simulator(model, np.random.default_rng(1))
    assert simulator.play(policy) == pytest.approx(lm.evaluate(model, policy).value, abs=1e-12)
    counts = Counts.for_model(model)
    simulator.run_block(counts, 10**6)
    assert counts.n.sum() == 4 * 10**6
    share = counts.n_next / counts.n[counts.slot_row]
    assert np.abs(share - model.prob).max() < 6 * 0.5 / np.sqrt(counts.n.min())
