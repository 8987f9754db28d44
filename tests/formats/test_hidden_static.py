"""From POMDPs to latent MDPs: the same best value by two oracles, or why there is none."""

import math

import brute
import numpy as np
import pomdp_brute
import pytest
from hypothesis import given, settings
from pomdp_samples import SENSOR, document, reward, table
from strategies import _distribution, seeds

import latentmdp as lm
from latentmdp.formats.document import Options
from latentmdp.formats.pomdp.flat import Pomdp, Variable
from latentmdp.formats.pomdp.read import latent_mdp
from latentmdp.formats.pomdp.rules import Allowance, Csr
from latentmdp.formats.pomdp.text import read_pomdp_text


def csr(dense):
    """A dense matrix as sparse rows."""
    row, column = np.nonzero(dense)
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(dense)))])
    return Csr(start, column, dense[row, column])


def static_pomdp(rng):
    """Contexts that stay, positions that are shown, noisy readings, perhaps a common end."""
    M, X, A, K = (int(rng.integers(1, n + 1)) for n in (3, 2, 2, 2))
    ends = int(rng.integers(0, 2))
    S, L = M * X + ends, X * K + ends
    T, Z = np.zeros((A, S, S)), np.zeros((A, S, L))
    for a in range(A):
        for m in range(M):
            for x in range(X):
                to = _distribution(rng, X + ends)
                T[a, m * X + x, m * X : m * X + X] = to[:X]
                T[a, m * X + x, M * X :] = to[X:]
                Z[a, m * X + x, x * K : x * K + K] = _distribution(rng, K)
        T[a, M * X :, M * X :] = 1.0
        Z[a, M * X :, X * K :] = 1.0
    R = rng.integers(-2, 3, (A, S, S, L)) / 2
    if rng.random() < 0.5:
        R[:] = R[:, :, :1, :1]
    order = rng.permutation(S)  # states in any order
    T, Z, R = T[:, order][:, :, order], Z[:, order], R[:, order][:, :, order]
    start = _distribution(rng, S)
    shows_first = rng.random() < 0.3
    first = np.array([Z[0, s].argmax() // K for s in range(S)]) if shows_first else np.zeros(S, int)
    return Pomdp(
        (Variable("", [f"s{i}" for i in range(S)], False),), [f"a{i}" for i in range(A)],
        [f"o{i}" for i in range(L)], float(rng.choice([1.0, 0.9])), start, first,
        csr(T.reshape(A * S, S)), csr(Z.reshape(A * S, L)), lambda *place: R[place],
    )  # fmt: skip


@settings(max_examples=150)
@given(seed=seeds)
def test_the_best_value_is_that_of_the_pomdp(seed):
    rng = np.random.default_rng(seed)
    pomdp = static_pomdp(rng)
    horizon = int(rng.integers(1, 4))
    model = latent_mdp(pomdp, Options(horizon=horizon), Allowance(0))
    assert not model.observe_rewards
    assert horizon == model.H
    expected = pomdp_brute.best_value(pomdp, horizon)
    assert brute.best_history_value(model) == pytest.approx(expected, abs=1e-9)


def load(tmp_path, text, horizon=3, name="m.pomdp"):
    (tmp_path / name).write_text(text)
    return lm.load(tmp_path / name, horizon=horizon)


def test_a_noisy_reading_is_part_of_the_state(tmp_path):
    """The tiger that stays where it is: nothing is seen at first, then what was heard last."""
    model = load(tmp_path, SENSOR)
    assert model.context_names == ("left", "right")
    assert model.state_names == ("hear-left", "hear-right", "start")
    assert model.action_names == ("listen", "open-left", "open-right")
    assert model.nu.tolist() == [[0, 0, 1]] * 2
    assert model.P[0, :, 0, :2].tolist() == [[0.85, 0.15]] * 3
    assert model.R[1, 0].tolist() == [-1, 10, -100]
    pomdp = read_pomdp_text(tmp_path / "m.pomdp")
    expected = pomdp_brute.best_value(pomdp, 3)
    assert brute.best_history_value(model) == pytest.approx(expected)
    assert model.origin.state.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert model.replace(horizon=2).origin is model.origin  # its states are the same
    assert model == model.replace(origin=None)  # not a part of what a model is


def test_positions_that_are_shown_are_the_states(tmp_path):
    text = """discount: 0.9\nstates: a0 a1 b0 b1\nactions: 1\nobservations: zero one
    start include: a0 b0
    O: * : a0 : zero 1\nO: * : b0 : zero 1\nO: * : a1 : one 1\nO: * : b1 : one 1
    T: 0\n0.5 0.5 0 0  1 0 0 0  0 0 0.25 0.75  0 0 0 1\n"""
    model = load(tmp_path, text)
    assert model.state_names == ("zero", "one")  # the first state is known: it looks like `zero`
    assert model.context_names == ("a0", "b0")
    assert model.P[:, :, 0].tolist() == [[[0.5, 0.5], [1, 0]], [[0.25, 0.75], [0, 1]]]


def test_first_states_that_look_alike_are_contexts(tmp_path):
    text = """discount: 0.9\nstates: 2\nactions: 1\nobservations: 2\nT: 0\n0 1 1 0\nO: 0 identity
    R: 0 : 0 : * : * 1"""
    model = load(tmp_path, text)
    assert model.M == 2  # which of the two it starts in is hidden, and stays
    assert model.S == 3
    assert brute.best_history_value(model) == pytest.approx(0.5 + 0.9 * 0.5 + 0.81 * 0.5)


def test_a_common_end_does_not_mix_contexts(tmp_path):
    ending = SENSOR.replace("left right", "left right over", 1).replace(
        "hear-left hear-right", "hear-left hear-right none", 1
    )
    ending = ending.split("O: listen")[0] + "start include: left right\n"
    ending = ending.replace("T: * identity\n", "")
    ending += """T: listen identity\nT: open-left : * : over 1\nT: open-right : * : over 1
    O: * : over : none 1.0\nO: listen : left 0.85 0.15 0\nO: listen : right 0.15 0.85 0
    O: open-left : left uniform\nO: open-left : right uniform
    O: open-right : left uniform\nO: open-right : right uniform
    R: open-left : right : * : * 10\nR: open-right : left : * : * 10"""
    model = load(tmp_path, ending)
    assert model.M == 2
    assert model.state_names == ("hear-left", "hear-right", "none", "start")
    pomdp = read_pomdp_text(tmp_path / "m.pomdp")
    expected = pomdp_brute.best_value(pomdp, 3)
    assert brute.best_history_value(model) == pytest.approx(expected)


def test_declared_values_are_kept_also_without_weight(tmp_path):
    """A value that the prior rules out, a position that is never reached."""
    text = document(first=("pos_0 null -:0 1 0", "mode_0 null -:0 1"), seen=("obs mode_1 * -:1 0",))
    model = load(tmp_path, text, name="m.pomdpx")
    assert model.context_names == ("good", "bad")
    assert model.state_names == ("s0", "s1", "s2")
    assert model.w.tolist() == [0, 1]
    assert model.nu.tolist() == [[0, 1, 0]] * 2
    assert model.discount == 0.5


def test_a_hidden_variable_that_moves_and_is_shown(tmp_path):
    """Not declared as seen, but the observation is its value."""
    text = document().replace('fullyObs="true"', 'fullyObs="false"')
    text = text.replace("<ValueEnum>x y</ValueEnum>", "<NumValues>3</NumValues>")
    start = text.index("<ObsFunction>")
    shows = table("obs", "pos_1", "- -:identity")
    text = text[:start] + f"<ObsFunction>{shows}" + text[text.index("</ObsFunction>") :]
    text = text.replace(
        table("pos_1", "pos_0", "- -:identity"),
        table("pos_1", "pos_0 mode_0", "- good -:0 1 0 0 0 1 1 0 0", "- bad -:0 0 1 1 0 0 0 1 0"),
    )
    model = load(tmp_path, text, name="m.pomdpx")
    assert (model.M, model.S) == (2, 3)
    assert model.context_names == ("good", "bad")
    assert model.P[0, :, 0].argmax(axis=1).tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("T: * identity", "T: * identity\nT: open-left uniform"),
         "the hidden state must stay as it is or be seen, but action 'open-left' leads from 'left' "
         "to 'right', and what is seen ('hear-left') does not tell"),
        (("T: * identity", "T: * identity\nT: listen\n0.9 0.1 0 1"), "action 'listen' leads from"),
    ],
)  # fmt: skip
def test_what_moves_unseen_is_named(tmp_path, change, said):
    with pytest.raises(lm.ModelError) as error:
        load(tmp_path, SENSOR.replace(*change))
    assert said in str(error.value)


