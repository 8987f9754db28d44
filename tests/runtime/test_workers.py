"""Worker processes: Ctrl-C is the command's alone, and they end with it, however it ends."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from process_tree import WORKER, Command, all_end, needs_proc

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
    assert errors.removeprefix("playing against the secrets ...\n") == "latentmdp: interrupted\n"
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


@pytest.mark.parametrize("which", [0, 1])
def test_learn_notices_that_a_worker_was_killed(which):
    """Also the one that was started last, which Python's own pool may not look at."""
    many = ("-k", "1e15", "--bonus-scale", "1e-4", "--seeds", "2", "--jobs", "2")
    command = Command(*LEARN, *many)
    pids = command.wait_for(WORKER, 2)
    time.sleep(1.0)
    os.kill(pids[which], signal.SIGKILL)
    code, errors = command.result()
    assert code == 2
    assert errors.endswith("latentmdp: a process was killed before its run was done\n")
    assert all_end(pids)


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
from latentmdp.runtime.workers import workers

if __name__ == "__main__":
    try:
        with workers(3) as pool:
            list(pool.map(time.sleep, [0.5] * 3))
            pool.submit(time.sleep, 60)
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


FAILING = """
import os, sys, time
from latentmdp.runtime.workers import workers
from latentmdp.errors import ModelError

if __name__ == "__main__":
    try:
        with workers(2) as pool:
            slow = pool.submit(time.sleep, 60)
            pool.submit({task}).result()
    except ({error}) as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("task", "error", "said"),
    [
        ("os.mkdir, '/'", "FileExistsError", "[Errno 17] File exists: '/'\n"),
        ("os._exit, 3", "ModelError", "a worker process was killed before its task was done\n"),
    ],
)
def test_a_task_that_fails_ends_the_others_at_once(task, error, said, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(FAILING.format(task=task, error=error))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == (said, "")


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
