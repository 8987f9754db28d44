"""Files of format 6, as the code of 0bc5040 has written them, are read and go on to the same bits.

`format6/` has learners of a small model in the middle of their 120th episode, a run, and what that
code made of the learners later: `expected.json`, by `continued` below.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.learning.learner import Learner

FOLDER = Path(__file__).parent / "format6"
SPEC = "garnet:contexts=2,states=3,actions=2,branching=2,horizon=4,seed=2"


def continued(learner, episodes=200):
    """Actions and optimistic values of the episodes that come next."""
    model, rng = lm.make(SPEC).normalized(), np.random.default_rng(1)
    actions, values = [], []
    learner.cancel()
    for _ in range(episodes):
        m = int(rng.choice(model.M, p=model.w))
        state = int(rng.choice(model.S, p=model.nu[m]))
        action = learner.begin(state)
        while action is not None:
            actions.append(int(action))
            new = int(rng.choice(model.S, p=model.P[m, state, action]))
            action = learner.step(float(model.R[m, state, action]), new)
            state = new
        learner.end(m)
        values.append(float(learner.optimistic_value).hex())
    return {"actions": actions, "values": values}


@pytest.mark.parametrize("name", ["markov", "history", "estimated"])
def test_an_old_learner_goes_on_as_in_the_old_version(name, tmp_path):
    expected = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))[name]
    learner = Learner.load(FOLDER / f"learner-{name}.npz")
    assert learner.episode == 120
    learner.save(tmp_path / "again.npz")
    assert continued(learner) == expected
    assert continued(Learner.load(tmp_path / "again.npz")) == expected


def test_an_old_run_is_replayed_to_the_same_bits_and_goes_on(tmp_path):
    shutil.copytree(FOLDER / "run", tmp_path / "run")
    run = lm.load_run(tmp_path / "run")
    fresh = lm.learn(run.model, "bernstein", 3000, "history", bonus_scale=0.02, seed=4)
    assert run.table.equals(fresh.table)
    phases = []
    run.replay(phases.append)  # refuses where the bits are not the same
    assert len(phases) == len(run.table)
    assert run.more(4000).table.equals(fresh.more(4000).table)


def test_a_learner_of_a_tie_rule_that_is_gone_is_refused():
    with pytest.raises(lm.ModelError, match=r"learner-ladder\.npz: must break ties by .*'ladder'"):
        Learner.load(FOLDER / "learner-ladder.npz")
