"""Count simulation has exactly the law of step-by-step simulation, on any policy graph.

Every statistical test states its false-alarm rate; seeds are fixed, so a pass stays a pass.
"""

import pickle
from collections import Counter
from collections.abc import Callable, Iterator

import numba
import numpy as np
import pytest
from hypothesis import given
from scipy import stats
from strategies import random_model, random_policy, seeds

import latentmdp as lm
from latentmdp.learning.simulation import Simulator, simulate_counts, simulate_episodes
from latentmdp.model.counts import Counts
from latentmdp.policy.graph import POLICY_PARTS

FALSE_ALARM = 1e-4  # of each statistical test

# the default; blocks that overshoot: episodes picked, halved to the end, both; timid blocks
SETTINGS = [
    {},
    {"margin": -8.0, "steps_per_edge": 0.0},
    {"margin": -8.0, "steps_per_edge": 0.0, "picked": 1},
    {"margin": 0.0, "steps_per_edge": 0.0, "picked": 2},
    {"margin": 9.0, "steps_per_edge": 0.0},
]


def tiny_model() -> lm.LatentMDP:
    """Two contexts, two states, two actions, three steps; one reward tells the contexts apart."""
    P = np.array(
        [
            [[[0.7, 0.3], [0.0, 1.0]], [[0.5, 0.5], [0.25, 0.75]]],
            [[[0.2, 0.8], [0.6, 0.4]], [[1.0, 0.0], [0.5, 0.5]]],
        ]
    )
    R = np.array([[[0.1, 0.0], [0.2, 0.3]], [[0.1, 0.2], [0.2, 0.0]]])
    return lm.LatentMDP.from_arrays(P, R, w=[0.6, 0.4], nu=[[0.5, 0.5], [1.0, 0.0]], horizon=3)


def markov_graph(model: lm.LatentMDP) -> lm.PolicyGraph:
    return lm.PolicyGraph.from_table([[0, 1], [1, 0], [0, 0]])


def tree_graph(model: lm.LatentMDP) -> lm.PolicyGraph:
    return lm.PolicyGraph.from_tree(model, lambda history: (sum(history) + len(history)) % 2)


def merged_graph(model: lm.LatentMDP) -> lm.PolicyGraph:
    """Histories share nodes, and some observations have no successor: they go to defaults."""
    # nodes: 0, 1 roots; 2, 3 defaults of step 1; 4 a merged node at state 0 with another action;
    # 5, 6 defaults of step 2; 7 a merged node at state 1 with another action
    step, state, action = (
        [0, 0, 1, 1, 1, 2, 2, 2],
        [0, 1, 0, 1, 0, 0, 1, 1],
        [0, 1, 0, 0, 1, 1, 0, 1],
    )
    successors = {
        0: [(0, 0, 4)],  # state 1: default
        1: [(0, 0, 4), (1, 1, 3)],
        3: [(0, 1, 7)],
        4: [(0, 1, 7), (1, 1, 7), (1, 0, 5)],
    }
    edges = [entry for n in range(8) for entry in successors.get(n, [])]
    indptr = np.cumsum([0, *(len(successors.get(n, [])) for n in range(8))])
    symbol, nxt, node = np.array(edges).T
    return lm.PolicyGraph.from_arrays(
        step, state, action, indptr, symbol, nxt, node, [0, 1], [[0, 1], [2, 3], [5, 6]]
    )


GRAPHS = [markov_graph, tree_graph, merged_graph]


def trajectories(
    model: lm.LatentMDP, policy: lm.PolicyGraph
) -> Iterator[tuple[float, tuple[tuple[int, int], ...]]]:
    """Every episode `((row, outcome), ...)` with its probability, by plain enumeration."""

    def extend(
        p: float, m: int, node: int, path: tuple[tuple[int, int], ...]
    ) -> Iterator[tuple[float, tuple[tuple[int, int], ...]]]:
        row = int((m * model.S + policy.state[node]) * model.A + policy.action[node])
        for e in range(model.indptr[row], model.indptr[row + 1]):
            longer = (*path, (row, int(e)))
            if len(longer) == model.H:
                yield p * model.prob[e], longer
                continue
            to = policy.successors([node], [model.symbol[e]], [model.next[e]])[0]
            yield from extend(p * model.prob[e], m, int(to), longer)

    for m in range(model.M):
        for s in range(model.S):
            p = model.w[m] * model.nu[m, s]
            if p > 0:
                yield from extend(p, m, int(policy.root[s]), ())


