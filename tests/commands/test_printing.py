"""Names from files: no terminal command reaches a terminal, no formula a picture."""

import io
import json

import numpy as np
import pytest

from latentmdp import LatentMDP, LatentMDPEnv, ModelError, PolicyGraph, save
from latentmdp.commands.cli import run
from latentmdp.drawing import draw_model, draw_policy
from latentmdp.errors import printable

EVIL = "\x1b]0;owned\x07\x9b2J\u202eabc\nnext line $\\frac{$"


def named(S=3, A=2, M=2, ending=EVIL):
    rng = np.random.default_rng(0)
    P, R = rng.dirichlet(np.ones(S), (M, S, A)), rng.random((M, S, A)) / 4
    return LatentMDP.from_arrays(
        P, R, np.full(M, 1 / M), np.full((M, S), 1 / S), 4,
        state_names=[f"s{i}{ending}" for i in range(S)],
        action_names=[f"a{i}{ending}" for i in range(A)],
        context_names=[f"c{i}{ending}" for i in range(M)],
    )  # fmt: skip


def safe(text):
    return all(line.isprintable() for line in text.split("\n"))


def test_printable_escapes_what_steers_terminals_and_is_stable():
    assert safe(printable(EVIL))
    assert "\n" not in printable(EVIL)
    assert printable(printable(EVIL)) == printable(EVIL)
    assert printable("Zürich, 東京 -> $5") == "Zürich, 東京 -> $5"


def test_descriptions_errors_and_graphs_are_safe_to_print():
    model = named()
    lines = str(model.describe()).split("\n")
    assert safe("\n".join(lines))
    assert not any(line.startswith("next line") for line in lines)
    assert safe(str(ModelError(f"bad: {EVIL}")))
    assert safe(PolicyGraph.from_table(np.zeros((4, 3), dtype=int)).to_dot(model))
    assert safe(repr(model))


@pytest.mark.parametrize("command", [["show"], ["show", "--json"], ["plan", "--time-limit", "2"]])
def test_commands_print_no_terminal_commands(command, tmp_path, capsys):
    path = tmp_path / "model.json"
    save(named(), path)
    assert run([command[0], str(path), *command[1:]]) == 0
    out, err = capsys.readouterr()
    assert safe(out)
    assert safe(err)
    if "--json" in command:
        assert json.loads(out)["names"]["states"][0] == f"s0{EVIL}"  # the data stay what they are


def test_rendering_is_safe_to_print():
    env = LatentMDPEnv(named(), render_mode="ansi")
    env.reset(seed=0)
    text = env.render()
    over = False
    while not over:
        *_, over, _ = env.step(0)
        text += "\n" + env.render()
    assert safe(text)
    assert "it was" in text
    assert not any(line.startswith("next line") for line in text.split("\n"))


def test_dollars_in_names_are_no_formulas():
    """`$\\frac{$` is no formula that Matplotlib can set: it must not be taken for one."""
    model = named(ending=r"$\frac{$")
    figures = [
        draw_model(model, 0),
        draw_model(named(S=25, ending=r"$\frac{$"), None),  # a matrix
        draw_policy(model, PolicyGraph.from_table(np.zeros((4, 3), dtype=int)), 1),
    ]
    for ax in figures:
        ax.get_figure(root=True).savefig(io.BytesIO(), format="png")
        texts = [t.get_text() for t in ax.texts + ax.get_xticklabels()]
        assert any(r"\$" in text for text in texts)
    env = LatentMDPEnv(model, render_mode="rgb_array")
    env.reset(seed=0)
    for _ in range(4):
        env.step(0)
    assert env.render().dtype == np.uint8
