"""How often do the intervals of `fit.evaluate` cover? Over simulated logs of known models.

`python benchmarks/fitting_coverage.py [LOGS [DOMAIN ...]]` (default: 500 per line, all domains).
A log has uniformly random actions. Fixed: the best Markov policy of the true model, which does not
depend on the log. Chosen: the best Markov policy of the fitted model, judged by the same log.
"""

import sys
import time

import numpy as np
import pandas as pd

import latentmdp as lm

DOMAINS = {  # name: (spec, episodes of a log)
    "garnet": ("garnet:states=5,actions=3,contexts=3,horizon=6,seed=1", 300),
    "bandit": ("bandit:arms=3,contexts=3,horizon=5,seed=0", 300),
    "troubleshoot": ("troubleshoot", 300),
    "riverswim": ("riverswim", 300),
    "thin garnet": ("garnet:states=5,actions=3,contexts=3,horizon=6,seed=1", 40),
}
PRIORS = (0.0, 0.1, 0.5)
DRAWS = 200


def random_log(model: lm.LatentMDP, episodes: int, rng: np.random.Generator) -> pd.DataFrame:
    """Episodes with uniformly random actions, all at once."""
    start = np.cumsum(model.nu, axis=1)
    ends = np.add.reduceat(model.prob, model.indptr[:-1])
    total = np.cumsum(model.prob / np.repeat(ends, np.diff(model.indptr)))
    m = rng.choice(model.M, episodes, p=model.w)
    s = (start[m] < rng.random((episodes, 1))).sum(axis=1).clip(max=model.S - 1)
    parts = []
    for t in range(model.H):
        a = rng.integers(0, model.A, episodes)
        row = (m * model.S + s) * model.A + a
        base = np.where(model.indptr[row] > 0, total[np.maximum(model.indptr[row] - 1, 0)], 0.0)
        i = np.searchsorted(total, base + rng.random(episodes))
        i = np.clip(i, model.indptr[row], model.indptr[row + 1] - 1)
        parts.append(
            pd.DataFrame({"episode": np.arange(episodes), "step": t, "context": m, "state": s,
                          "action": a, "reward": model.reward[i], "next_state": model.next[i]})
        )  # fmt: skip
        s = model.next[i]
    return pd.concat(parts)


def coverage(
    model: lm.LatentMDP, episodes: int, prior: float, logs: int, seed: int = 0
) -> dict[str, float]:
    """Shares of logs whose 95% interval covers, and mean widths."""
    known = {"contexts": range(model.M), "states": range(model.S), "actions": range(model.A)}
    fixed = lm.plan(model, "markov", gap=None, time_limit=20.0).policy
    truth = lm.evaluate(model, fixed).value
    rng = np.random.default_rng(seed)
    hits, chosen_hits, width, misses_above = 0, 0, 0.0, 0
    for k in range(logs):
        found = lm.fit(random_log(model, episodes, rng), prior=prior, known=known, horizon=model.H)
        worth = found.evaluate(fixed, draws=DRAWS, seed=k)
        hits += worth.lower <= truth <= worth.upper
        width += worth.upper - worth.lower
        best = lm.plan(found.model, "markov", gap=0.01, work_limit=10**5, time_limit=5.0).policy
        own, real = found.evaluate(best, draws=DRAWS, seed=k), lm.evaluate(model, best).value
        chosen_hits += own.lower <= real <= own.upper
        misses_above += real < own.lower
    return {
        "fixed": hits / logs, "chosen": chosen_hits / logs, "too good": misses_above / logs,
        "width": width / logs, "truth": truth,
    }  # fmt: skip


def main() -> None:
    """Print the table of docs/how_to_fit.md."""
    logs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"{logs} logs per line; 95% intervals; a share has a standard error of about "
          f"{(0.95 * 0.05 / logs) ** 0.5:.3f}")  # fmt: skip
    print(f"{'domain':16} {'episodes':>8} {'prior':>5} {'fixed':>6} {'chosen':>7} "
          f"{'too good':>8} {'width':>7} {'truth':>7} {'seconds':>7}")  # fmt: skip
    for name in sys.argv[2:] or DOMAINS:
        spec, episodes = DOMAINS[name]
        for prior in PRIORS:
            begun = time.perf_counter()
            r = coverage(lm.make(spec), episodes, prior, logs)
            print(f"{name:16} {episodes:8d} {prior:5.1f} {r['fixed']:6.3f} {r['chosen']:7.3f} "
                  f"{r['too good']:8.3f} {r['width']:7.4f} {r['truth']:7.4f} "
                  f"{time.perf_counter() - begun:7.1f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
