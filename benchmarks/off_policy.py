"""How far off-policy estimates are off, and how often their 95% intervals cover the truth.

    python benchmarks/off_policy.py [LOGS [EPISODES [DOMAIN ...]]]    # default: 500 logs of 400
    python benchmarks/off_policy.py behaviour [LOGS [KIND ...]]       # behaviour estimated

Each log is made by random actions whose probabilities are known; the policy asked about is the best
one with memory, planned in the true model. With `behaviour`, who acts in the log goes by the state,
by the step, or by the hidden context; the probabilities are estimated from the log, and given for
comparison. Then mixtures: how near the transitions that EM finds are to the true ones, by how far
contexts lie apart and by the length of episodes.
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


def choices(rng, model, kind):
    """`(H, M, S, A)` how likely each action is, half at random; `kind`: what it depends on."""
    sizes = (("step", model.H), ("context", model.M), ("state", model.S))
    shares = rng.dirichlet(np.ones(model.A), size=[n if name in kind else 1 for name, n in sizes])
    shares = 0.5 / model.A + 0.5 * shares
    return np.broadcast_to(shares, (model.H, model.M, model.S, model.A))


def clinic():
    """Three diagnoses, 8 severities and 3 symptoms: the right one of three treatments helps most.

    With it come doctors who know the diagnosis and give the right treatment in 3 of 4 visits.
    """
    M, levels, symptoms, A, H = 3, 8, 3, 3, 6
    S = levels * symptoms
    P, R, nu = np.zeros((M, S, A, S)), np.zeros((M, S, A, S)), np.zeros((M, S))
    for m in range(M):
        shown = np.where(np.arange(symptoms) == m, 0.6, 0.2)
        nu[m, (levels // 2) * symptoms :][:symptoms] = shown
        for level, y, a in itertools.product(range(levels), range(symptoms), range(A)):
            s = level * symptoms + y
            if level in (0, levels - 1):
                P[m, s, a, s] = 1.0
                continue
            better = 0.75 if a == m else 0.35
            for change, chance in ((-1, better), (1, 1.0 - better)):
                after = (level + change) * symptoms
                P[m, s, a, after : after + symptoms] += chance * shown
            R[m, s, a, :symptoms] = 1.0
    model = lm.LatentMDP.from_arrays(P, R, [0.5, 0.3, 0.2], nu, H)
    doctors = np.full((H, M, S, A), 0.125)
    doctors[:, np.arange(M), :, np.arange(M)] = 0.75
    return model, doctors


def kinds():
    """`{name: (model, policy asked about, behaviour (H, M, S, A), episodes)}`."""
    rng = np.random.default_rng(0)
    small = lm.make("garnet:contexts=2,states=4,actions=2,horizon=4,seed=1")
    large = lm.make("garnet:contexts=2,states=20,actions=3,horizon=4,seed=2")
    best, plan = lm.plan(small, gap=0.001).policy, lm.plan(large, gap=0.01).policy
    table = rng.integers(0, small.A, (small.H, small.S))
    fixed = np.zeros((small.H, small.M, small.S, small.A))
    fixed[np.arange(small.H)[:, None], :, np.arange(small.S), table] = 1.0
    hospital, doctors = clinic()
    treat = lm.plan(hospital, gap=0.01).policy
    return {
        "one policy by step, asked about itself":
            (small, lm.PolicyGraph.from_table(table), fixed, 400),
        "by state": (small, best, choices(rng, small, "state"), 400),
        "by step and state": (small, best, choices(rng, small, "step state"), 400),
        "by context and state": (small, best, choices(rng, small, "context state"), 400),
        "by context, step and state": (small, best, choices(rng, small, "context step state"), 400),
        "doctors who know the diagnosis": (hospital, treat, doctors, 400),
        "20 states, 150 episodes, by state": (large, plan, choices(rng, large, "state"), 150),
        "20 states, 150 episodes, by context and state":
            (large, plan, choices(rng, large, "context state"), 150),
    }  # fmt: skip


def estimated(logs, wanted):
    """Coverage where behaviour is estimated from the log, and where it is given."""
    print(f"| who acted | episodes | truth | method | bias | median width | covers, of {logs} "
          "| covers, given | warned of history | effective |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind, (model, policy, behaviour, episodes) in kinds().items():
        if wanted and not any(word in kind for word in wanted):
            continue
        truth = lm.evaluate(model, policy).value
        found = {(method, given): [] for method in ("is", "pdis", "wis", "dr") for given in (0, 1)}
        for seed in range(logs):
            log = random_log(model, episodes, np.random.default_rng(seed), behaviour=behaviour)
            for (method, given), estimates in found.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    known = behaviour if given else None
                    estimates.append(
                        lm.off_policy(log, policy, known, method, model=model, seed=seed)
                    )
        for method in ("is", "pdis", "wis", "dr"):
            covers = [
                sum(e.lower - 1e-9 <= truth <= e.upper + 1e-9 for e in found[method, given])
                for given in (0, 1)
            ]
            estimates = found[method, 0]
            bias = np.nanmean([e.value for e in estimates]) - truth
            width = np.median([e.upper - e.lower for e in estimates])
            warned = sum("depend on more" in e.warning for e in estimates)
            effective = np.median([e.effective_episodes for e in estimates])
            print(
                f"| {kind} | {episodes} | {truth:.4f} | {method} | {bias:+.4f} | {width:.3f} "
                f"| {covers[0]} | {covers[1]} | {warned} | {effective:.0f} |", flush=True,
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
    if sys.argv[1:2] == ["behaviour"]:
        estimated(int(sys.argv[2]) if len(sys.argv) > 2 else 500, sys.argv[3:])
        sys.exit()
    logs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    episodes = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    if len(sys.argv) > 3:  # one domain alone
        coverage(logs, episodes, sys.argv[3:])
    else:
        coverage(logs, episodes, DOMAINS)
        recovery(5)
