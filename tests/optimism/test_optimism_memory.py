"""The memory of history-dependent policies: pools, observations, graphs."""

import numpy as np
import pytest
from optimism_twin import random_counts

import latentmdp as lm
from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import BonusConstants, rule_named
from latentmdp.optimism.given import Given
from latentmdp.optimism.memory.graph import MemoryGraph
from latentmdp.optimism.memory.rule import _g_statistic, drifted, likelihoods, pools
from latentmdp.optimism.memory.search import MemorySearch
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.settings import MemoryKind

MAZE = "maze:size=4,goals=3,horizon=10"


def parts(model, visits):
    known, counts = Given.of(model), Counts.from_visits(visits)
    constants = BonusConstants(known.M, known.S, known.A, known.H, 1000)
    found = ConfidenceModel.of(known, counts, rule_named("mvp"), constants)
    return known, counts, found.shown(), found


def grow(model, visits, side, nodes=60_000):
    """The memory in full: all actions are expanded. With it, its likelihoods and beliefs."""
    known, counts, seen, _ = parts(model, visits)
    constants = BonusConstants(known.M, known.S, known.A, known.H, 1000)
    graph = MemoryGraph(known, seen, MemoryKind(nodes, side, every=True))
    graph.start(likelihoods(known, counts, seen, all_pairs(known)))
    assert graph.solve(MemorySearch(known, rule_named("mvp"), constants, counts)).fits
    part = graph.part(np.ones(graph.count, dtype=bool))
    return part, graph.memory.likelihood, graph.memory.belief[part.order]


def all_pairs(known):
    return np.arange(known.S * known.A)


def test_indistinguishable_contexts_share_one_estimate():
    rng = np.random.default_rng(0)
    p, q = [0.5, 0.3, 0.2], [0.1, 0.1, 0.8]
    P = np.zeros((3, 3, 1, 3))
    P[0, :], P[1, :], P[2, :] = p, p, q
    model = lm.LatentMDP.from_arrays(
        P, np.zeros((3, 3, 1)), np.full(3, 1 / 3), np.full((3, 3), 1 / 3), 2
    )
    visits = random_counts(rng, model, (1000,))
    known, counts, _, _ = parts(model, visits)
    found = pools(known, counts, all_pairs(known))
    assert np.array_equal(found[0], found[1])
    assert found[0, 0] == pytest.approx((visits[0, 0, 0] + visits[1, 0, 0]) / 2000)
    assert found[2, 0] == pytest.approx(visits[2, 0, 0] / 1000)


def test_contexts_without_visits_join_the_others():
    P = np.full((2, 2, 1, 2), 0.5)
    model = lm.LatentMDP.from_arrays(P, np.zeros((2, 2, 1)), [0.5, 0.5], np.full((2, 2), 0.5), 2)
    visits = np.zeros((2, 2, 1, 2), dtype=int)
    visits[0, 0, 0] = [30, 10]
    known, counts, _, _ = parts(model, visits)
    found = pools(known, counts, all_pairs(known))
    assert found[:, 0].tolist() == [[0.75, 0.25]] * 2
    assert found[:, 1].tolist() == [[0.5, 0.5]] * 2  # nothing is known there


def test_g_statistic_is_scipys():
    from scipy.stats import chi2_contingency

    x, y = np.array([[10.0, 20.0, 5.0]]), np.array([[12.0, 9.0, 30.0]])
    expected = chi2_contingency(np.concatenate([x, y]), lambda_="log-likelihood").statistic
    assert _g_statistic(x, y)[0] == pytest.approx(expected)


@pytest.mark.parametrize("n", [100, 1000, 10_000])
def test_pooled_beliefs_merge_as_in_the_true_model(n):
    """In a maze noise must not split beliefs: as many nodes as with the true probabilities."""
    model = lm.make(MAZE)
    sizes = []
    for visits in (
        random_counts(np.random.default_rng(n), model, (n,)),
        np.rint(model.P * 2**40).astype(np.int64),
    ):
        sizes.append(len(grow(model, visits, 1e-9)[0].state))
    assert sizes[0] == sizes[1]


