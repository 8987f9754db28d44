"""How often do the intervals of `fit.evaluate` cover? Over simulated logs of known models.

`python benchmarks/fitting_coverage.py [LOGS [DOMAIN ...]]` (default: 500 per line, all domains).
A log has uniformly random actions; in `noisy` domains every reward has normal noise. In those with
`ends and cuts` the last state is the end of an episode, and each step that is no end is with the
same chance the last one that was written down, without the state that came after it. Fixed: the
best Markov policy of the true model, which does not depend on the log. Chosen: the best Markov
policy of the fitted model, judged by the same log; too good: how often the truth is below its
interval. Split: chosen by one half of the log, judged by the other.
"""

import sys

import numpy as np
import pandas as pd

import latentmdp as lm

GARNET = "garnet:states=5,actions=3,contexts=3,horizon=6,seed=1"
DOMAINS = {  # name: (spec, episodes of a log, deviation of the noise on rewards, chance of a cut)
    "garnet": (GARNET, 300, 0.0, 0.0),
    "noisy garnet": (GARNET, 300, 0.1, 0.0),
    "bandit": ("bandit:arms=3,contexts=3,horizon=5,seed=0", 300, 0.0, 0.0),
    "troubleshoot": ("troubleshoot", 300, 0.0, 0.0),
    "thin garnet": (GARNET, 40, 0.0, 0.0),
    "riverswim": ("riverswim", 300, 0.0, 0.0),
    "ends and cuts": (GARNET, 300, 0.0, 0.2),
}
PRIORS = (0.0, 0.5)
DRAWS = 200


def random_log(
    model: lm.LatentMDP, episodes: int, rng: np.random.Generator, noise: float = 0.0,
    behaviour: np.ndarray | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Episodes with uniformly random actions, or by `behaviour (H, M, S, A)`, all at once."""
    start = np.cumsum(model.nu, axis=1)
    ends = np.add.reduceat(model.prob, model.indptr[:-1])
    total = np.cumsum(model.prob / np.repeat(ends, np.diff(model.indptr)))
    m = rng.choice(model.M, episodes, p=model.w)
    s = (start[m] < rng.random((episodes, 1))).sum(axis=1).clip(max=model.S - 1)
    parts = []
    for t in range(model.H):
        if behaviour is None:
            a = rng.integers(0, model.A, episodes)
        else:
            below = np.cumsum(behaviour[t, m, s], axis=1)[:, :-1]
            a = (below <= rng.random((episodes, 1))).sum(axis=1)
        row = (m * model.S + s) * model.A + a
        base = np.where(model.indptr[row] > 0, total[np.maximum(model.indptr[row] - 1, 0)], 0.0)
        i = np.searchsorted(total, base + rng.random(episodes))
        i = np.clip(i, model.indptr[row], model.indptr[row + 1] - 1)
        reward = model.reward[i] + noise * rng.standard_normal(episodes)
        parts.append(
            pd.DataFrame({"episode": np.arange(episodes), "step": t, "context": m, "state": s,
                          "action": a, "reward": reward, "next_state": model.next[i]})
        )  # fmt: skip
        s = model.next[i]
    return pd.concat(parts)


def with_end(model: lm.LatentMDP) -> lm.LatentMDP:
    """The same model, in which nothing happens any more in the last state."""
    P, R, nu = model.P.copy(), model.R.copy(), model.nu.copy()
    P[:, -1], R[:, -1], nu[:, -1] = 0.0, 0.0, 0.0
    P[:, -1, :, -1] = 1.0
    nu /= nu.sum(axis=1, keepdims=True)
    return lm.LatentMDP.from_arrays(P, R, model.w, nu, model.H, max_return=None)


def with_ends_and_cuts(
    log: pd.DataFrame, model: lm.LatentMDP, cut: float, rng: np.random.Generator
) -> pd.DataFrame:
    """The same episodes up to their ends or to where they were cut off, with marks for both."""
    last = model.S - 1
    is_cut = pd.Series(rng.random(len(log)) < cut, index=log.index) | (log["step"] == model.H - 1)
    stop = log["step"].where(is_cut).groupby(log["episode"]).transform("min")
    written = (log["state"] != last) & (log["step"] <= stop)
    ended = log["next_state"] == last
    is_cut = (log["step"] == stop) & ~ended
    log = log.assign(next_state=log["next_state"].mask(is_cut), terminated=ended, truncated=is_cut)
    return log[written]


def coverage(
    model: lm.LatentMDP, fixed: lm.PolicyGraph, episodes: int, noise: float, cut: float,
    prior: float, logs: int,
) -> dict[str, float]:  # fmt: skip
    """Shares of logs whose 95% interval covers, and the mean width of the first."""
    names = {"contexts": range(model.M), "states": range(model.S), "actions": range(model.A)}
    options = {"prior": prior, "known": names, "horizon": model.H}
    truth = lm.evaluate(model, fixed).value
    rng = np.random.default_rng(0)
    found = {"fixed": 0.0, "chosen": 0.0, "too good": 0.0, "split": 0.0, "width": 0.0}
    for k in range(logs):
        log = random_log(model, episodes, rng, noise)
        if cut:
            log = with_ends_and_cuts(log, model, cut, rng)
        fit = lm.fit(log, **options)
        worth = fit.evaluate(fixed, draws=DRAWS, seed=k)
        found["fixed"] += worth.lower <= truth <= worth.upper
        found["width"] += worth.upper - worth.lower
        best = quick_plan(fit)
        worth, real = fit.evaluate(best, draws=DRAWS, seed=k), lm.evaluate(model, best).value
        found["chosen"] += worth.lower <= real <= worth.upper
        found["too good"] += real < worth.lower
        first = log["episode"] < episodes // 2
        best = quick_plan(lm.fit(log[first], **options))
        other = lm.fit(log[~first], **options)
        worth, real = other.evaluate(best, draws=DRAWS, seed=k), lm.evaluate(model, best).value
        found["split"] += worth.lower <= real <= worth.upper
    return {name: total / logs for name, total in found.items()}


def quick_plan(fit: lm.Fit) -> lm.PolicyGraph:
    """A good Markov policy of the fitted model."""
    return lm.plan(fit.model, "markov", gap=0.01, work_limit=10**5, time_limit=5.0).policy


def main() -> None:
    """Print the table of docs/how_to_fit.md."""
    logs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"{logs} logs per line; 95% intervals; a share has a standard error of about "
          f"{(0.95 * 0.05 / logs) ** 0.5:.3f}")  # fmt: skip
    columns = ("fixed", "chosen", "too good", "split", "width")
    print(f"{'domain':14} {'episodes':>8} {'prior':>5} " + " ".join(f"{c:>8}" for c in columns))
    for name in sys.argv[2:] or DOMAINS:
        spec, episodes, noise, cut = DOMAINS[name]
        model = with_end(lm.make(spec)) if cut else lm.make(spec)
        if noise:
            model = model.replace(observe_rewards=False)
        fixed = lm.plan(model, "markov", gap=0.001, time_limit=5.0).policy
        for prior in PRIORS:
            r = coverage(model, fixed, episodes, noise, cut, prior, logs)
            print(f"{name:14} {episodes:8d} {prior:5.1f} "
                  + " ".join(f"{r[c]:8.3f}" for c in columns), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
