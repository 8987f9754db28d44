"""The command line where streams are closed or full, with JSON on errors, and for spreadsheets."""

import io
import json
import subprocess
import sys

import pandas as pd
import pytest

import latentmdp as lm
from latentmdp.commands import cli
from latentmdp.commands.study import _without_formulas
from latentmdp.errors import ModelError

COMMANDS = (
    "domains", "--help", "plan bandit:arms=2,contexts=2,horizon=2", "show bandit --json",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_closed_streams_are_no_error(command):
    """As after `>&-` in a shell: what nobody reads goes nowhere."""
    for closed in ("", "import os; os.close(0); os.close(1); os.close(2); "):
        program = (
            "import os, sys; os.close(1); "
            f"os.execv(sys.executable, [sys.executable, '-m', 'latentmdp', *{command.split()}])"
        )
        done = subprocess.run(
            [sys.executable, "-c", closed.replace("os.close(1); ", "") + program],
            stderr=subprocess.PIPE,
        )
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "nofile.npz"], "nofile.npz: there is no such file"),
        (["plan", "bandit", "--gap", "x"], "--gap must be"),
        (["learn", "bandit", "--episodes", "0"], "episodes"),
        (["study", "status", "no.toml"], "there is no such file"),
        (["nonsense"], "nonsense"),
    ],
)
def test_errors_are_json_too_where_it_was_asked_for(arguments, words, capsys):
    assert cli.run([*arguments, "--json"]) == 2
    said = capsys.readouterr()
    error = json.loads(said.out.splitlines()[-1])["error"]
    assert words in error
    assert said.err == f"latentmdp: {error}\n"
    assert cli.run(arguments) == 2
    assert capsys.readouterr().out == ""


def test_spreadsheets_do_not_compute_what_is_text():
    table = pd.DataFrame(
        {"=1+1": ["=HYPERLINK(1)", "+a", "-b", "@c", "d"], "x": [-1.5, 2, 3, 4, 5]}
    )
    read = pd.read_csv(io.StringIO(_without_formulas(table).to_csv(index=False)))
    assert read.columns.tolist() == ["'=1+1", "x"]
    assert read.iloc[:, 0].tolist() == ["'=HYPERLINK(1)", "'+a", "'-b", "'@c", "d"]
    assert read["x"].tolist() == [-1.5, 2, 3, 4, 5]


def test_the_command_guards_on_request_and_only_csv(tmp_path, capsys):
    (tmp_path / "f.py").write_text("def go(seed, stream):\n    return {'word': '=1+1'}\n")
    path = tmp_path / "s.toml"
    path.write_text('[[tasks]]\nname = "t"\nfunction = "f.py:go"\n')
    lm.Study.load(path).run(jobs=1)
    assert cli.run(["study", "table", str(path), "--csv"]) == 0
    assert ",=1+1," in capsys.readouterr().out
    assert cli.run(["study", "table", str(path), "--csv", "--spreadsheet-safe"]) == 0
    assert ",'=1+1," in capsys.readouterr().out
    assert cli.run(["study", "table", str(path), "--spreadsheet-safe"]) == 2
    assert "needs --csv" in capsys.readouterr().err


@pytest.mark.parametrize("depth", [33, 64, 65, 200])
def test_json_that_is_nested_deeper_than_arrays_can_be(tmp_path, depth):
    document = {"P": 0.0, "R": 1, "w": [1], "nu": [[1]], "H": 2}
    for _ in range(depth):
        document["P"] = [document["P"]]
    path = tmp_path / "deep.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ModelError, match=r"P must be .*nested more than 32 deep"):
        lm.load(path)


def many_variables(n):
    """A .pomdpx with two variables of two values, and n - 2 that have one."""

    def each(text):
        return "".join(text.format(i=i, k=2 if i < 2 else 1, p="0.5" if i < 2 else "1")
                       for i in range(n))  # fmt: skip

    return (
        '<?xml version="1.0"?><pomdpx version="1.0"><Discount>0.9</Discount><Variable>'
        + each('<StateVar vnamePrev="a{i}_0" vnameCurr="a{i}_1" fullyObs="true">'
               "<NumValues>{k}</NumValues></StateVar>")
        + '<ActionVar vname="act"><NumValues>2</NumValues></ActionVar><RewardVar vname="r"/>'
        "</Variable><InitialStateBelief>"
        + each('<CondProb><Var>a{i}_0</Var><Parent>null</Parent><Parameter type="TBL"><Entry>'
               "<Instance>-</Instance><ProbTable>uniform</ProbTable></Entry></Parameter>"
               "</CondProb>")
        + "</InitialStateBelief><StateTransitionFunction>"
        + each("<CondProb><Var>a{i}_1</Var><Parent>act a{i}_0</Parent><Parameter type=\"TBL\">"
               "<Entry><Instance>* * *</Instance><ProbTable>{p}</ProbTable></Entry></Parameter>"
               "</CondProb>")
        + "</StateTransitionFunction><RewardFunction><Func><Var>r</Var><Parent>act a0_0</Parent>"
        '<Parameter type="TBL"><Entry><Instance>* *</Instance><ValueTable>1</ValueTable></Entry>'
        "</Parameter></Func></RewardFunction></pomdpx>"
    )  # fmt: skip


@pytest.mark.parametrize("n", [2, 63, 64, 65, 200])
def test_pomdpx_with_more_variables_than_arrays_have_axes(tmp_path, n):
    path = tmp_path / "many.pomdpx"
    path.write_text(many_variables(n))
    model = lm.load(path, horizon=3)
    assert (model.S, model.A) == (4, 2)
    assert lm.evaluate(model, [[0] * 4] * 3).value == pytest.approx(1 + 0.9 + 0.81)