def test_children_follow_from_beliefs():
    """Every edge leads to the node of the next state with the updated belief."""
    model = lm.make(MAZE)
    visits = random_counts(np.random.default_rng(1), model, (50,))
    known, _, seen, _ = parts(model, visits)
    memory, likelihood, belief = grow(model, visits, 1e-9)
    place = {int(number): i for i, number in enumerate(memory.number)}
    rng = np.random.default_rng(2)
    for n in rng.integers(0, len(memory.state), 200):
        s, t, a = memory.state[n], memory.step[n], int(rng.integers(known.A))
        lo, hi = seen.start[s * known.A + a], seen.start[s * known.A + a + 1]
        for o in range(lo, hi):
            child = memory.succ[memory.edge[n, a] + o - lo]
            if t + 1 == known.H:
                assert child == memory.span[known.H] + seen.next[o]
                continue
            b = belief[n] * likelihood[o]
            if b.sum() == 0.0 or child not in place:
                continue
            i = place[child]
            assert memory.state[i] == seen.next[o]
            assert memory.step[i] == t + 1
            assert belief[i] == pytest.approx(b / b.sum(), abs=1e-8)


def test_an_unexpected_observation_keeps_the_belief_of_consistent_contexts():
    """A next state that only an excluded context has been seen to reach."""
    visits = np.zeros((2, 3, 1, 3), dtype=int)
    visits[0, 0, 0], visits[1, 0, 0] = [0, 500, 0], [0, 0, 500]  # the first step tells them apart
    visits[0, 1, 0], visits[1, 1, 0] = [500, 0, 0], [0, 500, 0]
    visits[:, 2, 0, 2] = 500
    P = np.full((2, 3, 1, 3), 1 / 3)
    nu = np.array([[1.0, 0, 0], [1.0, 0, 0]])
    model = lm.LatentMDP.from_arrays(P, np.zeros((2, 3, 1)), [0.5, 0.5], nu, 3)
    memory, _, belief = grow(model, visits, 1e-9)
    at_1 = np.flatnonzero((memory.step == 1) & (memory.state == 1))
    assert belief[at_1].tolist() == [[1.0, 0.0]]  # seen state 1: context 0
    place = {int(number): i for i, number in enumerate(memory.number)}
    found = [place[child] for child in memory.succ[memory.edge[at_1[0], 0] :][:2]]
    children = {int(memory.state[i]): i for i in found}
    assert belief[children[0]].tolist() == [1.0, 0.0]
    assert belief[children[1]].tolist() == [1.0, 0.0]  # context 1 was excluded, and stays so


def test_cells_merge_what_is_close():
    model = lm.make("garnet:contexts=3,states=8,actions=2,horizon=5", observe_rewards=False)
    visits = random_counts(np.random.default_rng(1), model, (1000,))
    exact, cells, coarse = (len(grow(model, visits, side)[0].state) for side in (1e-9, 0.1, 0.3))
    assert exact > cells > coarse


def test_whole_histories_never_merge():
    model = lm.make("bandit:arms=2,contexts=2,horizon=3,seed=0")
    visits = random_counts(np.random.default_rng(1), model, (1000,))
    memory = grow(model, visits, 0.0)[0]
    inner = memory.succ[np.isin(memory.succ, memory.number)]
    assert len(np.unique(inner)) == len(inner)


def test_drift_asks_for_a_new_graph_only_when_ratios_move():
    old = np.array([[0.5, 0.5], [0.2, 0.1], [0.0, 0.3]])
    assert not drifted(old * 0.7, old)  # the same ratios
    assert drifted(np.array([[0.5, 0.6], [0.2, 0.1], [0.0, 0.3]]), old)
    assert drifted(np.array([[0.5, 0.5], [0.2, 0.1], [0.01, 0.3]]), old)  # possible now


def test_memory_is_worth_something():
    """On a maze with a hidden goal, remembering what was seen beats every Markov policy."""
    from latentmdp.optimism.optimistic_plan import optimistic_plan

    model = lm.make(MAZE)
    visits = np.rint(model.P * 10**7).astype(np.int64)
    values = {
        name: lm.evaluate(model, optimistic_plan(model, visits, "mvp", name).policy).value
        for name in ("markov", "history")
    }
    assert values["history"] > values["markov"] + 0.001