def algorithm_1(model: lm.LatentMDP, arrays: tuple[bytes, ...], path: tuple) -> tuple:
    """Lines 11 to 16 of Algorithm 1, plainly: new `(n, n_next, N, N_next)` and TRIGGERED."""
    n, n_next, N, N_next = (np.frombuffer(a, dtype=np.int64).copy() for a in arrays)
    triggered = False
    for row, e in path:
        n[row] += 1
        n_next[e] += 1
        if n[row] in (1, 2, 4, 8, 16, 32, 64):
            triggered = True
            N[row] = n[row]
            here = slice(model.indptr[row], model.indptr[row + 1])
            N_next[here] = n_next[here]
    return tuple(a.tobytes() for a in (n, n_next, N, N_next)), triggered


def key(counts: Counts) -> tuple[bytes, ...]:
    return tuple(a.tobytes() for a in (counts.n, counts.n_next, counts.N, counts.N_next))


def exact_law(
    model: lm.LatentMDP, policy: lm.PolicyGraph, start: Counts, budget: int
) -> dict[tuple, float]:
    """Joint law of (episodes simulated, triggered, all counts and snapshots)."""
    episodes = list(trajectories(model, policy))
    assert sum(p for p, _ in episodes) == pytest.approx(1.0, abs=1e-12)
    law: dict[tuple, float] = {}
    alive = {key(start): 1.0}
    for k in range(1, budget + 1):
        following: dict[tuple, float] = {}
        for state, p in alive.items():
            for q, path in episodes:
                new, triggered = algorithm_1(model, state, path)
                if triggered or k == budget:
                    cell = (k, triggered, new)
                    law[cell] = law.get(cell, 0.0) + p * q
                else:
                    following[new] = following.get(new, 0.0) + p * q
        alive = following
    return law


def start_counts(model: lm.LatentMDP) -> Counts:
    """Rows at different distances from their next power of two."""
    counts = Counts.for_model(model)
    for row in range(counts.rows):
        first = int(model.indptr[row])
        counts.n[row] = counts.n_next[first] = [5, 10, 9, 6, 3, 11, 4, 8][row]
        counts.N[row] = counts.N_next[first] = [4, 8, 8, 4, 2, 8, 4, 8][row]
    return counts


def chi_square(observed: Counter, law: dict[tuple, float], runs: int) -> float:
    """p-value; cells expected fewer than 5 times are pooled by number of episodes."""
    assert set(observed) <= set(law), "an outcome that is impossible"
    expected: dict[tuple, float] = {}
    seen: dict[tuple, float] = {}
    for cell, p in law.items():
        pool = cell if p * runs >= 5 else (cell[0], "rare")
        expected[pool] = expected.get(pool, 0.0) + p * runs
        seen[pool] = seen.get(pool, 0.0) + observed[cell]
    statistic = sum((seen[c] - e) ** 2 / e for c, e in expected.items() if e > 0)
    return float(stats.chi2.sf(statistic, len(expected) - 1))


def check_law(make_graph: Callable[[lm.LatentMDP], lm.PolicyGraph], runs: int, seed: int) -> None:
    """Enumerated joint law of (trigger episode, counts, snapshots), for every block setting."""
    model = tiny_model()
    policy, start = make_graph(model), start_counts(model)
    law = exact_law(model, policy, start, budget=3)
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    assert len(law) > 100
    counts = start.copy()
    for kind, setting in [("episodes", {}), *(("counts", s) for s in SETTINGS)]:
        simulator = Simulator(model, np.random.default_rng(seed), kind, **setting)
        simulator.play(policy)
        observed: Counter = Counter()
        for _ in range(runs):
            for name in ("n", "n_next", "N", "N_next"):
                getattr(counts, name)[:] = getattr(start, name)
            episodes, triggered = simulator.run(counts, 3)
            if triggered:
                simulator.replay(counts)
            observed[episodes, triggered, key(counts)] += 1
        assert chi_square(observed, law, runs) > FALSE_ALARM, (kind, setting)


@pytest.mark.parametrize("make_graph", GRAPHS)
def test_law_of_the_first_trigger_is_exact(make_graph) -> None:
    check_law(make_graph, runs=3_000, seed=11)


@pytest.mark.slow
@pytest.mark.parametrize("make_graph", GRAPHS)
def test_law_of_the_first_trigger_is_exact_in_many_runs(make_graph) -> None:
    check_law(make_graph, runs=100_000, seed=12)


