"""Limits of `plan`: odd sizes, tiny limits, and limits that hold for all of the work."""

import sys
import time
import tracemalloc
from dataclasses import replace

import brute
import numpy as np
import pytest
from clocks import StoppedLimits
from hypothesis import given, settings
from strategies import models, seeds

from latentmdp import LatentMDP, ModelError, PolicyGraph, evaluate, make, plan
from latentmdp.kernels.beliefs import posterior
from latentmdp.planning import baselines, driver
from latentmdp.planning.budget import Budget
from latentmdp.planning.history import belief_arrays, belief_graph, belief_grid
from latentmdp.planning.history import planner as history
from latentmdp.planning.history.extraction import PolicyWriter
from latentmdp.planning.history.observations import observation_model, start_beliefs
from latentmdp.planning.history.search import Allowed
from latentmdp.planning.limits import Limits
from latentmdp.planning.plan import plan_within
from latentmdp.planning.search_result import BoundsLog
from latentmdp.planning.settings import SETTINGS

plan_module = sys.modules["latentmdp.planning.plan"]  # the name is that of a function too
HISTORY = ("auto", "exact", "layers", "grid")
MARKOV = ("auto", "ascent", "branch", "wsu", "mean", "qmdp")


def arms(M, A, best, H=1):
    """One state; each context pays for an action of its own, `best` pays most on average."""
    R = np.zeros((M, 1, A))
    R[np.arange(M), 0, np.arange(M)] = (0.6 if M > 1 else 0.4) / H
    R[:, 0, best] = 0.5 / H
    return LatentMDP.from_arrays(
        np.ones((M, 1, A, 1)), R, np.full(M, 1 / M), np.ones((M, 1)), H, observe_rewards=False
    )


@pytest.mark.parametrize("method", HISTORY)
@pytest.mark.parametrize("M", [1, 2, 3, 5])
def test_one_state_and_one_step(M, method):
    rng = np.random.default_rng(M)
    for A in (1, 2, 3, 4) * 5:
        P, R, w = np.ones((M, 1, A, 1)), rng.random((M, 1, A)), rng.dirichlet(np.ones(M))
        model = LatentMDP.from_arrays(P, R, w, np.ones((M, 1)), 1, observe_rewards=False)
        for limit in (None, 60.0, 1e-3):
            found = plan(model, method=method, gap=None, time_limit=limit)
            assert found.lower <= (w @ R[:, 0]).max() + 1e-12
            if limit != 1e-3:
                assert found.status == "optimal"


@pytest.mark.parametrize("limit", [5e-324, 1e-300, 1e-12, 1e-6, 1e-4, 1e-3, 0.01])
@pytest.mark.parametrize("policy_class", ["history", "markov"])
def test_tiny_time_limits_give_plans(policy_class, limit):
    for spec in ("garnet", "maze:size=3,goals=2,horizon=6"):
        model = make(spec)
        for method in HISTORY if policy_class == "history" else MARKOV:
            found = plan(model, policy_class, method=method, time_limit=limit, gap=None)
            assert found.lower == pytest.approx(evaluate(model, found.policy).value, abs=1e-12)
            assert found.lower <= found.upper


@pytest.mark.parametrize("M", [1, 3])
@pytest.mark.parametrize("A", [32_767, 32_769, 40_000])
def test_many_actions(M, A):
    model = arms(M, A, A - 1, H=2)
    for policy_class, methods in (("history", ("layers", "grid")), ("markov", ("auto",))):
        for method in methods:
            found = plan(model, policy_class, method=method, gap=1e-6, time_limit=20)
            assert found.status in ("gap", "optimal")
            assert found.lower == pytest.approx(0.5)
            assert found.policy.action[found.policy.root[0]] == A - 1


# ---------------------------------------------------------------------- time


def cpu_seconds(function):
    begun = time.process_time()
    result = function()
    return time.process_time() - begun, result


@pytest.mark.parametrize("method", MARKOV)
def test_a_time_limit_holds_where_a_single_sweep_is_long(method):
    """A million steps: QMDP alone used to take 20 seconds, whatever the limit."""
    model = make("bandit:horizon=1e6")
    plan(make("bandit:horizon=3"), "markov", method=method)  # loads the kernels
    seconds, found = cpu_seconds(
        lambda: plan(model, "markov", method=method, gap=None, time_limit=1.0)
    )
    assert seconds < 5
    assert found.lower <= found.upper <= 1.0 + 1e-6
    assert found.status in ("time", "stalled")


