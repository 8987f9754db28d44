"""The same calls in this version and another one, on models that use nothing new: who is slower?

    python benchmarks/no_slower.py ../before/src        # the sources of another version
    python benchmarks/no_slower.py ../before/src 9 plan # rounds (the best counts); calls by name

No masks, no steps that differ, no infinite horizon, no random rewards. Each version runs in a
process of its own; calls take turns, so that both see the same machine. Times are CPU times.
Results must be equal to the bit.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent.parent / "src"
SIZES = "garnet:states={},actions=4,contexts=3,branching=4,horizon=10,seed=1"
MAZE = "maze:size=5,goals=4,horizon=20,seed=0"


# ---------------------------------------------------------------- what is called


def cases(folder):
    """Names and calls; each gives numbers or arrays. What they need is made here, untimed."""
    import latentmdp as lm

    maze, small, large = lm.make(MAZE), lm.make(SIZES.format(12)), lm.make(SIZES.format(300))
    bandit = lm.make("bandit:arms=4,contexts=3,horizon=20")
    tiny = lm.make("garnet:states=4,actions=2,contexts=2,horizon=4")
    dense = (large.P, large.R, large.w, large.nu, large.H)
    context, state, action, following = np.nonzero(large.P)
    at = (context, state, action, following)
    rows = (*at, large.P[at], large.R[at[:3]], large.w, large.nu, large.H)
    table = np.random.default_rng(0).integers(large.A, size=(large.H, large.S))
    markov, memory = lm.PolicyGraph.from_table(table), lm.plan(maze, gap=None).policy

    def plan(model, name, **options):
        found = lm.plan(model, name, time_limit=None, **options)
        return found.lower, found.upper, found.work, found.policy.action, found.policy.node

    def learned(model, *spec, **options):
        run = lm.learn(model, *spec, optimal=(0.0, 1.0), **options)
        table = run.state["table"]
        return run.updates, run.final_value, table["episode"], table["value"]

    def evaluated(model, policy):
        found = lm.evaluate(model, policy)
        return found.value, found.variance, found.alpha

    def steps(episodes):
        env = lm.LatentMDPEnv(maze)
        seen = []
        for i in range(episodes):
            env.reset(seed=i)
            over = False
            while not over:
                state, reward, *_, over, _ = env.step(i % maze.A)
                seen += [int(state), float(reward)]
        return (np.array(seen),)

    def cursors(episodes):
        seen = []
        for i in range(episodes):
            state = int(maze.nu[0].argmax())
            cursor = memory.cursor(state, maze)
            for t in range(maze.H):
                row = ((i % maze.M) * maze.S + state) * maze.A + cursor.action
                first = maze.indptr[row]
                pick = first + (i + t) % (maze.indptr[row + 1] - first)
                state = int(maze.next[pick])
                cursor.observe(state, symbol=int(maze.symbol[pick]))
                seen.append(state)
        return (np.array(seen),)

    def parts(model):
        return model.w, model.indptr, model.next, model.symbol, model.prob, model.reward

    return {
        "build, arrays": lambda: parts(lm.LatentMDP.from_arrays(*dense)),
        "build, rows": lambda: parts(lm.LatentMDP.from_rows(*rows)),
        "replace, normalized": lambda: parts(large.replace(horizon=5).normalized()),
        "load npz": lambda: parts(lm.load(folder / "large.npz")),
        "load json": lambda: parts(lm.load(folder / "small.json")),
        "load csv": lambda: parts(lm.load(folder / "large.csv", horizon=10)),
        "evaluate, Markov": lambda: evaluated(large, markov),
        "evaluate, memory": lambda: evaluated(maze, memory),
        "plan, memory, maze": lambda: plan(maze, "history", gap=None),
        "plan, memory, bandit": lambda: plan(bandit, "history", gap=None, work_limit=10**5),
        "plan, Markov, ascent": lambda: plan(small, "markov", method="ascent", gap=None),
        "plan, Markov, exact": lambda: plan(tiny, "markov", gap=None)[:2],
        "learn, mvp, maze": lambda: learned(maze, "mvp", 10**5),
        "learn, mvp, memory": lambda: learned(
            lm.make("maze:size=3,goals=2,horizon=6"), "mvp", 10**5, "history"
        ),
        "learn, bernstein": lambda: learned(small, "bernstein", 10**5),
        "simulate counts": lambda: learned(small, "random", 10**7),
        "simulate episodes": lambda: learned(small, "random", 10**4, simulator="episodes"),
        "simulate, Gymnasium": lambda: steps(300),
        "simulate, cursor": lambda: cursors(300),
    }


def write_files(folder):
    """What is loaded; by the other version, so that both can read it."""
    import latentmdp as lm

    large = lm.make(SIZES.format(300))
    lm.save(large, folder / "large.npz")
    lm.save(lm.make(SIZES.format(12)), folder / "small.json")
    even = large.replace(w=np.full(3, 1 / 3), nu=np.tile(large.nu[0], (3, 1)))
    lm.save(even, folder / "large.csv")


# ---------------------------------------------------------------- a version at work


def work(folder):
    """Read names of calls, do them, answer with CPU seconds and a digest of what came out."""
    calls = cases(Path(folder))
    print(json.dumps(list(calls)), flush=True)
    for line in sys.stdin:
        name, times = json.loads(line)
        started = time.process_time()
        for _ in range(times):
            result = calls[name]()
        seconds = (time.process_time() - started) / times
        parts = b"".join(np.ascontiguousarray(part).tobytes() for part in result)
        print(json.dumps([seconds, hashlib.sha256(parts).hexdigest()]), flush=True)


class Version:
    """A process with the sources of one version."""

    def __init__(self, source, *arguments):
        environment = os.environ | {
            "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "LATENTMDP_QUIET": "1",
        }  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, __file__, *arguments], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def answer(self):
        return json.loads(self._process.stdout.readline())

    def call(self, name, times=1):
        self._process.stdin.write(json.dumps([name, times]) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def end(self):
        self._process.communicate()


def main(other, rounds=7, only=""):
    with tempfile.TemporaryDirectory() as folder:
        Version(other, "write", folder).end()
        versions = [Version(source, "work", folder) for source in (other, HERE)]
        names, _ = (version.answer() for version in versions)
        print("| call | before, ms | now, ms | now / before |\n|---|---|---|---|")
        different = []
        for name in filter(lambda name: only in name, names):
            first = [version.call(name) for version in versions]  # compiles
            if first[0][1] != first[1][1]:
                different.append(name)
            seconds = min(version.call(name)[0] for version in versions)
            times = max(1, int(0.1 / max(seconds, 1e-6)))
            found = [[version.call(name, times)[0] for version in versions] for _ in range(rounds)]
            before, now = np.min(found, axis=0)
            ratio = f"{now / before:.2f}"
            print(f"| {name} | {1e3 * before:.3g} | {1e3 * now:.3g} | {ratio} |", flush=True)
        for version in versions:
            version.end()
    assert not different, f"results must be equal to the bit; these are not: {different}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2])
    elif sys.argv[1:2] == ["write"]:
        write_files(Path(sys.argv[2]))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve(), *map(int, sys.argv[2:3]), *sys.argv[3:4])
    else:
        print(__doc__)
