"""The Markov planner against enumeration, against a mixed-integer programme, and by its parts."""

from collections import deque
from dataclasses import replace
from itertools import pairwise

import brute
import numpy as np
import pytest
from hypothesis import given, settings
from strategies import models, random_model, seeds

from latentmdp import LatentMDP, evaluate, make, plan
from latentmdp.evaluation.evaluate import context_optimal
from latentmdp.kernels.planning.history_grid import find_cell, list_vertices
from latentmdp.planning import baselines
from latentmdp.planning.history.belief_grid import n_vertices, rank_table
from latentmdp.planning.history.planner import plan_history
from latentmdp.planning.limits import Limits
from latentmdp.planning.markov import coordinate_ascent as ascent_module
from latentmdp.planning.markov import exact as markov_exact_module
from latentmdp.planning.markov import planner as markov_module
from latentmdp.planning.markov import view as markov_view_module
from latentmdp.planning.markov.coordinate_ascent import CoordinateAscent
from latentmdp.planning.markov.exact import BranchAndBound, grid_bound
from latentmdp.planning.markov.planner import plan_markov
from latentmdp.planning.markov.view import markov_view
from latentmdp.planning.settings import SETTINGS


def tolerance(model):
    return 1e-9 * max(1.0, abs(model.min_return), abs(model.max_return))


def last(pieces):
    """What work in pieces comes to."""
    return deque(pieces, maxlen=1).pop()


def is_tiny(model, most=600):
    d = brute.Dense(model)
    return d.A ** len(brute.reachable(d)) <= most


