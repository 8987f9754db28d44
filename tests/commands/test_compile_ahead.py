"""`latentmdp compile` leaves nothing to compile; a first `learn` compiles in several processes."""

import errno
import json
import os
import re
import subprocess
import sys

import pytest

import latentmdp as lm
from latentmdp.commands import compile_ahead as _compile
from latentmdp.runtime import compile as _ahead

LATER = """
import latentmdp as lm
from numba.core import event

compiled = []

class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
{code}
print(*compiled)
"""
COLD = """
from latentmdp.runtime import kernel_cache as _cache
from latentmdp.runtime.compile import load_all

load_all()
print(*(kernel.py_func.__name__ for kernel in _cache._cold))
"""
# part of the kernels that call them (`optimistic_step.py`), so not compiled by themselves
NOT_IN_USE = {"visit_bonus_rows", "visit_box_rows", "sort_defaults"}
PLAN = """
for spec in ("maze:size=3,goals=2,horizon=6", "riverswim", "hard:contexts=2,states=11"):
    for hidden in (False, True):
        model = lm.make(spec, observe_rewards=not hidden)
        for policy_class in ("history", "markov"):
            lm.evaluate(model, lm.plan(model, policy_class).policy)
"""
LEARN = """
for spec in ("maze:size=3,goals=2,horizon=6", "hard:contexts=2,states=11"):
    for policy_class in ("history", "markov"):
        for algorithm in ("mvp", "bernstein", "lucrl", "ucrl", "psrl", "greedy", "random"):
            for simulator in ("counts", "episodes"):
                lm.learn(
                    lm.make(spec), algorithm, 1000, policy_class, bonus_scale=0.1,
                    simulator=simulator, optimal=(0.0, 1.0),
                )
"""
PLAN_AND_LEARN = """
import latentmdp as lm
model = lm.make("maze:size=3,goals=2,horizon=6")
plan = lm.plan(model)
run = lm.learn(model, "mvp", 10**5, "history", optimal=plan)
print(plan.lower, plan.upper, run.regret)
"""
AUDIT = """
for policy_class in ("history", "markov"):
    for algorithm in ("mvp", "bernstein"):
        lm.audit(lm.learn(lm.make("maze:size=3,goals=2,horizon=6"), algorithm, 1000, policy_class))
"""


def run(cache, *arguments):
    env = os.environ | {"LATENTMDP_CACHE_DIR": str(cache), "LATENTMDP_QUIET": ""}
    return subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, text=True, env=env
    )


@pytest.mark.slow
def test_nothing_is_left_to_compile_and_damage_is_repaired(tmp_path):
    compile_ = ("-m", "latentmdp", "compile")
    first = run(tmp_path, *compile_)
    assert first.stderr.startswith("latentmdp: compiling kernels, once: at most ")
    assert first.stderr.count("\n") == 1
    number = int(first.stdout.split()[1])
    assert first.stdout.startswith(f"compiled {number} kernels in ")
    assert first.stdout.endswith(f" s, kept in {tmp_path}\n")
    left = set(run(tmp_path, "-c", COLD).stdout.split())
    assert left <= NOT_IN_USE, "kernels that no task of `latentmdp compile` calls"
    for code in (PLAN, LEARN, AUDIT):
        assert run(tmp_path, "-c", LATER.format(code=code)).stdout == "\n"
    again = run(tmp_path, *compile_)
    assert again.stdout == f"all {number} kernels are compiled, kept in {tmp_path}\n"
    assert again.stderr == ""
    facts = json.loads(run(tmp_path, *compile_, "--json").stdout)
    assert (facts["kernels"], facts["compiled"]) == (number, 0)
    whole = run(tmp_path, "-c", PLAN_AND_LEARN)
    assert whole.stderr == ""
    for damaged in tmp_path.glob("counts-*/*/*.nb?"):
        damaged.write_bytes(damaged.read_bytes()[:-100])
    repaired = run(tmp_path, "-c", PLAN_AND_LEARN)
    assert repaired.stdout == whole.stdout
    line = rf"latentmdp: compiling kernels, once: at most \d+ \(they are kept in {tmp_path}\)\n"
    assert re.fullmatch(line, repaired.stderr)
    damaged = next(tmp_path.glob("history_grid-*/*/*.nbc"))
    damaged.write_bytes(damaged.read_bytes()[:-100])
    assert 1 < int(run(tmp_path, *compile_).stdout.split()[1]) < number / 2
    assert run(tmp_path, "-c", PLAN_AND_LEARN).stdout == whole.stdout


def test_where_nothing_can_be_kept_it_says_so():
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "latentmdp", "compile"]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 2
    assert done.stderr.startswith("latentmdp: compiling ahead needs a folder")


def test_processes_only_where_something_is_new(tmp_path, monkeypatch):
    noted = []

    class Work:
        """Notes what it is asked to do."""

        def __init__(self, jobs, calls):
            tasks = [call.arguments for call in calls]
            noted[:] = ["-".join((name.partition(":")[2], *rest)) for name, *rest in tasks]

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            pass

        def results(self, look):
            return ((i, None) for i in range(len(noted)))

    (tmp_path / "notes").mkdir(mode=0o700)
    monkeypatch.setattr(_ahead, "notes", lambda: tmp_path / "notes")
    monkeypatch.setattr(_ahead, "load_all", lambda: None)
    monkeypatch.setattr(_compile, "Calls", Work)
    monkeypatch.setattr(_compile.os, "cpu_count", lambda: 2)
    asked = {
        ("lucrl", "markov"): ["simulate", "update-mvp-markov"],
        ("mvp", "markov"): [],  # the same kernels
        ("ucrl", "history"): ["update-bernstein-history"],
        ("random", "history"): [],
    }
    for (algorithm, policy_class), tasks in asked.items():
        noted.clear()
        with _compile.compiling_ahead(algorithm, policy_class):
            assert noted == tasks


def test_every_algorithm_has_a_task_that_stands_for_it():
    names = {task.name for task in _compile.TASKS}
    for algorithm in _compile.KINDS.values():
        for policy_class in ("markov", "history"):
            assert f"update-{algorithm}-{policy_class}" in names


def test_a_disk_that_fills_up_is_named(monkeypatch):
    """Numba's error does not say where it wrote."""
    monkeypatch.setattr(_compile, "TASKS", [_compile.Task(fill_the_disk)])
    with pytest.raises(lm.ModelError) as found:
        _compile.compile_all()
    assert str(found.value) == (
        f"{_ahead.notes().parent} must have room for compiled kernels: no space left on device; "
        "what was compiled until then is kept"
    )


def fill_the_disk():
    """What a worker's Numba does where there is no room."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
