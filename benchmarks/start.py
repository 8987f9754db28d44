"""Seconds that commands take to start: without compiled kernels (cold) and with them (warm).

`cpu` is the processor time of all processes of a command together, `clock` is what a person waits.
Cold: once, each command with an empty cache folder. Warm: the best of five. Other versions of the
package run in turn with this one; beside their seconds stands how many times those of this one are.
Run: python benchmarks/start.py [the `src` folder of another version ...]
"""

import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = str(Path(__file__).parents[1] / "src")
MAZE = "maze:size=3,goals=2,horizon=6"
LEARN = f"-m latentmdp learn {MAZE} -k 1e4"
COLD = {
    "plan": f"-m latentmdp plan {MAZE}",
    "plan, markov": f"-m latentmdp plan {MAZE} --class markov",
    "learn, mvp": LEARN,
    "learn, bernstein": f"{LEARN} -a bernstein",
    "learn, mvp, history": f"{LEARN} --class history",
}
WARM = {
    "import latentmdp": "-c 'import latentmdp'",
    "latentmdp --help": "-m latentmdp --help",
    "plan bandit": "-m latentmdp plan bandit",
    "learn, mvp": LEARN,
}
RUNS = 5


def seconds(source: str, cache: Path, arguments: str) -> tuple[float, float]:
    """Processor time, and time by the clock."""
    env = os.environ | {"PYTHONPATH": source, "LATENTMDP_CACHE_DIR": str(cache)}
    command = [sys.executable, *shlex.split(arguments)]
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, env=env, check=True, capture_output=True)
    after, clock = os.times(), time.perf_counter() - start
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system, clock


def show(name: str, times: list[tuple[float, float]]) -> None:
    """A line of the table."""
    cpu, clock = times[0]
    text = f"{name:20}{cpu:8.2f}{clock:8.2f}"
    for other_cpu, other_clock in times[1:]:
        text += f"{other_cpu:11.2f} (x{cpu / other_cpu:.2f}){other_clock:8.2f}"
        text += f" (x{clock / other_clock:.2f})"
    print(text, flush=True)


def main() -> None:
    sources = [HERE, *(str(Path(source).resolve()) for source in sys.argv[1:])]
    print(f"{'':20}" + f"{'cpu':>8}{'clock':>8}" + f"{'cpu':>11}{'clock':>16}" * (len(sources) - 1))
    with tempfile.TemporaryDirectory() as folder:
        print("cold")
        for name, arguments in COLD.items():
            places = [Path(folder, name, str(i)) for i in range(len(sources))]
            show(name, [seconds(*each, arguments) for each in zip(sources, places, strict=True)])
        print("warm")
        places = [Path(folder, "warm", str(i)) for i in range(len(sources))]
        for name, arguments in WARM.items():
            best = [(1e9, 1e9)] * len(sources)
            for run in range(1 + RUNS):
                for i, place in enumerate(places):
                    cpu, clock = seconds(sources[i], place, arguments)
                    if run > 0:  # the first one compiles
                        best[i] = min(best[i][0], cpu), min(best[i][1], clock)
            show(name, best)


if __name__ == "__main__":
    main()