def test_a_transition_to_a_state_that_looks_like_another_is_named(tmp_path):
    """The end looks like the beginning; the hall between them has a look of its own."""
    text = """discount: 0.9
states: door hall end
actions: wait go
observations: wall light
start: door
T: wait identity
T: go : door : hall 1
T: go : hall : end 1
T: go : end : end 1
O: * : * : wall 1
O: * : hall : wall 0
O: * : hall : light 1
R: go : hall : * : * 1
"""
    with pytest.raises(lm.ModelError) as error:
        load(tmp_path, text)
    assert (
        "action 'go' leads from 'hall' to 'end', and what is seen ('wall') does not tell it from "
        "'door'" in str(error.value)
    )


def test_the_variable_that_moves_unseen_is_named(tmp_path):
    mode = table("mode_1", "action pos_0 mode_0", "* * - -:identity", "go s1 good -:0 1")
    moving = table("pos_1", "pos_0", "s0 s1:1", "s1 s1:1", "s2 s2:1")
    with pytest.raises(lm.ModelError) as error:
        load(tmp_path, document(following=(moving, mode)), name="m.pomdpx")
    assert (
        "the hidden variable 'mode_0' must stay as it is or be seen, but action 'go' at pos_0=s1 "
        "leads from 'good' to 'bad'" in str(error.value)
    )


def test_the_horizon_must_be_given_without_a_discount_and_is_infinite_with_one(tmp_path):
    (tmp_path / "m.pomdp").write_text(SENSOR)
    with pytest.raises(lm.ModelError, match="horizon must be given"):
        lm.load(tmp_path / "m.pomdp", discount=1.0)
    assert lm.load(tmp_path / "m.pomdp").horizon == math.inf
    assert lm.load(tmp_path / "m.pomdp", horizon=math.inf) == lm.load(tmp_path / "m.pomdp")
    told = lm.load(tmp_path / "m.pomdp", horizon=2, discount=0.25, observe_rewards=False)
    assert told.discount == 0.25


def test_rewards_can_be_observed_if_one_says_so(tmp_path):
    (tmp_path / "m.pomdp").write_text(SENSOR)
    assert lm.load(tmp_path / "m.pomdp", horizon=2, observe_rewards=True).observe_rewards


def test_rewards_on_observations_are_averaged(tmp_path):
    text = document(
        seen=("obs mode_1 - -:0.25 0.75 1 0",), rewards=(reward("obs mode_0", "x *:4", "y *:8"),)
    )
    model = load(tmp_path, text, name="m.pomdpx")
    assert model.row_reward.reshape(2, -1)[0, 0] == 0.25 * 4 + 0.75 * 8


# ---------------------------------------------------------------------- published files
