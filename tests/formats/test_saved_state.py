"""What saved learners and runs may hold: every entry is checked before compiled code sees it."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.formats.schema import STREAM, fitting, number, truth, whole
from latentmdp.learning.learn import learn
from latentmdp.learning.learner import Learner
from latentmdp.learning.run import load_run
from latentmdp.learning.saved.state import checksum

MAZE = "maze:size=2,goals=2,horizon=3"


def rewritten(path, change):
    """Change the arrays and the JSON part of a saved state, with a digest to match."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name].copy() for name in archive.files}
    state = json.loads(bytes(arrays["json"]).decode())
    change(arrays, state)
    arrays["json"] = np.frombuffer(json.dumps(state).encode(), dtype=np.uint8)
    arrays["digest"] = checksum(arrays)
    np.savez(path, **arrays)


def put(name, place, value):
    """A change that sets one element of an array."""

    def change(arrays, state):
        arrays[name].reshape(-1)[place] = value

    return change


def say(value, *path):
    """A change that sets a value of the JSON part."""

    def change(arrays, state):
        *parents, last = path
        for parent in parents:
            state = state[parent]
        state[last] = value

    return change


def other_first_state(arrays, state):
    arrays["solver.graph.state"][0] = (arrays["solver.graph.state"][0] + 1) % 5


def other_node(arrays, state):
    state["node"] += 1


def smaller_snapshot(arrays, state):
    """One visit less in the snapshot of a row: the sums agree, but it is no power of two."""
    row = int(np.argmax(arrays["learner.counts.N"]))
    lo, hi = arrays["learner.counts.indptr"][row : row + 2]
    arrays["learner.counts.N"][row] -= 1
    arrays["learner.counts.N_next"][lo + np.argmax(arrays["learner.counts.N_next"][lo:hi])] -= 1


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The bytes of a learner with memory in the middle of an episode, and of a run's files."""
    folder = tmp_path_factory.mktemp("saved")
    model = lm.make(MAZE)
    learner = Learner(model, "mvp", episodes=1000, policy_class="history", bonus_scale=0.01)
    random = np.random.default_rng(0)
    for _ in range(30):
        play(learner, model, random)
    learner.begin(int(model.nu[0].argmax()))
    learner.save(folder / "learner.npz")
    learn(model, "mvp", 2000, "history", bonus_scale=0.01, optimal=(0.9, 1.0)).save(folder)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def play(learner, model, random):
    """An episode of the model."""
    m = int(random.choice(model.M, p=model.w))
    state = int(random.choice(model.S, p=model.nu[m]))
    action = learner.begin(state)
    while action is not None:
        row = (m * model.S + state) * model.A + action
        lo, hi = model.indptr[row], model.indptr[row + 1]
        k = int(random.choice(np.arange(lo, hi), p=model.prob[lo:hi]))
        state = int(model.next[k])
        action = learner.step(float(model.reward[k]), state)
    learner.end(m)


CRASHES = """
import sys, numpy as np
from latentmdp.learning.learner import Learner
from latentmdp.errors import ModelError
try:
    learner = Learner.load(sys.argv[1])
except ModelError as error:
    sys.exit(str(error))
learner.update(np.arange(learner.counts.rows))
"""


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [("solver.policy", slice(None), 10**9), ("solver.graph.succ", slice(None), 10**8)],
)
def test_a_policy_of_large_numbers_is_refused_not_followed(saved, tmp_path, name, place, value):
    """In a process of its own: it died of this by SIGSEGV."""
    file = tmp_path / "learner.npz"
    file.write_bytes(saved["learner.npz"])
    rewritten(file, put(name, place, value))
    done = subprocess.run(
        [sys.executable, "-c", CRASHES, str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode != -signal.SIGSEGV
    assert f"learner.npz: must hold a whole saved learner; {name}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("solver.policies", 0, 4), "solver.policies"),
        (put("solver.markov.policy", 0, -1), "solver.policy[0] must be a whole number"),
        (put("solver.nodes", 0, 10**6), "solver.nodes"),
        (put("solver.graph.edge", 0, 10**6), "solver.graph.edge"),
        (put("solver.graph.edge", 0, 1), "solver.graph.edge"),
        (put("solver.graph.succ", 0, 0), "must follow from its node and observation"),
        (other_first_state, "must be a first state"),
        (put("solver.graph.belief", 0, np.nan), "solver.graph.belief"),
        (put("solver.graph.belief", 0, 0.75), "solver.graph.belief"),
        (put("solver.backoffs", 0, 10**9), "solver.backoffs"),
        (say(2, "solver", "perturb_stream", "state", "inc"), "odd increment"),
        (say(-1, "solver", "rule_stream", "state", "state"), "solver.rule_stream.state.state"),
        (say(10**400, "solver", "rule_stream", "state", "state"), "solver.rule_stream.state.state"),
        (say("MT19937", "random", "bit_generator"), "random must be the state of a PCG64"),
        (put("counts.n", 0, 10**6), "counts.n[0] must be the sum of its n_next"),
        (put("counts.N_next", 0, 2**62), "counts.N"),
        (put("counts.next", 0, 99), "counts.next"),
        (put("counts.indptr", 1, 10**6), "counts.indptr"),
        (put("counts.shape", 0, 3), "counts.shape"),
        (put("policy.action", 0, 99), "the policy's actions must be from 0 to 3"),
        (put("policy.default", 0, 10**6), "default"),
        (put("knowledge.known.w", 0, 0.9), "must sum to 1"),
        (put("knowledge.known.row_symbol", 0, 7), "row_symbol"),
        (say(10**9, "knowledge", "known", "H"), "policy.default must have the shape"),
        (other_node, "node must be one of step 0"),
        (say([[0, 0, 0.0]], "path"), "path[0] must be state, action, reward and next state"),
        (say([[0, 9, 0.0, 0]], "path"), "path[0].action"),
        (say("many", "updates"), "updates must be a whole number"),
        (say(float("nan"), "upper"), "upper must be a finite number"),
    ],
)
def test_what_could_not_be_a_learner_is_refused(saved, tmp_path, change, said):
    file = tmp_path / "learner.npz"
    file.write_bytes(saved["learner.npz"])
    rewritten(file, change)
    with pytest.raises(lm.ModelError, match=r"learner\.npz: must hold a whole saved") as refused:
        Learner.load(file)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("table.length", 0, 10**6), "table.length must sum to done"),
        (put("table.value", 0, np.nan), "table.value"),
        (put("table.episode", 1, 7), "table.episode"),
        (smaller_snapshot, "learner.counts.N"),
        (put("learner.knowledge.known.row_reward", 0, 0.5), "must be the model's"),
        (put("learner.solver.policies", 0, 10**9), "solver.policies"),
        (say([1e9], "targets"), "targets must hold whole numbers"),
        (say([2000, 10], "targets"), "targets must rise"),
        (say("dice", "spec", "simulator"), "simulator must be one of counts, episodes"),
        (say("psrl", "spec", "algorithm"), "spec must be what the learner's choice is"),
        (say([1.0, 0.5], "optimal"), "optimal must be (lower, upper)"),
        (say(0, "simulation", "state", "inc"), "odd increment"),
        (say(None, "seconds"), "seconds must be a group of entries"),
    ],
)
def test_what_could_not_be_a_run_is_refused(saved, tmp_path, change, said):
    for name, raw in saved.items():
        (tmp_path / name).write_bytes(raw)
    rewritten(tmp_path / "run.npz", change)
    with pytest.raises(lm.ModelError, match=r"run\.npz: must hold a whole saved run") as refused:
        load_run(tmp_path).final_value  # noqa: B018 - the solver's part is looked at when needed
    assert said in str(refused.value)


