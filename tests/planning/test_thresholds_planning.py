"""Planning goes other ways at certain sizes; with these moved to any place, bounds are as sound.

Tiny models reach what large ones do: arrays that grow, pieces between two looks at the clock, finer
and finer grids, the change from one search to the other.
"""

import brute
import numpy as np
import pytest
from strategies import random_model

import latentmdp as lm
from latentmdp.planning.history import (
    belief_arrays,
    belief_graph,
    belief_grid,
    belief_tree,
    extraction,
    race,
)
from latentmdp.planning.history import planner as planning_history
from latentmdp.planning.markov import ascent as markov_ascent
from latentmdp.planning.markov import planner as markov
from latentmdp.planning.markov import proof_levels
from latentmdp.planning.markov import round_robin as turns
from latentmdp.planning.markov import view as markov_view

TOLERANCE = 1e-9
SMALLEST = {
    "FIRST_NODES": (belief_arrays, 1),
    "ENLARGED": (belief_arrays, 1.001),
    "PIECE_COST": (belief_grid, 1),
    "PASS_NODES": (belief_tree, 1),
    "PASS_WORK": (belief_graph, 1),
    "BATCH_SHARE": (belief_graph, 1e-9),
    "FIRST_CUT": (belief_graph, 0.5),
    "LEAST_QUANTUM": (planning_history, 1),
    "HEAD_START": (race, 1),
    "FIRST_LOOK": (race, 1),
    "SMALL_POLICY": (extraction, 0),
}


def check_plans(seed, models, **limits):
    """Plans of random models by every method, against enumeration."""
    rng = np.random.default_rng(seed)
    for i in range(models):
        model = random_model(rng, M=3, S=3, A=2, H=4)
        best = brute.best_history_value(model)
        for method in ("auto", "layers", "grid"):
            found = lm.plan(model, gap=None, method=method, time_limit=60.0, **limits)
            assert found.lower - TOLERANCE <= best <= found.upper + TOLERANCE, (i, method)
            assert lm.evaluate(model, found.policy).value == pytest.approx(found.lower, abs=1e-12)
            if not limits:
                assert found.status == "optimal", (i, method)


@pytest.mark.parametrize("name", SMALLEST)
def test_one_size_moved_to_its_end(name, monkeypatch):
    module, value = SMALLEST[name]
    assert hasattr(module, name)
    monkeypatch.setattr(module, name, value)
    check_plans(len(name), 12)


def test_all_sizes_moved_to_their_ends(monkeypatch):
    for name, (module, value) in SMALLEST.items():
        monkeypatch.setattr(module, name, value)
    check_plans(1, 25)
    check_plans(2, 25, work_limit=30)


def test_every_level_of_the_grid(monkeypatch):
    """Grids that cost nothing are refined at once: bounds hold at every level that comes."""
    levels = set()
    build = belief_tree.build_grid

    def watched(observed, horizon, states, N, *rest):
        levels.add((model.M, N))
        return build(observed, horizon, states, N, *rest)

    monkeypatch.setattr(belief_tree, "build_grid", watched)
    monkeypatch.setattr(belief_tree, "grid_work", lambda *sizes: 1)
    monkeypatch.setattr(belief_arrays, "FIRST_NODES", 1)
    rng = np.random.default_rng(4)
    for _ in range(40):
        model = random_model(rng, M=4, S=3, A=3, H=4)
        best = brute.best_history_value(model)
        for work in (3, 10, 50, 400):
            found = lm.plan(model, gap=None, method="grid", work_limit=work, time_limit=60.0)
            assert found.lower - TOLERANCE <= best <= found.upper + TOLERANCE
    assert {M for M, _ in levels} == {2, 3, 4}
    assert len(levels) > 6, levels


# ---------------------------------------------------------------------- Markov policies

MARKOV_ENDS = {
    "MOST_NODES": (markov, (1,)),
    "GRID_VERTICES": (markov, ((10,), (2_000,))),
    "FINER_GAIN": (markov, (0.0, 1.0)),
    "MEMORY_WORK": (markov, (1,)),
    "REFINE_PRICE": (markov, (1, 10**6)),
    "RESTART_PRICE": (markov, (1, 10**6)),
    "KICKS": (markov, (1, 50)),
    "MORE_KICKS": (markov, (1,)),
    "PIECE": (markov_view, (1,)),
    "SHAKEN_SHARE": (markov_ascent, (0.0, 1.0)),
    "FIRST_STEP": (proof_levels, (1e-6, 1.0)),
    "SMALLEST_STEP": (proof_levels, (1e-9, 1.0)),
    "SMALL_LEVEL": (proof_levels, (1, 10**9)),
    "LEAST_LIMIT": (proof_levels, (1, 10**9)),
    "MOST_GROWTH": (proof_levels, (0, 10**9)),
    "GOOD_GROWTH": (proof_levels, ((0.0, 0.0), (1e9, 1e9))),
    "JUMP_NODES": (proof_levels, (1, 10**9)),
    "TURN_WORK": (turns, (0, 10**9)),
}


def check_markov_plans(seed, count, **limits):
    """Markov plans of random models against enumeration, from one context to five."""
    rng = np.random.default_rng(seed)
    checked = 0
    while checked < count:
        model = random_model(rng, M=5, S=3, A=3, H=3)
        d = brute.Dense(model)
        if d.A ** len(brute.reachable(d)) > 600:
            continue
        checked += 1
        best = brute.best_markov_value(model)
        found = lm.plan(model, "markov", gap=None, time_limit=60.0, **limits)
        assert found.lower - TOLERANCE <= best <= found.upper + TOLERANCE, checked
        assert lm.evaluate(model, found.policy).value == pytest.approx(found.lower, abs=1e-12)
        if not limits:
            assert found.status == "optimal", checked


@pytest.mark.parametrize("name", MARKOV_ENDS)
def test_one_size_of_markov_plans_moved_to_its_ends(name, monkeypatch):
    module, values = MARKOV_ENDS[name]
    assert hasattr(module, name)
    for value in values:
        monkeypatch.setattr(module, name, value)
        check_markov_plans(len(name), 15)


def test_all_sizes_of_markov_plans_moved_to_their_ends(monkeypatch):
    for end in (0, -1):
        for name, (module, values) in MARKOV_ENDS.items():
            monkeypatch.setattr(module, name, values[end])
        check_markov_plans(3 + end, 15)
        check_markov_plans(4 + end, 15, work_limit=3_000)
