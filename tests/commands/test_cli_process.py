"""The command line as a process: pipes, terminals, Ctrl-C, completion by the shell."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest
from cli_answers import MAZE, last_json, only_line

import latentmdp as lm
from latentmdp.commands import common as _common

COMMAND = [sys.executable, "-m", "latentmdp"]


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


def assert_interrupted(code, stdout=""):
    """A process that runs this ends as Ctrl-C should end it: one line, and its exit code."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (signal.SIGINT + 128, stdout)
    assert done.stderr == "latentmdp: interrupted\n"


def test_ctrl_c_in_a_process():
    code = (
        "import os, signal, sys\n"
        "from latentmdp.commands import cli\n"
        "import latentmdp.commands.show as show\n"
        "show.read_model = lambda *a: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.argv = ['latentmdp', 'show', 'maze']\n"
        "cli.main()\n"
    )
    assert_interrupted(code)
    assert signal.SIGINT + 128 == 130


def test_ctrl_c_while_modules_are_loaded():
    code = (
        "import sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'typer':\n"
        "            raise KeyboardInterrupt\n"
        "from latentmdp.__main__ import main\n"
        "sys.meta_path.insert(0, Stop())\n"
        "main()\n"
    )
    assert_interrupted(code)


def test_ctrl_c_that_a_callback_swallows_is_sent_again():
    code = (
        "import ctypes, os, signal, sys, time\n"
        "from latentmdp.commands import cli\n"
        "import latentmdp.commands.show as show\n"
        "def interrupted(*_):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return 0\n"
        "def long_work(*_):\n"
        "    ctypes.CFUNCTYPE(ctypes.c_int)(interrupted)()\n"
        "    print('swallowed')\n"
        "    while True:\n"
        "        time.sleep(0.01)\n"
        "show.read_model = long_work\n"
        "sys.argv = ['latentmdp', 'show', 'maze']\n"
        "cli.main()\n"
    )
    assert_interrupted(code, "swallowed\n")


@pytest.mark.parametrize("command", ["demo", "plan --compare", "report --plan 60"])
def test_ctrl_c_while_planning_ends_a_command_that_would_go_on(command, tmp_path):
    """`plan` answers Ctrl-C with its bounds so far; other commands must not take them and go on."""
    model = lm.make("garnet:contexts=8,states=12,actions=4,horizon=20")
    name, *options = command.split()
    given = {"demo": ["--out", str(tmp_path / "demo")], "plan": [str(tmp_path / "model.npz")]}
    if name == "plan":
        lm.save(model, tmp_path / "model.npz")
    if name == "report":
        lm.learn(model, "random", 10, optimal=(0.0, 1.0)).save(tmp_path / "run")
        given["report"] = [str(tmp_path / "run"), "--out", str(tmp_path / "page.html")]
    code = (
        "import os, signal, sys, threading\n"
        "from latentmdp.commands import cli\n"
        "from importlib import import_module\n"
        "module = import_module('latentmdp.planning.plan')\n"
        "for name in ('plan_history', 'plan_markov'):\n"
        "    def start(*a, real=getattr(module, name), **k):\n"
        "        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "        return real(*a, **k)\n"
        "    setattr(module, name, start)\n"
        f"sys.argv = ['latentmdp', {name!r}, *{given[name] + options!r}]\n"
        "cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=100
    )
    assert done.returncode == 130
    assert done.stderr.endswith("latentmdp: interrupted\n")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "page.html").exists()


def in_terminal(*arguments, columns=100):
    """The exit code and all output of a command that runs on a terminal."""
    main, side = pty.openpty()
    env = os.environ | {"TERM": "xterm", "COLUMNS": str(columns), "LINES": "40"}
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


def test_a_rich_table_on_a_terminal_and_plain_text_in_a_pipe():
    code, output = in_terminal("show", MAZE)
    assert code == 0
    assert "─" in output
    assert "\x1b[" in output
    plain = subprocess.run([*COMMAND, "show", MAZE], capture_output=True, text=True).stdout
    assert "─" not in plain
    assert "\x1b" not in plain


def test_no_number_is_cut_on_a_narrow_terminal():
    code, output = in_terminal("show", MAZE, columns=30)
    assert code == 0
    assert "…" not in output
    assert "largest total  1" in output
    assert max(map(len, output.splitlines())) <= 30


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
    assert complete("latentmdp show m", 2, tmp_path) == [
        "maze",
        "mastermind",
        "mine.npz",
        "models/",
    ]
    assert complete("latentmdp evaluate maze m", 3, tmp_path) == ["mine.npz", "models/"]
    assert complete("latentmdp domains gar", 2, tmp_path) == ["garnet"]
    assert complete("latentmdp show --hor", 2, tmp_path) == ["--horizon"]


def test_completion_of_a_missing_folder_is_empty(tmp_path):
    assert _common.complete_policy(str(tmp_path / "none" / "x")) == []
