"""How often `pessimistic_plan` finds the best policy of its class, by the exact oracle.

Tiny random models with random numbers of visits, both classes, four scales of the boxes. How often
bounds hold: pessimistic_coverage.py. Then seconds on a large model (720 states, 8 actions).
Run: python benchmarks/pessimism.py [problems]
"""

import sys
import time
from pathlib import Path

import numpy as np

import latentmdp as lm
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.pessimistic import LogProblem

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from optimism_exact import exact_history, exact_markov

DELTA = 0.1


def problem(rng: np.random.Generator) -> tuple[lm.LatentMDP, np.ndarray, float]:
    """A model of 2 contexts, 3 states, 2 actions and 3 steps, visits, and a scale of the radius."""
    M, S, A, H = 2, 3, 2, 3
    P = rng.dirichlet(np.full(S, 0.7), size=(M, S, A))
    R = rng.random((M, S, A)) * rng.integers(0, 2, (M, S, A)) / H
    w, nu = rng.dirichlet(np.full(M, 2.0)), rng.dirichlet(np.ones(S), size=M)
    visits = np.zeros(P.shape, dtype=int)
    for row in np.ndindex(M, S, A):
        visits[row] = rng.multinomial(int(rng.choice([0, 5, 100, 1000, 10**4, 10**5])), P[row])
    return lm.LatentMDP.from_arrays(P, R, w, nu, H), visits, float(rng.choice([1, 0.3, 0.1, 0.01]))


def search(problems: int) -> None:
    """A line for each class."""
    print("| class | problems | best found | mean shortfall | largest | ms a plan |")
    print("|---|---|---|---|---|---|")
    for policy_class, oracle in (("markov", exact_markov), ("history", exact_history)):
        rng, missing, seconds = np.random.default_rng(0), [], 0.0
        for _ in range(problems):
            model, visits, scale = problem(rng)
            began = time.process_time()
            plan = lm.pessimistic_plan(model, visits, policy_class, DELTA, bonus_scale=scale)
            seconds += time.process_time() - began
            log = LogProblem(model, visits, DELTA, None, None, None, None, None, None, scale)
            best = oracle(ConfidenceModel.of(log.known, log.counts, log.rule, log.setting))
            value = best[0] if isinstance(best, tuple) else best
            missing.append(log.in_units(float(value)) - plan.lower)
        short = np.array(missing)
        print(
            f"| {policy_class} | {problems} | {(short < 1e-9).mean():.1%} | {short.mean():.2g} | "
            f"{short.max():.2g} | {seconds / problems * 1e3:.1f} |"
        )


def large() -> None:
    """Processor seconds on 720 states, 8 actions, 2 contexts and 10 steps, 1,000 visits a row."""
    rng, sizes = np.random.default_rng(0), (2, 720, 8)
    M, S, A = sizes
    P = np.zeros((M, S, A, S))
    for row in np.ndindex(*sizes):
        P[row][rng.choice(S, 4, replace=False)] = rng.dirichlet(np.ones(4))
    R, w, nu = rng.random(sizes) / 10, np.full(M, 1 / M), np.full((M, S), 1 / S)
    model, visits = lm.LatentMDP.from_arrays(P, R, w, nu, 10), np.rint(P * 1000).astype(int)
    print("\n| class | time_limit | processor seconds | bound | bound of all policies |")
    print("|---|---|---|---|---|")
    for policy_class in ("markov", "history"):
        lm.pessimistic_plan(model, visits, policy_class, DELTA)  # compiles
        for limit in (0.5, 60.0):
            began = time.process_time()
            plan = lm.pessimistic_plan(model, visits, policy_class, DELTA, time_limit=limit)
            print(f"| {policy_class} | {limit:g} | {time.process_time() - began:.2f} | "
                  f"{plan.lower:.4f} | {plan.upper:.4f} |")  # fmt: skip


if __name__ == "__main__":
    search(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
    large()
