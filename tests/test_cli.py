"""The command line: what it prints where, exit codes, one line per error."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import latentmdp as lm
from latentmdp import cli
from latentmdp.commands import _common

COMMAND = [sys.executable, "-m", "latentmdp"]


@pytest.fixture
def run(capsys):
    """Run a command in this process: `run("show", "maze") -> (code, output, errors)`."""

    def call(*arguments):
        code = cli.run([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def policy(tmp_path):
    """A file with a Markov policy for `maze:size=3,goals=2,horizon=4`."""
    model = lm.make("maze:size=3,goals=2,horizon=4")
    graph = lm.PolicyGraph.from_table(np.ones((model.H, model.S), dtype=int))
    lm.save_policy(graph, tmp_path / "policy.json")
    return tmp_path / "policy.json"


MAZE = "maze:size=3,goals=2,horizon=4"


def last_json(output):
    return json.loads(output.strip().split("\n")[-1])


# ---------------------------------------------------------------------- what goes well


def test_show_prints_sizes_and_differences(run):
    code, output, errors = run("show", MAZE)
    assert (code, errors) == (0, "")
    assert "2 contexts, 10 states, 4 actions, horizon 4" in output
    assert "transitions differ at" in output
    assert "goal " in output  # the contexts' names


def test_show_json_is_one_line(run):
    code, output, _ = run("show", MAZE, "--json")
    assert code == 0
    assert output.count("\n") == 1
    facts = last_json(output)
    assert (facts["M"], facts["S"], facts["A"], facts["H"]) == (2, 10, 4, 4)


def test_options_change_the_model(run):
    _, output, _ = run(
        "show", MAZE, "--json", "--hidden-rewards", "--horizon", "1e1", "--discount", "0.5"
    )
    facts = last_json(output)
    assert (facts["H"], facts["discount"], facts["observe_rewards"]) == (10, 0.5, False)


def test_a_longer_horizon_drops_the_limit_on_totals(run):
    code, output, _ = run("show", "garnet", "--horizon", "1000", "--json")
    assert code == 0
    assert max(last_json(output)["largest_totals"]) > 1


def test_show_draws_a_picture(run, tmp_path):
    code, output, _ = run("show", MAZE, "--out", tmp_path / "maze.png")
    assert code == 0
    assert "maze.png" in output
    assert (tmp_path / "maze.png").read_bytes().startswith(b"\x89PNG")
    assert os.listdir(tmp_path) == ["maze.png"]


def test_show_with_many_contexts_is_short(run):
    code, output, _ = run("show", "bandit:contexts=50")
    assert code == 0
    assert "... 30 more contexts" in output


def test_domains_lists_keys_defaults_ranges(run):
    from latentmdp.domains import DOMAINS

    code, output, _ = run("domains")
    assert code == 0
    for name, domain in DOMAINS.items():
        assert re.search(rf"^{name}: ", output, re.M)
        for key in domain.keys:
            assert key.meaning in output
    code, output, _ = run("domains", "maze")
    assert code == 0
    assert "2 to 1000" in output
    assert "Good for" in output


def test_domains_json(run):
    code, output, _ = run("domains", "--json")
    assert code == 0
    assert "maze" in [domain["name"] for domain in last_json(output)["domains"]]
    _, output, _ = run("domains", "hard", "--json")
    (hard,) = last_json(output)["domains"]
    assert {"key", "default", "allowed", "meaning"} == set(hard["keys"][0])


@pytest.mark.parametrize("ending", ["npz", "json"])
def test_convert_and_back(run, tmp_path, ending):
    first, second = tmp_path / f"m.{ending}", tmp_path / "n.npz"
    assert run("convert", "garnet:states=5", first)[0] == 0
    assert run("convert", first, second, "--json")[0] == 0
    assert lm.load(second) == lm.make("garnet:states=5")


def test_convert_to_csv_says_what_is_lost(run, tmp_path):
    code, output, _ = run("convert", MAZE, tmp_path / "m.csv", "--json")
    assert code == 0
    assert set(last_json(output)["lost"]) >= {"layout", "state_names"}
    code, output, _ = run("show", tmp_path / "m.csv", "--json")
    assert last_json(output)["H"] == 4


def test_convert_published_csv(run, tmp_path, data):
    csv = data / "riverswim" / "training.csv"
    code, _, errors = run("convert", csv, tmp_path / "m.npz")
    assert code == 2
    assert "horizon must be given" in errors
    code, _, _ = run("convert", csv, tmp_path / "m.npz", "--horizon", "50", "--hidden-rewards")
    assert code == 0
    model = lm.load(tmp_path / "m.npz")
    assert (model.M, model.S, model.H, model.discount) == (100, 20, 50, 0.9)
    assert not model.observe_rewards


def test_evaluate(run, policy):
    expected = lm.evaluate(lm.make(MAZE), lm.load_policy(policy))
    code, output, _ = run("evaluate", MAZE, policy, "--json")
    assert code == 0
    facts = last_json(output)
    assert set(facts) == {"value", "variance", "contexts"}
    assert facts["value"] == expected.value
    assert facts["variance"] == expected.variance
    assert facts["contexts"] == expected.contexts.tolist()
    code, output, _ = run("evaluate", MAZE, policy)
    assert code == 0
    assert f"{expected.value:.10g}" in output


def test_evaluate_distribution(run, policy):
    code, output, _ = run("evaluate", MAZE, policy, "--distribution", "--json")
    assert code == 0
    facts = last_json(output)
    totals, probabilities = (np.array(x) for x in facts["distribution"].values())
    assert probabilities.sum() == pytest.approx(1)
    assert totals @ probabilities == pytest.approx(facts["value"])
    code, output, _ = run("evaluate", MAZE, policy, "--distribution")
    assert "total reward" in output


def test_a_folder_named_like_a_domain_does_not_hide_it(run, tmp_path, monkeypatch):
    (tmp_path / "maze").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run("show", "maze")[0] == 0


def test_version_and_help(run):
    assert run("--version")[:2] == (0, f"latentmdp {lm.__version__}\n")
    code, output, _ = run("--help")
    assert code == 0
    assert run()[:2] == (0, output)
    for command in ("show", "domains", "convert", "evaluate"):
        assert command in output
        code, text, _ = run(command, "--help")
        assert code == 0
        assert "--json" in text


# ---------------------------------------------------------------------- what goes wrong


def only_line(code, output, errors):
    """The one line on standard error of a refused command."""
    assert code == 2
    assert output == ""
    assert errors.startswith("latentmdp: ")
    assert errors.endswith("\n")
    assert errors.count("\n") == 1
    assert "Traceback" not in errors
    assert "─" not in errors
    return errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["--bogus"], "No such option"),
        (["show"], "Missing argument 'MODEL'"),
        (["show", "maze", "more"], "unexpected extra argument"),
        (["show", "maze", "--bogus"], "No such option"),
        (["show", "maze", "--horizon"], "requires an argument"),
        (["show", "maze", "--horizon", "abc"], "must be a whole number like 20 or 1e9"),
        (["show", "maze", "--horizon", "2.5"], "must be a whole number like 20 or 1e9"),
        (["show", "maze", "--horizon", "1e99999999"], "must be a whole number like 20 or 1e9"),
        (["show", "maze", "--horizon", "nan"], "must be a whole number like 20 or 1e9"),
        (["show", "maze", "--horizon", "0"], "horizon must be a whole number of at least 1"),
        (["show", "maze", "--horizon", "1e12"], "horizon must be at most"),
        (["show", "maze", "--discount", "x"], "--discount"),
        (["show", "maze", "--discount", "2"], "discount must be above 0"),
        (["show", "maze", "--discount", "nan"], "discount must be above 0"),
        (["show", "mazze"], "did you mean 'maze'?"),
        (["show", "maze:size=x"], "size must be a number"),
        (["show", "maze:sizes=3"], "known keys: size"),
        (["show", "maze:size"], "expected key=value"),
        (["show", ""], "is no file and no spec string"),
        (["show", "no/such/file"], "must end in one of"),
        (["show", "none.npz"], "none.npz: there is no such file"),
        (["show", "."], "must end in one of"),
        (["show", "maze", "--out", "picture.xyz"], "must end in .png"),
        (["show", "maze", "--out", "no/such/folder/p.png"], "folder"),
        (["domains", "mazze"], "known domains: maze"),
        (["convert", "maze"], "Missing argument 'OUT'"),
        (["convert", "maze", "m.txt"], "must end in one of .npz, .json, .csv"),
        (["convert", "maze", "no/such/folder/m.npz"], "its folder does not exist"),
        (["convert", "garnet", "m.csv"], "uniform weights only"),
        (["evaluate", "maze"], "Missing argument 'POLICY'"),
        (["evaluate", "maze", "none.json"], "none.json: there is no such file"),
        (["evaluate", "maze", "maze"], "a policy must end in one of"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert said in only_line(*run(*arguments))
    assert os.listdir(tmp_path) == []


def test_a_policy_that_does_not_fit(run, policy):
    line = only_line(*run("evaluate", "maze:size=4", policy))
    assert "the policy must be for" in line
    assert "a policy was asked for" in only_line(*run("evaluate", MAZE, _model_file(policy)))
    assert "a model was asked for" in only_line(*run("evaluate", policy, policy))


def _model_file(policy):
    file = policy.with_name("model.json")
    lm.save(lm.make(MAZE), file)
    return file


def test_names_in_files_cannot_steer_the_terminal(run, tmp_path):
    model = lm.make("bandit:contexts=1").replace(context_names=("\x1b[31mred\x07",))
    lm.save(model, tmp_path / "m.json")
    code, output, _ = run("show", tmp_path / "m.json")
    assert code == 0
    assert "\x1b" not in output
    assert "\\x1b[31mred\\x07" in output
    assert "\\x1b" in only_line(*run("show", "\x1b[31m.npz"))


def test_other_errors_of_the_system_are_one_line(run, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr(_common, "print_json", full)
    monkeypatch.setattr("latentmdp.commands.show.print_json", full)
    assert "somewhere: No space left" in only_line(*run("show", MAZE, "--json"))

    def exhausted(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr("latentmdp.commands.show.print_json", exhausted)
    assert "not enough memory" in only_line(*run("show", MAZE, "--json"))


def test_an_interrupt_is_one_line(run, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("latentmdp.commands.show.read_model", interrupted)
    code, output, errors = run("show", MAZE)
    assert (code, output, errors) == (130, "", "latentmdp: interrupted\n")


# ---------------------------------------------------------------------- as a process


def test_process_success_and_failure():
    done = subprocess.run([*COMMAND, "show", MAZE, "--json"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert last_json(done.stdout)["S"] == 10
    done = subprocess.run([*COMMAND, "show", "none.npz"], capture_output=True, text=True)
    only_line(done.returncode, done.stdout, done.stderr)


def test_output_that_nobody_reads_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "domains"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_ascii_output_survives_foreign_names(tmp_path):
    model = lm.make("bandit:contexts=1").replace(context_names=("größer 語",))
    lm.save(model, tmp_path / "m.npz")
    done = subprocess.run(
        [*COMMAND, "show", tmp_path / "m.npz"],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"gr\\xf6\\xdfer" in done.stdout


def test_ctrl_c_in_a_process():
    code = (
        "import os, signal, sys\n"
        "from latentmdp import cli\n"
        "import latentmdp.commands.show as show\n"
        "show.read_model = lambda *a: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.argv = ['latentmdp', 'show', 'maze']\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "latentmdp: interrupted\n"
    assert signal.SIGINT + 128 == 130


def in_terminal(*arguments):
    """The exit code and all output of a command that runs on a terminal."""
    main, side = pty.openpty()
    env = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen([*COMMAND, *arguments], stdout=side, stderr=side, env=env)
    os.close(side)
    chunks, stop = [], time.monotonic() + 60
    while time.monotonic() < stop:
        if select.select([main], [], [], 0.1)[0]:
            try:
                chunks.append(os.read(main, 65536))
            except OSError:  # the other side is closed
                break
            if not chunks[-1]:
                break
        elif process.poll() is not None:
            break
    os.close(main)
    return process.wait(), b"".join(chunks).decode()


def test_a_rich_table_on_a_terminal_and_plain_text_in_a_pipe(run):
    code, output = in_terminal("show", MAZE)
    assert code == 0
    assert "─" in output
    assert "\x1b[" in output
    plain = run("show", MAZE)[1]
    assert "─" not in plain
    assert "\x1b" not in plain


def test_errors_on_a_terminal_have_no_panel():
    code, output = in_terminal("show", "mazze")
    assert code == 2
    assert output.count("\n") == 1
    assert "\x1b" not in output
    code, output = in_terminal("show", "--bogus")
    assert code == 2
    assert output.count("\n") == 1


def test_help_on_a_terminal():
    code, output = in_terminal("--help")
    assert code == 0
    assert "Commands" in output


def test_lines_break_between_words_below_their_column():
    line = "bound   12.5   every learner loses at least this much on average over the secrets"
    broken = _common._wrapped(line, 50).split("\n")
    assert broken[0] == "bound   12.5   every learner loses at least this"
    assert broken[1] == " " * 15 + "much on average over the secrets"
    assert _common._wrapped(line, 100) == line
    assert _common._wrapped("a " * 40, 50).split("\n")[1].startswith("  a")


def test_columns_of_numbers_have_their_points_aligned():
    assert _common.column_texts([1.0, 0.0615937, 12]) == ["1.0000", "0.0616", "12.0000"]
    assert _common.column_texts([67436.5, 282767.25]) == ["67,436", "282,767"]
    assert _common.column_texts([2.0, 1e7]) == ["2", "1e+07"]  # none loses its digits
    assert _common.column_texts([0.5, float("inf")]) == ["0.5", "inf"]
    assert _common.column_texts(["a", 0.25, 3]) == ["a", "0.25", "3"]
    assert _common.column_texts([0.0, 0]) == ["0", "0"]
    assert _common.column_texts([]) == []


# ---------------------------------------------------------------------- completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_show_completion(shell):
    env = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(
        [*COMMAND, "--show-completion", shell], capture_output=True, text=True, env=env
    )
    assert done.returncode == 0
    assert "_LATENTMDP_COMPLETE" in done.stdout


def complete(words, position, folder):
    env = os.environ | {
        "_LATENTMDP_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(position),
    }
    done = subprocess.run(COMMAND, capture_output=True, text=True, env=env, cwd=folder)
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_of_commands_models_and_policies(tmp_path):
    (tmp_path / "mine.npz").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "models").mkdir()
    assert complete("latentmdp con", 1, tmp_path) == ["convert"]
    assert complete("latentmdp show m", 2, tmp_path) == ["maze", "mine.npz", "models/"]
    assert complete("latentmdp evaluate maze m", 3, tmp_path) == ["mine.npz", "models/"]
    assert complete("latentmdp domains gar", 2, tmp_path) == ["garnet"]
    assert complete("latentmdp show --hor", 2, tmp_path) == ["--horizon"]


def test_completion_of_a_missing_folder_is_empty(tmp_path):
    assert _common.complete_policy(str(tmp_path / "none" / "x")) == []


# ---------------------------------------------------------------------- pieces


@pytest.mark.parametrize(
    ("text", "number"),
    [("20", 20), ("1e9", 10**9), ("1E+3", 1000), ("2.5e1", 25), ("1_000", 1000), (" 7 ", 7),
     ("-3", -3), ("123456789012345678901", 123456789012345678901)],
)  # fmt: skip
def test_whole_numbers_are_exact(text, number):
    assert _common.whole_number(text) == number


def test_json_output_has_no_nan(capsys):
    _common.print_json({"a": float("nan"), "b": np.array([1.0, np.inf]), 3: (np.int64(2), None)})
    assert capsys.readouterr().out == '{"a": null, "b": [1.0, null], "3": [2, null]}\n'


def test_plain_table_aligns(capsys):
    _common.print_table(("name", "value"), [("a", 1.5), ("long name", 20.25)], title="Title")
    assert capsys.readouterr().out == (
        "Title\nname       value\na           1.50\nlong name  20.25\n"
    )


def test_empty_table(capsys):
    _common.print_table(("name", "value"), [])
    assert capsys.readouterr().out == "name  value\n"
