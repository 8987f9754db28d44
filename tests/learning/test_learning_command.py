"""`latentmdp learn`: output, refusals, interrupts, and the same bits in parallel as in a row."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.commands import cli
from latentmdp.commands import runs as _runs
from latentmdp.experiments.live import Counts
from latentmdp.learning.learn import learn
from latentmdp.learning.playing import begin
from latentmdp.learning.run import load_run
from latentmdp.learning.saved.folder import locked
from latentmdp.learning.saved.state import state_writer
from latentmdp.learning.session import Session
from latentmdp.learning.spec import RunSpec

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
    command = [
        sys.executable,
        "-m",
        "latentmdp.commands.cli",
        "learn",
        spec,
        "--algorithm",
        "random",
    ]
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
    whole = Session(before.model, before.spec)
    while len(whole.rows) < len(session.rows):
        whole.next_phase()
    assert whole.rows == session.rows


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([MAZE, "--episodes", "0"], "episodes must be a whole number from 1"),
        ([MAZE, "--episodes", "many"], "must be a whole number like 20 or 1e9"),
        ([MAZE, "--delta", "2"], "delta must lie strictly between 0 and 1"),
        ([MAZE, "--algorithm", "sarsa"], "algorithm must be one of"),
        ([MAZE, "--class", "linear"], "policy_class must be history or markov; it is 'linear'"),
        ([MAZE, "--simulator", "fast"], "simulator must be one of counts, episodes"),
        ([MAZE, "--seeds", "0"], "--seeds must be from 1 to 100000; it is 0"),
        ([MAZE, "--seeds", "1e9"], "--seeds must be from 1"),
        ([MAZE, "--seed", "x"], "whole number"),
        ([MAZE, "--out", ""], "must be a path; it is empty"),
        ([MAZE, "--jobs", "0"], "--jobs must be from 1 to 100000; it is 0"),
        ([MAZE, "--episodes", "1.5"], "must be a whole number like 20 or 1e9"),
        ([MAZE, "--episodes", "1e30"], "episodes must be a whole number from 1 to 2^53"),
        ([MAZE, "--episodes", "-5"], "episodes must be a whole number from 1"),
        ([MAZE, "--delta", "nan"], "delta must lie strictly between 0 and 1"),
        ([MAZE, "--delta", "small"], "valid number"),
        ([MAZE, "--bonus-scale", "-1"], "bonus_scale must be finite and at least 0"),
        ([MAZE, "--bonus-scale", "inf"], "bonus_scale must be finite"),
        ([MAZE, "--ties", "coin"], "ties must be one of"),
        ([MAZE, "--seed", "-1"], "seed must be a whole number of at least 0"),
        ([MAZE, "--horizon", "0"], "horizon"),
        (["maze:size=0"], "size"),
        (["nothing.npz"], "nothing.npz"),
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
    found = last_json(capsys)
    assert (found["optimal_lower"], found["units"]) == (pytest.approx(6.0), "user units")
    assert cli.run([*command, "--normalize", "--model-units", "--json"]) == 0
    found = last_json(capsys)
    assert (found["optimal_lower"], found["units"]) == (pytest.approx(1.0), "normalised units")


def test_a_longer_horizon_may_be_normalised(capsys) -> None:
    command = ["learn", "riverswim", "--horizon", "40", "-a", "random", "-k", "10"]
    assert cli.run(command) == 2
    assert "total rewards of at most 1; one is 1.75" in capsys.readouterr().err
    assert cli.run([*command, "--normalize", "--json"]) == 0
    assert last_json(capsys)["optimal_upper"] > 1.0


def test_python_and_command_line_agree(capsys) -> None:
    import latentmdp as lm

    assert cli.run(["learn", MAZE, "--algorithm", "random", "--episodes", "5000", "--json"]) == 0
    run = learn(lm.make(MAZE), "random", 5000)
    assert last_json(capsys)["regret"] == run.regret


SEEDS = ["learn", MAZE, "--algorithm", "random", "--episodes", "1e5", "--seeds", "2", "--jobs", "1"]


def test_settings_do_not_go_with_resume(capsys, tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    assert cli.run(["learn", MAZE, "-a", "random", "-k", "100", "--out", out]) == 0
    for option in (["--episodes", "200"], ["--delta", "0.5"], ["--seeds", "2"], ["--normalize"]):
        capsys.readouterr()
        assert cli.run(["learn", "--resume", out, *option]) == 2
        assert f"leave out {option[0]}" in capsys.readouterr().err
    assert cli.run(["learn", "--resume", out, "--jobs", "1", "--json"]) == 0


def test_one_process_at_a_time_in_a_folder(capsys, tmp_path: Path) -> None:
    assert cli.run([*SEEDS, "--out", str(tmp_path / "runs")]) == 0
    for busy in (tmp_path / "runs", tmp_path / "runs" / "seed-1"):
        with locked(busy):
            capsys.readouterr()
            assert cli.run(["learn", "--resume", str(tmp_path / "runs"), "--jobs", "1"]) == 2
            assert f"{busy} must not be in use" in capsys.readouterr().err
    with locked(tmp_path / "new"):
        assert cli.run(["learn", MAZE, "--out", str(tmp_path / "new")]) == 2
    assert cli.run(["learn", "--resume", str(tmp_path / "runs"), "--jobs", "1"]) == 0


def test_a_folder_that_was_never_set_up_is_set_up_again(capsys, tmp_path: Path) -> None:
    """Killed between the first seed's checkpoint and the last one's: no episode was played."""
    out = tmp_path / "runs"
    assert cli.run([*SEEDS, "--out", str(out), "--json"]) == 0
    whole = last_json(capsys)
    (out / "seeds.json").unlink()
    shutil.rmtree(out / "seed-1")
    assert cli.run(["learn", "--resume", str(out)]) == 2
    assert "start it again" in capsys.readouterr().err
    assert cli.run([*SEEDS, "--out", str(out), "--json"]) == 0
    assert last_json(capsys)["regret"] == whole["regret"]
    (out / "seed-1" / "run.npz").unlink()
    assert cli.run(["learn", "--resume", str(out)]) == 2
    assert "seed-1 has no run.npz" in capsys.readouterr().err
    (out / "seeds.json").write_text('{"seeds": "all"}')
    assert cli.run(["learn", "--resume", str(out)]) == 2
    assert "must list the seeds" in capsys.readouterr().err


def test_a_full_disk_in_the_middle_loses_nothing(capsys, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "run"
    command = ["learn", MAZE, "-a", "random", "-k", "1e6", "--json"]
    assert cli.run(command) == 0
    whole = last_json(capsys)
    calls = []

    def full(state):
        calls.append(state)
        if len(calls) > 20:
            return lambda file: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        return state_writer(state)

    monkeypatch.setattr("latentmdp.learning.saved.folder.state_writer", full)
    monkeypatch.setattr("latentmdp.learning.playing.CHECKPOINT_SECONDS", 0.0)
    assert cli.run([*command, "--out", str(out)]) == 2
    assert "run.npz: cannot be written: no space left" in capsys.readouterr().err
    monkeypatch.undo()
    assert not load_run(out).complete
    assert len(load_run(out).table) > 10
    assert cli.run(["learn", "--resume", str(out), "--json"]) == 0
    again = last_json(capsys)
    for name in ("regret", "updates", "kept", "final_value"):
        assert again[name] == whole[name]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "interrupted"])
def test_processes_stopped_at_random_moments_and_resumed(how: str, tmp_path: Path, capsys) -> None:
    """Four seeds in two processes; the command or its whole group is struck; the same bits."""
    asked = [MAZE, "-a", "random", "-k", "1e7", "--simulator", "episodes", "--seeds", "4"]
    program = [sys.executable, "-m", "latentmdp.commands.cli", "learn"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert cli.run(["learn", *asked, "--out", str(whole), "--json"]) == 0
    random = np.random.default_rng(len(how))
    code, struck = 1, 0
    while code != 0:
        command = ["--resume", str(cut)] if (cut / "seeds.json").exists() else asked
        command = command if command[0] == "--resume" else [*asked, "--out", str(cut)]
        process = subprocess.Popen(
            [*program, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        if struck < 5:
            while struck > 1 and process.poll() is None and not (cut / "seeds.json").exists():
                time.sleep(0.1)  # the first strikes may come while the runs are set up
            time.sleep(random.uniform(0.5, 4.0))
            if process.poll() is None:
                strike = os.killpg if random.random() < 0.5 else os.kill
                strike(process.pid, signal.SIGKILL if how == "killed" else signal.SIGINT)
            struck += 1
        _, errors = process.communicate(timeout=120)
        code = process.returncode
        # Python's own answer (-SIGINT) where it was still importing
        assert code in (0, 2, 130, -signal.SIGKILL, -signal.SIGINT), errors
        assert "Traceback" not in errors or code == -signal.SIGINT
        if code == 2:  # an orphan is still storing its checkpoint
            assert "must not be in use" in errors or "was killed" in errors
            time.sleep(0.5)
    for seed in range(4):
        one, two = (load_run(folder / f"seed-{seed}") for folder in (whole, cut))
        assert two.complete
        assert one.table.equals(two.table)
        assert one.policy == two.policy
        assert one.state["simulation"] == two.state["simulation"]
    assert not list(cut.glob("**/*.tmp"))


@pytest.mark.parametrize("seeds", [None, 1, 2])
def test_numbers_are_lists_exactly_where_seeds_are_asked_for(capsys, seeds):
    asked = ["learn", MAZE, "--episodes", "100", "--algorithm", "random", "--jobs", "1", "--json"]
    assert cli.run(asked + ([] if seeds is None else ["--seeds", str(seeds)])) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    for name in (
        "episodes",
        "updates",
        "regret",
        "optimal_lower",
        "final_value",
        "seconds_optimal",
    ):
        assert isinstance(found[name], list) == (seeds is not None), name
        assert seeds is None or len(found[name]) == seeds


def test_runs_in_processes_say_how_far_they_are(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("latentmdp.experiments.live.LINE_SECONDS", 0.0)
    model = lm.make(MAZE)
    begin(model, RunSpec("random", 1000), (0.0, 1.0)).checkpoint(tmp_path)
    runs = [_runs.RunTask(tmp_path, seed) for seed in range(3)]
    found = _runs.play_all(runs, 2, True, quiet=False)
    assert [one["seed"] for one in found] == [0, 1, 2]
    assert [one["episodes"] for one in found] == [1000] * 3
    assert "3 of 3 runs done; last seed-" in capsys.readouterr().err
    _runs.play_all(runs, 2, True, quiet=True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("moment", ["before they begin", "in their first moments"])
def test_runs_that_are_stopped_before_their_first_episode_are_reported(
    moment, monkeypatch, tmp_path
):
    stops = []

    @contextmanager
    def interrupted(stop):
        stops.append(stop)
        if moment == "before they begin":
            stop.set()
        yield

    started = Counts.started
    monkeypatch.setattr(_runs, "interrupts_set", interrupted)
    monkeypatch.setattr(Counts, "started", lambda *a: (started(*a), stops[0].set()))
    model = lm.make(MAZE)
    begin(model, RunSpec("random", 10**6), (0.0, 1.0)).checkpoint(tmp_path)
    runs = [_runs.RunTask(tmp_path, seed) for seed in range(2)]
    found = _runs.play_all(runs, 2, True, quiet=True)
    assert [one["seed"] for one in found] == [0, 1]
    assert not any(one["complete"] for one in found)


@pytest.mark.parametrize("out", [True, False])
def test_seeds_give_the_bits_of_single_runs_also_of_the_oracle(out, capsys, tmp_path):
    asked = ["learn", "bandit", "-a", "oracle", "-k", "1e4", "--json"]
    place = ["--out", str(tmp_path / "runs")] if out else []
    assert cli.run([*asked, "--seeds", "2", "--seed", "4", "--jobs", "1", *place]) == 0
    many = last_json(capsys)
    for i, seed in enumerate((4, 5)):
        assert cli.run([*asked, "--seed", str(seed)]) == 0
        one = last_json(capsys)
        for name in ("episodes", "updates", "regret", "final_value", "optimal_upper"):
            assert many[name][i] == one[name]