def test_a_warm_policy_costs_time_of_the_limit():
    model = make("garnet")
    warm = PolicyGraph.from_table(np.zeros((model.H, model.S), dtype=int))
    found = plan(model, warm=warm, time_limit=1e-9)
    assert found.lower >= evaluate(model, warm).value
    best = plan(model, "markov", method="ascent")
    found = plan(model, "markov", warm=best, time_limit=1e-9)
    assert found.lower >= best.lower - 1e-12


def test_little_memory_for_a_table_is_a_status():
    model = make("bandit:horizon=1e5")
    plan(model, "markov", memory_limit=1_000_000)  # imports and compiled kernels take memory too
    tracemalloc.start()
    found = plan(model, "markov", memory_limit=1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.status == "memory"
    assert found.lower == pytest.approx(evaluate(model, found.policy).value)
    assert peak < 20 * 8 * model.H * model.S  # a policy and its evaluation, no search


# ---------------------------------------------------------------------- QMDP with memory


def test_qmdp_with_memory_keeps_limits():
    """Beliefs do not merge here: without limits it takes minutes and gigabytes."""
    model = make("garnet:states=6,contexts=4,horizon=30", observe_rewards=False)
    baselines.qmdp_memory(make("garnet:horizon=2"))
    seconds, policy = cpu_seconds(lambda: baselines.qmdp_memory(model, time_limit=0.5))
    assert seconds < 5
    value = evaluate(model, policy).value
    assert 0 < value <= baselines.knowing_the_context(model)
    assert value > evaluate(model, baselines.qmdp(model)).value - 0.1
    small = baselines.qmdp_memory(model, time_limit=None, memory_limit=2_000_000)
    assert model.H * model.S <= small.N <= 2_000
    with pytest.raises(ModelError, match="memory_limit must suffice for 180 nodes"):
        baselines.qmdp_memory(model, memory_limit=100_000)


def test_limits_that_are_not_reached_change_nothing():
    model = make("maze:size=3,goals=2,horizon=5")
    free = baselines.qmdp_memory(model, time_limit=None, memory_limit=10**12)
    assert baselines.qmdp_memory(model) == free


# ---------------------------------------------------------------------- pieces of long calls


def test_a_grid_can_be_stopped_before_all_vertices_are_linked(monkeypatch):
    """Linking the corners of a large Mastermind took seconds in a single call."""
    model = make("mastermind:colours=2,balls=3,guesses=2")
    observations = observation_model(model)
    linked, looks = [], []
    link = belief_grid.link_vertices

    def watched(observations, grid, first, stop):
        linked.append((first, stop))
        link(observations, grid, first, stop)

    monkeypatch.setattr(belief_grid, "link_vertices", watched)
    settings = replace(SETTINGS, grid_piece_cost=1)
    stop = belief_grid.build_grid(
        observations, model.H, model.S, 1, lambda: looks.append(1) or len(looks) > 3, settings
    )
    assert stop is None
    assert linked == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize("N", [1, 3])
def test_grids_built_in_pieces_are_the_same(N):
    model = make("garnet:states=4,contexts=3,horizon=4")
    observations = observation_model(model)
    grids = []
    for cost in (10**9, 100, 1):
        settings = replace(SETTINGS, grid_piece_cost=cost)
        grids.append(belief_grid.build_grid(observations, model.H, model.S, N, None, settings))
    for name in ("prob", "cell_ptr", "upper", "alpha", "action"):
        first, *others = (getattr(grid, name) for grid in grids)
        assert all(np.array_equal(first, other) for other in others), name
    used = int(grids[0].cell_ptr[-1])
    for name in ("cell_vertex", "cell_weight"):
        first, *others = (getattr(grid, name)[:used] for grid in grids)
        assert all(np.array_equal(first, other) for other in others), name
    post = np.empty((1, model.M))
    for v, o in np.ndindex(grids[0].prob.shape):  # links are Bayes' rule and a mixture of vertices
        assert grids[0].prob[v, o] == posterior(
            grids[0].belief, v, observations.likelihood, o, post
        )
        begin, end = (int(i) for i in grids[0].cell_ptr[v * len(observations.next) + o :][:2])
        around = grids[0].belief[grids[0].cell_vertex[begin:end]]
        assert grids[0].cell_weight[begin:end] @ around == pytest.approx(post[0], abs=1e-12)


def test_a_full_tree_grows_in_place():
    """Copying a large tree took seconds, in which nobody looks at the clock."""
    observed, widest = observation_model(make("garnet:contexts=3,states=4,actions=2")), 8
    tree = belief_arrays.empty_tree(observed, 1, 2, widest, 4096)
    tree.used[:2] = len(tree.step) - 1, len(tree.child) - 1
    tree.belief[:] = np.arange(tree.belief.size).reshape(tree.belief.shape)
    belief, before, length = tree.belief, tree.belief.copy(), len(tree.belief)
    assert belief_arrays.enlarge_tree(tree, widest, 10_000, 1.3) is None
    larger = belief_arrays.enlarge_tree(tree, widest, 2**30, 1.3)
    assert larger.belief is belief
    assert length + widest <= len(larger.belief) < 1.5 * length
    assert (larger.belief[:length] == before).all()
    assert len(larger.table) >= 2 * len(larger.step)


def test_a_sweep_can_be_stopped_between_two_steps(monkeypatch):
    """All beliefs of a bandit have one support: a sweep of them was one call, however long."""
    model = make("bandit:horizon=12")
    best = plan(model, method="layers", gap=None)
    assert best.status == "optimal"
    stops = []
    back_up = belief_graph.back_up_layers

    def watched(*arguments):
        place, step = back_up(*arguments)
        stops.append(step)
        return place, step

    monkeypatch.setattr(belief_graph, "back_up_layers", watched)
    settings = replace(SETTINGS, layers_pass_work=1)
    found = plan_within(model, "history", Limits(time=60.0), settings, "layers")
    assert found.status == "optimal"
    assert any(stops)
    assert found.lower == pytest.approx(best.lower, abs=1e-9)
    assert found.upper == pytest.approx(best.upper, abs=1e-9)
    late = plan_within(model, "history", Limits(time=0.05), settings, "layers")
    assert late.lower <= best.lower + 1e-9 <= late.upper + 2e-9


# ---------------------------------------------------------------------- policies with memory

LARGE = "maze:size=6,goals=8,horizon=400"  # its policies have more nodes than the search


def test_a_time_limit_includes_the_policy(monkeypatch):
    """Each node of a policy costs; handing out the search's own would take some 20 seconds."""

    def slow(model, policy):
        time.sleep(5e-5 * policy.N)
        return evaluate(model, policy).value

    monkeypatch.setattr(history, "default_table", lambda model, table, *_: table)  # no optimum
    model = make(LARGE, observe_rewards=False)
    plan(make("maze:size=3,goals=2,horizon=3"), method="layers")  # loads the kernels
    monkeypatch.setattr(driver, "value_of", slow)
    monkeypatch.setattr(plan_module, "safeguarded", lambda model, found, *_: found)  # is optimal
    found = plan(model, method="layers", gap=None, time_limit=2.0)
    assert found.seconds < 8
    assert found.status == "time"
    assert found.lower == pytest.approx(evaluate(model, found.policy).value)
    assert found.lower <= found.upper


@pytest.mark.parametrize(("spec", "method"), [(LARGE, "layers"), ("bandit:horizon=400", "grid")])
def test_a_memory_limit_includes_the_policy(monkeypatch, spec, method):
    monkeypatch.setattr(plan_module, "safeguarded", lambda model, found, *_: found)
    model = make(spec, observe_rewards=False)
    limit = 100_000_000
    tracemalloc.start()
    found = plan(model, method=method, gap=None, time_limit=60, memory_limit=limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * limit
    assert found.status == "memory"
    assert found.lower > 0.8
    assert found.lower == pytest.approx(evaluate(model, found.policy).value)


@settings(max_examples=60)
@given(models(M=3, S=3, A=3, H=4), seeds)
def test_policies_that_are_cut_to_fit_keep_their_certificates(model, seed):
    rng = np.random.default_rng(seed)
    best = brute.best_history_value(model)
    near = 1e-9 * max(1.0, abs(model.min_return), abs(model.max_return))
    settings = replace(SETTINGS, small_policy=int(rng.integers(1, 30)))
    for method in ("layers", "grid"):
        limits = Limits(time=60.0, memory=int(rng.integers(1, 10**5)))
        found = plan_within(model, "history", limits, settings, method)
        assert found.lower == pytest.approx(evaluate(model, found.policy).value, abs=near)
        assert found.lower - near <= best <= found.upper + near


@pytest.mark.parametrize("method", ["layers", "grid"])
def test_equal_work_gives_equal_plans_whatever_the_time_limit(method):
    """Policies written on the way, to know how long that takes, change no answer."""
    settings = replace(SETTINGS, first_measured=0.0)
    model = make("bandit:horizon=30", observe_rewards=False)
    a, b = (
        plan_within(model, "history", Limits(time=seconds, work=200_000), settings, method)
        for seconds in (None, 600.0)
    )
    assert (a.lower, a.upper, a.work, a.status) == (b.lower, b.upper, b.work, b.status)
    assert a.policy == b.policy


WIDE = "garnet:contexts=8,states=200,actions=6,horizon=60"  # two million edges, soon closed


@pytest.mark.parametrize("method", ["auto", "layers", "grid"])
def test_a_policy_that_fits_in_the_time_is_written(method):
    """It takes about half a second; two and a half were expected."""
    found = history.plan_history(make(WIDE), StoppedLimits(0.01, time=2.0), method=method)
    assert found.status == "optimal"
    assert found.upper - found.lower < 1e-9


def test_no_policy_is_worse_than_a_baseline_that_fits_in_the_time():
    settings = replace(SETTINGS, small_model=10**8, small_model_seconds=60.0)
    model = make(WIDE)
    values = [evaluate(model, baselines.policy(name, model)).value for name in baselines.TABLES]
    for limits in (
        StoppedLimits(time=60.0, work=1),
        StoppedLimits(time=0.5),
        StoppedLimits(time=60.0, memory=10_000_000),
    ):
        found = plan_within(model, "history", limits, settings)
        assert found.lower >= max(values) - 1e-12
        assert found.method.startswith(("ascent", "candidates"))
        assert found.status in ("optimal", "memory" if limits.memory else "time")
        assert evaluate(model, found.policy).value == found.lower <= found.upper


def test_a_policy_whose_writing_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(history, "default_table", lambda model, table, *_: table)  # no optimum
    add_policy, model = belief_graph.GraphSearch.add_policy, make(LARGE, observe_rewards=False)

    def slow(search, parts, slack):
        add_policy(search, parts, slack)
        if sum(parts.added) > SETTINGS.small_policy:
            time.sleep(3.0)

    monkeypatch.setattr(belief_graph.GraphSearch, "add_policy", slow)
    evaluated = []
    monkeypatch.setattr(
        driver, "value_of", lambda m, p: evaluated.append(p.N) or evaluate(m, p).value
    )
    found = plan(model, method="layers", gap=None, time_limit=2.0)
    assert found.status == "time"
    assert max(evaluated) <= SETTINGS.small_policy + model.H * model.S
    assert evaluate(model, found.policy).value == found.lower <= found.upper


def test_a_measurement_replaces_what_was_expected():
    model = make("maze:size=4,goals=3,horizon=100", observe_rewards=False)
    budget = Budget(60.0, None)
    observations, start = observation_model(model), start_beliefs(model)
    corners = belief_grid.build_grid(observations, model.H, model.S, 1)
    search = belief_graph.GraphSearch(observations, start, model.H, corners)
    search.advance(10**6, Allowed(0.0, 0.0), budget, 2**30)
    table = corners.action[:, :, 0].astype(np.int64)
    reserve = driver.TimeReserve(budget, SETTINGS, lambda: search.bytes, 1e-5)  # far too slow
    write = PolicyWriter(search, table, 0, model.M, reserve, 2**30)
    log = BoundsLog(budget, None)
    driver.Driver(model, search, write, Allowed(1.0, 0.0), reserve, 2**30, log).run()
    assert reserve.share * search.bytes > SETTINGS.small_policy
    assert reserve.unit_seconds < 1e-5
