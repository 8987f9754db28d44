"""A run that is saved and resumed goes on to the same bits, wherever it was cut."""

import copy
from functools import partial

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.errors import ModelError
from latentmdp.learning.session import COLUMNS, Session
from latentmdp.learning.spec import RunSpec

MODELS = {
    "garnet": "garnet:contexts=3,states=5,actions=2,horizon=5",
    "wide": "garnet:contexts=2,states=14,actions=2,horizon=3,seed=3",  # above FEW_STATES
    "maze": "maze:size=3,goals=3,horizon=8",
}
SLOW = partial(pytest.param, marks=pytest.mark.slow)


def table_of(session):
    while session.done < session.target:
        session.next_phase()
    return session.table()


def check_resumes(model, spec, cuts, rng):
    """Cut a run at some random phases; each continuation must end as the run that was not cut."""
    session, states = Session(model, spec), []
    while session.done < session.target:
        if rng.random() < 1.0 / (1 + len(session.rows) / cuts):  # evenly on a logarithmic scale
            states.append(copy.deepcopy(session.state()))  # as a file would hold it
        session.next_phase()
    whole = session.table()
    states = [states[i] for i in rng.choice(len(states), size=cuts, replace=False)]
    for state in states:
        resumed = table_of(Session.from_state(model, state))
        for name in COLUMNS:
            assert np.array_equal(resumed[name], whole[name]), name


@pytest.mark.parametrize("policy_class", ["markov", "history"])
@pytest.mark.parametrize("algorithm", ["mvp", "bernstein", "ucrl", "lucrl", "psrl", "greedy"])
@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize(("episodes", "cuts"), [(100, 2), SLOW(1_000, 3)])
def test_every_algorithm_resumes_to_the_bit(episodes, cuts, name, algorithm, policy_class):
    rng = np.random.default_rng(len(algorithm))
    spec = RunSpec(algorithm, episodes, policy_class, bonus_scale=0.01, seed=4)
    check_resumes(lm.make(MODELS[name]), spec, cuts, rng)


@pytest.mark.parametrize("policy_class", ["markov", "history"])
@pytest.mark.parametrize("ties", ["secondary", "incumbent"])
@pytest.mark.parametrize("simulator", ["counts", "episodes"])
@pytest.mark.parametrize(("episodes", "cuts"), [(200, 2), SLOW(2_000, 4)])
def test_every_tie_rule_and_simulator_resumes(episodes, cuts, simulator, ties, policy_class):
    rng = np.random.default_rng(7)
    spec = RunSpec("mvp", episodes, policy_class, bonus_scale=0.01, simulator=simulator, ties=ties)
    check_resumes(lm.make(MODELS["garnet"]), spec, cuts, rng)


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [5, pytest.param(12, marks=pytest.mark.full)])
@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
@pytest.mark.parametrize("scale", [1.0, 0.01])
@pytest.mark.parametrize(
    "domain", ["maze:size=4,goals=3,horizon=10", "garnet:contexts=3,states=7,actions=3,horizon=8"]
)
def test_long_runs_with_memory_resume_to_the_bit(domain, scale, algorithm, cuts):
    """Memory whose graph has gained edges but no nodes was not rebuilt as it had been."""
    rng = np.random.default_rng(11)
    spec = RunSpec(algorithm, 10**6, "history", bonus_scale=scale)
    check_resumes(lm.make(domain), spec, cuts, rng)


def test_a_replay_that_differs_is_refused():
    run = lm.learn(lm.make("bandit"), "mvp", episodes=1000, optimal=(0.5, 0.6))
    seen = []
    run.replay(lambda phase: seen.append(phase.episode))
    assert seen == run.table["episode"].tolist()
    run.state["table"]["value"] = run.state["table"]["value"] + 1e-12
    with pytest.raises(ModelError, match=r"another version of latentmdp .* another value from"):
        run.replay(lambda phase: None)
