"""The history planner against the oracle: bounds at every stop, exact policies, odd cases."""

import signal
import time

import brute
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import random_model

import latentmdp as lm
from latentmdp.kernels.beliefs import N_INNER, NONE
from latentmdp.planning.budget import Budget
from latentmdp.planning.history.belief_graph import GraphSearch
from latentmdp.planning.history.belief_grid import build_grid
from latentmdp.planning.history.observations import observation_model, start_beliefs
from latentmdp.planning.history.planner import HISTORY_METHODS, plan_history
from latentmdp.planning.history.search import Allowed
from latentmdp.planning.limits import Limits
from latentmdp.policy.graph import PolicyGraph

TOLERANCE = 1e-9
SEARCHES = ("grid", "layers")
LARGER = {  # too large to close at once by the search they suit
    "grid": "garnet:shared_support=True,contexts=6",
    "layers": "maze:size=7,goals=8,horizon=60",
}


def check_plan(model, plan, optimum):
    """What every plan must satisfy, however it ended."""
    assert plan.lower - TOLERANCE <= optimum <= plan.upper + TOLERANCE
    assert plan.lower <= plan.upper
    assert lm.evaluate(model, plan.policy).value == plan.lower
    p = plan.policy
    again = PolicyGraph.from_arrays(
        p.step, p.state, p.action, p.indptr, p.symbol, p.next, p.node, p.root, p.default
    )
    assert again == p  # the arrays are sorted and consistent


def check_random(seed, models, size):
    """Random tiny models, both searches, random stopping points. Returns how runs ended."""
    rng = np.random.default_rng(seed)
    ends = set()
    for i in range(models):
        model = random_model(rng, *size)
        optimum = brute.best_history_value(model)
        method = SEARCHES[i % 2] if rng.random() < 0.8 else "auto"
        gap = [None, 0.1, 0.01][rng.integers(3)]
        work = None if rng.random() < 0.3 else int(10 ** rng.uniform(0, 2.5))
        plan = plan_history(model, Limits(gap, work=work), method=method)
        check_plan(model, plan, optimum)
        if work is None:
            assert plan.status == ("optimal" if gap is None else plan.status)
            assert plan.status in ("optimal", "gap")
            assert plan.upper - plan.lower <= max((gap or 0.0) * abs(plan.upper), TOLERANCE)
        for _, _, lower, upper in plan.history:
            assert lower - TOLERANCE <= optimum <= upper + TOLERANCE
        ends.add((plan.method, plan.status))
    return ends


def test_bounds_hold_at_random_stops():
    ends = check_random(seed=0, models=1000, size=(4, 3, 3, 4))
    for method in SEARCHES:
        for status in ("optimal", "gap", "time"):
            assert (method, status) in ends


@pytest.mark.slow
def test_bounds_hold_at_random_stops_on_ten_thousand_models():
    check_random(seed=1, models=10_000, size=(4, 3, 3, 4))


def tiny(M=2, S=2, A=2, H=3, *, seed=0, observe=False, **changes):
    """A small dense random model, with some of its arrays replaced."""
    rng = np.random.default_rng(seed)
    arrays = {
        "P": rng.dirichlet(np.ones(S), (M, S, A)),
        "R": rng.random((M, S, A)),
        "w": rng.dirichlet(np.ones(M)),
        "nu": rng.dirichlet(np.ones(S), M),
    } | {name: np.asarray(x, dtype=float) for name, x in changes.items()}
    return lm.LatentMDP.from_arrays(
        arrays["P"], arrays["R"], arrays["w"], arrays["nu"], H,
        observe_rewards=observe, max_return=None,
    )  # fmt: skip


def _deterministic(M, S, A):
    return np.eye(S)[np.random.default_rng(5).integers(S, size=(M, S, A))]


def _common_zeros():
    P = np.random.default_rng(6).dirichlet(np.ones(3), (2, 3, 2))
    P[:, :, :, 1] = 0.0
    return P / P.sum(axis=-1, keepdims=True)


DEGENERATE = {
    "one context": {"M": 1},
    "one state": {"S": 1, "A": 3, "H": 4},
    "one action": {"A": 1},
    "one of everything": {"M": 1, "S": 1, "A": 1, "H": 1},
    "horizon 1": {"H": 1, "M": 3},
    "zero-probability rows in common": {"S": 3, "P": _common_zeros()},
    "identical contexts": {
        "M": 3,
        "P": np.full((3, 2, 2, 2), 0.5),
        "R": np.tile([[0.1, 0.7], [0.3, 0.2]], (3, 1, 1)),
    },
    "deterministic": {"S": 3, "P": _deterministic(2, 3, 2), "nu": np.eye(3)[[0, 0]]},
    "rewards all zero": {"R": np.zeros((2, 2, 2))},
    "negative rewards": {"R": -np.random.default_rng(7).random((2, 2, 2))},
    "w near 0": {"M": 3, "w": [1 - 1e-12 - 1e-300, 1e-12, 1e-300]},
    "w exactly 0": {"M": 3, "w": [0.0, 1.0, 0.0]},
    "first state reveals the context": {"M": 2, "nu": np.eye(2)},
}


@pytest.mark.parametrize("observe", [False, True])
@pytest.mark.parametrize("method", SEARCHES)
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate(case, method, observe):
    model = tiny(observe=observe, **DEGENERATE[case])
    plan = plan_history(model, method=method)
    assert plan.status == "optimal"
    check_plan(model, plan, brute.best_history_value(model))


def test_one_context_is_backward_induction():
    model = tiny(M=1, S=4, A=3, H=6)
    value = lm.context_optimal(model)[0]
    plan = plan_history(model)
    assert plan.lower == pytest.approx(float(model.nu[0] @ value[0, 0]), abs=1e-12)


