"""Small files of POMDPs and their policies, for the tests of those formats and for fuzzing."""

SENSOR = """discount: 0.9
states: left right
actions: listen open-left open-right
observations: hear-left hear-right
T: * identity
O: listen
0.85 0.15 0.15 0.85
O: open-left uniform
O: open-right uniform
R: listen : * : * : * -1
R: open-left : right : * : * 10
R: open-left : left : * : * -100
R: open-right : left : * : * 10
R: open-right : right : * : * -100
"""

MANY_SHORTHANDS = """# two boxes, in which something lies or does not; looking may be wrong
discount: 0.9
values: cost
states: empty-near empty-far full-near full-far
actions: look go open
observations: near-no near-yes far-no far-yes
start include: empty-near full-near
T: look identity
T: go
0 1 0 0  1 0 0 0
0 0 0 1  0 0 1 0
T: open : empty-near reset
T: * : 1 : 1 0.5
T: open : * : * 0
T: open : 0 1 0 0 0
T: open : 1 : 1 1.0
T: open : 2
0 0 1 0
T: open : full-far : full-far 1
T: go : 1 1 0 0 0
T: look : empty-far 0 1 0 0
O: * : empty-near : near-no 1.0
O: * : 1 0 0 1 0
O: * : full-near : 0 1
O: * : 3 : far-no 1
O: look : full-near 0.25 0.75 0 0
O: look : empty-near\n0.7 0.3 0 0
R: * : * : * : * 1
R: open : full-far : * : * -10.5 # found
R: go : 0 : 1 1 2 3 4
R: look : 2
0 0 0 0  0 0 0 0  1 1e0 - 1 .5  0 0 0 0
"""


def table(variable, parents, *entries, element="CondProb", numbers="ProbTable", kind=' type="TBL"'):
    """The XML of a table; entries are `instance: numbers`, or a diagram."""
    text = f"<{element}><Var>{variable}</Var><Parent>{parents}</Parent><Parameter{kind}>"
    for entry in entries:
        if entry.startswith("<"):
            text += entry
        else:
            place, _, values = entry.partition(":")
            text += f"<Entry><Instance>{place}</Instance><{numbers}>{values}</{numbers}></Entry>"
    return text + f"</Parameter></{element}>"


def reward(parents, *entries, name="reward"):
    return table(name, parents, *entries, element="Func", numbers="ValueTable")


REWARD = reward("action pos_0", "* -:1 2 3")


def document(
    first=("pos_0 null -:1 0 0", "mode_0 null -:uniform"),
    following=("pos_1 pos_0 - -:identity", "mode_1 mode_0 - -:identity"),
    seen=("obs mode_1 - -:0.8 0.2 0.2 0.8",),
    rewards=(REWARD,),
    head="",
):
    """A file with a position that is seen, a mode that is hidden, and a noisy reading of it."""

    def tables(lines):
        """XML as it is; `variable parent entry` is short for a table with one entry."""
        return "".join(x if x.startswith("<") else table(*x.split(" ", 2)) for x in lines)

    return f"""<?xml version="1.0" encoding="ISO-8859-1"?>{head}
<pomdpx version="1.0" id="test" xmlns:='x' xsi:noNamespaceSchemaLocation="pomdpx.xsd">
<Description>Rock & roll <b>bold</b> &amp; more</Description><Discount>0.5</Discount>
<Variable>
<StateVar vnamePrev="mode_0" vnameCurr="mode_1"><ValueEnum>good bad</ValueEnum></StateVar>
<StateVar vnamePrev="pos_0" vnameCurr="pos_1" fullyObs="true"><NumValues>3</NumValues></StateVar>
<ActionVar vname="action"><ValueEnum>go stay</ValueEnum></ActionVar>
<ObsVar vname="obs"><ValueEnum>x y</ValueEnum></ObsVar>
<RewardVar vname="reward"/><RewardVar vname="more"/>
</Variable>
<InitialStateBelief>{tables(first)}</InitialStateBelief>
<StateTransitionFunction>{tables(following)}</StateTransitionFunction>
<ObsFunction>{tables(seen)}</ObsFunction>
<RewardFunction>{"".join(rewards)}</RewardFunction>
</pomdpx>"""


_POS = """<DAG><Node var="action">
  <Edge val="stay"><SubDAG type="persistent" var="pos_1"/></Edge>
  <Edge val="go"><Node var="pos_0">
    <Edge val="s0"><SubDAG type="deterministic" var="pos_1" val="s1"/></Edge>
    <Edge val="s1"><SubDAG type="uniform" var="pos_1"/></Edge>
    <Edge val="s2"><SubDAG type="template" idref="jump"/></Edge>
  </Node></Edge></Node></DAG>
  <SubDAGTemplate id="jump"><Node var="pos_1">
    <Edge val="s0"><Terminal>0.25</Terminal></Edge>
    <Edge val="s2"><Terminal> .75 </Terminal></Edge>
  </Node></SubDAGTemplate>"""
_MODE = """<DAG><Node var="mode_0">
  <Edge val="bad"><SubDAG type="persistent" var="mode_1"/></Edge>
  <Edge val="good"><SubDAG type="persistent" var="mode_1"/></Edge></Node></DAG>"""
POS_DIAGRAM = table("pos_1", "action pos_0", _POS, kind=' type="DD"')
MODE_DIAGRAM = table("mode_1", "mode_0", _MODE, kind=' type="DD"')


def policyx(vectors, length):
    """The text of a file with `(action, obsValue, numbers)` or, sparse, `{place: number}`."""
    lines = []
    for action, seen, numbers in vectors:
        tag = f'action="{action}" obsValue="{seen}"'
        if isinstance(numbers, dict):
            inside = "".join(f"<Entry>{k} {x!r}</Entry>" for k, x in numbers.items())
            lines.append(f"<SparseVector {tag}>{inside}</SparseVector>")
        else:
            lines.append(f"<Vector {tag}>{' '.join(map(repr, map(float, numbers)))} </Vector>")
    return f"""<?xml version="1.0" encoding="ISO-8859-1"?>
<Policy version="0.1" type="value" model="../a & b.pomdpx">
<AlphaVector vectorLength="{length}" numObsValue="2" numVectors="{len(vectors)}">
{"".join(lines)}</AlphaVector> </Policy>"""


def diagrams():
    """A document with decision diagrams beside tables, and rewards in two parts."""
    more = reward("pos_1 obs mode_1", "s2 - *:1 -1.5", "* * good:2", name="more")
    return document(
        first=(table("pos_0", "mode_0", "good s1:1", "bad -:0.5 0 0.5"), "mode_0 null -:0.2 0.8"),
        following=(POS_DIAGRAM, MODE_DIAGRAM),
        rewards=(REWARD, more),
    )
