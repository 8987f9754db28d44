"""`lower` is the value of the policy that is handed out, and no policy is worth more than `upper`.

For confidence sets with memory, on both sides of `FEW_STATES`: up to there a memory knows every
observation, above it those that some context has shown.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optimism_exact import exact_history
from optimism_twin import graph_value, random_counts, setting_of, small_model

from latentmdp import LatentMDP
from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import rule_named
from latentmdp.optimism.given import Given
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.optimistic_plan import optimistic_plan
from latentmdp.optimism.settings import SEARCH


def exact(model, visits, algorithm, scale):
    """The optimum of the history class, by sets of value vectors."""
    counts, rule = Counts.from_visits(visits), rule_named(algorithm)
    setting = setting_of(model, scale)
    return exact_history(ConfidenceModel.of(Given.of(model), counts, rule, setting))


def seen_next_state_of_another_context():
    """Context 0 has only led to state 1; that state 2 may follow is known from context 1."""
    S, P = 7, np.zeros((2, 7, 2, 7))
    P[:, np.arange(S), :, np.arange(S)] = 1.0
    P[:, 0] = 0.0
    P[0, 0, :, 1] = 1.0
    P[1, 0, :, 1], P[1, 0, :, 2] = 0.1, 0.9
    R = np.zeros((2, S, 2))
    R[0, 1], R[1, 1], R[:, 2] = [1, 0], [0, 1], 0.2
    nu = np.zeros((2, S))
    nu[:, 0] = 1.0
    visits = np.zeros(P.shape, dtype=int)
    visits[:, np.arange(S), :, np.arange(S)] = 4096
    visits[:, 0] = 0
    visits[0, 0, :, 1], visits[1, 0, :, 2] = 4096, 1024
    return LatentMDP.from_arrays(P, R, [0.6, 0.4], nu, 2, observe_rewards=False), visits


def test_a_policy_does_not_know_the_context_behind_an_observation():
    model, visits = seen_next_state_of_another_context()
    plan = optimistic_plan(model, visits, "bernstein", "history", 1000)
    best = exact(model, visits, "bernstein", 1.0)
    assert plan.lower <= best + 1e-9
    assert plan.upper >= best - 1e-9
    twin = graph_value(model, visits, "bernstein", setting_of(model), plan.policy)
    assert plan.lower == pytest.approx(twin, abs=1e-9)


def check_certificate(rng, algorithm, S, H, on_transitions=False, search=SEARCH):
    """Plan a random problem; returns what is missing to the optimum of the class."""
    M, observe = int(rng.integers(2, 4)), bool(rng.integers(2))
    model = small_model(rng, M, S, 2, H, on_transitions, observe)
    scale = float(rng.choice([1.0, 0.3, 0.1, 0.03, 0.01]))
    visits = random_counts(rng, model, (100, 1000, 10**4, 10**5, 5, 0))
    if rng.integers(2):  # what one context shows, another has not seen yet
        visits[0] *= rng.integers(0, 2, visits[0].shape)
    plan = optimistic_plan(
        model, visits, algorithm, "history", 1000, bonus_scale=scale, settings=search
    )
    twin = graph_value(model, visits, algorithm, setting_of(model, scale), plan.policy)
    assert plan.lower == pytest.approx(twin, abs=1e-7 if algorithm == "ucrl" else 1e-9)
    best = exact(model, visits, algorithm, scale)
    assert plan.lower <= best + 1e-9
    assert plan.upper >= best - 1e-9
    return best - plan.lower


@pytest.mark.parametrize("algorithm", ["bernstein", "mvp"])
@pytest.mark.parametrize("S", [7, 12, 13])
@settings(max_examples=5)
@given(seed=st.integers(0, 10**9))
def test_certificates_of_models_with_more_states(algorithm, S, seed):
    check_certificate(np.random.default_rng(seed), algorithm, S, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "problems"), [("bernstein", 80), ("mvp", 80), ("ucrl", 12)])
@pytest.mark.parametrize("S", [5, 6, 7, 8, 9, 10, 13])
def test_certificates_of_many_models_with_more_states(algorithm, problems, S):
    rng = np.random.default_rng(S)
    missing = np.array([check_certificate(rng, algorithm, S, 2) for _ in range(problems)])
    if SEARCH.few_states >= S:  # above, what nobody has shown has no memory
        assert (missing > 1e-9).mean() < 0.25


@pytest.mark.parametrize(
    ("algorithm", "problems"),
    [
        ("bernstein", 20), ("ucrl", 5),
        *(pytest.param(*x, marks=pytest.mark.slow) for x in (("bernstein", 60), ("ucrl", 15))),
    ],
)  # fmt: skip
@pytest.mark.parametrize("few", [0, 12])
def test_both_ways_to_list_next_states_are_sound(algorithm, problems, few):
    """The same sizes with `few_states` below and above them."""
    search = replace(SEARCH, few_states=few)
    rng = np.random.default_rng(few)
    for i in range(problems):
        size = (2, 3, True) if i % 2 else (3, 3, False)
        check_certificate(rng, algorithm, *size, search)
