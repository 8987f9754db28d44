"""Functions that the tests' studies call: they say what they do in a file, and may misbehave."""

import os
import signal
import time
from pathlib import Path


def note(folder: str, text: str) -> None:
    """Add a line to a log; one write, so that lines of several processes stay whole."""
    with open(Path(folder) / "log", "a") as file:
        file.write(text + "\n")


def draw(folder: str = "", seconds: float = 0.0, seed: int = 0, stream: int = 0, x: float = 0.0):
    """A number that depends on the stream alone; logged when it is computed."""
    import numpy as np

    time.sleep(seconds)
    if folder:
        note(folder, f"{stream}")
    return {"number": float(np.random.default_rng(stream).random()) + x, "regret": 1.0 * seed}


def nothing(seed: int, stream: int, x: int = 0):
    """As little as possible."""
    return {"number": stream % 1000}


def power(x: float, algorithm: str, seed: int, stream: int):
    """A learner whose regret grows like the root of a size; one has a bad run."""
    bad = algorithm == "lucrl" and x == 4
    return {"regret": (1 + seed) * x**0.5, "short": 1.0 if bad else 0.0}


def dies(folder: str, seed: int, stream: int):
    """Seed 1 kills its worker, always; others are well."""
    note(folder, f"seed {seed}")
    if seed == 1:
        print("these are my last words", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return {"number": seed}


def leaves_a_child(folder: str, seed: int, stream: int):
    """Seed 0 kills its worker, but not the process that it has started."""
    if seed == 0:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        note(folder, str(child))
        os.kill(os.getpid(), signal.SIGKILL)
    return {"number": seed}


def dies_twice(folder: str, seed: int, stream: int):
    """Kills its worker at the first two tries."""
    tries = Path(folder) / "log"
    note(folder, "try")
    if len(tries.read_text().split("\n")) - 1 < 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"number": 7}


def raises(seed: int, stream: int):
    """A bug of the person's own."""
    if seed == 0:
        raise KeyError("a missing thing")
    return {"number": seed}


def odd(seed: int, stream: int):
    """No plain result."""
    return {"number": [1, 2]}


def misnamed(seed: int, stream: int):
    """A column that every run has, a curve that is none, a good one."""
    return (
        {"seed": 7},
        {"curve": "up"},
        {"curve": [[1, 2], [0.5, 0.75]]},
    )[seed]


def mixed(seed: int, stream: int):
    """Numbers and text in one column."""
    return {"number": "many" if seed else 1.0}