def check_against_enumeration(seed):
    """One random tiny model: closed exactly, and stopped after a random amount of work."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, M=3, S=3, A=3, H=3)
    if not is_tiny(model):
        return False
    best = brute.best_markov_value(model)
    near = tolerance(model)
    for gap, work in ((None, None), (0.0, int(rng.integers(1, 5000))), (0.05, None)):
        found = plan_markov(model, Limits(gap, work=work), seed=seed % 7)
        assert found.lower - near <= best <= found.upper + near, (seed, gap, work)
        assert evaluate(model, found.policy).value == pytest.approx(found.lower, abs=1e-12)
        lowers, uppers = [h[2] for h in found.history], [h[3] for h in found.history]
        assert all(a <= b + near for a, b in pairwise(lowers))
        assert all(a >= b - near for a, b in pairwise(uppers))
        assert all(u >= best - near for u in uppers)
        if gap is None:
            assert found.status == "optimal"
            assert found.lower == pytest.approx(best, abs=near)
        if found.status == "gap":
            assert found.upper - found.lower <= gap * abs(found.upper) + 1e-12
    return True


def test_optimum_of_random_tiny_models_lies_between_the_bounds():
    assert sum(check_against_enumeration(seed) for seed in range(300)) > 200


@pytest.mark.slow
def test_optimum_of_ten_thousand_random_tiny_models_lies_between_the_bounds():
    checked, seed = 0, 10_000
    while checked < 10_000:
        checked += check_against_enumeration(seed)
        seed += 1


# ---------------------------------------------------------------------- degenerate cases by name


def small(M=2, S=3, A=2, H=3, seed=0, **changes):
    rng = np.random.default_rng(seed)
    parts = {
        "P": rng.dirichlet(np.ones(S), (M, S, A)),
        "R": rng.random((M, S, A)),
        "w": rng.dirichlet(np.ones(M)),
        "nu": rng.dirichlet(np.ones(S), M),
    }
    parts.update({name: change(parts[name]) for name, change in changes.items()})
    return LatentMDP.from_arrays(*parts.values(), H, max_return=None, observe_rewards=False)


def deterministic(P):
    return np.eye(P.shape[-1])[P.argmax(axis=-1)]


def common_zeros(P):
    P = P.copy()
    P[..., -1] = 0.0
    return P / P.sum(axis=-1, keepdims=True)


DEGENERATE = {
    "one context": small(M=1),
    "one state": small(S=1, H=5),
    "one action": small(A=1),
    "horizon 1": small(H=1),
    "identical contexts": small(P=lambda P: P[:1].repeat(2, 0), R=lambda R: R[:1].repeat(2, 0)),
    "deterministic": small(P=deterministic),
    "rewards all zero": small(R=lambda R: 0 * R),
    "w near 0": small(w=lambda w: np.array([1e-300, 1.0])),
    "w is 0": small(w=lambda w: np.array([0.0, 1.0])),
    "zero-probability rows in common": small(P=common_zeros),
    "costs": small(R=lambda R: -R),
    "huge rewards": small(R=lambda R: 1e12 * R),
    "tiny rewards": small(R=lambda R: 1e-12 * R),
    "one place": small(M=3, S=1, A=1, H=1),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_models_close_exactly(name):
    model = DEGENERATE[name]
    best = brute.best_markov_value(model)
    found = plan_markov(model)
    assert found.status == "optimal"
    assert found.lower == pytest.approx(best, rel=1e-9)
    assert found.upper == pytest.approx(best, rel=1e-9)


def test_no_history_helps_one_context():
    model = make("deterministic:seed=3")
    assert model.M == 1
    known, _ = context_optimal(model)
    assert plan_markov(model).lower == pytest.approx((model.nu * known[0]).sum())


# ---------------------------------------------------------------------- independent oracles


def milp_optimum(model):
    """Steimle's problem as a mixed-integer programme over occupations, by HiGHS.

    `y[m,t,s,a]` is the probability of being in `s` at `t` and playing `a` in context `m`; it is 0
    unless the binary `x[t,s,a]` is 1.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    M, S, A, H = model.M, model.S, model.A, model.H
    P, R = model.P, model.row_reward.reshape(M, S, A)
    x = np.arange(H * S * A).reshape(H, S, A)
    y = x.size + np.arange(M * H * S * A).reshape(M, H, S, A)
    n = x.size + y.size
    rows, low, high = [], [], []

    def constrain(indices, values, lower, upper):
        row = np.zeros(n)
        row[indices] = values
        rows.append(row)
        low.append(lower)
        high.append(upper)

    for t in range(H):
        for s in range(S):
            constrain(x[t, s], 1.0, 1.0, 1.0)
            for m in range(M):
                for a in range(A):
                    constrain([y[m, t, s, a], x[t, s, a]], [1.0, -1.0], -np.inf, 0.0)
                if t == 0:
                    constrain(y[m, 0, s], 1.0, model.nu[m, s], model.nu[m, s])
                else:
                    into = P[m, :, :, s].ravel()
                    before = y[m, t - 1].ravel()
                    constrain([*y[m, t, s], *before], [*np.ones(A), *-into], 0.0, 0.0)
    cost = np.zeros(n)
    for t in range(H):
        cost[y[:, t]] = -model.w[:, None, None] * model.discount**t * R
    integer = np.zeros(n)
    integer[x] = 1
    solved = milp(
        cost,
        integrality=integer,
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(np.array(rows), low, high),
        options={"mip_rel_gap": 1e-9},
    )
    return -solved.fun


@pytest.mark.parametrize("seed", range(6))
def test_closes_what_a_mixed_integer_programme_closes(seed):
    rng = np.random.default_rng(seed)
    model = small(M=3, S=3, A=2, H=4, seed=int(rng.integers(1000)))
    found = plan(model, "markov", gap=None)
    assert found.status == "optimal"
    assert found.lower == pytest.approx(milp_optimum(model), abs=1e-6)


@pytest.mark.parametrize("spec", ["troubleshoot", "hard", "riverswim", "maze:size=3,goals=2"])
def test_closes_small_domains_exactly(spec):
    found = plan(make(spec), "markov", gap=None, time_limit=30)
    assert found.status == "optimal"


# ---------------------------------------------------------------------- the parts


