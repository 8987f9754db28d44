"""Saving and loading a model of 10^6 rows with 5 outcomes each, and smaller ones in every format.

Run: python benchmarks/formats.py [--rows N]
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import latentmdp as lm


def sparse_model(
    rows: int, outcomes: int = 5, contexts: int = 10, actions: int = 4
) -> lm.LatentMDP:
    """A random model with about `rows` rows."""
    rng = np.random.default_rng(0)
    S = rows // (contexts * actions)
    n = contexts * S * actions
    row = np.repeat(np.arange(n), outcomes)
    following = (row // actions % S + np.tile(np.arange(1, outcomes + 1) ** 2, n)) % S
    prob = rng.dirichlet(np.ones(outcomes), n)
    reward = np.repeat(rng.integers(0, 2, n) / 20, outcomes)
    return lm.LatentMDP.from_rows(
        row // actions // S, row // actions % S, row % actions, following, prob.reshape(-1), reward,
        np.full(contexts, 1 / contexts), np.full((contexts, S), 1 / S), 20, n_actions=actions,
    )  # fmt: skip


def measure(model: lm.LatentMDP, ending: str) -> None:
    """Print seconds to save and to load, and the size of the file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"model.{ending}"
        start = time.perf_counter()
        lm.save(model, file)
        saved = time.perf_counter()
        loaded = lm.load(file)
        done = time.perf_counter()
        equal = loaded == model
        print(
            f"{len(model.indptr) - 1:>9} rows {len(model.next):>9} outcomes  {ending:<5}"
            f" save {saved - start:6.2f} s  load {done - saved:6.2f} s"
            f"  {file.stat().st_size / 2**20:8.1f} MiB  equal {equal}"
        )


def main() -> None:
    """Time all formats at 10^4 and 10^5 rows, npz at 10^6."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10**6)
    largest = parser.parse_args().rows
    for rows in (10**4, 10**5):
        for ending in ("npz", "json", "csv"):
            measure(sparse_model(rows), ending)
    start = time.perf_counter()
    model = sparse_model(largest)
    print(f"building {largest} rows: {time.perf_counter() - start:.2f} s")
    measure(model, "npz")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of all of it: {peak:.2f} GiB")


if __name__ == "__main__":
    main()
