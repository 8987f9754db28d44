"""How far off-policy estimates are off, and how often their 95% intervals cover the truth.

    python benchmarks/off_policy.py [LOGS [EPISODES [DOMAIN ...]]]    # default: 500 logs of 400

Each log is made by random actions whose probabilities are known; the policy asked about is the best
one with memory, planned in the true model. Then mixtures: how near the transitions that EM finds
are to the true ones, by how far contexts lie apart and by the length of episodes.
"""

import itertools
import sys
import warnings

import numpy as np
from fitting_coverage import random_log

import latentmdp as lm

METHODS = ("dr", "pdis", "is", "wis", "model")
DOMAINS = (
    "bandit:arms=2,contexts=2,horizon=3,seed=0",
    "garnet:contexts=2,states=4,actions=2,horizon=4,seed=1",
    "riverswim:horizon=6",
)


def log_of(model, episodes, seed):
    """Episodes of uniformly random actions, with the chance of each."""
    log = random_log(model, episodes, np.random.default_rng(seed))
    return log.assign(chance=1.0 / model.A)


def coverage(logs, episodes, domains):
    print(f"| domain | truth | method | bias | spread | covers, of {logs} |")
    print("|---|---|---|---|---|---|")
    for spec in domains:
        model = lm.make(spec)
        model = model.replace(state_names=None, action_names=None, context_names=None)
        plan = lm.plan(model, gap=0.001)
        found = {method: [] for method in METHODS}
        for seed in range(logs):
            log = log_of(model, episodes, seed)
            for method in METHODS:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found[method].append(lm.off_policy(log, plan, "chance", method, seed=seed))
        for method, estimates in found.items():
            values = np.array([e.value for e in estimates])
            covers = sum(e.lower - 1e-9 <= plan.lower <= e.upper + 1e-9 for e in estimates)
            print(
                f"| `{spec}` | {plan.lower:.4f} | {method} "
                f"| {np.nanmean(values) - plan.lower:+.4f} "
                f"| {np.nanstd(values):.4f} | {covers} |", flush=True,
            )  # fmt: skip


def two_types(apart, horizon):
    """Two contexts in which an action leads up with probability 0.5 + or - `apart` / 2."""
    P = np.zeros((2, 2, 2, 2))
    for m, a in itertools.product((0, 1), (0, 1)):
        up = 0.5 + (apart / 2 if a == m else -apart / 2)
        P[m, :, a] = [1 - up, up]
    R = np.zeros((2, 2, 2))
    R[:, 1] = 1.0 / horizon
    return lm.LatentMDP.from_arrays(P, R, [0.6, 0.4], [1, 0], horizon)


def recovery(logs):
    print("\n| apart | steps | episodes | largest error of P, median | labels right, median |")
    print("|---|---|---|---|---|")
    for apart, horizon, episodes in itertools.product((0.8, 0.4, 0.2), (5, 20), (200, 2000)):
        model = two_types(apart, horizon)
        errors, right = [], []
        for seed in range(logs):
            log = log_of(model, episodes, seed)
            found = lm.fit(log.drop(columns="context"), context=None, contexts=2, seed=seed)
            orders = ([0, 1], [1, 0])
            errors.append(min(abs(found.model.P[o] - model.P).max() for o in orders))
            guessed = found.mixture.membership.argmax(axis=1)
            share = (guessed == log.groupby("episode")["context"].first().to_numpy()).mean()
            right.append(max(share, 1 - share))
        print(f"| {apart} | {horizon} | {episodes} | {np.median(errors):.3f} "
              f"| {np.median(right):.1%} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    logs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    episodes = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    if len(sys.argv) > 3:  # one domain alone
        coverage(logs, episodes, sys.argv[3:])
    else:
        coverage(logs, episodes, DOMAINS)
        recovery(5)
