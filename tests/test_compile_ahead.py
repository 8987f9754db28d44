"""A first `learn` compiles in several processes; later ones have nothing to compile."""

import subprocess
import sys

import pytest

from latentmdp.commands import _compile
from latentmdp.kernels import _cache

LISTEN = """
import latentmdp as lm
from numba.core import event

compiled = []

class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass

model = lm.make("maze:size=3,goals=2,horizon=6")
lm.evaluate(model, lm.plan(model, "{policy_class}").policy)
event.register("numba:compile", Listener())
lm.learn(model, "{algorithm}", 10**6, "{policy_class}", optimal=(1.0, 1.0))
print(*compiled)
"""


@pytest.mark.slow
def test_nothing_is_left_to_compile(tmp_path, monkeypatch):
    monkeypatch.setenv("LATENTMDP_CACHE_DIR", str(tmp_path))
    names = {"model": _compile.TINY, "algorithm": "mvp", "policy_class": "markov"}
    for code in (_compile.SIMULATION, _compile.OPTIMISM):
        subprocess.run([sys.executable, "-c", code.format(**names)], check=True)
    done = subprocess.run(
        [sys.executable, "-c", LISTEN.format(**names)], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == []


def test_processes_only_where_something_is_cold(monkeypatch):
    started = []

    class Child:
        def __init__(self, command, **how):
            started.append(command[-1])

        def wait(self):
            pass

        kill = wait

    monkeypatch.setattr(_compile.subprocess, "Popen", Child)
    monkeypatch.setattr(_compile.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(_cache, "is_cold", lambda name: name == "memory")
    with _compile.compiling_ahead("mvp", "markov"):
        assert started == []
    with _compile.compiling_ahead("mvp", "history"):
        assert len(started) == 1
        assert 'policy_class="history"' in started[0]