@settings(max_examples=50)
@given(models(M=3, S=4, A=3, H=4), seeds)
def test_a_sweep_never_lowers_the_value(model, seed):
    view = markov_view(model)
    ascent = CoordinateAscent(view)
    table = np.random.default_rng(seed).integers(0, model.A, (model.H, model.S))
    d = brute.Dense(model)
    before = brute.markov_value(d, table.tolist())
    assert last(ascent.value(table)) == pytest.approx(before, abs=1e-12)
    for _ in range(4):
        value, sweeps = last(ascent.climb(table, view.start, 1))
        assert sweeps == 1
        assert value == pytest.approx(brute.markov_value(d, table.tolist()), abs=1e-12)
        assert value >= before - tolerance(model)
        before = value


@settings(max_examples=50)
@given(models(M=4, S=3, A=2, H=3))
def test_the_grid_bounds_every_policy_with_memory(model):
    view = markov_view(model)
    known, _ = context_optimal(model)
    informed = float((view.start * known[0]).sum())
    hidden = brute.best_history_value(model.replace(observe_rewards=False))
    near = tolerance(model)
    for K, N in ((1, 1), (2, 3), (3, 2), (4, 5)):
        bound = last(grid_bound(view, known, K, N))
        assert hidden - near <= bound.root <= informed + near
        assert sorted(bound.order) == list(np.flatnonzero(model.w > 0))
        assert np.diff(bound.group_ptr).max() <= K


@pytest.mark.parametrize(("K", "N"), [(1, 1), (2, 7), (3, 4), (5, 3), (6, 2)])
def test_beliefs_are_mixtures_of_their_cell(K, N):
    rank = rank_table(K, N)
    points = np.empty((n_vertices(K, N), K))
    list_vertices(N, rank, points)
    assert np.allclose(points.sum(axis=1), 1.0)
    assert len(np.unique(points, axis=0)) == len(points)
    rng = np.random.default_rng(K * N)
    part, jump = np.empty(K), np.empty(K, dtype=np.int64)
    beliefs = [*rng.dirichlet(np.full(K, 0.4), 200), *points, *np.eye(K)]
    for b in beliefs:
        scaled = np.concatenate([[9.0], 0.3 * b, [9.0]])[None]  # neighbours, and not normalised
        size = int(np.flatnonzero(b)[-1]) + 1  # a group may be smaller than the grid's
        vertex, count = find_cell(scaled, 0, 1, 1 + size, 0.3, N, rank, part, jump)
        mixed, rest = np.zeros(K), 1.0
        for j in range(count):
            if rest > part[j]:
                mixed += (rest - part[j]) * points[vertex]
                assert (points[vertex][b == 0] == 0).all()
                rest = part[j]
            vertex += jump[j]
        assert rest == 0.0  # the weights add up to 1
        assert np.allclose(mixed, b, atol=1e-12)


@settings(max_examples=60)
@given(models(M=3, S=3, A=2, H=3), seeds)
def test_branch_and_bound_proves_no_more_than_is_true(model, seed):
    if not is_tiny(model):
        return
    rng = np.random.default_rng(seed)
    best = brute.best_markov_value(model)
    view = markov_view(model)
    known, _ = context_optimal(model)
    bound = last(grid_bound(view, known, int(rng.integers(1, 4)), int(rng.integers(1, 4))))
    near = tolerance(model)
    search = BranchAndBound(view, bound, slack=1e-12)
    threshold = best + float(rng.normal()) * 0.1
    search.restart(threshold)
    while not search.advance(int(rng.integers(1, 4))):  # pauses anywhere
        pass
    if threshold > best + near:
        assert search.policy is None
        assert search.threshold == threshold
    elif threshold < best - near:
        assert search.threshold == pytest.approx(best, abs=near)
        d = brute.Dense(model)
        assert brute.markov_value(d, search.policy.tolist()) == pytest.approx(best, abs=near)


