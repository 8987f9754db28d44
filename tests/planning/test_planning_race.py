"""`auto`: two searches side by side. Work is counted, not seconds, so that the tests repeat."""

from types import SimpleNamespace

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.planning.budget import Budget
from latentmdp.planning.history import race
from latentmdp.planning.history.belief_grid import build_grid
from latentmdp.planning.history.observations import observation_model, start_beliefs
from latentmdp.planning.history.planner import plan_history
from latentmdp.planning.history.race import Race, beliefs_come_back
from latentmdp.planning.history.search import Allowed
from latentmdp.planning.limits import Limits
from latentmdp.planning.settings import SETTINGS

NOISY = "troubleshoot:faults=12"  # grid suits it
RECURRING = "maze:size=6,goals=16,horizon=40,slip=0,seed=2"  # layers suits it


def hidden(spec):
    return lm.make(spec, observe_rewards=False)


def adaptive(horizon=200):
    """Two contexts, three actions, two of which do the same in both: as in managing a species."""
    rng = np.random.default_rng(1)
    P = np.broadcast_to(rng.dirichlet(np.full(5, 0.7), (5, 3)), (2, 5, 3, 5)).copy()
    P[:, :, 0] = rng.dirichlet(np.full(5, 0.7), (2, 5))
    R = np.clip(np.linspace(0, 1, 5)[:, None] - rng.uniform(0, 0.4, (5, 3)), 0, 1) / horizon
    nu = np.eye(5)[[0, 0]]
    return lm.LatentMDP.from_arrays(
        P, np.stack([R, R]), [0.5, 0.5], nu, horizon, observe_rewards=False
    )


def race_in(model):
    joint = observation_model(model)
    corners = build_grid(joint, model.H, model.S, 1)
    return Race(joint, start_beliefs(model), model.H, corners)


MODELS = {
    "adaptive": (adaptive, 0.001),
    "noisy": (lambda: hidden(NOISY), 0.01),
    "recurring": (lambda: hidden(RECURRING), 0.01),
    "garnet": (lambda: hidden("garnet:shared_support=1,seed=2"), 0.01),
    "tied": (lambda: hidden("mastermind:colours=5,balls=2,guesses=4"), 0.001),
}


@pytest.mark.parametrize("name", MODELS)
def test_auto_needs_little_more_work_than_the_better_search(name):
    make, gap = MODELS[name]
    model = make()
    limit = 3_000_000
    single = [plan_history(model, Limits(gap, work=limit), method=m) for m in ("layers", "grid")]
    best = min(p.work for p in single if p.status in ("gap", "optimal"))
    plan = plan_history(model, Limits(gap, work=limit))
    assert plan.status in ("gap", "optimal")
    assert plan.work <= 1.5 * best + 2 * SETTINGS.race_head_start
    assert plan.lower <= min(p.upper for p in single) + 1e-9
    assert plan.upper >= max(p.lower for p in single) - 1e-9


@pytest.mark.parametrize("spec", [NOISY, RECURRING])
def test_equal_work_gives_equal_plans(spec):
    model = hidden(spec)
    for work in (5_000, 60_000):
        a, b = (plan_history(model, Limits(1e-4, work=work)) for _ in range(2))
        assert (a.lower, a.upper, a.work, a.method) == (b.lower, b.upper, b.work, b.method)
        assert a.policy == b.policy
        assert [x[1:] for x in a.history] == [x[1:] for x in b.history]


def test_the_first_search_is_chosen_by_how_beliefs_recur():
    for spec, expected in (
        (NOISY, False),
        (RECURRING, True),
        ("maze", True),
        ("garnet", False),
        ("riverswim", False),
        ("mastermind:colours=3,balls=3,guesses=4", False),  # no state is met at two steps
    ):
        model = hidden(spec)
        found = beliefs_come_back(observation_model(model), start_beliefs(model), model.H, model.S)
        assert found is expected, spec


@pytest.mark.parametrize("spec", [NOISY, RECURRING])
def test_the_other_search_overtakes_if_the_first_was_the_wrong_one(spec, monkeypatch):
    model = hidden(spec)
    right = plan_history(model, Limits(0.01))
    opposite = not beliefs_come_back(
        observation_model(model), start_beliefs(model), model.H, model.S
    )
    monkeypatch.setattr(race, "beliefs_come_back", lambda *_: opposite)
    wrong = plan_history(model, Limits(0.01, work=8 * right.work))
    assert wrong.status in ("gap", "optimal")


def test_the_better_bounds_count_whichever_search_has_them():
    both = race_in(hidden(NOISY))
    allowed, budget = Allowed(1e-4, 0.0), Budget(None, None)
    while len(both.searches) == 1 or both.other.work < SETTINGS.race_first_look:
        assert both.advance(5_000, allowed, budget, 2**30) == "paused"
    bounds = [search.bounds for search in both.searches]
    assert both.bounds == (max(b[0] for b in bounds), min(b[1] for b in bounds))
    assert both.work == sum(search.work for search in both.searches)


def test_the_name_says_whose_bounds_count_the_policys_first():
    both = race_in(hidden(NOISY))
    assert both.name == "grid"
    both.leader = SimpleNamespace(name="one", bounds=(0.3, 0.8))
    both.other = SimpleNamespace(name="two", bounds=(0.2, 0.7))
    assert (both.name, both.bounds) == ("one+two", (0.3, 0.7))
    both.other.bounds = (0.4, 0.7)
    assert (both.name, both.bounds) == ("two", (0.4, 0.7))
    both.other.bounds = (0.4, 0.9)
    assert (both.name, both.bounds) == ("two+one", (0.4, 0.8))


def test_a_search_without_memory_leaves_the_rest_to_the_other(monkeypatch):
    both = race_in(hidden(NOISY))
    monkeypatch.setattr(both.leader, "advance", lambda *_: "memory")
    stuck, allowed, budget = both.leader, Allowed(0.01, 0.0), Budget(None, None)
    assert both.advance(1000, allowed, budget, 2**30) == "paused"
    before = both.bounds
    for _ in range(5):
        assert both.advance(1000, allowed, budget, 2**30) == "paused"
    assert both.other is not None
    assert both.other.work > stuck.work
    assert both.bounds[1] - both.bounds[0] < before[1] - before[0]
    monkeypatch.setattr(both.other, "advance", lambda *_: "memory")
    assert both.advance(1000, allowed, budget, 2**30) == "paused"
    assert both.advance(1000, allowed, budget, 2**30) == "memory"


def test_without_memory_for_both_auto_ends_as_memory():
    model = hidden("garnet:shared_support=True,contexts=6")
    plan = plan_history(model, Limits(1e-9, memory=6_000_000))
    assert plan.status == "memory"
    assert lm.evaluate(model, plan.policy).value == plan.lower <= plan.upper
