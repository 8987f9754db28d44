"""Planning without a last step: seconds, bounds and sizes of controllers, as a Markdown table.

    python benchmarks/plan_infinite.py [FILE.npz or .pomdpx ...]

Rewards are hidden. Files keep their discount, unless it is 1: then it is 0.95.
"""

import math
import sys

import latentmdp as lm

SPECS = [
    ("maze:size=5,goals=4,seed=0", 0.99),
    ("maze:size=7,goals=8,seed=0", 0.99),
    ("garnet:contexts=5,states=20,actions=3,branching=3,shared_support=1,seed=0", 0.95),
    ("riverswim:states=6,contexts=3", 0.95),
    ("riverswim:states=6,contexts=3", 0.99),
]
SECONDS = 30.0


def problems(paths):
    """`(name, model)` of all specs and files."""
    for spec, discount in SPECS:
        model = lm.make(spec, observe_rewards=False)
        yield spec, model.replace(discount=discount, horizon=math.inf, max_return=None)
    for path in paths:
        model = lm.load(path, observe_rewards=False, horizon=10)
        discounts = [model.discount if model.discount < 1 else 0.95]
        for discount in discounts + [0.99] * (discounts[0] == 0.9):
            changes = {"discount": discount, "horizon": math.inf, "max_return": None}
            yield path.rsplit("/", 1)[-1], model.replace(**changes)


def main():
    """Plan each to 1 % and 0.1 %, then without memory."""
    print(
        "| model | discount | gap asked | seconds | lower | upper | status | nodes of the policy |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, model in problems(sys.argv[1:]):
        lm.plan(model, gap=0.5, time_limit=1.0)  # loads kernels
        for policy_class, gap in (("history", 0.01), ("history", 0.001), ("markov", 0.001)):
            plan = lm.plan(model, policy_class, gap=gap, time_limit=SECONDS)
            what = f"{gap:.1%}" + ", Markov" * (policy_class == "markov")
            print(
                f"| {name} | {model.discount} | {what} | {plan.seconds:.2f} | {plan.lower:.6g} | "
                f"{plan.upper:.6g} | {plan.status} | {plan.policy.N:,} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
