"""What it costs to plan a step-dependent model: against the same model said to be stationary.

    python benchmarks/timed_planning.py [SPEC ...]

Both are planned to a gap of 1% by the same planner; the dynamics are equal at all steps, so the
optimum is the same. Prints the CPU seconds (best of three, after a first run that loads kernels)
and ratios; `>` where the time limit of ten seconds ended the plan.
"""

import sys
import time

import numpy as np

import latentmdp as lm

SPECS = (
    "riverswim", "troubleshoot", "bandit", "maze:size=3,goals=2,horizon=8",
    "garnet:states=4,actions=2,contexts=2,horizon=5", "garnet:states=10,horizon=10",
)  # fmt: skip
REPEATS = 3
GAP, TIME_LIMIT = 0.01, 10.0


def step_dependent(model: lm.LatentMDP) -> lm.LatentMDP:
    """The same model with its dynamics written out for every step."""
    P, R = (np.repeat(x[None], model.H, axis=0) for x in (model.P, model.R))
    return lm.LatentMDP.from_arrays(
        P, R, model.w, model.nu, model.H, observe_rewards=model.observe_rewards, max_return=None
    )


def seconds(model: lm.LatentMDP, policy_class: str) -> tuple[float, bool]:
    """The least time of a plan, and whether it reached the gap."""
    taken = []
    for _ in range(1 + REPEATS):
        begun = time.process_time()
        closed = lm.plan(model, policy_class, gap=GAP, time_limit=TIME_LIMIT).gap <= GAP
        taken.append(time.process_time() - begun)
        if not closed:
            break
    return min(taken[1:] or taken), closed


def main(specs: list[str]) -> None:
    """One line per model and class."""
    for spec in specs or SPECS:
        model = lm.make(spec)
        timed = step_dependent(model)
        for policy_class in ("history", "markov"):
            one, closed = seconds(model, policy_class)
            if not closed:
                continue
            many, closed = seconds(timed, policy_class)
            print(
                f"{spec:32} {policy_class:8} {one:8.3f} s stationary, {many:8.3f} s step-dependent,"
                f" {'' if closed else '> '}{many / one:.1f} times",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
