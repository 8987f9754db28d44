"""Rows per second and memory of `fit`, by kind of file; against doing the counts by hand in pandas.

`python benchmarks/fitting.py [ROWS [WAY]]` (default: 2 million, both ways; `fit` alone for more
rows than pandas can hold). Memory is the most that the process ever held, in a process of its own
for each line. The files are written to a temporary folder (35 bytes a row as CSV) and deleted.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import latentmdp as lm

STEPS, STATES = 10, 30
PART = 1_000_000


def write_logs(folder: Path, rows: int) -> None:
    """A log with names as text, as CSV and as Parquet, written piece by piece."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    state = np.array([f"state_{i}" for i in range(STATES)])
    action, context = np.array(["run", "inspect", "repair"]), np.array(["bearing", "seal", "motor"])
    writer, first = None, 0
    while first < rows:
        n = min(PART, rows - first) // STEPS
        m = np.repeat(rng.integers(0, 3, n), STEPS)
        a, s = rng.integers(0, 3, n * STEPS), rng.integers(0, STATES, n * STEPS)
        frame = pd.DataFrame(
            {"episode": np.repeat(np.arange(first // STEPS, first // STEPS + n), STEPS),
             "step": np.tile(np.arange(STEPS), n), "context": context[m], "state": state[s],
             "action": action[a], "reward": (m + a) / 10}
        )  # fmt: skip
        frame.to_csv(folder / "log.csv", mode="a", header=first == 0, index=False)
        table = pa.Table.from_pandas(frame)
        writer = writer or pq.ParquetWriter(folder / "log.parquet", table.schema)
        writer.write_table(table)
        first += n * STEPS
    if writer is not None:
        writer.close()


def by_hand(path: str) -> np.ndarray:
    """What one writes without `fit`: read, shift, group, divide; nothing is checked."""
    frame = pd.read_csv(path) if path.endswith(".csv") else pd.read_parquet(path)
    frame["next"] = frame.groupby("episode")["state"].shift(-1)
    frame = frame.dropna(subset=["next"])
    keys = ["context", "state", "action", "next"]
    counts = frame.groupby(keys).agg(n=("reward", "size"), reward=("reward", "mean")).reset_index()
    codes = [pd.Categorical(counts[k]) for k in keys[:3]]
    states = codes[1].categories
    shape = (*(len(c.categories) for c in codes), len(states))
    visits, R = np.zeros(shape), np.zeros(shape)
    at = (*(c.codes for c in codes), states.get_indexer(counts["next"]))
    visits[at], R[at] = counts["n"], counts["reward"]
    P = visits / np.maximum(visits.sum(axis=3, keepdims=True), 1)
    w = frame.groupby("context")["episode"].nunique()
    first = frame.groupby("episode").first()
    nu = first.groupby(["context", "state"]).size().unstack(fill_value=0).to_numpy()
    nu = nu / nu.sum(axis=1, keepdims=True)
    lm.LatentMDP.from_arrays(P, R, w / w.sum(), nu, STEPS, max_return=None, observe_rewards=False)
    return visits


def by_fit(path: str) -> np.ndarray:
    """The same counts, and the checks."""
    return lm.fit(path).counts.visits()


WAYS = {"fit": by_fit, "by hand": by_hand}


def most_memory() -> float:
    """Megabytes that this process has held at most."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def one(way: str, path: str) -> None:
    """In a process of its own: seconds, megabytes, and numbers that must be the same for all."""
    pd.DataFrame({"a": [1]}).groupby("a").size()  # loads what is loaded late
    before = most_memory()
    begun, used = time.perf_counter(), time.process_time()
    visits = WAYS[way](path)
    took = time.perf_counter() - begun, time.process_time() - used
    print(*took, before, most_memory(), int(visits.sum()), int((visits**2).sum()))


def main() -> None:
    """Print the table of docs/how_to_fit.md."""
    if sys.argv[1:2] == ["-"]:
        one(sys.argv[2], sys.argv[3])
        return
    rows = int(float(sys.argv[1])) if len(sys.argv) > 1 else 2_000_000
    ways = sys.argv[2:] or WAYS
    with tempfile.TemporaryDirectory() as folder:
        write_logs(Path(folder), rows)
        print(f"{rows:,} rows; {os.path.getsize(folder + '/log.csv') / 1e6:.0f} MB as CSV")
        headers = ("seconds", "CPU s", "M rows/CPU s", "MB at start", "most MB")
        print(f"{'way':8} {'file':8} " + " ".join(f"{h:>12}" for h in headers))
        answers = set()
        for kind in ("csv", "parquet"):
            for way in ways:
                command = [sys.executable, __file__, "-", way, f"{folder}/log.{kind}"]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                seconds, used, before, most, *answer = map(float, done.stdout.split()[-6:])
                answers.add(tuple(answer))
                numbers = (seconds, used, rows / used / 1e6, before, most)
                print(f"{way:8} {kind:8} " + " ".join(f"{x:12.2f}" for x in numbers), flush=True)
        assert len(answers) == 1, answers


if __name__ == "__main__":
    main()
