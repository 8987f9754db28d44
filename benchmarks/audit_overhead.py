"""What `learn(..., audit=True)` and `audit` cost, as ratios to `learn` in the same process.

    python benchmarks/audit_overhead.py

CPU seconds, the better of several repetitions; `Var*` is given, so `max_variance` is not in it.
"""

import time

import latentmdp as lm

CASES = (
    ("hard:contexts=2,states=11", 10**9),
    ("maze:size=4,goals=2,horizon=10", 10**6),
    ("garnet:contexts=2,states=6,actions=2,branching=2,horizon=8", 10**6),
)


def seconds(work, repeat=5):
    """The least CPU time of some tries."""
    found = []
    for _ in range(repeat):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found)


def main() -> None:
    """Print one line per model."""
    for spec, episodes in CASES:
        model = lm.make(spec)
        optimal = lm.plan(model, "markov", time_limit=2.0)

        def learn(audit, model=model, episodes=episodes, optimal=optimal):
            return lm.learn(model, "mvp", episodes, optimal=optimal, audit=audit)

        run = learn(True)
        lm.audit(run, variance=(0.0, 0.25))  # compiles
        plain, kept = seconds(lambda: learn(False)), seconds(lambda: learn(True))
        audit = seconds(lambda run=run: lm.audit(run, variance=(0.0, 0.25)))
        print(
            f"{spec:62s} {episodes:.0e} episodes, {run.updates} updates: learn {plain:.3f} s, "
            f"audit=True x {kept / plain:.2f}, the audit x {audit / plain:.2f}"
        )


if __name__ == "__main__":
    main()
