"""`psrl` draws at doublings, `psrl-episode` after every episode: only that learns riverswim."""

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.learning.learner import Learner
from latentmdp.learning.run import Run
from latentmdp.learning.session import Session
from latentmdp.learning.spec import MOST_DRAWS

RIVER = "riverswim"


@pytest.mark.slow
def test_a_draw_at_doublings_stays_wrong_and_a_draw_per_episode_does_not():
    model = lm.make(RIVER)
    best = lm.plan(model, "markov", gap=None)
    lost = {
        name: [lm.learn(model, name, 2000, seed=seed, optimal=best).regret for seed in range(5)]
        for name in ("psrl", "psrl-episode")
    }
    assert min(lost["psrl"]) > 0.2 * 2000 * (best.lower - 0.3)
    assert sum(lost["psrl-episode"]) < 0.5 * sum(lost["psrl"])
    later = lm.learn(model, "psrl-episode", 2000, seed=0, optimal=best)
    assert later.regret - later.regret_at(1000) < 0.2 * later.regret_at(1000)


@pytest.mark.parametrize("simulator", ["counts", "episodes"])
@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_every_episode_is_a_phase_and_snapshots_stay_algorithm_1s(simulator, policy_class):
    model = lm.make("garnet:states=3,actions=2,contexts=2,horizon=3")
    run = lm.learn(model, "psrl-episode", 150, policy_class, simulator=simulator, audit=True)
    assert (run.updates, len(run.table)) == (150, 150)
    assert (run.table["length"] == 1).all()
    assert run.table["updates"].tolist() == list(range(1, 151))
    report = lm.audit(run)
    assert report.bugs == ()
    assert report["snapshot"].held


@pytest.mark.parametrize("simulator", ["counts", "episodes"])
def test_it_resumes_to_the_same_bits(simulator, tmp_path):
    model = lm.make("garnet:states=3,actions=2,contexts=2,horizon=3")
    whole = lm.learn(model, "psrl-episode", 80, simulator=simulator, optimal=(0.0, 1.0))
    session = Session(model, whole.spec)
    for k in range(80):
        if k in (7, 33):
            Run(model, session.state(), (0.0, 1.0), 0.0).checkpoint(tmp_path)
            session = lm.load_run(tmp_path).session()
        session.next_phase()
    assert np.array_equal(session.table()["value"], whole.state["table"]["value"])


def test_in_ones_own_loop_it_plans_after_every_episode():
    env = lm.LatentMDPEnv(RIVER)
    learner = Learner(env.model, "psrl-episode", episodes=30, seed=1)
    before = learner.updates
    for k in range(30):
        state, _ = env.reset(seed=k)
        action = learner.begin(state)
        while action is not None:
            state, reward, _, _, info = env.step(action)
            action = learner.step(reward, state)
        assert learner.end(info["context"])
    assert learner.updates == before + 30


def test_too_many_episodes_are_refused_with_the_remedy():
    with pytest.raises(lm.ModelError, match=f"at most {MOST_DRAWS}; it is 1000000 .psrl draws at"):
        lm.learn(lm.make(RIVER), "psrl-episode", 10**6)
    short = lm.learn(lm.make("bandit"), "psrl-episode", 5, optimal=(0.0, 1.0))
    with pytest.raises(lm.ModelError, match="plans after every episode"):
        short.more(MOST_DRAWS)
    assert short.more(5).episodes == 10
