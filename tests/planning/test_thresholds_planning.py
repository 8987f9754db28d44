"""Planning goes other ways at certain sizes; with these moved to any place, bounds are as sound.

Tiny models reach what large ones do: arrays that grow, pieces between two looks at the clock, finer
and finer grids, the change from one search to the other.
"""

import itertools
from dataclasses import replace

import brute
import numpy as np
import pytest
from stationary_brute import endless
from strategies import random_model

import latentmdp as lm
from latentmdp.planning.history import belief_tree
from latentmdp.planning.limits import Limits
from latentmdp.planning.markov import view as markov_view
from latentmdp.planning.plan import plan_within
from latentmdp.planning.settings import SETTINGS

TOLERANCE = 1e-9
SMALLEST = {
    "first_nodes": 1,
    "room_growth": 1.001,
    "grid_piece_cost": 1,
    "tree_pass_nodes": 1,
    "layers_pass_work": 1,
    "layers_batch": 1e-9,
    "layers_first_cut": 0.5,
    "least_quantum": 1,
    "race_head_start": 1,
    "race_first_look": 1,
    "small_policy": 0,
}


def check_plans(seed, models, changed, work=None):
    """Plans of random models by every method, against enumeration."""
    settings, limits = replace(SETTINGS, **changed), Limits(time=60.0, work=work)
    rng = np.random.default_rng(seed)
    for i in range(models):
        model = random_model(rng, M=3, S=3, A=2, H=4)
        best = brute.best_history_value(model)
        for method in ("auto", "layers", "grid"):
            found = plan_within(model, "history", limits, settings, method)
            assert found.lower - TOLERANCE <= best <= found.upper + TOLERANCE, (i, method)
            assert lm.evaluate(model, found.policy).value == pytest.approx(found.lower, abs=1e-12)
            if work is None:
                assert found.status == "optimal", (i, method)


@pytest.mark.parametrize("name", SMALLEST)
def test_one_size_moved_to_its_end(name):
    check_plans(len(name), 12, {name: SMALLEST[name]})


def test_all_sizes_moved_to_their_ends():
    check_plans(1, 25, SMALLEST)
    check_plans(2, 25, SMALLEST, work=30)


def test_every_level_of_the_grid(monkeypatch):
    """Grids that cost nothing are refined at once: bounds hold at every level that comes."""
    levels = set()
    build = belief_tree.build_grid

    def watched(observed, horizon, states, N, *rest):
        levels.add((model.M, N))
        return build(observed, horizon, states, N, *rest)

    monkeypatch.setattr(belief_tree, "build_grid", watched)
    monkeypatch.setattr(belief_tree, "grid_work", lambda *sizes: 1)
    settings = replace(SETTINGS, first_nodes=1)
    rng = np.random.default_rng(4)
    for _ in range(40):
        model = random_model(rng, M=4, S=3, A=3, H=4)
        best = brute.best_history_value(model)
        for work in (3, 10, 50, 400):
            limits = Limits(time=60.0, work=work)
            found = plan_within(model, "history", limits, settings, "grid")
            assert found.lower - TOLERANCE <= best <= found.upper + TOLERANCE
    assert {M for M, _ in levels} == {2, 3, 4}
    assert len(levels) > 6, levels


# ---------------------------------------------------------------------- Markov policies

MARKOV_ENDS = {
    "search_nodes": (1,),
    "grid_vertices": ((10,), (2_000,)),
    "finer_gain": (0.0, 1.0),
    "memory_work": (1,),
    "refine_price": (1, 10**6),
    "restart_price": (1, 10**6),
    "kicks": (1, 50),
    "more_kicks": (1,),
    "shaken_share": (0.0, 1.0),
    "level_first_step": (1e-6, 1.0),
    "level_smallest_step": (1e-9, 1.0),
    "level_small": (1, 10**9),
    "level_least_limit": (1, 10**9),
    "level_most_growth": (0, 10**9),
    "level_good_growth": ((0.0, 0.0), (1e9, 1e9)),
    "level_jump_nodes": (1, 10**9),
    "turn_work": (0, 10**9),
}


def check_markov_plans(seed, count, changed, work=None):
    """Markov plans of random models against enumeration, from one context to five."""
    settings, limits = replace(SETTINGS, **changed), Limits(time=60.0, work=work)
    rng = np.random.default_rng(seed)
    checked = 0
    while checked < count:
        model = random_model(rng, M=5, S=3, A=3, H=3)
        d = brute.Dense(model)
        if d.A ** len(brute.reachable(d)) > 600:
            continue
        checked += 1
        best = brute.best_markov_value(model)
        found = plan_within(model, "markov", limits, settings)
        assert found.lower - TOLERANCE <= best <= found.upper + TOLERANCE, checked
        assert lm.evaluate(model, found.policy).value == pytest.approx(found.lower, abs=1e-12)
        if work is None:
            assert found.status == "optimal", checked


@pytest.mark.parametrize("name", MARKOV_ENDS)
def test_one_size_of_markov_plans_moved_to_its_ends(name):
    for value in MARKOV_ENDS[name]:
        check_markov_plans(len(name), 15, {name: value})


def test_pieces_of_one_outcome(monkeypatch):
    monkeypatch.setattr(markov_view, "PIECE", 1)
    check_markov_plans(5, 15, {})


def test_all_sizes_of_markov_plans_moved_to_their_ends():
    for end in (0, -1):
        changed = {name: values[end] for name, values in MARKOV_ENDS.items()}
        check_markov_plans(3 + end, 15, changed)
        check_markov_plans(4 + end, 15, changed, work=3_000)


# ---------------------------------------------------------------------- infinite horizons

INFINITE_ENDS = {
    "first_nodes": 1,
    "first_room": 1,
    "grid_piece_cost": 1,
    "least_quantum": 1,
    "default_evaluations": 1,
    "infinite_sweeps": 1,
    "infinite_corner_rounds": 1,
    "infinite_grid_share": 1.0,
    "infinite_node_share": 1.0,
    "most_tidied": 0,
    "kicks": 1,
    "shaken_share": 1.0,
    "memory_work": 1,
    "bound_sweeps": 1,
    "branch_tries": 0,
    "most_open": 1,
}


@pytest.mark.parametrize("name", [*INFINITE_ENDS, "all"])
def test_sizes_of_infinite_plans_moved_to_their_ends(name):
    changed = INFINITE_ENDS if name == "all" else {name: INFINITE_ENDS[name]}
    settings, rng = replace(SETTINGS, **changed), np.random.default_rng(len(name))
    for _ in range(4):
        model = endless(rng, M=3, S=3, A=2, discounts=(0.8,), observe=True)
        exact = lm.plan(model, gap=1e-6, time_limit=60.0)
        tables = itertools.product(range(model.A), repeat=model.S)
        values = [lm.evaluate(model, lm.PolicyGraph.from_table(t, stationary=True)) for t in tables]
        best = max(value.value for value in values)
        for work in (1, 2_000, 200_000):
            limits = Limits(1e-4, time=60.0, work=work)
            found = plan_within(model, "history", limits, settings)
            assert found.lower - TOLERANCE <= exact.upper
            assert exact.lower <= found.upper + TOLERANCE
            assert lm.evaluate(model, found.policy).value == pytest.approx(found.lower, abs=1e-9)
            found = plan_within(model, "markov", limits, settings)
            assert found.lower - TOLERANCE <= best <= found.upper + TOLERANCE
