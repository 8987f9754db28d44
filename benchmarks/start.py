"""Seconds that a command takes to start: with compiled kernels (warm) and without any (cold).

Warm: the best of five. Cold: once, in a cache folder of its own. `cpu` is processor time, of all
processes of the command together; `clock` is what a person waits. Other versions of the package
are run in turn with this one and shown as ratios.
Run: python benchmarks/start.py [the `src` folder of another version ...]
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = str(Path(__file__).parents[1] / "src")
LATENTMDP = ("-m", "latentmdp")
MAZE = "maze:size=3,goals=2,horizon=6"
WARM = {
    "import latentmdp": ("-c", "import latentmdp"),
    "latentmdp --help": (*LATENTMDP, "--help"),
    "plan bandit": (*LATENTMDP, "plan", "bandit"),
    "learn, mvp": (*LATENTMDP, "learn", MAZE, "-k", "1e4"),
}
COLD = {
    "plan": (*LATENTMDP, "plan", MAZE),
    "plan --class markov": (*LATENTMDP, "plan", MAZE, "--class", "markov"),
    "learn, mvp": (*LATENTMDP, "learn", MAZE, "-k", "1e4"),
    "learn, bernstein": (*LATENTMDP, "learn", MAZE, "-k", "1e4", "-a", "bernstein"),
    "learn, mvp, history": (*LATENTMDP, "learn", MAZE, "-k", "1e4", "--class", "history"),
}
RUNS = 5


def seconds(source: str, cache: str, arguments: tuple[str, ...]) -> tuple[float, float]:
    """Processor time with that of all child processes, and time by the clock."""
    env = os.environ | {"PYTHONPATH": source, "LATENTMDP_CACHE_DIR": cache}
    before, start = os.times(), time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=env, check=True, capture_output=True)
    after, clock = os.times(), time.perf_counter() - start
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system, clock


def show(name: str, times: list[tuple[float, float]]) -> None:
    """This version's seconds, then those of others in units of them."""
    (cpu, clock), *others = times
    ratios = "".join(f"{cpu / c:10.2f}{clock / w:8.2f}" for c, w in others)
    print(f"{name:22}{cpu:8.2f}{clock:8.2f}{ratios}")


def main() -> None:
    sources = [HERE, *(str(Path(source).resolve()) for source in sys.argv[1:])]
    titles = f"{'cpu':>8}{'clock':>8}" + f"{'cpu/':>10}{'clock/':>8}" * (len(sources) - 1)
    with tempfile.TemporaryDirectory() as place:
        caches = [str(Path(place, str(i))) for i in range(len(sources))]
        print(f"{'cold':22}{titles}")
        for name, arguments in COLD.items():
            places = [f"{cache} {name}".replace("/", "-") for cache in caches]
            fresh = [str(Path(place, p)) for p in places]
            show(name, [seconds(s, c, arguments) for s, c in zip(sources, fresh, strict=True)])
        print(f"{'warm':22}{titles}")
        for name, arguments in WARM.items():
            runs = [
                [seconds(s, c, arguments) for s, c in zip(sources, caches, strict=True)]
                for _ in range(1 + RUNS)
            ][1:]  # the first one compiles
            show(
                name,
                [
                    tuple(map(min, zip(*(run[i] for run in runs), strict=True)))
                    for i in range(len(sources))
                ],
            )


if __name__ == "__main__":
    main()
