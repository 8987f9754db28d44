"""SARSOP's `.pomdpx`: every shorthand by hand, rewards against a dense table."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pomdp_samples import MODE_DIAGRAM, POS_DIAGRAM, document, reward, table
from test_pomdp_text import dense

import latentmdp as lm
from latentmdp.formats.pomdp import pomdpx_entries
from latentmdp.formats.pomdp.pomdpx import read_pomdpx


@pytest.fixture
def read(tmp_path):
    """Reads a document: `(T (A, pos, mode, pos, mode), Z (A, pos, mode, pos, reading), pomdp)`."""

    def read(*arguments, **parts):
        (tmp_path / "m.pomdpx").write_text(document(*arguments, **parts), encoding="latin1")
        p = read_pomdpx(tmp_path / "m.pomdpx")
        T = dense(p.T, p.S).reshape(p.A, 3, 2, 3, 2)
        return T, dense(p.Z, len(p.labels)).reshape(p.A, 3, 2, 3, -1), p

    return read


def test_variables_that_are_seen_come_first(read):
    T, Z, p = read()
    assert [v.name for v in p.variables] == ["pos_0", "mode_0"]
    assert p.discount == 0.5
    assert p.start.reshape(3, 2).tolist() == [[0.5, 0.5], [0, 0], [0, 0]]
    assert p.first_label.tolist() == [0, 0, 1, 1, 2, 2]
    assert np.array_equal(T[0].reshape(6, 6), np.eye(6))
    assert Z[1, 2, 0, 2].tolist() == [0.8, 0.2]
    assert Z[1, 2, 0, 1].tolist() == [0, 0]
    assert p.labels[3] == "s1, y"
    assert p.hidden == 2


STAY = "stay - -:identity"
REST = ("go s1 s1:1", "go s2 s2:1")


@pytest.mark.parametrize(
    ("entries", "row"),
    [
        ([STAY, "go - -:0 1 0 0 0 1 1 0 0"], [0, 1, 0]),
        ([STAY, *REST, "go s0 s1:1"], [0, 1, 0]),
        ([STAY, *REST, "go s0 -: 0.2 0.3\n 0.5 "], [0.2, 0.3, 0.5]),
        ([STAY, *REST, "go s0 *:0.333333333333333333"], [1 / 3] * 3),
        ([STAY, "go * s2:1"], [0, 0, 1]),
        ([STAY, "go _ s2:1"], [0, 0, 1]),
        ([STAY, *REST, "go s0 -:Uniform"], [1 / 3] * 3),
        ([STAY, "go - -:uniform"], [1 / 3] * 3),
        (["* - -:IDENTITY"], [1, 0, 0]),
        (["* - -:identity", "go s0 s0:0.25", "go s0 s2:0.75"], [0.25, 0, 0.75]),
        (["* - -:identity", "go s0 -:0 0 1", "go s0 -:0 1 0"], [0, 1, 0]),  # the last one holds
        (["* - -:0.9999999 0 0 0 1 0 0 0 1"], [1, 0, 0]),  # divided by their sum
        (["* * *:0", "- - -:" + "0 1 0 " * 6], [0, 1, 0]),
    ],
)
def test_tables(read, entries, row):
    pos = table("pos_1", "action pos_0", *entries)
    T, _, _ = read(following=(pos, "mode_1 mode_0 - -:identity"))
    assert T[0, 0, :, :, :].sum(axis=2)[0].tolist() == row
    other = table("pos_1", "action pos_0", *entries, kind="")  # TBL without saying so
    assert np.array_equal(read(following=(other, "mode_1 mode_0 - -:identity"))[0], T)


def test_parents_in_any_order_and_of_the_same_step(read):
    pos = table(
        "pos_1", "mode_0 pos_0 action", "good - * -:0 1 0 0 0 1 1 0 0", "bad - * -:identity"
    )
    mode = table("mode_1", "pos_1 mode_0", "* - -:identity", "s2 - -:0 1 1 0")
    T, _, _ = read(following=(pos, mode))
    assert T[0, 1, 0, 2].tolist() == [0, 1]  # good goes from s1 to s2, where the mode changes
    assert T[0, 1, 1, 1].tolist() == [0, 1]
    assert T[1, 0, 0, 1].tolist() == [1, 0]


def test_first_values_may_depend_on_each_other(read):
    first = (table("pos_0", "mode_0", "good s1:1", "bad -:0.5 0 0.5"), "mode_0 null -:0.2 0.8")
    assert read(first=first)[2].start.reshape(3, 2).tolist() == [[0, 0.4], [0.2, 0], [0, 0.4]]
    first = (table("pos_0", "null", "s2:1"), table("mode_0", "null", "good:0.5", "bad:0.5"))
    assert read(first=first)[2].start.reshape(3, 2).tolist() == [[0, 0], [0, 0], [0.5, 0.5]]


def test_blank_lines_at_the_top_and_other_words_for_true(tmp_path):
    file = tmp_path / "m.pomdpx"
    file.write_text("\n  \n" + document().replace('fullyObs="true"', 'fullyObs="1"'))
    assert lm.load(file, horizon=2).S == 7
    file.write_text("\n\n" + document().replace("<Discount>", "<Discont>"))
    with pytest.raises(lm.ModelError, match=r"line 5: <Discont> must not stand inside <pomdpx>"):
        lm.load(file, horizon=2)
    file.write_text("\n\n" + document() + "<")
    with pytest.raises(lm.ModelError, match=rf"at line {document().count(chr(10)) + 3}: "):
        lm.load(file, horizon=2)


def test_readings_that_say_nothing_are_left_out(read):
    for said in ("obs pos_1 - -:1 0 0.5 0.5 0 1", "obs mode_1 * -:0.3 0.7"):
        _, Z, p = read(seen=(said,))
        assert list(p.labels) == ["s0", "s1", "s2"]
        assert (Z.reshape(2, 3, 2, 3)[:, np.arange(3), :, np.arange(3)] == 1).all()
    _, _, p = read(seen=("obs mode_1 * -:0.3 0.7",), rewards=(reward("obs", "-:1 2"),))
    assert len(p.labels) == 6  # rewards depend on it


def test_rewards_add_up(read):
    first = reward("action pos_0", "go *:1", "stay s1:10")
    more = reward("pos_1 mode_0 obs", "s2 bad y:100", name="more")
    p = read(rewards=(first, more))[2]
    found = p.reward(*np.array([[0, 0, 5, 5], [1, 2, 4, 0], [0, 3, 5, 5], [0, 3, 5, 4]]).T)
    assert found.tolist() == [1, 10, 101, 1]


def test_decision_diagrams_say_what_tables_say(read):
    seen = """<DAG><Node var="mode_1"><Edge val="*"><Terminal>0.5</Terminal></Edge></Node></DAG>"""
    rewards = (
        """<DAG><Node var="pos_0"><Edge val="s1"><Terminal>-3</Terminal></Edge></Node></DAG>"""
    )
    dd = ' type="DD"'
    by_diagrams = read(
        following=(
            POS_DIAGRAM,
            MODE_DIAGRAM,
        ),
        seen=(table("obs", "action mode_1", seen, kind=dd),),
        rewards=(table("reward", "action pos_0", rewards, element="Func", kind=dd),),
    )
    by_tables = read(
        following=(
            table(
                "pos_1", "action pos_0", STAY, "go s0 s1:1", "go s1 -:uniform", "go s2 -:.25 0 .75"
            ),
            "mode_1 mode_0 - -:identity",
        ),
        seen=("obs mode_1 - -:0.5 0.5 0.5 0.5",),
        rewards=(reward("pos_0", "s1:-3"),),
    )
    assert np.array_equal(by_diagrams[0], by_tables[0])
    assert np.array_equal(by_diagrams[1], by_tables[1])
    every = np.indices((2, 6, 6, 3)).reshape(4, -1)
    assert np.array_equal(by_diagrams[2].reward(*every), by_tables[2].reward(*every))


def test_several_actions_are_one(tmp_path):
    text = document().replace(
        '<ObsVar', '<ActionVar vname="tool"><NumValues>3</NumValues></ActionVar><ObsVar'
    )  # fmt: skip
    text = text.replace("<Parent>action pos_0</Parent>", "<Parent>tool pos_0</Parent>")
    (tmp_path / "m.pomdpx").write_text(text)
    p = read_pomdpx(tmp_path / "m.pomdpx")
    assert list(p.actions) == [f"{a}, a{k}" for a in ("go", "stay") for k in range(3)]


entries = st.tuples(
    st.integers(-2, 1), st.integers(-2, 2), st.integers(-2, 1), st.integers(-9, 9)
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(entries, max_size=10), many=st.sampled_from([1, 3, 1 << 14]))
def test_rewards_in_any_order(read, said, many):
    """-1 is `*`, -2 is `-`; entries are made into rules one by one, or some, or all together."""
    names = (("go", "stay"), ("s0", "s1", "s2"), ("good", "bad"))
    expected = np.zeros((2, 3, 2))
    lines = ["* * *:0"]
    for *place, value in said:
        index = tuple(slice(None) if i < 0 else i for i in place)
        listed = [n for n, i in zip(expected.shape, place, strict=True) if i == -2]
        values = value + np.arange(np.prod(listed, dtype=int)).reshape(listed)
        shape = [n if i == -2 else 1 for n, i in zip(expected.shape, place, strict=True) if i < 0]
        expected[index] = values.reshape(shape)
        words = [(*n, "-", "*")[i] for n, i in zip(names, place, strict=True)]
        lines.append(f"{' '.join(words)}:{' '.join(map(str, values.reshape(-1)))}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pomdpx_entries, "MANY", many)
        p = read(rewards=(reward("action pos_0 mode_0", *lines),))[2]
    action, pos, mode = np.indices(expected.shape).reshape(3, -1)
    nothing = np.zeros_like(action)
    found = p.reward(action, pos * 2 + mode, nothing, nothing)
    assert found.tolist() == expected.reshape(-1).tolist()
