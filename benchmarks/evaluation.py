"""Backward induction for one context beside QuantEcon's, and evaluation of a policy graph.

M = 1, S = 1000, A = 10, 20 steps, 20 outcomes per row; the best of several calls, both compiled.
Run: python benchmarks/evaluation.py
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import quantecon
import scipy.sparse

import latentmdp as lm


def best_of(function: Callable[[], Any], repeats: int = 20) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    S, A, H, branching = 1000, 10, 20, 20
    model = lm.make(
        f"garnet:states={S},actions={A},contexts=1,branching={branching},horizon={H},seed=0"
    )
    Q = scipy.sparse.csr_matrix((model.prob, model.next, model.indptr), shape=(S * A, S))
    s, a = np.divmod(np.arange(S * A), A)
    ddp = quantecon.markov.DiscreteDP(model.row_reward, Q, 1 - 1e-12, s, a)
    theirs, _ = quantecon.markov.backward_induction(ddp, H)
    ours, actions = lm.context_optimal(model)
    print(f"S={S}, A={A}, H={H}, {branching} outcomes per row; largest difference "
          f"{np.abs(theirs - ours[:, 0]).max():.1e}")  # fmt: skip
    policy = lm.PolicyGraph.from_table(actions[:, 0])
    for _ in range(2):
        q = best_of(lambda: quantecon.markov.backward_induction(ddp, H))
        us = best_of(lambda: lm.context_optimal(model))
        ev = best_of(lambda: lm.evaluate(model, policy))
        print(f"QuantEcon {q * 1e3:.2f} ms, latentmdp {us * 1e3:.2f} ms, ratio {q / us:.2f}; "
              f"evaluating the policy (value and variance) {ev * 1e3:.2f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
