"""Cassandra's `.pomdp` language: every shorthand by hand, rewards against a dense table."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latentmdp.formats.pomdp import words
from latentmdp.formats.pomdp.text import read_pomdp_text

HEAD = """
discount: 0.5
values: reward
states: a b c
actions: go stay
observations: x y
"""
UNIFORM = "T: * uniform\nO: * uniform\n"


@pytest.fixture
def read(tmp_path):
    """Reads a text as a file: `T (A, S, S)`, `Z (A, S, L)`, the start, `R(a, s, next, label)`."""

    def read(text):
        (tmp_path / "m.pomdp").write_text(text)
        p = read_pomdp_text(tmp_path / "m.pomdp")
        T, Z = (dense(m, n).reshape(p.A, p.S, n) for m, n in ((p.T, p.S), (p.Z, len(p.labels))))
        return T, Z, p.start, lambda *place: float(p.reward(*(np.array([i]) for i in place))[0])

    return read


def dense(matrix, columns):
    found = np.zeros((len(matrix.start) - 1, columns))
    row = np.repeat(np.arange(len(found)), np.diff(matrix.start))
    found[row, matrix.column] = matrix.value
    return found


def test_names_or_numbers_and_comments(read, tmp_path):
    text = "# first\n" + HEAD + "T: go : a : b 1 # to b\nT: 0 : 1 : 2 1.0\nT:go:c:a 1.\n"
    text += "T: stay\nidentity\nO: * : * : y 1"
    T, Z, _, _ = read(text)
    assert T[0].tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert T[1].tolist() == np.eye(3).tolist()
    assert (Z[:, :, 1] == 1).all()
    by_number = text.replace("a b c", "3").replace("go stay", "2").replace("x y", "2")
    for name, number in (("go", "0"), (" a", " 0"), ("stay", "1"), (": b", ": 1")):
        by_number = by_number.replace(name, number)
    by_number = by_number.replace("c:a", "2:0").replace("y", "1").replace("identit1", "identity")
    again = read(by_number)
    assert np.array_equal(again[0], T)
    assert np.array_equal(again[1], Z)
    p = read_pomdp_text(tmp_path / "m.pomdp")
    assert p.discount == 0.5
    assert list(p.actions) == ["0", "1"]


@pytest.mark.parametrize(
    ("said", "row"),
    [
        ("T: go : a\n0.2 0.3 0.5", [0.2, 0.3, 0.5]),
        ("T: go : a 0.2 0.3\n0.5", [0.2, 0.3, 0.5]),
        ("T: go : a uniform", [1 / 3] * 3),
        ("T: go\n0.2 0.3 0.5  1 0 0\n0 1 0", [0.2, 0.3, 0.5]),
        ("T: go : a : b 1\nT: go : a : c 0.5\nT: go : a : b 0.5", [0, 0.5, 0.5]),
        ("T: go : * : c 1.0", [0, 0, 1]),
        ("T: go : _ : c 1.0", [0, 0, 1]),
        ("T: go : a : * 0.333333333333333333", [1 / 3] * 3),
        ("T: go : a reset", [0.25, 0.75, 0]),
        ("T: go : *\nreset", [0.25, 0.75, 0]),
        ("T: go : a : b 1.0\nT: go : a 1 0 0", [1, 0, 0]),
        ("T: go identity", [1, 0, 0]),
        ("T: go : a\n+0.25 + 0.25 5e-1", [0.25, 0.25, 0.5]),
    ],
)
def test_transitions(read, said, row):
    head = HEAD + "start: 0.25 0.75 0\nO: * uniform\nT: stay uniform\n"
    head += "T: go : b : c 1\nT: go : c : c 1\n"
    T, _, start, _ = read(head + said)
    assert T[0, 0].tolist() == row
    assert start.tolist() == [0.25, 0.75, 0]


@pytest.mark.parametrize(
    ("said", "table"),
    [
        ("O: *\nuniform", [[0.5, 0.5]] * 3),
        ("O: * : a : x 1\nO: * : b : y 1.0\nO: * : c uniform", [[1, 0], [0, 1], [0.5, 0.5]]),
        ("O: go\n1 0 0 1 0.5 0.5\nO: stay uniform", [[1, 0], [0, 1], [0.5, 0.5]]),
        ("O: * : a : uniform\nO: * : b\n0 1\nO: * : c : * 0.5", [[0.5, 0.5], [0, 1], [0.5, 0.5]]),
    ],
)
def test_observations(read, said, table):
    _, Z, _, _ = read(HEAD + "T: * identity\n" + said)
    assert Z[0].tolist() == table


def test_observations_can_be_an_identity(read):
    head = HEAD.replace("x y", "x y z")
    assert read(head + "T: * identity\nO: * identity")[1][1].tolist() == np.eye(3).tolist()


@pytest.mark.parametrize(
    ("said", "start"),
    [
        ("", [1 / 3] * 3),
        ("start: uniform", [1 / 3] * 3),
        ("start: 0.5 0.5 0", [0.5, 0.5, 0]),
        ("start: b", [0, 1, 0]),
        ("start: 2", [0, 0, 1]),
        ("start: a c", [0.5, 0, 0.5]),  # as published somewhere
        ("start include: a c", [0.5, 0, 0.5]),
        ("start include : 0 c", [0.5, 0, 0.5]),
        ("start exclude: b", [0.5, 0, 0.5]),
        ("start: 0.333333 0.333333 0.333333", [1 / 3] * 3),
    ],
)
def test_starts(read, said, start):
    assert np.allclose(read(HEAD + said + "\n" + UNIFORM)[2], start, rtol=1e-15)


def test_rewards_and_costs(read):
    text = HEAD + UNIFORM + "R: * : * : * : * -1\nR: go : a : b : x - 5\nR: go : b : a 1 2\n"
    text += "R: stay : c\n0 1 2 3 4 5"
    for sign, kind in ((1, "reward"), (-1, "cost"), (1, "rewards"), (-1, "costs")):
        R = read(text.replace("values: reward", f"values: {kind}"))[3]
        assert R(1, 1, 0, 0) == -sign
        assert R(0, 0, 1, 0) == -5 * sign
        assert R(0, 0, 1, 1) == -sign
        assert [R(0, 1, 0, k) for k in (0, 1)] == [sign, 2 * sign]
        table = [[R(1, 2, to, k) for k in (0, 1)] for to in range(3)]
        assert table == [[0, sign], [2 * sign, 3 * sign], [4 * sign, 5 * sign]]


def test_without_observations_the_state_is_seen(read, tmp_path):
    head = HEAD.replace("observations: x y\n", "")
    said = "T: * identity\nR: go : a : a 3\nR: go : b 1 2 3"
    _, Z, _, R = read(head + said)
    assert Z[0].tolist() == np.eye(3).tolist()
    assert R(0, 0, 0, 0) == 3
    assert [R(0, 1, k, k) for k in range(3)] == [1, 2, 3]
    assert read_pomdp_text(tmp_path / "m.pomdp").first_label.tolist() == [0, 1, 2]


def test_keywords_may_be_names_and_statements_may_share_lines(read):
    text = "states: T start uniform\nactions: R O\nobservations: 1\ndiscount: 1\n"
    text += "start: T T: R : T : T 1.0 T: R : start : T 1.0 T: R : uniform : T 1.0\n"
    text += "T: O identity O: * : * : 0 1.0 R: R : T : start : 0 4"
    T, _, start, R = read(text)
    assert T[0].tolist() == [[1, 0, 0]] * 3
    assert start.tolist() == [1, 0, 0]
    assert R(0, 0, 1, 0) == 4


statements = st.tuples(
    st.integers(-1, 1), st.integers(-1, 2), st.integers(-1, 2), st.integers(-1, 1),
    st.integers(2, 4), st.integers(-9, 9),
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(statements, max_size=12), piece=st.sampled_from([1 << 22, 64, 7]))
def test_rewards_in_any_order_and_in_pieces(read, said, piece):
    """Also when the file is read a few bytes at a time, so that statements are cut anywhere."""
    table = np.zeros((2, 3, 3, 2))
    text = HEAD + UNIFORM
    for *place, names, value in said:
        place = place[:names]
        index = tuple(slice(None) if i < 0 else i for i in place)
        shape = table.shape[names:]
        values = value + np.arange(np.prod(shape, dtype=int)).reshape(shape)
        table[index] = values
        text += "R: " + " : ".join("*" if i < 0 else str(i) for i in place)
        text += " " + " ".join(map(str, values.reshape(-1))) + " # x: y\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "PIECE", piece)
        R = read(text)[3]
    assert [R(*place) for place in np.ndindex(table.shape)] == table.reshape(-1).tolist()
