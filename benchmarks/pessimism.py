"""How often `pessimistic_plan` finds the best policy of its class, and how often bounds hold.

First by the exact oracle: tiny random models with random numbers of visits, both classes, four
scales of the radius. Then simulated logs of known models: `fit` and `plan("pessimistic")`.
Run: python benchmarks/pessimism.py [problems [logs]]
"""

import sys
import time

import numpy as np
from fitting_coverage import random_log, with_end, with_ends_and_cuts

import latentmdp as lm
from latentmdp.counts import Counts
from latentmdp.optimism.confidence import Setting
from latentmdp.optimism.known import Known
from latentmdp.optimism.model import OptimisticModel
from latentmdp.optimism.pareto import exact_history, exact_markov
from latentmdp.optimism.pessimistic import WORST_CASE

DELTA = 0.1
SPECS = (
    "garnet:states=3,actions=2,contexts=2,horizon=4,seed=2",
    "bandit:arms=2,contexts=2,horizon=4,seed=0",
)


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
            setting = Setting(model.M, model.S, model.A, model.H, 1, DELTA, scale)
            counts = Counts.from_visits(visits)
            best = oracle(OptimisticModel.of(Known.of(model), counts, WORST_CASE, setting))
            missing.append((best[0] if isinstance(best, tuple) else best) - plan.lower)
        short = np.array(missing)
        print(
            f"| {policy_class} | {problems} | {(short < 1e-9).mean():.1%} | {short.mean():.2g} | "
            f"{short.max():.2g} | {seconds / problems * 1e3:.1f} |"
        )


def bounds(logs: int, delta: float = 0.1) -> None:
    """A line for each kind of log: how often the certified value is below the true one."""
    print("\n| domain | rewards | episodes | bound holds | mean bound | mean true value |")
    print("|---|---|---|---|---|---|")
    lines = [(spec, "fixed", episodes) for spec in SPECS for episodes in (40, 3000)]
    lines += [(SPECS[0], "coins", 300), (SPECS[0], "coins", 10000), (SPECS[0], "fixed, cut", 3000)]
    for spec, rewards, episodes in lines:
        cut = rewards == "fixed, cut"  # the last state is an end, other steps may be cut off
        model, rng = lm.make(spec), np.random.default_rng(0)
        if cut:
            model = with_end(model)
        names = {"contexts": range(model.M), "states": range(model.S), "actions": range(model.A)}
        found = np.empty((logs, 2))
        for k in range(logs):
            log = random_log(model, episodes, rng)
            if cut:
                log = with_ends_and_cuts(log, model, 0.2, rng)
            if rewards == "coins":  # 0 or 1, with the model's reward as the chance of 1
                log["reward"] = (rng.random(len(log)) < log["reward"]) * 1.0
            fit = lm.fit(log, known=names, horizon=model.H, observe_rewards=False)
            plan = fit.plan("pessimistic", "markov", delta=delta, draws=2, reward_range=(0, 1))
            found[k] = plan.score, lm.evaluate(model, plan.policy).value
        held = (found[:, 0] <= found[:, 1] + 1e-9).sum()
        print(f"| `{spec}` | {rewards} | {episodes} | {held} of {logs} | "
              + " | ".join(f"{x:.3f}" for x in found.mean(axis=0)) + " |", flush=True)  # fmt: skip


if __name__ == "__main__":
    search(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
    bounds(int(sys.argv[2]) if len(sys.argv) > 2 else 500)
