"""Exact plans where many actions tie: Mastermind against counting, random models against brute."""

import functools
import itertools

import brute
import numpy as np
import pytest

import latentmdp as lm
from latentmdp.planning.budget import Budget
from latentmdp.planning.history.belief_grid import build_grid
from latentmdp.planning.history.belief_tree import NEVER, TreeSearch
from latentmdp.planning.history.observations import observation_model, start_beliefs
from latentmdp.planning.history.planner import HISTORY_METHODS, plan_history
from latentmdp.planning.history.search import Allowed
from latentmdp.planning.limits import Limits


def answer(code, guess, white):
    """Pegs: right colour and place; with `white` also right colour, wrong place."""
    black = sum(x == y for x, y in zip(code, guess, strict=True))
    common = sum(min(code.count(c), guess.count(c)) for c in set(code))
    return (black, common - black) if white else black


def codes_found(colours, balls, guesses, white):
    """Share of the codes that the best player finds: all guesses, all sets of codes left."""
    codes = list(itertools.product(range(colours), repeat=balls))

    @functools.cache
    def found(left, tries):
        if tries == 0:
            return 0
        most = 0
        for guess in codes:
            answers = {}
            for code in left:
                answers.setdefault(answer(code, guess, white), []).append(code)
            most = max(
                most,
                sum(1 if c == [guess] else found(tuple(c), tries - 1) for c in answers.values()),
            )
            if most == len(left):
                break
        return most

    return found(tuple(codes), guesses) / len(codes)


SIZES = [*itertools.product((2, 3), (1, 2, 3), (1, 2, 3, 4)), (2, 5, 4), (2, 5, 5)]


@pytest.mark.parametrize("white", [0, 1])
@pytest.mark.parametrize(("colours", "balls", "guesses"), SIZES)
def test_mastermind_closes_to_what_counting_gives(colours, balls, guesses, white):
    spec = f"mastermind:colours={colours},balls={balls},guesses={guesses},white={white}"
    truth = codes_found(colours, balls, guesses, white)
    model = lm.make(spec, observe_rewards=False)
    for method in HISTORY_METHODS:
        plan = plan_history(model, Limits(), method=method)
        assert plan.status == "optimal", method
        assert plan.lower == pytest.approx(truth, abs=1e-9)
        assert plan.upper == pytest.approx(truth, abs=1e-9)


def test_mastermind_as_in_the_report_of_the_fault():
    assert codes_found(3, 2, 3, white=0) == pytest.approx(7 / 9)
    assert codes_found(2, 5, 5, white=0) == 1.0


def tied_model(rng):
    """A tiny model with copies of actions and contexts, few different rewards and probabilities."""
    M, S, A, H = (int(rng.integers(1, k + 1)) for k in (3, 4, 3, 4))
    draws = rng.integers(S, size=(M, S, A, 2))
    P = 0.5 * np.eye(S)[draws[..., 0]] + 0.5 * np.eye(S)[draws[..., 1]]
    R = rng.integers(0, 2, (M, S, A)).astype(float) - rng.integers(0, 2)
    contexts = rng.integers(M, size=min(M + int(rng.integers(2)), 3))
    actions = rng.integers(A, size=min(A + int(rng.integers(2)), 3))
    P, R = (x[contexts][:, :, actions] for x in (P, R))
    nu = np.eye(S)[np.full(len(contexts), rng.integers(S))]
    w = np.full(len(contexts), 1 / len(contexts))
    return lm.LatentMDP.from_arrays(
        P, R, w, nu, H, observe_rewards=bool(rng.integers(2)), max_return=None
    )


def check_tied(seed, models):
    rng = np.random.default_rng(seed)
    for i in range(models):
        model = tied_model(rng)
        optimum = brute.best_history_value(model)
        for method in HISTORY_METHODS:
            plan = plan_history(model, Limits(None, work=10**7), method=method)
            assert plan.status == "optimal", (seed, i, method)
            assert plan.lower == pytest.approx(optimum, abs=1e-9)
            assert plan.upper == pytest.approx(optimum, abs=1e-9)
            assert lm.evaluate(model, plan.policy).value == plan.lower


