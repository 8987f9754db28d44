"""Missing cells: which cure covers the truth? Over simulated logs of a known model.

`python benchmarks/missing_cells.py [LOGS [EPISODES [SHARE]]]` (default: 500 logs per line of 1000
episodes, of whose cells 0.02 are missing at random). Patients are treated until they recover; each
step costs. A log has random actions, and a mark where an episode ended. A fixed policy is judged
by `fit.evaluate` after leaving out episodes with missing cells (`skip`), after cutting them there
(`cut`), and with all cells (`whole`). `said`: how often the check of what was left out speaks.
"""

import sys

import numpy as np
import pandas as pd

import latentmdp as lm

HORIZON, DRAWS = 20, 200
CELLS = ("context", "state", "action", "reward", "terminated")


def clinic() -> lm.LatentMDP:
    """Two kinds of illness, three states and recovery; costs until then."""
    P = np.zeros((2, 4, 2, 4))
    for m in range(2):
        for a in range(2):
            well = 0.35 if m == a else 0.12
            P[m, 0, a] = [0.45, 0.0, 0.0, 0.0]
            P[m, 0, a, 3], P[m, 0, a, 1] = well, 0.55 - well
            P[m, 1, a] = [0.2, 0.5, 0.3 - well / 2, well / 2]
            P[m, 2, a] = [0.0, 0.3, 0.7 - well / 4, well / 4]
    P[:, 3, :, 3] = 1.0
    R = np.tile(np.array([-1.0, -2.0, -4.0, 0.0])[:, None], (2, 1, 2)).astype(float)
    nu = np.tile([0.6, 0.3, 0.1, 0.0], (2, 1))
    return lm.LatentMDP.from_arrays(P, R, [0.5, 0.5], nu, HORIZON, max_return=None)


def clinic_log(model: lm.LatentMDP, episodes: int, rng: np.random.Generator) -> pd.DataFrame:
    """Whole episodes with random actions, sorted."""
    m = rng.choice(model.M, episodes, p=model.w)
    s = (np.cumsum(model.nu, axis=1)[m] < rng.random((episodes, 1))).sum(axis=1)
    chances = np.cumsum(model.P, axis=3)
    sick, parts = np.ones(episodes, dtype=bool), []
    for t in range(model.H):
        a = rng.integers(0, model.A, episodes)
        nxt = (chances[m, s, a] < rng.random((episodes, 1))).sum(axis=1).clip(max=3)
        parts.append(
            pd.DataFrame({"episode": np.arange(episodes), "step": t, "context": m, "state": s,
                          "action": a, "reward": model.R[m, s, a], "terminated": nxt == 3})[sick]
        )  # fmt: skip
        sick = sick & (nxt != 3)
        s = nxt
    return pd.concat(parts).sort_values(["episode", "step"], ignore_index=True)


def with_holes(
    log: pd.DataFrame, share: float, rng: np.random.Generator, cells: tuple[str, ...] = CELLS
) -> pd.DataFrame:
    """The same log without a share of its cells, drawn at random."""
    log = log.astype(dict.fromkeys(cells, object))
    for name in cells:
        log.loc[rng.random(len(log)) < share, name] = None
    return log


def coverage(logs: int, episodes: int, share: float, cells: tuple[str, ...] = CELLS) -> dict:
    """For each cure: share of logs whose 95% interval covers, mean error, how often it speaks."""
    model = clinic()
    policy = lm.PolicyGraph.from_table(np.tile([0, 1, 0, 0, 0], (HORIZON, 1)))
    truth = lm.evaluate(model, lm.PolicyGraph.from_table(policy.table[:, :4])).value
    known = {"contexts": range(2), "states": range(3), "actions": range(2)}
    found = {way: np.zeros(4) for way in ("whole", "skip", "cut")}
    for k in range(logs):
        rng = np.random.default_rng([k, episodes])
        log = clinic_log(model, episodes, rng)
        spoilt = with_holes(log, share, rng, cells)
        for way, table in (("whole", log), ("skip", spoilt), ("cut", spoilt)):
            fit = lm.fit(table, on_bad="raise" if way == "whole" else way, prior=0.5,
                         horizon=HORIZON, known=known)  # fmt: skip
            worth = fit.evaluate(policy.table[:, : fit.model.S], draws=DRAWS, seed=k)
            found[way] += (worth.lower <= truth <= worth.upper, worth.value - truth,
                           worth.upper - worth.lower, bool(fit.caution))  # fmt: skip
    return {way: total / logs for way, total in found.items()}


def main() -> None:
    """Print one line for each cure."""
    logs, episodes = (int(x) for x in (sys.argv[1:3] + ["500", "1000"][len(sys.argv[1:3]) :]))
    share = float(sys.argv[3]) if len(sys.argv) > 3 else 0.02
    print(f"{logs} logs of {episodes} episodes, {share:.0%} of cells missing at random; 95%")
    print(f"{'':8}covers    error    width     said")
    for way, (covers, error, width, said) in coverage(logs, episodes, share).items():
        print(f"{way:8}{covers:6.3f} {error:8.3f} {width:8.3f} {said:8.3f}", flush=True)


if __name__ == "__main__":
    main()
