"""Compile ahead: what a first `learn` needs, in processes beside the one that plans.

Machine code is kept on disk, so it does not matter which process compiles it. Only the first run on
a machine, or after an edit of a kernel, has anything to do here.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for script in scripts
    ]
    try:
        yield
        for child in children:
            child.wait()
    finally:
        for child in children:
            child.kill()
            child.wait()