def history_of(
    model: lm.LatentMDP,
    seed: int,
    kind: str,
    episodes: int,
    budgets: tuple[int, ...] = (10**9,),
    **setting: float,
) -> list[float]:
    """A run whose policy changes at every trigger (tables drawn from a fixed seed), in numbers."""
    tables = np.random.default_rng(5).integers(model.A, size=(40, model.H, model.S))
    policies = [lm.PolicyGraph.from_table(t) for t in tables]
    simulator = Simulator(model, np.random.default_rng(seed), kind, **setting)
    counts = Counts.for_model(model)
    done, updates, total, thirtieth, calls = 0, 0, 0.0, episodes, 0
    value = simulator.play(policies[0])
    while done < episodes:
        k, triggered = simulator.run(counts, min(episodes - done, budgets[calls % len(budgets)]))
        calls += 1
        done += k
        total += k * value
        if triggered:
            simulator.replay(counts)
            updates += 1
            if updates == 30:
                thirtieth = done
            value = simulator.play(policies[updates % len(policies)])
    assert counts.n.sum() == episodes * model.H
    rows = np.argsort(counts.n)[::-1]
    half = int(counts.n_next[: len(counts.n_next) // 2].sum())
    return [updates, thirtieth, total, float(counts.n[0]), float(counts.n[rows[0]]), half]


DOMAINS = [
    "maze:size=3,goals=2,horizon=6",
    "garnet:states=4,actions=2,contexts=2,horizon=4",
    "riverswim:horizon=6",
]


@pytest.mark.slow
@pytest.mark.parametrize("spec", DOMAINS)
def test_two_simulators_same_law(spec: str) -> None:
    """Kolmogorov-Smirnov on counts, trigger episodes, updates and total value; 6 numbers each."""
    model = lm.make(spec)
    model = model if model.max_return <= 1 else model.normalized()
    runs = 1000
    steps = np.array([history_of(model, seed, "episodes", 150) for seed in range(runs)])
    for setting in SETTINGS[:4:3]:
        blocks = np.array(
            [history_of(model, runs + seed, "counts", 150, **setting) for seed in range(runs)]
        )
        for i in range(steps.shape[1]):
            assert stats.ks_2samp(steps[:, i], blocks[:, i]).pvalue > FALSE_ALARM, i


@pytest.mark.slow
def test_a_run_cut_into_budgets_has_the_same_law() -> None:
    model, runs = lm.make(DOMAINS[0]), 1000
    whole = np.array([history_of(model, seed, "counts", 200) for seed in range(runs)])
    cut = np.array(
        [history_of(model, 999 + seed, "counts", 200, budgets=(1, 7, 3)) for seed in range(runs)]
    )
    for i in range(whole.shape[1]):
        assert stats.ks_2samp(whole[:, i], cut[:, i]).pvalue > FALSE_ALARM, i


@pytest.mark.parametrize("kind", ["counts", "episodes"])
def test_counts_add_up_and_triggers_are_powers_of_two(kind: str) -> None:
    model = lm.make("garnet:states=5,actions=3,contexts=3,horizon=7")
    policy = lm.PolicyGraph.from_table(np.random.default_rng(0).integers(3, size=(7, 5)))
    simulator = Simulator(model, np.random.default_rng(1), kind)
    counts, done = Counts.for_model(model), 0
    value = simulator.play(policy)
    assert value == pytest.approx(lm.evaluate(model, policy).value, abs=1e-12)
    total = np.zeros_like(simulator.visits()[2])
    while done < 20_000:
        before = counts.copy()
        k, triggered = simulator.run(counts, 20_000 - done)
        done += k
        node, context, visits = simulator.visits()
        assert visits.sum() == k * model.H  # of this phase alone
        total += visits
        if triggered:
            changed = simulator.replay(counts)
            crossed = np.flatnonzero(
                [
                    a.bit_length() != b.bit_length()
                    for a, b in zip(before.n.tolist(), counts.n.tolist(), strict=True)
                ]
            )
            assert sorted(changed) == crossed.tolist()
            assert np.array_equal(np.log2(counts.N[changed]) % 1, np.zeros(len(changed)))
        else:
            assert done == 20_000
    assert counts.n.sum() == 20_000 * model.H
    assert np.array_equal(np.add.reduceat(counts.n_next, counts.indptr[:-1]), counts.n)
    assert total.sum() == 20_000 * model.H
    by_row = np.bincount(
        (context * model.S + policy.state[node]) * model.A + policy.action[node],
        total, counts.rows,
    )  # fmt: skip
    assert np.array_equal(by_row, counts.n)


def test_a_trillion_episodes() -> None:
    model = lm.make("garnet:states=5,actions=3,contexts=3,horizon=7")
    policy = lm.PolicyGraph.from_table(np.zeros((7, 5), dtype=int))
    simulator = Simulator(model, np.random.default_rng(1))
    simulator.play(policy)
    counts, done, updates = Counts.for_model(model), 0, 0
    while done < 10**12:
        k, triggered = simulator.run(counts, 10**12 - done)
        done += k
        if triggered:
            simulator.replay(counts)
            updates += 1
    assert counts.n.sum() == 7 * 10**12
    assert updates <= model.M * model.S * model.A * (np.log2(7e12) + 1)
    estimate = counts.n_next / np.maximum(counts.n, 1)[counts.slot_row]
    seen = counts.n[counts.slot_row] > 0
    error = np.abs(estimate - model.prob)[seen] * np.sqrt(counts.n[counts.slot_row][seen])
    assert error.max() < 5.0 * 0.5  # five standard deviations of a fair coin


def test_simulate_counts_matches_expected_visits() -> None:
    """Each cell within five standard deviations (false alarm below 1e-4 for these 60 numbers)."""
    model, policy, episodes = tiny_model(), merged_graph(tiny_model()), 10**8
    counts = simulate_counts(model, policy, episodes, seed=3)
    expected = np.zeros(len(model.prob))
    for p, path in trajectories(model, policy):
        for _, e in path:
            expected[e] += p
    sd = np.sqrt(np.maximum(expected, 1e-300) * model.H * episodes)
    assert (np.abs(counts.n_next - expected * episodes) <= 5 * sd).all()


def test_simulate_episodes_gives_valid_trajectories() -> None:
    model = lm.make("maze:size=3,goals=2,horizon=6")
    policy = lm.PolicyGraph.from_table(np.ones((6, model.S), dtype=int))
    sample = simulate_episodes(model, policy, 2000, seed=4)
    assert sample.states.shape == (2000, 7)
    P, R = model.P, model.R
    m = sample.contexts[:, None]
    s, a, nxt = sample.states[:, :-1], sample.actions, sample.states[:, 1:]
    assert (P[m, s, a, nxt] > 0).all()
    assert (a == policy.table[np.arange(6), s]).all()
    reward = R[m, s, a, nxt] if model.rewards_on_transitions else R[m, s, a]
    assert np.array_equal(reward, sample.rewards)
    mean, value = sample.rewards.sum(axis=1).mean(), lm.evaluate(model, policy).value
    assert abs(mean - value) < 5 * 0.5 / np.sqrt(2000)


def test_many_first_states_and_large_graphs() -> None:
    """Start states are found by bisection, and buffers grow; rewards may be negative here."""
    S = 700
    P = np.eye(S)[None, :, None, ::-1]
    nu = np.arange(1.0, S + 1)[None] / (S * (S + 1) / 2)
    R = np.full((1, S, 1), -0.25)
    model = lm.LatentMDP.from_arrays(P, R, [1.0], nu, 4, max_return=None)
    policy = lm.PolicyGraph.from_table(np.zeros((4, S), dtype=int))
    sample = simulate_episodes(model, policy, 40_000, seed=1)
    seen = np.bincount(sample.states[:, 0], minlength=S)
    assert stats.chisquare(seen, nu[0] * 40_000).pvalue > FALSE_ALARM
    assert (sample.states[:, 1] == S - 1 - sample.states[:, 0]).all()
    assert simulate_counts(model, policy, 10**6).n.sum() == 4 * 10**6


@given(seeds)
def test_a_simulator_plays_one_policy_after_the_other(seed):
    """Markov policies share all arrays but their actions, others share none; values are exact."""
    rng = np.random.default_rng(seed)
    model = random_model(rng).replace(discount=1.0)
    simulator = Simulator(model, rng)
    for _ in range(6):
        table = rng.integers(0, model.A, (model.H, model.S))
        policy = (
            random_policy(rng, model) if rng.random() < 0.3 else lm.PolicyGraph.from_table(table)
        )
        assert simulator.play(policy) == pytest.approx(lm.evaluate(model, policy).value, abs=1e-12)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="is about what is compiled")
def test_one_compiled_version_for_arrays_from_anywhere() -> None:
    """Pickling makes arrays writable, and users may hand over any layout: the kernels stay one."""
    from latentmdp.kernels.simulation.chain import build_chain

    model = tiny_model()
    policy = merged_graph(model)
    by_hand = lm.PolicyGraph(*(np.asfortranarray(getattr(policy, name)) for name in POLICY_PARTS))
    unpickled: lm.LatentMDP = pickle.loads(pickle.dumps(model))
    for world in (model, unpickled):
        for played in (policy, by_hand, pickle.loads(pickle.dumps(policy)), markov_graph(model)):
            value = Simulator(world, np.random.default_rng(0)).play(played)
            assert value == pytest.approx(lm.evaluate(model, played).value, abs=1e-12)
    assert len(build_chain.signatures) == 1
