"""Worker processes: Ctrl-C is the command's alone, and they end with it, however it ends."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from process_tree import WORKER, Command, all_end, needs_proc, wait_until

from latentmdp.errors import ModelError
from latentmdp.learning.run import load_run
from latentmdp.runtime.calls import Call, Calls
from latentmdp.runtime.interrupts import interrupts_held

pytestmark = needs_proc
LATENTMDP = ("-m", "latentmdp")
LOWER_BOUND = (*LATENTMDP, "lower-bound", "-k", "1e9", "--secrets", "1000")
LEARN = (*LATENTMDP, "learn", "maze:size=3,goals=2,horizon=6", "-a", "mvp")
# `demo`, from where its learners begin
DEMO = (
    "-c",
    "import sys\n"
    "from pathlib import Path\n"
    "from latentmdp.commands.demo import _learn_all\n"
    "try:\n"
    "    _learn_all(Path(sys.argv[1]), 10**12, (0.0, 1.0))\n"
    "except KeyboardInterrupt:\n"
    "    sys.exit('latentmdp: interrupted')\n",
)


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """The processes that tests look for are not those that compile ahead."""
    for command in (LEARN, (*LATENTMDP, "lower-bound", "--secrets", "2")):
        subprocess.run([sys.executable, *command, "-k", "1e4"], check=True, capture_output=True)


@pytest.mark.parametrize("pause", [None, 0.0, 0.003, 0.03, 0.3])
def test_ctrl_c_ends_lower_bound_and_its_workers(pause):
    command = Command(*LOWER_BOUND)
    pids = command.wait_for(WORKER, 2)
    time.sleep(1.0 if pause is None else 5 * pause)  # while they start, and while they work
    command.interrupt()
    if pause is not None:
        time.sleep(pause)
        command.interrupt()
    code, errors = command.result()
    assert code == 130
    assert (
        errors.removeprefix("running the learner on the hard instances ...\n")
        == "latentmdp: interrupted\n"
    )
    assert all_end(pids)


@pytest.mark.parametrize("pause", [None, 0.1])
def test_ctrl_c_ends_the_learners_of_the_demo(pause, tmp_path):
    command = Command(*DEMO, str(tmp_path))
    pids = command.wait_for(WORKER, 2)
    time.sleep(2.0)
    command.interrupt()
    if pause is not None:
        time.sleep(pause)
        command.interrupt()
    _, errors = command.result()
    assert "Traceback" not in errors
    assert errors.endswith("latentmdp: interrupted\n")
    assert all_end(pids)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_of_a_killed_command_end(number):
    command = Command(*LOWER_BOUND)
    pids = command.wait_for(WORKER, 2)
    time.sleep(1.5)
    command.process.send_signal(number)
    command.process.wait()
    assert all_end(pids)
    command.end()


@pytest.mark.parametrize("out", [True, False])
def test_learn_replaces_a_worker_that_was_killed(out, tmp_path):
    """The run goes on from its checkpoint, or from the beginning, to the same bits."""
    many = ["-k", "1e6", "--simulator", "episodes", "--seeds", "2", "--jobs", "1", "--json"]
    whole = subprocess.run([sys.executable, *LEARN, *many], check=True, capture_output=True)
    command = Command(*LEARN, *many, *(["--out", str(tmp_path / "runs")] if out else []))
    (first,) = command.wait_for(WORKER, 1)
    time.sleep(1.0)
    os.kill(first, signal.SIGKILL)
    said, errors = command.process.communicate(timeout=100)
    assert command.process.returncode == 0, errors
    found, expected = json.loads(said), json.loads(whole.stdout)
    for name in ("seed", "episodes", "regret", "updates", "final_value"):
        assert found[name] == expected[name]


def test_learn_gives_up_a_run_whose_workers_were_killed_three_times(tmp_path):
    out = tmp_path / "runs"
    command = Command(
        *LEARN, "-k", "1e15", "--bonus-scale", "1e-4", "--seeds", "1", "--out", str(out)
    )
    before = 0
    for _ in range(3):
        wait_until(lambda b=before: [pid for pid in command.children(WORKER) if pid != b])
        (before,) = command.children(WORKER)
        time.sleep(2.0)  # it counts against a task once the worker is ready
        os.kill(before, signal.SIGKILL)
    code, errors = command.result()
    assert code == 2
    assert "its worker died 3 times: it was ended by SIGKILL" in errors
    assert not load_run(out / "seed-0").complete


@pytest.mark.parametrize("killed", [True, False])
def test_processes_that_compile_for_the_demo_end_with_it(killed, tmp_path):
    arguments = ("-m", "latentmdp", "demo", "--out", str(tmp_path / "demo"))
    command = Command(*arguments, LATENTMDP_CACHE_DIR=str(tmp_path / "cache"))
    pids = command.wait_for(WORKER, 2)
    time.sleep(1.0)
    if killed:
        command.process.kill()
        command.process.wait()
        assert all_end(pids)
        command.end()
        return
    command.interrupt()
    time.sleep(0.05)
    command.interrupt()
    code, errors = command.result()
    assert code == 130
    assert "Traceback" not in errors
    assert all_end(pids)


IDLE = """
import sys, time
from latentmdp.runtime.calls import Call, Calls

try:
    with Calls(3, [*[Call("time:sleep", (0.5,))] * 3, Call("time:sleep", (60,))]) as work:
        results = work.results()
        for _ in range(3):
            next(results)
        print("idle", flush=True)
        time.sleep(60)
except KeyboardInterrupt:
    sys.exit("interrupted")
"""


def test_workers_that_wait_for_work_say_nothing_at_ctrl_c(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(IDLE)
    command = Command(str(script))
    assert command.process.stdout.readline() == "idle\n"
    command.interrupt()
    assert command.result() == (1, "interrupted\n")


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (Call("os:mkdir", ("/",)), ModelError, "/: file exists"),
        (
            Call("os:_exit", (3,)),
            ModelError,
            "a worker process was killed before its task was done",
        ),
        (Call("math:sqrt", (-1,)), RuntimeError, "ValueError"),
        (Call("math:no_function"), RuntimeError, "AttributeError"),
    ],
)
def test_a_task_that_fails_ends_the_others_at_once(call, error, said):
    begun = time.monotonic()
    with pytest.raises(error, match=said), Calls(2, [Call("time:sleep", (60,)), call]) as work:
        next(work.results())
    assert time.monotonic() - begun < 30


def test_results_come_with_the_numbers_of_their_calls():
    with Calls(2, [Call("math:sqrt", (x,)) for x in (4, 9, 2)]) as work:
        assert dict(work.results()) == {0: 2.0, 1: 3.0, 2: 2**0.5}


def test_ctrl_c_is_held_also_where_another_thread_receives_it():
    stop, done = threading.Event(), []
    other = threading.Thread(target=stop.wait)

    def interrupted():
        with interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            done.append("all of it")

    other.start()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    stop.set()
    other.join()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
