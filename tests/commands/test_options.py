"""Options: one declaration for all commands, old names, files that are written."""

import typer

import latentmdp as lm
from latentmdp.commands import cli

DIFFERENT = {  # the same word for another thing
    "--out": "the main product of each command",
    "--horizon": "fit: of the log",
    "--discount": "fit: of the log",
    "--hidden-rewards": "fit: of the log",
    "--delta": "fit: of a pessimistic plan",
    "--contexts": "fit: how many; lower-bound: M",
    "--policy": "fit only",
    "--method": "off-policy: an estimator",
    "--plan": "report: seconds",
}


def helps():
    """For each flag the set of its help texts in all commands."""
    found: dict[str, set[str]] = {}

    def look(command):
        for one in getattr(command, "commands", {}).values():
            look(one)
        for option in command.params:
            if option.param_type_name == "option":
                for flag in option.opts:
                    found.setdefault(flag, set()).add(str(getattr(option, "help", "")))

    look(typer.main.get_command(cli.app))
    return found


def test_an_option_means_the_same_in_every_command():
    found = helps()
    assert len(found) > 60
    several = {flag for flag, texts in found.items() if len(texts) > 1}
    assert several <= set(DIFFERENT), several


def test_show_out_is_the_old_name_of_picture(tmp_path, capsys):
    old, new = tmp_path / "old.svg", tmp_path / "new.svg"
    assert cli.run(["show", "bandit", "--out", str(old)]) == 0
    assert capsys.readouterr().err == "latentmdp: show --out is now called --picture\n"
    assert cli.run(["show", "bandit", "--picture", str(new)]) == 0
    assert capsys.readouterr().err == ""
    assert old.exists()
    assert new.exists()


def test_a_policy_as_csv_names_states_and_actions(tmp_path):
    model = lm.LatentMDP.from_arrays(
        [[[[1.0, 0.0], [0.0, 1.0]]] * 2], [[[0.0, 0.1], [0.2, 0.0]]], [1.0], [[1.0, 0.0]], 2,
        state_names=["left, far", "right"], action_names=["stay", "go"],
    )  # fmt: skip
    lm.save(model, tmp_path / "m.npz")
    out = tmp_path / "p.csv"
    assert cli.run(["plan", str(tmp_path / "m.npz"), "--class", "markov", "--out", str(out)]) == 0
    lines = out.read_text().splitlines()
    assert lines[0] == "step,state,action,state_name,action_name"
    assert [line.split(",")[:2] for line in lines[1:]] == [
        ["0", "0"],
        ["0", "1"],
        ["1", "0"],
        ["1", "1"],
    ]
    assert '"left, far"' in lines[1]
    assert lm.load_policy(out, model).table.shape == (2, 2)