def test_interchangeable_actions_are_tried_once():
    model = small(A=3, P=lambda P: P[:, :, [0, 1, 0]], R=lambda R: R[:, :, [0, 1, 0]])
    view = markov_view(model)
    assert view.choice.tolist() == [0, 1] * model.S


@pytest.mark.parametrize("piece", [1, 100, 1_000])
def test_pieces_of_any_size_give_the_same_plan(monkeypatch, piece):
    """Sweeps, baselines, grids and the search are cut for the clock; that changes no bit."""
    model = random_model(np.random.default_rng(3), M=3, S=4, A=3, H=5)
    whole = plan_markov(model)
    for module in (markov_view_module, ascent_module, markov_exact_module, markov_module):
        monkeypatch.setattr(module, "PIECE", piece)
    cut = plan_markov(model)
    assert (cut.lower, cut.upper, cut.status) == (whole.lower, whole.upper, whole.status)
    for name in baselines.TABLES:
        with monkeypatch.context() as context:
            context.setattr(markov_view_module, "PIECE", 10**9)
            table = baselines.action_table(name, model)
        assert np.array_equal(baselines.action_table(name, model), table)
    view, known = markov_view(model), context_optimal(model)[0]
    for K, N in ((1, 1), (2, 3), (3, 2)):
        with monkeypatch.context() as context:
            context.setattr(markov_exact_module, "PIECE", 10**9)
            bound = last(grid_bound(view, known, K, N))
        again = last(grid_bound(view, known, K, N))
        assert np.array_equal(bound.table, again.table)
        assert bound.root == again.root