def test_models_full_of_ties_close():
    check_tied(seed=0, models=300)


@pytest.mark.slow
def test_ten_thousand_models_full_of_ties_close():
    check_tied(seed=1, models=10_000)


def test_leaves_of_equal_score_are_expanded():
    """Seven times a seventh of 0.1, added up, is more than 0.1: the mean may exceed all its terms.

    Then no leaf has the mean score, and a tree that waits for one waits until the next grid.
    """
    n, S = 7, 9
    P = np.zeros((2, S, 2, S))
    P[:, 0, :, 1 : n + 1], P[:, 1:, :, n + 1] = 1 / n, 1
    R = np.zeros((2, S, 2))
    R[0, 1 : n + 1, 0] = R[1, 1 : n + 1, 1] = 0.2
    model = lm.LatentMDP.from_arrays(P, R, [0.5, 0.5], np.eye(S)[[0, 0]], 2, observe_rewards=False)
    joint = observation_model(model)
    search = TreeSearch(joint, start_beliefs(model), 2, build_grid(joint, 2, S, 1))
    search.refine_at = NEVER
    said = search.advance(1000, Allowed(0.0, 1e-12), Budget(None, None), 2**30)
    assert said == "closed"
    assert search.bounds == pytest.approx((0.1, 0.1))


def test_a_lower_bound_is_carried_to_more_steps_only_where_a_backup_holds_it():
    """A chain whose end costs 4 in one context unless action 1 is played there.

    The policy of the other context does not reach the cost in 5 steps, and does in 6.
    """
    along = np.eye(6)[np.minimum(np.arange(6) + 1, 5)]
    P = np.zeros((2, 6, 2, 6))
    P[0] = along[:, None]
    P[1] = np.stack([along, np.eye(6)], axis=1)
    for s in (0, 1):
        P[1, s] = 0.9 * P[1, s] + 0.1 * P[1, s, ::-1]
    P[1, 2], P[1, 4] = np.eye(6)[3], np.eye(6)[[4, 5]]
    R = np.zeros((2, 6, 2))
    R[0, 5, 0], R[1, 2, 0] = -4, -2
    w = np.array([0.18, 0.82])
    model = lm.LatentMDP.from_arrays(
        P, R, w, np.eye(6)[[0, 0]], 6, observe_rewards=False, max_return=None
    )
    assert brute.best_history_value(model) == 0
    plan = plan_history(model, Limits(0.05), method="layers")
    assert (plan.lower, plan.upper, plan.status) == (0, 0, "optimal")


@pytest.mark.parametrize("method", HISTORY_METHODS)
def test_a_policy_of_the_grid_is_kept_where_bounds_of_successors_are_worse(method):
    """Only the policy of context 1 is safe in state 1, where context 1 is ruled out.

    It gives the start its lower bound. State 1 itself has those of the other contexts alone.
    """
    go, cash = 0, 1
    P, R = np.zeros((3, 4, 3, 4)), np.zeros((3, 4, 3))
    P[:, np.arange(1, 4), :, np.arange(1, 4)] = 1.0
    P[:, 0, :, 3] = 1.0
    P[:, 0, go, 3] = 0.0
    P[[0, 2], 0, go, 1] = P[1, 0, go, 2] = 1.0
    R[0, 0, cash] = 0.6
    R[0, 1], R[1, 1], R[2, 1] = [0.0, 0.5, 0.5], [0.0, 0.0, 0.5], [0.5, 0.0, 0.5]
    R[1, 2] = 0.5
    start = [[1.0, 0.0, 0.0, 0.0]] * 3
    model = lm.LatentMDP.from_arrays(P, R, np.full(3, 1 / 3), start, 2, observe_rewards=False)
    found = lm.plan(model, gap=None, method=method)
    assert found.status == "optimal"
    assert found.lower == pytest.approx(0.5)
    assert found.lower == pytest.approx(lm.evaluate(model, found.policy).value)
