"""Logs without contexts: how often guessed labels are right, and how often the verdict is.

    python benchmarks/mixture_verdict.py [LOGS [KIND ...]]      # default: 50 logs of each kind

Two contexts, random actions. `right` is the share of episodes with the right label under the best
matching, `all the same` what one label for all would reach. `shown` counts the logs of which the
verdict says "These data show 2 kinds of episodes"; in `one context` that is false.
"""

import itertools
import sys
import warnings

import numpy as np
from fitting_coverage import random_log
from off_policy import two_types

import latentmdp as lm


def unbalanced(model, w):
    return lm.LatentMDP.from_arrays(model.P, model.R, w, model.nu, model.H)


def thin(states=120, actions=4, horizon=6):
    """Hundreds of rows, each seen a few times; contexts differ in all of them by half."""
    rng = np.random.default_rng(0)
    P = np.zeros((2, states, actions, states))
    for s, a in itertools.product(range(states), range(actions)):
        after = rng.choice(states, 4, replace=False)
        P[0, s, a, after] = rng.dirichlet(np.ones(4))
        P[1, s, a, after] = 0.5 * P[0, s, a, after] + 0.5 * rng.dirichlet(np.ones(4))
    R, nu = np.zeros((2, states, actions)), np.full((2, states), 1.0 / states)
    return lm.LatentMDP.from_arrays(P, R, [0.79, 0.21], nu, horizon)


KINDS = {
    "apart by 0.8": (two_types(0.8, 10), 300),
    "apart by 0.4": (two_types(0.4, 10), 300),
    "apart by 0.2": (two_types(0.2, 10), 300),
    "one context": (two_types(0.0, 10), 300),
    "0.79 to 0.21, apart by 0.4": (unbalanced(two_types(0.4, 10), [0.79, 0.21]), 300),
    "0.79 to 0.21, 480 thin rows": (thin(), 1000),
}


def main(logs, wanted):
    print("| contexts | episodes | right | all the same | gain per episode | shown | "
          "adjusted Rand index | said to be right |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    for kind, (model, episodes) in KINDS.items():
        if wanted and kind not in wanted:
            continue
        rows = []
        for seed in range(logs):
            log = random_log(model, episodes, np.random.default_rng(seed))
            truth = log.groupby("episode")["context"].first().to_numpy()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = lm.fit(log.drop(columns="context"), context=None, contexts=2, seed=seed)
            guessed = found.mixture.membership.argmax(axis=1)
            right = max((guessed == truth).mean(), (guessed != truth).mean())
            same = max(truth.mean(), 1 - truth.mean()) if kind != "one context" else np.nan
            verdict = found.mixture.verdict
            rows.append((right, same, verdict.gain, verdict.shown, verdict.stability, verdict.sure))
        right, same, gain, shown, index, sure = np.array(rows, dtype=float).T
        if kind == "one context":
            right = right * np.nan
        print(
            f"| {kind} | {episodes:,} | {right.mean():.3f} | {same.mean():.3f} | {gain.mean():+.3f}"
            f" | {shown.sum():.0f} of {logs} | {np.median(index):.2f} | {sure.mean():.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50, sys.argv[2:])
