"""`latentmdp learn`: output, refusals, interrupts, and the same bits in parallel as in a row."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from latentmdp import cli
from latentmdp.learning.learn import learn
from latentmdp.learning.run import load_run

MAZE = "maze:size=3,goals=2,horizon=6"
NUMBERS = (
    "episodes", "updates", "regret", "optimal_lower", "optimal_upper", "final_value",
    "seconds_planning", "seconds_simulation", "seconds_optimal",
)  # fmt: skip


def last_json(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_json_and_folder(capsys, tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    command = ["learn", MAZE, "--algorithm", "random", "--episodes", "1e4", "--seed", "3"]
    assert cli.run([*command, "--out", out, "--json"]) == 0
    found = last_json(capsys)
    assert set(NUMBERS) <= set(found)
    run = load_run(out)
    assert found["episodes"] == run.episodes == 10_000
    assert found["regret"] == run.regret
    assert json.loads((tmp_path / "run" / "run.json").read_text())["seed"] == 3
    assert cli.run([*command, "--out", out]) == 2
    assert "continue it with --resume" in capsys.readouterr().err
    assert cli.run(["learn", "--resume", out, "--json"]) == 0
    again = last_json(capsys)
    assert (again["regret"], again["updates"]) == (found["regret"], found["updates"])


@pytest.mark.slow
def test_parallel_seeds_give_the_same_bits_as_one_after_the_other(capsys, tmp_path) -> None:
    command = [
        "learn",
        MAZE,
        "--algorithm",
        "random",
        "--episodes",
        "1e6",
        "--json",
        "--seeds",
        "3",
    ]
    assert cli.run([*command, "--jobs", "2", "--out", str(tmp_path / "runs")]) == 0
    parallel = last_json(capsys)
    assert cli.run([*command, "--jobs", "1"]) == 0
    serial = last_json(capsys)
    for name in ("seed", "regret", "updates", "final_value"):
        assert parallel[name] == serial[name]
        assert len(parallel[name]) == 3
    assert load_run(tmp_path / "runs" / "seed-2").regret == parallel["regret"][2]


@pytest.mark.slow
def test_interrupted_and_resumed_to_the_same_bits(tmp_path: Path, capsys) -> None:
    spec, out = "maze:size=5,goals=4,horizon=20", tmp_path / "run"
    command = [sys.executable, "-m", "latentmdp.cli", "learn", spec, "--algorithm", "random"]
    process = subprocess.Popen(
        [*command, "--episodes", "1e12", "--out", str(out)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (out / "run.npz").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "continue with: latentmdp learn --resume" in output
    before = load_run(out)
    assert not before.complete
    session = before.session()
    for _ in range(20):
        session.next_phase()
    whole = []

    class Enough(Exception):  # noqa: N818
        pass

    def watch(phase) -> None:
        whole.append((phase.episode, phase.length, phase.value))
        if len(whole) == len(session.columns["length"]):
            raise Enough

    fresh = load_run(out)
    fresh.state["done"] = fresh.state["targets"][-1]
    with pytest.raises(Enough):
        fresh.replay(watch)
    columns = (session.columns[name] for name in ("episode", "length", "value"))
    assert whole == list(zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([MAZE, "--episodes", "0"], "episodes must be a whole number from 1"),
        ([MAZE, "--episodes", "many"], "must be a whole number like 20 or 1e9"),
        ([MAZE, "--delta", "2"], "delta must lie strictly between 0 and 1"),
        ([MAZE, "--algorithm", "sarsa"], "algorithm must be one of"),
        ([MAZE, "--class", "linear"], "policy_class must be one of markov, history"),
        ([MAZE, "--simulator", "fast"], "simulator must be one of counts, episodes"),
        ([MAZE, "--seeds", "0"], "--seeds must be at least 1"),
        ([MAZE, "--resume", "x"], "give MODEL, or --resume DIR"),
        ([], "give MODEL, or --resume DIR"),
        (["--resume", "nowhere"], "must hold a run"),
    ],
)
def test_bad_values_are_one_line_and_exit_code_2(arguments, words, capsys) -> None:
    assert cli.run(["learn", *arguments]) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_models_outside_the_paper_name_the_cure(tmp_path: Path, capsys) -> None:
    path = tmp_path / "model.npz"
    np.savez(
        path, P=np.ones((1, 1, 1, 1)), R=np.full((1, 1, 1), 2.0), w=[1.0], nu=[[1.0]], H=3
    )  # fmt: skip
    command = ["learn", str(path), "--algorithm", "random", "--episodes", "10"]
    assert cli.run(command) == 2
    assert "--normalize" in capsys.readouterr().err
    assert cli.run([*command, "--normalize", "--json"]) == 0
    assert last_json(capsys)["optimal_lower"] == pytest.approx(1.0)


def test_python_and_command_line_agree(capsys) -> None:
    import latentmdp as lm

    assert cli.run(["learn", MAZE, "--algorithm", "random", "--episodes", "5000", "--json"]) == 0
    run = learn(lm.make(MAZE), "random", 5000)
    assert last_json(capsys)["regret"] == run.regret
