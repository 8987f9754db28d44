"""Broken and hostile `.pomdp`, `.pomdpx` and `.policyx`: one sentence with the line or element."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from pomdp_samples import REWARD, SENSOR, document, policyx, reward, table
from test_formats_hostile import refused

import latentmdp as lm
from latentmdp.formats.pomdp import xml_stream

SAID = SENSOR  # thirteen lines; the tiger that stays


def changed(*change):
    assert change[0] in SAID
    return SAID.replace(*change, 1)


# ---------------------------------------------------------------------- pomdp


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# nothing but a comment", "states must be given before start, T, O and R"),
        ("states: 2\nactions: 2\n", "the discount must be given; the file has none"),
        ("discount: 0.9\nstates: 2\n", "actions must be given before"),
        ("discount: 1\nstates: 2\nactions: 1\nT: 0 identity\nO: 0 uniform", "line 5: observations"),
        (
            "discount: 1\nstates: 2\nactions: 1\nT: 0 identity\n\nO: 0 : 1 : 1 1\n",
            "line 6: observations must be given before O",
        ),
        (changed("discount: 0.9", "discount: high"), "line 1: discount must have 1 finite numbers"),
        (changed("discount: 0.9", "discount 0.9"), "line 1: a colon must follow 'discount'"),
        (changed("discount: 0.9", "discount: 1.5"), "discount must be above 0 and at most 1"),
        (changed("discount: 0.9", "discount: nan"), "number 1 is 'nan'"),
        (changed("discount:", "factor:"), "line 1: the file must begin with discount, values"),
        (changed("states: left right", "states:"), "states must be names, or how many there are"),
        (changed("states: left right", "states: 0"), "states must be names, or how many there are"),
        (changed("left right", "left left"), "each state must have its own name; 'left' comes"),
        (changed("left right", "left right\nstates: 3"), "line 3: states must be given once"),
        (changed("states: left right", "states: 99999999999"), "99999999999 states would take"),
        (
            changed("discount", "values: money\ndiscount"),
            "values must be reward or cost; found 'mo",
        ),
        (changed("T: *", "start: middle\nT: *"), "line 5: start must have 2 finite numbers"),
        (changed("T: *", "start: 0.5 0.4\nT: *"), "line 5: start must sum to 1; it sums to 0.9"),
        (changed("T: *", "start: 2\nT: *"), "line 5: '2' must be one of the 2 names of states"),
        (changed("T: *", "start include: *\nT: *"), "line 5: start must be followed by states"),
        (changed("T: *", "start exclude: left right\nT: *"), "it excludes all of them"),
        (changed("T: * identity", "T: * : left : rihgt 1"), "line 5: 'rihgt' must be one of the 2"),
        (
            changed("T: * identity", "T: 3 identity"),
            "line 5: '3' must be one of the 3 names of act",
        ),
        (changed("T: * identity", "T: * : left : left one"), "number 1 is 'one'"),
        (changed("T: * identity", "T: * : left : left inf"), "number 1 is 'inf'"),
        (
            changed("T: * identity", "T: * : left : left -0.5"),
            "T: listen : left must have probabil",
        ),
        (changed("T: * identity", "T: * : left : left 0.5"), "T: listen : left must sum to 1; it "),
        (changed("T: * identity", "T: listen identity"), "T: open-left : left must sum to 1; it s"),
        (changed("T: * identity", "T: * : left : left : left 1"), "line 5: T must have at most 3"),
        (SAID + "T * identity", "line 15: a colon must follow 'T'; found '*'"),
        (changed("T: * identity", "T: * random"), "line 5: T must have 4 finite numbers"),
        (changed("T: * identity", "T: * 1 0 0"), "line 6: T must have 4 finite numbers; number 4"),
        (changed("T: * identity", "T: * 1 0 0 1 0"), "line 5: a statement must begin with T, O or"),
        (SAID + "X: * identity", "line 15: a statement must begin with T, O or R; found 'X'"),
        (changed("T: * identity", "X: * identity"), "line 5: a colon must follow one of the words"),
        (changed("0.85 0.15 0.15 0.85", "0.85 0.15"), "O must have 4 finite numbers; number 3 is"),
        (
            changed("0.85 0.15 0.15", "0.85 0.16 0.15"),
            "O: listen : left must sum to 1; it sums to ",
        ),
        (
            changed("hear-left hear-right", "a b c") + "O: * identity",
            "line 8: O must have 6 finite",
        ),
        (SAID + "O: * : left identity", "number 1 is 'identity'"),
        (SAID + "R: listen 3", "line 15: R must name an action and a state"),
        (
            SAID + "R: listen : left : * : silence 3",
            "line 15: 'silence' must be one of the 2 names",
        ),
        (SAID + "R: listen : left : * : * ", "line 15: R must have 1 numbers; the file ends"),
        (SAID + "R: listen : ", "line 15: the file ends in the middle of a statement"),
        (SAID + "R: listen : left : * : * 1e999", "line 15: R must have 1 finite numbers"),
        (SAID + "R: listen : left : * : * 1e308\nR: open-left : * : * : * -1e308", "total reward"),
        ("x" * 20_000, "the file must begin with discount"),
        ("states: " + "a " * 10, "actions must be given before start, T, O and R"),
    ],
)
def test_wrong_pomdp(tmp_path, text, said):
    (tmp_path / "m.pomdp").write_text(text)
    assert said in refused(tmp_path / "m.pomdp", horizon=3)


def test_lines_are_counted_in_long_files(tmp_path):
    """The wrong line stands behind many that are right, and pieces are read one by one."""
    good = "R: listen : left : * : * -1\nR: open-left : 0 : 1 : 1 2 # fine\n\n" * 20_000
    (tmp_path / "m.pomdp").write_text(SAID + good + "R: listen : left : * : * x\n" + good)
    assert "line 60015: R must have 1 finite numbers" in refused(tmp_path / "m.pomdp", horizon=3)
    (tmp_path / "m.pomdp").write_text(SAID + good + "R: listen : lift : * : * 1\n" + good)
    assert "line 60015: 'lift' must be one of" in refused(tmp_path / "m.pomdp", horizon=3)


def test_text_that_is_none(tmp_path):
    (tmp_path / "m.pomdp").write_bytes(SAID.encode().replace(b"left", b"l\xe9ft"))
    assert "must be UTF-8 text" in refused(tmp_path / "m.pomdp", horizon=3)
    (tmp_path / "m.pomdp").write_bytes(
        b"# Chad\xe8s, \x93A Tutorial\x94\n" + SAID.encode() + b"#\xff"
    )
    assert lm.load(tmp_path / "m.pomdp", horizon=3).M == 2  # comments in any encoding
    (tmp_path / "m.pomdp").write_bytes(b"\xef\xbb\xbf" + SAID.encode())
    assert lm.load(tmp_path / "m.pomdp", horizon=3).M == 2  # a byte order mark does no harm
    (tmp_path / "m.pomdp").write_bytes(SAID.replace("\n", "\r\n").encode())
    assert lm.load(tmp_path / "m.pomdp", horizon=3).M == 2
    (tmp_path / "m.pomdp").write_bytes(b"states: " + b"a" * (1 << 23))
    assert "words must be at most 10000" in refused(tmp_path / "m.pomdp", horizon=3)


# ---------------------------------------------------------------------- pomdpx

IDENTITY = "mode_1 mode_0 - -:identity"


def without(element):
    """The document without an element."""
    text = document()
    start, end = text.index(f"<{element}"), text.index(f"</{element}>") + len(element) + 3
    return text[:start] + text[end:]


def pos(*entries, parents="action pos_0", kind=' type="TBL"'):
    """The document with this table of positions."""
    return document(following=(table("pos_1", parents, *entries, kind=kind), IDENTITY))


def diagram(inside):
    return pos(f"<DAG>{inside}</DAG>", kind=' type="DD"')


NESTED = '<Node var="pos_0"><Edge val="s0">'
BOMB = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;"><!ENTITY c "&b;&b;">]>'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<pomdpx>", "must be well-formed XML; at line 1: no element found"),
        ("discount: 0.9", "must be well-formed XML; at line 1: syntax error"),
        ("<Policy></Policy>", "the first element must be <pomdpx>; it is <Policy>"),
        (document(head=BOMB), "line 1: must not have a document type"),
        (document(head='<!DOCTYPE x SYSTEM "file:///etc/passwd">'), "must not have a document ty"),
        (document().replace("ISO-8859-1", "EBCDIC"), "line 1: the encoding must be one of UTF-8"),
        (document().replace("</Discount>", "</Discont>"), "line 3: mismatched tag"),
        (document().replace("0.5</Disc", "half</Disc"), "line 3: Discount must be a finite number"),
        (document().replace("0.5</Disc", "1.5</Disc"), "discount must be above 0"),
        (without("Discount"), "the discount must be given; the file has no <Discount>"),
        (without("ActionVar"), "the parents of 'reward' must be var"),
        (without("InitialStateBelief"), "<InitialStateBelief> must have a table for 'mode_0'"),
        (without("StateTransitionFunction"), "<StateTransitionFunction> must have a table for"),
        (without("ObsFunction"), "<ObsFunction> must have a table for 'obs'; it has none"),
        (without("RewardFunction"), "the file must have a <RewardFunction>; it has none"),
        (document().replace("<Variable>", "<Variable><Oops/>"), "<Oops> must not stand inside <Va"),
        (document().replace('vname="action"', ""), "<ActionVar> must have the attribute vname"),
        (document().replace('vname="obs"', 'vname="action"'), "different names; 'action' comes tw"),
        (document().replace("go stay", "go go"), "each value must have its own name; 'go' come"),
        (document().replace("go stay", " "), "<ActionVar> must have at least one value"),
        (document().replace(">3<", ">many<"), "<NumValues> must be a whole number; it is 'many'"),
        (document().replace(">3<", ">0<"), "<StateVar> must have at least one value"),
        (document().replace(">3<", ">99999999999<"), "99999999999 values would take 99999999999"),
        (document().replace("<NumValues>3</NumValues>", ""), "must have either <ValueEnum> or <N"),
        (pos("* - -:identity", parents="action rain"), "the parents of 'pos_1' must be variables"),
        (pos("* - -:identity", parents="action obs"), "the parents of 'pos_1' must be variables"),
        (pos("- - -:identity", parents="pos_0 pos_0"), "each once; 'pos_0' is not"),
        (pos("- -:identity"), "<Instance> must have 3 values, for action, pos_0, pos_1; it has 2"),
        (pos("* - s9:1 1 1"), "'s9' must be one of the 3 names of values, 's0' to 's2'"),
        (pos("* - -:1 0 0 0 1 0 0 0"), "line 12: the entry must have 9 numbers; it has 8"),
        (pos("* s0 -:1 0 x"), "a number of the entry must be a finite number; it is 'x'"),
        (pos("* s0 s0:NaN"), "a number of the entry must be a finite number; it is 'NaN'"),
        (pos("* s0 s0:1"), "the table of 'pos_1' at go, s1 must sum to 1; it sums to 0"),
        (pos("* - -:identity", "go s0 -:2 -1 0"), "at go, s0 must have probabilities of at leas"),
        (pos("- - s0:identity"), "'identity' needs two - in <Instance>, one of them at its end"),
        (pos("- * -:identity"), "'identity' needs a parent with as many values as the variable"),
        (pos("* * s0:uniform"), "'uniform' must stand for a distribution"),
        (pos("* - -:identity").replace("TBL", "XYZ", 3), "must be TBL or DD; it is 'XYZ'"),
        (document(following=(table("pos_1", "null", "-:uniform"),) * 2), "each variable must have"),
        (document(following=(table("pos_9", "null", "-:uniform"),)), "<Var> must be a variable of"),
        (document(first=(table("pos_1", "null", "-:uniform"),)), "'pos_1' is not"),
        (document(rewards=(reward("null", "-:1"),)), "the reward 'reward' must have parents"),
        (document(rewards=(reward("pos_0", "-:1 2 1e999"),)), "it is '1e999'"),
        (document(rewards=(REWARD.replace("ValueTable", "ProbTable"),)), "must have an <ValueTab"),
        (document().replace("<Var>pos_1</Var>", ""), "<Var> must come before <Parameter>"),
        (document().replace("<Instance>", "<Instance><b/>", 1), "<b> must not stand inside <Inst"),
        (document(following=(
            table("pos_1", "mode_1", "* -:1 0 0"), table("mode_1", "pos_1", "* -:1 0"))),
         "must not depend on each other in a circle"),
        (diagram(""), "<DAG> must hold one diagram; it holds 0"),
        (diagram('<Node var="obs"><Edge val="x"><Terminal>1</Terminal></Edge></Node>'),
         "the diagram must ask for the table's parents or its variable; it asks for 'obs'"),
        (diagram('<SubDAG type="magic" var="pos_1"/>'), "must be deterministic, persistent, unif"),
        (diagram('<SubDAG type="uniform" var="pos_0"/>'), "must be about the table's own variable"),
        (diagram('<SubDAG type="template" idref="x"/>'), "there is no SubDAGTemplate 'x'"),
        (diagram("<Terminal>one</Terminal>"), "Terminal must be a finite number; it is 'one'"),
        (diagram(NESTED * 200), "must be nested at most 300 deep"),
        (pos('<DAG><SubDAG type="template" idref="a"/></DAG><SubDAGTemplate id="a">'
             '<SubDAG type="template" idref="a"/></SubDAGTemplate>', kind=' type="DD"'),
         "again and again, or in a circle"),
        (pos("* - -:identity", kind=' type="DD"'), "of type DD must not have an <Entry>"),
    ],
)  # fmt: skip
def test_wrong_pomdpx(tmp_path, text, said):
    (tmp_path / "m.pomdpx").write_text(text)
    assert said in refused(tmp_path / "m.pomdpx", horizon=3)


def test_ampersands_wherever_a_piece_ends(tmp_path, monkeypatch):
    text = document().replace("good bad", "good&lt; b&d").replace("<Instance>* -", "<Instance>* - ")
    text = text.replace("Rock & roll", "Rock & roll &nbsp; &#38; &#x26; &; &")
    (tmp_path / "m.pomdpx").write_text(text)
    for piece in (1, 2, 3, 7, 1 << 20):
        monkeypatch.setattr(xml_stream, "PIECE", piece)
        assert lm.load(tmp_path / "m.pomdpx", horizon=3).context_names == ("good<", "b&d")


def test_other_encodings(tmp_path):
    text = document().replace("good bad", "gut übel")
    (tmp_path / "m.pomdpx").write_bytes(text.encode("latin1"))
    assert lm.load(tmp_path / "m.pomdpx", horizon=3).context_names == ("gut", "übel")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("declared", ["UTF-16", "ISO-8859-1"])
def test_utf_16_with_bare_ampersands(tmp_path, monkeypatch, encoding, declared):
    text = document().replace("good bad", "gut übel&").replace("ISO-8859-1", declared)
    assert "Rock & roll" in text
    raw = text.encode(encoding)
    for piece in (1, 3, 1 << 20):
        monkeypatch.setattr(xml_stream, "PIECE", piece)
        (tmp_path / "m.pomdpx").write_bytes(raw)
        assert lm.load(tmp_path / "m.pomdpx", horizon=3).context_names == ("gut", "übel&")
    (tmp_path / "m.pomdpx").write_bytes(raw[:-1])
    with pytest.raises(lm.ModelError, match="must be UTF-16 text, as it begins; it is not"):
        lm.load(tmp_path / "m.pomdpx", horizon=3)
    (tmp_path / "m.pomdpx").write_bytes(("\n\n" + text.replace("<Disc", "<D")).encode("utf-16"))
    with pytest.raises(lm.ModelError, match="line 5: <Dount> must not stand inside <pomdpx>, whi"):
        lm.load(tmp_path / "m.pomdpx", horizon=3)


@pytest.mark.parametrize("declared", [' encoding="UTF-8"', ""])
def test_latin_1_that_calls_itself_utf_8(tmp_path, declared):
    text = document().replace(' encoding="ISO-8859-1"', declared).replace("good bad", "gut übel")
    (tmp_path / "m.pomdpx").write_bytes(text.encode())
    assert lm.load(tmp_path / "m.pomdpx", horizon=3).context_names == ("gut", "übel")
    (tmp_path / "m.pomdpx").write_bytes(text.encode("latin1"))
    line = text[: text.index("übel")].count("\n") + 1
    said = f"must be UTF-8 text; line {line} is not .a Latin-1 file must begin with <.xml version"
    with pytest.raises(lm.ModelError, match=said):
        lm.load(tmp_path / "m.pomdpx", horizon=3)


def test_variables_come_first_and_unknown_elements_are_named(tmp_path):
    text = document()
    variables = text[text.index("<Variable>") : text.index("</Variable>") + len("</Variable>")]
    late = text.replace(variables, "").replace("</pomdpx>", variables + "</pomdpx>")
    other = text.replace("</Variable>", '<TerminalStateRewardVar vname="end"/></Variable>')
    for wrong, said in (
        (late, "<InitialStateBelief> must come after <Variable>; no variable is known yet"),
        (other, "<TerminalStateRewardVar> must not stand inside <Variable>, which may have <State"),
    ):
        (tmp_path / "m.pomdpx").write_text(wrong)
        with pytest.raises(lm.ModelError, match=said):
            lm.load(tmp_path / "m.pomdpx", horizon=3)


# ---------------------------------------------------------------------- policyx

VECTORS = policyx([(0, 0, [1, 2]), (1, 0, {1: 3.0})], 2)
MODEL = lm.LatentMDP.from_arrays(
    np.ones((2, 1, 2, 1)), [[[0, 1]], [[1, 0]]], [0.5, 0.5], [[1], [1]], 1
)


def vectors(*change):
    assert change[0] in VECTORS
    return VECTORS.replace(*change, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("{}", "must be well-formed XML; at line 1"),
        (VECTORS[:-20], "must be well-formed XML; at line 4"),
        (document(), "the first element must be <Policy>; it is <pomdpx>"),
        (vectors("<Policy", BOMB + "<Policy"), "must not have a document type"),
        (vectors("ISO-8859-1", "KLINGON"), "the encoding must be one of UTF-8"),
        (vectors("<AlphaVector", "<Beta/><AlphaVector"), "<Beta> must not stand inside <Policy>"),
        ("<Policy></Policy>", "the file must have a <Vector>; it has none"),
        (policyx([], 2), "the file must have a <Vector>; it has none"),
        (vectors('vectorLength="2"', ""), "line 3: <AlphaVector> must have a whole number as v"),
        (vectors('vectorLength="2"', 'vectorLength="two"'), "as vectorLength; it is 'two'"),
        (vectors('vectorLength="2"', 'vectorLength="-2"'), "as vectorLength; it is '-2'"),
        (vectors('vectorLength="2"', 'vectorLength="3"'), "line 4: <Vector> must have vectorLengt"),
        (vectors('vectorLength="2"', 'vectorLength="0"'), "must have vectorLength=0 numbers; it h"),
        (vectors('vectorLength="2"', 'vectorLength="999999999"'), "1 vectors of 999999999 numbers"),
        (vectors('action="0"', ""), "line 4: <Vector> must have a whole number as action"),
        (vectors('action="0"', 'action="1.5"'), "as action; it is '1.5'"),
        (vectors('action="0"', 'action="7"'), "actions must be from 0 to 1, as in the model; foun"),
        (vectors('obsValue="0"', 'obsValue="x"'), "as obsValue; it is 'x'"),
        (VECTORS.replace('obsValue="0"', 'obsValue="5"'), "must have an action in state 0, which"),
        (vectors("1.0 2.0", "1.0"), "<Vector> must have vectorLength=2 numbers; it has 1"),
        (vectors("1.0 2.0", "1.0 2.0 3.0"), "<Vector> must have vectorLength=2 numbers; it has 3"),
        (vectors("1.0 2.0", "1.0 two"), "line 4: <Vector> must have finite numbers; it is '1.0 t"),
        (vectors("1.0 2.0", "1.0 nan"), "<Vector> must have finite numbers"),
        (vectors("1.0 2.0", "1.0 <b>2.0</b>"), "<b> must not stand inside <Vector>"),
        (vectors("1 3.0", "2 3.0"), "<Entry> must be a place from 0 to 1 and a number; it is '2 3"),
        (vectors("1 3.0", "-1 3.0"), "<Entry> must be a place from 0 to 1 and a number"),
        (vectors("1 3.0", "1"), "<Entry> must be a place from 0 to 1 and a number; it is '1'"),
        (vectors("1 3.0", "1 inf"), "<Entry> must have finite numbers"),
        (policyx([(0, 0, [1, 2, 3])], 3), "the vectors must have 2 numbers, one for each value of"),
    ],
)  # fmt: skip
def test_wrong_policyx(tmp_path, text, said):
    (tmp_path / "p.policyx").write_text(text)
    assert said in refused(tmp_path / "p.policyx", lm.load_policy, model=MODEL)


# ---------------------------------------------------------------------- small files, large costs

HUGE = "discount: 0.9\nstates: 1000\nactions: 1000\nobservations: 1000\n"


@pytest.mark.parametrize(
    "text",
    [
        HUGE + "T: * uniform\nO: * uniform\n",
        HUGE + "T: * identity\nO: * uniform\n",
        HUGE + "T: * identity\nO: * : * : 0 1\n",
        HUGE + "T: * : * : 5 1\n" * 1000 + "O: * : * : 0 1\n",
        HUGE + "T: 0 identity\n" * 5000,
        HUGE + "T: 0 : * reset\n" * 5000,
        HUGE.replace("actions: 1000", "actions: 10") + "T: * : * : 1 1\nO: *\nuniform",
        "discount: 0.9\nstates: 300\nactions: 9\nobservations: 99\nT: * identity\nO: * uniform",
    ],
)
def test_a_small_pomdp_that_unfolds_is_refused_before(tmp_path, text):
    (tmp_path / "m.pomdp").write_text(text)
    tracemalloc.start()
    try:
        said = refused(tmp_path / "m.pomdp", horizon=3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "must not be far larger than the file" in said
    assert peak < 300_000_000


def test_a_small_pomdpx_that_unfolds_is_refused_before(tmp_path):
    parents = " ".join(f"v{i}_0" for i in range(8))
    states = "".join(
        f'<StateVar vnamePrev="v{i}_0" vnameCurr="v{i}_1"><NumValues>{9}</NumValues></StateVar>'
        for i in range(8)
    )
    text = document().replace("<Variable>", f"<Variable>{states}")
    text = text.replace("<Parent>pos_0</Parent>", f"<Parent>pos_0 {parents}</Parent>", 1)
    (tmp_path / "m.pomdpx").write_text(text)
    said = refused(tmp_path / "m.pomdpx", horizon=3)
    assert "<Instance> must have 10 values" in said
    text = text.replace("<Instance>- -</Instance>", f"<Instance>- {'* ' * 8} -</Instance>", 1)
    tables = "".join(table(f"v{i}_0", "null", "-:uniform") for i in range(8))
    text = text.replace("<InitialStateBelief>", f"<InitialStateBelief>{tables}")
    tables = "".join(table(f"v{i}_1", f"v{i}_0", "- -:identity") for i in range(8))
    text = text.replace("<StateTransitionFunction>", f"<StateTransitionFunction>{tables}")
    (tmp_path / "m.pomdpx").write_text(text)
    assert "258280326 joint states x 2 actions would take" in refused(
        tmp_path / "m.pomdpx", horizon=3
    )


@pytest.mark.parametrize("kind", ["TBL", "DD"])
def test_many_identities_in_a_small_pomdpx_are_refused_before(tmp_path, kind):
    states = tables = ""
    for i in range(300):
        states += f'<StateVar vnamePrev="v{i}_0" vnameCurr="v{i}_1">'
        states += "<NumValues>100000</NumValues></StateVar>"
        same = f'<DAG><SubDAG type="persistent" var="v{i}_1"/></DAG>'
        entry = "- -:identity" if kind == "TBL" else same
        tables += table(f"v{i}_1", f"v{i}_0", entry, kind=f' type="{kind}"')
    text = document(following=(tables,)).replace("<Variable>", f"<Variable>{states}")
    (tmp_path / "m.pomdpx").write_text(text)
    assert "its tables would take" in refused(tmp_path / "m.pomdpx", horizon=3)


def test_templates_in_templates_do_not_multiply_for_ever(tmp_path):
    names = [chr(97 + i) for i in range(12)]
    templates = ""
    for name, below in pairwise(names):
        edges = "".join(
            f'<Edge val="*"><SubDAG type="template" idref="{below}"/></Edge>' for _ in range(9)
        )
        templates += (
            f'<SubDAGTemplate id="{name}"><Node var="pos_0">{edges}</Node></SubDAGTemplate>'
        )
    text = pos('<DAG><SubDAG type="template" idref="a"/></DAG>' + templates, kind=' type="DD"')
    (tmp_path / "m.pomdpx").write_text(text)
    said = refused(tmp_path / "m.pomdpx", horizon=3)
    assert "again and again" in said or "far larger than the file" in said
