"""Compile ahead: what a first `learn` needs, in processes beside the one that plans.

Machine code is kept on disk, so it does not matter which process compiles it. Only the first run on
a machine, or after an edit of a kernel, has anything to do here.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from latentmdp._interrupts import interrupts_held
from latentmdp._notice import notice

SIMULATION = """
import os
os.nice(19)  # the shortest of three: it takes what the others leave
import latentmdp as lm
lm.learn(lm.make("{model}"), "random", 10**5, optimal=(1.0, 1.0))
"""
OPTIMISM = """
import latentmdp as lm
model = lm.make("{model}")
env = lm.LatentMDPEnv(model)
learner = lm.Learner(
    model, "{algorithm}", episodes=100, policy_class="{policy_class}", bonus_scale=0.01
)  # a small bonus: nothing is capped for long, so that every kernel is called
for episode in range(100):
    state, _ = env.reset(seed=episode)
    action = learner.begin(int(state))
    while action is not None:
        state, reward, _, _, info = env.step(action)
        action = learner.step(reward, int(state))
    learner.end(info["context"])
"""
TINY = "garnet:contexts=2,states=3,actions=2,branching=2,horizon=3"


@contextmanager
def compiling_ahead(algorithm: str, policy_class: str) -> Iterator[None]:
    """Compile the learner's kernels beside what goes on inside; wait for them at its end."""
    from latentmdp.kernels._cache import is_cold

    names = {"model": TINY, "algorithm": algorithm, "policy_class": policy_class}
    wanted = {
        "count_simulation": SIMULATION,
        "memory" if policy_class == "history" else "optimistic_sweep": OPTIMISM,
    }
    scripts = [code.format(**names) for kernel, code in wanted.items() if is_cold(kernel)]
    if (os.cpu_count() or 1) < 2:
        scripts = []
    if not scripts:
        yield
        return
    children: list[subprocess.Popen[bytes]] = []
    notice.begin(None, kernels=0)
    try:
        for script in scripts:
            with interrupts_held():
                children.append(_start(script))
        yield
        for child in children:
            child.wait()
    finally:
        with interrupts_held():  # a second Ctrl-C must not leave one behind
            for child in children:
                child.kill()
                child.wait()
        notice.end()


def _start(script: str) -> "subprocess.Popen[bytes]":
    """A process that runs the script and ends with this one."""
    watched = f"from latentmdp._workers import end_with\nend_with({os.getpid()})\n{script}"
    nowhere = subprocess.DEVNULL
    return subprocess.Popen([sys.executable, "-c", watched], stdout=nowhere, stderr=nowhere)