@pytest.mark.parametrize("seed", range(40))
def test_a_run_stopped_early_is_a_prefix_of_a_longer_one(seed):
    """The gap and the limits decide when to stop, not what is done and in which order."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, M=4, S=4, A=3, H=5)

    def steps(found):
        return [entry[1:] for entry in found.history[:-1]]  # the last is the plan's end

    longest = plan_markov(model, Limits(work=3_000_000), seed=1)
    for limits in (
        Limits(work=int(rng.integers(1, 1_000_000))),
        Limits(0.01, work=3_000_000),
        Limits(0.2, work=int(rng.integers(1, 1_000_000))),
        Limits(float(rng.random()), time=1e-3 * float(rng.random())),
        Limits(0.05, time=60.0, work=3_000_000),
    ):
        found = plan_markov(model, limits, seed=1)
        assert steps(found) == steps(longest)[: len(steps(found))]
        assert found.lower <= longest.lower + tolerance(model)


def test_a_smaller_gap_is_never_behind_at_equal_work():
    for spec in ("garnet:seed=4", "bandit:contexts=8,arms=5,horizon=12", "maze:size=4,goals=4"):
        model = make(spec)
        for work in (10_000, 1_000_000, 20_000_000):
            found = [plan_markov(model, Limits(gap, work=work)) for gap in (None, 0.01, 0.05)]
            for fine, coarse in pairwise(found):
                assert fine.lower >= coarse.lower
                assert fine.upper <= coarse.upper


def test_rows_of_many_lengths_are_told_apart():
    rng = np.random.default_rng(0)
    for _ in range(50):
        S, A, M = rng.integers(1, 5), rng.integers(1, 6), rng.integers(1, 4)
        P = rng.integers(0, 3, (M, S, A, S)) * rng.integers(0, 2, (M, S, A, S)) + 1e-9
        P = np.where(P < 1, 0.0, P) + np.eye(S)[rng.integers(0, S, (M, S, A))]
        P, R = P / P.sum(axis=-1, keepdims=True), rng.integers(0, 2, (M, S, A)) / 100
        model = LatentMDP.from_arrays(P, R, np.full(M, 1 / M), np.full((M, S), 1 / S), 3)
        view = markov_view(model)
        for s in range(S):
            rows = [np.hstack([model.P[:, s, a], R[:, s, a, None]]).tobytes() for a in range(A)]
            wanted = [a for a in range(A) if rows[a] not in rows[:a]]
            assert view.choice[view.choice_ptr[s] : view.choice_ptr[s + 1]].tolist() == wanted


def test_equal_work_gives_equal_plans():
    model = make("garnet:seed=1")
    a, b = (plan_markov(model, Limits(work=3_000_000), seed=5) for _ in range(2))
    assert (a.lower, a.upper, a.work, a.nodes, a.status) == (
        b.lower, b.upper, b.work, b.nodes, b.status,
    )  # fmt: skip
    assert a.policy == b.policy


@pytest.mark.parametrize("calls", [1, 3, 30])
def test_an_interrupt_in_progress_keeps_the_bounds(calls):
    model, told = make("garnet:seed=1"), []

    def give_up(*moment):
        told.append(moment)
        if len(told) >= calls:
            raise KeyboardInterrupt

    found = plan_markov(model, Limits(progress=give_up))
    assert found.status == "interrupted"
    assert evaluate(model, found.policy).value == found.lower <= found.upper
    assert calls <= len(told) <= calls + 2  # it ends soon, and says its last bounds


def test_works_on_while_the_gap_is_open():
    """A hard model, on which the search used to give up after half of this work, at 0.6784."""
    model = make("garnet:contexts=2,states=3,actions=2,horizon=16,seed=1")
    found = plan(model, "markov", gap=None, work_limit=300_000_000)
    assert found.status == "time"
    assert found.work >= 300_000_000
    assert found.lower <= found.upper < 0.675


def test_closes_where_it_once_gave_up():
    """Half a million nodes in a level were too many; the proof takes a few times as many."""
    model = make("garnet:contexts=3,states=4,actions=3,horizon=8,seed=4")
    found = plan(model, "markov", gap=None, time_limit=None)
    assert found.status == "optimal"
    assert found.lower == pytest.approx(0.707184, abs=1e-6)


def test_several_groups_of_contexts_work_on_with_memory():
    """Grids of few contexts, and policies with memory, whose planner gets ever more work."""
    model = make("garnet:contexts=9,states=4,actions=2,horizon=4,seed=1")
    asked = []

    def watched(model, limits, settings):
        asked.append((limits.work, limits.gap))
        return plan_history(model, limits, settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markov_module, "plan_history", watched)
        settings = replace(SETTINGS, memory_work=10, grid_vertices=(10,))
        found = plan_markov(model, Limits(), settings)
    assert found.status == "optimal"
    assert "memory" in found.method
    assert [work for work, _ in asked] == sorted(work for work, _ in asked)
    assert len({work for work, _ in asked}) > 1
    assert plan_markov(model, Limits()).lower == pytest.approx(found.lower, abs=1e-9)


def test_methods_without_a_proof_end_by_themselves():
    for method in ("ascent", "wsu", "mean", "qmdp"):
        found = plan_markov(make("garnet:seed=1"), method=method)
        assert found.status == "stalled"


def test_little_memory_is_a_status():
    model = make("garnet")
    found = plan_markov(model, Limits(memory=1000))
    assert found.status == "memory"
    assert found.lower <= found.upper


@pytest.mark.parametrize("factor", [markov_view_module.HASH_FACTOR, np.uint64(0)])
def test_first_equal_rows_are_found_also_where_hashes_collide(monkeypatch, factor):
    """With the factor 0 all hashes are equal."""
    monkeypatch.setattr(markov_view_module, "HASH_FACTOR", factor)
    rng = np.random.default_rng(3)
    for columns in (1, 2, 5):
        for rows in (rng.integers(0, 3, (40, columns)), rng.integers(-1, 2, (40, columns)) * 0.5):
            rows = np.where(rng.random(rows.shape) < 0.3, -0.0 if rows.dtype == float else 0, rows)
            found = markov_view_module.first_equal(rows.astype(rows.dtype))
            table = rows.tolist()
            assert found.tolist() == [table.index(row) for row in table]
