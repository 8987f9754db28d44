"""From a log to a policy, and then the truth: the policy tried on the machines behind the log.

Usually nobody can do the last part. Here the log is made up (`maintenance_log.py`), so one can:
what the fit promised stands beside what 20,000 new machines earn.

Run: python examples/maintenance_policy.py
"""

import random
import statistics
from pathlib import Path

import maintenance_log as machines

import latentmdp as lm

LOG = Path(__file__).with_name("maintenance_log.csv")


class Mechanic:
    """Follows a policy graph; sees conditions, not profits."""

    def __init__(self, found: lm.Fit, policy: lm.PolicyGraph) -> None:
        self.found, self.policy = found, policy
        self.cursor = None

    def __call__(self, week: int, condition: str, draw: random.Random) -> str:
        state = self.found.names["states"].index(condition)
        if week == 0:
            self.cursor = self.policy.cursor(state)
        else:
            self.cursor.observe(state, accept_unexpected=True)
        return self.found.names["actions"][self.cursor.action]


def earned(choose, jobs: int = 20_000, seed: int = 1) -> tuple[float, float]:
    """Mean profit of new machines, and its standard error."""
    draw = random.Random(seed)
    totals = []
    for _ in range(jobs):
        fault = draw.choices(list(machines.FAULTS), list(machines.FAULTS.values()))[0]
        totals.append(sum(row[3] for row in machines.work(fault, draw, choose)))
    return statistics.fmean(totals), statistics.stdev(totals) / jobs**0.5


def main() -> None:
    columns = {
        "episode": "job", "step": "week", "state": "condition", "reward": "profit",
        "context": "fault", "terminated": "stopped",
    }  # fmt: skip
    found = lm.fit(LOG, **columns)
    print(found.summary(), "\n")
    print(f"what was done       earns {earned(machines.habit)[0]:6.2f} on new machines")
    for objective in ("safe", "mean"):
        for name in ("markov", "history"):
            plan = found.plan(objective, name, time_limit=20.0)
            value, error = earned(Mechanic(found, plan.policy))
            which = f"{objective} {name}"
            print(f"{which:18}  earns {value:6.2f} (+- {2 * error:.2f}); promised {plan.worth}")
    half = lm.fit(LOG, **columns, holdout=0.5)
    plan = half.plan("mean", "history", time_limit=20.0)
    value, error = earned(Mechanic(half, plan.policy))
    judged = half.held_out.evaluate(plan)
    print(f"chosen by one half  earns {value:6.2f} (+- {2 * error:.2f}); the other says {judged}")


if __name__ == "__main__":
    main()
