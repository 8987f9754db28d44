"""Build a model of 10^6 rows with 5 outcomes each: seconds and peak memory.

Run: python benchmarks/build_model.py
"""

import resource
import time

import numpy as np

import latentmdp as lm


def main() -> None:
    M, S, A, branching = 10, 10_000, 10, 5
    rng = np.random.default_rng(0)
    rows = M * S * A
    # distinct next states of a row: a random start and random gaps, modulo S
    nxt = np.cumsum(rng.integers(1, S // branching, (rows, branching)), axis=1) % S
    prob = rng.random((rows, branching))
    prob /= prob.sum(axis=1, keepdims=True)
    reward = np.repeat(rng.random(rows) / 100, branching)
    row = np.repeat(np.arange(rows), branching)
    columns = [row // (S * A), row // A % S, row % A, nxt.reshape(-1), prob.reshape(-1), reward]
    shuffled = rng.permutation(len(row))  # the hard case: outcomes in no order
    columns = [column[shuffled] for column in columns]
    del row, nxt, prob, reward, shuffled
    nu = np.full((M, S), 1 / S)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    model = lm.LatentMDP.from_rows(*columns, np.full(M, 1 / M), nu, 100)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{model}: {rows} rows, {len(model.prob)} outcomes")
    print(f"built in {seconds:.1f} s; peak memory of the process {after / 2**20:.2f} GiB,")
    print(f"of which {before / 2**20:.2f} GiB before building (the columns and their making)")


if __name__ == "__main__":
    main()