def test_untouched_files_are_as_good_as_before(saved, tmp_path):
    for name, raw in saved.items():
        (tmp_path / name).write_bytes(raw)
    for name in ("learner.npz", "run.npz"):
        rewritten(tmp_path / name, lambda arrays, state: None)
    assert load_run(tmp_path).more(10).episodes == 2010
    learner = Learner.load(tmp_path / "learner.npz")
    for part in ("learner", "again"):
        learner.save(tmp_path / f"{part}.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "learner.npz").read_bytes()


def test_a_stream_goes_on_where_it_was():
    random = np.random.default_rng(5)
    random.random(3)
    state = fitting({"s": random.bit_generator.state}, {"s": STREAM}, {})["s"]
    again = np.random.default_rng()
    again.bit_generator.state = state
    assert again.random(4).tolist() == random.random(4).tolist()


@pytest.mark.parametrize(
    ("value", "entry", "said"),
    [
        (np.zeros(3), whole("n"), "must hold whole numbers"),
        (np.zeros((2, 3), dtype=int), whole("n"), "must have the shape (n) = (4,)"),
        (np.array([0, 1, 2, 9]), whole("n", below="k"), "[3] must be a whole number from 0 to 4"),
        (np.full(4, 2**63, dtype=np.uint64), whole("n"), "from 0 to 4611686018427387904"),
        (np.array([0.0, 1.0, np.inf, 0.0]), number("n"), "[2] must be a finite number"),
        (np.zeros(4, dtype=int), truth("n"), "must hold true or false"),
        ([0, 1, [2], 3], whole("n"), "must be an array; it is a list"),
        (True, whole(), "must be a whole number; it is True"),
        (10**500, number(), "must be a finite number"),
        ("1", number(), "must be a finite number; it is a str"),
    ],
)
def test_entries(value, entry, said):
    with pytest.raises(lm.ModelError) as refused:
        fitting({"x": value}, {"x": entry}, {"n": 4, "k": 5})
    assert said in str(refused.value)


@pytest.mark.parametrize("on_transitions", [False, True])
@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_large_rewards_where_no_episode_leads(tmp_path, policy_class, on_transitions):
    """Totals are at most 1 all the same: such models learn, are saved, resumed and audited."""
    P = np.array([[[[1.0, 0.0]] * 2, [[0.5, 0.5]] * 2]] * 2)
    R = np.array([[[0.25, 0.5], [7.0, 3.0]]] * 2)
    R[1, 0] = 0.5, 0.25
    R = np.stack([R, R], axis=-1) if on_transitions else R
    model = lm.LatentMDP.from_arrays(P, R, [0.5, 0.5], [1.0, 0.0], 2)
    run = learn(model, "mvp", episodes=50, policy_class=policy_class, bonus_scale=0.01)
    assert run.final_value == lm.evaluate(model, run.policy).value
    run.save(tmp_path / "run")
    again = load_run(tmp_path / "run")
    assert again.regret == run.regret
    assert again.more(50).episodes == 100
    assert not lm.audit(run).bugs
    learner = Learner(model, "mvp", episodes=10, policy_class=policy_class)
    learner.save(tmp_path / "learner.npz")
    assert np.array_equal(
        Learner.load(tmp_path / "learner.npz").policy.action, learner.policy.action
    )