@given(st.integers(0, 2**32 - 1), st.sampled_from(SEARCHES))
def test_splitting_a_context_changes_nothing(seed, method):
    model = random_model(np.random.default_rng(seed), 3, 3, 2, 3)
    twice = lm.LatentMDP.from_arrays(
        np.concatenate([model.P, model.P[:1]]),
        np.concatenate([model.R, model.R[:1]]),
        np.concatenate([[0.5 * model.w[0]], model.w[1:], [0.5 * model.w[0]]]),
        np.concatenate([model.nu, model.nu[:1]]),
        model.H,
        observe_rewards=model.observe_rewards,
        discount=model.discount,
        max_return=None,
    )
    one, two = plan_history(model, method=method), plan_history(twice, method=method)
    assert one.lower == pytest.approx(two.lower, abs=1e-9)


def test_equal_work_gives_equal_plans():
    for spec, method in (("garnet:shared_support=True,seed=3", "grid"), ("maze:seed=3", "layers")):
        model = lm.make(spec, observe_rewards=False)
        for work in (500, 30_000):
            a, b = (plan_history(model, Limits(work=work), method=method) for _ in range(2))
            assert (a.lower, a.upper, a.work, a.nodes) == (b.lower, b.upper, b.work, b.nodes)
            assert a.policy == b.policy
            assert [x[1:] for x in a.history] == [x[1:] for x in b.history]


@pytest.mark.parametrize("method", SEARCHES)
def test_interrupt_returns_the_best_so_far(method):
    model = lm.make(LARGER[method], observe_rewards=False)

    def press(seconds, work, lower, upper):
        if work > 1000:
            signal.raise_signal(signal.SIGINT)

    plan = plan_history(model, Limits(1e-6, progress=press), method=method)
    assert plan.status == "interrupted"
    assert lm.evaluate(model, plan.policy).value == plan.lower <= plan.upper
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def give_up(seconds, work, lower, upper):
        raise KeyboardInterrupt

    assert (
        plan_history(model, Limits(1e-6, progress=give_up), method=method).status == "interrupted"
    )


@pytest.mark.parametrize("method", SEARCHES)
def test_limits_are_statuses(method):
    model = lm.make(LARGER[method], observe_rewards=False)
    free = plan_history(model, Limits(0.05), method=method)
    assert free.status == "gap"
    for limits, status in (
        ({"time": 1e-9}, "time"),
        ({"work": 1}, "time"),
        ({"memory": 1}, "memory"),
        ({"memory": 6_000_000}, "memory"),
    ):
        plan = plan_history(model, Limits(1e-9, **limits), method=method)
        assert plan.status == status
        assert lm.evaluate(model, plan.policy).value == plan.lower
        assert plan.lower <= free.upper + TOLERANCE
        assert plan.upper >= free.lower - TOLERANCE


def test_a_layer_that_grows_is_entered_once(monkeypatch):
    """An expanded belief may be reached in a new state and is then expanded again.

    Entered twice, or with second rows for old nodes, it would overrun the list of inner nodes.
    """
    model = lm.make("bandit", observe_rewards=False)
    joint = observation_model(model)
    corners = build_grid(joint, model.H, model.S, 1)
    search = GraphSearch(joint, start_beliefs(model), model.H, corners)
    expanded = []
    expand = search._expand
    monkeypatch.setattr(
        search, "_expand", lambda chosen, *rest: expanded.extend(chosen) or expand(chosen, *rest)
    )
    search.advance(20_000, Allowed(1e-6, 0.0), Budget(None, None), 2**30)
    assert len(expanded) > len(set(expanded))  # the case arises
    assert sorted(search.order) == sorted(set(expanded))
    rows = search.graph.row[: search.nodes]
    assert np.array_equal(np.sort(rows[rows != NONE]), np.arange(search.graph.used[N_INNER]))


def test_exact_ignores_the_gap():
    model = lm.make("maze:size=4,goals=3,horizon=10")
    assert plan_history(model, Limits(0.5), method="exact").status == "optimal"


def test_unknown_method_is_refused():
    with pytest.raises(lm.ModelError, match=", ".join(HISTORY_METHODS)):
        plan_history(tiny(), method="magic")


def test_memory_beats_no_memory_in_a_maze():
    model = lm.make("maze:size=5,goals=4")
    from latentmdp.planning import plan

    markov = plan(model, "markov", gap=0.0, time_limit=1)
    history = plan_history(model, Limits(1e-4))
    assert history.lower > markov.lower


OPTIMA = {"maze_n5_M4": 0.9273801902, "maze_n7_M8": 0.9107162104}


@pytest.mark.parametrize("name", OPTIMA)
def test_published_mazes(name):
    """Exact optima by a specialised programme over subsets of goals (horizon long enough)."""
    model = lm.datasets.load(name)
    plan = plan_history(model, Limits(1e-3))
    assert plan.status == "gap"
    assert plan.lower <= OPTIMA[name]
    assert plan.upper >= OPTIMA[name] - 2e-5  # the horizon costs a little


def test_compiling_takes_none_of_the_time() -> None:
    budget, begun = Budget(time_limit=60.0, work_limit=None), time.perf_counter()

    @numba.njit
    def fresh(x):
        total = 0.0
        for i in range(x):
            total += i % 7
        return total

    assert fresh(10) == 24.0
    elapsed = time.perf_counter() - begun
    assert 0.0 <= budget.seconds < 0.5 * elapsed
    assert budget.left > 60.0 - 0.5 * elapsed
